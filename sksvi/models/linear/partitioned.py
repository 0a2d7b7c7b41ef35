"""Products of wide rows that lie in partitions: each is a pass over these, summed in a fixed tree."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sksvi._typing.arrays import is_compressed
from sksvi.models.linear.wide_rows import WideRows, has_entry, many_left_out

Array = np.ndarray


class PartitionedRows(WideRows):
    """Rows in partitions with the verbs of `WideRows`; what these have per row is in this process.

    Parameters
    ----------
    data : Partitioned
    """

    def __init__(self, data: Any) -> None:
        self.data, self.X, self.width = data, data.X, data.X.shape[1]
        self.columns = many_left_out(data.reduced(_filled, np.logical_or))
        self.shape = (len(data), self.width if self.columns is None else len(self.columns))

    def dot(self, W: Array) -> Array:
        """X W, (n, K)."""
        return self._per_row(partial(_product, "dot", self.widened(W)))

    def pull(self, R: Array) -> Array:
        """Xᵀ R, (D, K)."""
        return self._summed(partial(_pulled, "pull"), R)

    def dot_squares(self, S: Array) -> Array:
        """X² S for the squares of the entries, (n, K)."""
        return self._per_row(partial(_product, "dot_squares", self.widened(S)))

    def dot_fourths(self, S: Array) -> Array:
        """Sum of (x² S)² over the entries of each row, for S (d,): (n,)."""
        return self._per_row(partial(_product, "dot_fourths", self.widened(S)))

    def pull_squares(self, T: Array) -> Array:
        """(X²)ᵀ T, (D, K)."""
        return self._summed(partial(_pulled, "pull_squares"), T)

    @property
    def entries(self) -> Array:
        """Number of stored entries of each row, (n,)."""
        return self._per_row(_entries)

    def gram(self) -> Array:
        """X Xᵀ, (n, n), of rows that are few."""
        return self._at_hand().gram()

    def forms(self, F: Array) -> Array:
        """xᵀ F x for each column x of X and a symmetric F (n, n), (D,), of rows that are few."""
        return self._at_hand().forms(F)

    def _at_hand(self) -> WideRows:
        return WideRows(self.data.take(slice(0, len(self.data))).X)

    def _per_row(self, function: Any) -> Array:
        return np.asarray(self.data.reduced(function, _stacked))

    def _summed(self, function: Any, R: Array) -> Array:
        return self.narrowed(np.asarray(self.data.reduced(function, beside=self.data.cut(R))))


def _filled(table: Any) -> Array:
    return has_entry(table.X) if is_compressed(table.X) else np.ones(table.X.shape[1], bool)


def _entries(table: Any) -> Array:
    return WideRows(table.X).entries


def _product(verb: str, W: Array, table: Any) -> Array:
    rows = WideRows(table.X)
    return np.asarray(getattr(rows, verb)(rows.narrowed(W)))


def _pulled(verb: str, table: Any, R: Array) -> Array:
    rows = WideRows(table.X)
    return rows.widened(getattr(rows, verb)(R))


def _stacked(a: Array, b: Array) -> Array:
    return np.concatenate([a, b])
