"""Predictions of a fitted gamma factor model for rows: densities, factors, covariances and draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import parallel
from sksvi._typing.arrays import MatrixLike, RandomState
from sksvi.estimators.checks import check_count, check_flag, check_seed
from sksvi.estimators.validation import check_table, validate_data
from sksvi.integrals.gamma_nodes import nodes, orders
from sksvi.models.gamma_factor.density import projection
from sksvi.partitions.lazy import added

Array = np.ndarray

#: How scikit-learn validates rows.
ROWS = {"dtype": [np.float64, np.float32], "order": "C"}
#: Points of the posterior over which the projection to factors is averaged, and rows that are drawn at a time.
POINTS, DRAWN_ROWS = 64, 256


class GammaFactorPredictions(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Needs what a fit leaves behind."""

    posterior_: Any
    components_: Array
    noise_variance_: Array
    mean_: Array
    fit_mean_: bool
    scale_: Array
    state_: Any
    n_features_in_: int
    n_jobs: Any
    _scatter: Any
    _dtype: str

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, **ROWS))

    def _loadings(self, n_points: int, number: int) -> Array:
        """Points (S, K, D) of the posterior, in an order of their own for each use."""
        q = self.posterior_["loadings"]
        order = orders(n_points, q.shape.size, self.state_.seed + number)
        return nodes(q.shape.ravel(), order)[0].reshape(-1, *q.shape.shape) / q.rate

    @property
    def _widened(self) -> float:
        """Variance of a new row over that of a row about the true mean: 1 + 1/n where the mean was learned."""
        return 1.0 + 1.0 / self._scatter.n if self.fit_mean_ else 1.0

    @property
    def _fitted_to(self) -> Any:
        """The scatter of the rows about the mean that the fit has."""
        return self._scatter if self.fit_mean_ else self._scatter.about_zero()

    # ---- rows
    def transform(self, X: MatrixLike) -> Array:
        """Posterior mean of the factors of every row, averaged over the posterior of the loadings.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        ndarray of shape (n, K)
            In units of their standard deviation a priori; they may be negative.
        """
        X = self._rows(X)
        average = projection(self._loadings(POINTS, 2), self.noise_variance_).mean(0)
        with parallel.working():
            return ((X.astype(np.float64) - self.mean_) @ average.T).astype(X.dtype, copy=False)  # type: ignore[no-any-return]

    def inverse_transform(self, X: MatrixLike) -> Array:
        """Expected rows from factors, by the posterior mean of the loadings.

        Parameters
        ----------
        X : array-like of shape (n, K)

        Returns
        -------
        ndarray of shape (n, D)

        Raises
        ------
        ValueError
            For another number of columns than factors.
        """
        check_is_fitted(self)
        X = check_table(X, **ROWS)
        if X.shape[1] != len(self.components_):
            raise ValueError(f"X has {X.shape[1]} columns; this model has {len(self.components_)} components.")
        return (X @ self.components_ + self.mean_).astype(X.dtype, copy=False)  # type: ignore[no-any-return]

    def score_samples(self, X: MatrixLike, n_draws: int = 64, plug_in: bool = False) -> Array:
        """Log density of every row, integrated over the posterior of loadings and mean.

        Parameters
        ----------
        X : array-like of shape (n, D)
        n_draws : int, default=64
            Points of the posterior of the loadings over which densities are averaged; the same in every call.
        plug_in : bool, default=False
            Whether to take the density at `get_covariance` instead: one Gaussian, and so much faster.

        Returns
        -------
        ndarray of shape (n,)
            Nats.
        """
        X, (K, D) = self._rows(X), self.components_.shape
        n_draws = check_count(n_draws, "n_draws", bytes_each=8.0 * D * (K + 2 * D))
        if check_flag(plug_in, "plug_in"):
            covariances = self.get_covariance()[None]
        else:
            L = self._loadings(n_draws, 3)
            covariances = np.swapaxes(L, -1, -2) @ L + np.diag(self.noise_variance_)
        whiten = np.linalg.inv(np.linalg.cholesky(covariances * self._widened))
        log_det = np.log(np.diagonal(whiten, axis1=-2, axis2=-1)).sum(-1) - 0.5 * X.shape[1] * np.log(2.0 * np.pi)

        def one(part: slice) -> Array:
            rows = (X[part] - self.mean_).T
            each = np.stack([c - 0.5 * np.square(W @ rows).sum(0) for W, c in zip(whiten, log_det, strict=True)])
            return logsumexp(each, axis=0) - np.log(len(each))  # type: ignore[no-any-return]

        with parallel.working():
            parts = parallel.slices(len(X), parallel.chunk_rows(X.shape[1], False))
            return np.concatenate(list(parallel.in_order(one, parts, parallel.n_threads(self.n_jobs))))

    def log_predictive_density(self, X: MatrixLike) -> Array:
        """Log density of every row, integrated over the posterior: `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        ndarray of shape (n,)
            Nats.
        """
        return self.score_samples(X)

    def score(self, X: MatrixLike, y: object = None) -> float:
        """Mean log density of rows, nats.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : None
            Ignored.

        Returns
        -------
        float
        """
        total, n = added(self, "_scored", X)
        return float(total / n)

    def _scored(self, X: Any) -> tuple[float, int]:
        each = self.score_samples(X)
        return np.sum(each), len(each)

    # ---- the distribution of a row
    def get_covariance(self) -> Array:
        """Posterior mean of the covariance of rows, ΛΛᵀ + Ψ.

        Returns
        -------
        ndarray of shape (D, D)
        """
        check_is_fitted(self)
        q = self.posterior_["loadings"]
        return q.mean.T @ q.mean + np.diag(q.variance.sum(0) + self.noise_variance_)  # type: ignore[no-any-return]

    def get_precision(self) -> Array:
        """Inverse of `get_covariance`.

        Returns
        -------
        ndarray of shape (D, D)
        """
        return np.linalg.inv(self.get_covariance())

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """New rows, each from a draw of the posterior.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState or None

        Returns
        -------
        ndarray of shape (n_samples, D)
        """
        check_is_fitted(self)
        n_samples = check_count(n_samples, "n_samples", bytes_each=16.0 * self.components_.shape[1])
        rng = check_seed(random_state)
        return np.concatenate(list(self._drawn(n_samples, rng))).astype(self._dtype, copy=False)

    def _drawn(self, n: int, rng: np.random.RandomState) -> Iterator[Array]:
        q, sd = self.posterior_["loadings"], np.sqrt(self.noise_variance_)
        for part in parallel.slices(n, DRAWN_ROWS):
            size = part.stop - part.start
            factors = rng.standard_normal((size, len(self.components_)))
            common = np.einsum("nk,nkd->nd", factors, q.sample(size, rng))
            yield self.mean_ + np.sqrt(self._widened) * (common + sd * rng.standard_normal((size, len(sd))))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
