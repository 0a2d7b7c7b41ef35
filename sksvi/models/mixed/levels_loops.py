"""Compiled inner loops over rows that touch one level of each factor.

A row is a few dense columns ``A`` (coordinates ``at``), a few entries of a CSR matrix, and one level of the factor
whose levels are the diagonal part of an arrow matrix (-1: none) with its values. Matrices come as the parts of an
arrow: ``diag`` (L, r, r), ``border`` (L r, P2) with a row per coordinate of a level, ``corner`` (P2, P2); `at` and
`indices` are coordinates of the corner. Dense columns with each other are left to BLAS.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray

#: What rows of a design with levels and the parts of an arrow matrix are.
ROWS = (
    "corner (P, P) f",
    "A (n, a) f",
    "at (a) u < P",
    "indptr (n+1) u cuts e",
    "indices (e) u < P",
    "data (e) f",
    "slope (n, r) f",
    "diag (L, r, r) f",
    "level (n) i ? < L",
    "border (L*r, P) f",
)


@njit()
def _inner(A: Array, at: Array, indices: Array, data: Array, row: Array) -> float:
    total = 0.0
    for a in range(len(indices)):
        total += data[a] * row[indices[a]]
    for j in range(len(at)):
        total += A[j] * row[at[j]]
    return total


@entry(*ROWS, "out (n) f")
@njit()
def form(
    A: Array,
    at: Array,
    indptr: Array,
    indices: Array,
    data: Array,
    level: Array,
    slope: Array,
    diag: Array,
    border: Array,
    corner: Array,
    out: Array,
) -> None:
    """out[i] += x S xᵀ, without what the dense columns have among themselves."""
    r = slope.shape[1]
    for i in range(len(out)):
        begin, end = indptr[i], indptr[i + 1]
        total = 0.0
        for a in range(begin, end):
            row = corner[indices[a]]
            inner = _inner(A[i], at, indices[begin:a], data[begin:a], row)
            total += 2.0 * data[a] * (inner + 0.5 * data[a] * row[indices[a]])
        if level[i] >= 0:
            for k in range(r):
                inner = _inner(A[i], at, indices[begin:end], data[begin:end], border[level[i] * r + k])
                for other in range(r):
                    inner += 0.5 * diag[level[i], k, other] * slope[i, other]
                total += 2.0 * slope[i, k] * inner
        out[i] += total


@njit()
def _scatter(scale: float, A: Array, at: Array, indices: Array, data: Array, row: Array) -> None:
    for a in range(len(indices)):
        row[indices[a]] += scale * data[a]
    for j in range(len(at)):
        row[at[j]] += scale * A[j]


@entry(*ROWS, "gamma (n) f")
@njit()
def gram(
    A: Array,
    at: Array,
    indptr: Array,
    indices: Array,
    data: Array,
    level: Array,
    slope: Array,
    gamma: Array,
    diag: Array,
    border: Array,
    corner: Array,
) -> None:
    """diag, border, corner += Σ γ_i x_i x_iᵀ, without what the dense columns have among themselves."""
    r = slope.shape[1]
    for i in range(len(gamma)):
        begin, end = indptr[i], indptr[i + 1]
        for a in range(begin, end):
            scale, row = gamma[i] * data[a], corner[indices[a]]
            _scatter(scale, A[i], at, indices[begin:a], data[begin:a], row)
            row[indices[a]] += scale * data[a]
        if level[i] >= 0:
            for k in range(r):
                scale = gamma[i] * slope[i, k]
                _scatter(scale, A[i], at, indices[begin:end], data[begin:end], border[level[i] * r + k])
                for other in range(r):
                    diag[level[i], k, other] += gamma[i] * (slope[i, k] * slope[i, other])
    # Each pair of coordinates was counted on one side or the other.
    for a in range(corner.shape[0]):
        for b in range(a):
            corner[a, b] += corner[b, a]
            corner[b, a] = corner[a, b]
