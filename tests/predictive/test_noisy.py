"""NoisyPredictive: moments against draws, densities and distribution functions against dense grids, quantiles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from sksvi.likelihoods import (
    Bernoulli,
    Binomial,
    Gaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Softmax,
    StudentT,
)
from sksvi.predictive import Predictive
from sksvi.predictive.noisy import NoisyPredictive

CASES = {
    "logit": (Bernoulli(), 1.0),
    "probit": (Bernoulli(link="probit"), 0.0),
    "binomial": (Binomial(), [3.0, 9.0]),
    "poisson": (Poisson(), 4.0),
    "poisson-500": (Poisson(), 500.0),
    "softplus": (Poisson(rate="softplus"), 3.0),
    "softplus-40": (Poisson(rate="softplus"), 40.0),
    "negative-binomial": (NegativeBinomial(dispersion=0.5), 4.0),
    "gaussian": (Gaussian(variance=0.3), 0.7),
    "gaussian-far": (Gaussian(variance=0.3), 30.0),
    "student": (StudentT(scale=0.5, df=4.0), 3.0),
    "ordinal": (Ordinal(cut_points=[-1.0, 0.5, 2.0]), 1.0),
}
M = np.array([-1.0, 0.3, 2.0])


def of_y(name, v=0.3, sigma=1.0, m=M):
    return NoisyPredictive(CASES[name][0], m, np.full(len(m), v), sigma)


def noise_grid(last):
    x, w = np.polynomial.legendre.leggauss(8)
    edges = np.concatenate([[0.0], np.geomspace(1e-5, 0.5, 8), np.arange(1.0, last, 0.8)])
    half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    return (middle + half * x).ravel(), (half * w).ravel()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("v", "sigma"), [(1e-4, 0.01), (0.5, 1.0), pytest.param(1e-3, 10.0, marks=pytest.mark.exhaustive)]
)
def test_log_density_against_a_dense_grid(name, v, sigma):
    likelihood, y = CASES[name]
    y = np.repeat(np.asarray(y)[None], 3, axis=0)
    # far observations are due to noise far beyond the bulk of its distribution
    r, width = noise_grid(30.0)
    terms = [np.log(w * a) - 0.5 * a * a for a, w in zip(r, width, strict=True)]
    parts = [Predictive(likelihood, M, np.full(3, v + sigma * a)).log_prob(y) for a in r]
    terms = np.array(terms)[:, None] + np.array(parts)
    top = terms.max(axis=0)
    wanted = top + np.log(np.exp(terms - top).sum(axis=0))
    np.testing.assert_allclose(of_y(name, v, sigma).log_prob(y), wanted, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if name != "binomial"])
@pytest.mark.parametrize(("v", "sigma"), [(1e-4, 0.01), (0.5, 1.0), (1e-3, 10.0)])
def test_distribution_function_against_a_dense_grid(name, v, sigma):
    likelihood, y = CASES[name]
    y = np.full(3, y)
    r, width = noise_grid(9.0)
    wanted = np.zeros(3)
    for a, w in zip(r, width, strict=True):
        given = v + sigma * a
        if isinstance(likelihood, Gaussian):
            cdf = ndtr((y - M) / np.sqrt(given + likelihood.scales.noise))
        else:
            cdf = Predictive(likelihood, M, np.full(3, given)).cdf(y)
        wanted += w * a * np.exp(-0.5 * a * a) * cdf
    np.testing.assert_allclose(of_y(name, v, sigma).cdf(y), wanted, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_moments_against_draws(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    n = 40_000
    # a rate exp(f) has moments that draws reach only where the noise is small
    predictive = of_y(name, 0.1, 0.15)
    draws = predictive.sample(n, rng)
    assert draws.shape == (3, n)
    assert np.all(np.abs(draws.mean(axis=1) - predictive.mean()) <= 4 * draws.std(axis=1) / np.sqrt(n))
    squares = (draws - predictive.mean()[:, None]) ** 2
    if name != "student":  # its fourth moment is infinite
        error = squares.std(axis=1) / np.sqrt(n) + 1e-9
        assert np.all(np.abs(squares.mean(axis=1) - predictive.variance()) <= 4.5 * error)
    np.testing.assert_allclose(predictive.std() ** 2, predictive.variance())


@pytest.mark.parametrize("name", ["poisson", "negative-binomial"])
def test_closed_moments_of_an_exponential_rate(name):
    likelihood, sigma, v = CASES[name][0], 1.5, 0.2
    r, width = noise_grid(25.0)
    weight = width * r * np.exp(-0.5 * r * r)
    parts = [Predictive(likelihood, M, np.full(3, v + sigma * a)) for a in r]
    mean = weight @ np.array([part.mean() for part in parts])
    square = weight @ np.array([part.variance() + part.mean() ** 2 for part in parts])
    predictive = of_y(name, v, sigma)
    np.testing.assert_allclose(predictive.mean(), mean, rtol=1e-6)
    np.testing.assert_allclose(predictive.variance(), square - mean**2, rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_intervals_cover(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    n = 20_000
    predictive = of_y(name, 0.2, 1.0)
    draws, interval = predictive.sample(n, rng), predictive.interval(0.8)
    inside = ((draws >= interval[:, :1]) & (draws <= interval[:, 1:])).mean(axis=1)
    error = 4 * np.sqrt(0.8 * 0.2 / n)
    assert np.all(inside >= 0.8 - error)
    if not CASES[name][0].traits.discrete:
        assert np.all(inside <= 0.8 + error)


@pytest.mark.parametrize("name", ["poisson", "softplus", "negative-binomial"])
def test_count_quantile_is_the_smallest_that_reaches(name):
    predictive = of_y(name, 0.5, 2.0)
    for level in (0.01, 0.5, 0.99):
        y = predictive.quantile(level)[:, 0]
        assert np.all(y == np.floor(y))
        assert np.all(predictive.cdf(y) >= level)
        assert np.all(np.where(y > 0, predictive.cdf(np.maximum(y - 1.0, 0.0)), 0.0) < level)


@pytest.mark.parametrize("name", ["gaussian", "student"])
def test_continuous_quantile_inverts_the_distribution_function(name):
    predictive = of_y(name, 0.5, 2.0)
    levels = [1e-4, 0.05, 0.5, 0.95, 0.9999]
    y = predictive.quantile(levels)
    assert np.all(np.diff(y, axis=1) > 0)
    for k, level in enumerate(levels):
        np.testing.assert_allclose(predictive.cdf(y[:, k]), level, atol=1e-9)


@pytest.mark.parametrize("name", ["logit", "probit", "binomial", "ordinal"])
def test_probabilities_are_those_of_the_density(name):
    predictive = of_y(name)
    p = predictive.probabilities()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    for k in range(p.shape[1]):
        y = np.full(3, float(k)) if name != "binomial" else np.tile([float(k), 1.0 - k], (3, 1))
        np.testing.assert_allclose(np.log(p[:, k]), predictive.log_prob(y), atol=1e-6)
    if name != "ordinal":
        np.testing.assert_allclose(predictive.mean(), p[:, 1], rtol=1e-6)


def test_masses_of_counts_sum_to_the_distribution_function():
    counts = np.arange(200.0)
    for name in ("softplus", "negative-binomial"):
        predictive = NoisyPredictive(CASES[name][0], np.full(200, 0.4), np.full(200, 0.2), 0.7)
        total = np.cumsum(np.exp(predictive.log_prob(counts)))
        np.testing.assert_allclose(predictive.cdf(counts), total, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_little_noise_is_none(name):
    likelihood, y = CASES[name]
    y = np.repeat(np.asarray(y)[None], 3, axis=0)
    plain, noisy = Predictive(likelihood, M, np.full(3, 0.4)), of_y(name, 0.4, 1e-9)
    np.testing.assert_allclose(noisy.mean(), plain.mean(), rtol=1e-6)
    np.testing.assert_allclose(noisy.variance(), plain.variance(), rtol=1e-6)
    np.testing.assert_allclose(noisy.log_prob(y), plain.log_prob(y), rtol=1e-6)
    np.testing.assert_allclose(noisy.quantile([0.2, 0.7]), plain.quantile([0.2, 0.7]), rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_row_does_not_depend_on_the_others(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    likelihood, y = CASES[name]
    y = np.repeat(np.asarray(y)[None], 12, axis=0)
    m, v = rng.normal(0.0, 1.0, 12), 10.0 ** rng.uniform(-3, 1, 12)
    whole = NoisyPredictive(likelihood, m, v, 0.8)
    for part in (np.array([5]), np.arange(2, 9)):
        own = NoisyPredictive(likelihood, m[part], v[part], 0.8)
        np.testing.assert_array_equal(own.mean(), whole.mean()[part])
        np.testing.assert_array_equal(own.variance(), whole.variance()[part])
        np.testing.assert_array_equal(own.log_prob(y[part]), whole.log_prob(y)[part])
        np.testing.assert_array_equal(own.quantile(0.7), whole.quantile(0.7)[part])


def test_attributes_and_errors():
    predictive = of_y("gaussian", 0.5, 2.0)
    np.testing.assert_allclose(predictive.latent_mean, M)
    np.testing.assert_allclose(predictive.latent_variance, 0.5 + 2.0 * np.sqrt(np.pi / 2))
    assert predictive.likelihood is CASES["gaussian"][0]
    for sigma in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="sigma"):
            of_y("gaussian", 0.5, sigma)
    with pytest.raises(ValueError, match="3 latents"):
        NoisyPredictive(Softmax(n_classes=3), np.zeros((2, 3)), np.ones((2, 3)), 1.0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        predictive.quantile(1.0)
    with pytest.raises(ValueError, match="samples"):
        predictive.sample(0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="no classes"):
        predictive.probabilities()


def test_float32_stays_float32():
    predictive = NoisyPredictive(Poisson(), M.astype(np.float32), np.full(3, 0.3, dtype=np.float32), 0.5)
    for part in (predictive.mean(), predictive.variance(), predictive.log_prob(np.ones(3)), predictive.quantile(0.5)):
        assert part.dtype == np.float32
