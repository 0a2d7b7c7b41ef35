"""Simulated corpora."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from sksvi._typing.arrays import RandomState
from sksvi.datasets._make import _count, _generator


def make_ctm(
    n_samples: int = 2000,
    n_features: int = 500,
    *,
    n_components: int = 8,
    n_words: float = 200.0,
    correlation: float = 0.7,
    spread: float = 1.5,
    topic_concentration: float = 0.05,
    random_state: RandomState | np.random.Generator = None,
) -> Bunch:
    """Documents of a correlated topic model with known topics and correlations.

    Log odds η ~ N(0, Σ) of K - 1 topics against the last one, proportions softmax(η, 0), words from the mixture of
    topics. Topics come in pairs: the log odds of topics 0 and 1, of 2 and 3, ... have the given correlation.

    Parameters
    ----------
    n_samples, n_features : int
        Documents and words of the vocabulary.
    n_components : int, default=8
        Topics K.
    n_words : float, default=200.0
        Mean of the Poisson number of words of a document beyond the first.
    correlation : float, default=0.7
        Of the log odds of paired topics, in (-1, 1).
    spread : float, default=1.5
        Standard deviation of the log odds.
    topic_concentration : float, default=0.05
        Of the Dirichlet that topics are drawn from; small ones give topics of few words.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With ``data`` (CSR counts, n_samples x n_features), ``components`` (K, n_features), ``proportions``
        (n_samples, K), ``topic_covariance`` (K - 1, K - 1), ``topic_correlation`` (K, K; of centred log proportions).

    Raises
    ------
    ValueError, TypeError
        If a size is no positive integer, a scale is not positive or the correlation not within (-1, 1).

    Examples
    --------
    >>> from sksvi.datasets import make_ctm
    >>> bunch = make_ctm(10, 30, n_components=4, random_state=0)
    >>> bunch.data.shape, bunch.proportions.shape
    ((10, 30), (10, 4))
    """
    n_samples, n_features = _count("n_samples", n_samples), _count("n_features", n_features)
    k = _count("n_components", n_components)
    for name, value in (("n_words", n_words), ("spread", spread), ("topic_concentration", topic_concentration)):
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive and finite; found {value}")
    if not -1 < correlation < 1:
        raise ValueError(f"correlation must lie strictly between -1 and 1; found {correlation}")
    rng = _generator(random_state)
    components = rng.dirichlet(np.full(n_features, topic_concentration), k)
    cov = np.eye(k - 1)
    for j in range(0, k - 2, 2):
        cov[j, j + 1] = cov[j + 1, j] = correlation
    cov *= spread**2
    eta = np.zeros((n_samples, k))
    eta[:, :-1] = rng.multivariate_normal(np.zeros(k - 1), cov, n_samples, method="cholesky") if k > 1 else 0.0
    weight = np.exp(eta - eta.max(1, keepdims=True))
    proportions = weight / weight.sum(1, keepdims=True)
    data = _documents(rng, proportions, components, n_words)
    full, centred = np.zeros((k, k)), np.eye(k) - 1.0 / k
    full[:-1, :-1] = cov
    full = centred @ full @ centred
    sd = np.sqrt(np.maximum(np.diagonal(full), np.finfo(float).tiny))
    return Bunch(
        data=data,
        components=components,
        proportions=proportions,
        topic_covariance=cov,
        topic_correlation=full / sd[:, None] / sd,
    )


def make_lda(
    n_samples: int = 2000,
    n_features: int = 500,
    *,
    n_components: int = 8,
    n_words: float = 200.0,
    doc_topic_prior: float = 0.1,
    topic_word_prior: float = 0.05,
    random_state: RandomState | np.random.Generator = None,
) -> Bunch:
    """Documents of latent Dirichlet allocation with known topics and proportions.

    Parameters
    ----------
    n_samples, n_features : int
        Documents and words of the vocabulary.
    n_components : int, default=8
        Topics K.
    n_words : float, default=200.0
        Mean of the Poisson number of words of a document beyond the first.
    doc_topic_prior, topic_word_prior : float, default=0.1 and 0.05
        Of the Dirichlet distributions that proportions and topics are drawn from.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With ``data`` (CSR counts, n_samples x n_features), ``components`` (K, n_features), ``proportions``
        (n_samples, K).

    Raises
    ------
    ValueError, TypeError
        If a size is no positive integer or a number is not positive.

    Examples
    --------
    >>> from sksvi.datasets import make_lda
    >>> bunch = make_lda(10, 30, n_components=4, random_state=0)
    >>> bunch.data.shape, bunch.proportions.shape
    ((10, 30), (10, 4))
    """
    n_samples, n_features = _count("n_samples", n_samples), _count("n_features", n_features)
    k = _count("n_components", n_components)
    numbers = {"n_words": n_words, "doc_topic_prior": doc_topic_prior, "topic_word_prior": topic_word_prior}
    for name, value in numbers.items():
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive and finite; found {value}")
    rng = _generator(random_state)
    components = rng.dirichlet(np.full(n_features, topic_word_prior), k)
    proportions = rng.dirichlet(np.full(k, doc_topic_prior), n_samples)
    data = _documents(rng, proportions, components, n_words)
    return Bunch(data=data, components=components, proportions=proportions)


def _documents(rng: Any, proportions: Any, components: Any, n_words: float) -> Any:
    """Counts (CSR) of documents of 1 + Poisson words."""
    lengths = 1 + rng.poisson(n_words, len(proportions))
    mixtures = proportions @ components
    counts = [sp.csr_matrix(rng.multinomial(n, p / p.sum())) for n, p in zip(lengths, mixtures, strict=True)]
    return sp.csr_matrix(sp.vstack(counts))
