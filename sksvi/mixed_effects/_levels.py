"""Grouping columns of a table: which they are, which columns have slopes, the code of each row's level.

And kinds of columns: those that vary within levels, and those that every level of a factor fixes. What is the same in
all rows of a level is known from as many observations as there are levels, and its effects are of the size of
differences between levels: such columns share a scale of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi._typing.arrays import is_compressed
from sksvi.estimators.tables import codes_of, column_of, listed, position
from sksvi.estimators.unseen import check_predicted_ids

Array = np.ndarray


def factor_names(estimator: Any) -> list[int]:
    """Positions of the grouping columns."""
    found = [position(estimator, name, "groups") for name in listed(estimator.groups)]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"groups={estimator.groups!r} must name at least one column, each once.")
    return found


def slope_columns(estimator: Any, factors: list[int]) -> list[tuple[list[str], list[int]]]:
    """For each grouping column the names of its random slopes, and their positions among the other columns."""
    spec = estimator.random_slopes
    others = [j for j in range(estimator.n_features_in_) if j not in factors]
    names = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(estimator.n_features_in_)])
    keyed = isinstance(spec, Mapping)
    wanted: dict[int, list[Any]] = dict.fromkeys(factors, [] if spec is None or keyed else listed(spec))
    for group, columns in spec.items() if keyed else ():
        of = position(estimator, group, "random_slopes")
        if of not in factors:
            raise ValueError(f"random_slopes has slopes for {group!r}, which is not among groups={estimator.groups!r}.")
        wanted[of] = listed(columns)
    out = []
    for factor in factors:
        at = [position(estimator, name, "random_slopes") for name in wanted[factor]]
        if any(j in factors for j in at):
            raise ValueError(f"random_slopes={spec!r} names a grouping column: slopes are those of numeric columns.")
        out.append(([str(names[j]) for j in at], [others.index(j) for j in at]))
    return out


def slopes_among(slopes: list[tuple[list[str], list[int]]], categories: Any) -> list[tuple[list[str], list[int]]]:
    """The slopes of each grouping column, with positions among the coefficients instead of the columns.

    Raises
    ------
    ValueError
        A slope of a categorical column.
    """
    if categories is None:
        return slopes
    for names, at in slopes:
        for name, j in zip(names, at, strict=True):
            if j in categories.columns:
                raise ValueError(f"random_slopes names the categorical column {name!r}: slopes are those of numbers.")
    return [(names, [categories.at(j) for j in at]) for names, at in slopes]


def coded(X: Any, factors: list[int], level_values: list[Array], alone: list[int] | None, fit: bool) -> Array:
    """Codes (n, F) of the level of each row in each grouping column.

    In a fit a row without a level is a level of its own, which nothing else shares; `alone` is the number of the first
    one of each factor, None: there may be none. In predictions a row without a known level has -1.

    Raises
    ------
    ValueError
        A row of a fit with a level that the first data did not have.
    """
    codes = []
    for f, j in enumerate(factors):
        column = column_of(X, j)
        code, missing = codes_of(column, level_values[f])
        code[missing] = -1 if alone is None else alone[f] + np.arange(int(missing.sum()))
        if fit and np.any(code < 0):
            row, name = int(np.argmax(code < 0)), j if column.name is None else repr(column.name)
            raise ValueError(
                f"row {row} has level {column.iloc[row]!r} in grouping column {name}, which the first data did not "
                "have: declare all levels there with a categorical dtype, or fit anew."
            )
        codes.append(code)
    return np.column_stack(codes).astype(np.int32)


def check_levels(policy: str, X: Any, factors: list[int], level_values: list[Array], codes: Array) -> None:
    """Warn, raise or accept, by `policy`, where rows to be predicted have levels that the fit did not."""
    for j, levels, code in zip(factors, level_values, codes.T, strict=True):
        column = column_of(X, j)
        name = j if column.name is None else repr(column.name)
        check_predicted_ids(policy, f"levels of grouping column {name} of X", column, code >= 0, levels)


#: Columns of a sparse design that are looked at together.
TOGETHER = 256


# ---- kinds of columns
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
    >>> from sksvi.mixed_effects._levels import kinds_of
    >>> kinds_of(np.array([[True, True, False], [True, False, False]]), np.array([40, 6]))
    array([2, 1, 0])
    """
    order = np.argsort(sizes, kind="stable")[::-1]
    kinds = np.zeros(constant.shape[1], int)
    for f in order:
        kinds[constant[f]] = f + 1
    return kinds
