"""Compiled mean and second moment of a row's entries given which factors it uses, its weights integrated out.

Draws of the weights would add their own noise to what they are averaged for; given z the weights are Gaussian.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.models.beta_process.loops.density import factor, forward
from sksvi.models.beta_process.loops.variational import FAST, axpy, dot, observed_columns

Array = np.ndarray


@njit()
def _posterior(
    own: Array, n_used: int, n_observed: int, y: Array, precision: float, loose: Array, L: Array, x: Array
) -> None:
    """Factor L of the precision of the used weights, and x = L⁻¹ φ y; own (n_used, n_observed) and y are observed."""
    for a in range(n_used):
        x[a] = dot(own[a], y, n_observed)
        for b in range(a + 1):
            L[a, b] = dot(own[a], own[b], n_observed)
        L[a, a] += precision + loose[a]
    factor(L, n_used)
    forward(L, n_used, x)


@njit()
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


@njit(fastmath=FAST)
def _add_fits(phi: Array, used: Array, L: Array, x: Array, share: float, e: Array, mean: Array, second: Array) -> None:
    """mean, second += share of the fit of every entry and of its square; e = L⁻¹ φ, row by row over all entries."""
    D = phi.shape[1]
    fit, square = np.zeros(D), np.zeros(D)
    for a in range(len(used)):
        e[a] = phi[used[a]]
        for b in range(a):
            axpy(-L[a, b], e[b], e[a], D)
        inverse = 1.0 / L[a, a]
        for d in range(D):
            e[a, d] *= inverse
            fit[d] += e[a, d] * x[a]
            square[d] += e[a, d] * e[a, d]
    for d in range(D):
        mean[d] += share * fit[d]
        second[d] += share * (fit[d] * fit[d] + square[d])


@entry(
    "omega (S, n, K) f",
    "phi (K, D) f",
    "y (n, D) f",
    "observed (n, D)",
    "spread (K|0, D) f",
    "mean (n, D) f",
    "second (n, D) f",
)
@njit()
def given_use(
    omega: Array, y: Array, observed: Array, phi: Array, spread: Array, precision: float, mean: Array, second: Array
) -> None:
    """E of each entry and of its square, noise apart, averaged over the draws of z.

    omega (S, n, K) is not 0 where z is 1.
    y (n, D), phi (K, D) and spread (K, D), or (0, D) for a draw, are in units of the noise, as are mean and second
    (n, D), which come as 0.
    """
    n_draws, n_rows, K = omega.shape
    D, share = phi.shape[1], 1.0 / n_draws
    L, x, e, loose = np.empty((K, K)), np.empty(K), np.empty(K), np.zeros(K)
    own, full, r, index = np.empty((K, D)), np.empty((K, D)), np.empty(D), np.empty(D, np.int64)
    for i in range(n_rows):
        n_observed = observed_columns(observed[i], index)
        columns = index[:n_observed]
        for j in range(n_observed):
            r[j] = y[i, columns[j]]
        for s in range(n_draws):
            used = np.flatnonzero(omega[s, i])
            for a in range(len(used)):
                for j in range(n_observed):
                    own[a, j] = phi[used[a], columns[j]]
                if len(spread) > 0:
                    loose[a] = spread[used[a]][columns].sum()
            _posterior(own, len(used), n_observed, r, precision, loose, L, x)
            _add_fits(phi, used, L, x, share, full, mean[i], second[i])
            if len(spread) > 0:
                _loose(spread, used, L, x, e, share, second[i])
