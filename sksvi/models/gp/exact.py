"""The exact Gaussian process with Gaussian noise: what the optimal bound of a sparse GP is made of (equations.md 4, 6).

A row of weight k is k rows with the same x and y, which one row with k times less noise stands for, up to a constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from sksvi.families.gaussian.dense import NotPositiveDefinite
from sksvi.models.base import Table
from sksvi.models.gp import kernels
from sksvi.models.gp.bounds import LOG_2PI

Array = np.ndarray


def _noise_of_rows(data: Table, noise: float) -> tuple[Array, float]:
    """Noise variance per row, and the constant that weights add to the log density."""
    if data.weight is None:
        return np.full(len(data), noise), 0.0
    left = float(np.sum(data.weight - 1.0)) * (LOG_2PI + np.log(noise)) + float(np.sum(np.log(data.weight)))
    return noise / data.weight, -0.5 * left


def _target(data: Table) -> Array:
    return data.y if data.offset is None else data.y - data.offset


def _factor(A: Array, noise: float) -> Array:
    L, info = lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)
    if info:
        raise NotPositiveDefinite(
            f"the covariance matrix of y is singular at row {info - 1}: with a noise variance of {noise:g} rows with "
            "equal x cannot differ in y, and no jitter is added to it"
        )
    return L


def whitened_rows(geometry: Any, data: Table, noise: float) -> tuple[Array, Array, float]:
    """Rows h and target with covariance R = K - Q + noise turned to I, and the constant of the log density.

    Returns
    -------
    rows : ndarray of shape (n, M)
    target : ndarray of shape (n,)
    constant : float
    """
    _, H, _ = geometry.rows(data.X)
    own, constant = _noise_of_rows(data, noise)
    R = np.array(kernels.cross(geometry.kernel, data.X, data.X), order="F")
    R = blas.dgemm(-1.0, H, H, beta=1.0, c=R, trans_b=1, overwrite_c=1)
    R[np.diag_indices_from(R)] += own
    L = _factor(R, noise)
    rows = blas.dtrsm(1.0, L, H, lower=1)
    target = blas.dtrsm(1.0, L, _target(data)[:, None], lower=1)[:, 0]
    return np.ascontiguousarray(rows), target, constant - float(np.log(np.diagonal(L)).sum())


def log_evidence(kernel: Any, data: Table, noise: float) -> tuple[float, Array, float]:
    """log p(y), and its derivatives in ``kernel.theta`` and in the noise variance.

    Parameters
    ----------
    kernel : scikit-learn kernel
    data : Table
    noise : float
        Variance.

    Returns
    -------
    value : float
        In nats.
    theta : ndarray of shape (P,)
    in_noise : float

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sksvi.models.base import Table
    >>> from sksvi.models.gp.exact import log_evidence
    >>> value, _, _ = log_evidence(RBF(), Table(np.zeros((1, 1)), np.zeros(1)), 1.0)
    >>> round(value, 4)
    -1.2655
    """
    own, constant = _noise_of_rows(data, noise)
    K = kernels.cross(kernel, data.X, data.X)
    A = np.array(K, order="F")
    A[np.diag_indices_from(A)] += own
    L = _factor(A, noise)
    y = _target(data)
    alpha, _ = lapack.dpotrs(L, y, lower=1)
    value = -0.5 * float(y @ alpha) - float(np.log(np.diagonal(L)).sum()) - 0.5 * len(y) * LOG_2PI + constant
    inverse, _ = lapack.dpotri(L, lower=1)
    G = -np.tril(inverse)
    G = blas.dsyr(1.0, alpha, lower=1, a=np.asfortranarray(G), overwrite_a=1)
    in_noise = 0.5 * float(np.diagonal(G) @ (own / noise))
    in_noise -= 0.5 * (0.0 if data.weight is None else float(np.sum(data.weight - 1.0)) / noise)
    # The lower triangle stands for both: off the diagonal twice.
    G[np.diag_indices_from(G)] *= 0.5
    theta, _ = kernels.cross_pullback(kernel, data.X, data.X, G, K, inputs=False)
    return value, theta, in_noise
