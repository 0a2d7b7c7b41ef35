"""California housing, 206 inducing points, everything learned: test NLL against seconds, ours and the peers'.

Ours by refits with more and more passes allowed, so that seconds are those of a whole fit. GPyTorch and GPflow are
measured where they are installed; their settings are in ``benchmarks.gp._peers``.
"""

from __future__ import annotations

from typing import Any

from benchmarks._lib.tables import arguments, progress, report, store_figure
from benchmarks._lib.timing import installed
from benchmarks.gp._data import Split, held_out, housing, timed_fit
from benchmarks.gp._peers import gpflow_sgpr, gpytorch_svgp, sklearn_gpr

#: Ours by name: settings, and passes at which fits are cut short. The first is what a user gets who gives the number of
#: inducing points alone: the simple bound, inputs learned.
OURS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "default": ({}, [10, 20, 40, 80]),
    "inputs fixed": ({"optimize_inducing": False}, []),
    "v1": ({"bound": "v1"}, [10, 20, 40, 80, 160]),
    "v2": ({"bound": "v2", "max_iter": 300}, []),
}


def ours(settings: dict[str, Any], split: Split, passes: list[int]) -> list[dict[str, Any]]:
    """Scores of a fit that ends by itself, and of fits that may take so many passes."""
    from sksvi.gaussian_process import SparseGPRegressor

    X, y, Xt, yt = split
    rows: list[dict[str, Any]] = []
    for limit in ({}, *({"max_iter": n} for n in passes)):
        model = SparseGPRegressor(n_inducing=206, random_state=0, **(settings | limit))
        spent = timed_fit(model, X, y)
        rows.append(
            {
                "passes": model.n_iter_,
                **spent,
                **held_out(model, Xt, yt),
                "bound per row": model.lower_bound_ / len(y),
                "ended by itself": bool(model.converged_),
            }
        )
        progress({**settings, **rows[-1]})
    return sorted(rows, key=lambda row: row["passes"])


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name in dict.fromkeys(row["method"] for row in rows):
        points = sorted((row["seconds"], row["nll"]) for row in rows if row["method"] == name)
        ax.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    ax.set(xscale="log", xlabel="seconds", ylabel="test NLL, nats per row", ylim=(0.4, 1.0))
    ax.legend(fontsize=8)
    store_figure("gp/housing", figure)


def main(quick: bool = False) -> None:
    split = housing()
    if quick:
        split = (split[0][:2000], split[1][:2000], *split[2:])
    rows: list[dict[str, Any]] = []
    for name, (settings, passes) in OURS.items():
        rows += [{"method": name, **row} for row in ours(settings, split, passes[:1] if quick else passes)]
    if installed("gpytorch"):
        epochs = 4 if quick else 60
        for row in gpytorch_svgp(split, 206, epochs, every=max(epochs // 10, 1)):
            rows.append({"method": "GPyTorch SVGP", "passes": row.pop("epochs"), **row})
            progress(rows[-1])
    if installed("gpflow"):
        for row in gpflow_sgpr(split, 206, [5] if quick else [10, 40, 160]):
            rows.append({"method": "GPflow SGPR", "passes": row.pop("steps"), **row})
            progress(rows[-1])
    rows.append(
        {"method": "scikit-learn GPR, 1,000 rows", "passes": None, **sklearn_gpr(split, 200 if quick else 1000)}
    )
    progress(rows[-1])
    columns = ("method", "passes", "seconds", "CPU seconds", "nll", "rmse", "bound per row", "ended by itself")
    rows = [{key: row.get(key) for key in columns} for row in rows]
    notes = [
        f"{len(split[0])} training rows, {len(split[2])} test rows, 8 columns. NLL: nats per row of the z-scored "
        "target; RMSE in its sd. Passes: gradients of the whole data for ours, epochs for GPyTorch, L-BFGS steps for "
        "GPflow (its seconds include compilation). CPU seconds: of all threads, more than the work where libraries "
        "wait in a loop. Scoring is in neither. The figure is results/gp/housing.png."
    ]
    report("gp/housing", "California housing by a sparse GP", rows, notes, quick)
    if not quick:
        draw(rows)


if __name__ == "__main__":
    main(arguments(__doc__))
