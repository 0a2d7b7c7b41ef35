"""Small problems for every likelihood, and the bound computed on a grid of its own: shared by the tests of the core."""

from __future__ import annotations

import re

import numpy as np
from scipy.linalg import block_diag

from sksvi import algorithms, expectations
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.likelihoods import Gaussian, NegativeBinomial, Ordinal, StudentT
from sksvi.models.data import Table
from sksvi.models.linear.glm import LinearModel
from support.likelihood_cases import TRUTH

#: Likelihoods with their scales to be learned.
LEARNED = {
    "negative-binomial": NegativeBinomial(),
    "gaussian": Gaussian(),
    "student-t": StudentT(),
    "ordinal": Ordinal(),
}
NAMES = list(TRUTH)
#: Likelihoods of `BayesianGLMRegressor` whose targets are one kind of number each.
REGRESSORS = "gaussian student-t poisson poisson-softplus negative-binomial binomial logit probit ordinal".split()


def design(n, d, seed, dtype=float):
    """Well-conditioned columns of mean 0 and sd about 1."""
    return np.random.default_rng([seed, 1]).standard_normal((n, d)).astype(dtype)


def simulate(name, X, seed, shift=0.0):
    """Targets for the rows of X, every level present."""
    rng = np.random.default_rng([seed, 2])
    likelihood = TRUTH[name]
    k = likelihood.n_latents
    w = (
        np.linspace(-0.7, 0.7, X.shape[1])
        if k == 1
        else rng.permuted(np.linspace(-1, 1, k * X.shape[1])).reshape(-1, k)
    )
    f = X @ w * min(1.0, 3.0 / X.shape[1] ** 0.5) + (0.3 if k == 1 else 0.0) + shift
    if likelihood.traits.paired:
        trials = rng.integers(1, 6, len(X))
        return likelihood.sample_trials(f, trials, rng).astype(float)
    y = likelihood.sample(f, rng)
    if likelihood.traits.ordered or likelihood.n_latents > 1:
        y[:4] = np.arange(4) % (4 if likelihood.traits.ordered else k)
    return y.astype(int) if likelihood.n_latents > 1 else y.astype(float)


def data_for(name, n=60, d=3, seed=0, weight=False, offset=False):
    """A small problem."""
    X = design(n, d, seed)
    rng = np.random.default_rng([seed, 3])
    shift = 0.5 * rng.standard_normal(n) if offset and TRUTH[name].n_latents == 1 else None
    y = simulate(name, X, seed, 0.0 if shift is None else shift)
    return Table(X, y, rng.uniform(0.2, 2.0, n) if weight else None, shift)


def model_for(name, data, full=True, learned=False, prior_precision=1.5, intercept=True, **options):
    """The GLM of that likelihood."""
    likelihood = LEARNED.get(name, TRUTH[name]) if learned else TRUTH[name]
    return LinearModel(
        likelihood.start(data.y, data.weight),
        prior_precision=prior_precision,
        intercept_precision=0.2,
        n_features=data.X.shape[1],
        fit_intercept=intercept,
        full=full,
        **options,
    )


def problem_for(model, data, algorithm="mc-ssvi", expectation="auto", **options):
    """What the engine needs."""
    return plan.problem(model, data, algorithms.resolve(algorithm), expectations.resolve(expectation), **options)


def fitted(problem, seed=0, max_iter=300, tol=1e-9):
    """The state after a fit that nobody watches."""
    return plan.run(problem, first_state(problem, seed), max_iter, tol)


def rows_of(model, data):
    """Dense [X, 1]."""
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    return np.column_stack([X, np.ones(len(X))]) if model.fit_intercept else X


def expected_log_prob(likelihood, y, m, v):
    """E log p(y | f) per row on a dense grid (a product rule for K latents), no rule of the library.

    m (n,) and v (n,), or m (n, K) and v (n, K, K).
    """
    if likelihood.n_latents == 1:
        z = np.linspace(-9.0, 9.0, 3001)[:, None]
        weight = np.exp(-0.5 * z**2)
        values = likelihood.log_prob(y if y.ndim == 1 else y[None], m + np.sqrt(v) * z)
        return (weight * values).sum(0) / weight.sum()
    z, weight = np.polynomial.hermite_e.hermegauss(24)
    grid = np.stack(np.meshgrid(*[z] * likelihood.n_latents, indexing="ij"), -1).reshape(-1, likelihood.n_latents)
    mass = np.prod(np.stack(np.meshgrid(*[weight] * likelihood.n_latents, indexing="ij"), -1), -1).ravel()
    values = likelihood.log_prob(y[None], m + np.einsum("njk,sk->snj", np.linalg.cholesky(v), grid))
    return mass @ values / mass.sum()


def flat_moments(weights):
    """Mean (K P,) and covariance (K P, K P) of a block, whatever it makes of its classes."""
    weights = weights.dense() if hasattr(weights, "dense") else getattr(weights, "joint", weights)
    if weights.mean.ndim == 1:
        return weights.mean, weights.cov
    return weights.mean.ravel(), block_diag(*weights.cov)


def latent_moments(mean, cov, A, offset=None):
    """Mean and variance of the latents of rows A, (n,) and (n,), or (n, K) and (n, K, K); of flat moments."""
    p = A.shape[1]
    k = len(mean) // p
    if k == 1:
        m, v = A @ mean, np.einsum("ij,jk,ik->i", A, cov, A)
    else:
        m = A @ mean.reshape(k, p).T
        v = np.einsum("ip,apbq,iq->iab", A, cov.reshape(k, p, k, p), A)
    return (m if offset is None else m + offset), v


def kl_to_diagonal(mean, cov, precision):
    """KL(N(mean, cov) || N(0, diag(1/precision)))."""
    precision = np.ravel(precision)
    total = precision @ np.diag(cov) + precision @ mean**2 - len(mean) - np.log(precision).sum()
    return 0.5 * (total - np.linalg.slogdet(cov)[1])


def grid_bound(model, data, q):
    """The bound at q by dense quadrature and the closed form of the divergence."""
    mean, cov = flat_moments(q["weights"])
    m, v = latent_moments(mean, cov, rows_of(model, data), data.offset)
    values = expected_log_prob(model.current_likelihood(q), data.y, m, v)
    weight = np.ones(len(data)) if data.weight is None else data.weight
    return weight @ values - kl_to_diagonal(mean, cov, model.prior(q)["weights"].precision)


def gaussian_answer(A, y, noise, precision, weight=None, offset=None):
    """Posterior mean, precision and log evidence of y ~ N(A w + offset, noise / weight), w ~ N(0, diag(1/precision)).

    A weight multiplies the log likelihood, so the normalising constants count `weight` times.
    """
    weight = np.ones(len(A)) if weight is None else weight
    r = y if offset is None else y - offset
    posterior = np.diag(precision) + (A.T * weight) @ A / noise
    mean = np.linalg.solve(posterior, A.T @ (weight * r) / noise)
    fit = weight @ (r - A @ mean) ** 2 / noise + precision @ mean**2
    log_det = np.linalg.slogdet(posterior)[1] - np.log(precision).sum()
    return mean, posterior, -0.5 * (fit + log_det + weight.sum() * np.log(2 * np.pi * noise))


def header(text):
    """The lines of a `summary_text` between its title and its table, by name."""
    lines = text.partition("\n\n")[0].split("\n")[1:]
    return dict(re.split(r" {2,}", line, maxsplit=1) for line in lines)


def best_of(start, number=3):
    """The fit with the highest bound of several starts: one may end in a lesser optimum."""
    return max((start(seed) for seed in range(number)), key=lambda model: model.lower_bound_)
