"""Quantiles inside brackets: of any continuous distribution, from any place to begin, in few looks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sksvi.likelihoods.continuous_quantiles import quantile_between

DISTRIBUTIONS = {
    "normal": stats.norm(3.0, 2.0),
    "Cauchy": stats.cauchy(-1.0, 0.5),
    "exponential": stats.expon(scale=1e-3),
    "two humps": None,
}


class TwoHumps:
    """Nine in ten of N(0, 1), the others of N(40, 0.1)."""

    def cdf(self, y):
        return 0.9 * stats.norm.cdf(y) + 0.1 * stats.norm.cdf(y, 40.0, 0.1)

    def pdf(self, y):
        return 0.9 * stats.norm.pdf(y) + 0.1 * stats.norm.pdf(y, 40.0, 0.1)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("level", [1e-9, 0.05, 0.5, 0.95, 1.0 - 1e-9])
def test_quantiles_are_found_from_anywhere(name, level):
    distribution = DISTRIBUTIONS[name] or TwoHumps()
    positive = name == "exponential"
    guess = np.array([-1e3, 0.0, 3.0, 1e3]) if not positive else np.array([1e-12, 1e-3, 1.0, 100.0])
    low, high = np.full(4, 0.0 if positive else -1e12), np.full(4, 1e12)
    looks = []

    def cdf_and_density(y, rows):
        looks.append(len(rows))
        return [distribution.cdf(y), distribution.pdf(y)]

    found = quantile_between(cdf_and_density, level, guess, low, high)
    tail = min(level, 1.0 - level)
    np.testing.assert_allclose(distribution.cdf(found), level, rtol=0, atol=1e-6 * tail + 2e-16)
    assert len(looks) <= 150


def test_a_near_guess_takes_few_looks():
    looks = []

    def cdf_and_density(y, rows):
        looks.append(len(rows))
        return [stats.t.cdf(y, 4.0), stats.t.pdf(y, 4.0)]

    found = quantile_between(cdf_and_density, 0.05, np.full(3, -1.6), np.full(3, -50.0), np.full(3, 50.0))
    np.testing.assert_allclose(found, stats.t.ppf(0.05, 4.0), rtol=1e-10)
    assert len(looks) <= 4


def test_a_closed_bracket_is_its_quantile():
    def never(y, rows):
        raise AssertionError("no look is needed")

    np.testing.assert_array_equal(quantile_between(never, 0.5, np.zeros(2), np.ones(2), np.ones(2)), [1.0, 1.0])
