"""Simulated data have the truth that they tell."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from sksvi.testing import (
    draw_targets,
    simulate_glm,
    simulate_gp,
    simulate_intermittent,
    simulate_mixed,
    simulate_series,
)


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t", "logit", "probit", "poisson", "negative-binomial"])
def test_targets_have_the_mean_of_their_likelihood(likelihood, global_random_seed):
    rng, n = np.random.default_rng(global_random_seed), 20_000
    y = draw_targets(likelihood, np.full(n, 0.4), rng)
    mean = {"logit": expit(0.4), "probit": 0.6554, "poisson": np.exp(0.4), "negative-binomial": np.exp(0.4)}
    assert abs(y.mean() - mean.get(likelihood, 0.4)) < 4 * y.std() / np.sqrt(n)


@pytest.mark.parametrize("likelihood", ["gaussian", "logit", "poisson", "ordinal", "negative-binomial", "student-t"])
@pytest.mark.parametrize("design", ["normal", "correlated", "rare"])
def test_the_one_effect_is_three_standard_errors_of_maximum_likelihood(likelihood, design):
    data = simulate_glm(4000, 4, likelihood=likelihood, design=design, random_state=0)
    kinds = [effect.kind for effect in data.effects]
    assert kinds == ["strong", "null", "null", "null"]
    if likelihood == "gaussian":
        centred = data.X - data.X.mean(axis=0)
        error = np.sqrt(np.linalg.inv(centred.T @ centred)[0, 0])
        assert data.effects[0].value == pytest.approx(3 * error, rel=0.15)


def test_f_is_the_linear_predictor():
    data = simulate_glm(30, 5, effects="dense", random_state=0)
    w = np.array([effect.value for effect in data.effects])
    np.testing.assert_allclose(data.f, 3.0 + data.X @ w)
    np.testing.assert_allclose(data.new["new"].f, 3.0 + data.new["new"].X @ w)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="no effects"):
        simulate_glm(10, 2, effects="some")
    with pytest.raises(ValueError, match="no simulation"):
        draw_targets("gama", np.zeros(3), np.random.default_rng(0))
    with pytest.raises(ValueError, match="no function"):
        simulate_gp(10, truth="wave")


def test_a_treatment_is_constant_within_its_group():
    data = simulate_mixed(6, 10, random_state=0)
    assert (data.X.groupby("group")["treatment"].nunique() == 1).all()
    assert set(data.new["known levels"].X["group"]) <= set(data.X["group"])
    assert not set(data.new["new levels"].X["group"]) & set(data.X["group"])


@pytest.mark.parametrize(
    "simulate",
    [
        lambda r: simulate_glm(10, 2, random_state=r),
        lambda r: simulate_series(10, random_state=r),
        lambda r: simulate_gp(10, random_state=r),
        lambda r: simulate_intermittent(30, random_state=r),
    ],
)
def test_a_seed_repeats_the_data(simulate):
    np.testing.assert_array_equal(simulate(3).y, simulate(3).y)
    assert np.any(simulate(3).f != simulate(4).f) or np.any(simulate(3).y != simulate(4).y)
