"""Compiled mean-field local step of latent Dirichlet allocation: φ_wk ∝ exp(ψ(a_k)) b_kw, a_k = α_k + Σ_w c_w φ_wk.

Two products of a matrix and a vector per sweep: s = B e over words, then Bᵀ(c/s) over topics. Neither needs φ.
"""

from __future__ import annotations

import numpy as np

from sksvi.models.topics.loops.algebra import compiled
from sksvi.models.topics.loops.documents import scaled_proportions, smallest

Array = np.ndarray

#: Least share of the smaller of old and new counts that a sweep beyond its best value leaves.
KEPT = 0.3


@compiled
def sweep(own: Array, columns: Array, counts: Array, proportions: Array, ratio: Array) -> Array:
    """Expected counts (K,) over `proportions`, exp(E log θ); counts over Σ_k φ's numerators into `ratio` (W,)."""
    total = np.dot(own, proportions)
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
    proportions: Array,
    ratio: Array,
) -> int:
    """Coordinate ascent on one row's q and φ from `counted` (K,), which moves; number of sweeps.

    It ends after `sweeps`, or where one moved `small` of the counts or less. All sweeps but the first and the last go a
    share `beyond` further than to their best value.
    """
    least, columns, done = smallest(own), own.T, 0
    for s in range(sweeps):
        scaled_proportions(alpha, counted, least, proportions)
        after = sweep(own, columns, counts, proportions, ratio)
        moved = 0.0
        for k in range(len(counted)):
            now = proportions[k] * after[k]
            moved += abs(now - counted[k])
            if beyond > 0.0 and 0 < s < sweeps - 1:
                now = max(now + beyond * (now - counted[k]), KEPT * min(now, counted[k]))
            counted[k] = now
        done += 1
        if moved <= small:
            break
    return done


@compiled
def add_counts(own: Array, words: Array, proportions: Array, ratio: Array, word_counts: Array) -> None:
    """word_counts (V, K) += expected counts of one row's words, with `proportions` and `ratio` of the last `sweep`."""
    for w in range(len(words)):
        out = word_counts[words[w]]
        for k in range(len(proportions)):
            out[k] += ratio[w] * proportions[k] * own[w, k]


@compiled
def counted_at(
    own: Array, words: Array, counts: Array, proportions: Array, ratio: Array, counted: Array, word_counts: Array
) -> None:
    """Expected counts of one row at `proportions` (K,): N into `counted`, those of its words added to `word_counts`."""
    counted[:] = proportions * sweep(own, own.T, counts, proportions, ratio)
    if len(word_counts):
        add_counts(own, words, proportions, ratio, word_counts)


@compiled
def expected(
    own: Array, words: Array, counts: Array, alpha: Array, sweeps: int, small: float, counted: Array, word_counts: Array
) -> int:
    """`ascend` of one document; its expected counts, at the last q(θ), are added to `word_counts`; sweeps."""
    proportions, ratio = np.empty(len(alpha), own.dtype), np.empty(len(counts), own.dtype)
    done = ascend(own, counts, alpha, sweeps, small, 0.0, counted, proportions, ratio)
    if len(word_counts):
        scaled_proportions(alpha, counted, smallest(own), proportions)
        sweep(own, own.T, counts, proportions, ratio)
        add_counts(own, words, proportions, ratio, word_counts)
    return done
