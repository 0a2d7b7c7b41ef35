"""What a linear model makes of `categorical_features`: which columns they are, and rows in the place of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_X_y
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime.kinds import is_compressed
from sksvi.estimators.categorical import Levels, column_of, position
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.tables import as_table, framed
from sksvi.estimators.validation import ENCODE, check_numeric_target, check_table, columns_named, validate_data
from sksvi.linear_model._categories import CategoricalColumns, by_type, plain
from sksvi.linear_model._columns import ColumnStats
from sksvi.partitions.summary import DataSummary

Array = np.ndarray

#: Of a column of a Dask collection.
NOT_DECLARED = (
    "levels that are not known before all its rows are read, and X is a Dask collection: give it a categorical type "
    "with known categories, as X.categorize(columns=[...]) does."
)
#: What may be in a design.
NUMBERS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class WithCategories:
    """Mixin of models with categorical columns; stands before the classes that read rows.

    The levels that the first rows have, or that their types declare, are those of the fit. `on_unseen` of an estimator
    that has it says what becomes of others.
    """

    categorical_features: Any
    n_features_in_: int
    _prior_kind: str
    _centred: bool
    _names_of_columns: Callable[[], list[str]]
    _for_text = f"{ENCODE}, or name the column in categorical_features"
    #: None: no column is categorical.
    _categories: CategoricalColumns | None = None
    #: Whether rows are a partition that is asked what it has: a level for missing values stands ready then.
    _glances = False

    # ---- rows
    def _checked(self, X: Any, y: Any, reset: bool, weight: Any = None, **options: Any) -> tuple[Any, Array]:
        """X and y of a fit, as scikit-learn validates them."""
        table = self._with_categories(X, reset)
        if table is None:
            return validate_data(self, X, y, reset=reset, **NUMBERS, **options)  # type: ignore[no-any-return]
        validate_data(self, table, skip_check_array=True, reset=reset)
        if options.get("y_numeric"):
            check_numeric_target(y)
        design = self._design(table, reset, weight)
        with columns_named(design):
            return check_X_y(design, y, **NUMBERS, **options)

    def _validated(self, X: Any) -> Any:
        if self._categories is None:
            return super()._validated(X)  # type: ignore[misc]
        check_is_fitted(self)
        table = as_table(X)
        validate_data(self, table, skip_check_array=True, reset=False)
        return self._design(table, reset=False)

    def _with_categories(self, X: Any, reset: bool) -> Any:
        """X as a table where it has, or may have, categorical columns; else None."""
        if not reset:
            return None if self._categories is None else as_table(X)
        self._categories = None
        if self.categorical_features is None:
            return None
        if isinstance(self.categorical_features, str):
            X = framed(X)
            return X if getattr(X, "ndim", 0) == 2 and by_type(X) else None
        return as_table(X) if len(self.categorical_features) else None

    def _design(self, X: Any, reset: bool, weight: Any = None, others: list[int] | None = None) -> Any:
        """Rows of a table as numbers; `others`: what its columns are among those of X, where it lacks some."""
        weight = check_row_values(weight, X.shape[0], "sample_weight", weights=True)
        counted = None if weight is None else weight > 0
        if reset:
            at = self._chosen(X, others)
            self._categories = self._of_levels(X.shape[1], at, [self._levels_at(X, j, counted) for j in at])
        if self._categories is None:
            return check_table(X, self._for_text, ensure_min_features=0, **NUMBERS)
        return self._categories.applied(X, self._for_text, getattr(self, "on_unseen", "warn"), counted)

    # ---- what the first rows fix
    def _chosen(self, X: Any, others: list[int] | None) -> list[int]:
        """Positions of the categorical columns of a table."""
        given = self.categorical_features
        if given is None:
            return []
        if isinstance(given, str):
            return by_type(X)
        given = list(given)
        if given and all(isinstance(value, bool | np.bool_) for value in given):
            if len(given) != self.n_features_in_:
                raise ValueError(
                    f"categorical_features is a mask of {len(given)} values, and X has {self.n_features_in_} columns: "
                    "give one value per column, or the names of the categorical ones."
                )
            given = np.flatnonzero(given).tolist()
        at = sorted({position(self, name, "categorical_features") for name in given})
        if others is None:
            return at
        if not set(at) <= set(others):
            raise ValueError(
                f"categorical_features={self.categorical_features!r} has a column that groups names: its levels have "
                "an effect already. Leave it out of one of them."
            )
        return [others.index(j) for j in at]

    def _levels_at(self, X: Any, j: int, counted: Array | None, partition: int = 0) -> Levels:
        column = plain(column_of(X, j))
        name = f"column {(j if column.name is None else column.name)!r} of X"
        found = Levels.of_column(column if counted is None else column[counted], name, partition)
        if self._glances and found.declared is None:
            raise ValueError(f"{name} has {NOT_DECLARED}")
        return found

    def _of_levels(self, n_columns: int, at: list[int], levels: list[Levels]) -> CategoricalColumns | None:
        if not at:
            return None
        missing = [self._glances or sum(one.alone.values()) > 0 for one in levels]
        reference = self._prior_kind == "flat" and not self._glances
        return CategoricalColumns(n_columns, at, [one.names for one in levels], missing, reference)

    def _to_centre(self, X: Any) -> Any:
        """Which columns are centred: of a sparse design those of numbers, which store every entry."""
        if not is_compressed(X) or self._categories is None:
            return self._centred and not is_compressed(X)
        stored = np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]
        return self._categories.numeric & stored & self._centred

    def _names_of_rows(self, problem: Any) -> Iterator[str]:
        """Categorical columns with as many levels as there are rows."""
        own, n = self._categories, max(len(problem.data), problem.data.total_weight)
        for j, size in () if own is None else zip(own.columns, own.sizes, strict=True):
            if size >= n:
                yield (
                    f"column {self._names_of_columns()[j]!r} of X has {size:,} levels in {n:,.0f} rows, "
                    "as the name of a row has: its coefficients say nothing of other rows. Leave the column out."
                )

    # ---- rows in partitions
    def _facts(self, X: Any, y: Any, sample_weight: Any, offset: Any, number: int, fresh: bool) -> DataSummary:
        self._glances = fresh
        facts: DataSummary = super()._facts(X, y, sample_weight, offset, number, fresh)  # type: ignore[misc]
        if self._categories is None:
            return facts
        return replace(facts, own={"categories": self._categories, **facts.own})

    def _fix_categories(self, facts: DataSummary) -> tuple[ColumnStats, Any]:
        """Fix the levels of all partitions; return statistics of the fit's columns, and which of them are centred."""
        stats, sparse = facts.own["columns"], facts.own["sparse"].value
        declared = facts.own.get("categories")
        if declared is None:
            self._categories = None
            return stats, self._centred and not sparse
        self._categories, retained = declared.settled(stats.high, self._prior_kind == "flat")
        centred = self._categories.numeric if self._categories.sparse else not sparse
        return stats.take(retained), self._centred & np.asarray(centred)

    def _width(self, facts: DataSummary) -> int:
        own = self._categories
        return super()._width(facts) if own is None else own.width  # type: ignore[misc]
