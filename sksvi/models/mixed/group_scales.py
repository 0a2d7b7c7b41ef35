"""The posterior of the groups' standard deviations: a point estimate of a variance is not its posterior.

A fit leaves messages about the weights: what the data said, a Gaussian factor t(w). For log standard deviations h the
evidence of the prior times the messages, Z(h) = ∫ p(w | h) t(w) dw, is a determinant and a quadratic form, exact for a
Gaussian likelihood and first-order exact about the fitted h otherwise. q(h) ∝ Z(h) p(h) is integrated by Gauss-Hermite
nodes about its mode, weighted by what Z p is there. Where messages change with h (labels, counts) they make q(h) too
narrow: there a few more passes give the bound at its best q(w), below and above the mode along each axis, and q(h) is
the product of normals with those two scales.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from sksvi.families import NotPositiveDefinite, Point
from sksvi.inference.state import joined, message
from sksvi.integrals.quadrature import hermite

Array = np.ndarray

#: Step of the finite differences that give the curvature at the mode, in log standard deviations.
STEP = 0.05
#: Where the bound is looked at, in standard deviations as the messages have them; the widest scale believed.
REACH, WIDEST = 1.5, 4.0
#: Most passes to settle q(w) at other scales, and the change in nats at which it has settled.
SETTLING_PASSES, SETTLED = 50, 0.3
#: Nodes per standard deviation for one and for up to three of them; beyond three, nodes on the axes alone.
NODES = {1: 9, 2: 5, 3: 3}


@dataclass(frozen=True)
class LogScales:
    """Nodes (k, P) of log standard deviations and their weights (k,): a discrete stand-in for q(h)."""

    nodes: Array
    weights: Array

    @property
    def mean(self) -> Array:
        """E s, (P,)."""
        return self.weights @ np.exp(self.nodes)

    @property
    def mean_square(self) -> Array:
        """E s², (P,): the variance of a level that no row has named."""
        return self.weights @ np.exp(2.0 * self.nodes)

    @property
    def std(self) -> Array:
        """Standard deviation of s, (P,)."""
        return np.sqrt(np.maximum(self.mean_square - np.square(self.mean), 0.0))

    def table(self, names: list[str], coverage: float) -> Any:
        """Mean, std and an interval from a log-normal of the same moments of log s."""
        import pandas as pd
        from scipy.special import ndtri

        centre = self.weights @ self.nodes
        half = ndtri(0.5 + coverage / 2) * np.sqrt(self.weights @ np.square(self.nodes - centre))
        columns = {"mean": self.mean, "std": self.std, "lower": np.exp(centre - half), "upper": np.exp(centre + half)}
        return pd.DataFrame(columns, index=names)


def settled_bound(problem: Any, state: Any) -> Callable[[Array], float]:
    """h to the bound at its best q(w): a few passes over the data from where the fit ended."""
    from sksvi.algorithms import MCSSVI
    from sksvi.inference import engine

    model = problem.model
    blocks = {name: block.precise() if hasattr(block, "precise") else block for name, block in state.q.items()}
    said = message(blocks[model.block], model.prior(state.q)[model.block])
    points = frozenset(name for name, block in blocks.items() if block.kind == "point")
    still = replace(problem, algorithm=MCSSVI(), expect=problem.exact, batch_size=None, frozen=points)
    tol = SETTLED / (abs(state.bound) + 1)

    def bound(h: Array) -> float:
        q = {**blocks, "group_std": Point(h)}
        try:
            q[model.block] = joined(model.prior(q)[model.block], said)
        except NotPositiveDefinite:  # messages of a fit that has not settled: from where it ended
            q[model.block] = blocks[model.block]
        settled = engine.settle(still, replace(state, q=q, memory={}), SETTLING_PASSES, tol).previous
        assert settled is not None
        return settled.bound

    return bound


def split_scales(settled: Callable[[Array], float], mode: Array, axes: Array) -> Array:
    """Scales (2, P) of a normal density below and above the mode along each axis, from its height at `REACH`."""
    peak = settled(mode)
    drop = np.array([[peak - settled(mode + side * REACH * axis) for axis in axes.T] for side in (-1.0, 1.0)])
    # Where the bound hardly falls (a scale that may be zero) the tail is cut at `WIDEST` standard deviations.
    return REACH / np.sqrt(2.0 * np.maximum(drop, 0.5 * (REACH / WIDEST) ** 2))


def log_scales(model: Any, q: dict[str, Any], settled: Callable[[Array], float] | None = None) -> LogScales:
    """q(h) of the point block "group_std" of a fit.

    Parameters
    ----------
    model : MixedModel
    q : dict
        The fitted blocks.
    settled : callable, optional
        h to the bound at its best q(w), where the messages are not exact: see `settled_bound`.

    Returns
    -------
    LogScales
    """
    name, mode = model.block, q["group_std"].value
    block = q[name].precise() if hasattr(q[name], "precise") else q[name]
    said = message(block, model.prior(q)[name])

    def log_density(h: Array) -> float:
        here = {**q, "group_std": Point(h)}
        prior = model.prior(here)[name]
        try:
            post = joined(prior, said)
            inner = float(post.mean @ post.dot(post.mean))
        except NotPositiveDefinite:  # messages of a fit that has not settled, under a prior too flat for them
            return -np.inf
        return 0.5 * (post.log_det_cov() + prior.log_det_precision() + inner) + model.log_hyperprior(here)

    size = len(mode)
    peak, curvature = log_density(mode), np.empty((size, size))
    steps = STEP * np.eye(size)
    for a in range(size):
        for b in range(a + 1):
            corners = [log_density(mode + s * steps[a] + t * steps[b]) for s, t in product((1, -1), repeat=2)]
            second = (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * STEP**2)
            if a == b:
                second = (corners[0] - 2 * peak + corners[3]) / (4 * STEP**2)
            curvature[a, b] = curvature[b, a] = -second
    if not np.all(np.isfinite(curvature)):
        curvature = np.diag(model.group_slope(q)[1])
    values, vectors = np.linalg.eigh(curvature)
    axes = vectors / np.sqrt(np.maximum(values, 1.0))
    z, weight = _rule(size)
    if settled is not None:
        reach = split_scales(settled, mode, axes)
        z_reach = np.where(z > 0, reach[1], reach[0])
        weight = weight * np.prod(np.where(z == 0, 1.0, 2.0 * z_reach / reach.sum(0)), axis=1)
        return LogScales(mode + (z * z_reach) @ axes.T, weight / weight.sum())
    nodes = mode + z @ axes.T
    if size not in NODES:
        return LogScales(nodes, weight)
    heights = np.array([log_density(h) for h in nodes]) - peak + 0.5 * np.square(z).sum(1)
    weight = weight * np.exp(heights - heights.max())
    return LogScales(nodes, weight / weight.sum())


def _rule(size: int) -> tuple[Array, Array]:
    """Standard normal nodes (k, size) and weights: a product rule, or the axes' rule of degree three."""
    if size in NODES:
        z, w = hermite(NODES[size])
        return np.array(list(product(z, repeat=size))), np.prod(list(product(w, repeat=size)), axis=1)
    z = np.sqrt(size) * np.concatenate([np.eye(size), -np.eye(size)])
    return z, np.full(2 * size, 0.5 / size)
