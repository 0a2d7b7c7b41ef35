"""Compiled inner loops over CSR rows: x S xᵀ and Σ γ x xᵀ cost nnz(row)², not D²."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray


@entry(
    "cov (P, P) f",
    "out (n) f",
    "indptr (n+1) u cuts e",
    "indices (e) u < P",
    "values (e) f",
)
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


@entry(
    "out (P, P) f",
    "gamma (n) f",
    "indptr (n+1) u cuts e",
    "indices (e) u < P",
    "values (e) f",
)
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
