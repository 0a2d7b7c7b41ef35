"""What the compiled local steps of latent Dirichlet allocation share: documents, their counts of topics, their bound.

Documents are rows of a CSR matrix; ``topics`` (V, K) what they see of the topics, up to a factor per word, which
cancels in responsibilities; ``alpha`` (K,) the prior of proportions; ``counts_of_topics`` (n, K) the expected number
of words that each document has from each topic: where it starts, and where it ended.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.families.implicit_loops import digamma
from sksvi.models.topics.loops.algebra import compiled

Array = np.ndarray

#: What every loop over these documents takes, for `sksvi._runtime.compiled.entry`.
LDA_DOCUMENTS = (
    "topics (V, K) f",
    "alpha (K) f",
    "counts_of_topics (n, K) f",
    "indptr (n+1) i cuts e",
    "words (e) i < V",
    "counts (e) f",
)


@compiled
def smallest(topics: Array) -> float:
    """The least number that responsibilities use in the type of `topics`: smaller ones are replaced by it."""
    return 1e-30 if topics.itemsize == 4 else 1e-290


@compiled
def gathered(topics: Array, words: Array) -> Array:
    """The rows (W, K) of a document's words."""
    own = np.empty((len(words), topics.shape[1]), topics.dtype)
    for w in range(len(words)):
        own[w] = topics[words[w]]
    return own


@compiled
def scaled_proportions(alpha: Array, counts: Array, least: float, out: Array) -> float:
    """exp(E log θ) of Dir(α + counts) over its largest, at `least`, into `out`; the logarithm of that factor."""
    total, largest = 0.0, -np.inf
    for k in range(len(alpha)):
        total += alpha[k] + counts[k]
        largest = max(largest, alpha[k] + counts[k])
    top = digamma(largest)
    for k in range(len(alpha)):
        out[k] = max(np.exp(digamma(alpha[k] + counts[k]) - top), least)
    return top - digamma(total)


@compiled
def log_gamma(x: float) -> float:
    """log Γ(x), x > 0: recurrence to 7, then Stirling's series; NaN below."""
    if x < 0.0:
        return np.nan
    shift = 1.0
    for _ in range(7):
        if not x < 7.0:
            break
        shift *= x
        x += 1.0
    y = 1.0 / (x * x)
    tail = (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y * (1.0 / 1680 - y * (1.0 / 1188))))) / x
    return (x - 0.5) * np.log(x) - x + 0.9189385332046727 + tail - np.log(shift)


@compiled
def divergence(alpha: Array, counts: Array, elog: Array) -> float:
    """KL(Dir(α + counts) ‖ Dir(α)), nats; E log θ goes into `elog` (K,)."""
    prior, total = 0.0, 0.0
    for k in range(len(alpha)):
        prior += alpha[k]
        total += alpha[k] + counts[k]
    common = digamma(total)
    value = log_gamma(total) - log_gamma(prior)
    for k in range(len(alpha)):
        a = alpha[k] + counts[k]
        elog[k] = digamma(a) - common
        value += log_gamma(alpha[k]) - log_gamma(a) + counts[k] * elog[k]
    return value


@entry(*LDA_DOCUMENTS, "offset (V) f", "values (n) f", "elog (n, K) f")
@compiled
def document_bounds(
    indptr: Array,
    words: Array,
    counts: Array,
    topics: Array,
    offset: Array,
    alpha: Array,
    counts_of_topics: Array,
    values: Array,
    elog: Array,
) -> None:
    """Each document's part of the bound at q(θ) = Dir(α + counts), responsibilities at their best; E log θ."""
    proportions, least = np.empty(topics.shape[1], topics.dtype), smallest(topics)
    for i in range(len(values)):
        own = gathered(topics, words[indptr[i] : indptr[i + 1]])
        value = -divergence(alpha, counts_of_topics[i], elog[i])
        shift = scaled_proportions(alpha, counts_of_topics[i], least, proportions)
        total = np.dot(own, proportions)
        for w in range(len(own)):
            at = indptr[i] + w
            value += counts[at] * (np.log(total[w]) + shift + offset[words[at]])
        values[i] = value
