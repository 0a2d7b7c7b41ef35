"""Compiled local step of the correlated topic model: Newton steps of a document's mean, covariance by its fixed point.

A document's state is its mean and the diagonal of C, where the next visit starts.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.algorithms.loops import halved
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
from sksvi.models.topics.loops.records import DOCUMENTS, Corpus, Curvature, Document, Effort, LogOddsPopulation, Work

Array = np.ndarray

#: Longest Newton step of a coordinate (log odds), and halvings before a step is given up.
REACH, HALVINGS = 4.0, 12
#: Steps that one Hessian serves.
HELD = 3


@compiled
def settle_mean(
    bound: int,
    document: Document,
    prior: LogOddsPopulation,
    effort: Effort,
    mean: Array,
    root: Array,
    work: Work,
    curved: Curvature,
) -> float:
    """Newton steps of the mean at a fixed covariance; one that lowers the bound is halved. Returns the gain, nats."""
    p = len(mean)
    if p == 0:
        return 0.0
    yes = p > 0  # a constant would make the compiler write another version of `curvature`
    new, step, pull = mean.copy(), np.zeros(p), np.zeros(p)
    first = best = -np.inf
    rate, halvings, age = 1.0, 0, HELD
    for t in range(effort.steps + HALVINGS):
        value, slope = look(bound, document, new, root, work)
        value -= pull_of(new, prior, pull)
        if t > 0 and not value >= best - 1e-12 * abs(best):
            age, rate = HELD, halved(rate, halvings, HALVINGS)
            halvings += 1
            if rate == 0.0:
                break
            for k in range(p):
                new[k] = mean[k] + rate * step[k]
            continue
        gain, best = value - best, value
        if t == 0:
            first = value
        for k in range(p):
            mean[k] = new[k]
        if t >= effort.steps or (t > 0 and gain < effort.tol):
            break
        if age == HELD:
            curvature(bound, document, not yes, yes, not yes, work, curved.negative, curved.safe)
            newton_factor(prior.precision, curved.negative, curved.safe, curved.summed, curved.factor)
            age = 0
        age += 1
        longest = 0.0
        for k in range(p):
            step[k] = slope[k] - pull[k]
        solve(curved.factor, step)
        for k in range(p):
            longest = max(longest, abs(step[k]))
        rate = min(1.0, REACH / max(longest, 1e-300))
        for k in range(p):
            new[k] = mean[k] + rate * step[k]
    return best - first


@compiled
def settle_root(
    bound: int,
    document: Document,
    prior: LogOddsPopulation,
    full: bool,
    mean: Array,
    root: Array,
    work: Work,
    curved: Curvature,
) -> int:
    """Covariance from its fixed point S⁻¹ = Σ⁻¹ + Π₊(-E[Hessian]); returns repairs."""
    look(bound, document, mean, root, work)
    yes = len(document.nodes) > 0
    curvature(bound, document, yes, not yes, not full, work, curved.negative, curved.safe)
    repairs = project(curved.negative, full, curved.factor)
    inverse_root(prior.precision, curved.negative, full, curved.factor, root)
    return repairs


@entry(
    *DOCUMENTS,
    "state (n, 2*P) f",
)
@compiled
def newton_documents(
    corpus: Corpus,
    topics: Array,
    prior: LogOddsPopulation,
    bound: int,
    full: bool,
    effort: Effort,
    state: Array,
    roots: Array,
) -> int:
    """q(η) of every document of a block by rounds of mean and covariance: `state` (n, 2P) moves, `roots` are filled.

    Returns repairs.
    """
    p = topics.shape[1] - 1
    curved = Curvature(np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)))
    repairs = 0
    for i in range(len(state)):
        document = opened(corpus, i, topics)
        work, mean, root = workspace(document), state[i, :p], roots[i]
        load_square(state[i, p:], False, root)
        for t in range(effort.rounds):
            gain = settle_mean(bound, document, prior, effort, mean, root, work, curved)
            if t > 0 and gain < effort.tol:
                break
            repairs += settle_root(bound, document, prior, full, mean, root, work, curved)
        store_square(root, False, state[i, p:])
    return repairs
