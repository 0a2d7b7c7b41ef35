"""The mean of y given a draw of what a fit has learned: averages over rows, slopes and contrasts are made of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sksvi.predictive import Predictive

Array = np.ndarray

#: Numbers of a block of rows and draws.
MOST = 2_000_000


class ResponseDraws:
    """Draws of E[y | x, what is learned], from draws of the latents.

    A subclass has ``_latent_draws(X, n_draws, seed, offset)``: blocks of rows in turn, each as its slice, latents of
    shape (n, S), or (n, S, K) of K classes, and the variance (n,) that a row's latent has besides; for one seed the
    draws are the same whatever the rows.
    """

    likelihood_: Any
    _latent_draws: Callable[..., Iterator[tuple[slice, Array, Array]]]

    def _distribution(self, m: Array, v: Array, likelihood: Any = None) -> Any:
        """Predictive distribution of y for latents of this mean and variance; None: the likelihood of the fit."""
        return Predictive(self.likelihood_ if likelihood is None else likelihood, m, v)

    #: Noise of each row's own that `_distribution` adds; 0: none.
    noise_scale_: float = 0.0

    def _response_names(self) -> list[Any]:
        """What the mean of y has several of: classes, or levels that are names; one nameless entry of a number."""
        if getattr(self, "_named_levels", False):
            return list(self.levels_)  # type: ignore[attr-defined]
        return list(self.classes_) if self.likelihood_.n_latents > 1 else [None]  # type: ignore[attr-defined]

    def _mean_draws(
        self, X: Any, n_draws: int, seed: int, offset: Any = None, **options: Any
    ) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows in turn: their slice and means of y, (n, S, number of names); options: of `_latent_draws`."""
        for rows, latents, left in self._latent_draws(X, n_draws, seed, offset, **options):
            yield rows, self._means_given(latents, left)

    def _means_given(self, latents: Array, left: Array) -> Array:
        """Means of y, (n, S, number of names), where each latent has a variance `left` of its row besides."""
        likelihood, (n, s) = self.likelihood_, latents.shape[:2]
        several = latents.ndim == 3
        flat = latents.reshape(n * s, *latents.shape[2:])
        certain = not self.noise_scale_ and not np.any(left)
        if likelihood.traits.ordered:
            levels = np.moveaxis(likelihood.probabilities(flat), 0, -1) if certain else self._spread(flat, left, s)
            values = None if self._named_levels else np.asarray(self.levels_, float)  # type: ignore[attr-defined, type-var]
            return (levels if values is None else (levels @ values)[:, None]).reshape(n, s, -1)
        if certain:
            return likelihood.mean(flat).reshape(n, s, -1)
        variance = np.repeat(left, s)
        variance = np.repeat(variance[:, None], flat.shape[1], axis=1) if several else variance
        return self._distribution(flat, variance).mean().reshape(n, s, -1)

    def _spread(self, flat: Array, left: Array, s: int) -> Array:
        return self._distribution(flat, np.repeat(left, s)).probabilities()
