"""Sparse GP regression with learned hyperparameters on published splits, beside GPyTorch, GPflow and scikit-learn.

`SKSVI_CELLS="wine;boston"` runs only these sets, by every method, and no numbers of inducing points; the others' rows
stay as they are stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks._lib.cells import AGAIN, stored_rows
from benchmarks._lib.tables import arguments, machine, progress, report
from benchmarks._lib.timing import installed
from benchmarks.gp._data import Split, held_out, housing, published, timed_fit
from benchmarks.gp._peers import gpflow_sgpr, gpytorch_svgp, sklearn_gpr

#: Splits of each set, those of them that the slow peers (GPyTorch, scikit-learn) get, and GPyTorch's epochs.
SETS: dict[str, tuple[Callable[[int], Split], int, int, int]] = {
    "yacht": (lambda split: published("pbp_yacht", split), 5, 1, 300),
    "boston": (lambda split: published("pbp_bostonHousing", split), 5, 1, 300),
    "wine": (lambda split: published("pbp_wine-quality-red", split), 5, 1, 100),
    "power-plant": (lambda split: published("pbp_power-plant", split), 1, 1, 25),
    "kin8nm": (lambda split: published("pbp_kin8nm", split), 1, 1, 25),
    "pumadyn32nm": (lambda split: published("pumadyn32nm", split), 1, 1, 25),
    "housing": (housing, 1, 1, 20),
    "pol": (lambda split: published("pol", split), 1, 1, 15),
    "kin40k": (lambda split: published("kin40k", split), 1, 1, 8),
}
#: Most passes of v1, whose search ends late.
V1_PASSES = 200
SLOW = ("GPyTorch SVGP", "scikit-learn GPR, 2,000 rows")
N_INDUCING = 200
#: Numbers of inducing points beside each other, with GPyTorch's epochs and GPflow's steps for each.
SIZES = {100: (200, 160), 500: (120, 80), 1000: (100, 60)}
#: So many are compared on one of two sets: the three take a quarter of an hour there.
LARGE = 1000


def ours(split: Split, n_inducing: int | str = "auto", **settings: Any) -> dict[str, float]:
    from sksvi.gaussian_process import SparseGPRegressor

    X, y, Xt, yt = split
    model = SparseGPRegressor(n_inducing=n_inducing, random_state=0, **settings)
    return {**timed_fit(model, X, y), **held_out(model, Xt, yt)}


def svgp(split: Split, epochs: int) -> dict[str, float]:
    return list(gpytorch_svgp(split, min(N_INDUCING, len(split[0])), epochs))[-1]


def sgpr(split: Split, steps: int) -> dict[str, float]:
    return list(gpflow_sgpr(split, min(N_INDUCING, len(split[0])), [steps]))[-1]


def summary(name: str, method: str, found: list[dict[str, float]]) -> dict[str, Any]:
    def mean_se(key: str) -> tuple[float, float | None]:
        values = np.array([row[key] for row in found])
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None

    nll, nll_se = mean_se("nll")
    rmse, rmse_se = mean_se("rmse")
    return {
        "data": name,
        "method": method,
        "splits": len(found),
        "NLL": nll,
        "NLL se": nll_se,
        "RMSE": rmse,
        "RMSE se": rmse_se,
        **{key: float(np.median([row[key] for row in found])) for key in ("seconds", "CPU seconds")},
        "machine": machine()["cpu"],
    }


def by_size(quick: bool) -> None:
    """Ours beside GPyTorch and GPflow with the same numbers of inducing points, by CPU seconds."""
    rows: list[dict[str, Any]] = []
    for n_inducing, (epochs, steps) in {20: (8, 6)}.items() if quick else SIZES.items():
        for name in ("kin8nm", "power-plant")[: 2 if n_inducing < LARGE else 1]:
            split = SETS[name][0](0)

            def add(method: str, row: dict[str, float], size: int = n_inducing, data: str = name) -> None:
                work = row.get("epochs", row.get("steps"))
                own = {name: row[name] for name in ("CPU seconds", "nll", "rmse")}
                rows.append({"inducing points": size, "data": data, "method": method, "passes": work, **own})
                progress(rows[-1])
                report("gp/regression_sizes", "By the number of inducing points", rows, size_notes(), quick)

            add("default", ours(split, n_inducing))
            if installed("gpytorch"):
                for row in gpytorch_svgp(split, n_inducing, epochs, every=epochs // 2):
                    add("GPyTorch SVGP", row)
            if installed("gpflow"):
                for row in gpflow_sgpr(split, n_inducing, [steps // 2, steps]):
                    add("GPflow SGPR", row)


def size_notes() -> list[str]:
    return [
        "Split 0 of each set, one thread for all, hyperparameters and inducing inputs learned by all three; ours until "
        "the fit ends by itself, the posterior of its hyperparameters included. nll: nats per row of the z-scored "
        "target; rmse in its sd. Passes: epochs, or steps of L-BFGS. Scoring is in no time; GPflow's has its "
        "compilation."
    ]


def main(quick: bool = False) -> None:
    if not AGAIN:
        by_size(quick)
    rows = [row for row in stored_rows("gp/regression") if AGAIN and not row["data"].startswith(AGAIN)]
    for name, (load, n_splits, slow_splits, epochs) in SETS.items():
        if (quick and name not in ("yacht", "wine")) or (AGAIN and not name.startswith(AGAIN)):
            continue
        n_splits, epochs = (2, 10) if quick else (n_splits, epochs)
        methods: dict[str, Callable[[Split], dict[str, float]]] = {
            "default": ours,
            "v1": lambda split: ours(split, bound="v1", max_iter=V1_PASSES),
        }
        if installed("gpytorch"):
            methods["GPyTorch SVGP"] = partial(svgp, epochs=epochs)
        if installed("gpflow"):
            methods["GPflow SGPR"] = partial(sgpr, steps=10 if quick else 100)
        methods["scikit-learn GPR, 2,000 rows"] = lambda split: sklearn_gpr(split, 300 if quick else 2000)
        found: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
        for number in range(n_splits):
            split, start = load(number), time.perf_counter()
            for method, fit in methods.items():
                if method not in SLOW or number < slow_splits:
                    found[method].append(fit(split))
            shown = {method: values[-1]["nll"] for method, values in found.items() if len(values) == number + 1}
            progress({"data": name, "split": number, **shown, "seconds of all": time.perf_counter() - start})
        rows += [summary(name, method, values) for method, values in found.items() if values]
        # After every set: a run that is cut off leaves the sets that it finished.
        listed = sorted(rows, key=lambda row: list(SETS).index(row["data"]))
        report("gp/regression", "Sparse GP regression on published splits", listed, notes(), quick)


def notes() -> list[str]:
    return [
        f"At most {N_INDUCING} inducing points, of the default 300 where these leave much open, learned "
        "hyperparameters; the same splits for all, the first of them where a method has fewer. NLL: nats a row of the "
        "z-scored target (add the log of its sd for its own units); "
        "RMSE in its sd; se over splits, which share rows. Seconds: median of a fit, to be compared on one machine. "
        "GPyTorch: natural gradients, batches of 1,024, epochs as in the source; GPflow: 100 L-BFGS steps of "
        f"SGPR; v1: at most {V1_PASSES} passes; ours else until the fit ends by itself."
    ]


if __name__ == "__main__":
    main(arguments(__doc__))
