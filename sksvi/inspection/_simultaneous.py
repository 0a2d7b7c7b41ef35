"""Intervals that hold together: the coverage that each must have, from the joint distribution."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import fdtr, gammainc, ndtri, stdtrit
from scipy.stats.qmc import Sobol

from sksvi.predictive.mixture import normal_quantiles

Array = np.ndarray

#: Powers of two of the directions, at least and at most, and numbers of a matrix of them.
LEAST_POWER, MOST_POWER, MOST_NUMBERS = 10, 12, 4e6
#: Least eigenvalue of a correlation matrix that is a direction, and what the coverage of each is short of 1 at most.
ROUNDING = 1e-10


def joint_coverage(means: Array, covs: Array, weights: Array, df: float | None, coverage: float) -> float:
    """Coverage of equal-tailed intervals, each by itself, at which all hold together with probability `coverage`.

    Of one Gaussian or t distribution it is that of max-t intervals, of Tukey's where variances and correlations are
    those of all pairs of equally many rows (Hothorn, Bretz and Westfall 2008, eq. 4). The probability of a box is found
    over scrambled Sobol directions, along each of which it is that of a length (Deák 1980).

    Parameters
    ----------
    means : ndarray of shape (k, R)
        Of each component.
    covs : ndarray of shape (k, R, R)
    weights : ndarray of shape (k,)
    df : float or None
        Degrees of freedom of a t distribution, of a single component.
    coverage : float

    Examples
    --------
    Three independent ones: each must hold with probability 0.9^(1/3).

    >>> import numpy as np
    >>> from sksvi.inspection._simultaneous import joint_coverage
    >>> each = joint_coverage(np.zeros((1, 3)), np.eye(3)[None], np.ones(1), None, 0.9)
    >>> abs(each - 0.9 ** (1 / 3)) < 1e-4
    True
    """
    std = np.sqrt(np.maximum(np.einsum("krr->kr", covs), 0.0))
    spread = np.flatnonzero(np.all(std > 0, axis=0))  # what is fixed always holds
    if len(spread) < 2:
        return coverage
    means, std, covs = means[:, spread], std[:, spread], covs[:, spread][:, :, spread]
    steps = [_directions(cov / np.outer(own, own)) for cov, own in zip(covs, std, strict=True)]

    def excess(each: float) -> float:
        lower, upper = _ends(means, std, weights, df, each)
        parts = zip(means, std, steps, strict=True)
        inside = [_mass((lower - m) / s, (upper - m) / s, step, rank, df) for m, s, (step, rank) in parts]
        return float(np.dot(weights, inside)) - coverage

    least = coverage if excess(coverage) < 0.0 else 0.0  # a single direction, but for rounding
    return float(brentq(excess, least, 1.0 - ROUNDING, xtol=1e-7))


def joint_coverage_of(draws: Array, coverage: float) -> float:
    """Coverage of each at which intervals of draws (S, R) hold together, by ranks (Besag et al. 1995)."""
    spread = np.ptp(draws, axis=0) > 0
    if np.count_nonzero(spread) < 2:
        return coverage
    ranks = draws[:, spread].argsort(axis=0).argsort(axis=0)
    off = np.abs((2.0 * ranks + 1.0) / len(draws) - 1.0).max(axis=1)
    return float(np.quantile(off, coverage))


def _directions(correlation: Array) -> tuple[Array, int]:
    """Steps along quasi-random directions, coordinate by coordinate (N, R), and how many dimensions they are of."""
    values, vectors = np.linalg.eigh(correlation)
    at = values > ROUNDING * values[-1]
    root = vectors[:, at] * np.sqrt(values[at])
    power = int(np.clip(np.log2(MOST_NUMBERS / len(correlation)), LEAST_POWER, MOST_POWER))
    points = Sobol(root.shape[1], rng=np.random.default_rng(0)).random_base2(power)
    z = ndtri(np.clip(points, 0.5**53, 1.0 - 0.5**53))  # a normal has no quantile at 0 and 1
    return (z / np.linalg.norm(z, axis=1, keepdims=True)) @ root.T, root.shape[1]


def _ends(means: Array, std: Array, weights: Array, df: float | None, each: float) -> tuple[Array, Array]:
    """Ends of equal-tailed intervals of this coverage, (R,)."""
    tail = 0.5 * (1.0 - each)
    if len(weights) > 1:
        return normal_quantiles(means, std, weights, tail), normal_quantiles(means, std, weights, 1.0 - tail)
    half = std[0] * (ndtri(1.0 - tail) if df is None else stdtrit(df, 1.0 - tail))
    return means[0] - half, means[0] + half


def _mass(lower: Array, upper: Array, steps: Array, rank: int, df: float | None) -> float:
    """Probability that a standard Gaussian or t of this rank is inside a box, over its length along directions."""
    with np.errstate(divide="ignore"):
        first, second = lower / steps, upper / steps
    start = np.maximum(np.minimum(first, second).max(axis=1), 0.0)
    end = np.maximum(np.maximum(first, second).min(axis=1), start)
    return float(np.mean(_shorter(end, rank, df) - _shorter(start, rank, df)))


def _shorter(length: Array, rank: int, df: float | None) -> Array:
    """Probability that a standard Gaussian or t of this rank is shorter."""
    square = np.square(length)
    return np.asarray(gammainc(0.5 * rank, 0.5 * square) if df is None else fdtr(rank, df, square / rank))
