"""Compiled local step of the correlated topic model: Newton steps of a document's mean, covariance by its fixed point.

A document's state is its mean and the diagonal of C, where the next visit starts.
"""

from __future__ import annotations

import numpy as np

from sksvi.models.topics.loops.algebra import (
    compiled,
    inverse_root,
    load_square,
    newton_factor,
    project,
    solve,
    store_square,
)
from sksvi.models.topics.loops.bound import curvature, look, opened, pull_of, workspace

Array = np.ndarray

#: Longest Newton step of a coordinate (log odds), and halvings before a step is given up.
REACH, HALVINGS = 4.0, 12
#: Steps that one Hessian serves.
HELD = 3


@compiled
def settle_mean(
    bound: int,
    document: tuple,
    prior: tuple,
    steps: int,
    tol: float,
    mean: Array,
    root: Array,
    work: tuple,
    buffers: tuple,
) -> float:
    """Newton steps of the mean at a fixed covariance; one that lowers the bound is halved. Returns the gain, nats."""
    negative, safe, summed, factor = buffers
    p = len(mean)
    if p == 0:
        return 0.0
    yes = p > 0  # a constant would make the compiler write another version of `curvature`
    new, step, pull = mean.copy(), np.zeros(p), np.zeros(p)
    first = best = -np.inf
    rate, halvings, age = 1.0, 0, HELD
    for t in range(steps + HALVINGS):
        value, slope = look(bound, document, new, root, work)
        value -= pull_of(new, prior, pull)
        if t > 0 and not value >= best - 1e-12 * abs(best):
            halvings += 1
            if halvings > HALVINGS:
                break
            age, rate = HELD, 0.5 * rate
            for k in range(p):
                new[k] = mean[k] + rate * step[k]
            continue
        gain, best = value - best, value
        if t == 0:
            first = value
        for k in range(p):
            mean[k] = new[k]
        if t >= steps or (t > 0 and gain < tol):
            break
        if age == HELD:
            curvature(bound, document, not yes, yes, not yes, work, negative, safe)
            newton_factor(prior[1], negative, safe, summed, factor)
            age = 0
        age += 1
        longest = 0.0
        for k in range(p):
            step[k] = slope[k] - pull[k]
        solve(factor, step)
        for k in range(p):
            longest = max(longest, abs(step[k]))
        rate = min(1.0, REACH / max(longest, 1e-300))
        for k in range(p):
            new[k] = mean[k] + rate * step[k]
    return best - first


@compiled
def settle_root(
    bound: int, document: tuple, prior: tuple, full: bool, mean: Array, root: Array, work: tuple, buffers: tuple
) -> int:
    """Covariance from its fixed point S⁻¹ = Σ⁻¹ + Π₊(-E[Hessian]); returns repairs."""
    negative, safe, _, factor = buffers
    look(bound, document, mean, root, work)
    yes = len(document[2]) > 0
    curvature(bound, document, yes, not yes, not full, work, negative, safe)
    repairs = project(negative, full, factor)
    inverse_root(prior[1], negative, full, factor, root)
    return repairs


@compiled
def newton_documents(
    corpus: tuple,
    topics: Array,
    prior: tuple,
    nodes: Array,
    first_node: Array,
    bound: int,
    full: bool,
    effort: tuple,
    state: Array,
    roots: Array,
) -> int:
    """q(η) of every document of a block by rounds of mean and covariance: `state` (n, 2P) moves, `roots` are filled.

    `effort`: rounds, steps of the mean in a round, gain (nats) that ends a round, and all of them. Returns repairs.
    """
    rounds, steps, tol = effort
    p = topics.shape[1] - 1
    buffers = (np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)))
    repairs = 0
    for i in range(len(state)):
        _, document = opened(corpus, i, topics, nodes[first_node[i]])
        work, mean, root = workspace(document), state[i, :p], roots[i]
        load_square(state[i, p:], False, root)
        for t in range(rounds):
            gain = settle_mean(bound, document, prior, steps, tol, mean, root, work, buffers)
            if t > 0 and gain < tol:
                break
            repairs += settle_root(bound, document, prior, full, mean, root, work, buffers)
        store_square(root, False, state[i, p:])
    return repairs
