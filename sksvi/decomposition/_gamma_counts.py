"""Factorizations of tables of counts: what rows fix, fits to them, and predictions of activations, cells, densities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, overload

import numpy as np
import scipy.sparse as sp
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import parallel
from sksvi._typing.arrays import ArrayLike, MatrixLike, is_compressed
from sksvi.decomposition._gamma_fit import GammaFit
from sksvi.decomposition._joint_draws import about, cell_variance
from sksvi.estimators.checks import check_counts, check_flag
from sksvi.estimators.completion import checked_factors, checked_held_out, filled_in, first_half, halved_entries
from sksvi.estimators.encoding import GivenRows, Part, RowEncoding, TypedTable
from sksvi.estimators.first_rows import FirstRows
from sksvi.estimators.refit import STREAMED
from sksvi.estimators.validation import validate_data
from sksvi.models.data import Table
from sksvi.models.nmf import density
from sksvi.models.nmf.cells import CountMatrix, cells, table
from sksvi.partitions.lazy import added
from sksvi.partitions.summary import DataSummary, Total

Array = np.ndarray

#: How scikit-learn validates rows: NaN is a cell that is missing.
ROWS: dict[str, Any] = {"dtype": [np.float64, np.float32], "accept_sparse": "csr", "ensure_all_finite": "allow-nan"}
#: Numbers at a time that the predictive distribution of rows is formed from.
CELLS = 2**20


def checked_counts(estimator: Any, X: Any, reset: bool) -> Any:
    """X with numbers that are counts: none negative, none missing in a sparse one."""
    X = validate_data(estimator, X, reset=reset, **ROWS)
    check_counts(X, "X", type(estimator).__name__, getattr(estimator, "feature_names_in_", None))
    return X


@dataclass(frozen=True)
class CountEncoding(RowEncoding):
    """Type of the numbers, and mean of the cells; 1 where all are 0."""

    LAYOUT = "dtype text; mean number >0"

    dtype: str
    mean: float

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> TypedTable:
        """Cells of rows."""
        X = checked_counts(estimator, given.X, fixed is None)
        rows = table(cells(X))
        return TypedTable(rows.X, rows.y, dtype=X.dtype)

    @classmethod
    def own_summary(cls, estimator: Any, rows: TypedTable) -> dict[str, Any]:
        """Sum and number of the cells."""
        return {"cells": Total(rows.X.sums)}

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """The mean of all cells."""
        total, n = summary.own["cells"].value
        return cls(np.dtype(summary.dtype).name, float(total / n) if total else 1.0)

    def encode(self, estimator: Any, rows: TypedTable, part: Part) -> Table:
        """The cells."""
        return Table(rows.X, rows.y)

    def by_stored(self, estimator: Any, rows: Table) -> Self:
        """The mean of all cells so far."""
        return replace(self, mean=rows.X.mean or 1.0)


class CountFactorization(TransformerMixin, FirstRows, GammaFit):
    """A factorization of tables of counts, of chunks of them, and of collections of partitions."""

    _encoding_class = CountEncoding
    _encoding: CountEncoding

    _changes = {**GammaFit._changes, **STREAMED}

    # ---- fitting
    def fit(self, X: MatrixLike, y: object = None) -> Self:
        """Fit to rows of counts.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, F)
            Counts, or other numbers that are not negative; NaN in a dense one where a cell is missing.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The estimator itself.

        Raises
        ------
        ValueError
            For negative or infinite numbers in X, and an `init` of another shape.
        """
        self._validate_params()
        return self._fit(X, None, None, None)

    def partial_fit(self, X: MatrixLike, y: object = None) -> Self:
        """Go on with a chunk of rows.

        The first 2,000 rows of a stream (16 MB) are kept, and fitted together whenever they have doubled; then each
        chunk is a few steps. A stream may so begin with one row.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, F)
            Counts; NaN in a dense one where a cell is missing.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The estimator itself.

        Raises
        ------
        ValueError
            As `fit`; for other columns than those of earlier chunks, and after a fit that was cut off.
        """
        self._validate_params()
        return self._partial_fit(X, None, None, None)

    def _streaming_model(self, data: Table, first: bool) -> Any:
        return self._model(data.X.shape[1]).of_portions()

    # ---- rows
    def _weighted(self, activations: Array) -> Array:
        """Activations as they multiply the components, (n, K)."""
        return activations

    def _rows(self, X: Any) -> Any:
        return checked_counts(self, X, False)

    @overload
    def transform(self, X: MatrixLike, return_std: Literal[False] = ...) -> np.ndarray: ...

    @overload
    def transform(self, X: MatrixLike, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def transform(self, X: MatrixLike, return_std: bool = ...) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def transform(self, X: MatrixLike, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Posterior mean of the activations H of every row given its cells.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, F)
            Counts; NaN in a dense one where a cell is missing.
        return_std : bool, default=False
            Whether to return posterior standard deviations too: of draws together with those of the components, or
            with ``uncertainty="variational"`` given components and weights, by linear response.

        Returns
        -------
        activations : ndarray of shape (n, K)
        std : ndarray of shape (n, K)
            Only if ``return_std``.
        """
        check_is_fitted(self)
        return_std, checked = check_flag(return_std, "return_std"), self._rows(X)
        found = cells(checked)
        shape, rate = self._activations(found)
        mean = (shape / rate).astype(checked.dtype, copy=False)
        if not return_std:
            return mean
        std = np.empty(shape.shape, checked.dtype)
        for rows in self._portions(found):
            if self.draws_ is not None:
                own = shape[rows] / rate[rows]
                means, variances = self._moments_at(self.draws_.few_items, found[rows], own)
                std[rows] = np.sqrt(about(means, own) + variances.mean(1))
                continue
            covariance = self._covariances(found[rows], shape[rows], rate[rows])
            std[rows] = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        return mean, std

    def inverse_transform(self, X: MatrixLike) -> Array:
        """Expected counts from activations, weights and components.

        Parameters
        ----------
        X : array-like of shape (n, K)

        Returns
        -------
        ndarray of shape (n, F)

        Raises
        ------
        ValueError
            For another number of columns than components.
        """
        check_is_fitted(self)
        factors = checked_factors(X, len(self.components_))
        return (self._weighted(factors) @ self.components_).astype(factors.dtype, copy=False)

    @overload
    def impute(self, X: MatrixLike, return_std: Literal[False] = ...) -> np.ndarray: ...

    @overload
    def impute(self, X: MatrixLike, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def impute(self, X: MatrixLike, return_std: bool = ...) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def impute(self, X: MatrixLike, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Fill in missing cells by their posterior mean; cells that were seen stay as they are.

        Parameters
        ----------
        X : array-like of shape (n, F)
            NaN where a cell is missing.
        return_std : bool, default=False
            Whether to return the standard deviation of each missing cell too, Poisson noise included; 0 where seen.

        Returns
        -------
        ndarray of shape (n, F), or two of them
        """
        check_is_fitted(self)
        return_std, rows = check_flag(return_std, "return_std"), _dense(self._rows(X), "X")
        mean, variance = self._moments(rows)
        return filled_in(rows, mean, np.sqrt(mean + variance) if return_std else None)

    @overload
    def reconstruct(self, X: MatrixLike, return_std: Literal[False] = ...) -> np.ndarray: ...

    @overload
    def reconstruct(self, X: MatrixLike, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def reconstruct(self, X: MatrixLike, return_std: bool = ...) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def reconstruct(self, X: MatrixLike, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Posterior mean of the expected count of every cell, seen or not.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, F)
            Counts; NaN in a dense one where a cell is missing.
        return_std : bool, default=False
            Whether to return its standard deviation too, without Poisson noise.

        Returns
        -------
        ndarray of shape (n, F), or two of them
        """
        check_is_fitted(self)
        return_std, rows = check_flag(return_std, "return_std"), self._rows(X)
        mean, variance = (part.astype(rows.dtype, copy=False) for part in self._moments(rows))
        return (mean, np.sqrt(variance)) if return_std else mean

    def _moments(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the expected counts of rows that have been checked."""
        mean, variance = zip(*(part for _, *part in self._moments_of(cells(X))), strict=True)
        return np.concatenate(mean), np.concatenate(variance)

    def _moments_of(self, found: CountMatrix) -> Iterator[tuple[slice, Array, Array]]:
        """Some rows at a time, and mean and variance of their expected counts."""
        shape, rate = self._activations(found)
        for rows in self._portions(found):
            own, blocks = shape[rows] / rate[rows], self.posterior_.values()
            if self.draws_ is None:
                covariance = self._covariances(found[rows], shape[rows], rate[rows])
                yield rows, *density.moments_of(own, covariance, *blocks)
            else:
                mean, _ = density.moments_of(own, np.zeros_like(own), *blocks)
                bases = self.draws_.few_items
                yield rows, mean, cell_variance(bases, *self._moments_at(bases, found[rows], own), mean)

    def _portions(self, found: CountMatrix) -> list[slice]:
        """Rows whose covariances are formed at a time."""
        K = len(self.components_)
        return parallel.slices(found.shape[0], max(1, CELLS // (K * max(found.shape[1], K))))

    # ---- densities
    def log_predictive_density(self, X: MatrixLike, held_out: ArrayLike) -> Array:
        """Log probability of cells that X lacks, given those that it has, per row.

        Cells are scored one by one, each integrated over the posterior: a Poisson whose mean has the posterior's first
        two moments as those of a gamma distribution, which is a negative binomial.

        Parameters
        ----------
        X : array-like of shape (n, F)
            What is known, NaN elsewhere.
        held_out : array-like of shape (n, F)
            What is asked for, NaN elsewhere.

        Returns
        -------
        ndarray of shape (n,)
            Nats; 0 for a row of which nothing is asked.

        Raises
        ------
        ValueError
            For a table that is sparse, numbers that are negative, and two that differ in shape.
        """
        check_is_fitted(self)
        given = _dense(self._rows(X), "X")
        wanted = _dense(checked_held_out(held_out, given.shape, **ROWS), "held_out")
        check_counts(wanted, "held_out", type(self).__name__)
        return self._log_density(cells(given), lambda rows: wanted[rows])

    def _log_density(self, given: CountMatrix, held_out: Callable[[slice], Array]) -> Array:
        """Log probabilities of the held-out cells (NaN elsewhere) summed for each row, nats, (n,)."""
        parts = []
        for rows, mean, variance in self._moments_of(given):
            y = held_out(rows).astype(np.float64)
            wanted = ~np.isnan(y)
            each = density.log_negative_binomial(np.where(wanted, y, 0.0), mean, variance)
            parts.append(np.where(wanted, each, 0.0).sum(1))
        return np.concatenate(parts)

    def score(self, X: MatrixLike, y: object = None) -> float:
        """Mean log probability, nats per cell, of half of each row's cells given the other half.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, F)
            Counts; NaN in a dense one where a cell is missing.
        y : None
            Ignored.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            Where all cells are missing.
        """
        check_is_fitted(self)
        total, n = added(self, "_scored", X)
        if not n:
            raise ValueError("score needs at least one cell that is not missing.")
        return float(total / n)

    def _scored(self, X: Any) -> tuple[float, float]:
        """Sum of the log probabilities of the held-out half of the cells, nats, and the number of these cells."""
        rows = self._rows(X)
        if not is_compressed(rows):
            given, held_out = halved_entries(rows.astype(np.float64))
            n = float(np.sum(~np.isnan(held_out)))
            return self._log_density(cells(given), lambda part: held_out[part]).sum(), n
        half = first_half(np.arange(rows.shape[1]), np.array([0, rows.shape[1]]))
        found = cells(rows)
        counts = found.counts @ sp.diags_array(half.astype(float), format="csr")
        observed = CountMatrix(counts, np.broadcast_to(half, rows.shape))

        def others(part: slice) -> Array:
            return np.where(half, np.nan, found.counts[part].toarray())

        return self._log_density(observed, others).sum(), float(rows.shape[0] * np.sum(~half))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _dense(X: Any, name: str) -> Array:
    if is_compressed(X):
        raise ValueError(f"{name} is sparse, and every cell of a sparse matrix was seen: give a dense one with NaN.")
    return X
