"""The price of an assumption: bounds on the log evidence at one and the same q, row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from sksvi._runtime import parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow
from sksvi.estimators.checks import check_choice, check_count
from sksvi.estimators.posterior import RowBounds
from sksvi.estimators.tables import framed
from sksvi.inspection._fitted_rows import FittedRows

Array = np.ndarray

#: Estimators whose `bound` names more than one.
CHOICE = "GMERegressor, GMEClassifier, CorrelatedTopicModel and, with Gaussian noise, SparseGPRegressor have one"


@dataclass(frozen=True)
class BoundReport:
    """What `bound_report` found.

    Parameters
    ----------
    fitted : str
        The bound that q was fitted by.
    totals : DataFrame
        A row per bound: ``terms``, the sum over rows; ``divergence``, that of q from its prior, the same for all;
        ``bound``, their difference; ``above_fitted``, the bound less that of the fit, and the same ``per_row``; nats.
    rows : DataFrame
        A row per row of X, with its index: its term under each bound, times its weight, then the differences that no
        row can have below zero, named ``optimal - simple`` and so on; nats.
    groups : DataFrame
        By grouping column and level: number of ``rows``, then the columns of `rows` summed. Empty where the model has
        no groups.
    """

    fitted: str
    totals: DataFrame
    rows: DataFrame = field(repr=False)
    groups: DataFrame = field(repr=False)

    def worst(self, n: int = 10, difference: str | None = None) -> DataFrame:
        """Rows with the largest difference.

        Parameters
        ----------
        n : int, default=10
        difference : str, default=None
            A column of `rows`; None: the largest one of each row.

        Returns
        -------
        DataFrame
            Rows of `rows`, the largest difference first.

        Raises
        ------
        ValueError
            For another name.
        """
        differences = [name for name in self.rows.columns if " - " in name]
        check_choice(difference, "difference", (None, *differences))
        chosen = self.rows[differences].max(axis=1) if difference is None else self.rows[difference]
        return self.rows.iloc[np.argsort(-chosen.to_numpy(), kind="stable")[: check_count(n, "n")]]


def bound_report(
    model: BaseEstimator,
    X: MatrixLike,
    y: PerRow | None = None,
    *,
    sample_weight: PerRow | None = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
) -> BoundReport:
    """Terms of every row under each bound that the model has, all at its fitted q: where a factorization costs most.

    A bound assumes something of what belongs to a row given the global blocks. At one q of the globals bounds differ by
    what the assumption costs, row by row. A row's own variables are optimized, or integrated, anew under each bound.

    Parameters
    ----------
    model : fitted estimator
        `GMERegressor`, `GMEClassifier`, `CorrelatedTopicModel` or, with Gaussian noise, `SparseGPRegressor`; or a
        Pipeline or search around one.
    X : {DataFrame, array-like, sparse matrix} of shape (n, D)
        Rows of the fit or others, as `predict` or `transform` takes them: an unknown level, or a row without one, has
        the effect of any level.
    y : array-like of shape (n,), binomial (n, 2), default=None
        Their targets; None for documents.
    sample_weight, offset, exposure : array-like of shape (n,), default=None
        As the fit had them.

    Returns
    -------
    BoundReport
        With fitted, totals, rows and groups, and the method `worst`.

    Raises
    ------
    TypeError
        If the estimator inside has one bound only, or a target's transformer around it; for Dask collections.
    ValueError
        For rows that the model does not take; a term that is not finite.

    See Also
    --------
    check_posterior : How far the bound is below the evidence.

    Notes
    -----
    For the rows of the fit the bound that was fitted is ``lower_bound_`` with ``hyperparameters="point"`` (else this is
    the log evidence over their nodes), unless rows of the fit had no level. Hyperparameters are where q has them.

    Mixed effects (Sheth and Khardon 2016, eq. 3 and 8): "optimal" integrates the noise of a row given the globals,
    "mean-field" has a Gaussian q(f) of its own for it, "simple" has its prior; ``optimal - mean-field`` and ``optimal -
    simple`` are never below zero. Without noise the three are one.

    Topics: a document's q(η) is a Gaussian under each bound, fitted from equal proportions as in `transform`, and taken
    at nodes that it was not fitted to; that of the optimal bound is the best of its own and those of the other two,
    with which the differences are never below zero. In a fit each document has a few nodes of its own, so that
    `lower_bound_` is somewhat below the bound of the report. Topics are seen by expectations.

    Sparse Gaussian process: "v1" integrates what the inducing points leave open of f, each row alone, "v2" q as well,
    "simple" neither: v2 ≥ v1 ≥ simple, row by row. "v1" and "v2" are no bounds on the evidence. "optimal" integrates f
    of all rows together, so that it has no terms of rows and is among the totals alone, for up to 5,000 rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import GMERegressor
    >>> from sksvi.inspection import bound_report
    >>> X, y = np.arange(6.0)[:, None], np.array([1, 0, 3, 2, 30, 5])
    >>> model = GMERegressor(likelihood="poisson", noise=True, hyperparameters="point").fit(X, y)
    >>> report = bound_report(model, X, y)
    >>> bool(np.isclose(report.totals.loc["optimal", "bound"], model.lower_bound_))
    True
    >>> report.worst(1, "optimal - mean-field").index.tolist()  # the row that counts nothing
    [1]
    """
    fit = FittedRows(model, X, y, sample_weight, offset, exposure)
    fit.require("_row_bounds", "has no choice of bound", CHOICE)
    if exposure is not None and not hasattr(fit.estimator, "likelihood"):
        raise ValueError("exposure is given, and documents have none: leave it out.")
    with parallel.working():
        found = fit.call("_row_bounds")
    for name, values in found.values.items():
        if not np.all(np.isfinite(values)):
            row = int(np.argmin(np.isfinite(values)))
            raise ValueError(f"the term of row {row} under the bound {name!r} is {values[row]}: no report can be made.")
    index = getattr(framed(X), "index", None)
    return _reported(found, index if isinstance(index, pd.Index) else pd.RangeIndex(len(found.weight)))


def _reported(found: RowBounds, index: Any) -> BoundReport:
    """Terms of rows as tables."""
    gaps = {f"{upper} - {lower}": found.values[upper] - found.values[lower] for upper, lower in found.gaps}
    rows = pd.DataFrame({**found.values, **gaps}, index=index)
    sums = {**found.sums, **{name: float(values.sum()) for name, values in found.values.items()}}
    totals = pd.DataFrame({"terms": sums, "divergence": found.divergence})
    totals["bound"] = totals["terms"] - totals["divergence"]
    fitted = sums[found.fitted] - found.divergence if found.fitted in sums else np.nan
    totals["above_fitted"] = totals["bound"] - fitted
    totals["per_row"] = totals["above_fitted"] / found.weight.sum()
    totals.index.name = "bound"
    return BoundReport(found.fitted, totals, rows, _by_level(found, rows))


def _by_level(found: RowBounds, rows: DataFrame) -> DataFrame:
    """Sums over the rows of each level of each grouping column; rows that name no level are one."""
    tables = {}
    for name, levels in found.groups.items():
        grouped = rows.groupby(pd.Index(levels, name="level"), dropna=False, sort=True)
        tables[name] = pd.concat([grouped.size().rename("rows"), grouped.sum()], axis=1)
    return pd.concat(tables, names=["group", "level"]) if tables else pd.DataFrame(columns=["rows", *rows.columns])
