"""The mean of y given a draw of what a fit has learned: averages over rows, slopes and contrasts are made of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

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
        return (levels if values is None else (levels @ values)[:, None]).reshape(n, s, -1)
    if certain:
        return likelihood.mean(flat).reshape(n, s, -1)
    variance = np.repeat(variance[:, None], flat.shape[1], axis=1) if latents.ndim == 3 else variance
    return estimator._distribution(flat, variance).mean().reshape(n, s, -1)
