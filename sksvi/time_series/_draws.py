"""Draws of a fitted series: variances and dampings, and f at its points, together."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.estimators.draws import NodeDraws, PosteriorDraws, Variable, between, drawn_nodes, in_draw_order, scalars

Array = np.ndarray


def series_draws(series: Any, parameters: Array, n: int, rng: Any) -> PosteriorDraws:
    """Draws of the hyperparameters and of f, with what a fit subtracts from y and the user's offset.

    Parameters
    ----------
    series : SeriesFit
    parameters : ndarray of shape (H,)
        All that the fit has learned, where it is a point.
    n : int
    rng : RandomState
    """
    views = series.views
    which, used, parts, at = drawn_nodes(series.weights, [view.block for view in views], n, rng)
    f, beside = in_draw_order(parts, at), series.series.offset
    variables = {"latents": Variable(f if beside is None else f + beside, {"time": np.asarray(series.index)})}
    if series.nodes is not None:
        values = between(series.nodes, series.nodes.values[which], rng)
        variables |= scalars(series.hyperparameter_columns(values))
    elif len(parameters):
        variables |= scalars(series.hyperparameter_columns(np.tile(parameters, (n, 1))))
    nodes = [
        NodeDraws(own, views[k].likelihood, _latents(series, part))
        for k, own, part in zip(used, at, parts, strict=True)
    ]
    return PosteriorDraws(n, variables, nodes)


def _latents(series: Any, draws: Array) -> Any:
    def latents(X: Any, offset: Any) -> tuple[Array, Array]:
        own = series.series.offset
        f = draws.T if own is None else draws.T + own[:, None]
        return f[series.observed], np.zeros(int(series.observed.sum()))

    return latents
