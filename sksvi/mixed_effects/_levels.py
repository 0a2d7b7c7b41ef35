"""Categorical columns of a table: which they are, which levels they have, the code of each row's level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi.estimators.strangers import check_asked
from sksvi.estimators.tables import hashed

Array = np.ndarray


def _listed(value: Any) -> list[Any]:
    """One name or several as a list."""
    return [value] if isinstance(value, str | Integral) else list(value)


def _position(estimator: Any, name: Any, what: str) -> int:
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


def factor_names(estimator: Any) -> list[int]:
    """Positions of the grouping columns."""
    found = [_position(estimator, name, "groups") for name in _listed(estimator.groups)]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"groups={estimator.groups!r} must name at least one column, each once.")
    return found


def slope_columns(estimator: Any) -> list[tuple[list[str], list[int]]]:
    """For each grouping column the names of its random slopes, and their positions among the other columns."""
    spec, factors = estimator.random_slopes, estimator._factors
    others = [j for j in range(estimator.n_features_in_) if j not in factors]
    names = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(estimator.n_features_in_)])
    keyed = isinstance(spec, Mapping)
    wanted: dict[int, list[Any]] = dict.fromkeys(factors, [] if spec is None or keyed else _listed(spec))
    for group, columns in spec.items() if keyed else ():
        at = _position(estimator, group, "random_slopes")
        if at not in factors:
            raise ValueError(f"random_slopes has slopes for {group!r}, which is not among groups={estimator.groups!r}.")
        wanted[at] = _listed(columns)
    out = []
    for factor in factors:
        at = [_position(estimator, name, "random_slopes") for name in wanted[factor]]
        if any(j in factors for j in at):
            raise ValueError(f"random_slopes={spec!r} names a grouping column: slopes are those of numeric columns.")
        out.append(([str(names[j]) for j in at], [others.index(j) for j in at]))
    return out


def _column(X: Any, j: int) -> Any:
    """One column of a table as a Series."""
    import pandas as pd

    if hasattr(X, "iloc"):
        return hashed(X.iloc[:, j])
    return hashed(pd.Series(X[:, [j]].toarray().ravel() if sp.issparse(X) else X[:, j]))


def fixed_columns(X: Any, factors: list[int]) -> Any:
    """The columns that are no grouping column."""
    others = [j for j in range(X.shape[1]) if j not in factors]
    if hasattr(X, "iloc"):
        return X.iloc[:, others] if others else np.empty((len(X), 0))
    return X[:, others]


@dataclass(frozen=True)
class Levels:
    """What rows say of the levels of a grouping column.

    present: those that some row has, sorted. declared: those of a categorical type, in its order; None: another type,
    or partitions that declare different ones. alone: rows without a level, by partition (0 of a fit in memory).
    """

    column: Any
    present: Array
    declared: Array | None
    alone: dict[int, int]

    @classmethod
    def of(cls, X: Any, j: int, partition: int = 0) -> Levels:
        """Those of some rows."""
        import pandas as pd

        column = _column(X, j)
        named = column.dropna()
        declared = column.cat.categories.to_numpy() if isinstance(column.dtype, pd.CategoricalDtype) else None
        present = np.unique(_sortable(named)) if declared is None else declared[np.unique(named.cat.codes)]
        return cls(column.name, present, declared, {partition: len(column) - len(named)})

    def joined(self, other: Levels) -> Levels:
        """Those of both."""
        import pandas as pd

        same = self.declared is not None and other.declared is not None
        same = same and np.array_equal(self.declared, other.declared)
        some = [values for values in (self.present, other.present) if len(values)]
        present = np.unique(_sortable(pd.Series(np.concatenate(some), name=self.column))) if some else self.present
        return Levels(self.column, present, self.declared if same else None, {**self.alone, **other.alone})

    @property
    def names(self) -> Array:
        """The levels of a fit; those that a categorical type declares count even where no row has them."""
        import pandas as pd

        return pd.Index(self.present if self.declared is None else self.declared).to_numpy()

    @property
    def size(self) -> int:
        """Effects of the column: of its levels, and of each row without one."""
        return len(self.names) + sum(self.alone.values())

    def before(self, partition: int) -> int:
        """Number of the first row of a partition that has no level: such rows follow the named levels."""
        return len(self.names) + sum(count for number, count in self.alone.items() if number < partition)


def coded(X: Any, factors: list[int], known: list[Array], alone: list[int] | None, fit: bool) -> Array:
    """Level codes (n, F).

    In a fit a row without a level is a level of its own, which nothing else shares; `alone` is the number of the first
    one of each factor, None: there may be none. In predictions a row without a known level has -1.

    Raises
    ------
    ValueError
        A row of a fit with a level that the first data did not have.
    """
    import pandas as pd

    codes = []
    for f, j in enumerate(factors):
        column = _column(X, j)
        code = pd.Index(known[f]).get_indexer(pd.Index(column.astype(object))).astype(np.int32)
        missing = column.isna().to_numpy()
        code[missing] = -1 if alone is None else alone[f] + np.arange(int(missing.sum()))
        if fit and np.any(code < 0):
            row, name = int(np.argmax(code < 0)), j if column.name is None else repr(column.name)
            raise ValueError(
                f"row {row} has level {column.iloc[row]!r} in grouping column {name}, which the first data did not "
                "have: declare all levels there with a categorical dtype, or fit anew."
            )
        codes.append(code)
    return np.column_stack(codes).astype(np.int32)


def check_levels(policy: str, X: Any, factors: list[int], known: list[Array], codes: Array) -> None:
    """Of levels to be predicted what `policy` wants said of those that are not known."""
    for j, levels, code in zip(factors, known, codes.T, strict=True):
        column = _column(X, j)
        name = j if column.name is None else repr(column.name)
        check_asked(policy, f"levels of grouping column {name} of X", column, code >= 0, levels)


def _sortable(column: Any) -> Array:
    """Values of one type as they are; mixed ones cannot be ordered and are refused.

    Raises
    ------
    TypeError
        Naming the types found.
    """
    values = column.to_numpy()
    kinds = {str if isinstance(v, str) else type(v) for v in values} if values.dtype == object else set()
    if str in kinds and len(kinds) > 1:
        found = sorted(kind.__name__ for kind in kinds)
        raise TypeError(f"grouping column {column.name!r} mixes {found}: make its levels all strings or all numbers.")
    return values
