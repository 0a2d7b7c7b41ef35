"""Compiled visits of documents of latent Dirichlet allocation whose local step is an ascent: mean field, or CVB0."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.models.topics.loops.algebra import compiled
from sksvi.models.topics.loops.cvb0 import collapsed
from sksvi.models.topics.loops.documents import LDA_DOCUMENTS, gathered
from sksvi.models.topics.loops.mean_field import expected

Array = np.ndarray


@entry(*LDA_DOCUMENTS, "logs (n|0, K) f", "word_counts (V|0, K) f")
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
    logs: Array,
    word_counts: Array,
) -> int:
    """Expected counts of every document, θ `integrated` out (CVB0) or by mean field; number of sweeps times words.

    A document ends after `sweeps`, or where a sweep moved less than `tol` of its words. ``word_counts`` += expected
    counts of each word in each topic. ``logs``: E log θ of CVB0, where asked for.
    """
    done, none = 0, np.empty(0)
    for i in range(len(counts_of_topics)):
        start, stop = indptr[i], indptr[i + 1]
        its, at, counted = words[start:stop], counts[start:stop], counts_of_topics[i]
        own, small = gathered(topics, its), tol * at.sum()
        if integrated:
            own_logs = logs[i] if len(logs) else none
            done += (stop - start) * collapsed(own, its, at, alpha, sweeps, small, counted, own_logs, word_counts)
        else:
            done += (stop - start) * expected(own, its, at, alpha, sweeps, small, counted, word_counts)
    return done
