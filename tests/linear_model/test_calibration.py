"""Calibration probabilities of coefficients are symmetric; what intervals cover is in `benchmarks/tests`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from sksvi import BayesianGLMRegressor


def lean(covariance, n_sets, seed, shift=0.0):
    """Means of P(w < truth | y) - 1/2 over data sets whose weights come from the prior, and their errors, per weight.

    Yao, Vehtari, Simpson and Gelman (2018), variational simulation-based calibration: where posterior means have no
    bias these probabilities lie as often and as far above 1/2 as below. `shift` moves every posterior, in deviations.
    """
    rng = np.random.default_rng([seed, 5])
    options = {"likelihood": "poisson", "prior_precision": 1.0, "fit_intercept": False, "covariance": covariance}
    found = np.empty((n_sets, 3))
    for row in found:
        X, truth = rng.standard_normal((12, 3)), rng.standard_normal(3)
        model = BayesianGLMRegressor(tol=1e-6, **options).fit(X, rng.poisson(np.exp(X @ truth)))
        row[:] = ndtr((truth - model.coef_) / model.coef_std_ - shift) - 0.5
    return found.mean(axis=0), found.std(axis=0) / np.sqrt(n_sets)


@pytest.mark.costly
@pytest.mark.parametrize("n_sets", [80, pytest.param(500, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_calibration_probabilities_are_symmetric(covariance, n_sets, global_random_seed):
    mean, error = lean(covariance, n_sets, global_random_seed)
    assert np.all(np.abs(mean) < 4 * error)
    mean, error = lean(covariance, n_sets, global_random_seed, shift=1.0)
    assert np.all(mean < -4 * error)  # a bias of one deviation is seen
