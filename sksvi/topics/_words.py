"""Words of topics: which to show, how often they stand together in documents, and how alike topics of two fits are."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from sksvi.models.topics.chain import matched

Array = np.ndarray

#: Weight of exclusivity beside frequency (Bischof and Airoldi), and of probability beside lift (Sievert and Shirley).
EXCLUSIVITY, PROBABILITY = 0.5, 0.6
TINY = np.finfo(float).tiny


# ---- words to show
def frex(components: Array, prevalence: Array) -> Array:
    """Harmonic mean (K, V) of the ranks, as shares, of a word's exclusivity and of its probability within a topic.

    J. Bischof and E. Airoldi, Summarizing topical content with word frequency and exclusivity, ICML 2012.
    """
    exclusive = components / np.maximum(components.sum(0), TINY)
    ranks = [rankdata(values, axis=1, method="max") / components.shape[1] for values in (exclusive, components)]
    return np.asarray(1.0 / (EXCLUSIVITY / ranks[0] + (1.0 - EXCLUSIVITY) / ranks[1]))


def relevance(components: Array, prevalence: Array) -> Array:
    """λ log β + (1 - λ) log(β/p) (K, V), λ = 0.6, p the probability of a word over all topics by their prevalence.

    C. Sievert and K. Shirley, LDAvis: a method for visualizing and interpreting topics, ACL workshop 2014.

    Raises
    ------
    ValueError
        Where topics have no prevalence.
    """
    if np.isnan(prevalence).any():
        raise ValueError("by='relevance' needs topic_prevalence_, and points by gradients have none: choose 'frex'.")
    logs = np.log(np.maximum(components, TINY))
    return np.asarray(logs - (1.0 - PROBABILITY) * np.log(np.maximum(prevalence @ components, TINY)))


#: What words are ordered by -> their scores (K, V) from components (K, V) and prevalences (K,).
ORDERS = {"probability": lambda components, prevalence: components, "frex": frex, "relevance": relevance}


# ---- coherence
def pointwise_information(occurs: Any, order: Array) -> Array:
    """Normalised pointwise mutual information (n, n) of words `order` (n,) in documents; -1 of those never together."""
    part = occurs[:, order]
    joint = np.asarray((part.T @ part).todense(), float) / occurs.shape[0]
    single = np.diagonal(joint)
    out = np.full(joint.shape, -1.0)
    together = joint > 0
    logs = np.log(joint[together])
    expected = np.log(np.outer(single, single)[together])
    out[together] = np.divide(logs - expected, -logs, out=np.zeros_like(logs), where=logs < 0)
    out[np.diag_indices_from(out)] = 1.0
    return out


def npmi(information: Array) -> float:
    """Mean over pairs of words."""
    return float(information[np.triu_indices_from(information, 1)].mean())


def c_v(information: Array) -> float:
    """Mean cosine of each word's row with the sum of all rows."""
    whole = information.sum(0)
    lengths = np.linalg.norm(information, axis=1) * max(np.linalg.norm(whole), TINY)
    return float(np.mean(information @ whole / lengths))


MEASURES = {"npmi": npmi, "c_v": c_v}


# ---- topics of other fits
def overlaps(topics: Array, others: Array) -> Array:
    """Probability (K,) that each topic shares with the one of another fit that is matched to it, Σ min(β, β')."""
    return np.asarray(np.minimum(topics, others[matched(others, topics)]).sum(1))
