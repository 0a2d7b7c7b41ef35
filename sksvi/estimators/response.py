"""The mean of y given a draw of what a fit has learned: averages over rows, slopes and contrasts are made of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from sksvi.predictive import Predictive

Array = np.ndarray

#: Numbers of a block of rows and draws.
MOST = 2_000_000


def response_names(estimator: Any) -> list[Any]:
    """What the mean of y has several of: classes, or levels that are names; one nameless entry of a number."""
    if getattr(estimator, "_named_levels", False):
        return list(estimator.levels_)
    return list(estimator.classes_) if estimator.likelihood_.n_latents > 1 else [None]


def mean_draws(estimator: Any, blocks: Iterable[tuple[slice, Array, Array]]) -> Iterator[tuple[slice, Array]]:
    """Blocks of rows in turn: their slice and means of y, (n, S, number of names).

    Parameters
    ----------
    estimator : estimator
        With ``_distribution(mean, variance)``, the predictive distribution of y for latents of these moments.
    blocks : iterable of tuple
        Of each block of rows its slice, latents of shape (n, S), or (n, S, K) of K classes, and the variance (n,) that
        a row's latent has besides.
    """
    for rows, latents, left in blocks:
        yield rows, means_given(estimator, latents, left)


def means_given(estimator: Any, latents: Array, left: Array) -> Array:
    """Means of y, (n, S, number of names), where each latent has a variance `left` of its row besides."""
    likelihood, (n, s) = estimator.likelihood_, latents.shape[:2]
    flat = latents.reshape(n * s, *latents.shape[2:])
    certain, variance = not estimator.noise_scale_ and not np.any(left), np.repeat(left, s)
    if likelihood.traits.ordered:
        levels = (
            np.moveaxis(likelihood.probabilities(flat), 0, -1)
            if certain
            else estimator._distribution(flat, variance).probabilities()
        )
        values = None if estimator._named_levels else np.asarray(estimator.levels_, float)
        return (levels if values is None else (levels @ values)[:, None]).reshape(n, s, -1)  # type: ignore[no-any-return]
    if certain:
        return likelihood.mean(flat).reshape(n, s, -1)  # type: ignore[no-any-return]
    variance = np.repeat(variance[:, None], flat.shape[1], axis=1) if latents.ndim == 3 else variance
    return estimator._distribution(flat, variance).mean().reshape(n, s, -1)  # type: ignore[no-any-return]


class ResponseDraws:
    """Draws of E[y | x, what is learned], from draws of the latents.

    A subclass has ``_latent_draws(X, n_draws, seed, offset)``: blocks as `mean_draws` has them; for one seed the draws
    are the same whatever the rows.
    """

    likelihood_: Any
    _latent_draws: Callable[..., Iterator[tuple[slice, Array, Array]]]
    #: Noise of each row's own that `_distribution` adds; 0: none.
    noise_scale_: float = 0.0

    def _distribution(self, m: Array, v: Array, likelihood: Any = None) -> Any:
        """Predictive distribution of y for latents of this mean and variance; None: the likelihood of the fit."""
        return Predictive(self.likelihood_ if likelihood is None else likelihood, m, v)

    def _response_names(self) -> list[Any]:
        return response_names(self)

    def _mean_draws(
        self, X: Any, n_draws: int, seed: int, offset: Any = None, **options: Any
    ) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows in turn: their slice and means of y, (n, S, number of names); options: of `_latent_draws`."""
        return mean_draws(self, self._latent_draws(X, n_draws, seed, offset, **options))
