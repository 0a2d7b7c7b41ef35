"""Compiled inner loops over CSR rows: x S xᵀ and Σ γ x xᵀ cost nnz(row)², not D²."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray


@entry("cov (P, P) f", "out (n) f", "indptr (n+1) u cuts e", "indices (e) u < P", "values (e) f")
@njit()
def spread(indptr: Array, indices: Array, values: Array, cov: Array, intercept: bool, out: Array) -> None:
    """out[i] = x S xᵀ for rows [x, 1] (or x)."""
    last = cov.shape[0] - 1
    for i in range(len(indptr) - 1):
        total = cov[last, last] if intercept else 0.0
        for a in range(indptr[i], indptr[i + 1]):
            row = cov[indices[a]]
            inner = 0.5 * values[a] * row[indices[a]]
            if intercept:
                inner += row[last]
            for b in range(indptr[i], a):
                inner += values[b] * row[indices[b]]
            total += 2.0 * values[a] * inner
        out[i] = total


@entry("out (P, P) f", "gamma (n) f", "indptr (n+1) u cuts e", "indices (e) u < P", "values (e) f")
@njit()
def gram(indptr: Array, indices: Array, values: Array, gamma: Array, intercept: bool, out: Array) -> None:
    """out += Σ γ_i h_i h_iᵀ for rows h = [x, 1] (or x); `out` is (P, P), indices sorted within a row."""
    last = out.shape[0] - 1
    for i in range(len(indptr) - 1):
        for a in range(indptr[i], indptr[i + 1]):
            scaled = gamma[i] * values[a]
            row = out[indices[a]]
            for b in range(indptr[i], a + 1):
                row[indices[b]] += scaled * values[b]
            if intercept:
                out[last, indices[a]] += scaled
        if intercept:
            out[last, last] += gamma[i]
    for a in range(out.shape[0]):
        for b in range(a):
            out[b, a] = out[a, b]


@entry("weight (n) f", "centre (D) f", "out (6, D) f", "indptr (n+1) u cuts e", "indices (e) u < D", "values (e) f")
@njit()
def add_to_columns(indptr: Array, indices: Array, values: Array, weight: Array, centre: Array, out: Array) -> None:
    """Add what is stored to the extremes of each column, its weight, sums of w (x - centre) and w (x - centre)².

    The last row counts values between the extremes.
    """
    for i in range(len(weight)):
        for e in range(indptr[i], indptr[i + 1]):
            j, x = indices[e], values[e]
            off = x - centre[j]
            out[0, j] = min(out[0, j], x)
            out[1, j] = max(out[1, j], x)
            out[2, j] += weight[i]
            out[3, j] += weight[i] * off
            out[4, j] += weight[i] * (off * off)
    for e in range(len(values)):
        j = indices[e]
        if out[0, j] < values[e] < out[1, j]:
            out[5, j] += 1.0
