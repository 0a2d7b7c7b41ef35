"""The design of a linear model: indicators in the place of `categorical_features`, and the subspace of wide ones.

The levels that the first rows have, or that their types declare, are those of the fit. `on_unseen` of an estimator that
has it says what becomes of others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_X_y

from sksvi._typing.arrays import is_compressed
from sksvi.estimators.categories import CategoricalColumns, by_type, plain
from sksvi.estimators.checks import check_numeric_target, check_row_values
from sksvi.estimators.encoding import Part
from sksvi.estimators.tables import Levels, as_table, column_of, framed, position
from sksvi.estimators.validation import check_table, columns_named, validate_data
from sksvi.families import ClassGaussian, DiagonalGaussian, Gaussian, ProjectedGaussian, StandardGaussian
from sksvi.linear_model._prior import prior_kind
from sksvi.models.data import Table
from sksvi.models.linear.rows import Design, informed_subspace

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


# ---- wide designs: the subspace that the rows inform, and weights carried over from one to another
def merged(data: Table, most: float | None = None) -> Table:
    """Equal rows of a wide design as one row with the sum of their weights, sorted; or those of `most` rows at most.

    Fewer rows than weights may be fitted exactly, where roundings grow: this way repeats and weights share their bits.
    """
    wide = data.X.shape[1] > len(data) if most is None else len(data) <= most
    if not wide or isinstance(data.X, Design):
        return data
    X, y = data.X, np.ascontiguousarray(data.y)
    offset = None if data.offset is None else np.ascontiguousarray(data.offset)
    weight = np.ones(len(data)) if data.weight is None else data.weight
    first: dict[bytes, int] = {}
    total: dict[bytes, list[float]] = {}
    for i in range(len(data)):
        if is_compressed(X):
            part = slice(X.indptr[i], X.indptr[i + 1])
            row = X.indices[part].astype(np.int64).tobytes() + X.data[part].tobytes()
        else:
            row = np.asarray(X[i]).tobytes()
        key = y[i].tobytes() + (b"" if offset is None else offset[i].tobytes()) + row
        first.setdefault(key, i)
        total.setdefault(key, []).append(float(weight[i]))
    keys = sorted(first)
    weights = np.array([sum(sorted(total[key])) for key in keys])
    return replace(data.take(np.array([first[key] for key in keys])), weight=weights)


def informed(data: Table, scale: Array) -> tuple[Array, Array]:
    """Rows in the coordinates of the subspace that they inform, (n, r), and its basis, (D, r).

    A row of weight k counts as k rows, so that the directions are those of the weighted data.
    """
    root = np.ones(len(data)) if data.weight is None else np.sqrt(data.weight)
    X = sp.csr_matrix(data.X.multiply(root[:, None])) if is_compressed(data.X) else data.X * root[:, None]
    columns, basis = informed_subspace(X, scale)
    return columns / root[:, None], basis


def in_basis(X: Any, scale: Array, basis: Array) -> Array:
    """Rows of a fit in the coordinates of its subspace, (n, r); an error for a row that lies outside of it."""
    scaled = X.multiply(scale).tocsr() if is_compressed(X) else X * scale
    inner = np.asarray(scaled @ basis)
    squares = scaled.power(2).sum(axis=1) if is_compressed(X) else np.square(scaled).sum(axis=1)
    squares = np.asarray(squares, float).ravel()
    off = squares - np.square(inner, dtype=float).sum(axis=1)
    outside = off > np.sqrt(np.finfo(X.dtype).eps) * squares.max(initial=0.0)
    if outside.any():
        raise ValueError(
            f"row {int(np.argmax(outside))} of X is none of the fit's, nor a combination of them: of a design with more"
            " columns than rows give the rows of the fit."
        )
    return inner


def natural_form(block: Any) -> Any:
    """The block held as mean and precision."""
    if isinstance(block, ClassGaussian):
        return ClassGaussian(natural_form(block.joint), block.n_classes)
    return block.natural_form() if isinstance(block, StandardGaussian) else block


def with_equal_prior(before: Any, std: float) -> ProjectedGaussian:
    """The posterior that the messages of a wide fit leave under a prior of one deviation in all directions."""
    inner = natural_form(before.inner)
    block, several = (inner.joint, inner.n_classes) if isinstance(inner, ClassGaussian) else (inner, 1)
    extra = np.ones(block.mean.size // several - before.basis.shape[1])  # whatever the intercept's is: it stays
    old, new = before.prior_precision, np.full(before.basis.shape[1], std**-2)
    priors = [DiagonalGaussian(np.zeros(block.mean.size), np.tile(np.append(p, extra), several)) for p in (old, new)]
    block = priors[1].times(block.over(priors[0]))
    inner = ClassGaussian(block, several) if several > 1 else block
    return ProjectedGaussian(before.scale, before.basis, inner, std)


def in_subspace(before: Any, block: Any, subspace: tuple[Array, Array] | None) -> Any:
    """The block of a fit in the coordinates of the next one; itself where they are the same.

    Parameters
    ----------
    before : Gaussian block
        Posterior of all weights after the fit.
    block : Gaussian block
        The block that was fitted: inside ``before`` for a wide design.
    subspace : (scale, basis) or None
        Where the next fit takes place; None: all weights.
    """
    wide = isinstance(before, ProjectedGaussian)
    if subspace is None and wide:
        return ProjectedGaussian(before.scale, before.basis, natural_form(before.inner), before.off_std).dense()
    if subspace is None:
        return block
    if wide and np.array_equal(before.scale, subspace[0]) and np.array_equal(before.basis, subspace[1]):
        return block
    if block.mean.ndim != before.mean.ndim:
        raise ValueError(
            "warm_start=True cannot carry a fit of more than two classes over to other rows of a design that has more "
            "columns than rows: set warm_start=False, or use partial_fit."
        )
    scale, basis = subspace
    extra = before.mean.shape[-1] - len(scale)
    rows = np.zeros((basis.shape[1] + extra, len(scale) + extra))
    rows[: basis.shape[1], : len(scale)] = (basis / scale[:, None]).T
    rows[basis.shape[1] :, len(scale) :] = np.eye(extra)
    return Gaussian(before.mean @ rows.T, np.linalg.inv(covariance_of(before, rows)))


def covariance_of(block: Any, rows: Array) -> Array:
    """Covariance of A w for the rows A, plates first."""
    if not isinstance(block, ProjectedGaussian):
        half = rows @ np.swapaxes(block.root, -1, -2)
        return half @ np.swapaxes(half, -1, -2)
    d = len(block.scale)
    inner, scaled = block.inner_rows(rows), rows[:, :d] * block.scale
    informed = scaled @ block.basis
    off = scaled @ scaled.T - informed @ informed.T
    return covariance_of(block.inner, inner) + block.off_std**2 * off
