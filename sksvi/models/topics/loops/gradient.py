"""Compiled local steps of the correlated topic model by AdaGrad: h-mc-ssvi (the mean) and s-dsvi (mean and C)."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.models.topics.loops.algebra import compiled, load_square, store_square
from sksvi.models.topics.loops.bound import look, node_slopes, opened, pull_of, workspace
from sksvi.models.topics.loops.newton import settle_root
from sksvi.models.topics.loops.records import DOCUMENTS, Corpus, Curvature, Effort, LogOddsPopulation, Rates

Array = np.ndarray

#: The most that C changes in a step, as a share of its diagonal.
ROOT_SHARE = 0.5


@compiled
def mean_step(slope: Array, prior: LogOddsPopulation, rates: Rates, mean: Array, sums: Array) -> None:
    """AdaGrad on the mean."""
    pull = np.empty(len(mean))
    pull_of(mean, prior, pull)
    for k in range(len(mean)):
        ahead = slope[k] - pull[k]
        sums[k] += ahead**2
        mean[k] += rates.mean * ahead / np.sqrt(sums[k] + rates.epsilon)


@compiled
def root_step(
    slopes: Array, nodes: Array, prior: LogOddsPopulation, full: bool, rates: Rates, root: Array, sums: Array
) -> None:
    """AdaGrad on C by reparameterised gradients; `slopes` (S, P) at the nodes."""
    in_root = np.dot(nodes.T, slopes) / len(nodes) - np.dot(root, prior.precision)
    for j in range(len(root)):
        in_root[j, j] += 1.0 / root[j, j]
        for k in range(j + 1):
            if full or j == k:
                sums[j, k] += in_root[j, k] ** 2
                step = rates.root * in_root[j, k] / np.sqrt(sums[j, k] + rates.epsilon)
                limit = ROOT_SHARE * min(root[j, j], root[k, k])
                root[j, k] += min(max(step, -limit), limit)


@entry(
    *DOCUMENTS,
    "state (n, 3*P) f",
)
@compiled
def hybrid_documents(
    corpus: Corpus,
    topics: Array,
    prior: LogOddsPopulation,
    bound: int,
    full: bool,
    effort: Effort,
    state: Array,
    roots: Array,
) -> int:
    """As `newton_documents`, the mean by AdaGrad, whose sums `state` (n, 3P) holds between mean and diagonal."""
    p = topics.shape[1] - 1
    curved = Curvature(np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)))
    repairs = 0
    for i in range(len(state)):
        document = opened(corpus, i, topics)
        work, mean, root = workspace(document), state[i, :p], roots[i]
        load_square(state[i, 2 * p :], False, root)
        for _ in range(effort.rounds):
            for _ in range(effort.steps):
                _, slope = look(bound, document, mean, root, work)
                mean_step(slope, prior, effort.rates, mean, state[i, p : 2 * p])
            repairs += settle_root(bound, document, prior, full, mean, root, work, curved)
        store_square(root, False, state[i, 2 * p :])
    return repairs


@entry(
    *DOCUMENTS,
    "state (n, 2*P+2*P^) f",
)
@compiled
def standard_documents(
    corpus: Corpus,
    topics: Array,
    prior: LogOddsPopulation,
    bound: int,
    full: bool,
    effort: Effort,
    state: Array,
    roots: Array,
) -> int:
    """s-dsvi: AdaGrad on mean and C. `state` holds mean, its sums, C, its sums (of diagonal q their diagonals)."""
    p = topics.shape[1] - 1
    size = p * p if full else p
    sums = np.zeros((p, p))
    for i in range(len(state)):
        document = opened(corpus, i, topics)
        work, mean, root = workspace(document), state[i, :p], roots[i]
        slopes = np.empty((len(document.nodes), p))
        load_square(state[i, 2 * p : 2 * p + size], full, root)
        load_square(state[i, 2 * p + size :], full, sums)
        for _ in range(effort.steps):
            _, slope = look(bound, document, mean, root, work)
            node_slopes(bound, document, work, slopes)
            root_step(slopes, document.nodes, prior, full, effort.rates, root, sums)
            mean_step(slope, prior, effort.rates, mean, state[i, p : 2 * p])
        store_square(root, full, state[i, 2 * p : 2 * p + size])
        store_square(sums, full, state[i, 2 * p + size :])
    return 0
