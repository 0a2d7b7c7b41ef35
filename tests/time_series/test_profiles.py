"""Seasons in a dict: profiles that stay, several of them and long ones."""

import numpy as np
import pytest

from sksvi import DynamicGLM
from sksvi.persistence import load, save

T, PERIODS = 24 * 7 * 6, {24: "full", 168: 40}


@pytest.fixture(scope="module")
def hours():
    rng = np.random.default_rng(0)
    hour, day = np.arange(T) % 24, np.arange(T) // 24 % 7
    f = np.exp(-(((hour - 18) / 3) ** 2)) * np.where(day < 5, 1.0, 0.4)
    return f, f + 0.05 * rng.standard_normal(T)


@pytest.fixture(scope="module")
def model(hours):
    return DynamicGLM(likelihood="gaussian", seasonal=PERIODS, level="constant").fit(None, hours[1][:-168])


@pytest.mark.costly
def test_a_week_ahead_by_the_hour(model, hours):
    off = model.forecast(168)["mean"].to_numpy() - hours[0][-168:]
    assert np.sqrt(np.mean(off**2)) < 0.05 * np.sqrt(4 * 97 / (T - 168))  # 96 coefficients and a level learned
    assert np.ravel(model.seasonal_variance_).tolist() == [0.0, 0.0]
    assert len(model.states_.columns) == 2 * (1 + 23 + 80 - 10)  # waves of a day are those of a week at 7, 14, ...


def test_in_files_and_streams(model, hours, tmp_path):
    save(model, tmp_path / "hours.sksvi")
    again = load(tmp_path / "hours.sksvi")
    assert again.seasonal == PERIODS
    np.testing.assert_array_equal(again.forecast(5), model.forecast(5))
    again.partial_fit(None, hours[1][-168:-160])
    assert again.forecast(1).index[0] == T - 160


def test_a_profile_is_the_season_that_does_not_move(hours):
    y = hours[1][: 24 * 8]
    one = DynamicGLM(likelihood="gaussian", seasonal={24: "full"}, level="walk", hyperparameters="point")
    other = DynamicGLM(likelihood="gaussian", seasonal=24, seasonal_variance=0.0, level="walk", hyperparameters="point")
    one, other = one.fit(None, y).forecast(24), other.fit(None, y).forecast(24)
    np.testing.assert_allclose(one["mean"], other["mean"], atol=1e-3)


@pytest.mark.parametrize("seasonal", [{24: 13}, {24: 0}, {24: "all"}, {1: 1}, {24: True}, {"day": 1}])
def test_refusals(seasonal):
    with pytest.raises(ValueError, match="seasonal="):
        DynamicGLM(seasonal=seasonal).fit(None, np.arange(60))
