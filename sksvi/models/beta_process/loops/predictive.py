"""Compiled mean and second moment of a row's entries given which factors it uses, its weights integrated out.

Draws of the weights would add their own noise to what they are averaged for; given z the weights are Gaussian.
"""

from __future__ import annotations

import numba
import numpy as np

from sksvi._compiled import entry
from sksvi.models.beta_process.loops.density import factor, forward

Array = np.ndarray


@numba.njit(cache=True, nogil=True)
def _posterior(
    phi: Array, spread: Array, used: Array, columns: Array, y: Array, precision: float, L: Array, x: Array
) -> None:
    """Factor L of the precision of the used weights, and x = L⁻¹ φ y."""
    for a in range(len(used)):
        total = 0.0
        for d in columns:
            total += phi[used[a], d] * y[d]
        x[a] = total
        for b in range(a + 1):
            total = 0.0
            for d in columns:
                total += phi[used[a], d] * phi[used[b], d]
            L[a, b] = total
        L[a, a] += precision
        if len(spread) > 0:
            for d in columns:
                L[a, a] += spread[used[a], d]
    factor(L, len(used))
    forward(L, len(used), x)


@numba.njit(cache=True, nogil=True)
def _loose(spread: Array, used: Array, L: Array, x: Array, e: Array, share: float, second: Array) -> None:
    """second += E w² times the variance of the features, for expectations."""
    n = len(used)
    for a in range(n):
        e[:n] = 0.0
        e[a] = 1.0
        forward(L, n, e)
        # L⁻¹ e_a has the variance of w_a as its square, and its mean as its product with x.
        mean, variance = 0.0, 0.0
        for b in range(n):
            mean += e[b] * x[b]
            variance += e[b] * e[b]
        for d in range(len(second)):
            second[d] += share * spread[used[a], d] * (mean * mean + variance)


@entry(
    "omega (S, n, K) f",
    "phi (K, D) f",
    "y (n, D) f",
    "seen (n, D)",
    "spread (K|0, D) f",
    "mean (n, D) f",
    "second (n, D) f",
)
@numba.njit(cache=True, nogil=True)
def given_use(
    omega: Array, y: Array, seen: Array, phi: Array, spread: Array, precision: float, mean: Array, second: Array
) -> None:
    """E of each entry and of its square, noise apart, averaged over the draws of z.

    omega (S, n, K) is not 0 where z is 1.
    y (n, D), phi (K, D) and spread (K, D), or (0, D) for a draw, are in units of the noise, as are mean and second
    (n, D), which come as 0.
    """
    kept, n_rows, K = omega.shape
    D, share = phi.shape[1], 1.0 / kept
    L, x, e = np.empty((K, K)), np.empty(K), np.empty(K)
    for i in range(n_rows):
        columns = np.flatnonzero(seen[i])
        for s in range(kept):
            used = np.flatnonzero(omega[s, i])
            n = len(used)
            _posterior(phi, spread, used, columns, y[i], precision, L, x)
            for d in range(D):
                for a in range(n):
                    e[a] = phi[used[a], d]
                forward(L, n, e)
                fit, variance = 0.0, 0.0
                for a in range(n):
                    fit += e[a] * x[a]
                    variance += e[a] * e[a]
                mean[i, d] += share * fit
                second[i, d] += share * (fit * fit + variance)
            if len(spread) > 0:
                _loose(spread, used, L, x, e, share, second[i])
