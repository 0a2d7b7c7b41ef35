"""Predictions of a fitted sparse process: latents, their draws, the distribution of y."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import parallel
from sksvi._typing.arrays import MatrixLike, PerRow
from sksvi.estimators.offsets import checked_offset
from sksvi.estimators.response import MOST, ResponseDraws
from sksvi.estimators.validation import validate_data
from sksvi.gaussian_process._hyperparameters import Part, ProcessHyperparameters
from sksvi.models.gp import kernels
from sksvi.models.gp.bounds import left_over
from sksvi.models.gp.geometry import Geometry
from sksvi.models.linear.latents import moments
from sksvi.models.linear.rows import DenseRows
from sksvi.predictive.latents import check_latents

Array = np.ndarray


class ProcessPredictions(ProcessHyperparameters, ResponseDraws):
    """Mixin with the predictions of a fitted sparse process."""

    kernel_: Any
    inducing_points_: Array
    mean_: float
    n_jobs: Any
    _white: Any

    def _latents(self, X: Any, offset: Any) -> tuple[list[Part], list[tuple[Array, Array]]]:
        check_is_fitted(self)
        given, X = X, validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        offset = checked_offset(self, offset, given)
        parts = self._parts(self._white)
        with parallel.working():
            return parts, [self._latents_of(part, X, offset) for part in parts]

    def _latents_of(self, part: Part, X: Array, offset: Any) -> tuple[Array, Array]:
        """Mean and variance of f under one process."""
        place = self._place(part)
        part.block.prepare()

        def one(rows: slice) -> tuple[Array, Array]:
            m, s, d = place.moments(X[rows].astype(float, copy=False))
            m = m + self.mean_
            return m if offset is None else m + offset[rows].reshape(-1, *[1] * (m.ndim - 1)), left_over(s, d)

        blocks = parallel.slices(X.shape[0], parallel.chunk_rows(len(self.inducing_points_), False))
        found = list(parallel.in_order(one, blocks, parallel.n_threads(self.n_jobs)))
        m, v = (np.concatenate(both) for both in zip(*found, strict=True))
        check_latents(m, v, X.dtype, not self.likelihood_.traits.measured)
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

    def _mean_draws(
        self, X: Any, n_draws: int, seed: int, offset: Any = None, **options: Any
    ) -> Iterator[tuple[slice, Array]]:
        """Means of y given draws of hyperparameters and inducing values: each draw has one node for all rows.

        What the inducing values leave open of a row counts as its own. Options are of linear models alone.
        """
        given, X = X, validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        offset = checked_offset(self, offset, given)
        drawn, order = self._drawn(n_draws, seed)
        for rows in parallel.slices(X.shape[0], max(1, MOST // (n_draws * drawn[0][1].shape[-1]))):
            here, means = X[rows].astype(float, copy=False), []
            for part, draws, place in drawn:
                _, H, d = place.geometry.rows(here)
                f = np.tensordot(H, draws, (1, draws.ndim - 1)) + self.mean_
                f = f if offset is None else f + offset[rows].reshape(-1, *[1] * (f.ndim - 1))
                means.append(self._with_likelihood(part.likelihood)._means_given(f, d))
            yield rows, means[0] if len(means) == 1 else np.concatenate(means, axis=1)[:, order]

    def _drawn(self, n_draws: int, seed: int) -> tuple[list[tuple[Part, Array, Place]], Array]:
        """Processes with draws of their inducing values, and the order that mixes these."""
        parts = self._parts(self._white)
        if len(parts) == 1:
            return [(parts[0], parts[0].block.sample(n_draws, seed), self._place(parts[0]))], np.arange(n_draws)
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n_draws, [part.weight for part in parts])
        seeds = rng.integers(np.iinfo(np.int32).max, size=len(parts))
        drawn = [
            (part, part.block.sample(int(count), int(own)), self._place(part))
            for part, count, own in zip(parts, counts, seeds, strict=True)
            if count
        ]
        return drawn, rng.permutation(n_draws)

    def _with_likelihood(self, likelihood: Any) -> Any:
        """This estimator under the likelihood of a node."""
        twin = copy.copy(self)
        twin.likelihood_ = likelihood
        return twin

    def _place(self, part: Part) -> Place:
        """The process among its inducing points; those of nodes are computed once."""
        if part.kernel is self.kernel_:
            return Place(part, self.inducing_points_, self.likelihood_.n_latents)
        places = self._places_away
        if id(part.kernel) not in places:
            several = self.likelihood_.n_latents > 1
            kind = Place if several else PlaceOfOne
            places[id(part.kernel)] = kind(part, self.inducing_points_, self.likelihood_.n_latents)
        return places[id(part.kernel)]

    @cached_property
    def _places_away(self) -> dict[int, Place]:
        return {}


class Place:
    """A process among its inducing points."""

    def __init__(self, part: Part, points: Array, n_latents: int) -> None:
        self.block, self.n_latents = part.block, n_latents
        self.geometry = Geometry(part.kernel, points)

    def moments(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean and (co)variance of what the inducing values say of f at rows, and what they leave open."""
        _, H, d = self.geometry.rows(X)
        return *moments(DenseRows(H, False), self.block, self.n_latents), d


class PlaceOfOne(Place):
    """A process of one latent among its inducing points, whose moments take one product of matrices.

    A mixture over nodes needs those of several processes.
    """

    def __init__(self, part: Part, points: Array, n_latents: int) -> None:
        super().__init__(part, points, n_latents)
        root = self.block.root if self.block.full else np.diag(self.block.root)
        inverse, size = self.geometry.inverse.T, len(points)
        self.cuts = size, 2 * size
        self.lift = np.concatenate([inverse, inverse @ root.T, (inverse @ self.block.mean)[:, None]], axis=1)

    def moments(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean, variance, and what the inducing values leave open."""
        kernel = self.geometry.kernel
        H, spread, mean = np.split(np.dot(kernels.cross(kernel, X, self.geometry.Z), self.lift), self.cuts, axis=1)
        explained = np.einsum("ij,ij->i", H, H)
        return (
            mean[:, 0],
            np.einsum("ij,ij->i", spread, spread),
            np.maximum(kernels.diagonal(kernel, X) - explained, 0.0),
        )
