"""Calibration: parameters drawn from the prior, 30 rows per coefficient, full covariance, 90 % intervals.

Coefficients: share of the true ones inside mean +- 1.645 sd. Prediction: share of new y inside ``predict_interval``.
Scales (noise, dispersion, degrees of freedom, cut points) are learned, as by default.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._lib.measures import inside, predicted
from benchmarks._lib.tables import arguments, progress, report

N_FEATURES, N_TEST = 4, 20
ROWS_PER_COEFFICIENT = 30
LIKELIHOODS = (
    "logit",
    "probit",
    "softmax",
    "binomial",
    "poisson",
    "poisson-softplus",
    "negative-binomial",
    "gaussian",
    "student-t",
    "ordinal",
)
CLASSIFIERS = ("logit", "probit", "softmax")
CONTINUOUS = ("gaussian", "student-t")


def simulated(likelihood: str, seed: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """X, y, weights drawn from the prior, and the settings of that prior; the first N_TEST rows are for prediction."""
    from sksvi.datasets import make_glm

    intercept = likelihood != "ordinal"  # its cut points are the intercept
    coefficients = (N_FEATURES + intercept) * (3 if likelihood == "softmax" else 1)
    X, y, weights = make_glm(
        ROWS_PER_COEFFICIENT * coefficients + N_TEST,
        N_FEATURES,
        likelihood=likelihood,
        intercept_precision=1.0 if intercept else None,
        coef=True,
        random_state=np.random.default_rng(seed),
    )
    settings = {"prior_precision": float(N_FEATURES), "intercept_precision": 1.0, "fit_intercept": intercept}
    return X, y, weights, settings


def one_set(likelihood: str, seed: Any) -> dict[str, float] | None:
    """Shares covered in one data set and seconds of its fit; None where a class never occurs: nothing to fit."""
    from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor

    X, y, weights, settings = simulated(likelihood, seed)
    train, test = slice(N_TEST, None), slice(0, N_TEST)
    if len(np.unique(y[train], axis=0)) < (3 if likelihood == "softmax" else 2):
        return None
    estimator: Any = BayesianGLMClassifier if likelihood in CLASSIFIERS else BayesianGLMRegressor
    model = estimator(likelihood=likelihood, **settings)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[train], y[train])
    found = {"seconds": time.perf_counter() - start}
    q = model.posterior_["weights"]
    found["coefficients"] = inside(np.reshape(q.mean, weights.shape) - weights, np.reshape(q.std, weights.shape))
    if likelihood == "softmax":
        draws = np.reshape(q.sample(1000, random_state=0), (1000, *weights.shape))
        error, spread = q.mean - weights, (draws[:, 1:] - draws[:, :1]).std(axis=0)
        found["contrasts"] = inside(error[1:] - error[0], spread)
    if likelihood not in CLASSIFIERS:
        found["prediction"] = predicted(model, X[test], y[test])
    return found


def coverage(likelihood: str, n_sets: int, seed: int = 0) -> dict[str, Any]:
    """Coverage over ``n_sets`` simulated data sets, with its standard error (data sets are independent)."""
    found = [result for result in (one_set(likelihood, [seed, i]) for i in range(n_sets)) if result is not None]
    row: dict[str, Any] = {"likelihood": likelihood, "data sets": len(found)}
    for name in ("coefficients", "contrasts", "prediction"):
        values = np.array([result[name] for result in found if name in result])
        row[name] = values.mean() if len(values) else None
        row[f"{name}: error"] = values.std(ddof=1) / np.sqrt(len(values)) if len(values) else None
    return {**row, "seconds per fit": float(np.median([result["seconds"] for result in found]))}


def main(quick: bool = False) -> None:
    rows = []
    for likelihood in LIKELIHOODS:
        rows.append(coverage(likelihood, 100 if quick else 2000))
        progress(rows[-1])
    notes = [
        f"{ROWS_PER_COEFFICIENT} rows per coefficient, {N_FEATURES} standard normal columns, f of variance about 2; "
        f"{N_TEST} new rows per set. Intervals of counts are discrete and cover more; a data set in which a class "
        "never occurs is left out. Contrasts: differences of the classes' coefficients to those of the first class."
    ]
    report("glm/coverage", "Calibration: cover of 90 % intervals", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
