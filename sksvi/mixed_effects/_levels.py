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
from sksvi.estimators.tables import Levels, codes_of, column_of, listed, position
from sksvi.estimators.unseen import check_predicted_ids

Array = np.ndarray


#: Position of a grouping column, after those of the columns that it is nested in.
Source = tuple[int, ...]


def factor_names(estimator: Any) -> list[Source]:
    """Columns of each grouping factor."""
    found = [source for name in listed(estimator.groups) for source in sources_of(estimator, name, "groups")]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"groups={estimator.groups!r} must name at least one column, each once.")
    return found


def sources_of(estimator: Any, name: Any, what: str) -> list[Source]:
    """Columns of the factors that a name is of: "a/b" is a, and b within a, which alone is "a:b"."""
    columns = getattr(estimator, "feature_names_in_", ())
    if not isinstance(name, str) or name in columns or not any(sign in name for sign in "/:"):
        return [(position(estimator, name, what),)]
    nested = [tuple(position(estimator, one, what) for one in part.split(":")) for part in name.split("/")]
    return [sum(nested[: depth + 1], ()) for depth in range(len(nested))]


def columns_of(sources: list[Source]) -> list[int]:
    """Positions of all columns that grouping factors are made of."""
    return sorted({j for source in sources for j in source})


def factor_name(names: Any, source: Source) -> Any:
    """Name of a factor, given those of the columns."""
    return names[source[0]] if len(source) == 1 else ":".join(str(names[j]) for j in source)


def level_column(X: Any, source: Source) -> Any:
    """Series of the level that each row of a table has; of nested columns the text of all, missing where one is.

    Raises
    ------
    ValueError
        Nested levels of different columns have the same text.
    """
    import pandas as pd

    if len(source) == 1:
        return column_of(X, source[0])
    columns = [column_of(X, j) for j in source]
    parts = pd.DataFrame({at: [_text(value) for value in column.astype(object)] for at, column in enumerate(columns)})
    missing = np.any([column.isna().to_numpy() for column in columns], axis=0)
    name = factor_name({j: j if one.name is None else one.name for j, one in zip(source, columns, strict=True)}, source)
    text = parts.agg(":".join, axis=1).to_numpy() if len(parts) else np.empty(0, object)
    different = parts[~missing].drop_duplicates().index
    if len(set(text[different])) < len(different):
        raise ValueError(f"levels of {name!r} are told apart by a colon, which some of them have: replace it there.")
    text[missing] = None
    return pd.Series(text, columns[0].index, name=name, dtype=object)


def _text(value: Any) -> str:
    """A level as text; whole numbers alike in any type."""
    return str(int(value)) if isinstance(value, float | np.floating) and value.is_integer() else str(value)


def levels_of(X: Any, source: Source, partition: int = 0) -> Levels:
    """Levels of a grouping factor in the rows of a table."""
    column = level_column(X, source)
    return Levels.of_column(column, f"grouping column {column.name!r}", partition)


def slope_columns(estimator: Any, factors: list[Source]) -> list[tuple[list[str], list[int]]]:
    """For each grouping factor the names of its random slopes, and their positions among the other columns."""
    spec, grouping = estimator.random_slopes, columns_of(factors)
    others = [j for j in range(estimator.n_features_in_) if j not in grouping]
    names = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(estimator.n_features_in_)])
    keyed = isinstance(spec, Mapping)
    wanted: dict[Source, list[Any]] = dict.fromkeys(factors, [] if spec is None or keyed else listed(spec))
    for group, columns in spec.items() if keyed else ():
        for of in sources_of(estimator, group, "random_slopes"):
            if of not in factors:
                raise ValueError(
                    f"random_slopes has slopes for {group!r}, which is not among groups={estimator.groups!r}."
                )
            wanted[of] = listed(columns)
    out = []
    for factor in factors:
        at = [position(estimator, name, "random_slopes") for name in wanted[factor]]
        if any(j in grouping for j in at):
            raise ValueError(f"random_slopes={spec!r} names a grouping column: slopes are those of other columns.")
        out.append(([str(names[j]) for j in at], [others.index(j) for j in at]))
    return out


def have_intercepts(estimator: Any, factors: list[Source]) -> list[bool]:
    """For each grouping factor whether its levels have an intercept."""
    spec = estimator.random_intercepts
    if isinstance(spec, bool):
        return [spec] * len(factors)
    own = [of for name in listed(spec) for of in sources_of(estimator, name, "random_intercepts")]
    if not set(own) <= set(factors):
        raise ValueError(f"random_intercepts={spec!r} must name groups, which are {estimator.groups!r}.")
    return [factor in own for factor in factors]


def slopes_among(slopes: list[tuple[list[str], list[int]]], categories: Any) -> list[tuple[list[str], list[int]]]:
    """The slopes of each grouping factor, with positions among the coefficients instead of the columns.

    A categorical column has one of each level but its first: a level's difference from that.
    """
    if categories is None:
        return slopes
    found = []
    for names, at in slopes:
        own: list[tuple[str, int]] = []
        for name, j in zip(names, at, strict=True):
            first = categories.at(j)
            if j not in categories.columns:
                own.append((name, first))
                continue
            levels = categories.labels[categories.columns.index(j)][1:]
            start = first + 1 - int(categories.reference)
            own += [(f"{name}_{level}", start + k) for k, level in enumerate(levels)]
        found.append(([name for name, _ in own], [j for _, j in own]))
    return found


def coded(X: Any, factors: list[Source], level_values: list[Array], alone: list[int] | None, fit: bool) -> Array:
    """Codes (n, F) of the level of each row in each grouping factor.

    In a fit a row without a level is a level of its own, which nothing else shares; `alone` is the number of the first
    one of each factor, None: there may be none. In predictions a row without a known level has -1.

    Raises
    ------
    ValueError
        A row of a fit with a level that the first data did not have.
    """
    codes = []
    for f, source in enumerate(factors):
        column = level_column(X, source)
        code, missing = codes_of(column, level_values[f])
        code[missing] = -1 if alone is None else alone[f] + np.arange(int(missing.sum()))
        if fit and np.any(code < 0):
            row, name = int(np.argmax(code < 0)), source[-1] if column.name is None else repr(column.name)
            remedy = "declare all levels there with a categorical dtype, or fit anew."
            if len(source) > 1:
                remedy = "fit anew, or group by a categorical column of your own that declares all of them."
            raise ValueError(
                f"row {row} has level {column.iloc[row]!r} in grouping column {name}, which the first data did not "
                f"have: {remedy}"
            )
        codes.append(code)
    return np.column_stack(codes).astype(np.int32)


def check_levels(policy: str, X: Any, factors: list[Source], level_values: list[Array], codes: Array) -> None:
    """Warn, raise or accept, by `policy`, where rows to be predicted have levels that the fit did not."""
    for source, levels, code in zip(factors, level_values, codes.T, strict=True):
        column = level_column(X, source)
        name = source[-1] if column.name is None else repr(column.name)
        check_predicted_ids(policy, f"levels of grouping column {name} of X", column, code >= 0, levels)


#: Columns of a sparse design that are looked at together.
TOGETHER = 256
#: Rows that are looked at first.
FIRST = 2**12


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
        # Short numbers are sorted in a tenth of the time.
        rows = rows[np.argsort(codes[rows].astype(np.min_scalar_type(len(names))), kind="stable")]
        starts = np.flatnonzero(np.diff(codes[rows], prepend=-1))
        d, found, values = X.shape[1], [], []
        for begin in range(0, d if len(rows) else 0, TOGETHER):
            columns = np.arange(begin, min(begin + TOGETHER, d))
            part = X[:, begin : begin + TOGETHER]
            for end in (FIRST, len(rows)):  # most columns are known to vary by the first rows
                some = part[rows[:end]]
                some = some.toarray() if is_compressed(some) else np.asarray(some)
                low, high = (of.reduceat(some, starts[starts < end], axis=0) for of in (np.minimum, np.maximum))
                same = np.all(low == high, axis=0)
                part, columns, low = part[:, same], columns[same], low[:, same]
            found.append(columns)
            values.append(low)
        if not found:
            return cls(np.asarray(names)[:0], np.arange(d), np.empty((0, d)), d)
        return cls(np.asarray(names)[codes[rows[starts]]], np.concatenate(found), np.concatenate(values, axis=1), d)

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
