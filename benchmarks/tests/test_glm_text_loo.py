"""Small runs of ``glm.text_loo``: leave-one-out and deviations of low-rank fits beside exact ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from benchmarks.glm import text_loo
from benchmarks.glm._text_exact import extended, leave_one_out
from benchmarks.glm._text_sets import TextSet, docstrings, simulated, unchanged, words


@pytest.mark.costly
def test_refits_are_those_of_the_prior_and_temperature_that_the_fit_has_chosen():
    data = TextSet("two packages", "", lambda: docstrings("joblib", "threadpoolctl"), words, 0.2)
    row = text_loo.refits(data)
    X, y, _, _ = next(data.drawn(1))
    y = np.unique(y, return_inverse=True)[1]
    Z = extended(X, np.full(X.shape[1], row["prior precision"]), text_loo.INTERCEPT_PRECISION)
    assert row["by refits"] == pytest.approx(leave_one_out(Z, y, row["temperature"]).mean())
    assert row["relative error"] == pytest.approx(row["loo_"] / row["by refits"] - 1)
    assert row["holds"] == (abs(row["relative error"]) <= text_loo.TWO)


def factors(seed):
    return TextSet("factors", "", simulated(200, 120, "factors", seed=seed), unchanged, 50)


@pytest.mark.parametrize("name", ["low-rank", "full"])
def test_deviations_are_close_to_exact_ones(name, global_random_seed):
    row = text_loo.deviations(factors(global_random_seed), name)
    assert row["error, median"] <= text_loo.MEDIAN


def test_deviations_of_a_diagonal_are_those_of_the_best_one(global_random_seed):
    """At q's own curvature, given all other weights: how much less that is than exact ones is a matter of the data."""
    X, y, _, _ = next(factors(global_random_seed).drawn(1))
    model, precision = text_loo.fitted(X, y, {**text_loo.OURS["diag"], "tol": 1e-9, "max_iter": 5000})
    mean, variance = model.predict_latent(X)
    t, weight = np.polynomial.hermite_e.hermegauss(60)
    f = mean[:, None] + np.sqrt(variance)[:, None] * t
    curvature = (expit(f) * expit(-f)) @ weight / weight.sum()
    np.testing.assert_allclose(model.coef_std_[0], (precision + curvature @ X**2) ** -0.5, rtol=1e-4)


@pytest.mark.costly
def test_losses_by_matrices_are_those_of_refits():
    data = TextSet("two packages", "", lambda: docstrings("joblib", "threadpoolctl"), words, 0.2)
    row = text_loo.approximate(data)
    X, y, _, _ = next(data.drawn(1))
    y = np.unique(y, return_inverse=True)[1]
    Z = extended(X, np.full(X.shape[1], row["prior precision"]), text_loo.INTERCEPT_PRECISION)
    assert row["by matrices"] == pytest.approx(leave_one_out(Z, y, 0.0).mean(), rel=text_loo.TWO)
    assert row["relative error"] == pytest.approx(row["self-consistent"] / row["by matrices"] - 1)
