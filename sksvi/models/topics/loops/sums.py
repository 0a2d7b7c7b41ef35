"""Compiled sums over documents of the correlated topic model, at the q(η) that a local step left."""

from __future__ import annotations

import numpy as np

from sksvi.models.topics.loops.algebra import compiled
from sksvi.models.topics.loops.bound import MEAN_FIELD, SIMPLE, local_value, look, opened, workspace

Array = np.ndarray


@compiled
def add_words(bound: int, words: Array, document: tuple, work: tuple, out: Array) -> None:
    """out (V, K) += c E r for the document's words."""
    B, counts, _ = document
    theta, ratio, _, single, single_ratio, _, weights = work
    S, K = theta.shape
    if bound == MEAN_FIELD:
        np.dot(single_ratio, single, weights)
    elif bound != SIMPLE:
        np.dot(ratio, theta, weights)
    for w in range(len(words)):
        row = out[words[w]]
        if bound == SIMPLE:
            for s in range(S):
                for k in range(K):
                    row[k] += counts[w] * theta[s, k] / S
        else:
            share = 1.0 if bound == MEAN_FIELD else 1.0 / S
            for k in range(K):
                row[k] += share * weights[w, k] * B[w, k]


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
        covariance = np.dot(root.T, root)
        for j in range(p):
            for k in range(p):
                out[j + 1, k + 1] += covariance[j, k]


@compiled
def sum_documents(
    corpus: tuple,
    topics: Array,
    offset: Array,
    prior: tuple,
    nodes: Array,
    first_node: Array,
    bound: int,
    full: bool,
    state: Array,
    roots: Array,
    values: Array,
    proportions: Array,
    squares: Array,
    word_sums: Array,
    moment_sums: Array,
) -> None:
    """What the documents of a block say at their means (first columns of `state`) and `roots` (n, P, P).

    `values` (n,) are their terms of the bound; `proportions`, `squares` (n, K: E θ, E θ²), `word_sums` (V, K) and
    `moment_sums` (K, K) are filled where they have rows.
    """
    K = topics.shape[1]
    for i in range(len(values)):
        words, document = opened(corpus, i, topics, nodes[first_node[i]])
        work, mean, root = workspace(document), state[i, : K - 1], roots[i]
        theta, counts = work[0], document[1]
        value = look(bound, document, mean, root, work)[0]
        for w in range(len(words)):
            value += counts[w] * offset[words[w]]
        values[i] = local_value(value, mean, root, full, prior)
        if len(proportions):
            for s in range(len(theta)):
                for k in range(K):
                    proportions[i, k] += theta[s, k] / len(theta)
                    squares[i, k] += theta[s, k] ** 2 / len(theta)
        if len(word_sums):
            add_words(bound, words, document, work, word_sums)
        if len(moment_sums):
            add_moments(mean, root, full, moment_sums)
