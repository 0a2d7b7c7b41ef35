"""Columns on a scale of their own: centred and divided by their spread for the fit, so that units do not matter.

A prior is meant per spread of its column. A column of two values spreads by their distance, so that a coefficient is
the difference between them; any other by `SPREAD` standard deviations. Sparse columns are scaled, never centred.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi import _parallel

Array = np.ndarray

#: Spread of a column of many values, in standard deviations.
SPREAD = 2.0
#: A standard deviation of fewer roundings of a column's largest value is that of a constant.
ROUNDINGS = 8.0


@dataclass(frozen=True)
class Columns:
    """Centre and scale of every column, (D,) each, and whether it has varied; one that has not has scale 1.

    In these coordinates a column is zero until it varies, so that a stream may find its scale then.
    """

    centre: Array
    scale: Array
    varies: Array
    scaled: bool

    @classmethod
    def of(cls, X: Any, weight: Array | None, centred: bool, scaled: bool) -> Columns:
        """From the rows of a fit, or the first ones of a stream.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, D)
        weight : ndarray of shape (n,) or None
        centred : bool
            Whether dense columns are centred.
        scaled : bool
            Whether columns are divided by their spread.
        """
        d = X.shape[1]
        centre = np.zeros(d)
        if centred and not sp.issparse(X):
            centre = _moments(X, np.ones(len(X)) if weight is None else weight, centre)[0]
            # The mean of a constant column is that constant, whatever the sum rounds to.
            constant = np.all(X == X[:1], axis=0)
            centre[constant] = X[0, constant]
        return cls(centre, np.ones(d), np.zeros(d, bool), scaled).seen(X, weight)

    def seen(self, X: Any, weight: Array | None) -> Columns:
        """The same once these rows have come: columns that vary for the first time find their scale."""
        if not self.scaled or self.varies.all():
            return self
        spread = spreads(X, weight, self.centre)
        new = ~self.varies & (spread > 0)
        return replace(self, scale=np.where(new, spread, self.scale), varies=self.varies | new)

    def applied(self, X: Any) -> Any:
        """Rows in these coordinates; CSR stays sparse where nothing is centred."""
        if not self.scaled and not self.centre.any():
            return X
        if sp.issparse(X) and not self.centre.any():
            scaled = X.copy()
            scaled.data = (X.data / self.scale[X.indices]).astype(X.dtype)
            return scaled
        out = np.empty(X.shape, X.dtype)
        for rows in _parallel.slices(X.shape[0], _parallel.chunk_rows(X.shape[1], False)):
            part = X[rows].toarray() if sp.issparse(X) else X[rows]
            out[rows] = (part - self.centre) / self.scale
        return out


def spreads(X: Any, weight: Array | None, centre: Array) -> Array:
    """Distance of the values of a column that has two, `SPREAD` standard deviations of another, 0 of a constant one.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, D)
    weight : ndarray of shape (n,) or None
    centre : ndarray of shape (D,)
        Roughly the mean, so that squares do not cancel.
    """
    n, d = X.shape
    if not n or not d:
        return np.zeros(d)
    low, high = _extremes(X)
    # The centre counts as a value: what an uncentred constant, or a stream that was constant so far, differs from.
    low, high = np.minimum(low, centre), np.maximum(high, centre)
    two = _two_valued(X, low, high)
    mean, square = _moments(X, np.ones(n) if weight is None else weight, centre)
    deviation = np.sqrt(np.maximum(square - np.square(mean), 0.0))
    rounding = ROUNDINGS * np.finfo(X.dtype).eps * np.maximum(np.abs(low), np.abs(high))
    return np.where(high - low > rounding, np.where(two, high - low, SPREAD * deviation), 0.0)


def _extremes(X: Any) -> tuple[Array, Array]:
    """Least and greatest value of each column."""
    low, high = X.min(axis=0), X.max(axis=0)
    if sp.issparse(X):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    return low.astype(float), high.astype(float)


def _two_valued(X: Any, low: Array, high: Array) -> Array:
    """Whether every value of a column is its least or its greatest."""
    if not sp.issparse(X):
        return np.all((X == low) | (X == high), axis=0)
    stored = np.bincount(X.indices, minlength=X.shape[1])
    between = np.bincount(X.indices, (X.data != low[X.indices]) & (X.data != high[X.indices]), X.shape[1]) > 0
    zero_between = (stored < X.shape[0]) & (low < 0) & (high > 0)
    return ~between & ~zero_between


def _moments(X: Any, weight: Array, centre: Array) -> tuple[Array, Array]:
    """Weighted means of x - centre and of its square, per column."""
    total = float(weight.sum())
    if sp.issparse(X):
        d = X.shape[1]
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        own, off = weight[rows], X.data - centre[X.indices]
        missing = total - np.bincount(X.indices, own, d)
        mean = np.bincount(X.indices, own * off, d) - missing * centre
        return mean / total, (np.bincount(X.indices, own * np.square(off), d) + missing * np.square(centre)) / total
    mean, square = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for rows in _parallel.slices(X.shape[0], _parallel.chunk_rows(X.shape[1], False)):
        off = np.subtract(X[rows], centre, order="C")  # the same sums for every layout of X
        mean += weight[rows] @ off
        square += weight[rows] @ np.square(off)
    return mean / total, square / total
