"""Scores of documents that need no bound: importance sampling from a widened posterior (doc/topics.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

Array = np.ndarray

#: Expected words of a topic that words support.
FEWEST_WORDS = 1.0


def shares_of_topics(counts: Array) -> Array:
    """Share (K,) of all expected counts that each topic has; 0 for one that less than one word supports."""
    counts = np.where(counts >= FEWEST_WORDS, counts, 0.0)
    return np.asarray(counts / max(counts.sum(), FEWEST_WORDS))


#: Words that are scored at once.
SCORED = 2**14


def importance_sampling(
    X: Any, components: Array, population: Any, found: Any, n_samples: int, rng: Any, inflation: float
) -> tuple[Array, Array]:
    """log p(words) and effective sample size of every row of a CSR matrix.

    Parameters
    ----------
    X : CSR matrix of shape (n, V)
    components : ndarray of shape (K, V)
    population : Population
    found : TopicTerms
        With local means and roots of every document.
    n_samples : int
    rng : RandomState
    inflation : float
        Added to the variances of the proposal; infinite: the proposal is the population.

    Returns
    -------
    log_likelihood, effective_samples : ndarrays of shape (n,)
    """
    n, width = X.shape[0], len(population.location)
    out, sizes = np.empty(n), np.empty(n)
    prior = population.location, np.linalg.cholesky(np.linalg.inv(population.precision))
    for i in range(n):
        mean, factor = prior
        if np.isfinite(inflation):
            mean, root = found.local[i, :width], found.roots[i]
            factor = np.linalg.cholesky(root.T @ root + inflation * np.eye(width))
        z = rng.standard_normal((n_samples, width))
        eta = mean + z @ factor.T
        log_q = -0.5 * np.square(z).sum(1) - np.log(np.diagonal(factor)).sum()
        white = (eta - population.location) @ population.root.T
        log_p = -0.5 * np.square(white).sum(1) - 0.5 * population.log_det()
        full = np.column_stack([eta, np.zeros(n_samples)])
        theta = np.exp(full - logsumexp(full, axis=1, keepdims=True))
        words = X.indices[X.indptr[i] : X.indptr[i + 1]]
        counts = X.data[X.indptr[i] : X.indptr[i + 1]]
        logs = np.log(theta @ components[:, words]) @ counts + log_p - log_q
        out[i] = logsumexp(logs) - np.log(n_samples)
        sizes[i] = np.exp(2 * logsumexp(logs) - logsumexp(2 * logs))
    return out, sizes


def word_scores(proportions: Array, components: Array, held_out: Any) -> Array:
    """Σ_w c_w log Σ_k θ_k β_kw of every row of a CSR matrix, nats; words are scored one by one.

    Parameters
    ----------
    proportions : ndarray of shape (n, K)
    components : ndarray of shape (K, V)
    held_out : CSR matrix of shape (n, V)

    Returns
    -------
    scores : ndarray of shape (n,)
        0 where a row has no words.
    """
    row, logs = np.repeat(np.arange(held_out.shape[0]), np.diff(held_out.indptr)), np.empty(held_out.nnz)
    for part in (slice(a, a + SCORED) for a in range(0, held_out.nnz, SCORED)):
        logs[part] = np.log(np.einsum("ik,ki->i", proportions[row[part]], components[:, held_out.indices[part]]))
    return np.bincount(row, held_out.data * logs, held_out.shape[0])
