"""Draws of a fitted series: variances and dampings, and f at its points, together."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import clone

from sksvi.estimators.checks import n_rows
from sksvi.estimators.draws import (
    NodeDraws,
    PosteriorDraws,
    Variable,
    between,
    constant,
    drawn_nodes,
    in_draw_order,
    placeholder,
    scalars,
)
from sksvi.estimators.encoding import CHUNK, WHOLE, GivenRows
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.inference.records import replace
from sksvi.models.time_series.weak_prior import WeakPrior

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
    values = np.tile(parameters, (n, 1))
    values = between(series.nodes, series.nodes.values[which], rng) if series.nodes is not None else values
    variables |= scalars(series.hyperparameter_columns(values))
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


# ---- from the prior
def prior_draws(estimator: Any, X: Any, n: int, rng: Any) -> tuple[Any, PosteriorDraws]:
    """An estimator with what X fixes, or its fit, and draws of what it learns and of f at the rows of X.

    Raises
    ------
    ValueError
        Where there is no proper prior, or y chooses the model.
    """
    fitted = hasattr(estimator, "state_")
    twin = copy.copy(estimator) if fitted else clone(estimator)
    _check_given(twin, X, fitted)
    rows = GivenRows(X, placeholder(twin, n_rows(X)), None, None)
    if fitted:
        encoding = twin._encoding
        data = encoding.encode(twin, encoding.read(twin, rows, encoding, CHUNK), CHUNK)
        data = replace(data, X=encoding.rows_at(twin._series.dynamics, data.X, np.arange(len(data))))
        model = twin._model_of(data)
    else:
        model, data = twin._build_model(twin._encoded(rows, True, WHOLE))
    prior = _prior_of(twin, model)
    values, latents, nodes = [], [], []
    for s in range(n):
        theta, likelihood = prior.drawn(rng), prior.drawn_likelihood(rng)
        f = ChainGaussian(model.dynamics.chain(theta, data.X)).prior_draws(1, rng)[0]
        latents.append(f if data.offset is None else f + data.offset)
        nodes.append(NodeDraws(np.array([s]), likelihood, constant(latents[-1][:, None])))
        values.append(np.append(theta, likelihood.unconstrained if likelihood.learned else []))
    variables = {"latents": Variable(np.array(latents), {"time": np.arange(len(data))})}
    columns = twin._series.hyperparameter_columns(np.array(values)) if len(values[0]) else {}
    return twin, PosteriorDraws(n, variables | scalars(columns), nodes)


def _check_given(estimator: Any, X: Any, fitted: bool) -> None:
    """Raise where parameters leave the model, or where a series begins, to y."""
    name = type(estimator).__name__
    if X is None:
        raise ValueError(f"X=None says not how long a series of {name} is: give pandas.DataFrame(index=times).")
    if estimator.groups is not None:
        raise ValueError(f"groups={estimator.groups!r} of this {name}: leave it out, and draw one series at a time.")
    chosen = [own for own in ("likelihood", "level") if getattr(estimator, own) == "auto" and not fitted]
    if chosen:
        given = " and ".join(f"{own}='auto'" for own in chosen)
        raise ValueError(
            f"{given} of this {name} is chosen by y, which "
            "is to be drawn: name one, as likelihood='gaussian' and level='walk'."
        )


def _prior_of(estimator: Any, model: Any) -> WeakPrior:
    """The prior of all that a model learns; ValueError where something has none."""
    name = type(estimator).__name__
    if isinstance(estimator.initial_variance, str) and np.any(model.dynamics.diffuse()):
        raise ValueError(
            f"initial_variance='auto' of this {name} is so wide that it says nothing of where a series begins: give "
            "the prior variance of its first states."
        )
    learned = [one.name for one in model.dynamics.parameters] + list(model.likelihood.learned)
    if learned and estimator.hyperparameters == "point":
        raise ValueError(
            f"hyperparameters='point' of this {name} finds {', '.join(learned)} without a prior: set "
            "hyperparameters='integrated', or give numbers."
        )
    length, encoding = estimator._series.structure["length"], estimator._encoding
    prior = WeakPrior(model.dynamics, model.likelihood, encoding.spread, length)
    if prior.flat:
        raise ValueError(
            f"likelihood={estimator.likelihood!r} of this {name} learns {', '.join(prior.flat)} without a prior: give "
            f"numbers, as in {model.likelihood.scales.example}."
        )
    return prior
