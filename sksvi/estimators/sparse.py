"""Sparse matrices at the door: what compiled loops read from them is checked once, and entries stand once."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from sksvi._typing.arrays import is_compressed, is_sparse

COMPRESSED = ("csr", "csc", "bsr")


def checked_sparse(X: Any, name: str = "X") -> Any:
    """X without spare room in its buffers, each entry stored once in the order of its columns.

    Every estimator's sparse input comes through here. What is no sparse matrix, and what is in order, is returned as it
    is; nothing of the user's is changed.

    Raises
    ------
    ValueError
        Naming the matrix and what is wrong with it, where its arrays contradict each other: conversions and loops would
        read past them.
    """
    if not is_sparse(X):
        return X
    try:
        canonical = _canonical(X)
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is a sparse matrix whose arrays contradict each other: {error}.") from error
    return X if X.format not in COMPRESSED else _in_order(X, canonical)


def _canonical(X: Any) -> bool:
    """Whether a compressed matrix has each entry once, in order; made anew, it raises where its arrays disagree."""
    if X.format in COMPRESSED:
        # Views of a new matrix: neither flags that a user set nor arrays that the check may cut are the user's.
        arrays = tuple(np.asarray(part)[:] for part in (X.data, X.indices, X.indptr))
        plain = type(X)(arrays, shape=X.shape)
        plain.check_format(full_check=True)
        return bool(X.format == "bsr" or plain.has_canonical_format)
    if X.format == "coo":
        type(X)((X.data, X.coords if hasattr(X, "coords") else (X.row, X.col)), shape=X.shape)
    return False


def _in_order(X: Any, canonical: bool) -> Any:
    """A compressed matrix with buffers as long as it has entries, and none twice."""
    n = int(X.indptr[-1])
    if canonical and len(X.data) == len(X.indices) == n:
        return X
    X = copy.copy(X)  # of the same class, with the words that it may have for its columns
    X.data, X.indices = X.data[:n], X.indices[:n]
    return X if canonical else merged(X, trusted=False)


def merged(X: Any, trusted: bool = True) -> Any:
    """X with each of its entries stored once, in the order of its columns; a copy where that changes anything.

    `trusted`: whether its own flag says so; a user may have set that.
    """
    if not is_compressed(X) or (trusted and X.has_canonical_format):
        return X
    X = X.copy()
    X.has_sorted_indices = X.has_canonical_format = False
    X.sum_duplicates()
    return X
