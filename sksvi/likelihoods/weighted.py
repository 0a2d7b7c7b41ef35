"""Weighted statistics of y, from which learned scales start."""

from __future__ import annotations

import math

import numpy as np

from sksvi.likelihoods.links import Array

#: Standard deviation of y, per standard deviation (or size) of all y, below which a learned noise does not go.
LEAST_NOISE = 1e-4


def weighted_moments(y: Array, weight: Array | None) -> tuple[float, float]:
    """Weighted mean and variance of y, shape (n,)."""
    y = np.asarray(y, dtype=float)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float)
    total = weight.sum()
    if not total > 0:
        raise ValueError("weights must sum to a positive number to start a likelihood's parameters.")
    mean = float(weight @ y / total)
    return mean, float(weight @ (y - mean) ** 2 / total)


def own_unit(y: Array, weight: Array | None) -> float:
    """Standard deviation of y, shape (n,): the unit of a measured target; its size where it is constant."""
    return unit_of(*weighted_moments(y, weight))


def unit_of(mean: float, variance: float) -> float:
    """Unit of a target with these moments: its standard deviation; |mean| where it is constant, 1 where that is 0."""
    return math.sqrt(variance) or abs(mean) or 1.0


def weighted_median(y: Array, weight: Array | None) -> float:
    """Median of y, shape (n,), in which a weight of k counts as k values."""
    if weight is None:
        return float(np.median(y))
    order = np.argsort(y, kind="stable")
    values, cumulative = np.asarray(y, dtype=float)[order], np.cumsum(np.asarray(weight, dtype=float)[order])
    half = 0.5 * cumulative[-1]
    low, high = np.searchsorted(cumulative, half, side="left"), np.searchsorted(cumulative, half, side="right")
    return float(0.5 * (values[low] + values[min(high, len(values) - 1)]))
