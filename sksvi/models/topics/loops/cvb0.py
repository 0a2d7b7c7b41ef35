"""Compiled collapsed local step of latent Dirichlet allocation, θ integrated out to first order: CVB0.

φ_wk ∝ (α_k + N_k - φ_wk) b_kw, N_k = Σ_w c_w φ_wk
"""

from __future__ import annotations

import numba
import numpy as np

from sksvi._compiled import entry
from sksvi.models.topics.loops.algebra import compiled
from sksvi.models.topics.loops.documents import LDA_DOCUMENTS, gathered

Array = np.ndarray

#: Of loops that add and store nothing: with stores, bits would depend on where arrays lie.
adding = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


@adding
def _total(weight: Array) -> float:
    total = 0.0
    for k in range(len(weight)):
        total += weight[k]
    return total


@compiled
def _weighted(weight: Array, row: Array, counted: Array, alpha: Array, own: float, old: Array) -> float:
    """(α + N - own φ) b into `weight`; its sum."""
    for k in range(len(weight)):
        weight[k] = (alpha[k] + counted[k] - own * old[k]) * row[k]
    return _total(weight)


@entry(*LDA_DOCUMENTS, "word_counts (V|0, K) f")
@compiled
def cvb0_documents(
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
    """Fixed point of every document; see `mean_field_documents`."""
    K, done = topics.shape[1], 0
    weight = np.empty(K)
    for i in range(len(counts_of_topics)):
        start, stop = indptr[i], indptr[i + 1]
        its, counted = counts[start:stop], counts_of_topics[i]
        own = gathered(topics, words[start:stop])
        phi = np.empty(own.shape)
        for w in range(stop - start):
            phi[w] /= _weighted(phi[w], own[w], counted, alpha, 0.0, counted)
        counted[:] = 0.0
        for w in range(stop - start):
            counted += its[w] * phi[w]
        small = tol * its.sum()
        for _ in range(sweeps):
            moved = 0.0
            for w in range(stop - start):
                old = phi[w]
                # Of a count below 1 there is no whole word to take away.
                share = 1.0 / _weighted(weight, own[w], counted, alpha, min(its[w], 1.0), old)
                for k in range(K):
                    change = share * weight[k] - old[k]
                    counted[k] += its[w] * change
                    moved += its[w] * abs(change)
                    old[k] += change
            done += stop - start
            if moved <= small:
                break
        if len(word_counts):
            for w in range(stop - start):
                word_counts[words[start + w]] += its[w] * phi[w]
    return done
