"""Draws of a fitted linear model: coefficients, levels, hyperparameters and noise together."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._names import own_name
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
from sksvi.families.gaussian.mixture import NodeMixture
from sksvi.linear_model._integrated import NodeFit, node_fits

Array = np.ndarray


def weight_axes(estimator: Any, ndim: int) -> dict[str, Any]:
    """Name and labels of each axis of the weights: (classes,) coefficients with the intercept last."""
    names = estimator._column_names()
    names = names + [own_name("intercept", names)] * estimator.fit_intercept
    axes = {"coefficient": np.array(names, dtype=object)}  # "column" is a name of ArviZ 1.x's own
    return axes if ndim == 1 else {"class": np.asarray(estimator.classes_)} | axes


def posterior_draws(estimator: Any, n: int, rng: Any) -> PosteriorDraws:
    """Draws of the weights and of all that was learned with them: of a node, and of q there."""
    fits = node_fits(estimator)
    weights = np.array([fit.weight for fit in fits])
    which, used, parts, at = drawn_nodes(weights, [fit.block for fit in fits], n, rng)
    nodes = [
        NodeDraws(own, fits[k].likelihood, _latents(estimator, fits[k], part))
        for k, own, part in zip(used, at, parts, strict=True)
    ]
    variables = {}
    for name in ("weights", "groups"):
        if name in estimator.posterior_:
            views = components(estimator.posterior_[name])
            values = in_draw_order(
                [estimator._in_units(views[k], part) for k, part in zip(used, parts, strict=True)], at
            )
            variables[name] = Variable(values, estimator._axes_of(name, values.ndim - 1))
    fitted = estimator._fitted
    if fitted.nodes is not None:
        values = between(fitted.nodes, fitted.nodes.values[which if len(fits) > 1 else np.zeros(n, int)], rng)
        variables |= scalars(estimator._hyperparameter_columns(values))
    if "likelihood" not in fitted.places:
        variables |= likelihood_draws(estimator.likelihood_, estimator.state_.q.get("likelihood"), n, rng)
    if "noise" in estimator.posterior_:
        variables["noise"] = Variable(np.asarray(estimator.posterior_["noise"].sample(n, rng)))
    return PosteriorDraws(n, variables, nodes)


def components(view: Any) -> list[Any]:
    """The view of every node."""
    return view.components if isinstance(view, NodeMixture) else [view]


def _latents(estimator: Any, fit: NodeFit, draws: Array) -> Any:
    def latents(X: Any, offset: Any) -> tuple[Array, Array]:
        given, X = X, estimator._validated(X)
        offset = checked_offset(estimator, offset, given)
        f, left = estimator._predicting(X, fit).latents_at(draws, estimator._encoding.in_units(X))
        return (f if offset is None else f + offset.reshape(-1, *[1] * (f.ndim - 1))), left

    return latents
