"""Quantiles of counts of any size: exact where the distribution function is, its limits beyond.

SciPy's discrete quantiles end the process for counts near 1e15, and are NaN from 1e11 on. Here counts below 1e8 are
found by bisection of the distribution function. Beyond, a negative binomial of small size is a Gamma distribution (the
first term of DiDonato and Morris's expansion of the incomplete beta function, 1992), and every other one is so near a
normal distribution that the expansion of Cornish and Fisher (1938) is within 1e-6 of a standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betainc, betaincc, gammaincinv, ndtri, pdtr

Array = np.ndarray

#: Counts below this are found by bisection: incomplete beta and Gamma functions are accurate there.
EXACT = 1e8
#: Size up to which a negative binomial of large counts is Gamma within 1e-6; from there on it is nearly normal.
GAMMA_SIZE = 1e4


def poisson_quantile(p: Array | float, mean: Array) -> Array:
    """Smallest count up to which a Poisson distribution of this mean has probability `p`."""
    shape, (p, mean) = _flat(p, mean)
    sd = np.sqrt(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = _near_normal(p, mean, sd, 1.0 / sd, 1.0 / mean)
    return _quantile(p, limit, mean < EXACT, lambda y, at: pdtr(y, mean[at])).reshape(shape)


def negative_binomial_quantile(p: Array | float, size: Array | float, mean: Array) -> Array:
    """Smallest count up to which a negative binomial distribution has probability `p`.

    Its variance is ``mean + mean**2 / size``.
    """
    shape, (p, size, mean) = _flat(p, size, mean)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = mean / size
        sd = np.sqrt(mean) * np.sqrt(1.0 + ratio)
        skewness, kurtosis = (1.0 + 2.0 * ratio) / sd, (1.0 / mean + 6.0 / size * (1.0 + ratio)) / (1.0 + ratio)
        limit = _near_normal(p, mean, sd, skewness, kurtosis)
        # log1p(size / mean) has no digits of a rounded share of failures
        small = size <= GAMMA_SIZE
        scaled = gammaincinv(np.where(small, size, 1.0), p) / np.log1p(size / mean)
        limit = np.where(small, scaled - 0.5 * (size + 1.0), limit)

    def cdf(y: Array, at: Array) -> Array:
        # I(size, y + 1) at the probability of failure, from whichever argument is not rounded to 1
        s, m = size[at], mean[at]
        high = m > s
        of_failure = betainc(s, y + 1.0, s / (s + m))
        return np.where(high, of_failure, betaincc(y + 1.0, s, m / (s + m)))

    return _quantile(p, limit, limit < EXACT, cdf).reshape(shape)


def binomial_quantile(p: Array | float, n: Array | float, chance: Array | float) -> Array:
    """Smallest count up to which a binomial distribution of `n` trials has probability `p`."""
    shape, (p, n, chance) = _flat(p, n, chance)
    variance = n * chance * (1.0 - chance)
    sd = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        # a kurtosis of its own for 0 < chance < 1; without chance the count is known
        kurtosis = (1.0 - 6.0 * chance * (1.0 - chance)) / variance
        limit = _near_normal(p, n * chance, sd, (1.0 - 2.0 * chance) / sd, kurtosis)
    limit = np.where(variance > 0, np.minimum(limit, n), n * chance)

    def cdf(y: Array, at: Array) -> Array:
        below = y < n[at]
        return np.where(below, betaincc(np.where(below, y, 0.0) + 1.0, np.maximum(n[at] - y, 1.0), chance[at]), 1.0)

    return np.minimum(_quantile(p, limit, n < EXACT, cdf), n).reshape(shape)


def _flat(*values: Array | float) -> tuple[tuple[int, ...], list[Array]]:
    """The shape that values have together, and each of them as floats in one row of that many."""
    together = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in values))
    return together[0].shape, [value.ravel() for value in together]


def _near_normal(p: Array, mean: Array, sd: Array, skewness: Array, kurtosis: Array) -> Array:
    """Quantile by Cornish and Fisher of a count, with half a count for what lies between two; not rounded."""
    z = ndtri(p)
    bent = (z**2 - 1.0) * skewness / 6.0
    curved = (z**3 - 3.0 * z) * kurtosis / 24.0 - (2.0 * z**3 - 5.0 * z) * skewness**2 / 36.0
    found: Array = mean + sd * (z + bent + curved) - 0.5
    return found


def _quantile(p: Array, limit: Array, exact: Array, cdf: Callable[[Array, Array], Array]) -> Array:
    """The limit, rounded up, or the smallest count whose ``cdf(counts, their places)`` reaches `p` where `exact`."""
    inside = (p > 0) & (p < 1)
    y = np.where(p >= 1, np.inf, np.maximum(np.ceil(np.where(inside, limit, 0.0)), 0.0))
    y = np.where(np.isnan(p), np.nan, y)
    at = np.flatnonzero(exact & inside)
    # where skewness is large the expansion is no more than a place to begin
    y[at] = bisected(np.nan_to_num(y[at], nan=0.0, posinf=EXACT), p[at], lambda count, some: cdf(count, at[some]))
    return y


def bisected(guess: Array, p: Array, cdf: Callable[[Array, Array], Array]) -> Array:
    """Smallest count with cdf(count) >= p, from a guess; an error where the distribution function never gets there."""
    every = np.arange(len(guess))
    enough_at_guess = cdf(guess, every) >= p
    low, high = np.where(enough_at_guess, -1.0, guess), guess.copy()
    active, step = every[~enough_at_guess | (guess > 0)], 1.0
    while len(active):  # walk outwards, four times as far each time
        if step > np.finfo(float).max / 8.0:
            raise ValueError("a count has no quantile: its distribution function is not a number. Rescale the counts.")
        down = enough_at_guess[active]
        end = np.where(down, np.maximum(high[active] - step, -1.0), high[active] + step)
        enough = np.where(end < 0, 0.0, cdf(np.maximum(end, 0.0), active)) >= p[active]
        high[active[enough | ~down]], low[active[~enough]] = end[enough | ~down], end[~enough]
        active, step = active[np.where(down, enough, ~enough)], 4.0 * step
    active = every[apart(low, high)]
    while len(active):
        middle = np.floor(0.5 * (low[active] + high[active]))
        enough = cdf(middle, active) >= p[active]
        high[active[enough]], low[active[~enough]] = middle[enough], middle[~enough]
        active = active[apart(low[active], high[active])]
    return high


def apart(low: Array, high: Array) -> Array:
    """Whether a count lies between two others, as far as floats tell: beyond 2**53 neighbours are more than 1 apart."""
    return high - low > np.maximum(1.0, np.spacing(high))
