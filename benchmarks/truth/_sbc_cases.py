"""Models and data sets of the simulation-based calibration of every estimator: small, of a few milliseconds a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.special import expit
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import sksvi
from sksvi import likelihoods as lk
from sksvi.models.topics.chain import drawn_proportions

Array = np.ndarray
#: Rows and columns of linear models.
ROWS, COLUMNS = 40, 4
#: Further likelihoods whose learned numbers have a proper prior, as counts of zeros and positive y have it.
MEASURED = ("gamma", "log-normal", "weibull", "exponential", "log-logistic", "zero-inflated-poisson")


@dataclass(frozen=True)
class Case:
    """An estimator, what simulates data for it (rows, or a function), its quantities, and a note."""

    estimator: Any
    X: Any = None
    simulate: Callable[..., Any] | None = None
    quantities: Callable[..., Mapping[str, Array]] | None = None
    held: bool = False
    note: str = ""


def columns() -> pd.DataFrame:
    """Standard normal columns, the same in every simulation."""
    X = np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)])


def grouped() -> pd.DataFrame:
    """Two columns and ten levels of six rows."""
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(60, 2)), columns=["x0", "x1"])
    return X.assign(site=np.repeat(list("abcdefghij"), 6))


# ---- f at rows, of models whose blocks are not what one simulates
def latents_at(model: Any, X: Any, n: int, rng: Any, count: int = 6) -> Array:
    """f (n, count) at the first rows of X, at draws of the posterior."""
    draws = model._posterior_draws(n, rng)
    f = np.empty((n, count))
    for node in draws.nodes:
        values, left = node.latents(X, None)
        values, left = values[:count], left[:count]
        f[node.at] = (values + np.sqrt(left)[:, None] * rng.standard_normal(values.shape)).T
    return f


def f_and_hyper(model: Any, X: Any, n: int, rng: Any) -> dict[str, Array]:
    """f at the first rows and the scalars of a process, of the same draws."""
    seed = int(rng.randint(2**31 - 1))
    found: dict[str, Array] = {"f": latents_at(model, X, n, np.random.RandomState(seed))}
    variables = model._posterior_draws(n, np.random.RandomState(seed)).variables
    return found | {name: each.values for name, each in variables.items() if each.values.ndim == 1}


def process(likelihood: Any, rng: Any, learned: bool = False) -> tuple[Array, Array, dict[str, Any]]:
    """A process on a line; `learned`: its scale, length and constant are from the priors of a fit."""
    X = np.random.default_rng(2).uniform(-2.0, 2.0, (30, 1))
    scale, length, noise, constant = 1.0, 1.0, likelihood, 0.0
    truths: dict[str, Any] = {}
    if learned:
        binary = likelihood.levels is not None
        scale = (2.0 if binary else 1.0) * abs(rng.standard_t(3.0))
        length = X.std() / rng.standard_exponential()
        place = "k1__" if binary else ""  # of labels the kernel is a sum
        truths |= {f"{place}k1__constant_value": scale**2, f"{place}k2__length_scale": length}
        if binary:
            constant = 1.0  # of balanced labels; a fit goes by its own
        else:
            variance = rng.standard_t(3.0) ** 2
            noise = lk.Gaussian(variance=variance)
            truths["noise_variance"] = variance
    K = scale**2 * RBF(length)(X) + constant + 1e-8 * scale**2 * np.eye(len(X))
    f = np.linalg.cholesky(K) @ rng.standard_normal(len(X))
    y = noise.sample(f, np.random.default_rng(rng.randint(2**31 - 1)))
    return X, y.astype(int) if likelihood.levels is not None else y, {"f": f[:6], **truths}


def series(likelihood: Any, rng: Any) -> tuple[None, Array, dict[str, Any]]:
    """A random walk of variance 0.1 that begins at N(0, 1), 40 points."""
    f = rng.standard_normal() + np.concatenate([[0.0], np.cumsum(np.sqrt(0.1) * rng.standard_normal(39))])
    y = likelihood.sample(f, np.random.default_rng(rng.randint(2**31 - 1)))
    return None, y, {"f": f[:: len(f) // 6][:6]}


def f_of_series(model: Any, X: Any, n: int, rng: Any) -> dict[str, Array]:
    """f at six points."""
    f = model._posterior_draws(n, rng).variables["latents"].values
    return {"f": f[:, :: f.shape[1] // 6][:, :6]}


# ---- mixtures and factorizations: quantities that do not depend on how components are numbered
def bits(rng: Any) -> tuple[Array, None, dict[str, Any]]:
    """Two components of five binary columns, 80 rows, from the priors of a BernoulliMixture(2)."""
    weights = rng.dirichlet([10.0, 10.0])
    p = rng.beta(1.0, 1.0, (2, 5))
    X = (rng.random_sample((80, 5)) < p[rng.choice(2, 80, p=weights)]).astype(float)
    density = np.log(weights @ np.exp(X @ np.log(p.T) + (1 - X) @ np.log1p(-p.T)).T)
    return X, None, {"log density": density[:4], "total log density": density.sum(), "largest weight": weights.max()}


def of_mixture(model: Any, X: Any, n: int, rng: Any) -> dict[str, Array]:
    """Log densities of rows, and the largest weight."""
    draws = model._posterior_draws(n, rng)
    found = draws.log_density(X)
    weights = draws.variables["weights"].values.max(1)
    return {"log density": found[:, :4], "total log density": found.sum(1), "largest weight": weights}


def ratings(rng: Any, likelihood: Any) -> tuple[Array, Array, dict[str, Any]]:
    """20 users and 15 items with two factors of variance 1, half of the cells rated."""
    u, v = rng.standard_normal((20, 2)), rng.standard_normal((15, 2))
    pairs = np.argwhere(rng.random_sample((20, 15)) < 0.5)
    f = np.sum(u[pairs[:, 0]] * v[pairs[:, 1]], axis=1)
    return pairs, likelihood.sample(f, np.random.default_rng(rng.randint(2**31 - 1))), {"f": f[:6]}


def f_of_pairs(model: Any, X: Any, n: int, rng: Any) -> dict[str, Array]:
    """f at the first pairs."""
    return {"f": latents_at(model, X, n, rng)}


def counted(rng: Any) -> tuple[Array, Array, dict[str, Any]]:
    """Counts of 20 users and 15 items from two gamma components of shape 0.5 and means about 1."""
    u, v = rng.gamma(0.5, 2.0, (20, 2)), rng.gamma(0.5, 2.0, (15, 2))
    pairs = np.argwhere(np.ones((20, 15)))
    rate = np.sum(u[pairs[:, 0]] * v[pairs[:, 1]], axis=1)
    return pairs, rng.poisson(rate), {"f": np.log(rate[:6])}


# ---- rows without a target
def answers(rng: Any) -> tuple[pd.DataFrame, None, dict[str, Any]]:
    """Two components of five columns of three values, 80 rows, from the priors of a CategoricalMixture(2)."""
    weights, p = rng.dirichlet([10.0, 10.0]), rng.dirichlet(np.ones(3), (2, 5))
    ends, labels = p.cumsum(-1)[..., :-1], rng.choice(2, 80, p=weights)
    codes = np.sum(rng.random_sample((80, 5, 1)) > ends[labels], axis=-1)
    density = np.log(np.prod(p[:, np.arange(5), codes], axis=-1).T @ weights)
    X = pd.DataFrame({f"x{j}": pd.Categorical.from_codes(codes[:, j], list("abc")) for j in range(5)})
    return X, None, {"log density": density[:4], "total log density": density.sum(), "largest weight": weights.max()}


def documents(rng: Any, correlated: bool) -> tuple[Array, None, dict[str, Any]]:
    """30 documents of 20 words of ten, two topics Dir(1/2); proportions Dir(1/2), or logistic normal.

    Mean and variance of its log odds are from the normal-Wishart prior of ten pseudo-documents.
    """
    topics = rng.dirichlet(np.full(10, 0.5), 2)
    if correlated:
        std = np.sqrt(10.0 / rng.chisquare(12.0))
        share = expit(std * (rng.standard_normal() / np.sqrt(10.0) + rng.standard_normal(30)))
    else:
        share = rng.beta(0.5, 0.5, 30)
    words = np.column_stack([share, 1.0 - share]) @ topics
    X = np.array([rng.multinomial(20, row) for row in words], float)
    return X, None, {"log probability of a word": np.log(words[:2, :4])}


def words_of(model: Any, X: Array, n: int, rng: Any) -> dict[str, Array]:
    """Log probabilities of four words in two documents, at draws of topics and proportions together."""
    draws = model._draws
    each = drawn_proportions(model._sampler(model._fitted_model), draws, sp.csr_matrix(X), 1)
    share = np.concatenate([part for _, part in each], axis=1)[:, :2]
    topics = np.repeat(draws.topics.astype(float), len(share) // len(draws.topics), axis=0)
    words = np.log(np.einsum("snk,skv->snv", share, topics)[:, :, :4])
    return {"log probability of a word": words[rng.randint(len(words), size=n)]}


def cells(rng: Any, weights: bool) -> tuple[Array, None, dict[str, Any]]:
    """Counts of 20 rows and 15 columns from two gamma components of shape 1/2; `weights`: with means and weights."""
    of = rng.gamma(0.5, 2.0, 2) if weights else np.ones(2)
    rate = (rng.gamma(0.5, 2.0, (20, 2)) * of) @ rng.gamma(0.5, 2.0, (2, 15))
    return rng.poisson(rate).astype(float), None, {"expected count": rate[0, :6]}


def rates_of(model: Any, X: Array, n: int, rng: Any) -> dict[str, Array]:
    """Expected counts of six cells: gamma, of their means and standard deviations."""
    mean, std = (part[0, :6] for part in model.reconstruct(X, return_std=True))
    return {"expected count": rng.gamma(np.square(mean / std), np.square(std) / mean, (n, 6))}


def pixels(rng: Any) -> tuple[Array, None, dict[str, Any]]:
    """60 rows of six columns, four factors from the priors of a BetaProcessFA(4), noise of deviation 0.3."""
    use = rng.random_sample((60, 4)) < rng.beta(2.5, 7.5, 4)
    clean = (use * rng.standard_normal((60, 4))) @ (rng.standard_normal((4, 6)) / np.sqrt(6.0))
    return clean + 0.3 * rng.standard_normal(clean.shape), None, {"entry without noise": clean[0]}


def entries_of(model: Any, X: Array, n: int, rng: Any) -> dict[str, Array]:
    """Entries of a row without noise: normal, of their means and standard deviations."""
    mean, std = (part[0] for part in model.reconstruct(X, return_std=True))
    return {"entry without noise": mean + std * rng.standard_normal((n, len(mean)))}


def factors(rng: Any) -> tuple[Array, None, dict[str, Any]]:
    """40 rows of five columns, two factors with loadings Gamma(1, 1), noise of variance 1/2."""
    loadings = rng.gamma(1.0, 1.0, (2, 5))
    X = rng.standard_normal((40, 2)) @ loadings + np.sqrt(0.5) * rng.standard_normal((40, 5))
    return X, None, {"covariance": (loadings.T @ loadings)[np.triu_indices(5)][:6]}


def covariances_of(model: Any, X: Array, n: int, rng: Any) -> dict[str, Array]:
    """Six entries of the covariance of columns that factors explain."""
    drawn = model._posterior_draws(n, rng).variables["loadings"].values
    both = np.einsum("ski,skj->sij", drawn, drawn)
    return {"covariance": both[:, *np.triu_indices(5)][:, :6]}


# ---- likelihoods whose parameters have no prior: these stand at one value
def robust(X: pd.DataFrame, rng: Any) -> tuple[pd.DataFrame, Array, dict[str, Any]]:
    """Coefficients N(0, 1), Student-t noise with four degrees of freedom of scale 1."""
    weights = rng.standard_normal(COLUMNS + 1)
    return X, X.to_numpy() @ weights[:-1] + weights[-1] + rng.standard_t(4.0, len(X)), {"weights": weights}


def ordered(X: pd.DataFrame, rng: Any) -> tuple[pd.DataFrame, Array, dict[str, Any]]:
    """Coefficients N(0, 1), three levels behind cut points at -1 and 1."""
    weights = rng.standard_normal(COLUMNS)
    y = np.searchsorted([-1.0, 1.0], X.to_numpy() @ weights + rng.logistic(size=len(X)))
    return X, y, {"slopes": weights}


def slopes_of(model: Any, X: Any, n: int, rng: Any) -> dict[str, Array]:
    """Coefficients without the intercept."""
    return {"slopes": model._posterior_draws(n, rng).variables["weights"].values[:, :COLUMNS]}


def cases() -> dict[str, Case]:
    """All of them by name."""
    weak: dict[str, Any] = {"intercept_precision": 1.0}
    X, levels = columns(), grouped()
    fixed = {**weak, "prior_precision": 1.0}
    glm, labels = sksvi.BayesianGLMRegressor, sksvi.BayesianGLMClassifier
    units = "units of its own data"
    kernel = ConstantKernel(1.0) * RBF(1.0)
    given: dict[str, Any] = {"kernel": kernel, "optimize_hyperparameters": False}
    points: dict[str, Any] = {"n_inducing": 12, "optimize_inducing": False}
    measured = {f"GLM {name}": Case(glm(likelihood=name, **weak), X) for name in MEASURED}
    walk: dict[str, Any] = {"level": "walk", "level_variance": 0.1, "initial_variance": 1.0}
    return {
        "GLM gaussian, all given": Case(glm(likelihood=lk.Gaussian(variance=1.0), **fixed), X),
        "GLM gaussian, noise learned": Case(glm(**fixed), X, note=units),
        "GLM gaussian": Case(glm(**weak), X, note=units),
        "GLM gaussian, units held": Case(glm(**weak), X, held=True),
        "GLM student-t, scale given": Case(glm(likelihood=lk.StudentT(scale=1.0), **weak), X, held=True),
        "GLM poisson": Case(glm(likelihood="poisson", **weak), X),
        "GLM negative-binomial": Case(glm(likelihood="negative-binomial", **weak), X),
        "GLM binomial, one trial": Case(glm(likelihood="binomial", **weak), X),
        "GLM ordinal, cut points given": Case(glm(likelihood=lk.Ordinal(cut_points=[-1.0, 1.0], slope=1.0), **weak), X),
        **measured,
        "GLM logit": Case(labels(**weak), X),
        "GLM logit, units held": Case(labels(**weak), X, held=True),
        "GLM probit": Case(labels(likelihood="probit", **weak), X),
        "GLM softmax of three": Case(labels(likelihood=lk.Softmax(n_classes=3), **weak), X),
        "GLM logit, covariance diag": Case(labels(covariance="diag", **weak), X),
        "mixed gaussian, units held": Case(sksvi.GMERegressor(noise=False, groups=["site"], **weak), levels, held=True),
        "mixed poisson": Case(
            sksvi.GMERegressor(likelihood="poisson", noise=False, groups=["site"], **weak), levels, held=True
        ),
        "mixed poisson, noise per row": Case(
            sksvi.GMERegressor(likelihood="poisson", noise=True, noise_prior_scale=0.5, **weak), X, held=True
        ),
        "mixed logit": Case(sksvi.GMEClassifier(noise=False, groups=["site"], **weak), levels, held=True),
        "GPClassifier, kernel given": Case(
            sksvi.GPClassifier(**given), simulate=partial(process, lk.Bernoulli()), quantities=f_and_hyper
        ),
        "GPClassifier": Case(
            sksvi.GPClassifier(kernel=kernel),
            simulate=partial(process, lk.Bernoulli(), learned=True),
            quantities=f_and_hyper,
        ),
        "SparseGPRegressor, all given": Case(
            sksvi.SparseGPRegressor(noise_variance=0.25, **given, **points),
            simulate=partial(process, lk.Gaussian(variance=0.25)),
            quantities=f_and_hyper,
        ),
        "SparseGPRegressor": Case(
            sksvi.SparseGPRegressor(kernel=kernel, **points),
            simulate=partial(process, lk.Gaussian(variance=0.25), learned=True),
            quantities=f_and_hyper,
            note=units,
        ),
        "SparseGPClassifier, kernel given": Case(
            sksvi.SparseGPClassifier(**given, **points),
            simulate=partial(process, lk.Bernoulli()),
            quantities=f_and_hyper,
        ),
        "DynamicGLM gaussian, variances given": Case(
            sksvi.DynamicGLM(likelihood=lk.Gaussian(variance=0.5), **walk),
            simulate=partial(series, lk.Gaussian(variance=0.5)),
            quantities=f_of_series,
        ),
        "DynamicGLM poisson, variances given": Case(
            sksvi.DynamicGLM(likelihood="poisson", **walk),
            simulate=partial(series, lk.Poisson()),
            quantities=f_of_series,
        ),
        "DynamicGLM logit, variances given": Case(
            sksvi.DynamicGLM(likelihood="logit", **walk),
            simulate=partial(series, lk.Bernoulli()),
            quantities=f_of_series,
        ),
        "BernoulliMixture, priors given": Case(
            sksvi.BernoulliMixture(2, concentration=20.0, probability_prior=1.0),
            simulate=bits,
            quantities=of_mixture,
        ),
        "GeneralizedPMF gaussian": Case(
            sksvi.GeneralizedPMF(2, biases=False, likelihood=lk.Gaussian(variance=0.25)),
            simulate=partial(ratings, likelihood=lk.Gaussian(variance=0.25)),
            quantities=f_of_pairs,
            note="precisions of factors learned, drawn at 1",
        ),
        "GeneralizedPMF poisson": Case(
            sksvi.GeneralizedPMF(2, biases=False, likelihood="poisson"),
            simulate=partial(ratings, likelihood=lk.Poisson()),
            quantities=f_of_pairs,
            note="precisions of factors learned, drawn at 1",
        ),
        "GeneralizedPMF gaussian, variational": Case(
            sksvi.GeneralizedPMF(2, biases=False, likelihood=lk.Gaussian(variance=0.25), uncertainty="variational"),
            simulate=partial(ratings, likelihood=lk.Gaussian(variance=0.25)),
            quantities=f_of_pairs,
            note="precisions of factors learned, drawn at 1",
        ),
        "PoissonFactorization": Case(
            sksvi.PoissonFactorization(2, component_shape=0.5, activation_shape=0.5),
            simulate=counted,
            quantities=f_of_pairs,
            note="rates learned, drawn at 1/2",
        ),
        "PoissonFactorization, variational": Case(
            sksvi.PoissonFactorization(2, component_shape=0.5, activation_shape=0.5, uncertainty="variational"),
            simulate=counted,
            quantities=f_of_pairs,
            note="rates learned, drawn at 1/2",
        ),
        "CategoricalMixture, priors given": Case(
            sksvi.CategoricalMixture(2, concentration=20.0, probability_prior=1.0),
            simulate=answers,
            quantities=of_mixture,
        ),
        "StructuredLDA, priors given": Case(
            sksvi.StructuredLDA(2, doc_topic_prior=0.5, topic_word_prior=0.5),
            simulate=partial(documents, correlated=False),
            quantities=words_of,
        ),
        "CorrelatedTopicModel": Case(
            sksvi.CorrelatedTopicModel(2, topic_word_prior=0.5),
            simulate=partial(documents, correlated=True),
            quantities=words_of,
        ),
        "GammaPoissonFactorization": Case(
            sksvi.GammaPoissonFactorization(2, component_shape=0.5, activation_shape=0.5),
            simulate=partial(cells, weights=False),
            quantities=rates_of,
            note="rates learned, drawn at 1/2",
        ),
        "GammaProcessNMF, mean given": Case(
            sksvi.GammaProcessNMF(2, component_shape=0.5, activation_shape=0.5, prior_mean=2.0),
            simulate=partial(cells, weights=True),
            quantities=rates_of,
        ),
        "GammaFactorModel, noise given": Case(
            sksvi.GammaFactorModel(2, noise_variance=0.5, prior_shape=1.0, prior_rate=1.0, fit_mean=False),
            simulate=factors,
            quantities=covariances_of,
        ),
        "BetaProcessFA, precisions given": Case(
            sksvi.BetaProcessFA(4, noise=0.3, weight_precision=1.0),
            simulate=pixels,
            quantities=entries_of,
            note=units,
        ),
        "GLM student-t, scale learned": Case(
            glm(likelihood=lk.StudentT(df=4.0), **fixed),
            simulate=partial(robust, X),
            note="scale without a prior, drawn at 1",
        ),
        "GLM ordinal, cut points learned": Case(
            glm(likelihood="ordinal", **fixed),
            simulate=partial(ordered, X),
            quantities=slopes_of,
            note="cut points without a prior, drawn at -1 and 1",
        ),
    }
