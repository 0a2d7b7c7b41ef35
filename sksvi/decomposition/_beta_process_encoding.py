"""Encoding of the rows of a beta process factor analysis: centre and unit of the columns, and what depends on both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sksvi.estimators.checks import LARGEST_UNIT, check_magnitudes
from sksvi.estimators.encoding import GivenRows, Part, RowEncoding, TypedTable
from sksvi.estimators.validation import validate_data
from sksvi.models.data import Table
from sksvi.partitions.summary import DataSummary

Array = np.ndarray

#: How scikit-learn validates rows: NaN is what was not observed.
ROWS: dict[str, Any] = {"dtype": [np.float64, np.float32], "order": "C", "ensure_all_finite": "allow-nan"}
#: Rows of a column, fewer than which ask for a precision of the weights that is learned (`beta_process.weights`).
ROWS_PER_COLUMN = 1.5


@dataclass(frozen=True)
class BetaProcessEncoding(RowEncoding):
    """Centre and unit of the columns, by the observed entries of the first fit.

    Parameters
    ----------
    dtype : str
        Of answers.
    mean : ndarray of shape (D,)
    scale : float
        Common standard deviation.
    noise_size : int
        Precisions of the noise: 1, or one per column.
    wide : bool
        Whether there are so few rows of so many columns that the precision of the weights is better learned.
    """

    LAYOUT = """
        dtype text where it in ('float32', 'float64')
        mean (d) f; scale number >0
        noise_size count where it in (1, d)
        wide flag
    """

    dtype: str
    mean: Array
    scale: float
    noise_size: int
    wide: bool

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> TypedTable:
        """Rows in the units of the user."""
        X = validate_data(estimator, given.X, reset=fixed is None, any_unit=True, **ROWS)
        return TypedTable(X, np.broadcast_to(0.0, (len(X),)), dtype=X.dtype)

    @classmethod
    def summary(cls, estimator: Any, rows: Table, fixed: Self | None, part: Part) -> DataSummary:
        """Number of the rows, and what their unit is found from where none is fixed."""
        own = {"units": Units.of(rows.X)} if fixed is None else {}
        found = super().summary(estimator, rows, fixed, part)
        return replace(found, bytes_per_row=8.0 * (rows.X.shape[1] + 5), own=own)

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """Unit by the moments of all rows."""
        mean, scale = summary.own["units"].of_fit(getattr(estimator, "feature_names_in_", None))
        wide = max(summary.n, estimator.total_samples or 0) < ROWS_PER_COLUMN * len(mean)
        noise_size = len(mean) if estimator.noise == "columns" else 1
        return cls(np.dtype(summary.dtype).name, mean, scale, noise_size, bool(wide))

    @property
    def exposed(self) -> dict[str, Any]:
        """Means and the standard deviation."""
        return {"mean_": self.mean, "scale_": self.scale}

    def encode(self, estimator: Any, rows: Table, part: Part) -> Table:
        """Centred and scaled rows."""
        return Table(self.scaled(estimator, rows.X), rows.y)

    def scaled(self, estimator: Any, X: Array) -> Array:
        """Numbers in the unit of the fit, in which magnitudes are limited."""
        with np.errstate(over="ignore"):  # loops are compiled for one order of memory
            scaled = np.subtract(X, self.mean, dtype=np.float64, order="C")
            scaled /= self.scale
        names = getattr(estimator, "feature_names_in_", None)
        check_magnitudes(scaled, "X", names, f" in the fit's unit, {self.scale:g}")
        return scaled


@dataclass(frozen=True)
class Units:
    """Moments of rows for their unit, relative to their largest number: squares then neither overflow nor vanish.

    top: the largest absolute number. observed (D,): number of observed entries of each column. mean (D,): their mean.
    square: sum of the squared deviations of all entries from their column's mean.
    """

    top: float
    observed: Array
    mean: Array
    square: float

    @classmethod
    def of(cls, X: Array) -> Units:
        """Largest number, counts, means and squared deviations of the rows X (n, D), NaN where an entry is missing."""
        top = float(np.fmax.reduce(np.abs(X), axis=None, initial=0.0))
        scaled = X.astype(np.float64) / (top or 1.0)
        observed = (~np.isnan(X)).sum(0)
        mean = np.nansum(scaled, 0) / np.maximum(observed, 1)
        return cls(top, observed, mean, float(np.nansum(np.square(scaled - mean))))

    def merged(self, other: Units) -> Units:
        """The units of two sets of rows together, by the pairwise update of means and squared deviations."""
        top, observed = max(self.top, other.top), self.observed + other.observed
        a, b = (part.top / (top or 1.0) for part in (self, other))
        apart, share = b * other.mean - a * self.mean, other.observed / np.maximum(observed, 1)
        square = a**2 * self.square + b**2 * other.square + float(np.sum(self.observed * share * np.square(apart)))
        return Units(top, observed, a * self.mean + share * apart, square)

    def of_fit(self, names: Any = None) -> tuple[Array, float]:
        """Column means and one common standard deviation of the observed entries.

        Raises
        ------
        ValueError
            For a column in which nothing was observed.
        """
        empty, top = np.flatnonzero(self.observed == 0), self.top or 1.0
        if len(empty):
            name = repr(names[empty[0]]) if names is not None else str(empty[0])
            raise ValueError(f"column {name} of X has no observed entry: drop it, or give it one.")
        if top < 1.0 / LARGEST_UNIT:
            raise ValueError(f"X is at most {top:g}, whose square is no number: give X in another unit.")
        sd = float(np.sqrt(self.square / self.observed.sum()))
        # Rounding is all that constant columns leave, and no scale.
        return self.mean * top, sd * top if sd > 1e-14 else 1.0
