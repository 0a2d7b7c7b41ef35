"""Noise that a Poisson does not have and that a learned level takes in: who is told, and who is not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.signal import lfilter

from sksvi import DynamicGLM
from sksvi.time_series._rows import alternating, worth_of_noise
from tests.time_series.test_dynamic import NILE


def measured(seed, n=400):
    """Whole numbers around a level of 900, which moves by 38 a point, with noise of 123.

    The level comes back: a walk may end at zeros, of which no noise is known. Residuals alternate by 9.4 standard
    errors (0.8 from series to series).
    """
    rng = np.random.default_rng([seed, 17])
    level = lfilter([38.0], [1.0, -0.97], rng.standard_normal(n))
    return np.round(900.0 + level + 123.0 * rng.standard_normal(n)).clip(0.0)


def test_measurements_under_a_poisson_are_told_of(global_random_seed):
    with pytest.warns(UserWarning, match=r"autocorrelation -0\.\d\d of the residuals"):
        DynamicGLM(likelihood="poisson").fit(None, NILE)
    with pytest.warns(UserWarning, match="y varies more from one point to the next than likelihood='poisson' lets it"):
        DynamicGLM(likelihood="poisson").fit(None, measured(global_random_seed))


@pytest.mark.parametrize("likelihood", ["gaussian", "negative-binomial"])
def test_what_has_noise_of_its_own_is_not_told(likelihood, global_random_seed):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        DynamicGLM(likelihood=likelihood).fit(None, measured(global_random_seed))
    assert not told


@pytest.mark.parametrize("variance", [1e-4, 0.01, 0.3])
@pytest.mark.parametrize("mean", [0.5, 30.0, 1000.0])
def test_counts_are_not_told(mean, variance, global_random_seed):
    """None of 3,334 such series was: a standard error of 1 at most, and 3.5 and 2.5 together are asked for."""
    rng = np.random.default_rng([global_random_seed, 18])
    level = np.log(mean) + np.cumsum(np.sqrt(variance) * rng.standard_normal(60))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        DynamicGLM().fit(None, rng.poisson(np.exp(np.minimum(level, 12.0))).astype(float) + (level > 12.0))
    assert not any("y varies more" in str(warning.message) for warning in told)


def test_the_slope_in_noise_is_that_of_the_evidence():
    """Of messages under Gaussian noise, more noise is a smaller precision of each message."""
    model = DynamicGLM(likelihood="gaussian", level_variance=1469.0).fit(None, NILE)
    block, more = model._series.block, 1.0
    weights = 1.0 / (1.0 / block.weights + more)
    values = block.linear / block.weights
    other = type(block)(block.chain, values * weights, weights)

    def log_density(q):
        """Of the values that messages stand for."""
        return q.log_evidence() + 0.5 * np.sum(np.log(q.weights) - np.square(values) * q.weights)

    information = block.weights * (1.0 - block.weights * block.variance)
    slope = worth_of_noise(block) * np.sqrt(0.5 * np.sum(np.square(information)))
    assert log_density(other) - log_density(block) == pytest.approx(more * slope, abs=1e-4 * abs(more))


def test_residuals_of_a_level_that_does_not_move_do_not_alternate(global_random_seed):
    rng = np.random.default_rng([global_random_seed, 19])
    model = DynamicGLM(likelihood="gaussian", level_variance=0.0).fit(None, rng.standard_normal(400))
    share, errors = alternating(model._series.block)
    assert abs(errors) < 4.0
    assert errors == pytest.approx(share * np.sqrt(398.0))
