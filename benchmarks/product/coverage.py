"""Calibration of mixed models, Gaussian processes and factor models: truths drawn, cover of 90 % intervals.

Coefficients, effects and f are drawn from the priors that the fit has. Standard deviations between levels are uniform
in (0.3, 1.2): drawn from their wide prior, most would be beyond what counts can hold. Slopes and intercepts have a
correlation from its prior. The variance of the noise per row
is drawn from its Rayleigh prior. The sparse GP learns its kernel and noise, the others have the one f was drawn from.

    SKSVI_CELLS="GammaFactorModel;StructuredLDA" python -m benchmarks product.coverage

runs the studies again whose names begin so; the rows of others stay as they are stored.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.cells import AGAIN
from benchmarks._lib.measures import fitted, inside, predicted
from benchmarks._lib.tables import RESULTS, arguments, progress, report
from benchmarks.product import _factors, _series

#: Levels and rows of each, in the fit; one more row of each level and as many of new levels are for prediction.
N_LEVELS, N_EACH, N_FEATURES, N_NEW = 30, 6, 2, 30
PRECISION = {"prior_precision": 2.0, "intercept_precision": 1.0}
NOISE_ROWS, NOISE_PRIOR_SCALE = 100, 0.5
GP_ROWS, LABEL_ROWS, GP_NEW = 80, 60, 20


def covers(table: Any, truth: Array) -> float:
    """Share of true values between the columns lower and upper."""
    return float(np.mean((table["lower"] <= truth) & (truth <= table["upper"])))


# ---- mixed models
def _grouped(rng: np.random.Generator, slope: bool) -> tuple[Any, Array, dict[str, Array]]:
    """Columns x0, x1 and group, the latent of each row, and the truth; the levels from N_LEVELS on are never fitted."""
    import pandas as pd

    levels = np.concatenate([np.tile(np.arange(N_LEVELS), N_EACH + 1), N_LEVELS + np.arange(N_LEVELS)])
    X = rng.standard_normal((len(levels), N_FEATURES))
    w = rng.standard_normal(N_FEATURES + 1) / np.sqrt([PRECISION["prior_precision"]] * N_FEATURES + [1.0])
    std = rng.uniform(0.3, 1.2, 1 + slope)
    effects = std * rng.standard_normal((2 * N_LEVELS, 1 + slope))
    rho = 2.0 * rng.beta(2.0, 2.0) - 1.0 if slope else 0.0
    if slope:
        effects[:, 1] = rho * std[1] / std[0] * effects[:, 0] + np.sqrt(1.0 - rho**2) * effects[:, 1]
    f = X @ w[:-1] + w[-1] + effects[levels, 0]
    if slope:
        f = f + effects[levels, 1] * X[:, 0]
    frame = pd.DataFrame(X, columns=["x0", "x1"]).assign(group=levels)
    return frame, f, {"weights": w, "std": std, "rho": np.array([rho]), "effects": effects[:N_LEVELS].ravel()}


def mixed(rng: np.random.Generator, likelihood: str, slope: bool = False) -> dict[str, float]:
    """A model with groups: what is covered of coefficients, effects and standard deviations, and of new y."""
    from sksvi import likelihoods
    from sksvi.mixed_effects import GMEClassifier, GMERegressor

    frame, f, truth = _grouped(rng, slope)
    drawn_from = likelihoods.Gaussian(variance=1.0) if likelihood == "gaussian" else likelihoods.resolve(likelihood)
    y = drawn_from.sample(f, rng)
    cut = N_LEVELS * N_EACH
    settings = {"groups": "group", "on_unseen": "ignore", "random_slopes": "x0" if slope else None, **PRECISION}
    estimator = GMEClassifier if likelihood == "logit" else GMERegressor
    model = fitted(estimator(likelihood=likelihood, noise=False, **settings), frame[:cut], y[:cut])
    table = model.summary()
    found = {
        "coefficients": covers(table[: N_FEATURES + 1], truth["weights"]),
        "effects": covers(model.group_effects_, truth["effects"]),
        "sd between levels": covers(table[table.index.str.startswith("std(group")], truth["std"]),
    }
    if slope:
        found["correlation"] = covers(table[table.index.str.startswith("cor(group")], truth["rho"])
    if likelihood != "logit":
        found["new y, known levels"] = predicted(model, frame[cut : cut + N_LEVELS], y[cut : cut + N_LEVELS])
        found["new y, new levels"] = predicted(model, frame[cut + N_LEVELS :], y[cut + N_LEVELS :])
    return found


def noisy(rng: np.random.Generator) -> dict[str, float]:
    """Counts with noise per row, the optimal bound."""
    from sksvi.mixed_effects import GMERegressor

    X = rng.standard_normal((NOISE_ROWS + N_NEW, N_FEATURES))
    w = rng.standard_normal(N_FEATURES + 1) / np.sqrt([PRECISION["prior_precision"]] * N_FEATURES + [1.0])
    w2 = rng.rayleigh(NOISE_PRIOR_SCALE)
    f = X @ w[:-1] + w[-1] + np.sqrt(w2) * rng.standard_normal(len(X))
    y = rng.poisson(np.exp(f))
    train, test = slice(0, NOISE_ROWS), slice(NOISE_ROWS, None)
    model = GMERegressor(likelihood="poisson", bound="optimal", noise_prior_scale=NOISE_PRIOR_SCALE, **PRECISION)
    model = fitted(model, X[train], y[train])
    table = model.summary()
    return {
        "coefficients": covers(table[: N_FEATURES + 1], w),
        "noise variance": covers(table[-1:], np.array([w2])),
        "new y": predicted(model, X[test], y[test]),
    }


# ---- Gaussian processes
def _drawn(rng: np.random.Generator, n: int, kernel: Any) -> tuple[Array, Array]:
    """Rows in the square (-2, 2)² and f there."""
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.linalg.cholesky(kernel(X) + 1e-8 * np.eye(n)) @ rng.standard_normal(n)


def _latent(model: Any, X: Array, f: Array) -> float:
    mean, variance = model.predict_latent(X)
    return inside(mean - f, np.sqrt(variance))


def regression(rng: np.random.Generator) -> dict[str, float]:
    """A sparse GP whose kernel and noise are learned; new rows."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    from sksvi.gaussian_process import SparseGPRegressor

    X, f = _drawn(rng, GP_ROWS + GP_NEW, ConstantKernel(1.0) * RBF(1.0))
    y = f + 0.3 * rng.standard_normal(len(f))
    train, test = slice(0, GP_ROWS), slice(GP_ROWS, None)
    model = fitted(SparseGPRegressor(n_inducing=40, optimize_inducing=False), X[train], y[train])
    return {"f, new rows": _latent(model, X[test], f[test]), "new y": predicted(model, X[test], y[test])}


def counts(rng: np.random.Generator) -> dict[str, float]:
    """A sparse GP of counts, kernel known."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    from sksvi.gaussian_process import SparseGPRegressor

    kernel = ConstantKernel(1.0) * RBF(1.0)
    X, f = _drawn(rng, GP_ROWS + GP_NEW, kernel)
    y = rng.poisson(np.exp(f))
    train, test = slice(0, GP_ROWS), slice(GP_ROWS, None)
    options = {"optimize_hyperparameters": False, "optimize_inducing": False}
    model = SparseGPRegressor(likelihood="poisson", kernel=kernel, n_inducing=40, **options)
    model = fitted(model, X[train], y[train])
    return {
        "f, fitted rows": _latent(model, X[train], f[train]),
        "f, new rows": _latent(model, X[test], f[test]),
        "new y": predicted(model, X[test], y[test]),
    }


def labels(rng: np.random.Generator, sparse: bool) -> dict[str, float]:
    """Labels, kernel known; empty where one class never occurs."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    from sksvi.gaussian_process import GPClassifier, SparseGPClassifier

    kernel = ConstantKernel(4.0) * RBF(1.0)
    X, f = _drawn(rng, LABEL_ROWS + GP_NEW, kernel)
    y = rng.random(len(f)) < 1 / (1 + np.exp(-f))
    train, test = slice(0, LABEL_ROWS), slice(LABEL_ROWS, None)
    if len(np.unique(y[train])) < 2:
        return {}
    model: Any = GPClassifier(kernel=kernel, optimize_hyperparameters=False)
    if sparse:
        options = {"optimize_hyperparameters": False, "optimize_inducing": False}
        model = SparseGPClassifier(kernel=kernel, n_inducing=30, **options)
    model = fitted(model, X[train], y[train])
    return {"f, fitted rows": _latent(model, X[train], f[train]), "f, new rows": _latent(model, X[test], f[test])}


STUDIES: dict[str, Callable[[np.random.Generator], dict[str, float]]] = {
    "GMERegressor: poisson, groups": lambda rng: mixed(rng, "poisson"),
    "GMERegressor: gaussian, groups, slope": lambda rng: mixed(rng, "gaussian", slope=True),
    "GMEClassifier: logit, groups": lambda rng: mixed(rng, "logit"),
    "GMEClassifier: logit, slope": lambda rng: mixed(rng, "logit", slope=True),
    "GMERegressor: poisson, noise": noisy,
    "SparseGPRegressor: gaussian, learned": regression,
    "SparseGPRegressor: poisson, kernel known": counts,
    "GPClassifier: logit, kernel known": lambda rng: labels(rng, sparse=False),
    "SparseGPClassifier: logit, kernel known": lambda rng: labels(rng, sparse=True),
    **_factors.STUDIES,
    **_series.STUDIES,
}


#: Data sets of the long study where a fit takes most of a second.
LONG = {"GMERegressor: poisson, noise": 200, **dict.fromkeys(_factors.STUDIES, 40)}
LONG |= {name: 200 for name in LONG if name.startswith("GammaFactorModel")}


def coverage(study: str, n_sets: int, seed: int = 0) -> list[dict[str, Any]]:
    """One row per quantity: mean cover over independent data sets, and its standard error."""
    found, seconds = [], []
    for i in range(n_sets):
        start = time.perf_counter()
        found.append(STUDIES[study](np.random.default_rng([seed, i])))
        seconds.append(time.perf_counter() - start)
    rows = []
    for quantity in next(filter(None, found)):
        values = np.array([result[quantity] for result in found if result])
        rows.append(
            {
                "study": study,
                "quantity": quantity,
                "data sets": len(values),
                "covered": float(values.mean()),
                "error": float(values.std(ddof=1) / np.sqrt(len(values))),
                "seconds per set": float(np.median(seconds)),
            }
        )
    return rows


def stored() -> list[dict[str, Any]]:
    """Rows of the stored table."""
    rows: list[dict[str, Any]] = json.loads((RESULTS / "product" / "coverage.json").read_text())["rows"]
    return rows


def main(quick: bool = False) -> None:
    rows = []
    for study in STUDIES:
        if AGAIN and not quick and not study.startswith(AGAIN):
            rows += [row for row in stored() if row["study"] == study]
            continue
        rows += coverage(study, 20 if quick else LONG.get(study, 500))
        progress(rows[-1])
    notes = [
        f"Groups: {N_LEVELS} levels of {N_EACH} rows, {N_FEATURES} standard normal columns; noise per row: "
        f"{NOISE_ROWS} rows; Gaussian processes: {GP_ROWS} rows ({LABEL_ROWS} with labels) in two columns. Intervals "
        "of counts are discrete and cover more."
    ]
    report("product/coverage", "Calibration of mixed models, Gaussian processes and factor models", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
