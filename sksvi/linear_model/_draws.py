"""Draws of a fitted linear model: coefficients, levels, hyperparameters and noise together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

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
from sksvi.estimators.posterior import HyperparameterPoints, PosteriorTarget, TargetNode
from sksvi.families.gaussian.mixture import NodeMixture
from sksvi.inference.problem import Problem
from sksvi.linear_model._integrated import NodeFit, node_fits, rows_for_nodes
from sksvi.linear_model._summaries import joint_effects
from sksvi.models.linear.glm import LinearModel
from sksvi.models.linear.hyperposterior import LinearHyperposterior

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
        model = estimator._predicting(X, fit)
        f, left = model.latents_at(draws, estimator._encoding.in_units(X))
        return model.with_offset(f, offset), left

    return latents


# ---- the posterior that q stands for, whose draws are weighed
#: Points at which the density of hyperparameters is looked at.
POINTS = 1000
#: Relative difference of a hyperparameter between points that is rounding, of a scale whose limits meet.
SAME = 1e-12


def posterior_target(estimator: Any, problem: Problem, bound: float | None) -> PosteriorTarget:
    """A fit with its rows; `bound`: the one that it ended at."""
    weights, model = estimator.posterior_["weights"], cast(LinearModel, problem.model)
    view = getattr(weights, "view", weights)  # hyperparameters are those of the fit
    index, mean, std, effects = joint_effects(estimator, view)
    hierarchical = _hierarchical(estimator, model)
    return PosteriorTarget(
        problem=problem,
        q=estimator.state_.shown,
        block=model.main,
        index=index,
        mean=mean,
        std=std,
        shown=_shown(view, effects),
        final_bound=bound,
        hierarchical=hierarchical,
        scalars={"noise": "noise variance"} if "noise" in estimator.posterior_ else {},
        nodes=_nodes(estimator, model, weights, effects) if isinstance(weights, NodeMixture) else [],
        hyperparameters=lambda: _points(estimator, problem, ~hierarchical),
    )


def _shown(view: Any, effects: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda draws: effects(view.shown(draws))


def _hyperposterior(estimator: Any, model: Any, looks: Any = None) -> LinearHyperposterior:
    state = estimator.state_
    return LinearHyperposterior(model, dict(state.shown), float(state.bound), estimator.n_samples_seen_, looks)


def _nodes(estimator: Any, model: Any, weights: NodeMixture, effects: Callable[[Array], Array]) -> list[TargetNode]:
    """q under every node, for draws of coefficients and hyperparameters together."""
    posterior, values = _hyperposterior(estimator, model), estimator._fitted.nodes.values
    parts = zip(weights.weights, weights.components, weights.node_blocks.blocks, values, strict=True)
    found = []
    for weight, view, block, h in parts:
        q = {**posterior.blocks_at(h), model.main: block}
        found.append(TargetNode(float(weight), q, _shown(view, effects), posterior.log_stated_prior(h)))
    return found


def _hierarchical(estimator: Any, model: Any) -> Array:
    """Which weights have a prior whose scale was learned at nodes, or are effects of levels; bool of their shape."""
    found = np.zeros(model.shape, bool)
    of_latents = model.by_latent(found)
    of_latents[:, model.n_fixed : model.n_features] = True
    if "prior_precision" in estimator._fitted.places:
        of_latents[:, : model.n_fixed] = model.scales.free[model.scales.kinds] & estimator._encoding.learned
    return found


def _points(estimator: Any, problem: Problem, scaled: Array) -> HyperparameterPoints | None:
    """Hyperparameters at points of their density; None where they are a point, or it is known at nodes alone."""
    nodes = estimator._fitted.nodes
    if nodes is None or not estimator._messages_tell_scales:
        return None
    posterior = _hyperposterior(estimator, problem.model, rows_for_nodes(estimator, problem, estimator.state_))
    if len(posterior.mode) != nodes.values.shape[1]:  # rows were at hand for the likelihood's, and are too many
        return None
    found = posterior.points(POINTS)
    columns = estimator._hyperparameter_columns(found.values)
    moving = {name: values for name, values in columns.items() if np.ptp(values) > SAME * np.abs(values).max()}
    return HyperparameterPoints(
        moving,
        found.weights,
        lambda prior, likelihood: np.array([posterior.log_ratio(h, prior, likelihood, scaled) for h in found.values]),
    )
