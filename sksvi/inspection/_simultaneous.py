"""Intervals that hold together: the coverage that each must have, from the joint distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtri, ndtr, ndtri, stdtr

Array = np.ndarray

#: Powers of two of the points that draws are made of, at least and at most, and numbers that are held at once.
LEAST_POWER, MOST_POWER, MOST_NUMBERS = 12, 16, 4e6


def joint_coverage(means: Array, covs: Array, weights: Array, df: float | None, coverage: float) -> float:
    """Coverage of equal-tailed intervals, each by itself, at which all hold together with probability `coverage`.

    Of one Gaussian or t distribution it is that of max-t intervals, of Tukey's where variances and correlations are
    those of all pairs of equally many rows. The joint distribution is a mixture, by scrambled Sobol points of it.

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
    >>> print(round(each, 3), round(0.9 ** (1 / 3), 3))
    0.965 0.965
    """
    std = np.sqrt(np.maximum(np.einsum("krr->kr", covs), 0.0))
    spread = np.flatnonzero(np.all(std > 0, axis=0))  # what is fixed always holds
    if len(spread) < 2:
        return coverage
    means, std, covs = means[:, spread], std[:, spread], covs[:, spread][:, :, spread]
    found, shares = [], []
    for mean, own, cov, weight in zip(means, std, covs, weights, strict=True):
        z = _draws(cov / np.outer(own, own), df)
        if len(weights) == 1:
            found.append(2.0 * _cdf(np.abs(z).max(axis=1), df) - 1.0)
        else:
            values = mean + own * z
            u = sum(w * ndtr((values - m) / s) for w, m, s in zip(weights, means, std, strict=True))
            found.append(np.abs(2.0 * np.asarray(u) - 1.0).max(axis=1))
        shares.append(np.full(len(z), weight / len(z)))
    return _quantile(np.concatenate(found), np.concatenate(shares), coverage)


def joint_coverage_of(draws: Array, coverage: float) -> float:
    """Coverage of each at which intervals of draws (S, R) hold together, by ranks (Besag et al. 1995)."""
    spread = np.ptp(draws, axis=0) > 0
    if np.count_nonzero(spread) < 2:
        return coverage
    ranks = draws[:, spread].argsort(axis=0).argsort(axis=0)
    off = np.abs((2.0 * ranks + 1.0) / len(draws) - 1.0).max(axis=1)
    return float(np.quantile(off, coverage))


def _draws(correlation: Array, df: float | None) -> Array:
    """Points (N, R) of a standard Gaussian or t distribution with this correlation."""
    from scipy.stats.qmc import Sobol

    values, vectors = np.linalg.eigh(correlation)
    values, vectors = np.maximum(values, 0.0), vectors
    at = values > len(values) * np.finfo(float).eps * values[-1]
    root = vectors[:, at] * np.sqrt(values[at])
    power = int(np.clip(np.log2(MOST_NUMBERS / len(correlation)), LEAST_POWER, MOST_POWER))
    points = Sobol(root.shape[1] + (df is not None), rng=np.random.default_rng(0)).random_base2(power)
    points = np.clip(points, 0.5**53, 1.0 - 0.5**53)  # a normal has no quantile at 0 and 1
    z = ndtri(points[:, : root.shape[1]]) @ root.T
    return z if df is None else z / np.sqrt(chdtri(df, points[:, -1:]) / df)


def _cdf(t: Array, df: float | None) -> Array:
    return np.asarray(ndtr(t) if df is None else stdtr(df, t))


def _quantile(values: Array, shares: Sequence[float] | Array, level: float) -> float:
    order = np.argsort(values)
    return float(
        np.interp(level, np.cumsum(np.asarray(shares)[order]) - 0.5 * np.asarray(shares)[order], values[order])
    )
