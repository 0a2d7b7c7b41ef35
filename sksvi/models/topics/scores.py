"""Scores of documents that need no bound: importance sampling from a widened posterior (doc/topics.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import logsumexp

from sksvi.models.topics.documents import design_of

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
    out, sizes = np.empty(X.shape[0]), np.empty(X.shape[0])

    def noise() -> Array:
        return np.asarray(rng.standard_normal((n_samples, len(population.location))))

    for i, logs in enumerate(log_odds_ratios(X, components, population, found, noise, inflation)):
        out[i] = logsumexp(logs) - np.log(n_samples)
        sizes[i] = np.exp(2 * logsumexp(logs) - logsumexp(2 * logs))
    return out, sizes


def log_odds_ratios(
    X: Any, components: Array, population: Any, found: Any, noise: Callable[[], Array], inflation: float
) -> Iterator[Array]:
    """Log importance ratios (S,) of draws of log odds, document by document; parameters as `importance_sampling`.

    ``noise`` : gives the standard normal numbers (S, P) of a document.
    """
    width = len(population.location)
    spread, design = np.linalg.cholesky(np.linalg.inv(population.precision)), design_of(X)
    for i in range(X.shape[0]):
        location = population.location + design[i] @ population.slopes
        mean, factor = location, spread
        if np.isfinite(inflation):
            mean, root = found.local[i, :width], found.roots[i]
            factor = np.linalg.cholesky(root.T @ root + inflation * np.eye(width))
        z = noise()
        eta = mean + z @ factor.T
        log_q = -0.5 * np.square(z).sum(1) - np.log(np.diagonal(factor)).sum()
        white = (eta - location) @ population.root.T
        log_p = -0.5 * np.square(white).sum(1) - 0.5 * population.log_det()
        full = np.column_stack([eta, np.zeros(len(eta))])
        theta = np.exp(full - logsumexp(full, axis=1, keepdims=True))
        yield log_words(X[i], theta, components) + log_p - log_q


def log_words(row: Any, theta: Array, components: Array) -> Array:
    """log p(words | θ) of a row of counts at draws of θ (S, K), nats."""
    return np.asarray(np.log(theta @ components[:, row.indices]) @ row.data)


def log_dirichlet_ratios(X: Any, components: Array, alpha: Array, counts: Array, n_samples: int) -> Iterator[Array]:
    """Log importance ratios (S,) of draws of proportions from Dir(α + N), document by document.

    Parameters
    ----------
    X : CSR matrix of shape (n, V)
    components : ndarray of shape (K, V)
    alpha : ndarray of shape (K,)
    counts : ndarray of shape (n, K)
        N.
    n_samples : int
    """
    for i in range(X.shape[0]):
        shares = np.random.default_rng([n_samples, 7]).standard_gamma(alpha + counts[i], (n_samples, len(alpha)))
        theta = np.maximum(shares / shares.sum(1, keepdims=True), np.finfo(float).tiny)
        yield log_words(X[i], theta, components) - np.log(theta) @ counts[i]


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
