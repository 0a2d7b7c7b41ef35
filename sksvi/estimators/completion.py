"""Completion: halves of the entries of rows, of which one predicts the other; missing entries, rows from factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.estimators.validation import check_table

Array = np.ndarray


def first_half(columns: Array, starts: Array) -> Array:
    """Mask of the entries of each row that are observed: every second one in the order of a fixed shuffle of columns.

    The order is a multiplicative hash of the column, so that which half an entry is in depends on nothing but the
    entries of its own row.

    Parameters
    ----------
    columns : ndarray of shape (nnz,)
        Column of each entry, entries of a row together.
    starts : ndarray of shape (n + 1,)
        Where each row begins, and the end of the last one.

    Returns
    -------
    ndarray of bool, shape (nnz,)
        Half of each row, rounded down: the one entry of a row that has no more is not among them.
    """
    key = (columns.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.lexsort((columns, key, row))
    observed = np.zeros(len(order), bool)
    observed[order] = (np.arange(len(order)) - starts[row[order]]) % 2 == 1
    return observed


def halved(X: Any) -> tuple[Any, Any]:
    """Half of each row's distinct words, and the others (:func:`first_half`).

    Parameters
    ----------
    X : CSR matrix
        Counts.

    Returns
    -------
    observed, held_out : CSR matrices
        Of the shape of X; a row with one word has it held out.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from sksvi.estimators.completion import halved
    >>> observed, held_out = halved(sp.csr_matrix(np.array([[3, 1, 0, 2, 4]])))
    >>> observed.nnz, held_out.nnz, (observed + held_out).toarray().tolist()
    (2, 2, [[3, 1, 0, 2, 4]])
    """
    import scipy.sparse as sp

    observed = first_half(X.indices, X.indptr)
    parts = []
    for mask in (observed, ~observed):
        ends = np.concatenate([[0], np.cumsum(mask)])[X.indptr]
        parts.append(sp.csr_matrix((X.data[mask], X.indices[mask], ends), shape=X.shape))
    return parts[0], parts[1]


def halved_entries(X: Array) -> tuple[Array, Array]:
    """Half of each row's observed entries, and the others, NaN elsewhere (:func:`first_half`).

    Parameters
    ----------
    X : ndarray of shape (n, D)
        NaN where an entry is missing.

    Returns
    -------
    observed, held_out : ndarrays of shape (n, D)
        A row with one observed entry has it held out.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.estimators.completion import halved_entries
    >>> observed, held_out = halved_entries(np.array([[3.0, 1.0, np.nan, 2.0, 4.0]]))
    >>> float(np.nansum(observed) + np.nansum(held_out)), int(np.isnan(observed).sum()), int(np.isnan(held_out).sum())
    (10.0, 3, 3)
    """
    present = ~np.isnan(X)
    observed = np.zeros(X.shape, bool)
    observed[present] = first_half(np.nonzero(present)[1], np.concatenate([[0], np.cumsum(present.sum(1))]))
    return np.where(observed, X, np.nan), np.where(present & ~observed, X, np.nan)


def filled_in(X: Array, mean: Array, std: Array | None = None) -> Array | tuple[Array, Array]:
    """X with a mean where an entry is missing; with `std` these standard deviations too, 0 where it is not."""
    missing = np.isnan(X)
    filled = np.where(missing, mean, X).astype(X.dtype, copy=False)
    return filled if std is None else (filled, np.where(missing, std, 0.0).astype(X.dtype, copy=False))


def checked_held_out(held_out: Any, shape: tuple[int, ...], **options: Any) -> Array:
    """Entries to be scored, NaN elsewhere, of rows of this shape; `options` are those of `check_table`.

    Raises
    ------
    ValueError
        For another shape.
    """
    held_out = check_table(held_out, name="held_out", **options)
    if held_out.shape != shape:
        raise ValueError(f"held_out.shape == {held_out.shape}, expected {shape}: NaN where nothing is asked.")
    return held_out


def checked_factors(X: Any, n_components: int, called: str = "components", **options: Any) -> Array:
    """How much rows have of each factor, (n, K), for their reconstruction.

    Raises
    ------
    ValueError
        For another number of columns than factors.
    """
    X = check_table(X, dtype=[np.float64, np.float32], **options)
    if X.shape[1] != n_components:
        raise ValueError(f"X has {X.shape[1]} columns; this model has {n_components} {called}.")
    return X
