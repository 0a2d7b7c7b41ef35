"""A certificate for the fixed point: does the spectrum of its Jacobian say, before a step, whether it converges?

Random designs: 30 to 120 rows, a tenth to twice as many columns of standard deviation 1/2 to 4, four likelihoods.
The mean is the optimum's; the covariance begins at the rows' curvature at that mean, and a second time at the prior, as
in the paper's Figure 2; 2,000 steps at the most. Predicted is "converges" where mu < 1, with -mu the least eigenvalue
of the Jacobian at the optimum. "At every q" takes the rate 2 / (2 + mu) from the certificate at the q of each step, 500
of them at the most, with no look at the optimum and none at the bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report, store_figure
from benchmarks.fixed_point._data import LIKELIHOODS, design
from benchmarks.fixed_point._maps import GLM, Certificate, Curvature, Jacobian, certificate, iterated, optimum

#: Steps after which an iteration that neither settled nor cycles is "open".
STEPS, CERTIFIED_STEPS = 2000, 500
#: Relative change of a Rayleigh quotient at which power iteration ends: at the optimum, and before each step.
FINE, COARSE = 1e-5, 1e-2


def at_every_q(glm: GLM, products: list[int]) -> Any:
    """The rate from the certificate at each q; counts its products."""

    def rate(S: Array, here: Curvature) -> float:
        found = certificate(Jacobian(glm, S, here).fixed, len(glm.y), tol=COARSE)
        products.append(found.products)
        return found.rate

    return rate


def row(number: int, largest: int) -> dict[str, Any]:
    """One design: what is predicted, and what happens."""
    name, spread, glm = design(number, largest)
    n, columns = glm.X.shape
    m, S, _ = optimum(glm)
    jacobian = Jacobian(glm, S, glm.at(m, S))
    sizes = {"fixed": n, "solved": n, "natural": 2 * n}
    found: dict[str, Certificate] = {
        kind: certificate(getattr(jacobian, kind), size, tol=FINE, most=500) for kind, size in sizes.items()
    }
    own, products = found["fixed"], list[int]()
    narrow, every = -glm.likelihood.derivatives(glm.y, glm.linear(m))[2], at_every_q(glm, products)
    runs = {
        "rate 1": iterated(glm, m, 1.0, STEPS, narrow),
        "rate 1/2": iterated(glm, m, 0.5, STEPS, narrow),
        "certified": iterated(glm, m, own.rate, STEPS, narrow),
        "at every q": iterated(glm, m, every, CERTIFIED_STEPS, narrow),
        "rate 1, prior": iterated(glm, m, 1.0, STEPS),
        "at every q, prior": iterated(glm, m, every, CERTIFIED_STEPS),
    }
    beside = jacobian.here.g * (1.0 + 1e-3 * np.random.default_rng(number).standard_normal(n))
    below, above = (iterated(glm, m, share * own.safe, STEPS, beside).end for share in (0.97, 1.03))
    return {
        "design": number,
        "likelihood": name,
        "rows": n,
        "columns": columns,
        "spread": spread,
        "mu": own.mu,
        "mu, mean solved": found["solved"].mu,
        "mu, both natural": found["natural"].mu,
        "predicted": "converges" if own.mu < 1 else "cycles",
        **{name: run.end for name, run in runs.items()},
        "97 % of the limit": below,
        "103 %": above,
        "right": (own.mu < 1) == (runs["rate 1"].end == "converged"),
        "right, prior": (own.mu < 1) == (runs["rate 1, prior"].end == "converged"),
        **{f"steps, {name}": run.steps for name, run in runs.items()},
        "products": own.products,
        "products a step": float(np.mean(products)) if products else 0.0,
    }


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line for each likelihood, and one for all."""
    lines = []
    for name in (*LIKELIHOODS, "all"):
        mine = [row for row in rows if name in (row["likelihood"], "all")]
        lines.append(
            {
                "likelihood": name,
                "designs": len(mine),
                "predicted to cycle": sum(row["predicted"] == "cycles" for row in mine),
                "predicted rightly": sum(row["right"] for row in mine),
                "rightly, from the prior": sum(row["right, prior"] for row in mine),
                "rate 1 converges": sum(row["rate 1"] == "converged" for row in mine),
                "rate 1/2": sum(row["rate 1/2"] == "converged" for row in mine),
                "certified rate": sum(row["certified"] == "converged" for row in mine),
                "rate at every q": sum(row["at every q"] == "converged" for row in mine),
                "at every q, from the prior": sum(row["at every q, prior"] == "converged" for row in mine),
                "97 % of the limit": sum(row["97 % of the limit"] == "converged" for row in mine),
                "103 %": sum(row["103 %"] == "converged" for row in mine),
                "largest mu": max(row["mu"] for row in mine),
                "mean solved cycles too": sum(row["mu, mean solved"] > 1 for row in mine),
                "both natural cycles": sum(row["mu, both natural"] > 1 for row in mine),
                "ordered": sum(
                    row["mu, mean solved"] <= row["mu"] + 0.01 and row["mu"] <= row["mu, both natural"] + 0.01
                    for row in mine
                ),
                "median steps, certified": float(np.median([row["steps, certified"] for row in mine])),
                "median steps, rate 1/2": float(np.median([row["steps, rate 1/2"] for row in mine])),
                "median products": float(np.median([row["products"] for row in mine])),
                "median products, a step": float(np.median([row["products a step"] for row in mine])),
            }
        )
    return lines


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for end, color in (("converged", "tab:blue"), ("cycle", "tab:red"), ("open", "tab:orange"), ("diverged", "k")):
        mine = [row for row in rows if row["rate 1"] == end]
        ax.scatter(
            [max(row["mu"], 1e-3) for row in mine],
            [row["steps, rate 1"] for row in mine],
            s=18,
            color=color,
            label=f"rate 1: {end} ({len(mine)})",
        )
    every = [max(row["mu"], 1e-3) for row in rows]
    ax.scatter(every, [row["steps, certified"] for row in rows], s=10, marker="x", color="0.4", label="certified rate")
    ax.axvline(1.0, color="k", lw=0.8)
    ax.set(xscale="log", yscale="log", xlabel="mu: minus the least eigenvalue of the Jacobian", ylabel="steps")
    ax.legend(fontsize=8)
    store_figure("fixed_point/certificate", figure)


def main(quick: bool = False) -> None:
    rows = []
    for number in range(8 if quick else 100):
        rows.append(row(number, 60 if quick else 120))
        progress(rows[-1])
    notes = [
        "Columns up to the largest mu count designs: those whose outcome is predicted rightly, and those that "
        "converge, the last two at 97 % and 103 % of the largest rate 2 / (1 + mu) from 0.1 % beside the optimum. "
        "Then those that cycle by mu of the map with the mean solved for after each step (FPi), of "
        "natural steps on both, and those where mu (FPi) <= mu (mean fixed) <= mu (both natural), to 0.01. "
        "Products with the Jacobian are those of power iteration to a relative change of "
        f"{FINE:g}, and before each step of {COARSE:g}.",
    ]
    report("fixed_point/certificate", "Does the certificate foretell the cycle?", summary(rows), notes, quick)
    report("fixed_point/certificate_designs", "The random designs", rows, [], quick)
    if not quick:
        draw(rows)


if __name__ == "__main__":
    main(arguments(__doc__))
