"""Categorical columns of linear models: in the place of each stand indicators of its levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import NUMBERS
from sksvi.estimators.tables import codes_of, column_of, fixed_columns
from sksvi.estimators.unseen import shown
from sksvi.estimators.validation import check_table

Array = np.ndarray

#: Share of numbers to be stored below which a design is sparse: that of scikit-learn's ColumnTransformer.
SPARSE = 0.3
#: Unknown levels that a message shows.
SHOWN = 3


@dataclass(frozen=True)
class CategoricalColumns:
    """Categorical columns of a table of `n_columns`, and what became of each.

    columns: their positions, in order. levels: of each, without the missing one. missing: whether a missing value is
    its last level. reference: whether first levels have no indicator.
    """

    LAYOUT = """
        n_columns count d >=1; columns items c; columns[*] count <d
        columns where len(it) > 0 and it == sorted(set(it))
        reference flag; missing items c; missing[*] flag; levels items c; levels[*] labels
        levels where all(len(a) + b > 0 for a, b in zip(it, self.missing))
    """

    n_columns: int
    columns: list[int]
    levels: list[Array]
    missing: list[bool]
    reference: bool

    # ---- coordinates
    @property
    def sizes(self) -> list[int]:
        """Levels of each, with the missing one and the reference."""
        return [len(levels) + missing for levels, missing in zip(self.levels, self.missing, strict=True)]

    @property
    def counts(self) -> Array:
        """Coefficients of each column of the table."""
        counts = np.ones(self.n_columns, int)
        counts[self.columns] = np.array(self.sizes) - self.reference
        return counts

    @property
    def numeric(self) -> Array:
        """Which coefficients are those of columns of numbers."""
        plain = np.ones(self.n_columns, bool)
        plain[self.columns] = False
        return np.repeat(plain, self.counts)

    @property
    def width(self) -> int:
        """Coefficients in all."""
        return int(self.counts.sum())

    @property
    def sparse(self) -> bool:
        """Whether most of a design is zeros by its shape, whatever the rows."""
        return bool(self.n_columns < SPARSE * self.width)

    def at(self, column: int) -> int:
        """First coefficient of a column of the table."""
        return int(self.counts[:column].sum())

    def with_other_levels(self, at: Array) -> Array:
        """Coefficients `at`, and those of the other levels of the columns among them."""
        for column, size in zip(self.columns, self.counts[self.columns], strict=True):
            levels = self.at(column) + np.arange(size)
            if np.any(np.isin(levels, at)):
                at = np.union1d(at, levels)
        return at

    def for_each(self, values: Array) -> Array:
        """One value per column of the table as one per coefficient."""
        return np.repeat(values, self.counts)

    def names(self, columns: Sequence[Any]) -> list[str]:
        """Names of coefficients, as `OneHotEncoder` gives them, from those of columns."""
        of = dict(zip(self.columns, self.labels, strict=True))
        return [
            text
            for j, name in enumerate(columns)
            for text in ([f"{name}_{level}" for level in of[j][int(self.reference) :]] if j in of else [name])
        ]

    @property
    def labels(self) -> list[list[Any]]:
        """Levels of each column in order, "nan" for the missing one, the reference among them."""
        pairs = zip(self.levels, self.missing, strict=True)
        return [[*levels.tolist(), *["nan"] * missing] for levels, missing in pairs]

    def description(self, columns: Sequence[Any]) -> str:
        """Text that names the columns, the number of their levels, and what their coefficients are compared with."""
        parts = []
        for j, names in zip(self.columns, self.labels, strict=True):
            against = f" against {names[0]}" if self.reference else ""
            parts.append(f"{columns[j]} ({len(names):,} level{'s' * (len(names) != 1)}{against})")
        return ", ".join(parts)

    # ---- of partitions
    def merged(self, other: CategoricalColumns) -> CategoricalColumns:
        """The categorical columns of two partitions, whose types declare the same levels.

        Raises
        ------
        ValueError
            They declare different ones.
        """
        mine, its = ([(j, *levels) for j, levels in zip(one.columns, one.labels)] for one in (self, other))
        if mine != its:
            raise ValueError(
                "the partitions of X have categorical columns, or categories of them, of their own: give these a type "
                "with known categories, as X.categorize(columns=[...]) does, the same in all partitions."
            )
        return self

    def settled(self, high: Array, reference: bool) -> CategoricalColumns:
        """The columns with a level for missing values where any row has one.

        Parameters
        ----------
        high : ndarray of shape (width,)
            Greatest value of every indicator over all rows.
        reference : bool
            Whether the first level of each column loses its indicator.
        """
        pairs = zip(self.columns, self.sizes, strict=True)
        return replace(self, missing=[bool(high[self.at(j) + size - 1] > 0) for j, size in pairs], reference=reference)

    def retained(self, high: Array, reference: bool) -> Array:
        """Which indicators stay where columns are `settled`, (width,)."""
        stays = np.ones(self.width, bool)
        for j, size in zip(self.columns, self.sizes, strict=True):
            first = self.at(j)
            stays[first + size - 1] = high[first + size - 1] > 0
            stays[first] &= not reference
        return stays

    # ---- rows
    def applied(self, X: Any, remedy: str, policy: str = "warn", counted: Array | None = None) -> Any:
        """Numbers and indicators of the rows of a table, in the order of its columns; CSR where most are zeros.

        Parameters
        ----------
        X : DataFrame, ndarray or CSR of shape (n, n_columns)
        remedy : str
            What an error about text in another column advises.
        policy : {"warn", "ignore", "error"}
            What is said of levels that are not known, which have no indicator.
        counted : ndarray of bool, shape (n,), optional
            Rows whose levels matter.

        Raises
        ------
        ValueError
            Another column that holds no numbers; with "error" unknown levels.
        """
        table = fixed_columns(X, self.columns)
        types = [np.float64, np.float32]
        numbers = check_table(table, remedy, accept_sparse="csr", dtype=types, ensure_min_features=0)
        indicators = self._encoder(numbers.dtype).transform(self._codes(X, policy, counted))
        if not self.sparse and not sp.issparse(numbers):
            out = np.empty((X.shape[0], self.width), numbers.dtype)
            out[:, self.numeric], out[:, ~self.numeric] = numbers, indicators.toarray()
            return out
        order = np.argsort(np.concatenate([np.flatnonzero(self.numeric), np.flatnonzero(~self.numeric)]))
        out = sp.hstack([_stored(numbers), indicators], format="csr")[:, order]
        out.sort_indices()
        return out

    def _encoder(self, dtype: Any) -> Any:
        """scikit-learn's, of levels by number."""
        from sklearn.preprocessing import OneHotEncoder

        drop = "first" if self.reference else None
        levels = [np.arange(size) for size in self.sizes]
        encoder = OneHotEncoder(categories=levels, drop=drop, handle_unknown="ignore", dtype=dtype)
        return encoder.fit(np.zeros((1, len(levels)), int))

    def _codes(self, X: Any, policy: str, counted: Array | None) -> Array:
        """Number of each row's level, (n, columns); what is not known is the reference, or none: -1."""
        found, faults = [], []
        for j, levels, missing in zip(self.columns, self.levels, self.missing, strict=True):
            column = plain(column_of(X, j))
            codes, gaps = codes_of(column, levels)
            codes[gaps] = len(levels) if missing else -1
            new = codes < 0 if counted is None else (codes < 0) & counted
            if policy != "ignore" and new.any():
                name = repr(j if column.name is None else column.name)
                faults.append(f"column {name} has {_unseen(column[new])} in {int(new.sum()):,} of {len(new):,} rows")
            found.append(np.maximum(codes, 0) if self.reference else codes)
        if faults:
            self._tell("; ".join(faults), policy)
        return np.column_stack(found)

    def _tell(self, faults: str, policy: str) -> None:
        text = f"X has levels of categorical columns that the fit did not see: {faults}"
        if policy == "error":
            raise ValueError(f"{text}. Leave such rows out, or set on_unseen='warn' to predict them without the level.")
        rest = "as if they had its first level, the reference" if self.reference else "without an effect of the column"
        warn_user(f"{text}. Such rows are read {rest}.")


def _unseen(column: Any) -> str:
    """Levels that are not known, the first few."""
    gaps = column.isna()
    others = column[~gaps].astype(object).drop_duplicates().to_numpy()
    return " and ".join([shown(others, SHOWN)] * bool(len(others)) + ["missing values"] * bool(gaps.any()))


def _stored(numbers: Any) -> Any:
    """CSR with every entry of a dense matrix, zeros too, so that centring its columns leaves it as sparse."""
    if sp.issparse(numbers):
        return numbers
    n, d = numbers.shape
    columns, starts = np.tile(np.arange(d), n), d * np.arange(n + 1)
    return sp.csr_matrix((np.ascontiguousarray(numbers).ravel(), columns, starts), shape=(n, d))


# ---- which columns
def plain(column: Any) -> Any:
    """A Series whose levels are text, numbers or truth values; other ones, such as intervals, by their text."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = column.cat.categories
        return column if _are_plain(levels) else column.cat.rename_categories([str(level) for level in levels])
    if column.dtype.kind in NUMBERS + "U" or _are_plain(column.dropna().drop_duplicates()):
        return column
    return column.map(str, na_action="ignore")


def _are_plain(values: Any) -> bool:
    return all(isinstance(value, str | int | float | np.bool_ | np.integer | np.floating) for value in values)


def by_type(X: Any) -> list[int]:
    """Positions of columns of a frame whose type is categorical, or that hold text which is no number.

    Raises
    ------
    ValueError
        A column in which text stands beside numbers, or beside as much text that reads as one: it may be a word for a
        missing value, or a level.
    """
    import pandas as pd

    if not hasattr(X, "iloc"):
        return []
    found = []
    for j, dtype in enumerate(X.dtypes):
        if isinstance(dtype, pd.CategoricalDtype) or (dtype.kind in "OU" and _is_text(X.iloc[:, j])):
            found.append(j)
    return found


def _is_text(column: Any) -> bool:
    """Whether a column holds words."""
    first: dict[str, int] = {}
    other = None
    for row, value in column.reset_index(drop=True).drop_duplicates().dropna().items():
        if isinstance(value, str):
            first.setdefault(value, int(row))
        elif other is None:
            other = repr(value)
    words = [value for value in first if not _is_number(value)]
    if not words:
        return False
    if len(words) <= len(first) - len(words):  # mostly numbers: the words may be mistakes; else some names are figures
        other = repr(next(value for value in first if _is_number(value)))
    if other is not None:
        raise ValueError(
            f"column {column.name!r} of X has {words[0]!r} in row {first[words[0]]}, which is no number, beside "
            f"{other}: write NaN where a number is missing; if these are categories, give the column a categorical "
            "type or name it in categorical_features."
        )
    return True


def _is_number(value: str) -> bool:
    """Whether text is a finite number."""
    try:
        return bool(np.isfinite(float(value)))
    except ValueError:
        return False
