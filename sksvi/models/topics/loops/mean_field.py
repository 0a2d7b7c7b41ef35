"""Compiled mean-field local step of latent Dirichlet allocation: φ_wk ∝ exp(ψ(a_k)) b_kw, a_k = α_k + Σ_w c_w φ_wk.

Two products of a matrix and a vector per sweep: s = B e over words, then Bᵀ(c/s) over topics. Neither needs φ.
"""

from __future__ import annotations

import numpy as np

from sksvi._compiled import entry
from sksvi.models.topics.loops.algebra import compiled
from sksvi.models.topics.loops.documents import LDA_DOCUMENTS, gathered, seen_proportions, smallest

Array = np.ndarray


@compiled
def sweep(own: Array, columns: Array, counts: Array, seen: Array, ratio: Array) -> Array:
    """Expected counts (K,) over exp(E log θ), which is `seen`; counts over Σ_k φ's numerators into `ratio` (W,)."""
    total = np.dot(own, seen)
    for w in range(len(counts)):
        ratio[w] = counts[w] / total[w]
    return np.dot(columns, ratio)


@entry(*LDA_DOCUMENTS, "word_counts (V|0, K) f")
@compiled
def mean_field_documents(
    indptr: Array,
    words: Array,
    counts: Array,
    topics: Array,
    alpha: Array,
    sweeps: int,
    tol: float,
    counts_of_topics: Array,
    word_counts: Array,
) -> int:
    """Coordinate ascent on q(θ) and φ of every document; number of sweeps times words.

    A document ends after `sweeps`, or where a sweep moved less than `tol` of its words. ``word_counts`` += expected
    counts of each word in each topic, at the last q(θ).
    """
    K, done, least = topics.shape[1], 0, smallest(topics)
    seen = np.empty(K, topics.dtype)
    for i in range(len(counts_of_topics)):
        start, stop = indptr[i], indptr[i + 1]
        own, counted = gathered(topics, words[start:stop]), counts_of_topics[i]
        columns = own.T
        its, ratio = counts[start:stop], np.empty(stop - start, topics.dtype)
        small = tol * its.sum()
        for _ in range(sweeps):
            seen_proportions(alpha, counted, least, seen)
            after = sweep(own, columns, its, seen, ratio)
            moved = 0.0
            for k in range(K):
                now = seen[k] * after[k]
                moved += abs(now - counted[k])
                counted[k] = now
            done += stop - start
            if moved <= small:
                break
        if len(word_counts):
            seen_proportions(alpha, counted, least, seen)
            sweep(own, columns, its, seen, ratio)
            for w in range(stop - start):
                out = word_counts[words[start + w]]
                for k in range(K):
                    out[k] += ratio[w] * seen[k] * own[w, k]
    return done
