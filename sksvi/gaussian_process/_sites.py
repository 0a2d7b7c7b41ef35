"""Gaussian processes as messages of their rows under every node of the hyperparameters."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from sksvi.estimators.posterior import check_bound
from sksvi.estimators.sites import SiteFit, SiteNode, columns, learned_point
from sksvi.estimators.working import check_densities
from sksvi.inference.engine import evaluate, prepare, whole
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.models.gp.bounds import BOUNDS, Geometry
from sksvi.models.linear.latents import as_matrices, moments
from sksvi.models.linear.rows import DenseRows
from sksvi.predictive import Predictive

Array = np.ndarray


def sparse_sites(estimator: Any, problem: Problem, bound: float | None) -> SiteFit:
    """A sparse process: f = h'v and what the inducing points leave open, at each node its own h.

    Parameters
    ----------
    estimator : SparseGP
    problem : Problem
        With the rows of the fit.
    bound : float or None
        That the fit ended at.

    Raises
    ------
    TypeError
        Where the likelihood is no model of y, q has no covariance of all inducing values, or the bound is no sum over
        rows.
    """
    check_densities(estimator)
    if estimator.covariance == "diag" or estimator.bound in ("optimal", "v2"):
        found = "covariance='diag'" if estimator.covariance == "diag" else f"bound={estimator.bound!r}"
        raise TypeError(f"{found} leaves no message of single rows, of which one could be taken out: use kfold.")
    if estimator.bound == "v1" and estimator.optimize_inducing:
        raise TypeError(
            "bound='v1' with learned inducing points puts these where they explain single rows, which a fit without "
            "the row would not: use kfold, or optimize_inducing=False."
        )
    data: Any = problem.data
    terms_of = BOUNDS[estimator.bound]
    _check(problem, estimator.state_.shown, bound)
    weight = np.ones(len(data)) if data.weight is None else np.asarray(data.weight, float)
    k = estimator.likelihood_.n_latents

    def terms(rows: Array, m: Array, v: Array, node: SiteNode) -> tuple[Array, Array, Array]:
        mean, cov = (m[:, 0], v[:, 0, 0]) if k == 1 else (m, v)
        here = terms_of(node.likelihood, data.y[rows], mean, cov, node.beyond[rows], problem.exact, None)  # type: ignore[index]
        return here.value, columns(here.alpha), here.gamma if k > 1 else here.gamma[:, None, None]

    nodes = []
    for part in estimator._process.parts:
        _, H, d = Geometry(part.kernel, estimator._process.points).rows(data.X)
        mean, cov = moments(DenseRows.of(H), part.block, k)
        offset = 0.0 if data.offset is None else data.offset[:, None]
        mean, cov = columns(mean) + offset, as_matrices(cov) if k > 1 else cov[:, None, None]
        node = SiteNode(part.weight, part.likelihood, 1.0, mean, cov, mean, lambda rows: rows, cov, d)
        _, alpha, gamma = terms(np.arange(len(data)), mean, cov, node)
        linear = alpha - 2.0 * np.einsum("nkl,nl->nk", gamma, mean)
        nodes.append(_settled(replace(node, linear=linear, precision=-2.0 * gamma), H, weight, offset))
    mode, learned = replace(nodes[0], weight=1.0), None
    if "likelihood" in estimator.state_.q and "likelihood" not in problem.frozen:
        mean, cov = (mode.mean[:, 0], mode.cov[:, 0, 0]) if k == 1 else (mode.mean, mode.cov)
        here = terms_of(mode.likelihood, data.y, mean, cov, mode.beyond, problem.exact, None)
        learned = learned_point(mode, nodes, terms, here.points["likelihood"], weight)
    return SiteFit(data.y, weight, mode, tuple(nodes), terms, _distribution, learned)


def _settled(node: SiteNode, H: Array, weight: Array, offset: Any) -> SiteNode:
    """The node with the block N(0, I) times its messages."""
    (n, k), M = node.mean.shape, H.shape[1]
    each = np.zeros((n, k, k, M))
    each[:, np.arange(k), np.arange(k)] = H[:, None]
    U = each.reshape(n, k, k * M)
    bent = np.einsum("nkl,nlr->nkr", weight[:, None, None] * node.precision, U).reshape(n * k, -1)
    flat = U.reshape(n * k, -1)
    covariance = np.linalg.inv(np.eye(k * M) + flat.T @ bent)
    half = U @ np.linalg.cholesky(0.5 * (covariance + covariance.T))
    pull = node.linear - np.einsum("nkl,nl->nk", node.precision, np.broadcast_to(offset, (n, k)))
    mean = (flat @ (covariance @ (flat.T @ (weight[:, None] * pull).ravel()))).reshape(n, k) + offset
    return replace(node, mean=mean, half=lambda rows: half[rows], cov=np.einsum("nkr,nlr->nkl", half, half))


def full_sites(estimator: Any, problem: Problem, bound: float | None, n_rows: int, copies: Array | None) -> SiteFit:
    """A process with a message per row, which are those of q.

    Parameters
    ----------
    estimator : GPClassifier
    problem : Problem
        With the different rows of the fit.
    bound : float or None
        That the fit ended at.
    n_rows : int
        Of rows as they were given.
    copies : ndarray of shape (n_rows,) or None
        Their weights.
    """
    data: Any = problem.data
    _check(problem, estimator.state_.shown, bound)
    weight = np.ones(len(data)) if data.weight is None else np.asarray(data.weight, float)

    def terms(rows: Array, m: Array, v: Array, node: SiteNode) -> tuple[Array, Array, Array]:
        value, alpha, gamma = problem.exact(node.likelihood, data.y[rows], m[:, 0], v[:, 0, 0], None)
        return value, alpha[:, None], gamma[:, None, None]

    def node(part: Any) -> SiteNode:
        block = part.block
        offset = 0.0 if data.offset is None else data.offset
        mean, precision = block.mean + offset, block.weights / weight
        linear = block.dual / weight + precision * mean

        @cache
        def root() -> Array:
            values, vectors = np.linalg.eigh(block.cov)
            return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

        moments = linear[:, None], precision[:, None, None], mean[:, None]
        variance = block.variance[:, None, None]
        return SiteNode(part.weight, part.likelihood, 1.0, *moments, lambda rows: root()[rows][:, None], variance)

    nodes = tuple(node(part) for part in estimator._process.parts)
    mode, place, own = replace(nodes[0], weight=1.0), np.full(n_rows, -1), np.zeros(n_rows)
    place[data.counted], own[data.counted] = data.place, 1.0 if copies is None else copies[data.counted]
    return SiteFit(data.y, weight, mode, nodes, terms, _distribution, place=place, copies=own)


def _check(problem: Problem, q: Any, bound: float | None) -> None:
    """A warning where the bound at the rows is not the one that the fit ended at."""
    prepare(q)
    there, prior = problem.for_bound, problem.model.prior(q)
    _, value = evaluate(there, State(q, 0), whole(there), gradient_wanted=False)
    check_bound(bound, float(value - sum(q[name].kl(prior[name]) for name in prior)))


def _distribution(mean: Array, variance: Array, likelihood: Any) -> Predictive:
    """Predictive distribution of y."""
    return Predictive(likelihood, mean, variance)
