"""Compiled message passing within the documents of the correlated topic model (`algorithm="cvi"`)."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.algorithms.loops import halved
from sksvi.models.topics.loops.algebra import compiled, inverse_root, load_square, project, store_square
from sksvi.models.topics.loops.bound import MEAN_FIELD, curvature, local_value, look, opened, workspace
from sksvi.models.topics.loops.newton import HALVINGS
from sksvi.models.topics.loops.records import DOCUMENTS, Corpus, Curvature, Document, Effort, LogOddsPopulation, Work

Array = np.ndarray


@compiled
def message_target(
    bound: int, slope: Array, negative: Array, full: bool, mean: Array, work: Work, word_message: Array, target: Array
) -> None:
    """The words' message about η given their topics (`word_message`), the natural parameter of the rest (`target`)."""
    for k in range(len(mean)):
        word_message[k] = work.counted_at_mean[0, k] if bound == MEAN_FIELD else 0.0
        target[k] = slope[k] - word_message[k]
        for j in range(len(mean)):
            if full or j == k:
                target[k] += negative[k, j] * mean[j]


@compiled
def message_mean(prior: LogOddsPopulation, full: bool, linear: Array, mean: Array, root: Array, out: Array) -> None:
    """Mean of the product of N(μ, Σ) and messages; a diagonal q takes the other coordinates at their means."""
    precision = prior.precision
    p = len(mean)
    pull = np.dot(precision, prior.location) + linear
    if not full:
        pull -= np.dot(precision, mean)
        for k in range(p):
            pull[k] += precision[k, k] * mean[k]
    out[:] = np.dot(root.T, np.dot(root, pull))


@compiled
def message_steps(
    bound: int,
    document: Document,
    prior: LogOddsPopulation,
    full: bool,
    effort: Effort,
    mean: Array,
    root: Array,
    site: Array,
    site_precision: Array,
    work: Work,
    curved: Curvature,
) -> int:
    """Message passing: the site of the softmax term (other bounds: of the whole term) by natural steps of rate 1.

    Words of the mean-field bound answer in closed form. A step that lowers the bound is halved. Returns repairs.
    """
    negative, factor = curved.negative, curved.factor
    p, repairs, rate = len(mean), 0, 1.0
    word_message, target = np.zeros(p), np.zeros(p)
    inverse_root(prior.precision, site_precision, full, factor, root)
    value, slope = look(bound, document, mean, root, work)
    best = local_value(value, mean, root, full, prior)
    new, new_root, new_site, new_precision = mean.copy(), root.copy(), site.copy(), site_precision.copy()
    yes = len(document.nodes) > 0
    for _ in range(effort.steps if p else 0):
        curvature(bound, document, yes, not yes, not full, work, negative, curved.safe)
        repairs += project(negative, full, factor)
        message_target(bound, slope, negative, full, mean, work, word_message, target)
        gain = -1.0
        for halvings in range(HALVINGS):
            for k in range(p):
                new_site[k] = (1.0 - rate) * site[k] + rate * target[k]
                for j in range(p):
                    new_precision[k, j] = (1.0 - rate) * site_precision[k, j] + rate * negative[k, j]
            inverse_root(prior.precision, new_precision, full, factor, new_root)
            message_mean(prior, full, word_message + new_site, mean, new_root, new)
            value, slope = look(bound, document, new, new_root, work)
            gain = local_value(value, new, new_root, full, prior) - best
            if gain >= 0.0:
                break
            rate = halved(rate, halvings, HALVINGS)
        if not gain >= 0.0:
            break
        best += gain
        mean[:], root[:], site[:], site_precision[:] = new, new_root, new_site, new_precision
        if gain < effort.tol:
            break
        rate = min(1.0, 2.0 * rate)
    return repairs


@entry(
    *DOCUMENTS,
    "state (n, 2*P+P^) f",
)
@compiled
def message_documents(
    corpus: Corpus,
    topics: Array,
    prior: LogOddsPopulation,
    bound: int,
    full: bool,
    effort: Effort,
    state: Array,
    roots: Array,
) -> int:
    """q(η) of every document by messages; `state` holds mean, site, and the site's precision (or its diagonal)."""
    p = topics.shape[1] - 1
    curved = Curvature(np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)))
    precision = np.zeros((p, p))
    repairs = 0
    for i in range(len(state)):
        document = opened(corpus, i, topics)
        work, mean, site = workspace(document), state[i, :p], state[i, p : 2 * p]
        load_square(state[i, 2 * p :], full, precision)
        repairs += message_steps(bound, document, prior, full, effort, mean, roots[i], site, precision, work, curved)
        store_square(precision, full, state[i, 2 * p :])
    return repairs
