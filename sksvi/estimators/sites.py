"""A fit as messages of its rows about Gaussian latents: what it takes to leave rows out without a fit anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.estimators.posterior import check_bound
from sksvi.inference.engine import evaluate, prepare, whole
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.models.base import Blocks

Array = np.ndarray

#: Step of differences in an unconstrained parameter of a likelihood.
STEP = 1e-4
#: Share of a direction's variance, given all else, below which nodes leave the likelihood's parameters a point there.
SPREAD = 0.5


@dataclass(frozen=True)
class SiteNode:
    """The latents of the rows under one node of the hyperparameters.

    Parameters
    ----------
    weight : float
    likelihood : Likelihood
    share : float
        What a change of a row's message weighs there, over what it weighs in the fit.
    linear, precision : ndarray of shape (n, K), (n, K, K)
        b and Γ of the message exp(bᵀf - ½ fᵀΓf) of one copy of each row.
    mean : ndarray of shape (n, K)
        Of f, offset included.
    half : callable
        Rows (m,) to H (m, K, r) with H_i H_jᵀ the covariance of the latents of rows i and j.
    cov : ndarray of shape (n, K, K)
        H_i H_iᵀ of every row.
    beyond : ndarray of shape (n,) or float
        Variance that a row's latent has besides.
    """

    weight: float
    likelihood: Any
    share: float
    linear: Array
    precision: Array
    mean: Array
    half: Callable[[Array], Array]
    cov: Array
    beyond: Array | float = 0.0


@dataclass(frozen=True)
class LearnedPoint:
    """Parameters θ of the likelihood that a fit learned: what rows say of them, of one copy each.

    Parameters
    ----------
    projection : ndarray of shape (P, P)
        From a move to its part in directions in which nodes leave θ at its best point.
    slope : ndarray of shape (n, P)
        Of E log p(y | f) in θ.
    cross : ndarray of shape (n, K, P)
        Of its slope in the mean of f.
    bend : ndarray of shape (n, P, P)
        Second derivative of E log p(y | f) in θ.
    curvature : ndarray of shape (P, P)
        Minus that of the bound, all else as it is.
    """

    projection: Array
    slope: Array
    cross: Array
    bend: Array
    curvature: Array


@dataclass(frozen=True)
class SiteFit:
    """A fit with its rows: latents and messages of these under the nodes of the hyperparameters.

    Parameters
    ----------
    y : ndarray of shape (n, ...)
        Targets as the likelihood has them.
    weight : ndarray of shape (n,)
        How often a row counts.
    mode : SiteNode
        Where messages are found anew.
    nodes : tuple of SiteNode
    terms : callable
        Rows (m,), means (m, K) and covariances (m, K, K) of their latents, and a node, to E log p(y | f), and its
        derivatives in both, of one copy: (m,), (m, K), (m, K, K).
    distribution : callable
        Means, covariances of latents and the likelihood to the predictive distribution of y.
    learned : LearnedPoint, optional
        Parameters of the likelihood, where it has some that were learned.
    place, copies : ndarray of shape (N,), optional
        Where the rows as users have them are among these, -1: they do not count; and how often each counts. None: they
        are the same.
    caution : str
        What leaving rows out does not tell of hyperparameters that were learned from them; empty: nothing is known.
    """

    y: Array
    weight: Array
    mode: SiteNode
    nodes: tuple[SiteNode, ...]
    terms: Callable[[Array, Array, Array, SiteNode], tuple[Array, Array, Array]]
    distribution: Callable[[Array, Array, Any], Any]
    learned: LearnedPoint | None = None
    place: Array | None = None
    copies: Array | None = None
    caution: str = ""

    def expected(self, node: SiteNode, rows: Array) -> Array:
        """E log p(y | f) of one copy of rows at a node, (m,)."""
        return np.asarray(self.terms(rows, node.mean[rows], node.cov[rows], node)[0])

    def predictive(self, node: SiteNode, mean: Array, cov: Array, rows: Any, likelihood: Any = None) -> Any:
        """Distribution of y of some rows, for latents (m, K), (m, K, K) without what they have besides.

        `likelihood`: in the place of the node's.
        """
        beyond = np.broadcast_to(node.beyond, len(self.y))[rows]
        total = cov + beyond[:, None, None] * np.eye(mean.shape[1])
        one = mean.shape[1] == 1
        likelihood = node.likelihood if likelihood is None else likelihood
        return self.distribution(mean[:, 0] if one else mean, total[:, 0, 0] if one else total, likelihood)


@dataclass(frozen=True)
class NodePrior:
    """What a node has of its own.

    weight, likelihood, share: as of `SiteNode`. prior: of the main block. block: the main block, where it follows the
    likelihood, at which rows have messages of their own; None: they are those of the fit.
    """

    weight: float
    likelihood: Any
    share: float
    prior: Any
    block: Any = None


def linear_sites(
    problem: Problem, q: Blocks, nodes: list[NodePrior], bound: float | None, distribution: Any
) -> SiteFit:
    """Messages of a model whose latents are linear in one Gaussian block.

    Its posterior at a node is the prior there times the messages, so that each can be taken out again.

    Parameters
    ----------
    problem : Problem
    q : dict
        Blocks of the fit.
    nodes : list of NodePrior
        Of the hyperparameters; none: they are a point.
    bound : float or None
        That the fit ended at, nats; a warning where it is another one at these rows.
    distribution : callable
        As of `SiteFit`.
    """
    prepare(q)
    there = problem.for_bound
    model: Any = there.model
    data: Any = there.data
    gradient, value = evaluate(there, State(q, 0), whole(there))
    prior, likelihood, block = model.prior(q), model.current_likelihood(q), q[model.main]
    check_bound(bound, value - sum(q[name].kl(prior[name]) for name in prior))
    batches = [model.batch(data, rows) for rows in model.chunks(slice(0, len(data)), data)]
    linear, precision = row_messages(model, q, batches, there)
    block = block if block.natural_coordinates else block.natural_form()
    message = block.message_from_gradient(gradient[model.main])

    def node(own: NodePrior) -> SiteNode:
        rows, total = (own.share * linear, own.share * precision), message.faded(own.share)
        if own.block is not None:
            at = {**q, "likelihood": q["likelihood"].at(own.likelihood.unconstrained), model.main: own.block}
            rows = row_messages(model, at, batches, there)
            total = own.block.message_from_gradient(evaluate(there, State(at, 0), whole(there))[0][model.main])
        moments = latents(model, data, batches, own.prior.times(total))
        return SiteNode(own.weight, own.likelihood, own.share, rows[0], rows[1], *moments)

    mode = node(NodePrior(1.0, likelihood, 1.0, prior[model.main]))
    found = tuple(node(own) for own in nodes) or (mode,)
    weight = np.ones(len(data)) if data.weight is None else np.asarray(data.weight, float)
    terms, learned = row_terms(model, q, there), None
    if "likelihood" in q and "likelihood" not in there.frozen:
        parts = [model.terms(q, batch, there.expect, None).points["likelihood"] for batch in batches]
        each = np.where(weight > 0, weight, 1.0)
        slope, bend = (np.concatenate(part) for part in zip(*parts, strict=True))
        learned = learned_point(mode, found, terms, (slope / each[:, None], bend / each[:, None, None]), weight)
    return SiteFit(data.y, weight, mode, found, terms, distribution, learned)


def learned_point(
    mode: SiteNode, nodes: Sequence[SiteNode], terms: Any, points: tuple[Array, Array], weight: Array
) -> LearnedPoint:
    """What rows say of the likelihood's parameters, by differences across its slopes in f.

    `points`: first and second derivatives of E log p(y | f) in the parameters, of one copy of each row.
    """
    slope, bend = points
    likelihood, rows, cross = mode.likelihood, np.arange(len(slope)), []
    theta, density = likelihood.unconstrained, likelihood.scales.prior()
    curvature = -np.tensordot(weight, bend, 1) - (0.0 if density is None else density[2])
    # Nodes of other hyperparameters have the likelihood that is best there, which is no spread of its own.
    moves = np.array([np.sqrt(node.weight) * (node.likelihood.unconstrained - theta) for node in nodes])
    shares, across = np.linalg.eigh(moves @ curvature @ moves.T)
    axes, shares = moves.T @ across[:, shares >= SPREAD], shares[shares >= SPREAD]
    projection = np.eye(len(theta)) - (axes / shares) @ (axes.T @ curvature)
    for step in STEP * np.eye(len(theta)):
        ends = [replace(mode, likelihood=likelihood.replace(theta + sign * step)) for sign in (1.0, -1.0)]
        high, low = (terms(rows, mode.mean, mode.cov, end)[1] for end in ends)
        cross.append((high - low) / (2.0 * STEP))
    return LearnedPoint(projection, slope, np.stack(cross, axis=-1), bend, curvature)


def row_messages(model: Any, q: Blocks, batches: list[Any], problem: Problem) -> tuple[Array, Array]:
    """Linear (n, K) and quadratic part (n, K, K) of the message of one copy of each row, about f with its offset."""
    found = list(parallel.in_order(lambda batch: model.terms(q, batch, problem.expect, None), batches, problem.threads))
    means = np.concatenate([columns(b.data.on(part.linear)) for b, part in zip(batches, found, strict=True)])
    alpha, gamma = (np.concatenate([getattr(part, name) for part in found]) for name in ("alpha", "gamma"))
    weight: Any = problem.data.weight  # type: ignore[attr-defined]
    each = 1.0 if weight is None else np.where(weight > 0, weight, 1.0)[:, None, None]
    gamma = gamma if gamma.ndim == 3 else columns(gamma)[:, :, None] * np.eye(means.shape[1])
    precision = -2.0 * gamma / each
    slope = (columns(alpha)[..., None] / each)[..., 0]
    return slope + np.einsum("nkl,nl->nk", precision, means), precision


def row_terms(model: Any, q: Blocks, problem: Problem) -> Any:
    """The function that `SiteFit.terms` is, of a model that is linear in one block."""
    y: Any = problem.data.y  # type: ignore[attr-defined]  # a table

    def terms(rows: Array, m: Array, v: Array, node: SiteNode) -> tuple[Array, Array, Array]:
        mean, cov = (m[:, 0], v[:, 0, 0]) if m.shape[1] == 1 else (m, v)
        here = model.expected(q, node.likelihood, y[rows], mean, cov, problem.expect, None)
        bend = here.gamma if here.gamma.ndim == 3 else here.gamma[:, None, None]
        return here.value, columns(here.alpha), bend

    return terms


def columns(values: Array) -> Array:
    """Numbers of rows as (n, K)."""
    return values[:, None] if values.ndim == 1 else values


def latents(model: Any, data: Any, batches: list[Any], block: Any) -> tuple[Array, Any, Array]:
    """Mean, half and covariance of the latents of all rows under a block, as of `SiteNode`."""
    k = model.likelihood.n_latents
    block.prepare()
    parts = [model._project(batch.rows, block) for batch in batches]
    mean, cov = (np.concatenate(part) for part in zip(*parts, strict=True))

    def half(rows: Array) -> Array:
        A = model.batch(data, rows).rows.dense().astype(float, copy=False)
        width = A.shape[1]
        spread = np.zeros((len(A), k, k, width))
        spread[:, np.arange(k), np.arange(k)] = A[:, None]
        return np.asarray(block.uncoloured(spread.reshape(len(A) * k, k * width))).reshape(len(A), k, -1)

    return columns(data.on(mean)), half, cov[:, None, None] if cov.ndim == 1 else cov
