"""Compiled mean-field local step of latent Dirichlet allocation: φ_wk ∝ exp(ψ(a_k)) b_kw, a_k = α_k + Σ_w c_w φ_wk.

Two products of a matrix and a vector per sweep: s = B e over words, then Bᵀ(c/s) over topics. Neither needs φ.
"""

from __future__ import annotations

import numpy as np

from sksvi._compiled import entry
from sksvi.models.topics.loops.algebra import compiled
from sksvi.models.topics.loops.documents import LDA_DOCUMENTS, gathered, seen_proportions, smallest

Array = np.ndarray

#: Least share of the smaller of old and new counts that a sweep beyond its best value leaves.
KEPT = 0.3


@compiled
def sweep(own: Array, columns: Array, counts: Array, seen: Array, ratio: Array) -> Array:
    """Expected counts (K,) over exp(E log θ), which is `seen`; counts over Σ_k φ's numerators into `ratio` (W,)."""
    total = np.dot(own, seen)
    for w in range(len(counts)):
        ratio[w] = counts[w] / total[w]
    return np.dot(columns, ratio)


@compiled
def ascend(
    own: Array,
    counts: Array,
    alpha: Array,
    sweeps: int,
    small: float,
    beyond: float,
    counted: Array,
    seen: Array,
    ratio: Array,
) -> int:
    """Coordinate ascent on one row's q and φ from `counted` (K,), which moves; number of sweeps.

    It ends after `sweeps`, or where one moved `small` of the counts or less. All sweeps but the first and the last go a
    share `beyond` further than to their best value.
    """
    least, columns, done = smallest(own), own.T, 0
    for s in range(sweeps):
        seen_proportions(alpha, counted, least, seen)
        after = sweep(own, columns, counts, seen, ratio)
        moved = 0.0
        for k in range(len(counted)):
            now = seen[k] * after[k]
            moved += abs(now - counted[k])
            if beyond > 0.0 and 0 < s < sweeps - 1:
                now = max(now + beyond * (now - counted[k]), KEPT * min(now, counted[k]))
            counted[k] = now
        done += 1
        if moved <= small:
            break
    return done


@compiled
def add_counts(own: Array, words: Array, seen: Array, ratio: Array, word_counts: Array) -> None:
    """word_counts (V, K) += expected counts of one row's words, after a `sweep` that `seen` and `ratio` are of."""
    for w in range(len(words)):
        out = word_counts[words[w]]
        for k in range(len(seen)):
            out[k] += ratio[w] * seen[k] * own[w, k]


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
        its, ratio = counts[start:stop], np.empty(stop - start, topics.dtype)
        done += (stop - start) * ascend(own, its, alpha, sweeps, tol * its.sum(), 0.0, counted, seen, ratio)
        if len(word_counts):
            seen_proportions(alpha, counted, least, seen)
            sweep(own, own.T, its, seen, ratio)
            add_counts(own, words[start:stop], seen, ratio, word_counts)
    return done
