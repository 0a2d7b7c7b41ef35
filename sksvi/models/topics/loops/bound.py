"""Compiled terms of a document in the correlated topic model's bounds, and their derivatives (doc/topics.md).

q(η) = N(m, CᵀC) over K - 1 coordinates, the last topic's is 0; expectations are means over η_s = m + Cᵀε_s. The
`prior` is N(μ, Σ); records are in `records`. Sums over documents are taken at the q(η) that a local step left.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.models.numbers import FLOAT, zeros
from sksvi.models.topics.loops.algebra import compiled, gathered, product, sum_of
from sksvi.models.topics.loops.records import DOCUMENTS, Corpus, Document, LogOddsPopulation, Sums, Work

Array = np.ndarray

OPTIMAL, SIMPLE, MEAN_FIELD = 0, 1, 2
#: Probabilities are multiplied before one logarithm is taken, while their product cannot underflow.
SMALLEST, SMALLEST_PRODUCT = 1e-70, 1e-200


@compiled
def opened(corpus: Corpus, i: int, topics: Array) -> Document:
    """Document i of a block, its rows of the topics (V, K) side by side."""
    begin, end = corpus.indptr[i], corpus.indptr[i + 1]
    words = corpus.words[begin:end]
    return Document(words, gathered(topics, words), corpus.counts[begin:end], corpus.nodes[corpus.node_set[i]])


@compiled
def workspace(document: Document) -> Work:
    """Arrays for `look`."""
    (W, K), S = document.topics.shape, len(document.nodes)
    theta, ratio, counted = np.empty((S, K), FLOAT), np.empty((W, S), FLOAT), np.empty((S, K), FLOAT)
    alone = np.empty((1, K), FLOAT), np.empty((W, 1), FLOAT), np.empty((1, K), FLOAT)
    return Work(theta, ratio, counted, *alone, np.empty((W, K), FLOAT))


@compiled
def softmax(mean: Array, root: Array, nodes: Array, theta: Array) -> float:
    """theta (S, K) at the nodes; returns the mean of log(1 + Σ exp η)."""
    S, p = nodes.shape
    shift, logs = np.empty((S, p), FLOAT), 0.0
    np.dot(nodes, root, shift)
    for s in range(S):
        largest = 0.0
        for k in range(p):
            theta[s, k] = mean[k] + shift[s, k]
            largest = max(largest, theta[s, k])
        theta[s, p] = 0.0
        mass = 0.0
        for k in range(p + 1):
            theta[s, k] = np.exp(theta[s, k] - largest)
            mass += theta[s, k]
        for k in range(p + 1):
            theta[s, k] /= mass
        logs += largest + np.log(mass)
    return logs / S


@compiled
def mixture(B: Array, counts: Array, theta: Array, ratio: Array, counted: Array) -> float:
    """Mean over nodes of Σ c log θᵀB; ratio (W, S) = c / θᵀB, counted (S, K) = Σ c r."""
    S, K = theta.shape
    np.dot(B, theta.T, ratio)
    value = 0.0
    for w in range(len(counts)):
        product = 1.0
        for s in range(S):
            here = ratio[w, s]
            ratio[w, s] = counts[w] / here
            if here < SMALLEST:
                value += counts[w] * np.log(here)
                continue
            product *= here
            if product < SMALLEST_PRODUCT:
                value += counts[w] * np.log(product)
                product = 1.0
        value += counts[w] * np.log(product)
    np.dot(ratio.T, B, counted)
    for s in range(S):
        for k in range(K):
            counted[s, k] *= theta[s, k]
    return value / S


@compiled
def pairs(B: Array, counts: Array, theta: Array, ratio: Array, each: bool, table: Array, out: Array) -> None:
    """out (P, P) += mean of Σ c r rᵀ over nodes; with each=False of the responsibilities' mean, one product in all."""
    S, K = theta.shape
    squares = np.empty((K, K), FLOAT)
    for s in range(S if each else 1):
        if not each:
            np.dot(ratio, theta, table)
        for w in range(len(counts)):
            row, scale = table[w], 1.0 / np.sqrt(counts[w] * S) if each else 1.0 / (np.sqrt(counts[w]) * S)
            for k in range(K):
                row[k] = (ratio[w, s] * theta[s, k] if each else row[k]) * (scale * B[w, k])
        np.dot(table.T, table, squares)
        for j in range(K - 1):
            for k in range(K - 1):
                out[j, k] += squares[j, k]


@compiled
def add_squares(B: Array, counts: Array, theta: Array, ratio: Array, out: Array) -> None:
    """Diagonal of out (P, P) += mean of Σ c r² over nodes, the diagonal of `pairs`."""
    S, K = theta.shape
    sums = zeros(K)
    for w in range(len(counts)):
        for s in range(S):
            scale = ratio[w, s] * ratio[w, s] / (counts[w] * S)
            for k in range(K):
                sums[k] += scale * (theta[s, k] * B[w, k]) ** 2
    for k in range(K - 1):
        out[k, k] += sums[k]


@compiled
def spread(theta: Array, words: float, each: bool, diagonal: bool, out: Array) -> None:
    """out (P, P) = N (diag θ - θθᵀ): mean over nodes, or at the mean of θ; its diagonal, where no more is asked."""
    S, K = theta.shape
    centre, squares = zeros(K), zeros(K)
    for s in range(S):
        for k in range(K):
            centre[k] += theta[s, k] / S
            squares[k] += theta[s, k] * theta[s, k] / S
    if diagonal:
        for k in range(K - 1):
            out[k, k] = words * (centre[k] - (squares[k] if each else centre[k] * centre[k]))
        return
    for j in range(K - 1):
        row = out[j]
        for k in range(K - 1):
            row[k] = 0.0 if each else -words * centre[j] * centre[k]
        for s in range(S if each else 0):
            scale = -words * theta[s, j] / S
            for k in range(K - 1):
                row[k] += scale * theta[s, k]
        row[j] += words * centre[j]


@compiled
def word_logs(counts: Array, logs: Array) -> Array:
    """Σ c E log β, (K,)."""
    out = zeros(logs.shape[1])
    for w in range(len(counts)):
        for k in range(len(out)):
            out[k] += counts[w] * logs[w, k]
    return out


@compiled
def look(bound: int, document: Document, mean: Array, root: Array, work: Work) -> tuple[float, Array]:
    """E log p(words | η) and its gradient in the mean (P,); leaves theta, ratio and counted in `work`."""
    B, counts, theta, counted = document.topics, document.counts, work.theta, work.counted
    S, K = theta.shape
    slope, words = zeros(K - 1), sum_of(counts)
    log_mass = softmax(mean, root, document.nodes, theta)
    value = 0.0
    if bound == OPTIMAL:
        value = mixture(B, counts, theta, work.ratio, counted)
        for s in range(S):
            for k in range(K - 1):
                slope[k] += (counted[s, k] - words * theta[s, k]) / S
    elif bound == MEAN_FIELD:
        alone = work.theta_at_mean
        flat = softmax(mean, root, zeros(K - 1).reshape(1, K - 1), alone)
        value = mixture(B, counts, alone, work.ratio_at_mean, work.counted_at_mean) + words * (flat - log_mass)
        for k in range(K - 1):
            slope[k] = work.counted_at_mean[0, k]
            for s in range(S):
                slope[k] -= words * theta[s, k] / S
    else:
        logs = word_logs(counts, B)
        for s in range(S):
            centre = product(theta[s], logs, K)
            value += centre / S
            for k in range(K - 1):
                slope[k] += theta[s, k] * (logs[k] - centre) / S
    return value, slope


@compiled
def curvature(
    bound: int, document: Document, each: bool, newton: bool, diagonal: bool, work: Work, out: Array, safe: Array
) -> None:
    """out (P, P): minus the Hessian of E log p(words | η) after `look`, `safe` a convex part of it.

    With `each` it is exact, else at mean responsibilities. For the covariance responsibilities of the mean-field bound
    are held; `newton` lets them follow the mean. With `diagonal` only the diagonal is right.
    """
    B, counts, theta = document.topics, document.counts, work.theta
    spread(theta, sum_of(counts), each or bound != OPTIMAL, diagonal, safe)
    if bound == SIMPLE:
        simple_curvature(theta, word_logs(counts, B), out)
        return
    for j in range(len(out)):
        for k in range(len(out)):
            out[j, k] = safe[j, k]
    if bound == MEAN_FIELD:
        if newton:
            pairs(B, counts, work.theta_at_mean, work.ratio_at_mean, each, work.table, out)
            take_counted(work.counted_at_mean, out)
        return
    if diagonal:
        add_squares(B, counts, theta, work.ratio, out)
    else:
        pairs(B, counts, theta, work.ratio, each, work.table, out)
    take_counted(work.counted, out)


@compiled
def take_counted(counted: Array, out: Array) -> None:
    """Diagonal of out -= mean of Σ c r over nodes."""
    for s in range(len(counted)):
        for k in range(len(out)):
            out[k, k] -= counted[s, k] / len(counted)


@compiled
def simple_curvature(theta: Array, logs: Array, out: Array) -> None:
    """Minus the Hessian of the simple bound, mean over nodes; `logs` (K,) = Σ c E log β."""
    S = len(theta)
    out[:] = 0.0
    for s in range(S):
        centre = product(theta[s], logs, len(logs))
        for j in range(len(out)):
            along = theta[s, j] * (logs[j] - centre) / S
            for k in range(len(out)):
                out[j, k] += along * theta[s, k] + theta[s, k] * (logs[k] - centre) / S * theta[s, j]
            out[j, j] -= along


@compiled
def node_slopes(bound: int, document: Document, work: Work, out: Array) -> None:
    """out (S, P): gradient of the term in η at each node, after `look`; what moves with C alone for the mean field."""
    theta, counted = work.theta, work.counted
    S, K = theta.shape
    words, logs = sum_of(document.counts), word_logs(document.counts, document.topics)
    for s in range(S):
        centre = product(theta[s], logs, K)
        for k in range(K - 1):
            if bound == OPTIMAL:
                out[s, k] = counted[s, k] - words * theta[s, k]
            elif bound == MEAN_FIELD:
                out[s, k] = -words * theta[s, k]
            else:
                out[s, k] = theta[s, k] * (logs[k] - centre)


@compiled
def prior_of(prior: LogOddsPopulation, i: int) -> LogOddsPopulation:
    """The prior of document i of a block."""
    return LogOddsPopulation(prior.location[i], prior.precision, prior.log_det)


@compiled
def pull_of(mean: Array, prior: LogOddsPopulation, out: Array) -> float:
    """out = Σ⁻¹ (m - μ); returns half of (m - μ)ᵀ Σ⁻¹ (m - μ)."""
    off = np.empty(len(mean), FLOAT)
    for k in range(len(mean)):
        off[k] = mean[k] - prior.location[k]
    np.dot(prior.precision, off, out)
    return 0.5 * product(off, out, len(mean))


@compiled
def local_value(value: float, mean: Array, root: Array, full: bool, prior: LogOddsPopulation) -> float:
    """The document's term of the bound: E log p(words | η) - KL(q(η) ‖ N(μ, Σ))."""
    p, precision = len(mean), prior.precision
    value -= pull_of(mean, prior, np.empty(p, FLOAT)) + 0.5 * (prior.log_det - p)
    bent = np.empty((p, p), FLOAT)
    np.dot(root, precision, bent)
    for k in range(p):
        value += np.log(root[k, k])
        if full:
            value -= 0.5 * product(bent[k], root[k], p)
        if not full:
            value -= 0.5 * root[k, k] ** 2 * precision[k, k]
    return value


# ---- sums over documents
@compiled
def add_words(bound: int, document: Document, work: Work, out: Array) -> None:
    """out (V, K) += c E r for the document's words."""
    counts, theta, weights = document.counts, work.theta, work.table
    S, K = theta.shape
    if bound == MEAN_FIELD:
        np.dot(work.ratio_at_mean, work.theta_at_mean, weights)
    elif bound != SIMPLE:
        np.dot(work.ratio, theta, weights)
    for w in range(len(counts)):
        row = out[document.words[w]]
        if bound == SIMPLE:
            for s in range(S):
                for k in range(K):
                    row[k] += counts[w] * theta[s, k] / S
        else:
            share = 1.0 if bound == MEAN_FIELD else 1.0 / S
            for k in range(K):
                row[k] += share * weights[w, k] * document.topics[w, k]


@compiled
def add_moments(mean: Array, root: Array, full: bool, out: Array) -> None:
    """out += E(1, η)(1, η)ᵀ."""
    out[0, 0] += 1.0
    p = len(mean)
    for j in range(p):
        out[0, j + 1] += mean[j]
        out[j + 1, 0] += mean[j]
        for k in range(p):
            out[j + 1, k + 1] += mean[j] * mean[k]
        if not full:
            out[j + 1, j + 1] += root[j, j] ** 2
    if full:
        covariance = np.empty((p, p), FLOAT)
        np.dot(root.T, root, covariance)
        for j in range(p):
            for k in range(p):
                out[j + 1, k + 1] += covariance[j, k]


@entry(
    *DOCUMENTS,
    "state (n, >=P) f",
    "bounded (V|0, K) f",
    "offset (V) f",
    "sums.values (n) f",
    "sums.proportions (n|0, K) f",
    "sums.squares (n|0, K) f",
    "sums.words (V|0, K) f",
    "sums.moments (K|0, K) f",
)
@compiled
def sum_documents(
    corpus: Corpus,
    topics: Array,
    bounded: Array,
    offset: Array,
    prior: LogOddsPopulation,
    bound: int,
    full: bool,
    state: Array,
    roots: Array,
    sums: Sums,
) -> None:
    """What the documents of a block say at their means (first columns of `state`) and `roots` (n, P, P).

    Where `bounded` has rows, their terms of the bound are taken at these topics, of which `offset` is the rest.
    """
    K = topics.shape[1]
    for i in range(len(sums.values)):
        document = opened(corpus, i, topics)
        work, mean, root = workspace(document), state[i, : K - 1], roots[i]
        theta = work.theta
        value, _ = look(bound, document, mean, root, work)
        if len(sums.proportions):
            for s in range(len(theta)):
                for k in range(K):
                    sums.proportions[i, k] += theta[s, k] / len(theta)
                    sums.squares[i, k] += theta[s, k] ** 2 / len(theta)
        if len(sums.words):
            add_words(bound, document, work, sums.words)
        if len(sums.moments):
            add_moments(mean, root, full, sums.moments)
        if len(bounded):
            document = opened(corpus, i, bounded)
            value, _ = look(bound, document, mean, root, work)
        for w in range(len(document.words)):
            value += document.counts[w] * offset[document.words[w]]
        sums.values[i] = local_value(value, mean, root, full, prior_of(prior, i))
