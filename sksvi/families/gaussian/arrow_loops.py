"""Compiled loops over the border of an arrow matrix, non-zeros only.

A CSR matrix (L r, P) has a row for every coordinate of the diagonal part, ``inverse`` (L, r, r) a matrix per level.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray

#: The non-zeros of a border, after what names their sizes.
NON_ZEROS = ("indptr (L*r+1) u cuts e", "indices (e) u < P", "data (e) f")


@entry("across (n, P) f", "indptr (n+1) i")
@njit()
def count(across: Array, indptr: Array) -> None:
    """Where the non-zeros of each row begin and end."""
    indptr[0] = 0
    for i in range(len(across)):
        found = 0
        for a in range(across.shape[1]):
            found += across[i, a] != 0.0
        indptr[i + 1] = indptr[i] + found


@entry("across (n, P) f", "indptr (n+1) i cuts e", "indices (e) i", "data (e) f")
@njit()
def store(across: Array, indptr: Array, indices: Array, data: Array) -> None:
    """The non-zeros that were counted."""
    for i in range(len(across)):
        at = indptr[i]
        for a in range(across.shape[1]):
            if across[i, a] != 0.0:
                indices[at], data[at] = a, across[i, a]
                at += 1


@entry("inverse (L, r, r) f", "out (P, P) f", *NON_ZEROS)
@njit()
def gram(indptr: Array, indices: Array, data: Array, inverse: Array, out: Array) -> None:
    """Lower triangle of out += Xᵀ diag(inverse) X."""
    n_levels, r, _ = inverse.shape
    for level in range(n_levels):
        for j in range(r):
            for k in range(r):
                for a in range(indptr[level * r + j], indptr[level * r + j + 1]):
                    scale, row = inverse[level, j, k] * data[a], out[indices[a]]
                    for b in range(indptr[level * r + k], indptr[level * r + k + 1]):
                        if indices[b] > indices[a]:  # columns of a row rise
                            break
                        row[indices[b]] += scale * data[b]


@entry(
    "S (P, P) f", "out (L, r, r) f", *NON_ZEROS,
    "its_indptr (L*r+1) u cuts m", "its_indices (m) u < P", "its_data (m) f",
)  # fmt: skip
@njit()
def forms(
    indptr: Array,
    indices: Array,
    data: Array,
    its_indptr: Array,
    its_indices: Array,
    its_data: Array,
    S: Array,
    out: Array,
) -> None:
    """out[l] = x S yᵀ of the rows x and y (r, P) that two borders have of each level."""
    n_levels, r, _ = out.shape
    for level in range(n_levels):
        for j in range(r):
            for k in range(r):
                total = 0.0
                for a in range(indptr[level * r + j], indptr[level * r + j + 1]):
                    row, part = S[indices[a]], 0.0
                    for b in range(its_indptr[level * r + k], its_indptr[level * r + k + 1]):
                        part += its_data[b] * row[its_indices[b]]
                    total += data[a] * part
                out[level, j, k] = total
