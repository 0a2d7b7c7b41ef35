"""Kinds of columns of a mixed model: those that vary within levels, and those that every level of a factor fixes.

What is the same in all rows of a level is known from as many observations as there are levels, and its effects are of
the size of differences between levels: such columns share a scale of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi._typing.arrays import is_compressed

Array = np.ndarray

#: Columns of a sparse design that are looked at together.
TOGETHER = 256


@dataclass(frozen=True)
class LevelValues:
    """Columns that have one value in each level of a factor, so far.

    Parameters
    ----------
    names : ndarray of shape (L,)
        Levels that have rows.
    columns : ndarray of int, shape (C,)
        Columns that do not vary within any of them.
    values : ndarray of shape (L, C)
        Theirs.
    n_columns : int
    """

    names: Array
    columns: Array
    values: Array
    n_columns: int

    @classmethod
    def of(cls, names: Array, codes: Array, X: Any) -> LevelValues:
        """The columns that are constant within the levels of some rows.

        Parameters
        ----------
        names : ndarray of shape (L,)
        codes : ndarray of int, shape (n,)
            Level of each row; those beyond the names, or negative, are no level that others share.
        X : ndarray or CSR of shape (n, D)
        """
        rows = np.flatnonzero((codes >= 0) & (codes < len(names)))
        rows = rows[np.argsort(codes[rows], kind="stable")]
        levels, starts = np.unique(codes[rows], return_index=True)
        d, found, values = X.shape[1], [], []
        for begin in range(0, d if len(rows) else 0, TOGETHER):
            part = X[:, begin : begin + TOGETHER][rows]
            part = part.toarray() if is_compressed(part) else np.asarray(part)
            low, high = (end.reduceat(part, starts, axis=0) for end in (np.minimum, np.maximum))
            same = np.flatnonzero(np.all(low == high, axis=0))
            found.append(begin + same)
            values.append(low[:, same])
        if not found:
            return cls(np.asarray(names)[:0], np.arange(d), np.empty((0, d)), d)
        return cls(np.asarray(names)[levels], np.concatenate(found), np.concatenate(values, axis=1), d)

    def merged(self, other: LevelValues) -> LevelValues:
        """The columns that are constant within the levels of these rows and the other's together."""
        import pandas as pd

        columns, mine, its = np.intersect1d(self.columns, other.columns, return_indices=True)
        a, b = self.values[:, mine], other.values[:, its]
        at = pd.Index(self.names).get_indexer(pd.Index(other.names))
        both = at >= 0
        same = np.all(a[at[both]] == b[both], axis=0)
        names = np.concatenate([self.names, other.names[~both]])
        return LevelValues(names, columns[same], np.concatenate([a, b[~both]])[:, same], self.n_columns)

    @property
    def constant(self) -> Array:
        """Which columns do not vary within levels, (D,)."""
        out = np.zeros(self.n_columns, bool)
        out[self.columns] = True
        return out


def kinds_of(constant: Array, sizes: Array) -> Array:
    """Kind of each column: 0 within levels, f + 1 where factor f fixes it, that of fewest levels where several do.

    Parameters
    ----------
    constant : ndarray of bool, shape (F, D)
    sizes : ndarray of int, shape (F,)
        Levels of each factor.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.mixed_effects._kinds import kinds_of
    >>> kinds_of(np.array([[True, True, False], [True, False, False]]), np.array([40, 6]))
    array([2, 1, 0])
    """
    order = np.argsort(sizes, kind="stable")[::-1]
    kinds = np.zeros(constant.shape[1], int)
    for f in order:
        kinds[constant[f]] = f + 1
    return kinds
