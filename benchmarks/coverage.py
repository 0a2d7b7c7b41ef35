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

from benchmarks.common import arguments, progress, report

N_FEATURES, N_TEST, LEVEL, Z = 4, 20, 0.90, 1.6448536269514722
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


def one_set(likelihood: str, seed: Any) -> tuple[float, float, float]:
    """Share of coefficients covered, share of new y covered (nan for classifiers), seconds of the fit."""
    from sksvi.datasets import make_glm
    from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor

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
    train, test = slice(N_TEST, None), slice(0, N_TEST)
    settings = {"prior_precision": float(N_FEATURES), "intercept_precision": 1.0, "fit_intercept": intercept}
    if len(np.unique(y[train], axis=0)) < (3 if likelihood == "softmax" else 2):
        return np.nan, np.nan, np.nan  # a class that never occurs: nothing to fit
    model: Any
    if likelihood in CLASSIFIERS:
        model = BayesianGLMClassifier(likelihood=likelihood, **settings)
    else:
        model = BayesianGLMRegressor(likelihood=likelihood, **settings)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[train], y[train])
    seconds = time.perf_counter() - start
    q = model.posterior_["weights"]
    covered = float(
        np.mean(np.abs(np.reshape(q.mean, weights.shape) - weights) <= Z * np.reshape(q.std, weights.shape))
    )
    if likelihood in CLASSIFIERS:
        return covered, np.nan, seconds
    if likelihood == "binomial":
        return covered, binomial_coverage(model, X[test], y[test]), seconds
    interval = model.predict_interval(X[test], coverage=LEVEL)
    return covered, float(np.mean((interval[:, 0] <= y[test]) & (y[test] <= interval[:, 1]))), seconds


def binomial_coverage(model: Any, X: Any, y: Any) -> float:
    """The interval is of one trial, 0 or 1: share of the new trials inside it."""
    interval, share = model.predict_interval(X, coverage=LEVEL), y[:, 0] / y.sum(axis=1)
    return float(np.mean(np.where(interval[:, 1] >= 1, share, 0.0) + np.where(interval[:, 0] <= 0, 1 - share, 0.0)))


def coverage(likelihood: str, n_sets: int, seed: int = 0) -> dict[str, Any]:
    """Coverage over ``n_sets`` simulated data sets, with its standard error (data sets are independent)."""
    found = np.array([one_set(likelihood, [seed, i]) for i in range(n_sets)])
    used = found[~np.isnan(found[:, 0])]
    predictive = used[:, 1]
    has_interval = likelihood not in CLASSIFIERS
    return {
        "likelihood": likelihood,
        "data sets": len(used),
        "coefficients": used[:, 0].mean(),
        "its error": used[:, 0].std(ddof=1) / np.sqrt(len(used)),
        "prediction": predictive.mean() if has_interval else None,
        "its error ": predictive.std(ddof=1) / np.sqrt(len(used)) if has_interval else None,
        "seconds per fit": float(np.median(used[:, 2])),
    }


def main(quick: bool = False) -> None:
    rows = []
    for likelihood in LIKELIHOODS:
        rows.append(coverage(likelihood, 100 if quick else 2000))
        progress(rows[-1])
    notes = [
        f"{ROWS_PER_COEFFICIENT} rows per coefficient, {N_FEATURES} standard normal columns, f of variance about 2; "
        f"{N_TEST} new rows per set. Intervals of counts are discrete and cover more; a data set in which a class "
        "never occurs is left out."
    ]
    report("coverage", "Calibration: cover of 90 % intervals", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
