"""Simulated tables of counts: corpora and spectrograms."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from sksvi._typing.arrays import RandomState
from sksvi.datasets._make import _check_positive, _count, _generator

Array = np.ndarray

#: Highest frequency, Hz; ranges of the formants and of their widths, and of the pitch of voiced sounds; their share.
NYQUIST, FORMANTS = 8000.0, ((250, 900), (900, 2500), (2200, 3600), (3500, 6500))
WIDTHS, PITCH, VOICED = (60, 250), (80, 300), 0.7
#: Width of a harmonic, Hz, and what lies between harmonics.
HARMONIC, BETWEEN = 20.0, 0.003
#: Shape of the gamma distribution of activations: most are near 0.
SPARSITY = 0.2


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
    _check_positive(n_words=n_words, spread=spread, topic_concentration=topic_concentration)
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
    _check_positive(n_words=n_words, doc_topic_prior=doc_topic_prior, topic_word_prior=topic_word_prior)
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


def make_spectra(
    n_samples: int = 1000,
    n_features: int = 257,
    *,
    n_components: int = 50,
    mean_count: float = 50.0,
    random_state: RandomState | np.random.Generator = None,
) -> Bunch:
    """Counts of a spectrogram in which sounds like those of speech overlap.

    Each component is a spectrum under four formants, seven of ten of them harmonics of a pitch, the others noise;
    activations are Gamma(0.2), independent; counts are Poisson.

    Parameters
    ----------
    n_samples, n_features : int
        Frames (rows) and frequencies from 0 to 8 kHz (columns).
    n_components : int, default=50
        Sounds.
    mean_count : float, default=50.0
        Mean of a cell.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` (n_samples, n_features), counts; ``components`` (n_components, n_features), spectra
        of mean 1; ``activations`` (n_samples, n_components), whose product with them is the mean of the counts; and
        ``frequencies`` (n_features,) in Hz.

    Raises
    ------
    ValueError, TypeError
        If a size is no positive integer, or ``mean_count`` is not positive and finite.

    Examples
    --------
    >>> from sksvi.datasets import make_spectra
    >>> bunch = make_spectra(30, 65, n_components=4, mean_count=10.0, random_state=0)
    >>> bunch.data.shape, bunch.components.shape, bunch.activations.shape
    ((30, 65), (4, 65), (30, 4))
    """
    n_samples, n_features = _count("n_samples", n_samples), _count("n_features", n_features)
    n_components = _count("n_components", n_components)
    _check_positive(mean_count=mean_count)
    rng = _generator(random_state)
    frequencies = np.linspace(0.0, NYQUIST, n_features)
    components = np.array([_spectrum(frequencies, rng) for _ in range(n_components)])
    components /= components.mean(1, keepdims=True)
    activations = rng.gamma(SPARSITY, mean_count / n_components / SPARSITY, (n_samples, n_components))
    counts = rng.poisson(activations @ components).astype(float)
    return Bunch(data=counts, components=components, activations=activations, frequencies=frequencies)


def _spectrum(f: Array, rng: np.random.Generator) -> Array:
    """Resonances at four formants, times a source of harmonics or noise, falling with frequency."""
    centres = np.array([rng.uniform(*reach) for reach in FORMANTS])
    widths, heights = rng.uniform(*WIDTHS, 4), rng.uniform(0.2, 1.0, 4)
    envelope = (heights / (1.0 + np.square((f[:, None] - centres) / widths))).sum(1)
    envelope *= (1.0 + f / 1000.0) ** -rng.uniform(0.0, 1.5)
    if rng.random() >= VOICED:
        return np.asarray(envelope * rng.uniform(0.3, 0.5, len(f)))
    pitch = rng.uniform(*PITCH)
    apart = f - pitch * np.maximum(np.round(f / pitch), 1.0)
    return np.asarray(envelope * (np.exp(-0.5 * np.square(apart / HARMONIC)) + BETWEEN))
