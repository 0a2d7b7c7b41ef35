"""What a fitted sparse process says of rows: latents, their draws, the distribution of y."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._machine import parallel
from sksvi._typing import MatrixLike, PerRow
from sksvi.estimators.offsets import checked_offset
from sksvi.estimators.response import MOST, ResponseDraws
from sksvi.estimators.validation import validate_data
from sksvi.models.gp.bounds import left_over
from sksvi.models.gp.geometry import Geometry
from sksvi.models.linear.latents import moments
from sksvi.models.linear.rows import DenseRows
from sksvi.predictive import Predictive
from sksvi.predictive.latents import check_latents

Array = np.ndarray


class ProcessPredictions(ResponseDraws):
    """Needs what a fit leaves behind."""

    kernel_: Any
    inducing_points_: Array
    mean_: float
    n_jobs: Any
    _white: Any

    def _latent(self, X: Any, offset: Any) -> tuple[Array, Array]:
        check_is_fitted(self)
        given, X = X, validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        offset = checked_offset(self, offset, given)
        white, n_latents = self._white, self.likelihood_.n_latents

        def one(rows: slice) -> tuple[Array, Array]:
            _, H, d = geometry.rows(X[rows].astype(float, copy=False))
            m, s = moments(DenseRows(H, False), white, n_latents)
            m = m + self.mean_
            return m if offset is None else m + offset[rows].reshape(-1, *[1] * (m.ndim - 1)), left_over(s, d)

        with parallel.working():
            geometry = Geometry(self.kernel_, self.inducing_points_)
            white.prepare()
            parts = parallel.slices(X.shape[0], parallel.chunk_rows(len(geometry.Z), False))
            parts = list(parallel.in_order(one, parts, parallel.n_threads(self.n_jobs)))
        m, v = (np.concatenate(part) for part in zip(*parts, strict=True))
        check_latents(m, v, X.dtype, not self.likelihood_.measured)
        return m.astype(X.dtype, copy=False), v.astype(X.dtype, copy=False)

    def predict_latent(self, X: MatrixLike, offset: PerRow | None = None) -> tuple[Array, Array]:
        """Mean and variance of f(x) + offset under the posterior.

        Parameters
        ----------
        X : array-like of shape (n, D)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        mean, variance : ndarrays of shape (n,), or (n, K) for more than two classes
        """
        m, v = self._latent(X, offset)
        return m, np.diagonal(v, axis1=1, axis2=2).copy() if v.ndim == 3 else v

    def _predictive(self, X: Any, offset: Any) -> Predictive:
        m, v = self._latent(X, offset)
        return Predictive(self.likelihood_, m, v)

    def _latent_draws(self, X: Any, n_draws: int, seed: int, offset: Any) -> Iterator[tuple[slice, Array, Array]]:
        """Draws of the inducing values; what these leave open of a row counts as its own."""
        given, X = X, validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        offset = checked_offset(self, offset, given)
        geometry = Geometry(self.kernel_, self.inducing_points_)
        draws = self._white.sample(n_draws, seed)
        for rows in parallel.slices(X.shape[0], max(1, MOST // draws[..., 0].size)):
            _, H, d = geometry.rows(X[rows].astype(float, copy=False))
            f = np.tensordot(H, draws, (1, draws.ndim - 1)) + self.mean_
            yield rows, f if offset is None else f + offset[rows].reshape(-1, *[1] * (f.ndim - 1)), d
