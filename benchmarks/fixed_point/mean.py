"""Figure 3 of Sheth & Khardon (fixed point): natural steps of size 1 on mean and covariance, nothing damped.

Beside the outcome of each set: mu at its optimum (minus the least eigenvalue of the map's Jacobian) of natural steps on
both, of the covariance at a fixed mean (the inner loop of FPb), and with the mean solved for (FPi). Below 1 the
iteration contracts there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report, store_figure
from benchmarks.fixed_point._data import SETS, SMALL, Rows, available, likelihood
from benchmarks.fixed_point._maps import GLM, Jacobian, certificate, optimum
from benchmarks.fixed_point._methods import Objective, run

#: CPU seconds of a method; relative change at which power iteration ends.
LIMIT, TOL = 4.0, 1e-3
#: Sets of the figure, one for each way that natural steps of size 1 end.
SHOWN = ("musk", "usps", "abalone")


def spectrum(data: Rows) -> tuple[dict[str, float], float]:
    """mu of the three maps at the optimum, and its bound."""
    glm = GLM(data.X, data.y, likelihood(data.likelihood))
    m, S, best = optimum(glm)
    jacobian, n = Jacobian(glm, S, glm.at(m, S)), len(data.y)
    found = {
        "mu, both natural": certificate(jacobian.natural, 2 * n, tol=TOL).mu,
        "mu, mean fixed": certificate(jacobian.fixed, n, tol=TOL).mu,
        "mu, mean solved": certificate(jacobian.solved, n, tol=TOL).mu,
    }
    return found, best


def outcome(problem: Objective, end: str, best: float) -> str:
    """Where an undamped run led."""
    bounds = np.array([bound for _, _, bound in problem.trace])
    if end in ("no number", "not positive definite"):
        return "diverges"
    if best - bounds[-1] < 1e-3:
        return "optimum"
    # A bound that goes up and down converges where both of its ends rise, by more than a cycle's drift.
    if end == "seconds" and np.all(bounds[-2:] - bounds[-4:-2] > 1e-4 * abs(bounds[-1] - bounds[-2])):
        return "cut off"
    return "diverges" if best - bounds[-1] > 10.0 * abs(best) else "inferior"


def row_of(name: str, data: Rows, limit: float) -> tuple[dict[str, Any], dict[str, Objective], float]:
    """A set: what the Jacobians say, and what happens."""
    mu, best = spectrum(data)
    problems: dict[str, Objective] = {}
    row: dict[str, Any] = {"data": name, "rows": data.X.shape[0], "columns": data.X.shape[1], **mu}
    for method in ("FP for the mean", "FPi", "FPb"):
        problem, end = run(method, data.X, data.y, likelihood(data.likelihood), limit, patient=True)
        problems[method] = problem
        row[method] = outcome(problem, end, best) if problem.trace else "diverges"
        row[f"iterations, {method}"] = len(problem.trace)
    bounds = [bound for _, _, bound in problems["FP for the mean"].trace]
    row["lowest bound - best"] = min(bounds) - best
    row["last bound - best"] = bounds[-1] - best
    progress(row)
    return row, problems, best


def draw(panels: dict[str, tuple[dict[str, Objective], float]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(4 * len(panels), 3.6), layout="constrained", squeeze=False)
    for ax, (title, (problems, best)) in zip(axes[0], panels.items(), strict=True):
        for method, problem in problems.items():
            short = [max(best - bound, 1e-8) for _, _, bound in problem.trace[:60]]
            ax.plot(np.arange(1, len(short) + 1), short, marker=".", lw=1, label=method)
        ax.set(xscale="log", yscale="log", xlabel="iteration", title=title)
    axes[0, 0].set_ylabel("best bound - bound, nats")
    axes[0, 0].legend(fontsize=8)
    store_figure("fixed_point/mean", figure)


def main(quick: bool = False) -> None:
    sets: dict[str, Callable[[], Rows]] = SMALL if quick else SETS
    rows, panels = [], {}
    for name, data in available(sets):
        row, problems, best = row_of(name, data, 5.0 if quick else LIMIT)
        rows.append(row)
        if name in SHOWN:
            panels[name] = problems, best
    if not rows:
        return
    notes = [
        f"From m = 0 and V = I / max x'x, at most 500 iterations and {LIMIT:g} CPU seconds; a rise of the objective "
        "ends nothing here. Optimum: within 0.001 nats; diverges: no number, no precision, or more than ten times its "
        "size away; cut off: out of time, its bounds still rising; else inferior. Lowest and last bound are of natural "
        "steps on both, nats.",
    ]
    report("fixed_point/mean", "The fixed point for the mean (Figure 3)", rows, notes, quick)
    if panels and not quick:
        draw(panels)


if __name__ == "__main__":
    main(arguments(__doc__))
