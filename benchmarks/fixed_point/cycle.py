"""Figure 2 of Sheth & Khardon (fixed point): the covariance's iteration falls into a cycle of two, and what cures it.

The mean is the optimum's, S begins at the prior. Three sets: 200 rows of 150 normal columns; rows like the paper's
wlan-inout, simulated; and one row that counted nothing in a short exposure (offset -10, prior variance 40).
Rates: 1, the paper's 1/2 and that of the certificate at the optimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report, store_figure
from benchmarks.fixed_point._data import WLAN_ROWS, _wlan, likelihood
from benchmarks.fixed_point._maps import GLM, Jacobian, Run, certificate, iterated, optimum

#: Rows of the figure: those whose w moves most at rate 1.
SHOWN = 3


def sets(quick: bool) -> dict[str, GLM]:
    rng = np.random.default_rng(0)
    X, w = 2.0 * rng.standard_normal((200, 150)), rng.standard_normal(150)
    y = (rng.random(200) < 1.0 / (1.0 + np.exp(-0.5 * (X @ w)))).astype(int)
    wlan = _wlan(*((300, 60) if quick else (WLAN_ROWS, 466)))
    return {
        "normal, 200 x 150": GLM(X, y, likelihood("logit")),
        f"wlan-inout, simulated, {wlan.X.shape[0]} x {wlan.X.shape[1]}": GLM(wlan.X, wlan.y, likelihood("logit")),
        "no events, 1 x 1": GLM(np.ones((1, 1)), np.zeros(1), likelihood("poisson"), 1.0 / 40.0, -10.0),
    }


def rows_of(name: str, glm: GLM) -> tuple[list[dict[str, Any]], dict[str, Run]]:
    """A row for each rate, and the runs."""
    m, S, best = optimum(glm)
    found = certificate(Jacobian(glm, S, glm.at(m, S)).fixed, len(glm.y), tol=1e-4)
    rows, runs = [], {}
    for label, rate in (("1", 1.0), ("1/2", 0.5), ("certificate", found.rate)):
        run = runs[label] = iterated(glm, m, rate)
        last, one, two = run.w[-1], run.w[-2], run.w[-3]
        rows.append(
            {
                "data": name,
                "mu": found.mu,
                "safe below": found.safe,
                "rate": rate,
                "from": label,
                "end": run.end,
                "steps": run.steps,
                "last change of w": float(np.max(np.abs(last - one))),
                "change over two steps": float(np.max(np.abs(last - two))),
                "bound - best": glm.bound(m, glm.covariance(last)) - best,
                "one step before": glm.bound(m, glm.covariance(one)) - best,
            }
        )
        progress(rows[-1])
    return rows, runs


def draw(name: str, runs: dict[str, Run]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    undamped = runs["1"].w
    moving: Array = np.argsort(-np.abs(undamped[-1] - undamped[-2]))[:SHOWN]
    figure, axes = plt.subplots(1, SHOWN, figsize=(12, 3.4), layout="constrained")
    for ax, row in zip(axes, moving, strict=True):
        for label, run in runs.items():
            ax.plot(run.w[1:31, row], marker="o", markersize=2.5, lw=1, label=f"rate {label}")
        ax.set(xlabel="update", ylabel="w", title=f"row {row}")
    axes[0].legend(fontsize=8)
    figure.suptitle(name)
    store_figure("fixed_point/cycle", figure)


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for name, glm in sets(quick).items():
        found, runs = rows_of(name, glm)
        rows += found
        if not quick and name.startswith("normal"):
            draw(name, runs)
    notes = [
        "w = -E l'' of the rows, at most 500 steps; nats below the optimum of m and S, after the last step and the one "
        "before. The figure is results/fixed_point/cycle.png.",
    ]
    report("fixed_point/cycle", "The cycle and its cure (Figure 2)", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
