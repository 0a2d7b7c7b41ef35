"""Calibration of factor models: truths drawn from the model, cover of 90 % intervals (run by `product.coverage`).

Factorizations learn their priors and noise; entries are left out at random. Proportions of documents are compared topic
by topic after matching topics to the true ones by their words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import beta

from benchmarks._lib.measures import fitted, inside


def ratings(rng: np.random.Generator, likelihood: str) -> dict[str, float]:
    """60 users, 40 items, three factors, half of the cells observed; 400 of them left out."""
    from sksvi import likelihoods
    from sksvi.datasets import make_pmf
    from sksvi.decomposition import GeneralizedPMF

    law = likelihoods.Gaussian(variance=0.5) if likelihood == "gaussian" else likelihoods.resolve(likelihood)
    size = {"user_variance": 0.5, "item_variance": 0.5, "observed": 0.5}
    matrix = make_pmf(60, 40, 3, likelihood=law, random_state=int(rng.integers(2**31)), **size)
    X, y, f = matrix.data, matrix.target, matrix.latent
    model = GeneralizedPMF(3, likelihood=likelihood, biases=False, uncertainty="variational", random_state=0)
    model = fitted(model, X[400:], y[400:])
    mean, variance = model.predict_latent(X[:400])
    low, high = model.predict_interval(X[:400], coverage=0.9).T
    held = (low <= y[:400]) & (y[:400] <= high)
    return {"f, cells left out": inside(f[:400] - mean, np.sqrt(variance)), "new y": float(np.mean(held))}


def sparse_factors(rng: np.random.Generator) -> dict[str, float]:
    """300 rows of 10 columns from four sparse factors; a tenth of the entries missing."""
    from sksvi.datasets import make_beta_process
    from sksvi.decomposition import BetaProcessFA

    seed = int(rng.integers(2**31))
    X = make_beta_process(300, 10, 4, a=2.0, b=2.0, noise_precision=4.0, random_state=seed).data
    missing = rng.random(X.shape) < 0.1
    hidden = np.where(missing, np.nan, X)
    model = fitted(BetaProcessFA(8, max_iter=30, random_state=0), hidden)
    mean, std = model.impute(hidden, return_std=True)
    return {"missing entries": inside(X[missing] - mean[missing], std[missing])}


def proportions(rng: np.random.Generator) -> dict[str, float]:
    """300 documents of about 150 words on four topics."""
    from sksvi.datasets import make_ctm
    from sksvi.topics import CorrelatedTopicModel

    corpus = make_ctm(300, 200, n_components=4, n_words=150, random_state=int(rng.integers(2**31)))
    model = fitted(CorrelatedTopicModel(4, uncertainty="variational", random_state=0), corpus.data)
    mean, std = model.transform(corpus.data, return_std=True)
    order = matched(model, corpus)
    return {"proportions": inside(corpus.proportions - mean[:, order], std[:, order])}


def independent_proportions(rng: np.random.Generator) -> dict[str, float]:
    """The same of independent topics: by Gibbs sampling, and by the Dirichlet of a mean field about the same mean."""
    from sksvi.datasets import make_lda
    from sksvi.topics import StructuredLDA

    options = {"n_components": 4, "n_words": 150, "doc_topic_prior": 0.5}
    corpus = make_lda(300, 200, **options, random_state=int(rng.integers(2**31)))
    model = fitted(
        StructuredLDA(4, doc_topic_prior="symmetric", uncertainty="variational", random_state=0), corpus.data
    )
    order = matched(model, corpus)

    def held(interval: Any) -> float:
        low, high = np.moveaxis(interval[:, order], -1, 0)
        return float(np.mean((low <= corpus.proportions) & (corpus.proportions <= high)))

    concentration = model.transform(corpus.data) * np.asarray(model.doc_topic_prior_.sum() + corpus.data.sum(1))
    law = beta(concentration, concentration.sum(1, keepdims=True) - concentration)
    narrow = np.stack([law.ppf(0.05), law.ppf(0.95)], -1)
    return {"proportions": held(model.proportion_interval(corpus.data)), "proportions, mean field": held(narrow)}


def matched(model: Any, corpus: Any) -> Any:
    """The model's topics in the order of the true ones."""
    norm = np.linalg.norm
    cosine = model.components_ @ corpus.components.T
    cosine /= norm(model.components_, axis=1)[:, None] * norm(corpus.components, axis=1)
    return linear_sum_assignment(-cosine.T)[1]


def rates(rng: np.random.Generator, process: bool = True) -> dict[str, float]:
    """Means of 200 rows of 30 counts from four components; a tenth of the cells missing."""
    from sksvi.datasets import make_spectra
    from sksvi.decomposition import GammaPoissonFactorization, GammaProcessNMF

    seed = int(rng.integers(2**31))
    bunch = make_spectra(200, 30, n_components=4, mean_count=10.0, random_state=seed)
    missing = rng.random(bunch.data.shape) < 0.1
    hidden = np.where(missing, np.nan, bunch.data)
    model = (
        GammaProcessNMF(8, uncertainty="variational", random_state=0)
        if process
        else GammaPoissonFactorization(4, uncertainty="variational", random_state=0)
    )
    model = fitted(model, hidden)
    mean, std = model.reconstruct(hidden, return_std=True)
    apart = bunch.activations @ bunch.components - mean
    filled, spread = model.impute(hidden, return_std=True)
    return {
        "means": inside(apart[~missing], std[~missing]),
        "means of missing cells": inside(apart[missing], std[missing]),
        "missing cells": inside(bunch.data[missing] - filled[missing], spread[missing]),
    }


def weights(rng: np.random.Generator, binary: bool) -> dict[str, float]:
    """500 rows of 15 columns, six groups with weights that Dir(6, ..., 6) draws; weights by size, among the six."""
    from sksvi.mixture import BernoulliMixture, CategoricalMixture

    groups, sizes = 6, 2 if binary else 3
    share = rng.dirichlet(np.full(groups, 6.0))
    probability = rng.dirichlet(np.ones(sizes), (groups, 15))
    labels = rng.choice(groups, 500, p=share)
    X = np.sum(rng.random((500, 15, 1)) > np.cumsum(probability, -1)[labels][..., :-1], axis=-1)
    cls = BernoulliMixture if binary else CategoricalMixture
    model = fitted(cls(groups, concentration=36.0, uncertainty="variational", random_state=0), X.astype(float))
    found = np.array(
        [np.bincount(labels[model.predict(X.astype(float)) == k], minlength=groups) for k in range(groups)]
    )
    order = found.argmax(1)
    block = model.posterior_["weights"]
    return {"weights": inside(share[order] - block.mean, block.std)}


def loadings(rng: np.random.Generator, n_components: int, noise: float) -> dict[str, float]:
    """100 rows of six columns from factors whose loadings the prior draws; components matched by correlation."""
    from sksvi.decomposition import GammaFactorModel

    truth = rng.gamma(1.0, 1.0, (n_components, 6))
    X = rng.standard_normal((200, n_components)) @ truth + np.sqrt(noise) * rng.standard_normal((200, 6))
    model = GammaFactorModel(n_components, noise_variance=noise, prior_shape=1.0, fit_mean=False, random_state=0)
    model = fitted(model, X[:100])
    apart = np.square(model.components_[:, None] - truth).sum(-1)
    order = linear_sum_assignment(apart.T)[1]
    table = model.summary()
    low, high = (table[name].to_numpy().reshape(n_components, 6)[order] for name in ("lower", "upper"))
    std = np.sqrt(np.diag(model.get_covariance()))
    return {"loadings": float(np.mean((low <= truth) & (truth <= high))), "new rows": inside(X[100:], std)}


STUDIES = {
    "BernoulliMixture: weights": lambda rng: weights(rng, True),
    "CategoricalMixture: weights": lambda rng: weights(rng, False),
    "GeneralizedPMF: gaussian": lambda rng: ratings(rng, "gaussian"),
    "GeneralizedPMF: poisson": lambda rng: ratings(rng, "poisson"),
    "BetaProcessFA: missing entries": sparse_factors,
    "GammaFactorModel: one factor": lambda rng: loadings(rng, 1, 1.0),
    "GammaFactorModel: three factors": lambda rng: loadings(rng, 3, 1.0),
    "GammaPoissonFactorization: rates": lambda rng: rates(rng, False),
    "GammaProcessNMF: rates": rates,
    "CorrelatedTopicModel: proportions": proportions,
    "StructuredLDA: proportions": independent_proportions,
}
