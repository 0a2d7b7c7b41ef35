"""Compiled loops of a factorization's conditional draws: latent values, Gaussian draws of columns, spreads of pairs."""

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.models.factorization.loops import SUMS, unpack


@entry("own (p, W) f", "other (q, W) f", "starts (p+1) i cuts e", "others (e) i < q", "f (e) f")
@njit()
def latent_values(starts, others, own, other, f):
    """f = xᵀz of each entry."""
    for p in range(own.shape[0]):
        x = own[p]
        for e in range(starts[p] - starts[0], starts[p + 1] - starts[0]):
            z, total = other[others[e]], 0.0
            for k in range(x.shape[0]):
                total += x[k] * z[k]
            f[e] = total


@njit()
def _cholesky(matrix):
    """The lower Cholesky factor in the place of the lower triangle; a diagonal that is not positive becomes NaN."""
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if i == j:
                matrix[i, i] = np.sqrt(total) if total > 0.0 else np.nan
            else:
                matrix[i, j] = total / matrix[j, j]


@entry(
    "curvature (p, R) f", "precision (F) f", "slope (p, F) f", "noise (p, F) f", "there (p, F) f", "step (p, F) f",
    "log_step (p) f", "log_there (p) f",
)  # fmt: skip
@njit()
def gaussian_steps(curvature, precision, slope, noise, there, step, log_step, log_there):
    """A draw of each column's step from N(P⁻¹ slope, P⁻¹), P = `curvature` (packed) + diag(`precision`).

    `log_step`, `log_there`: log densities at the step and at the steps `there`, up to one constant; NaN where P is
    not positive definite.
    """
    size = precision.shape[0]
    matrix, centre = np.empty((size, size)), np.empty(size)
    for p in range(slope.shape[0]):
        unpack(curvature[p], matrix)
        for k in range(size):
            matrix[k, k] += precision[k]
        _cholesky(matrix)
        log_det = 0.0
        for i in range(size):  # L c = slope
            total = slope[p, i]
            for k in range(i):
                total -= matrix[i, k] * centre[k]
            centre[i] = total / matrix[i, i]
            log_det += np.log(matrix[i, i])
        # Lᵀ (step) = c + noise, and Lᵀ (there) - c is the noise that would have led there.
        squares, gaps = 0.0, 0.0
        for i in range(size - 1, -1, -1):
            total, gap = centre[i] + noise[p, i], -centre[i]
            for k in range(i + 1, size):
                total -= matrix[k, i] * step[p, k]
            for k in range(i, size):
                gap += matrix[k, i] * there[p, k]
            step[p, i] = total / matrix[i, i]
            squares += noise[p, i] * noise[p, i]
            gaps += gap * gap
        log_step[p], log_there[p] = log_det - 0.5 * squares, log_det - 0.5 * gaps


@entry("users (p, S, F) f", "items (q, S, F) f", "of_user (e) i < p", "of_item (e) i < q", "mean (e) f", "out (e) f")
@njit(fastmath=SUMS)
def squared_spreads(users, items, of_user, of_item, mean, shared, out):
    """Mean of (f - mean)² over draws of each pair's columns, f of products of the first `shared` and sums of others."""
    n_draws = users.shape[1]
    for e in range(of_user.shape[0]):
        x, z, total = users[of_user[e]], items[of_item[e]], 0.0
        for s in range(n_draws):
            f = 0.0
            for k in range(shared):
                f += x[s, k] * z[s, k]
            for k in range(shared, x.shape[1]):
                f += x[s, k] + z[s, k]
            total += (f - mean[e]) ** 2
        out[e] = total / n_draws
