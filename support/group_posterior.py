"""The exact posterior of the standard deviation of groups of Gaussian rows, under the priors of a default fit."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def posterior_below(ends: Array, x: Array, y: Array, levels: int) -> Array:
    """Posterior probability that the deviation of levels with equally many rows each is below some ends.

    On a grid of it and the deviation of the noise, with a constant and the coefficient of x integrated.

    Parameters
    ----------
    ends : ndarray of shape (k,)
    x, y : ndarray of shape (n,)
        Level after level.
    levels : int

    Returns
    -------
    ndarray of shape (k,)
    """
    n, unit = len(y), np.std(y)
    columns = np.column_stack([np.ones(n), x, y])
    means = np.repeat(columns.reshape(levels, -1, 3).mean(axis=1), n // levels, axis=0)
    log_std = np.linspace(np.log(1e-4 * unit), np.log(20.0 * unit), 500)
    log_noise = np.log(unit) + np.linspace(-1.2, 0.8, 120)
    noise = np.exp(2.0 * log_noise)
    level = noise + n / levels * np.exp(2.0 * log_std[:, None])
    sums = means.T @ means / level[..., None, None]
    sums = sums + (columns - means).T @ (columns - means) / noise[:, None, None]
    A, b = sums[..., :2, :2] + 1e-4 * np.eye(2), sums[..., :2, 2]
    left = sums[..., 2, 2] - np.einsum("...i,...i", b, np.linalg.solve(A, b[..., None])[..., 0])
    log = -0.5 * (levels * np.log(level) + (n - levels) * np.log(noise) + np.linalg.slogdet(A)[1] + left)
    log += (log_std - 2.0 * np.log1p(np.exp(2.0 * log_std) / (2.5 * unit) ** 2 / 3.0))[:, None]
    log += log_noise - np.log1p(noise / unit**2)
    share = np.cumsum(np.exp(log - log.max()).sum(axis=1))
    return np.asarray(np.interp(np.log(ends), log_std, share / share[-1]))
