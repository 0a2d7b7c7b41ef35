"""Compiled draws of a document's proportions and of the topics of its words, for chains of few topics."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.models.numbers import GOLDEN, mixed, uniform_of
from sksvi.models.topics.loops.algebra import LDA_DOCUMENTS, compiled
from sksvi.models.topics.loops.cells import gamma_of

Array = np.ndarray

#: Tells these random numbers from those of a sweep of the same key.
APART = np.uint64(0x5851F42D4C957F2D)
#: Words of a document below which a sweep with θ integrated out is done twice: where it mixes slowest, and costs least.
SHORT = 32


@entry("alpha (K) f", "counts (n, K) f", "streams (n) i", "out (n, K) f")
@compiled
def gamma_numbers(alpha: Array, counts: Array, key: int, streams: Array, out: Array) -> None:
    """Gamma(α + N, 1) numbers of every document, into `out`; a sum of 0 becomes that of the largest shape's topic."""
    state, spare = np.empty(1, np.uint64), np.zeros(1)
    for i in range(len(counts)):
        state[0] = mixed((np.uint64(key) ^ APART) + np.uint64(streams[i]) * GOLDEN)
        spare[0], total, most = 0.0, 0.0, 0
        for k in range(len(alpha)):
            out[i, k] = gamma_of(alpha[k] + counts[i, k], state, spare)
            total += out[i, k]
            most = k if alpha[k] + counts[i, k] > alpha[most] + counts[i, most] else most
        if total == 0.0:  # tiny shapes underflow
            out[i, most] = 1.0


@compiled
def _topic(weight: Array, row: Array, ends: Array, u: float) -> int:
    """A topic with probability ∝ `weight` b."""
    K, total = len(ends), 0.0
    for k in range(K):
        total += weight[k] * row[k]
        ends[k] = total
    u *= total
    k = 0
    while k < K - 1 and u >= ends[k]:
        k += 1
    return k


@entry(*LDA_DOCUMENTS, "streams (n) i", "word_counts (V|0, K) f")
@compiled
def few_topics(
    indptr: Array,
    words: Array,
    counts: Array,
    topics: Array,
    alpha: Array,
    key: int,
    streams: Array,
    counts_of_topics: Array,
    word_counts: Array,
) -> None:
    """Topics of all words given α + `counts_of_topics`, then sweeps with θ integrated out: what `gibbs_documents` does.

    Every topic is visited, and counts of a cell are visited one by one: for few topics, and cells of few words.
    Documents of fewer than `SHORT` words are swept twice.
    """
    K = len(alpha)
    weight, ends = np.empty(K), np.empty(K)
    for i in range(len(counts_of_topics)):
        start, stop = indptr[i], indptr[i + 1]
        state = mixed(np.uint64(key) + np.uint64(streams[i]) * GOLDEN)
        cells = np.empty(stop - start, np.int64)
        for w in range(stop - start):
            low = np.floor(counts[start + w])
            up = counts[start + w] > low and uniform_of(state, w + 1) < counts[start + w] - low
            cells[w] = int(low) + (1 if up else 0)
        state += np.uint64(stop - start) * GOLDEN
        z, N = np.empty(cells.sum(), np.int64), counts_of_topics[i]
        for k in range(K):
            weight[k] = alpha[k] + N[k]
        for number in range(2 + (len(z) < SHORT)):
            at = 0
            for w in range(len(cells)):
                row = topics[words[start + w]]
                for _ in range(cells[w]):
                    state += GOLDEN
                    if number:
                        weight[z[at]] -= 1.0
                    k = _topic(weight, row, ends, uniform_of(state, 0))
                    if number:
                        weight[k] += 1.0
                    z[at] = k
                    at += 1
            if not number:
                N[:] = 0.0
                for k in z:
                    N[k] += 1.0
                for k in range(K):
                    weight[k] = alpha[k] + N[k]
        N[:] = 0.0
        for k in z:
            N[k] += 1.0
        if len(word_counts):
            at = 0
            for w in range(len(cells)):
                for _ in range(cells[w]):
                    word_counts[words[start + w], z[at]] += 1.0
                    at += 1
