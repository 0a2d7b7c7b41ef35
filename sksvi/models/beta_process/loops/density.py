"""Compiled densities of entries that a row lacks, its weights integrated out (equations.md 7, the held-out density).

Draws of the weights differ by more than a few dozen of them can average over: the mean of the densities is then that of
the luckiest draw, and a posterior that is spread looks worse than one that is wrong. Given z the weights are Gaussian.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit

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
            r[:] = target[i]
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
