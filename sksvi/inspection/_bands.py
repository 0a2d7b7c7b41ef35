"""Simultaneous bands of the empirical distribution function of uniform ranks (Säilynoja, Bürkner and Vehtari 2022)."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

Array = np.ndarray

#: Points at which distribution functions are compared, at most; error of a level that is found.
MOST_POINTS, CLOSE = 50, 1e-4


def points_of(n: int, steps: int) -> Array:
    """Ranks r at which the share of ranks below r is compared with r / steps."""
    number = min(steps - 1, MOST_POINTS)
    return np.unique(np.round(np.linspace(0, steps, number + 2))[1:-1].astype(int))


def inside_probability(level: float, n: int, at: Array, steps: int) -> float:
    """P(at no point of `at` has the count of n uniform ranks a two-sided binomial tail of at most `level`).

    Counts at one point after another are a Markov chain, whose probabilities inside are carried on.
    """
    shares, before = np.append(at, steps) / steps, 0.0
    counts = np.arange(n + 1)
    mass = np.zeros(n + 1)
    mass[0] = 1.0
    for share in shares[:-1]:
        step = (share - before) / (1.0 - before)
        moved = np.zeros(n + 1)
        for k in np.flatnonzero(mass):
            moved[k:] += mass[k] * binom.pmf(counts[: n + 1 - k], n - k, step)
        tail = 2.0 * np.minimum(binom.cdf(counts, n, share), binom.sf(counts - 1, n, share))
        mass = np.where(tail > level * (1.0 + 1e-12), moved, 0.0)
        before = share
    return float(mass.sum())


def simultaneous_level(n: int, at: Array, steps: int, coverage: float) -> float:
    """The two-sided tail at each point for which all counts are inside with the probability `coverage`."""
    low, high = np.log(1e-8), np.log(1.0 - coverage)
    while high - low > CLOSE:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside_probability(np.exp(middle), n, at, steps) >= coverage else (low, middle)
    return float(np.exp(low))


def band(n: int, steps: int, coverage: float) -> tuple[Array, Array, Array]:
    """Points r / steps, and the ends of the simultaneous band of the share of ranks below them less r / steps."""
    at = points_of(n, steps)
    level = simultaneous_level(n, at, steps, coverage)
    share = at / steps
    return share, binom.ppf(0.5 * level, n, share) / n - share, binom.isf(0.5 * level, n, share) / n - share
