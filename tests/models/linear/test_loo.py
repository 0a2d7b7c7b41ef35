"""Leave-one-out losses, and what likelihoods learn from them."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sksvi.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Poisson
from sksvi.models.linear.loo import LeftOut, averaged_losses, curvature, judging_losses, learned, mode_losses

N = 200


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 44])


def left_out(rng, count=False):
    mean, variance = rng.standard_normal((N, 1)), rng.uniform(0.1, 0.6, (N, 1))
    f = mean[:, 0] + np.sqrt(variance[:, 0]) * rng.standard_normal(N)
    y = rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, N)) * 1.0 if count else f + 0.7 * rng.standard_normal(N)
    return LeftOut(y, mean, variance, rng.integers(1, 4, N) * 1.0)


@pytest.mark.parametrize("likelihood", [Gaussian(variance=0.3), Poisson(), NegativeBinomial(dispersion=0.5)], ids=str)
def test_averages_are_integrals(likelihood, rng):
    rows = left_out(rng, likelihood.noise_variance is None)
    found = averaged_losses(likelihood, rows)
    for i in range(0, N, 40):
        m, sd = rows.mean[i, 0], np.sqrt(rows.variance[i, 0])
        exact = quad(
            lambda f, i=i, m=m, sd=sd: np.exp(likelihood.log_prob(rows.y[i], f)) * norm.pdf(f, m, sd),
            m - 9 * sd,
            m + 9 * sd,
        )[0]
        np.testing.assert_allclose(found[i], -np.log(exact), rtol=1e-3)
    np.testing.assert_allclose(mode_losses(likelihood, rows), -likelihood.log_prob(rows.y, rows.mean[:, 0]))


def test_noise_is_that_of_the_least_loss(rng):
    """Variances of latents follow the noise, as they do under a prior that is a multiple of it."""
    rows = left_out(rng)
    likelihood = Gaussian().start(rows.y, rows.weight)
    before = likelihood.noise_variance
    found, factor = learned(likelihood, rows)
    assert found.noise_variance == pytest.approx(factor * before)

    def loss(noise):
        at = rows._replace(variance=rows.variance * noise / before)
        return rows.weight @ averaged_losses(Gaussian(variance=noise), at)

    best = loss(found.noise_variance)
    assert best < min(loss(found.noise_variance * share) for share in (0.9, 0.99, 1.01, 1.1))


def test_noise_beside_variances_that_stay_is_that_of_the_least_loss(rng):
    rows = left_out(rng)
    found, factor = learned(Gaussian().start(rows.y, rows.weight), rows, tied=False)
    assert factor == 1.0

    def loss(noise):
        return rows.weight @ averaged_losses(Gaussian(variance=noise), rows)

    best = loss(found.noise_variance)
    assert best < min(loss(found.noise_variance * share) for share in (0.9, 0.99, 1.01, 1.1))


def test_a_dispersion_is_that_of_the_least_loss(rng):
    rows = left_out(rng, count=True)
    likelihood = NegativeBinomial().start(rows.y, rows.weight)
    found, factor = learned(likelihood, rows)
    assert factor == 1.0

    def loss(dispersion):
        own = likelihood.replace(np.log([dispersion]))
        return rows.weight @ averaged_losses(own, rows) - own.scales.prior()[0]

    best = loss(found.dispersion)
    assert best < min(loss(found.dispersion * share) for share in (0.8, 0.95, 1.05, 1.25))


def test_the_curvature_of_noise_is_half_its_rows(rng):
    """Where variances move with the noise; nothing given or not informed has one."""
    rows = left_out(rng)
    likelihood, factor = learned(Gaussian().start(rows.y, rows.weight), rows)
    rows = rows._replace(variance=factor * rows.variance)
    np.testing.assert_allclose(curvature(likelihood, rows), 0.5 * rows.weight.sum(), rtol=1e-3)
    assert curvature(Gaussian(variance=0.3), rows) is None


def test_what_is_given_or_not_informed_stays(rng):
    rows = left_out(rng, count=True)
    for likelihood in (Poisson(), Gaussian(variance=2.0)):
        assert learned(likelihood, rows) == (likelihood, 1.0)
    zeros = rows._replace(y=np.zeros(N))
    likelihood = NegativeBinomial().start(zeros.y)
    assert learned(likelihood, zeros) == (likelihood, 1.0)


def test_noise_does_not_fall_below_its_least(rng):
    rows = left_out(rng)
    likelihood = Gaussian().start(rows.y)
    found, _ = learned(likelihood, rows._replace(mean=rows.y[:, None], variance=np.zeros((N, 1))))
    assert found.noise_variance == pytest.approx(likelihood.least, rel=1e-6)


def test_losses_that_judge(rng):
    """Labels at the mode, learned noise averaged, others the better of both."""
    rows = left_out(rng, count=True)
    labels = rows._replace(y=(rows.y > 1) * 1.0)
    np.testing.assert_array_equal(judging_losses(Bernoulli(), labels), mode_losses(Bernoulli(), labels))
    learns = NegativeBinomial().start(rows.y)
    np.testing.assert_array_equal(judging_losses(learns, rows), averaged_losses(learns, rows))
    both = [kind(Poisson(), rows) for kind in (mode_losses, averaged_losses)]
    best = min(both, key=lambda losses: rows.weight @ losses)
    np.testing.assert_array_equal(judging_losses(Poisson(), rows), best)
