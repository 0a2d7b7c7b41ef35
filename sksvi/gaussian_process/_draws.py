"""Draws of a fitted process: hyperparameters, and latents at its points, together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from sksvi.estimators.draws import (
    NodeDraws,
    PosteriorDraws,
    Variable,
    between,
    drawn_nodes,
    in_draw_order,
    likelihood_draws,
    scalars,
)
from sksvi.estimators.offsets import checked_offset
from sksvi.models.gp.bounds import Geometry

Array = np.ndarray


def process_draws(
    estimator: Any, n: int, rng: Any, place: Callable[[Any, Array], tuple[Array, Any]], name: str, axes: dict[str, Any]
) -> PosteriorDraws:
    """Draws of hyperparameters, and of q at their nodes.

    Parameters
    ----------
    estimator : fitted process
    n : int
    rng : RandomState
    place : callable
        Of the process of a node, and draws of its block, what users have of these, (s, ...), and a function of rows to
        their latents and what the points leave open.
    name : str
        Of the block.
    axes : dict
        Names and labels of its axes.
    """
    process = estimator._process
    which, used, drawn, at = drawn_nodes(process.weights, [part.block for part in process.parts], n, rng)
    parts = [process.parts[k] for k in used]
    found = [place(part, draws) for part, draws in zip(parts, drawn, strict=True)]
    variables = {name: Variable(in_draw_order([shown for shown, _ in found], at), axes)}
    learned = process.nodes is not None
    values = (
        between(process.nodes, process.few.values[which], rng) if learned else np.tile(process.kernel.theta, (n, 1))
    )
    if values.shape[1]:
        variables |= scalars(process.hyperparameter_columns(values, estimator._names))
    if values.shape[1] == process.kernel.n_dims:
        variables |= likelihood_draws(process.likelihood, estimator.state_.q.get("likelihood"), n, rng)
    nodes = [
        NodeDraws(own, part.likelihood, _latents_of(estimator, latents))
        for own, part, (_, latents) in zip(at, parts, found, strict=True)
    ]
    return PosteriorDraws(n, variables, nodes)


def _latents_of(estimator: Any, latents: Callable[[Array], tuple[Array, Array]]) -> Any:
    def latents_at(X: Any, offset: Any) -> tuple[Array, Array]:
        given, X = X, validate_data(estimator, X, reset=False, dtype=np.float64)
        offset = checked_offset(estimator, offset, given)
        f, left = latents(X)
        return (f if offset is None else f + offset.reshape(-1, *[1] * (f.ndim - 1))), left

    return latents_at


def at_points(part: Any, points: Array, values: Array, mean: float = 0.0) -> Callable[[Array], tuple[Array, Array]]:
    """Function of rows to f (n, s), or (n, s, K), given values (s, M), or (s, K, M), in white coordinates of points."""
    geometry = Geometry(part.kernel, points)

    def latents(X: Array) -> tuple[Array, Array]:
        _, H, left = geometry.rows(X)
        return np.tensordot(H, values, (1, values.ndim - 1)) + mean, left

    return latents


def sparse_draws(estimator: Any, n: int, rng: Any) -> PosteriorDraws:
    """Draws of inducing values, from which those of f at any rows follow but for what the points leave open."""
    points, several = estimator._process.points, estimator.likelihood_.n_latents > 1

    def place(part: Any, draws: Array) -> tuple[Array, Any]:
        white = draws.reshape(len(draws), -1, len(points)) if several else draws
        L = Geometry(part.kernel, points).L
        return white @ L.T + estimator.mean_, at_points(part, points, white, estimator.mean_)

    axes: dict[str, Any] = {"class": np.asarray(estimator.classes_)} if several else {}
    return process_draws(estimator, n, rng, place, "inducing", axes | {"inducing_point": np.arange(len(points))})


def full_draws(estimator: Any, n: int, rng: Any) -> PosteriorDraws:
    """Draws of f at the rows of the fit that count."""
    counted, where = estimator._rows_of_fit

    def place(part: Any, draws: Array) -> tuple[Array, Any]:
        def latents(X: Array) -> tuple[Array, Array]:
            if not np.array_equal(X, estimator.X_train_[where]):
                raise ValueError(
                    f"X has {len(X)} rows, which are not the {len(where)} of positive weight that this "
                    f"{type(estimator).__name__} was fitted to: draws of f are at these, in their order."
                )
            return draws.T[where], np.zeros(len(where))

        return draws[:, where], latents

    return process_draws(estimator, n, rng, place, "latents", {"row": np.asarray(counted)})
