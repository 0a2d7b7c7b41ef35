"""What the rows of a mixture fix: how many values each column has, and which."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from sksvi._typing.arrays import is_compressed
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.encoding import GivenRows, Part, RowEncoding
from sksvi.estimators.tables import as_table, hashed
from sksvi.estimators.validation import validate_data
from sksvi.models.data import Table
from sksvi.models.mixture.cells import ColumnGroups, MixtureRows, compact
from sksvi.partitions.summary import DataSummary, Union

Array = np.ndarray

#: What rows of categories are to be, for errors.
WANTED = "a table of categories, one row per sample"


@dataclass(frozen=True)
class MixtureEncoding(RowEncoding):
    """Columns of a mixture.

    Parameters
    ----------
    sizes : tuple of int
        Values of each column.
    """

    LAYOUT = "sizes tuple; sizes[*] count"

    sizes: tuple[int, ...]

    @classmethod
    @abstractmethod
    def cells(cls, estimator: Any, X: Any, fixed: Self | None) -> MixtureRows:
        """Validated rows as the model reads them; `fixed`: None, these rows fix what the columns hold."""

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> Table:
        """Rows with their weights."""
        return cls.weighted(estimator, cls.cells(estimator, given.X, fixed), given.sample_weight)

    @abstractmethod
    def shapes(self, n_components: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the blocks of a fit, by their names."""

    @staticmethod
    def weighted(estimator: Any, cells: MixtureRows, sample_weight: Any) -> Table:
        """A table of cells with the weights of their rows.

        Raises
        ------
        ValueError
            Weights with an algorithm that draws a label per row.
        """
        weight = check_row_values(sample_weight, len(cells), "sample_weight", weights=True)
        if weight is not None and estimator._algorithm().spec.sampler and np.any(weight != 1.0):
            raise ValueError("sample_weight with algorithm='gibbs', which draws a label per row: choose 'svi'.")
        return Table(cells, np.broadcast_to(0.0, (len(cells),)), weight)


def column_name(estimator: Any, column: int) -> Any:
    """Name of a column, or its position."""
    names = getattr(estimator, "feature_names_in_", None)
    return column if names is None else names[column]


# ---- zeros and ones
@dataclass(frozen=True)
class BinaryEncoding(MixtureEncoding):
    """Columns of zeros and ones."""

    @classmethod
    def cells(cls, estimator: Any, X: Any, fixed: Self | None) -> MixtureRows:
        """Ones and missing cells of rows."""
        # One order of numbers, so that products have the same last digits whatever kind of table it was.
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}
        X = validate_data(estimator, X, reset=fixed is None, ensure_all_finite="allow-nan", **options)
        values, missing = (X.data, np.isnan(X.data)) if is_compressed(X) else (X, np.isnan(X))
        _check_values(estimator, X, (values != 0) & (values != 1) & ~missing)
        if not is_compressed(X):
            gaps = compact(sp.csr_matrix(missing, dtype=float)) if missing.any() else None
            return MixtureRows(np.where(missing, 0.0, X), gaps)
        ones, gaps = (
            sp.csr_matrix((mask.astype(float), X.indices, X.indptr), X.shape, copy=True)
            for mask in (values == 1, missing)
        )
        for part in (ones, gaps):
            part.eliminate_zeros()
        return MixtureRows(compact(ones), compact(gaps) if missing.any() else None)

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """Two values in every column."""
        return cls((2,) * summary.n_columns)

    def shapes(self, n_components: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the blocks of a fit, by their names."""
        return {"weights": (n_components,), "probabilities": (n_components, len(self.sizes))}


def _check_values(estimator: Any, X: Any, wrong: Array) -> None:
    """Raise where a cell is none of zero, one and missing."""
    if not wrong.any():
        return
    if is_compressed(X):
        at = int(np.argmax(wrong))
        row, column = int(np.searchsorted(X.indptr, at, side="right") - 1), int(X.indices[at])
    else:
        row, column = (int(i[0]) for i in np.nonzero(wrong))
    raise ValueError(
        f"column {column_name(estimator, column)!r} of X has {float(X[row, column]):g} in row {row}, and "
        f"{type(estimator).__name__} takes zeros, ones and NaN (missing): binarise it, or choose CategoricalMixture."
    )


# ---- categories
@dataclass(frozen=True)
class ColumnValues:
    """Values that each column has in some of the rows."""

    columns: tuple[Union, ...]

    @property
    def values(self) -> list[Array]:
        """Values of each column."""
        return [column.values for column in self.columns]

    def merged(self, other: ColumnValues) -> ColumnValues:
        """Values of each column in these rows and those of the other together."""
        return ColumnValues(tuple(_either(a, b) for a, b in zip(self.columns, other.columns, strict=True)))


def _either(a: Union, b: Union) -> Union:
    """Values of both, in the order that a column of them would have."""
    import pandas as pd

    if not (len(a.values) and len(b.values)):
        return a if len(a.values) else b
    if a.declared and b.declared and np.array_equal(a.values, b.values):
        return a
    return Union(*first_categories(pd.Series(np.concatenate([a.values, b.values]))))


def first_categories(column: Any) -> tuple[Array, bool]:
    """Declared categories, else the values that are there in their order, if they have one; whether declared."""
    import pandas as pd

    declared = isinstance(column.dtype, pd.CategoricalDtype)
    found = column if declared else column.astype("category")
    return np.asarray(found.cat.categories), declared


@dataclass(frozen=True)
class CategoricalRows(Table):
    """Coded rows with the values that their columns have."""

    values: ColumnValues = ColumnValues(())


@dataclass(frozen=True)
class CategoricalEncoding(MixtureEncoding):
    """Columns of categories.

    Parameters
    ----------
    sizes : tuple of int
    categories : list of ndarray
        Values of each column.
    """

    LAYOUT = (
        MixtureEncoding.LAYOUT
        + "; categories items; categories[*] labels; categories where tuple(map(len, it)) == self.sizes"
    )

    categories: list[Array]

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> Table:
        """Coded rows; where nothing is fixed they bring their values."""
        columns = _columns(estimator, given.X, fixed is None)
        values = ColumnValues(tuple(Union(*first_categories(c)) for c in columns) if fixed is None else ())
        cells = _coded(estimator, columns, values.values if fixed is None else fixed.categories)
        rows = cls.weighted(estimator, cells, given.sample_weight)
        return rows if fixed is not None else CategoricalRows(cells, rows.y, rows.weight, values=values)

    @classmethod
    def cells(cls, estimator: Any, X: Any, fixed: Self | None) -> MixtureRows:
        """Codes of rows; `fixed`: None, by the values of these."""
        columns = _columns(estimator, X, fixed is None)
        found = [first_categories(column)[0] for column in columns] if fixed is None else fixed.categories
        return _coded(estimator, columns, found)

    @classmethod
    def own_summary(cls, estimator: Any, rows: Any) -> dict[str, Any]:
        """The values of each column."""
        return {"categories": rows.values} if isinstance(rows, CategoricalRows) else {}

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """The values that all rows have."""
        categories = summary.own["categories"].values
        for d, values in enumerate(categories):
            if not len(values):
                raise ValueError(f"column {column_name(estimator, d)!r} of X has no value in any row: drop it.")
        return cls(tuple(len(values) for values in categories), categories)

    def shapes(self, n_components: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the blocks of a fit, by their names."""
        values = {f"values_{m}": (n_components, self.sizes.count(m), m) for m in self.sizes if m > 1}
        return {"weights": (n_components,), **values}

    @property
    def exposed(self) -> dict[str, Any]:
        """The categories of each column."""
        return {"categories_": self.categories}

    def encode(self, estimator: Any, rows: Any, part: Part) -> Table:
        """The rows without the values of their columns."""
        return Table(rows.X, rows.y, rows.weight)


def _columns(estimator: Any, X: Any, reset: bool) -> list[Any]:
    """Columns of a table, as Series of values that can be looked up."""
    import pandas as pd

    X = as_table(X, WANTED)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if not min(X.shape):
        what = "sample(s)" if not X.shape[0] else "feature(s)"
        raise ValueError(
            f"Found array with 0 {what} (shape={X.shape}) while a minimum of 1 is required by "
            f"{type(estimator).__name__}."
        )
    X = X.toarray() if hasattr(X, "toarray") else X
    each = (X.iloc[:, d] if hasattr(X, "iloc") else pd.Series(X[:, d], name=d) for d in range(X.shape[1]))
    return [hashed(column) for column in each]


def _coded(estimator: Any, columns: list[Any], categories: list[Array]) -> MixtureRows:
    """Rows of columns as positions among their categories."""
    codes = [_codes(estimator, column, d, categories[d]) for d, column in enumerate(columns)]
    return ColumnGroups(tuple(len(values) for values in categories)).cells(np.stack(codes, axis=1))


def _codes(estimator: Any, column: Any, d: int, categories: Array) -> Array:
    """Position of each value among the column's categories, -1 where it is missing."""
    import pandas as pd

    missing = column.isna().to_numpy()
    index = pd.Index(categories)
    codes = np.asarray(index.get_indexer(column.astype(object) if column.dtype == "category" else column))
    strange = (codes < 0) & ~missing
    if strange.any():
        row = int(np.argmax(strange))
        raise ValueError(
            f"column {column_name(estimator, d)!r} of X has {column.tolist()[row]!r} in row {row}, which the first "
            f"rows fitted did not; known: {categories.tolist()}. Make it missing (None), or declare every "
            "category up front by a pandas.Categorical."
        )
    return np.where(missing, -1, codes)
