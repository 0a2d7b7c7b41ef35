"""Scores R² and D², shares of a loss that predictions save, from sums over rows, which may lie in partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from sksvi._runtime.user import warn_user

Array = np.ndarray


def losses(loss: Array, y: Array, weight: Array | None) -> tuple[int, float, float, Any]:
    """Sums over rows: their number, their weight, their weighted loss, and the weighted sum of y."""
    weight = np.ones(len(loss)) if weight is None else weight
    return len(loss), float(weight.sum()), float(weight @ loss), weight @ np.asarray(y, float)


def level_losses(codes: Array, predicted: Array, n_levels: int, weight: Array | None) -> tuple[int, float, float, Any]:
    """Sums over rows with ordered levels: number, weight, absolute error in levels, and the weight of each level."""
    weight = np.ones(len(codes)) if weight is None else weight
    steps = np.abs(codes - predicted).astype(float)
    return len(codes), float(weight.sum()), float(weight @ steps), np.bincount(codes, weight, n_levels)


def least_steps(weights: Array) -> float:
    """Absolute error, in levels, of the best constant prediction, a median, by the weight of each level."""
    at = np.arange(len(weights))
    return float((np.abs(at[:, None] - at) @ weights).min())


def share_saved(left: float, null: float, n: int, name: str) -> float:
    """1 - left/null as scikit-learn's scores have it: 1 or 0 where y is constant, undefined for one row."""
    if n < 2:
        warn_user(f"{name} is not well-defined with less than two samples.", UndefinedMetricWarning)
        return float("nan")
    return float(1.0 - left / null) if null > 0 else float(left == 0)
