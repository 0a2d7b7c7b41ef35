"""Encoding of the rows of a gamma factor model: their scatter, which is all that a fit reads of them, and its unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sksvi._runtime import memory, parallel
from sksvi.estimators.encoding import GivenRows, Part, RowEncoding, TypedTable
from sksvi.estimators.validation import validate_data
from sksvi.models.data import Table
from sksvi.models.gamma_factor.density import Scatter, scatter_of
from sksvi.models.gamma_factor.model import MANY_POINTS, POINTS
from sksvi.partitions.summary import DataSummary

Array = np.ndarray

#: How scikit-learn validates rows.
ROWS: dict[str, Any] = {"dtype": [np.float64, np.float32], "order": "C"}


@dataclass(frozen=True)
class ScatterEncoding(RowEncoding):
    """Scatter of all rows so far, and units of the columns.

    Parameters
    ----------
    dtype : str
        Of answers.
    scatter : Scatter
    scale : ndarray of shape (D,)
        Units in which the prior holds.
    varies_anew : bool
        Whether the last chunk made a column vary that had been constant, and had no unit of its own.
    """

    LAYOUT = """
        dtype text where it in ('float32', 'float64'); scatter Scatter; scatter.mean (d) f; scale (d) f >0
        varies_anew? flag
    """

    dtype: str
    scatter: Scatter
    scale: Array
    varies_anew: bool = False

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> TypedTable:
        """Rows in the units of the user."""
        X = validate_data(estimator, given.X, reset=fixed is None, **ROWS)
        check_size(int(estimator.n_components), X.shape[1])
        return TypedTable(X, np.broadcast_to(0.0, (len(X),)), dtype=X.dtype)

    @classmethod
    def own_summary(cls, estimator: Any, rows: Table) -> dict[str, Any]:
        """Scatter of the rows."""
        return {"scatter": scatter_of(rows.X, bool(estimator.fit_mean), parallel.n_threads(estimator.n_jobs))}

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """The scatter in units that the first rows fix."""
        scatter = summary.own["scatter"]
        return cls(np.dtype(summary.dtype).name, scatter, units(scatter, estimator.noise_variance))

    def updated(self, estimator: Any, summary: DataSummary, share: float) -> Self:
        """The scatter of a stream, in its own units; or that of all rows of a fit, in those of the first fit."""
        scatter = summary.own["scatter"]
        if not share:
            return replace(self, scatter=scatter)
        scatter = self.scatter.faded(share).merged(scatter)
        anew = bool(np.any(scatter.informed & ~self.scatter.informed))
        return replace(self, scatter=scatter, scale=units(scatter, estimator.noise_variance), varies_anew=anew)

    @property
    def exposed(self) -> dict[str, Any]:
        """Units of the columns."""
        return {"scale_": self.scale}

    def encode(self, estimator: Any, rows: Table, part: Part) -> Scatter | Table:
        """The scatter of a fit; of a chunk the rows, whose weight counts."""
        return self.scatter if part.whole else rows


def units(scatter: Scatter, noise_variance: str | float) -> Array:
    """Units of the columns in which the prior holds (D,): 1 where the noise is given in those of the user."""
    if not isinstance(noise_variance, str):
        return np.ones(len(scatter.mean))
    variance, informed = scatter.variances, scatter.informed
    common = float(np.sqrt(variance[informed].mean())) if informed.any() else 1.0
    if noise_variance == "auto":
        return np.full(len(variance), common)
    return np.where(informed, np.sqrt(np.where(informed, variance, 1.0)), common)


def check_size(n_components: int, n_features: int) -> None:
    """Raise an error where the scatter and the points of a fit need more memory than there is."""
    K, D = float(n_components), float(n_features)
    numbers = 8 * POINTS * K * (K + D) + 5 * MANY_POINTS * K * D + 6 * D**2
    memory.need(8.0 * numbers, f"n_components={n_components} for {D:.0f} columns", "lower n_components")
