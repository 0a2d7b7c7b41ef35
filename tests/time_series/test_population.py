"""Series of one population: what it learns, what short and new series have of it, and where it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import sksvi
from sksvi import DynamicGLM
from sksvi.integrals.nodes import Nodes
from sksvi.models.time_series.population import improved
from sksvi.time_series._population import normal_population

SERIES, END = 16, pd.Timestamp("2024-06-30")
SHIFTS = np.array([2.0, -0.5, -1.5])
#: Means and deviations of the logarithms of the variances of steps and noise, and levels and effects of prices.
STEP, NOISE, LEVEL, PRICE = (np.log(0.05), 0.8), (0.0, 0.6), (10.0, 1.5), (-2.0, 0.5)


def shop(rng, name, n, end=END):
    days, price = pd.date_range(end=end, periods=n), rng.random(n)
    steps = np.sqrt(rng.lognormal(*STEP)) * rng.standard_normal(n)
    f = rng.normal(*LEVEL) + np.cumsum(steps[::-1])[::-1] + rng.normal(*PRICE) * price + SHIFTS[days.day_of_year % 3]
    y = f + np.sqrt(rng.lognormal(*NOISE)) * rng.standard_normal(n)
    return pd.DataFrame({"shop": name, "price": price, "y": y}, days)


@pytest.fixture(scope="module")
def shops(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    return pd.concat([shop(rng, f"s{k:02}", int(rng.integers(30, 61))) for k in range(SERIES)])


@pytest.fixture(scope="module")
def model(shops):
    own = {"likelihood": "gaussian", "seasonal": 3, "seasonal_variance": 0.0, "level": "walk"}
    return DynamicGLM(groups="shop", share_variances="partial", **own).fit(shops[["shop", "price"]], shops["y"])


def week_ahead(name):
    return pd.DataFrame({"shop": name, "price": 0.5}, pd.date_range(END, periods=8)[1:])


def test_the_population_is_that_of_the_series(model):
    member = model.series_["s00"]
    mean, sd = member._shared["population"]
    error = np.sqrt(np.square(member._shared["new"][1]) - np.square(sd))  # of the means
    assert np.all(np.abs(mean - [STEP[0], NOISE[0]]) < 4.0 * error) and np.all(error < 0.5)
    # A deviation of few series has an error of at least sd / √(2n), and as much again as their posteriors are wide.
    assert np.all(np.abs(np.log(sd / [STEP[1], NOISE[1]])) < 4.0 * 2.0 / np.sqrt(2.0 * SERIES))
    table = model.population_
    assert list(table.index) == ["level_variance", "std(residual)"] and np.all(table["lower"] < table["upper"])
    assert_allclose(table["median"], np.exp(mean * [1.0, 0.5]))


def test_a_series_that_was_not_fitted(model, tmp_path):
    """Level, season and effect are those of the others; few points of its own then count."""
    ahead = week_ahead("new")
    found = model.forecast(7, ahead).loc["new"]
    truth = LEVEL[0] + 0.5 * PRICE[0] + SHIFTS[ahead.index.day_of_year % 3]
    spread = np.sqrt(LEVEL[1] ** 2 + 0.25 * PRICE[1] ** 2)
    assert np.all(np.abs(found["mean"] - truth) < 4.0 * spread / np.sqrt(SERIES) + 4.0 * 0.3)  # what is known of each
    assert_allclose(found["std"], np.hypot(spread, 1.1), rtol=4.0 / np.sqrt(2.0 * SERIES) + 0.1)
    assert model.log_predictive_density(ahead, truth).shape == (7,)
    model.save(tmp_path / "panel.sksvi")
    loaded = sksvi.load(tmp_path / "panel.sksvi")
    before = model.forecast(7, ahead)
    begun = loaded.partial_fit(ahead[:4], truth[:4] + 5.0)
    assert begun.groups_.tolist() == [*model.groups_, "new"]
    later = begun.forecast(3, ahead[4:]).loc["new"]
    assert np.all(later["std"] < 0.8 * found["std"].iloc[4:]) and np.all(later["mean"] > found["mean"].iloc[4:] + 2.0)
    pd.testing.assert_frame_equal(model.forecast(7, ahead), before)
    with pytest.raises(ValueError, match=r"new to a population"):
        begun.smooth()


def test_steps_end_where_normal_likelihoods_have_their_maximum(global_random_seed):
    """Posteriors of normal likelihoods are known: mean and deviation end at the maximum of the evidence and priors."""
    rng = np.random.default_rng(global_random_seed)
    at, noise = rng.normal(2.0, 0.7, 30), np.full(30, 0.5)
    mean, sd = np.zeros(1), np.ones(1)
    for _ in range(60):
        precision = 1.0 / noise**2 + 1.0 / sd**2
        centre, std = (at / noise**2 + mean / sd**2) / precision, np.sqrt(1.0 / precision)
        nodes = [Nodes(np.array([[m - s], [m + s]]), np.full(2, 0.5)) for m, s in zip(centre, std, strict=True)]
        mean, sd, error = improved(mean, sd, nodes, lambda values: np.zeros(1))
    total = sd**2 + noise**2
    assert_allclose(mean, at.mean(), atol=1e-6)
    slope = np.sum(sd**2 / total * ((at - mean) ** 2 / total - 1.0)) + 1.0 - sd
    assert_allclose(slope, 0.0, atol=1e-6)
    assert_allclose(error, np.sqrt(total.mean() / 30))


def test_states_of_all_series_make_those_of_a_new_one(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    means = rng.standard_normal((40, 2)) * [1.0, 3.0]
    centre, cov = normal_population(means, np.tile(1e-8 * np.eye(2), (40, 1, 1)))
    assert_allclose(centre, means.mean(0), atol=1e-4)
    assert_allclose(cov, np.cov(means.T, ddof=0) * (1.0 + 1.0 / 40), rtol=1e-3, atol=1e-3)
    # What hardly is known of a series hardly counts.
    covs = np.tile(1e-8 * np.eye(2), (41, 1, 1))
    covs[-1] = 1e8 * np.eye(2)
    vague = np.concatenate([means, [[1e3, 1e3]]]), covs
    assert_allclose(normal_population(*vague)[0], centre, atol=1e-2)


def test_what_is_refused(shops, model):
    few, X = shops[shops["shop"] < "s02"], ["shop", "price"]
    own = {"groups": "shop", "likelihood": "gaussian"}
    with pytest.raises(ValueError, match="were not fitted"):
        DynamicGLM(level_variance=0.1, **own).fit(few[X], few["y"]).forecast(7, week_ahead("new"))
    fixed = {**own, "likelihood": sksvi.likelihoods.Gaussian(variance=1.0), "level_variance": 0.1}
    with pytest.raises(ValueError, match="every variance is a number"):
        DynamicGLM(share_variances="partial", **fixed).fit(few[X], few["y"])
    with pytest.raises(AttributeError, match="population_ is there after a fit"):
        _ = DynamicGLM().population_
    with pytest.raises(ValueError, match=r"'new'.*X"):
        model.forecast(7, week_ahead("new")[["shop"]])
