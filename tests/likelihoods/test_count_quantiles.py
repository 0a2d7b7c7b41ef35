"""Quantiles of counts, against SciPy's where those are right and against mpmath where they are not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sksvi.likelihoods import NegativeBinomial, Poisson
from sksvi.likelihoods.count_quantiles import binomial_quantile, bisected, negative_binomial_quantile, poisson_quantile

LEVELS = np.array([1e-6, 0.025, 0.5, 0.9, 0.975, 1 - 1e-9])


def test_small_counts_have_scipys_quantiles():
    mean = np.array([1e-8, 0.3, 1.0, 7.5, 40.0, 3e3, 2e5])[:, None]
    np.testing.assert_array_equal(poisson_quantile(LEVELS, mean), stats.poisson.ppf(LEVELS, mean))
    for size in (0.02, 0.7, 3.0, 250.0, 1e7):
        wanted = stats.nbinom.ppf(LEVELS, size, size / (size + mean))
        np.testing.assert_array_equal(negative_binomial_quantile(LEVELS, size, mean), wanted)
    n, chance = np.array([1.0, 12.0, 400.0, 1e6])[:, None, None], np.array([0.0, 1e-7, 0.2, 0.5, 0.99, 1.0])[:, None]
    np.testing.assert_array_equal(binomial_quantile(LEVELS, n, chance), stats.binom.ppf(LEVELS, n, chance))


def test_a_quantile_is_a_number_at_the_ends_and_no_number_of_none():
    np.testing.assert_array_equal(poisson_quantile(np.array([0.0, 1.0, np.nan]), 5.0), [0.0, np.inf, np.nan])
    assert np.shape(poisson_quantile(0.5, 5.0)) == ()
    assert poisson_quantile(np.zeros((0, 2)), np.ones(2)).shape == (0, 2)


# mean, size, quantile at 0.95: the incomplete beta function by quadrature with 35 digits of mpmath
LARGE = [
    (1e09, 1.5, 2604909302),
    (1e09, 30, 1318032413),
    (1e09, 9900, 1016588709),
    (1e09, 11000, 1015734663),
    (1e09, 1e09, 1000073561),
    (1e09, 1e15, 1000052015),
    (1e12, 1.5, 2604909301085),
    (1e12, 30, 1318032408136),
    (1e12, 9900, 1016588627236),
    (1e12, 11000, 1015734576876),
    (1e12, 1e09, 1000052041409),
    (1e12, 1e15, 1000001645676),
    (1e15, 1.5, 2604909301083727),
    (1e15, 30, 1318032408130817),
    (1e15, 9900, 1016588627154099),
    (1e15, 11000, 1015734576789100),
    (1e15, 1e09, 1000052015433304),
    (1e15, 1e15, 1000000073560091),
]


@pytest.mark.parametrize(("mean", "size", "quantile"), LARGE)
def test_large_counts_have_mpmaths_quantiles(mean, size, quantile):
    deviation = np.sqrt(mean) * np.sqrt(1.0 + mean / size)
    found = negative_binomial_quantile(0.95, size, mean)
    assert abs(found - quantile) <= 1e-6 * deviation + 1.0


def test_limits_meet_the_exact_quantiles():
    """On either side of the count from which limits are taken."""
    for size in (1.5, 80.0, 9e3, 2e4, 1e6, 1e9):
        mean = np.array([0.9e8, 1.1e8])[:, None]
        wanted = stats.nbinom.ppf(LEVELS, size, size / (size + mean))
        deviation = np.sqrt(mean + mean**2 / size)
        assert np.max(np.abs(negative_binomial_quantile(LEVELS, size, mean) - wanted) / deviation) < 1e-4


@pytest.mark.parametrize("mean", [1e9, 1e12, 1e15, 1e18])
def test_huge_poisson_counts_are_nearly_normal(mean):
    found = poisson_quantile(np.array([0.05, 0.5, 0.95]), mean)
    wanted = mean + np.sqrt(mean) * stats.norm.ppf([0.05, 0.5, 0.95])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1.0 + 1e-15 * mean)
    assert Poisson().ppf(0.5, np.log(mean)) == pytest.approx(mean, rel=1e-7)
    assert NegativeBinomial(dispersion=1.0).ppf(0.5, np.log(mean)) == pytest.approx(np.log(2.0) * mean, rel=1e-7)


@pytest.mark.parametrize("true", [1e3, 1e15, 2.0**54, 1.37e20, 1e300])
@pytest.mark.parametrize("guess", [0.01, 1.0, 1e3])
def test_a_search_among_floats_that_are_not_neighbours_ends(true, guess):
    found = bisected(np.array([np.floor(guess * true)]), np.array([0.5]), lambda count, at: (count >= true) * 1.0)
    assert found[0] >= true and found[0] - true <= np.spacing(true)
