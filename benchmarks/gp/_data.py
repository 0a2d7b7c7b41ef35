"""Data, splits and measures of the benchmarks of Gaussian processes.

Columns of X and the target are z-scored on the training rows. NLL: mean over test rows of minus the log predictive
density of the z-scored target, nats (add the log of the target's sd for the user's units); RMSE likewise.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder
from benchmarks._lib.timing import Clock

Split = tuple[Array, Array, Array, Array]
LOG_2PI = float(np.log(2.0 * np.pi))


def scaled(X: Array, y: Array, test: Array) -> Split:
    """X, y, X_test, y_test, z-scored on the training rows; columns that are constant there are dropped."""
    A, a = X[~test], y[~test]
    keep = A.std(axis=0) > 0
    X = (X[:, keep] - A[:, keep].mean(axis=0)) / A[:, keep].std(axis=0)
    y = (y - a.mean()) / a.std()
    return X[~test], y[~test], X[test], y[test]


def housing(seed: int = 0) -> Split:
    """California housing, 8 raw columns, 67 % of the rows for training."""
    d = np.loadtxt(data_folder() / "tabular" / "cal_housing.csv.xz", delimiter=",")
    order = np.random.default_rng(seed).permutation(len(d))
    train, test = np.split(order, [round(0.67 * len(d))])
    X, y = d[:, :-1], d[:, -1]
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def published(name: str, split: int = 0) -> Split:
    """A published split of ``tabular/uci_splits/<name>.npz``."""
    with np.load(data_folder() / "tabular" / "uci_splits" / f"{name}.npz") as archive:
        arrays = dict(archive)
    X, y = arrays["X"].astype(float), arrays["y"].astype(float).ravel()
    return scaled(X, y, arrays["test_mask"][split].astype(bool))


def gaussian_nll(y: Array, mean: Array, variance: Array) -> float:
    """Mean of -log N(y; mean, variance)."""
    return float(0.5 * np.mean(LOG_2PI + np.log(variance) + (y - mean) ** 2 / variance))


def scores(y: Array, mean: Array, variance: Array) -> dict[str, float]:
    return {"nll": gaussian_nll(y, mean, variance), "rmse": float(np.sqrt(np.mean((y - mean) ** 2)))}


def held_out(model: Any, X: Array, y: Array) -> dict[str, float]:
    """Scores of one of our fitted regressors."""
    error = y - model.predict(X)
    nll = -float(np.mean(model.log_predictive_density(X, y)))
    return {"nll": nll, "rmse": float(np.sqrt(np.mean(error**2)))}


def timed_fit(model: Any, X: Array, y: Array) -> dict[str, float]:
    """Seconds of a fit, warnings about convergence left out."""
    with warnings.catch_warnings(), Clock() as clock:
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return clock.spent
