"""Sparse GP regression with learned hyperparameters on published splits, beside GPyTorch, GPflow and scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
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


def ours(split: Split, **settings: Any) -> dict[str, float]:
    from sksvi.gaussian_process import SparseGPRegressor

    X, y, Xt, yt = split
    model = SparseGPRegressor(n_inducing=N_INDUCING, random_state=0, **settings)
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
    }


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for name, (load, n_splits, slow_splits, epochs) in SETS.items():
        if quick and name not in ("yacht", "wine"):
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
        report("gp/regression", "Sparse GP regression on published splits", rows, notes(), quick)


def notes() -> list[str]:
    return [
        f"At most {N_INDUCING} inducing points, learned hyperparameters; the same splits for all, the first of them "
        "where a method has fewer. NLL: nats per row of the z-scored target (add the log of its sd for its own units); "
        "RMSE in its sd; se over splits, which share rows. Seconds: median of a fit. GPyTorch: natural gradients, "
        "batches of 1,024, epochs as in the source; GPflow: 100 L-BFGS steps of SGPR; v1: at most "
        f"{V1_PASSES} passes; ours else until the fit ends by itself."
    ]


if __name__ == "__main__":
    main(arguments(__doc__))
