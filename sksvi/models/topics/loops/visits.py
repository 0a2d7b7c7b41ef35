"""Compiled visits of documents of latent Dirichlet allocation whose local step is an ascent: mean field, or CVB0."""

from __future__ import annotations

import numpy as np

from sksvi._machine.compiled import entry
from sksvi.models.topics.loops.algebra import compiled
from sksvi.models.topics.loops.cvb0 import collapsed
from sksvi.models.topics.loops.documents import LDA_DOCUMENTS, gathered
from sksvi.models.topics.loops.mean_field import expected

Array = np.ndarray


@entry(*LDA_DOCUMENTS, "word_counts (V|0, K) f")
@compiled
def visited_documents(
    indptr: Array,
    words: Array,
    counts: Array,
    topics: Array,
    alpha: Array,
    integrated: bool,
    sweeps: int,
    tol: float,
    counts_of_topics: Array,
    word_counts: Array,
) -> int:
    """Expected counts of every document, θ `integrated` out (CVB0) or by mean field; number of sweeps times words.

    A document ends after `sweeps`, or where a sweep moved less than `tol` of its words. ``word_counts`` += expected
    counts of each word in each topic.
    """
    done = 0
    for i in range(len(counts_of_topics)):
        start, stop = indptr[i], indptr[i + 1]
        its, at, counted = words[start:stop], counts[start:stop], counts_of_topics[i]
        own, small = gathered(topics, its), tol * at.sum()
        if integrated:
            done += (stop - start) * collapsed(own, its, at, alpha, sweeps, small, counted, word_counts)
        else:
            done += (stop - start) * expected(own, its, at, alpha, sweeps, small, counted, word_counts)
    return done
