"""Quantiles of Beta distributions: numbers at any shapes, and those of SciPy where it has them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sksvi.predictive.quantiles import beta_quantiles

SHAPES = 10.0 ** np.array([-300, -20, -3, -1, 0, 2, 5, 7.9, 8.1, 12, 16, 18, 20, 24, 38, 60, 100, 200])


@pytest.mark.parametrize("p", [1e-6, 0.05, 0.5, 0.95, 1 - 1e-6])
def test_quantiles_are_numbers_in_order_of_the_mean(p):
    """At any pair of shapes; more of a, and less of b, is a larger number."""
    found = beta_quantiles(SHAPES[:, None], SHAPES, p)
    assert np.all((found >= 0.0) & (found <= 1.0))
    assert np.all(np.diff(found, axis=0) >= -1e-15) and np.all(np.diff(found, axis=1) <= 1e-15)


@pytest.mark.parametrize("p", [0.001, 0.05, 0.9])
def test_limits_meet_what_scipy_has(p):
    """Normal to 1e-4 of a deviation, Gamma to a billionth, and SciPy's own."""
    for a, b in ((3e8, 7e8), (0.4, 2e17), (300.0, 2e17), (2e17, 5.0), (2.0, 3.0), (1e-3, 50.0)):
        law = stats.beta(a, b)
        assert abs(beta_quantiles(a, b, p) - law.ppf(p)) <= 1e-4 * law.std() + 1e-15, (a, b)
