"""Tables with columns of any type, as users bring them: lists, arrays, sparse matrices, frames of any library;
and the levels of categorical ones."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi._typing.arrays import is_compressed
from sksvi.estimators.validation import checked_sparse, merged

Array = np.ndarray


def framed(X: Any) -> Any:
    """A frame of another library (polars, pyarrow) as a pandas one; anything else as it is."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None or hasattr(X, "iloc"):
        return X
    import pandas as pd

    return pd.DataFrame({name: _column(X[name]) for name in names})


def _column(values: Any) -> Any:
    """A column of another library, with the levels that its type declares (polars' Enum)."""
    dtype: Any = getattr(values, "dtype", None)
    if type(dtype).__name__ == "Enum":
        import pandas as pd

        return pd.Categorical(np.asarray(values), categories=list(dtype.categories), ordered=True)
    return np.asarray(values)


def as_table(X: Any, wanted: str = "a table, one row per sample") -> Any:
    """X as a DataFrame, a CSR matrix or an array, of two dimensions.

    Raises
    ------
    ValueError
        Naming X and what was found.
    """
    if X is None or isinstance(X, str | bytes):
        raise ValueError(f"X is {X!r} and must be {wanted}{'' if X is None else ': read the file first'}.")
    if sp.issparse(X):
        return merged(checked_sparse(X).tocsr())
    X = framed(X)
    if not hasattr(X, "iloc"):
        # Through objects, so that values of several types in a list stay what they are.
        plain = hasattr(X, "__array__")
        try:
            X = np.asarray(X) if plain else np.array(list(X), dtype=object)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X must be {wanted}; found {type(X).__name__}: {error}.") from error
    if X.ndim != 2:
        raise ValueError(f"X: Expected 2D array, got {X.ndim}D array instead: it must be {wanted}.")
    return X


def hashed(column: Any) -> Any:
    """A Series of ids or levels in a type that pandas can look up: half precision and foreign byte orders it cannot.

    Raises
    ------
    TypeError
        For complex numbers, which have no order.
    """
    dtype = column.dtype
    if not isinstance(dtype, np.dtype):
        return column
    if dtype.kind == "c":
        raise TypeError(f"column {column.name!r} of X holds complex numbers: ids and levels are text or real numbers.")
    if dtype.kind == "f" and dtype not in (np.float32, np.float64):
        return column.astype(np.float32 if dtype.itemsize < 4 else np.float64)
    if dtype.kind == "S":  # bytes of no fixed width
        return column.astype(object)
    return column if dtype.isnative else column.astype(dtype.newbyteorder("="))


# ---- columns by name, and their levels
def listed(value: Any) -> list[Any]:
    """List of one name or several."""
    return [value] if isinstance(value, str | Integral) else list(value)


def position(estimator: Any, name: Any, what: str) -> int:
    """Column of X by name or index."""
    names = getattr(estimator, "feature_names_in_", None)
    if isinstance(name, str):
        if names is None:
            raise ValueError(
                f"{what}={name!r} names a column, but X has no column names: give an index, or a DataFrame."
            )
        found = np.flatnonzero(names == name)
        if not len(found):
            raise ValueError(f"{what} names the column {name!r}, which X does not have; it has {list(names)}.")
        return int(found[0])
    if not isinstance(name, Integral) or not -estimator.n_features_in_ <= name < estimator.n_features_in_:
        raise ValueError(f"{what}={name!r} is no column of X: it has {estimator.n_features_in_}, from 0.")
    return int(name) % estimator.n_features_in_


def column_of(X: Any, j: int) -> Any:
    """One column of a table as a Series."""
    import pandas as pd

    if hasattr(X, "iloc"):
        return hashed(X.iloc[:, j])
    return hashed(pd.Series(X[:, [j]].toarray().ravel() if is_compressed(X) else X[:, j]))


def fixed_columns(X: Any, factors: list[int]) -> Any:
    """Columns of X that are no grouping columns."""
    others = [j for j in range(X.shape[1]) if j not in factors]
    if hasattr(X, "iloc"):
        return X.iloc[:, others] if others else np.empty((len(X), 0))
    return X[:, others]


def codes_of(column: Any, levels: Array) -> tuple[Array, Array]:
    """Index of each value among the levels, -1 where it is none of them, and which values are missing."""
    import pandas as pd

    which, values = pd.factorize(column)
    places = pd.Index(levels).get_indexer(pd.Index(values.astype(object)))
    return np.append(places, -1)[which].astype(np.int32), which < 0


@dataclass(frozen=True)
class Levels:
    """Levels of a categorical column that some rows have.

    column: what users call it. present: levels that some row has, sorted. declared: those of a categorical type, in its
    order; None: another type, or partitions that declare different ones. alone: rows without a level, by partition (0
    of a fit in memory).
    """

    column: str
    present: Array
    declared: Array | None
    alone: dict[int, int]

    @classmethod
    def of_column(cls, column: Any, name: str, partition: int = 0) -> Levels:
        """Levels of a column that is given as a Series; `name`: what errors call it."""
        import pandas as pd

        named = column.dropna()
        declared = column.cat.categories.to_numpy() if isinstance(column.dtype, pd.CategoricalDtype) else None
        if declared is None:
            present = np.unique(_sortable(named.drop_duplicates().to_numpy(), name))
        else:
            present = declared[np.unique(named.cat.codes)]
        return cls(name, present, declared, {partition: len(column) - len(named)})

    def merged(self, other: Levels) -> Levels:
        """Levels of the rows of both."""
        mine, its = self.declared, other.declared
        same = mine is not None and its is not None and np.array_equal(mine, its)
        some = [values for values in (self.present, other.present) if len(values)]
        present = np.unique(_sortable(np.concatenate(some), self.column)) if some else self.present
        return Levels(self.column, present, self.declared if same else None, {**self.alone, **other.alone})

    @property
    def names(self) -> Array:
        """The levels of a fit; those that a categorical type declares count even where no row has them."""
        import pandas as pd

        return pd.Index(self.present if self.declared is None else self.declared).to_numpy()

    @property
    def size(self) -> int:
        """Number of effects of the column: one for each level, and one for each row without a level."""
        return len(self.names) + sum(self.alone.values())

    def before(self, partition: int) -> int:
        """Number of the first row of a partition that has no level: such rows follow the named levels."""
        return len(self.names) + sum(count for number, count in self.alone.items() if number < partition)


def _sortable(values: Array, name: str) -> Array:
    """Values of one type as they are; mixed ones cannot be ordered and are refused.

    Raises
    ------
    TypeError
        Naming the types found.
    """
    kinds = {str if isinstance(v, str) else type(v) for v in values} if values.dtype == object else set()
    if str in kinds and len(kinds) > 1:
        found = sorted(kind.__name__ for kind in kinds)
        raise TypeError(f"{name} mixes {found}: make its levels all strings or all numbers.")
    return values
