"""Scores of predictions, and covers of intervals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._lib import Array

#: Central intervals of mass LEVEL are this many standard deviations to each side.
LEVEL, Z = 0.90, 1.6448536269514722
LN2 = float(np.log(2.0))


def log_loss(y: Array, p: Array) -> float:
    """Mean of -log p(y) in nats; ``p`` is the probability of y = 1."""
    p = np.clip(p, 1e-15, 1 - 1e-15)
    return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))


def calibration_error(y: Array, p: Array, n_bins: int = 10) -> float:
    """Expected calibration error: mean over rows of |observed share - mean probability| of the row's (equal) bin."""
    bins = np.minimum((p * n_bins).astype(int), n_bins - 1)
    gaps = [abs(y[bins == b].mean() - p[bins == b].mean()) * np.sum(bins == b) for b in np.unique(bins)]
    return float(np.sum(gaps) / len(y))


def fitted(model: Any, *data: Any) -> Any:
    """The model fitted, converged or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*data)


def inside(error: Array, std: Array) -> float:
    """Share of errors (true less estimated values) within 1.645 sd."""
    return float(np.mean(np.abs(error) <= Z * std))


def predicted(model: Any, X: Array, y: Array) -> float:
    """Share of new y inside ``predict_interval``; a binomial's interval is of one trial, 0 or 1."""
    low, high = model.predict_interval(X, coverage=LEVEL).T
    if y.ndim == 2:
        share = y[:, 0] / y.sum(axis=1)
        return float(np.mean(np.where(high >= 1, share, 0.0) + np.where(low <= 0, 1 - share, 0.0)))
    return float(np.mean((low <= y) & (y <= high)))
