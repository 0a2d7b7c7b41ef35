"""Predictions of fitted factors of counts for rows: activations, cells, densities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import parallel
from sksvi._runtime.kinds import is_compressed
from sksvi._typing.arrays import ArrayLike, MatrixLike
from sksvi.decomposition._gamma_posterior import GammaPosterior
from sksvi.estimators.checks import check_counts, check_flag
from sksvi.estimators.completion import first_half, halved_entries
from sksvi.estimators.validation import check_table, validate_data
from sksvi.models.nmf import density
from sksvi.models.nmf.cells import CountMatrix, cells
from sksvi.partitions.lazy import added

Array = np.ndarray

#: How scikit-learn validates rows: NaN is a cell that is missing.
ROWS = {"dtype": [np.float64, np.float32], "accept_sparse": "csr", "ensure_all_finite": "allow-nan"}
#: Numbers at a time that the predictive distribution of rows is formed from.
CELLS = 2**20


class GammaPredictions(GammaPosterior, TransformerMixin):
    """Needs `_model(n_features)` and what a fit leaves behind."""

    component_shares_: Array
    n_features_in_: int
    _dtype: str

    # ---- what may differ
    def _weighted(self, activations: Array) -> Array:
        """Activations as they multiply the components, (n, K)."""
        return activations

    # ---- rows
    def _rows(self, X: Any, reset: bool = False) -> Any:
        """X with numbers that are counts: none negative, none missing in a sparse one."""
        X = validate_data(self, X, reset=reset, **ROWS)
        check_counts(X, "X", type(self).__name__, getattr(self, "feature_names_in_", None))
        if reset:
            self._dtype = X.dtype.name
        return X

    def _cells(self, X: Any, reset: bool = False) -> CountMatrix:
        return cells(self._rows(X, reset))

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
            Whether to return posterior standard deviations too, given components and weights: by linear response,
            since mean field's own are too small.

        Returns
        -------
        activations : ndarray of shape (n, K)
        std : ndarray of shape (n, K)
            Only if ``return_std``.
        """
        check_is_fitted(self)
        return_std, X = check_flag(return_std, "return_std"), self._rows(X)
        found = cells(X)
        shape, rate = self._activations(found)
        mean = (shape / rate).astype(X.dtype, copy=False)
        if not return_std:
            return mean
        std = np.empty(shape.shape, X.dtype)
        for rows in self._portions(found):
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
        X = check_table(X, dtype=[np.float64, np.float32])
        if X.shape[1] != len(self.components_):
            raise ValueError(f"X has {X.shape[1]} columns; this model has {len(self.components_)} components.")
        return (self._weighted(X) @ self.components_).astype(X.dtype, copy=False)

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
        return_std, X = check_flag(return_std, "return_std"), _dense(self._rows(X), "X")
        missing = np.isnan(X)
        mean, variance = self._moments(X)
        filled = np.where(missing, mean, X).astype(X.dtype, copy=False)
        if not return_std:
            return filled
        return filled, np.where(missing, np.sqrt(mean + variance), 0.0).astype(X.dtype, copy=False)

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
        return_std, X = check_flag(return_std, "return_std"), self._rows(X)
        mean, variance = (part.astype(X.dtype, copy=False) for part in self._moments(X))
        return (mean, np.sqrt(variance)) if return_std else mean

    def _moments(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the expected counts of rows that have been checked."""
        mean, variance = zip(*(part for _, *part in self._moments_of(cells(X))), strict=True)
        return np.concatenate(mean), np.concatenate(variance)

    def _moments_of(self, found: CountMatrix) -> Iterator[tuple[slice, Array, Array]]:
        """Some rows at a time, and mean and variance of their expected counts."""
        shape, rate = self._activations(found)
        for rows in self._portions(found):
            covariance = self._covariances(found[rows], shape[rows], rate[rows])
            yield rows, *density.moments_of(shape[rows] / rate[rows], covariance, *self.posterior_.values())

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
        X = _dense(self._rows(X), "X")
        held_out = _dense(check_table(held_out, name="held_out", **ROWS), "held_out")
        check_counts(held_out, "held_out", type(self).__name__)
        if held_out.shape != X.shape:
            raise ValueError(f"held_out.shape == {held_out.shape}, expected {X.shape}: NaN where nothing is asked.")
        return self._log_density(cells(X), lambda rows: held_out[rows])

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
        X = self._rows(X)
        if not is_compressed(X):
            given, held_out = halved_entries(X.astype(np.float64))
            n = float(np.sum(~np.isnan(held_out)))
            return self._log_density(cells(given), lambda rows: held_out[rows]).sum(), n
        half = first_half(np.arange(X.shape[1]), np.array([0, X.shape[1]]))
        found = cells(X)
        given = CountMatrix(
            found.counts @ sp.diags_array(half.astype(float), format="csr"), np.broadcast_to(half, X.shape)
        )

        def others(rows: slice) -> Array:
            return np.where(half, np.nan, found.counts[rows].toarray())

        return self._log_density(given, others).sum(), float(X.shape[0] * np.sum(~half))

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
