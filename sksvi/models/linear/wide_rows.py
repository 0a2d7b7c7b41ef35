"""Rows of a wide fit with the products that its weights ask for, without columns that have no entry."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi._runtime import parallel
from sksvi._typing.arrays import is_compressed

Array = np.ndarray

#: Share of the columns with an entry below which the others are left out.
MOST_FILLED = 0.5
#: Columns of a product that is formed at a time.
COLUMNS = 16
#: Columns of a dense table whose squares are summed at a time.
MANY_COLUMNS = 4096


def filled_columns(X: Any) -> Array | None:
    """Columns of a CSR matrix with an entry, if others are many; else None."""
    return many_left_out(has_entry(X)) if is_compressed(X) else None


def has_entry(X: Any) -> Array:
    """Whether a column of a CSR matrix has an entry, (D,)."""
    found = np.zeros(X.shape[1], bool)
    found[X.indices] = True
    return found


def many_left_out(filled: Array) -> Array | None:
    """Columns with an entry, (d,), if others are many; else None."""
    columns = np.flatnonzero(filled)
    return columns if 0 < len(columns) < MOST_FILLED * len(filled) else None


class WideRows:
    """Rows of a fit with the products that many columns of weights at a time need.

    Parameters
    ----------
    X : CSR matrix or array of shape (n, D)
        Stays as it is; squares of CSR entries are stored once, beside its own indices.

    Attributes
    ----------
    columns : ndarray of shape (d,) or None
        Those of X that the products are about, where most of a CSR matrix are empty, as hashed ones are; None: all.
    shape : tuple of int
        (n, d).
    width : int
        D.
    """

    def __init__(self, X: Any) -> None:
        self.X: Any = X if is_compressed(X) else np.asarray(X)
        self.width: int = X.shape[1]
        self.columns = filled_columns(X)
        if self.columns is not None:
            number = np.empty(self.width, X.indices.dtype)
            number[self.columns] = np.arange(len(self.columns))
            self.X = sp.csr_matrix((X.data, number[X.indices], X.indptr), shape=(X.shape[0], len(self.columns)))
        self.shape: tuple[int, int] = self.X.shape

    def narrowed(self, W: Array) -> Array:
        """Weights (D + extra, K) without those of columns that are left out: (d + extra, K)."""
        return W if self.columns is None else np.concatenate([W[self.columns], W[self.width :]])

    def widened(self, W: Array, other: float = 0.0) -> Array:
        """Numbers (d + extra, K) with one number for all columns that are left out: (D + extra, K)."""
        if self.columns is None:
            return W
        d = self.shape[1]
        out = np.full((self.width + len(W) - d, *W.shape[1:]), other)
        out[self.columns], out[self.width :] = W[:d], W[d:]
        return out

    @cached_property
    def _squared(self) -> Any:
        return sp.csr_matrix((np.square(self.X.data), self.X.indices, self.X.indptr), shape=self.shape)

    @cached_property
    def _transposed(self) -> Any:
        return self.X.T

    def dot(self, W: Array) -> Array:
        """X W, (n, K)."""
        return np.asarray(self.X @ W.astype(self.X.dtype, copy=False), float)

    def pull(self, R: Array) -> Array:
        """Xᵀ R, (D, K)."""
        return np.asarray(self._transposed @ R.astype(self.X.dtype, copy=False), float)

    @property
    def entries(self) -> Array:
        """Number of stored entries of each row, (n,)."""
        return np.diff(self.X.indptr) if is_compressed(self.X) else np.full(len(self.X), float(self.shape[1]))

    @cached_property
    def squares(self) -> Array:
        """Squared lengths, (n,)."""
        return self.dot_squares(np.ones((self.shape[1], 1)))[:, 0]

    def gram(self) -> Array:
        """X Xᵀ in double precision, (n, n)."""
        if is_compressed(self.X):
            X = self.X.astype(float, copy=False)
            return np.asarray((X @ X.T).toarray())
        columns = parallel.slices(self.shape[1], MANY_COLUMNS)
        return np.asarray(parallel.tree_sum(part @ part.T for part in (self.X[:, at].astype(float) for at in columns)))

    def forms(self, F: Array) -> Array:
        """xᵀ F x for each column x of X and a symmetric F (n, n), (D,)."""
        (n, d), F = self.shape, F.astype(self.X.dtype, copy=False)
        if not is_compressed(self.X):
            columns = parallel.slices(d, parallel.chunk_rows(n, False))
            return np.concatenate([np.einsum("ij,ij->j", self.X[:, at], F @ self.X[:, at]) for at in columns])
        out = np.zeros(d)
        for rows in parallel.slices(n, COLUMNS):
            own, products = self.X[rows], self.X.T @ F[:, rows]
            row = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr))
            out += np.bincount(own.indices, own.data * products[own.indices, row], minlength=d)
        return out

    def dot_squares(self, S: Array) -> Array:
        """X² S for the squares of the entries, (n, K)."""
        S = S.astype(self.X.dtype, copy=False)
        if is_compressed(self.X):
            return np.asarray(self._squared @ S, float)
        return np.concatenate([np.square(self.X[rows]) @ S for rows in self._blocks()]).astype(float, copy=False)

    def dot_fourths(self, S: Array) -> Array:
        """Sum of (x² S)² over the entries of each row, for S (d,): (n,)."""
        if is_compressed(self.X):
            terms = np.square(self._squared.data * S[self.X.indices])
            return sp.csr_matrix((terms, self.X.indices, self.X.indptr), shape=self.shape) @ np.ones(len(S))
        return np.concatenate([np.square(np.square(self.X[rows]) * S).sum(1) for rows in self._blocks()])

    def pull_squares(self, T: Array) -> Array:
        """(X²)ᵀ T, (D, K)."""
        T = T.astype(self.X.dtype, copy=False)
        if is_compressed(self.X):
            return np.asarray(self._squared.T @ T, float)
        return parallel.tree_sum(np.square(self.X[rows]).T @ T[rows] for rows in self._blocks()).astype(float)

    def _blocks(self) -> list[slice]:
        return parallel.slices(len(self.X), parallel.chunk_rows(self.X.shape[1], False))
