"""What a linear model makes of `categorical_features`: which columns they are, and rows in the place of them.

The levels that the first rows have, or that their types declare, are those of the fit. `on_unseen` of an estimator that
has it says what becomes of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_X_y

from sksvi._typing.arrays import is_compressed
from sksvi.estimators.checks import check_numeric_target, check_row_values
from sksvi.estimators.encoding import Part
from sksvi.estimators.tables import Levels, as_table, column_of, framed, position
from sksvi.estimators.validation import check_table, columns_named, validate_data
from sksvi.linear_model._categories import CategoricalColumns, by_type, plain
from sksvi.linear_model._prior import prior_kind

Array = np.ndarray

#: What an error says of a column of a Dask collection.
NOT_DECLARED = (
    "levels that are not known before all its rows are read, and X is a Dask collection: give it a categorical type "
    "with known categories, as X.categorize(columns=[...]) does."
)
#: What may be in a design.
NUMBERS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


@dataclass(frozen=True)
class DesignReader:
    """Reads tables as designs of numbers and indicators, by the categorical columns of a fit or of the first rows.

    Parameters
    ----------
    estimator : estimator
        For its parameters, and for the number and names of columns.
    categories : CategoricalColumns or None
        Those of the fit.
    fresh : bool
        Whether nothing is fixed yet: the rows that are read say which columns are categorical, and their levels.
    partial : bool
        Whether these are fresh rows of a partition: each column has an indicator of missing values, until it is known
        whether any partition has them, and first levels keep theirs.
    """

    estimator: Any
    categories: CategoricalColumns | None
    fresh: bool
    partial: bool = False

    @classmethod
    def of(cls, estimator: Any, fixed: Any, part: Part) -> DesignReader:
        """The reader of rows that are this part of all; `fixed`: encoding of the fit, or None."""
        if fixed is not None:
            return cls(estimator, fixed.categorical, False)
        return cls(estimator, None, True, part.remote)

    def checked(self, X: Any, y: Any, weight: Any, options: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Design and y of a fit as scikit-learn validates them, and the categorical columns."""
        estimator, table = self.estimator, self.table(X)
        if table is None:
            return *validate_data(estimator, X, y, reset=self.fresh, **NUMBERS, **options), None
        validate_data(estimator, table, skip_check_array=True, reset=self.fresh)
        if options.get("y_numeric"):
            check_numeric_target(y)
        design, categories = self.design(table, weight)
        with columns_named(design):
            return *check_X_y(design, y, **NUMBERS, **options), categories

    def table(self, X: Any) -> Any:
        """X as a table where it has, or may have, categorical columns; else None."""
        if not self.fresh:
            return None if self.categories is None else as_table(X)
        given = self.estimator.categorical_features
        if given is None:
            return None
        if isinstance(given, str):
            X = framed(X)
            return X if getattr(X, "ndim", 0) == 2 and by_type(X) else None
        return as_table(X) if len(given) else None

    def design(
        self, X: Any, weight: Any = None, others: list[int] | None = None
    ) -> tuple[Any, CategoricalColumns | None]:
        """Rows of a table as numbers, and the categorical columns.

        Parameters
        ----------
        X : DataFrame, ndarray or CSR of shape (n, D)
        weight : array-like of shape (n,), optional
        others : list of int, optional
            What the columns are among those of all, where the table lacks some.
        """
        estimator, categories = self.estimator, self.categories
        weight = check_row_values(weight, X.shape[0], "sample_weight", weights=True)
        counted = None if weight is None else weight > 0
        if self.fresh:
            at = self.chosen(X, others)
            categories = self.columns_with(X.shape[1], at, [self.levels_at(X, j, counted) for j in at])
        if categories is None:
            return check_table(X, estimator._for_text, ensure_min_features=0, **NUMBERS), None
        policy = getattr(estimator, "on_unseen", "warn")
        return categories.applied(X, estimator._for_text, policy, counted), categories

    def chosen(self, X: Any, others: list[int] | None) -> list[int]:
        """Positions of the categorical columns of a table."""
        estimator = self.estimator
        given = estimator.categorical_features
        if given is None:
            return []
        if isinstance(given, str):
            return by_type(X)
        given = list(given)
        if given and all(isinstance(value, bool | np.bool_) for value in given):
            if len(given) != estimator.n_features_in_:
                raise ValueError(
                    f"categorical_features is a mask of {len(given)} values, and X has {estimator.n_features_in_} "
                    "columns: give one value per column, or the names of the categorical ones."
                )
            given = np.flatnonzero(given).tolist()
        at = sorted({position(estimator, name, "categorical_features") for name in given})
        if others is None:
            return at
        if not set(at) <= set(others):
            raise ValueError(
                f"categorical_features={estimator.categorical_features!r} has a column that groups names: its levels "
                "have an effect already. Leave it out of one of them."
            )
        return [others.index(j) for j in at]

    def levels_at(self, X: Any, j: int, counted: Array | None) -> Levels:
        """Levels that the rows that count have in a column."""
        column = plain(column_of(X, j))
        name = f"column {(j if column.name is None else column.name)!r} of X"
        found = Levels.of_column(column if counted is None else column[counted], name)
        if self.partial and found.declared is None:
            raise ValueError(f"{name} has {NOT_DECLARED}")
        return found

    def columns_with(self, n_columns: int, at: list[int], levels: list[Levels]) -> CategoricalColumns | None:
        """Categorical columns with these levels; None without any."""
        if not at:
            return None
        missing = [self.partial or sum(one.alone.values()) > 0 for one in levels]
        reference = prior_kind(self.estimator.prior_precision) == "flat" and not self.partial
        return CategoricalColumns(n_columns, at, [one.names for one in levels], missing, reference)


def stored(X: Any, categories: CategoricalColumns | None) -> Array:
    """Which columns of a design may be centred and stay as sparse: in CSR those of numbers that store every entry."""
    if not is_compressed(X):
        return np.ones(X.shape[1], bool)
    if categories is None:
        return np.zeros(X.shape[1], bool)
    return categories.numeric & (np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0])
