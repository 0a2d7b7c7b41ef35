"""Compiled means, second moments and densities of a row's entries, its weights integrated out.

Draws of the weights differ by more than a few dozen of them can average over: the mean of the densities is then that of
the luckiest draw, and a posterior that is spread looks worse than one that is wrong. Given z the weights are Gaussian.

So it is with mean and second moment: draws of the weights would add their own noise to what they are averaged for.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.models.beta_process.loops.variational import FAST, axpy, dot, observed_columns

# ---- densities of entries that a row lacks, the held-out density
Array = np.ndarray


@njit()
def _add_products(phi: Array, used: Array, columns: Array, M: Array) -> None:
    """M += phi phiᵀ of the used features over the columns; the lower triangle."""
    for a in range(len(used)):
        for b in range(a + 1):
            total = 0.0
            for d in columns:
                total += phi[used[a], d] * phi[used[b], d]
            M[a, b] += total


@njit()
def factor(M: Array, n: int) -> float:
    """Cholesky factor of the leading n x n part in place; half the log determinant."""
    half = 0.0
    for a in range(n):
        for b in range(a + 1):
            total = M[a, b]
            for c in range(b):
                total -= M[a, c] * M[b, c]
            M[a, b] = np.sqrt(total) if a == b else total / M[b, b]
        half += np.log(M[a, a])
    return half


@njit()
def forward(L: Array, n: int, x: Array) -> None:
    """x = L⁻¹ x."""
    for a in range(n):
        for b in range(a):
            x[a] -= L[a, b] * x[b]
        x[a] /= L[a, a]


@njit()
def backward(L: Array, n: int, x: Array) -> None:
    """x = L⁻ᵀ x."""
    for a in range(n - 1, -1, -1):
        for b in range(a + 1, n):
            x[a] -= L[b, a] * x[b]
        x[a] /= L[a, a]


@njit()
def _products(phi: Array, used: Array, columns: Array, r: Array, x: Array) -> None:
    """x = phi r of the used features over the columns."""
    for a in range(len(used)):
        x[a] = 0.0
        for d in columns:
            x[a] += phi[used[a], d] * r[d]


@njit()
def _weights(
    phi: Array, used: Array, columns: Array, y: Array, precision: float, u: Array, inverse: Array, M: Array, m: Array
) -> float:
    """Precision M and mean m of the used weights; half the log determinant of M.

    With u and 1/kappa of a variational posterior (K,) these are it; else they are given z and the row's `columns`.
    """
    n, half = len(used), 0.0
    M[:n, :n] = 0.0
    if len(u) > 0:
        for a in range(n):
            M[a, a], m[a] = 1.0 / inverse[used[a]], u[used[a]]
            half -= 0.5 * np.log(inverse[used[a]])
        return half
    for a in range(n):
        M[a, a] = precision
    _add_products(phi, used, columns, M)
    L = M[:n, :n].copy()
    half = factor(L, n)
    _products(phi, used, columns, y, m)
    forward(L, n, m)
    backward(L, n, m)
    return half


@entry(
    "omega (S, n, K) f",
    "phi (K, D) f",
    "y (n, D) f",
    "observed (n, D)",
    "target (n, D) f",
    "wanted (n, D)",
    "law (2|0, n, K) f",
    "out (S, n) f",
)
@njit()
def held_out_density(
    omega: Array,
    y: Array,
    observed: Array,
    target: Array,
    wanted: Array,
    phi: Array,
    precision: float,
    law: Array,
    out: Array,
) -> None:
    """log p(wanted entries of a row | z, its observed entries) for every draw, out (S, n); noise has precision 1.

    z are the entries of omega (S, n, K) that are not 0. y, target (n, D) and phi (K, D) are in units of the noise. law
    (2, n, K): u and 1/kappa, or (0, 0, 0) for draws, whose weights are Gaussian given z and the observed entries.
    """
    K, D = phi.shape
    M, m, x, r = np.empty((K, K)), np.empty(K), np.empty(K), np.empty(D)
    none = np.empty(0)
    for s in range(len(omega)):
        for i in range(len(y)):
            held_out = np.flatnonzero(wanted[i])
            if len(held_out) == 0:
                out[s, i] = 0.0
                continue
            used = np.flatnonzero(omega[s, i])
            n = len(used)
            u, inverse = (law[0, i], law[1, i]) if len(law) > 0 else (none, none)
            half = _weights(phi, used, np.flatnonzero(observed[i]), y[i], precision, u, inverse, M, m)
            for e in range(len(r)):
                r[e] = target[i, e]
            for a in range(n):
                for d in held_out:
                    r[d] -= m[a] * phi[used[a], d]
            # Held-out entries have covariance I + phiᵀ M⁻¹ phi; its inverse and determinant by those of M + phi phiᵀ.
            _add_products(phi, used, held_out, M)
            half -= factor(M, n)
            _products(phi, used, held_out, r, x)
            forward(M, n, x)
            total = half - 0.5 * len(held_out) * np.log(2.0 * np.pi)
            for d in held_out:
                total -= 0.5 * r[d] * r[d]
            for a in range(n):
                total += 0.5 * x[a] * x[a]
            out[s, i] = total


# ---- moments of a row's entries given which factors it uses
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
