"""Draws of everything that a fit leaves a posterior of, together, under the names of the user."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.special import ndtri
from sklearn.base import clone, is_classifier

from sksvi import likelihoods
from sksvi.estimators.checks import n_rows
from sksvi.estimators.encoding import CHUNK, WHOLE, GivenRows
from sksvi.estimators.levels import are_numbers
from sksvi.estimators.offsets import given_likelihood
from sksvi.estimators.posterior import variance_besides
from sksvi.integrals.nodes import Nodes
from sksvi.likelihoods.traits import safe_exp, sigmoid

Array = np.ndarray

#: Share of the variance of hyperparameters that is between their nodes; the rest is normal about each of them, so that
#: draws have the moments of the nodes and no gaps.
BETWEEN = 0.5
#: Levels that stand for those that only targets would name.
LEVELS = 3


class Variable(NamedTuple):
    """Values (S, ...) of one variable at S draws, and the name and labels of each further axis."""

    values: Array
    axes: Mapping[str, Any] = {}


@dataclass(frozen=True)
class NodeDraws:
    """The draws that are of one node of the hyperparameters.

    Parameters
    ----------
    at : ndarray of int, shape (s,)
        Which of all draws.
    likelihood : Likelihood
    latents : callable
        Rows and their offset to f (n, s), or (n, s, K), and the variance (n,) that a row's latent has besides.
    """

    at: Array
    likelihood: Any
    latents: Callable[[Any, Any], tuple[Array, Array]]


@dataclass(frozen=True)
class PosteriorDraws:
    """Draws of a fit.

    Parameters
    ----------
    n : int
        How many, S.
    variables : dict
        By name.
    nodes : list of NodeDraws
        Of models of y given f; none: y is no function of these draws alone.
    log_density : callable, optional
        Of rows without a target to log p(row | draw), (S, n), nats.
    rows : list of tables, optional
        Of models of rows without a target: rows of each draw, as a fit takes them.
    """

    n: int
    variables: dict[str, Variable]
    nodes: list[NodeDraws] = field(default_factory=list)
    log_density: Callable[[Any], Array] | None = None
    rows: list[Any] | None = None


# ---- which node a draw is of
def split(weights: Array, n: int, rng: Any) -> tuple[Array, list[Array]]:
    """The node of each of n draws, and the draws of each node."""
    which = rng.choice(len(weights), n, p=np.asarray(weights) / np.sum(weights))
    return which, [np.flatnonzero(which == k) for k in range(len(weights))]


def drawn_nodes(weights: Array, blocks: list[Any], n: int, rng: Any) -> tuple[Array, list[int], list[Array], list[Any]]:
    """The node of each of n draws; of nodes that have some: their numbers, draws of their blocks, and which draws."""
    which, at = split(weights, n, rng)
    used = [k for k, own in enumerate(at) if len(own)]
    at = [at[k] for k in used]
    return which, used, [np.asarray(blocks[k].sample(len(own), rng)) for k, own in zip(used, at, strict=True)], at


def in_draw_order(parts: list[Array], at: list[Array]) -> Array:
    """Draws of nodes, (s_k, ...) each, in the order of all draws."""
    return np.concatenate(parts)[np.argsort(np.concatenate(at), kind="stable")]


def between(nodes: Nodes, values: Array, rng: Any) -> Array:
    """Hyperparameters (S, H) at draws whose nodes have these values (S, H): with the nodes' moments, without gaps."""
    off = nodes.values - nodes.mean
    cov = (1.0 - BETWEEN) * (nodes.weights * off.T) @ off
    if nodes.within is not None:
        cov[np.diag_indices(len(cov))] += nodes.within
    size, axes = eigh(cov)
    noise = rng.standard_normal(values.shape) * np.sqrt(np.maximum(size, 0.0)) @ axes.T
    return np.asarray(nodes.mean + np.sqrt(BETWEEN) * (values - nodes.mean) + noise)


def scalars(columns: Mapping[str, Array]) -> dict[str, Variable]:
    """Numbers at draws, (S,), as variables."""
    return {str(name): Variable(np.asarray(values, float)) for name, values in columns.items()}


def likelihood_draws(likelihood: Any, learned: Any, n: int, rng: Any) -> dict[str, Variable]:
    """Learned parameters of a likelihood that is a point: normal with the curvature that the data leave it.

    Parameters
    ----------
    likelihood : Likelihood
        As fitted.
    learned : Point or None
        The block "likelihood" of q.
    n : int
    rng : RandomState
    """
    if learned is None or not likelihood.reported:
        return {}
    information, value = getattr(learned, "information", None), np.asarray(likelihood.unconstrained, float)
    points = np.tile(value, (n, 1))
    if information is not None:
        size, axes = eigh(information)
        if size[0] > np.finfo(float).eps * size[-1]:  # else the data do not tell the parameters apart
            points = points + rng.standard_normal(points.shape) / np.sqrt(size) @ axes.T
    rows = [likelihood.replace(point).reported for point in points]
    return scalars({name: np.array([row[name] for row in rows]) for name in rows[0]})


# ---- blocks of q that are independent of each other
def block_draws(blocks: Mapping[str, Any], axes: Mapping[str, Mapping[str, Any]], n: int, rng: Any) -> PosteriorDraws:
    """Draws of every block, each by itself; `axes`: names and labels of the axes of those that have some."""
    found = {
        name: Variable(np.asarray(block.sample(n, random_state=rng)), axes.get(name, {}))
        for name, block in blocks.items()
    }
    return PosteriorDraws(n, found)


# ---- y at draws
def _given(estimator: Any, node: NodeDraws, X: Any, offset: Any) -> tuple[Array, Any, int]:
    """Latents (n s, ...) of rows at draws, the distribution of y there, and s; None where the likelihood says all."""
    f, left = node.latents(X, offset)
    s = f.shape[1]
    f, left = f.reshape(len(f) * s, *f.shape[2:]), np.repeat(left, s, axis=0)
    if not getattr(estimator, "noise_scale_", 0.0) and not np.any(left):
        return f, None, s
    return f, estimator._distribution(f, variance_besides(f, left), node.likelihood), s


def log_densities(estimator: Any, draws: PosteriorDraws, X: Any, y: Array, offset: Any) -> Array:
    """log p(y | draw) of every draw and row, (S, n), nats; y as the likelihood has it."""
    out = np.empty((draws.n, len(y)))
    for node in draws.nodes:
        f, given, s = _given(estimator, node, X, offset)
        target = np.repeat(y, s, axis=0)
        values = node.likelihood.log_prob(target, f) if given is None else given.log_prob(target)
        out[node.at] = np.asarray(values).reshape(-1, s).T
    return out


def draws_of_y(
    estimator: Any, draws: PosteriorDraws, X: Any, n_rows: int, offset: Any, rng: Any, trials: Array | None = None
) -> Array:
    """One y of each row at every draw, (S, n), as the likelihood has it; of `trials` (n,) the successes."""
    out = np.empty((draws.n, n_rows))
    generator = np.random.default_rng(rng.randint(np.iinfo(np.int32).max))
    for node in draws.nodes:
        f, given, s = _given(estimator, node, X, offset)
        if trials is not None:
            share = node.likelihood.mean(f) if given is None else given.mean()
            values = generator.binomial(np.repeat(trials, s), np.minimum(share, 1.0))  # a mixture's weights round
        else:
            values = node.likelihood.sample(f, generator) if given is None else given.sample(1, generator)[:, 0]
        out[node.at] = np.asarray(values, float).reshape(-1, s).T
    return out


# ---- y from the prior
def placeholder(estimator: Any, n: int) -> Array:
    """Targets that stand for data of mean 0 and standard deviation 1, counts of mean 1, or labels alike often."""
    if is_classifier(estimator):
        by_name = estimator.likelihood in likelihoods.OF_CLASSES
        spec = None if by_name else likelihoods.resolve(given_likelihood(estimator))
        return np.arange(n) % (2 if spec is None or spec.n_latents == 1 else spec.n_latents)
    likelihood = estimator._base_likelihood()
    if likelihood.traits.paired:
        return np.ones((n, 2))
    if likelihood.traits.ordered:
        return np.arange(n) % (LEVELS if likelihood.levels is None else len(likelihood.levels))
    if likelihood.traits.measured:
        y = ndtri((np.arange(n) + 0.5) / n)
        y = np.asarray(y / y.std()) if n > 1 else y
        if likelihood.support.low < 0:
            return y
        return sigmoid(y) if np.isfinite(likelihood.support.high) else safe_exp(y)
    return np.arange(n) % (3.0 if likelihood.support.high > 1 else 2.0)


def constant(f: Array) -> Callable[[Any, Any], tuple[Array, Array]]:
    """Latents of a node that are drawn already, whatever the rows."""
    return lambda X, offset: (f, np.zeros(len(f)))


def rows_from_prior(estimator: Any, X: Any, n: int, rng: Any) -> tuple[Any, PosteriorDraws]:
    """An estimator with what the rows of X fix, or those of its fit, and draws of its parameters and of as many rows.

    The blocks of its model are drawn from ``model.prior``; `_drawn_hyper` of the estimator draws what these depend on,
    and `_row_draws` rows from them.
    """
    fitted = hasattr(estimator, "state_")
    twin = copy.copy(estimator) if fitted else clone(estimator)
    rows = GivenRows(X, None, None, None)
    if fitted:
        data = twin._encoding.encode(twin, twin._encoding.read(twin, rows, twin._encoding, CHUNK), CHUNK)
    else:
        data = twin._encoded(rows, True, WHOLE)
    model, found, tables = twin._build_model(data)[0], dict[str, list[Array]](), list[Any]()
    for _ in range(n):
        q = twin._drawn_hyper(model, rng)
        drawn = twin._drawn_blocks(model.prior(q), rng)
        tables.append(twin._row_draws(model, q, drawn, data, rng))
        for name, part in {**drawn, **{name: np.exp(point.value) for name, point in q.items()}}.items():
            found.setdefault(name, []).append(part)
    axes = twin._axes_of_model(model)
    variables = {name: Variable(np.array(part), axes.get(name, {})) for name, part in found.items()}
    return twin, twin._with_density(PosteriorDraws(n, variables, rows=tables), model)


def drawn_from_prior(estimator: Any, X: Any, n: int, rng: Any, offset: Any = None) -> tuple[PosteriorDraws, Array]:
    """Draws of the parameters from their prior, and of y at the rows of X, (n, n_rows), or of rows, (n, n_rows, D)."""
    twin, draws = estimator._prior_draws(X, n, rng, offset)
    if draws.rows is not None:
        return draws, np.stack([np.asarray(rows) for rows in draws.rows])
    return draws, shown_targets(twin, drawn_targets(twin, draws, n_rows(X), rng))


def drawn_targets(twin: Any, draws: PosteriorDraws, n_rows: int, rng: Any) -> Array:
    """One y of each row at every draw, (S, n), as the likelihood has it; of a binomial target one trial."""
    paired = draws.nodes[0].likelihood.traits.paired
    return draws_of_y(twin, draws, None, n_rows, None, rng, np.ones(n_rows, int) if paired else None)


def shown_targets(twin: Any, values: Array) -> Array:
    """Targets as a fit takes them: labels, levels, numbers."""
    if is_classifier(twin):
        return np.asarray(twin.classes_)[values.astype(int)]
    likelihood = twin.likelihood_
    if likelihood.traits.ordered and hasattr(twin, "levels_") and are_numbers(twin.levels_):
        return np.asarray(twin.levels_)[values.astype(int)]
    return values
