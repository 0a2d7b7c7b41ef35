"""Latents of few training rows without the row itself, by matrices of n rows a side: approximate leave-one-out.

Exact but for the curvature at the mode of all rows: latents have
the precision G⁻¹ + W for the covariance G of the prior and the curvature W of the rows, and a row's own W is taken out
again (Rad and Maleki 2020: a Newton step from the mode). Of K classes W couples those of a row, and K + 1 matrices of
n a side do for one of nK (Rasmussen and Williams 2006, algorithm 3.3).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack

Array = np.ndarray

#: Rows cubed, for each latent of several twice, for which matrices of rows serve; the least curvature of a row there.
MOST_CUBED, LEAST_CURVATURE = 1.4e9, 1e-12


def affordable(rows: float, latents: int) -> bool:
    """Whether matrices of so many rows a side are no burden."""
    return float(rows) ** 3 * (2 * latents if latents > 1 else 1) <= MOST_CUBED


def inverse_of(gram: Array, root: Array) -> Array:
    """Lower half of the inverse of 1 + R G R for a diagonal R (n,), zero above."""
    B = gram * root
    B *= root[:, None]
    B[np.diag_indices_from(B)] += 1.0
    factor, failed = lapack.dpotrf(B, lower=1, overwrite_a=1, clean=1)
    inverse, wrong = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed or wrong:
        raise np.linalg.LinAlgError("leave-one-out: the prior's covariance of the latents is not positive definite.")
    return np.asarray(inverse)


def whole_inverse_of(gram: Array, root: Array) -> Array:
    """Inverse of 1 + R G R, in the order of rows."""
    half = inverse_of(gram, root)
    inverse = half + half.T
    inverse[np.diag_indices_from(inverse)] = np.diagonal(half)
    return np.ascontiguousarray(inverse)


def variances(gram: Array, gamma: Array, copies: Array) -> Array:
    """Variance (n,) of each latent without its row.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Covariance of the latents under the prior.
    gamma : ndarray of shape (n,)
        Minus the second derivative of a row's log density.
    copies : ndarray of shape (n,)
        How often a row counts; one of them is left out.
    """
    gamma = np.maximum(gamma, LEAST_CURVATURE)
    left = np.diagonal(inverse_of(gram, np.sqrt(copies * gamma)))
    return (1.0 - left) / (gamma * (copies - 1.0 + left))


def shifts(gram: Array, chances: Array, slope: Array, share: Array, copies: Array) -> Array:
    """What a row of K classes adds to its own latents (n, K).

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Covariance of the latents of a class under the prior.
    chances : ndarray of shape (n, K)
        Probabilities p of a softmax, whose curvature is diag(p) - ppᵀ.
    slope : ndarray of shape (n, K)
        Derivatives of a row's log density.
    share, copies : ndarray of shape (n,)
        What a copy counts, and how many of a row there are; one of them is left out.
    """
    (n, k), p = chances.shape, np.maximum(chances, LEAST_CURVATURE)
    weight = share * copies
    across, total, S = np.empty((k, n, n)), np.zeros((n, n)), np.zeros((n, k, k))
    for c in range(k):
        root = np.sqrt(weight * p[:, c])
        inverse = whole_inverse_of(gram, root)
        S[:, c, c] = (1.0 - np.diagonal(inverse)) / root**2
        inverse *= root[:, None]
        np.divide(inverse, -root, out=across[c])
        across[c][np.diag_indices(n)] += 1.0
        total += np.multiply(inverse, root, out=inverse)
    factor = np.linalg.cholesky(total)
    for c in range(k):
        across[c] = blas.dtrsm(1.0, factor, across[c].T, side=1, lower=1, trans_a=1, overwrite_b=1).T
        for d in range(c + 1):
            S[:, c, d] += np.einsum("ai,ai->i", across[c], across[d])
            S[:, d, c] = S[:, c, d]
    curvature = share[:, None, None] * (np.eye(k) * p[:, None, :] - p[:, :, None] * p[:, None, :])
    left = np.eye(k) - curvature @ S
    return np.asarray((S @ np.linalg.solve(left, (share[:, None] * slope)[:, :, None]))[:, :, 0])


def taken(gram: Array, curvature: Array) -> Array:
    """F (n, n): given all rows the covariance of latents is G - G F G.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        G, their covariance under the prior.
    curvature : ndarray of shape (n,)
        Minus the second derivative of the rows' log density, weighted.
    """
    root = np.sqrt(np.maximum(curvature, LEAST_CURVATURE))
    return root * whole_inverse_of(gram, root) * root[:, None]
