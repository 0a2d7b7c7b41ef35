"""Figures 4 and 5 of Sheth & Khardon (fixed point): FPi, FPb, GRAD, natural steps and Newton by data and by features.

By the letter of the paper, its stopping rules included (benchmarks/fixed_point/_methods.py); "product" are sksvi's fits
with tol=1e-9. Of the paper's sets those that can be had, and two of the same shape as wlan-inout and epsilon.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report, store_figure
from benchmarks._lib.timing import Clock
from benchmarks.fixed_point._data import (
    EPSILON_COLUMNS,
    EPSILON_ROWS,
    SETS,
    SMALL,
    Rows,
    _epsilon,
    available,
    likelihood,
)
from benchmarks.fixed_point._methods import Objective, run

#: CPU seconds of a method on a set; and columns above which Newton on a Cholesky factor is left out.
LIMIT, MOST_NEWTON = 4.0, 100
NAMES = ("FPi", "FPb", "cvi", "GRAD", "Newton")


def of_product(data: Rows) -> list[dict[str, Any]]:
    """sksvi's own fits."""
    from sklearn.exceptions import ConvergenceWarning

    from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
    from sksvi.algorithms import FixedPoint

    estimator: Any = BayesianGLMClassifier if data.likelihood == "logit" else BayesianGLMRegressor
    rows = []
    for name, algorithm in (("FPi", "fp"), ("FPb", FixedPoint(order="batch")), ("cvi", "cvi")):
        model = estimator(
            likelihood=likelihood(data.likelihood),
            prior_precision=1.0,
            fit_intercept=False,
            algorithm=algorithm,
            batch_size=None,
            tol=1e-9,
            max_iter=500,
        )
        clock = Clock()
        with warnings.catch_warnings(), clock:
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(data.X, data.y)
        rows.append(
            {
                "method": f"product, {name}",
                "end": "tol" if model.converged_ else "iterations",
                "iterations": model.n_iter_,
                "CPU seconds": clock.cpu,
                "bound": model.lower_bound_,
                "halvings": int(model.history_["repairs"].sum()),
            }
        )
    return rows


def by_letter(data: Rows, limit: float) -> tuple[list[dict[str, Any]], dict[str, Objective]]:
    """The methods in numpy, and their traces."""
    rows, traces = [], {}
    for method in NAMES:
        if method == "Newton" and data.X.shape[1] > MOST_NEWTON:
            continue
        problem, end = run(method, data.X, data.y, likelihood(data.likelihood), limit)
        traces[method] = problem
        best = max((bound for _, _, bound in problem.trace), default=-np.inf)
        rows.append(
            {
                "method": method,
                "end": end,
                "iterations": max(len(problem.trace) - 1, 0),
                "evaluations": problem.evaluations,
                "CPU seconds": problem.trace[-1][0] if problem.trace else None,
                "bound": best,
            }
        )
    return rows, traces


def seconds_to(problem: Objective | None, level: float) -> float | None:
    """CPU seconds until a bound is reached; None: never."""
    if problem is None:
        return None
    return next((seconds for seconds, _, bound in problem.trace if bound >= level), None)


def rows_of(name: str, data: Rows, limit: float) -> tuple[list[dict[str, Any]], dict[str, Objective], float]:
    """All rows of a set, traces and the best bound."""
    (letter, traces), product = by_letter(data, limit), of_product(data)
    best = max(row["bound"] for row in (*letter, *product))
    order = ("data", "rows", "columns", "method", "end", "iterations", "evaluations", "halvings", "CPU seconds")
    rows = []
    for row in (*letter, *product):
        full = {"data": name, "rows": data.X.shape[0], "columns": data.X.shape[1], **row}
        within = seconds_to(traces.get(row["method"]), best - 1e-2)
        full = {key: full.get(key) for key in order} | {"to 0.01 nats": within, "short": best - row["bound"]}
        rows.append(full)
        progress(full)
    return rows, traces, best


def draw(name: str, panels: dict[str, tuple[dict[str, Objective], float]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = (len(panels) + 1) // 2
    figure, axes = plt.subplots(2, columns, figsize=(3.3 * columns, 6), squeeze=False, layout="constrained")
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax, (title, (traces, best)) in zip(axes.flat, panels.items(), strict=False):
        for method, problem in traces.items():
            points = [(seconds, max(best - bound, 1e-6)) for seconds, _, bound in problem.trace]
            if points:
                color = f"C{NAMES.index(method)}"
                ax.plot(*zip(*points, strict=True), marker=".", lw=1, color=color)
        ax.set(xscale="log", yscale="log", title=title)
    handles = [plt.Line2D([], [], color=f"C{number}", marker=".", label=name) for number, name in enumerate(NAMES)]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(NAMES), fontsize=8)
    figure.supxlabel("CPU seconds")
    figure.supylabel("best bound - bound, nats")
    store_figure(f"fixed_point/{name}", figure)


def table_of(
    name: str, title: str, sets: dict[str, Callable[[], Rows]], limit: float, notes: list[str], quick: bool
) -> None:
    """Measure, report and draw some sets."""
    rows, panels = [], {}
    for data_name, data in available(sets):
        found, traces, best = rows_of(data_name, data, limit)
        rows += found
        panels[f"{data_name} ({data.X.shape[0]}, {data.X.shape[1]})"] = traces, best
    if not rows:
        return
    report(f"fixed_point/{name}", title, rows, notes, quick)
    if not quick:
        draw(name, panels)


def main(quick: bool = False) -> None:
    notes = [
        f"One run of each on one thread, at most {LIMIT:g} CPU seconds (end: seconds). Gradient and fall end as in the "
        "paper, rise: the objective rose. Iterations of FPb are those of its outer loop, evaluations are of all rows. "
        "To 0.01 nats: CPU seconds until so much is left to the best bound of the set. Short: nats below it. Newton is "
        f"left out above {MOST_NEWTON} columns, which count the constant one.",
    ]
    sets = SMALL if quick else SETS
    table_of("speed", "FP, gradients and Newton by data (Figure 4)", sets, 5.0 if quick else LIMIT, notes, quick)
    columns = (10, 20) if quick else EPSILON_COLUMNS
    rows = 400 if quick else EPSILON_ROWS
    wide = {f"epsilon, simulated, {n}": partial(_epsilon, rows, n) for n in columns}
    table_of("speed_columns", "FP and gradients by features (Figure 5)", wide, 5.0 if quick else LIMIT, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
