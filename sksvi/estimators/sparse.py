"""Sparse matrices at the door: what compiled loops read from them is checked once, and entries stand once."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def well_formed(X: Any, name: str = "X") -> None:
    """An error for a sparse matrix whose arrays contradict each other: conversions and loops would read past them.

    Raises
    ------
    ValueError
        Naming the matrix and what is wrong with it.
    """
    if not sp.issparse(X):
        return
    try:
        if X.format in ("csr", "csc", "bsr"):
            # Views of a new matrix: neither flags that a user set nor arrays that the check may cut are the user's.
            arrays = tuple(np.asarray(part)[:] for part in (X.data, X.indices, X.indptr))
            type(X)(arrays, shape=X.shape).check_format(full_check=True)
        elif X.format == "coo":
            type(X)((X.data, X.coords if hasattr(X, "coords") else (X.row, X.col)), shape=X.shape)
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is a sparse matrix whose arrays contradict each other: {error}.") from error


def merged(X: Any) -> Any:
    """X with each of its entries stored once, in the order of its columns; a copy where that changes anything."""
    if not sp.issparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X
