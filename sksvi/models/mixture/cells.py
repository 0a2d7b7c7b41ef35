"""Tables of values as the mixture reads them: an indicator per value but the last of its column, and what is missing.

The last value of a column is what is left of a row's weight, so that a table of zeros and few ones is as sparse as it
came, and a complete one has no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi._typing.arrays import is_compressed
from sksvi.models.data import Rows, nbytes, stacked

Array = np.ndarray

#: Share of cells from which a sparse matrix costs more than a dense one.
DENSE = 0.05


@dataclass(frozen=True)
class MixtureRows:
    """Rows of a table.

    Parameters
    ----------
    ones : ndarray or CSR matrix of shape (n, W)
        Which values are there.
    missing : ndarray or CSR matrix of shape (n, D), optional
        Which cells are not; None: all are.
    """

    LAYOUT = "ones (_,_) x or csr_matrix; missing? (_,_) x or csr_matrix where it.shape[0] == self.ones.shape[0]"

    ones: Any
    missing: Any | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and indicators."""
        n, width = self.ones.shape
        return int(n), int(width)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Rows) -> MixtureRows:
        return MixtureRows(self.ones[rows], None if self.missing is None else self.missing[rows])

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, bytes."""
        return nbytes(self.ones) + (0 if self.missing is None else nbytes(self.missing))

    def stacked(self, other: MixtureRows) -> MixtureRows:
        """Rows of both tables: those of this one, then those of the other."""
        mine, its = (cells.missing for cells in (self, other))
        some = mine if mine is not None else its
        if some is None:
            return MixtureRows(stacked(self.ones, other.ones))
        columns = some.shape[1]
        both = (
            sp.csr_matrix((len(cells), columns)) if part is None else part
            for cells, part in ((self, mine), (other, its))
        )
        return MixtureRows(stacked(self.ones, other.ones), stacked(*both))


def compact(matrix: Any) -> Any:
    """The matrix as products with it cost least: dense, or CSR where few cells are set."""
    if not is_compressed(matrix):
        return np.ascontiguousarray(matrix, float)
    matrix = sp.csr_matrix(matrix, dtype=float)
    return matrix.toarray() if matrix.nnz > DENSE * np.prod(matrix.shape) else matrix


@dataclass(frozen=True)
class ColumnGroups:
    """Columns by their number of values: those of one number are a block of q.

    Parameters
    ----------
    sizes : tuple of int
        Values of each column.
    """

    sizes: tuple[int, ...]

    @cached_property
    def groups(self) -> dict[int, Array]:
        """Columns by their number of values; a column of one value carries no information, and is in no group."""
        sizes = np.asarray(self.sizes)
        return {int(m): np.flatnonzero(sizes == m) for m in np.unique(sizes) if m > 1}

    @cached_property
    def columns(self) -> Array:
        """Columns in the order of `MixtureRows.missing`."""
        return np.concatenate([*self.groups.values(), np.empty(0, np.intp)]).astype(np.intp)

    @cached_property
    def starts(self) -> Array:
        """First indicator of each column (in the table's order); -1 where it has none."""
        starts, at = np.full(len(self.sizes), -1), 0
        for m, columns in self.groups.items():
            starts[columns] = at + (m - 1) * np.arange(len(columns))
            at += (m - 1) * len(columns)
        return starts

    @property
    def width(self) -> int:
        """Number of indicators of all columns."""
        return sum((m - 1) * len(columns) for m, columns in self.groups.items())

    def cells(self, codes: Sequence[Array] | Array) -> MixtureRows:
        """Cells of codes (n, D): 0, 1, ... of a column's values, -1 where missing."""
        codes = np.asarray(codes)
        n, sizes = len(codes), np.asarray(self.sizes)
        row, column = np.nonzero((codes >= 0) & (codes < sizes - 1))
        at = self.starts[column] + codes[row, column]
        ones = sp.csr_matrix((np.ones(len(row)), (row, at)), shape=(n, self.width))
        gone = codes[:, self.columns] < 0
        return MixtureRows(compact(ones), compact(sp.csr_matrix(gone, dtype=float)) if gone.any() else None)

    def codes(self, cells: MixtureRows) -> Array:
        """Codes (n, D) of cells, columns as in `columns`: what `cells` was made of."""
        ones: Any
        missing: Any
        ones, missing = (part.toarray() if is_compressed(part) else part for part in (cells.ones, cells.missing))
        found = np.empty((len(cells), len(self.columns)), np.int64)
        at = here = 0
        for m, columns in self.groups.items():
            width = (m - 1) * len(columns)
            there = ones[:, at : at + width].reshape(len(cells), len(columns), m - 1) > 0
            found[:, here : here + len(columns)] = np.where(there.any(-1), there.argmax(-1), m - 1)
            at, here = at + width, here + len(columns)
        if missing is not None:
            found[missing > 0] = -1
        return found
