"""Draws of a linear model's parameters from their prior, and of y given these."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import clone

from sksvi.estimators.checks import n_rows
from sksvi.estimators.draws import NodeDraws, PosteriorDraws, Variable, constant, placeholder, scalars
from sksvi.estimators.encoding import WHOLE, GivenRows
from sksvi.estimators.offsets import given_likelihood
from sksvi.families import Point
from sksvi.inference.records import replace
from sksvi.linear_model._prior import covariance_of
from sksvi.models.linear.scales import ScalePrior
from sksvi.partitions.collections import is_collection

Array = np.ndarray


def check_proper(estimator: Any) -> None:
    """Raise where parameters have no proper prior, naming what has none and what to set."""
    name, kind = type(estimator).__name__, estimator._prior_kind
    named = {} if estimator.prior is None else estimator.prior
    flat = [key for key, value in named.items() if isinstance(value, str) and value == "flat"]
    if flat:
        raise ValueError(
            f"prior[{flat[0]!r}] of this {name} is flat, so that there is nothing to draw coefficients from: give a "
            "Normal or 'auto'."
        )
    if kind in ("flat", "ard"):
        what = "is flat" if kind == "flat" else "has a scale for each column, which has no prior"
        raise ValueError(
            f"prior_precision={estimator.prior_precision!r} of this {name} {what}, so that there is nothing to draw "
            "coefficients from: set prior_precision='auto' or a number."
        )
    if estimator.covariance == "low-rank" or covariance_of(estimator) == "low-rank":
        raise ValueError(
            f"covariance='low-rank' of this {name} finds the scale of its prior by leave-one-out, without a prior of "
            "it: set covariance='full', or a number for prior_precision."
        )


def check_learned(estimator: Any, likelihood: Any) -> None:
    """Raise where a learned parameter of the likelihood has no prior."""
    flat = likelihood.scales.flat
    if flat:
        raise ValueError(
            f"likelihood={given_likelihood(estimator)!r} of this {type(estimator).__name__} learns {', '.join(flat)} "
            f"without a prior: give numbers, as in {likelihood.scales.example}."
        )


def fixed_by(estimator: Any, X: Any, offset: Any) -> tuple[Any, Any, Any]:
    """An estimator with what the data fix, its model in all coordinates, and the rows of X in those of the model.

    Before a fit these are rows with targets of `placeholder`; after one its units are those of the fit.
    """
    if is_collection(X):
        raise TypeError("X is a Dask collection, and draws are made in memory: give X.compute().")
    fitted = hasattr(estimator, "state_")
    twin = copy.copy(estimator) if fitted else clone(estimator)
    twin._record = replace(twin._record, streams=False)
    if fitted:
        rows = twin._encoding.in_units(twin._validated(X))
        if np.any(np.asarray(getattr(rows, "codes", 0)) < 0):
            raise ValueError(
                f"X has levels that this {type(twin).__name__} was not fitted to: draw for those of the fit."
            )
        twin._fitted = replace(twin._fitted, subspace=None, shapes=None)
        precision = twin._precision(len(twin._encoding.columns.scale))
        return twin, twin._model(rows.shape[1], twin.likelihood_, precision), rows
    data = twin._encoded(GivenRows(X, placeholder(twin, n_rows(X)), None, offset), True, WHOLE)
    return twin, twin._streaming_model(data, True), data.X


def prior_draws(estimator: Any, X: Any, n: int, rng: Any, offset: Any = None) -> tuple[Any, PosteriorDraws]:
    """An estimator with what the data fix, and draws of the parameters, each a node of its own with f at the rows of X.

    Raises
    ------
    TypeError, ValueError
        Where there is no proper prior, and for rows in partitions.
    """
    check_proper(estimator)
    twin, model, rows = fixed_by(estimator, X, offset)
    check_learned(estimator, model.likelihood)
    values: list[Array] = []
    found: dict[str, list[Array]] = {}
    nodes: list[NodeDraws] = []
    for s in range(n):
        q = hyperparameters(model, rng)
        likelihood = model.current_likelihood(q)
        prior = (model if model.named is None else model.replaced(named=model.named.drawn(rng))).prior(q)
        drawn = prior["weights"].sample(1, rng)
        views = twin._views(model, prior["weights"])
        for name, view in views.items():
            found.setdefault(name, []).append(view.shown(drawn)[0])
        inner = model.exposed(prior["weights"])
        f = model.latents_at(inner.shown(drawn) if inner.mean.ndim == 2 else drawn, rows)[0]
        f = model.with_offset(f, None if offset is None else np.ravel(offset))
        if "noise" in prior:
            variance = prior["noise"].sample(1, rng)[0]
            found.setdefault("noise", []).append(variance)
            f = f + np.sqrt(variance) * rng.standard_normal(f.shape)
        nodes.append(NodeDraws(np.array([s]), likelihood, constant(f)))
        values.append(np.concatenate([[], *(np.ravel(q[name].value) for name in model.hyper if name in q)]))
    variables = {
        name: Variable(np.array(part), {} if name == "noise" else twin._axes_of(name, np.ndim(part[0])))
        for name, part in found.items()
    }
    sizes = {name: np.size(q[name].value) for name in model.hyper if name in q} if n else {}
    return twin, PosteriorDraws(n, variables | scalars(_columns(twin, model, sizes, np.array(values))), nodes)


def _columns(twin: Any, model: Any, sizes: dict[str, int], values: Array) -> dict[str, Array]:
    """Hyperparameters (n, H) of blocks of these sizes under the names of users."""
    ends = np.cumsum(list(sizes.values())).tolist()
    places = {name: [end - size, end] for (name, size), end in zip(sizes.items(), ends, strict=True)}
    twin._fitted, twin.likelihood_ = replace(twin._fitted, places=places), model.likelihood
    return dict(twin._hyperparameter_columns(values)) if places else {}


def hyperparameters(model: Any, rng: Any) -> dict[str, Any]:
    """Points of the hyperparameters of a linear model, drawn from their priors."""
    q: dict[str, Any] = dict(model.drawn_hyper(rng))
    if model.scales is not None:
        q["prior_precision"] = Point(drawn_scales(model.scales, rng))
    if model.likelihood.learned:
        own = model.likelihood.scales.drawn(model.unit, rng)
        q["likelihood"] = Point(np.asarray(own, float))
    return q


def drawn_scales(scales: ScalePrior, rng: Any) -> Array:
    """Log precisions (K,) from their prior: √W half-Cauchy between the limits; where these meet, there."""
    h = scales.highest.copy()
    free = scales.free
    low, high = (np.arctan(np.sqrt(scales.ratio(end)[free])) for end in (scales.highest, scales.lowest))
    root = np.tan(low + (high - low) * rng.random_sample(int(free.sum())))
    h[free] = -np.log(np.square(root * np.broadcast_to(scales.unit, h.shape)[free]) / scales.variance[free])
    return np.asarray(h)
