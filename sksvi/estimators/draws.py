"""Draws of everything that a fit leaves a posterior of, together, under the names of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from sksvi.integrals.nodes import Nodes

Array = np.ndarray

#: Share of the variance of hyperparameters that is between their nodes; the rest is normal about each of them, so that
#: draws have the moments of the nodes and no gaps.
BETWEEN = 0.5


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
    """

    n: int
    variables: dict[str, Variable]
    nodes: list[NodeDraws] = field(default_factory=list)
    log_density: Callable[[Any], Array] | None = None


# ---- which node a draw is of
def split(weights: Array, n: int, rng: Any) -> tuple[Array, list[Array]]:
    """The node of each of n draws, and the draws of each node."""
    which = rng.choice(len(weights), n, p=np.asarray(weights) / np.sum(weights))
    return which, [np.flatnonzero(which == k) for k in range(len(weights))]


def in_draw_order(parts: list[Array], at: list[Array]) -> Array:
    """Draws of nodes, (s_k, ...) each, in the order of all draws."""
    order = np.argsort(np.concatenate(at), kind="stable")
    return np.concatenate(parts)[order]


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
    f, left = f.reshape(len(f) * s, *f.shape[2:]), np.repeat(left, s)
    if not getattr(estimator, "noise_scale_", 0.0) and not np.any(left):
        return f, None, s
    several = left[:, None, None] * np.eye(f.shape[1]) if f.ndim == 2 else left
    return f, estimator._distribution(f, several, node.likelihood), s


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
