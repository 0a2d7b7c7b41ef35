"""P(Y < y) and P(Y <= y): of counts, of levels, of successes in few and many trials."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import betabinom, binom, norm, poisson

from sksvi.likelihoods import BetaBinomial, Binomial, Gaussian, Poisson, Softmax
from sksvi.predictive import NoisyPredictive, Predictive

Z = np.linspace(-9.0, 9.0, 40_001)
WEIGHT = norm.pdf(Z) / norm.pdf(Z).sum()


def test_counts_and_measured_values():
    below, at_most = Predictive(Poisson(), np.zeros(3), np.zeros(3)).cdf_steps([0, 1, 4])
    assert_allclose(below, poisson.cdf([-1, 0, 3], 1.0), atol=1e-12)
    assert_allclose(at_most, poisson.cdf([0, 1, 4], 1.0), atol=1e-12)
    below, at_most = Predictive(Gaussian(variance=3.0), [0.5], [1.0]).cdf_steps([1.5])
    assert_array_equal(below, at_most)
    assert_allclose(at_most, norm.cdf(0.5))
    with pytest.raises(ValueError, match="classes of Softmax have no order"):
        Predictive(Softmax(3), np.zeros((1, 3)), np.zeros((1, 3))).cdf_steps([1])


@pytest.mark.parametrize("trials", [1, 5, 50, 1000, 20_000])
@pytest.mark.parametrize("variance", [0.0, 0.01, 0.5, 50.0])
def test_successes_in_few_and_many_trials(trials, variance):
    """The probability falls the more steeply in f the more trials there are: the grid has to follow it."""
    k = np.unique([0, trials // 3, trials // 2, trials - 1, trials])
    y = np.column_stack([k, trials - k])
    m, v = np.full(len(k), 0.3), np.full(len(k), variance)
    below, at_most = Predictive(Binomial(), m, v).cdf_steps(y)
    p = expit(0.3 + np.sqrt(variance) * Z)
    assert_allclose(at_most, binom.cdf(k[:, None], trials, p) @ WEIGHT, atol=1e-6)
    assert_allclose(below, binom.cdf(k[:, None] - 1, trials, p) @ WEIGHT, atol=1e-6)
    assert below[0] == 0 and at_most[-1] == 1


@pytest.mark.parametrize("precision", [0.5, 4.0, 300.0])
@pytest.mark.parametrize("trials", [1, 10, 2000])
def test_successes_of_varying_probability(trials, precision):
    k = np.unique([0, trials // 3, trials - 1])
    y, m = np.column_stack([k, trials - k]), np.full(len(k), 0.3)
    below, at_most = Predictive(BetaBinomial(precision=precision), m, np.zeros(len(k))).cdf_steps(y)
    shapes = precision * expit(0.3), precision * expit(-0.3)
    assert_allclose(at_most, betabinom.cdf(k, trials, *shapes), atol=1e-9)
    assert_allclose(below, betabinom.cdf(k - 1, trials, *shapes), atol=1e-9)


@pytest.mark.parametrize("trials", [1, 50, 1000])
def test_successes_with_noise_of_each_row(trials):
    sigma, k = 0.8, np.array([0, trials // 2])
    found = NoisyPredictive(Binomial(), [0.3, 0.3], [0.1, 0.1], sigma).cdf_steps(np.column_stack([k, trials - k]))
    r = np.linspace(0.0, 8.0, 401)[1:]
    weight, z = r * np.exp(-0.5 * r * r), Z[::40]
    p = expit(0.3 + np.sqrt(0.1 + sigma * r)[:, None] * z)
    for part, at in zip(found, (k - 1, k), strict=True):
        wanted = [
            weight @ (binom.cdf(count, trials, p) @ norm.pdf(z)) / weight.sum() / norm.pdf(z).sum() for count in at
        ]
        assert_allclose(part, wanted, atol=1e-4)
