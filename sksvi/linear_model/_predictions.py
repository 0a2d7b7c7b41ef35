"""Latents of new rows under each node of the hyperparameters, mixtures and draws of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sksvi._runtime import parallel
from sksvi.estimators.offsets import checked_offset
from sksvi.estimators.posterior import MOST
from sksvi.linear_model._integrated import NodeFit, node_fits, own_by_default, own_precision, prior_at
from sksvi.models.linear.scales import own_sets
from sksvi.predictive import MixturePredictive
from sksvi.predictive.mixture import merged, mixed_moments
from sksvi.predictive.plain import check_latents

Array = np.ndarray


def latents_at_nodes(estimator: Any, X: Any, offset: Any) -> list[tuple[NodeFit, Array, Array]]:
    """Mean and variance of f under every node."""
    given, X = X, estimator._validated(X)
    offset = checked_offset(estimator, offset, given)
    fits = node_fits(estimator)
    models = [estimator._predicting(X, fit) for fit in fits]
    size = max(parallel.chunk_rows(X.shape[1], False), 512)
    size = size if not models[0].joint else max(64, size // 4)

    def one(rows: slice) -> list[tuple[Array, Array]]:
        part = estimator._encoding.in_units(X[rows])
        own = None if offset is None else offset[rows]
        return [model.predict_latent(fit.block, part, own) for fit, model in zip(fits, models, strict=True)]

    with parallel.working():
        for fit in fits:
            fit.block.prepare()
        parts = list(parallel.in_order(one, parallel.slices(X.shape[0], size), parallel.n_threads(estimator.n_jobs)))
    found = []
    for fit, blocks in zip(fits, zip(*parts, strict=True), strict=True):
        m, v = (np.concatenate(part) for part in zip(*blocks, strict=True))
        check_latents(m, v, X.dtype, not estimator.likelihood_.traits.measured)
        found.append((fit, m.astype(X.dtype, copy=False), v.astype(X.dtype, copy=False)))
    return found


def mixed_latents(estimator: Any, X: Any, offset: Any) -> tuple[Array, Array]:
    """Moments of f over the nodes."""
    parts = latents_at_nodes(estimator, X, offset)
    if len(parts) == 1:
        return parts[0][1:]
    weights = np.array([fit.weight for fit, _, _ in parts])
    m, v = mixed_moments([m for _, m, _ in parts], [v for _, _, v in parts], weights)
    return m.astype(parts[0][1].dtype, copy=False), v.astype(parts[0][1].dtype, copy=False)


def predictive_mixture(estimator: Any, X: Any, offset: Any) -> Any:
    """Predictive distribution of y, a mixture over nodes."""
    parts = latents_at_nodes(estimator, X, offset)
    means, variances = [m for _, m, _ in parts], [v for _, _, v in parts]
    likelihoods = [fit.likelihood for fit, _, _ in parts]
    weights = np.array([fit.weight for fit, _, _ in parts])
    if len(parts) > 1 and "likelihood" not in estimator._fitted.places:
        # By the weights' own spread: what is said of a row is the same whatever rows stand beside it.
        spreads = [float(np.mean(fit.block.variance)) for fit, _, _ in parts]
        means, variances, weights = merged(means, variances, weights, spreads)
    found = [estimator._distribution(*part) for part in zip(means, variances, likelihoods)]
    return found[0] if len(found) == 1 else MixturePredictive(found, weights)


def latent_draws(
    estimator: Any, X: Any, n_draws: int, seed: int, offset: Any, effect: Array | None = None
) -> Iterator[tuple[slice, Array, Array]]:
    """Blocks of rows in turn: their slice, draws of f, and the variance that a row's latent has besides.

    `effect`: coefficients of which draws are under a weak prior of their own.
    """
    given, X = X, estimator._validated(X)
    offset = checked_offset(estimator, offset, given)
    fits, rng = node_fits(estimator), check_random_state(seed)
    shares = np.array([fit.weight for fit in fits])
    counts = [n_draws] if len(fits) == 1 else rng.multinomial(n_draws, shares / shares.sum())
    used = [(fit, estimator._predicting(X, fit), int(c)) for fit, c in zip(fits, counts, strict=True) if c]
    draws = [
        (model, own_draws(estimator, fit, fit.block.sample(c, rng), effect), c / n_draws) for fit, model, c in used
    ]
    size = sum(part[..., 0].size for _, part, _ in draws)
    for rows in parallel.slices(X.shape[0], max(1, MOST // size)):
        design = estimator._encoding.in_units(X[rows])
        found = [(*model.latents_at(part, design), share) for model, part, share in draws]
        f = np.concatenate([part for part, _, _ in found], axis=1)
        left = np.asarray(sum(share * own for _, own, share in found))
        yield rows, f if offset is None else f + offset[rows].reshape(-1, *[1] * (f.ndim - 1)), left


def moved_effect(estimator: Any, low: Any, high: Any) -> Array | None:
    """Coefficients in which rows differ, with the other levels of their columns; None: under the joint prior."""
    if not own_by_default(estimator) or estimator._fitted.subspace is not None:
        return None
    low, high = (estimator._encoding.fixed_part(estimator._validated(part)) for part in (low, high))
    off = abs(low - high)
    moved = np.flatnonzero(np.asarray(off.max(axis=0).todense() if hasattr(off, "todense") else off.max(axis=0)))
    own = estimator._encoding.categorical
    for column, size in () if own is None else zip(own.columns, own.counts[own.columns], strict=True):
        levels = own.at(column) + np.arange(size)
        if np.any(np.isin(levels, moved)):
            moved = np.union1d(moved, levels)
    return moved


def own_draws(estimator: Any, fit: NodeFit, draws: Array, effect: Array | None) -> Array:
    """Draws of all weights with an effect under its own prior, the others following as they do under q."""
    if effect is None or not len(effect):
        return draws
    d, scale = len(estimator._encoding.columns.scale), estimator._encoding.columns.scale
    prior, own = prior_at(estimator, fit) / np.square(scale), own_precision(estimator, "own") / np.square(scale)
    block = getattr(fit.block, "joint", fit.block)
    flat = draws.reshape(len(draws), -1)
    k = estimator.likelihood_.n_latents
    at = (np.arange(k)[:, None] * (flat.shape[1] // k) + effect).ravel()
    units = np.zeros((len(at), flat.shape[1]))
    units[np.arange(len(at)), at] = 1.0
    across = block.coloured(block.uncoloured(units))
    S, m = across[:, at], np.ravel(block.mean)[at]
    mean, cov = own_sets(m, S, np.tile(prior[:d][effect], k), np.tile(own[effect], k))
    standard = np.linalg.solve(np.linalg.cholesky(S), (flat[:, at] - m).T)
    moved = mean + (np.linalg.cholesky(cov) @ standard).T - flat[:, at]
    return (flat + moved @ np.linalg.solve(S, across)).reshape(draws.shape)
