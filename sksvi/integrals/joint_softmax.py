"""Softmax under a Gaussian over all K latents of a datum: E log p(y|f) and its derivatives for f ~ N(m, V).

A shift common to all latents changes nothing, so the integral is over the K - 1 contrasts only. The rule is quasi-Monte
Carlo with one point set for all rows: a Kronecker sequence through the normal quantile, made antithetic and whitened,
so that it is exact for polynomials of degree three and the error starts with the fourth derivative of log-sum-exp.
Rows with a small V need few points; the choice looks at the row alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtri

Array = Any

#: Largest variance of a contrast, and the points that rows up to it get.
LEVELS = ((0.03, 32), (0.5, 64), (np.inf, 192))
_CHUNK_NUMBERS = 2**17


@cache
def points(n: int, k: int) -> np.ndarray:
    """n whitened antithetic points of the K-dimensional standard normal, (n, K)."""
    half = max(n // 2, k)
    # The root of x^(k+1) = x + 1 generalises the golden ratio: its powers fill the cube evenly.
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (k + 1))
    step = root ** -np.arange(1.0, k + 1)
    z = ndtri((0.5 + np.outer(np.arange(1.0, half + 1), step)) % 1.0)
    factor = np.linalg.cholesky(z.T @ z / half)
    z = np.linalg.solve(factor, z.T).T
    return np.concatenate([z, -z])


@cache
def contrasts(k: int) -> np.ndarray:
    """Orthonormal basis of the contrasts of k classes, (k, k - 1): Helmert's."""
    basis = np.tril(-np.ones((k, k)), -1).T + np.diag(np.arange(k, dtype=float))
    return (basis / np.maximum(np.linalg.norm(basis, axis=0), 1.0))[:, 1:]


def joint_softmax(m: Array, cov: Array, hessian: bool = True) -> tuple[Array, Array, Array | None]:
    """E log sum exp f (n,), E p (n, K) and E (diag p - ppᵀ) (n, K, K) for f ~ N(m, cov)."""
    n, k = m.shape
    shift = m.mean(axis=1)
    basis = contrasts(k)
    inner = np.einsum("ka,nkl,lb->nab", basis, cov, basis, optimize=True)
    total, p, bend = np.empty(n), np.empty((n, k)), np.empty((n, k, k)) if hessian else None
    widest = np.diagonal(inner, axis1=1, axis2=2).max(axis=1)
    low = -np.inf
    for high, size in LEVELS:
        rows = np.flatnonzero((widest > low) & (widest <= high))
        low, z = high, points(size, k - 1)
        chunk = max(1, _CHUNK_NUMBERS // (len(z) * k))
        for start in range(0, len(rows), chunk):
            part = rows[start : start + chunk]
            draws = z @ np.swapaxes(_factor(inner[part]), 1, 2) @ basis.T
            total[part], p[part], bent = _average(m[part] - shift[part, None], draws, hessian)
            if bend is not None:
                bend[part] = bent
    return total + shift, p, bend


def _average(m: Array, draws: Array, hessian: bool) -> tuple[Array, Array, Array]:
    f = m[:, None, :] + draws
    top = f.max(axis=2, keepdims=True)
    np.subtract(f, top, out=f)
    np.exp(f, out=f)
    size = f.sum(axis=2)
    f /= size[..., None]
    mean = f.mean(axis=1)
    log_sum = (np.log(size) + top[..., 0]).mean(axis=1)
    if not hessian:
        return log_sum, mean, np.empty(0)
    bend = -(np.swapaxes(f, 1, 2) @ f) / f.shape[1]
    index = np.arange(f.shape[2])
    bend[:, index, index] += mean
    return log_sum, mean, bend


def _factor(cov: Array) -> Array:
    """Cholesky factor of each covariance, smooth in it; rounding alone is added to the diagonal."""
    size = np.einsum("naa->n", cov)[:, None, None] + np.finfo(float).tiny
    return np.linalg.cholesky(cov + 1e-12 * size * np.eye(cov.shape[1]))
