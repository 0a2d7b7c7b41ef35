"""Draws with log q - log prior: its mean is the divergence, and it is the difference of two densities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, gamma, multivariate_normal, rayleigh

from sksvi.families import Beta, DiagonalGaussian, Gamma, Gaussian, Rayleigh, StandardGaussian
from sksvi.families.gaussian.chain import Chain, ChainGaussian
from sksvi.families.gaussian.dual import SiteGaussian

N = 40_000


def spd(rng, *shape):
    A = rng.standard_normal((*shape, shape[-1]))
    return A @ np.swapaxes(A, -1, -2) + np.eye(shape[-1])


def chain(T):
    none = np.empty(0, np.int64)
    return Chain(
        np.empty((T, 0)),
        np.ones(1),
        none,
        np.zeros(1, np.int64),
        none,
        np.empty(0),
        np.ones(1),
        np.zeros(1),
        np.eye(1),
        none,
    )


def pairs(rng):
    """q and prior."""
    mean, wide = rng.standard_normal(3), DiagonalGaussian(np.ones(3), np.full(3, 0.5))
    K = spd(rng, 4)
    level = ChainGaussian(chain(5))
    return {
        "full": (Gaussian(mean, spd(rng, 3)), wide),
        "diagonal": (DiagonalGaussian(mean, rng.gamma(2, 1, 3)), wide),
        "standard": (StandardGaussian(mean, np.linalg.cholesky(spd(rng, 3))), wide),
        "plates": (
            Gaussian(rng.standard_normal((2, 3)), spd(rng, 2, 3)),
            DiagonalGaussian(np.zeros((2, 3)), np.ones((2, 3))),
        ),
        "messages": (SiteGaussian(K, rng.standard_normal(4), rng.gamma(2, 1, 4)), SiteGaussian(K)),
        "chain": (ChainGaussian(level.chain, rng.standard_normal(5), rng.gamma(2, 1, 5)), level),
        "rayleigh": (Rayleigh(0.7), Rayleigh(2.0)),
        "gamma": (Gamma(np.array([2.0, 5.0]), np.array([1.0, 3.0])), Gamma(np.ones(2), np.ones(2))),
        "beta": (Beta(np.array([2.0, 5.0]), np.array([1.0, 3.0])), Beta(np.ones(2), np.ones(2))),
    }


@pytest.mark.parametrize("name", pairs(np.random.default_rng(0)))
def test_the_mean_is_the_divergence(name, global_random_seed):
    q, prior = pairs(np.random.default_rng(global_random_seed))[name]
    draws, above = q.draws_against(prior, N, global_random_seed)
    assert draws.shape == (N, *np.shape(q.mean)) and above.shape == (N,)
    assert abs(above.mean() - q.kl(prior)) < 4 * above.std() / np.sqrt(N)
    again = q.draws_against(prior, N, global_random_seed)
    np.testing.assert_array_equal(again[0], draws)


def test_it_is_the_difference_of_two_densities(global_random_seed):
    found = pairs(np.random.default_rng(global_random_seed))
    for name in ("full", "diagonal", "standard"):
        q, prior = found[name]
        draws, above = q.draws_against(prior, 50, global_random_seed)
        densities = (multivariate_normal.logpdf(draws, part.mean, part.cov) for part in (q, prior))
        np.testing.assert_allclose(above, np.subtract(*densities), atol=1e-9)
    q, prior = found["messages"]
    draws, above = q.draws_against(prior, 50, global_random_seed)
    densities = (multivariate_normal.logpdf(draws, part.mean, part.cov) for part in (q, prior))
    np.testing.assert_allclose(above, np.subtract(*densities), atol=1e-8)
    q, prior = found["chain"]
    draws, above = q.draws_against(prior, 50, global_random_seed)
    mean, cov = prior.chain.dense()
    S = np.linalg.inv(np.linalg.inv(cov) + np.diag(q.weights))
    densities = multivariate_normal.logpdf(draws, q.mean, S), multivariate_normal.logpdf(draws, mean, cov)
    np.testing.assert_allclose(above, np.subtract(*densities), atol=1e-8)
    q, prior = found["rayleigh"]
    x, above = q.draws_against(prior, 50, global_random_seed)
    own, other = (rayleigh.logpdf(x[:, 0], scale=part.scale) for part in (q, prior))
    np.testing.assert_allclose(above, own - other, atol=1e-9)
    q, prior = found["gamma"]
    x, above = q.draws_against(prior, 50, global_random_seed)
    own, other = (gamma.logpdf(x, part.shape, scale=1 / part.rate).sum(1) for part in (q, prior))
    np.testing.assert_allclose(above, own - other, atol=1e-9)
    q, prior = found["beta"]
    x, above = q.draws_against(prior, 50, global_random_seed)
    own = beta.logpdf(x, [2.0, 5.0], [1.0, 3.0]).sum(1)
    np.testing.assert_allclose(above, own, atol=1e-9)
