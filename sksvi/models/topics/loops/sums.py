"""Compiled sums over documents of the correlated topic model, at the q(η) that a local step left."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.models.topics.loops.algebra import compiled
from sksvi.models.topics.loops.bound import MEAN_FIELD, SIMPLE, local_value, look, opened, workspace
from sksvi.models.topics.loops.records import DOCUMENTS, Corpus, Document, LogOddsPopulation, Sums, Work

Array = np.ndarray


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
        covariance = np.dot(root.T, root)
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
        sums.values[i] = local_value(value, mean, root, full, prior)
