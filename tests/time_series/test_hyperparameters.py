"""The posterior of what a dynamic model learns: its nodes against a grid, edges, files, coverage."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import sksvi
from sksvi import DynamicGLM
from sksvi.likelihoods import Gaussian
from sksvi.models.time_series.weak_prior import WeakPrior
from sksvi.predictive.mixture import normal_quantiles


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 37])


def walk(rng, n, likelihood, variance=0.05):
    f = 1.5 + np.cumsum(np.sqrt(variance) * rng.standard_normal(n))
    return f, rng.poisson(np.exp(f)).astype(float) if likelihood == "poisson" else f + 0.5 * rng.standard_normal(n)


def on_a_grid(model, y, hs):
    """Log evidence, and mean and variance of the last level, of a Gaussian series whose noise is given."""
    prior = WeakPrior(model._series.dynamics, model.likelihood_, model._encoding.spread, len(y))
    fixed = {"likelihood": model.likelihood, "level": "walk", "hyperparameters": "point"}
    fits = [DynamicGLM(**fixed, level_variance=float(np.exp(h))).fit(None, y) for h in hs]
    logs = np.array([fit.lower_bound_ for fit in fits]) + [prior.dynamic(np.array([h]))[0] for h in hs]
    weights = np.exp(logs - logsumexp(logs))
    means = np.array([fit.predict_latent()[0][-1] for fit in fits])
    variances = np.array([fit.predict_latent()[1][-1] for fit in fits])
    mean = weights @ means
    return logsumexp(logs) + np.log(hs[1] - hs[0]), mean, weights @ (variances + np.square(means - mean))


@pytest.mark.parametrize("n", [8, 100])
def test_nodes_are_a_grid_of_exact_evidences(rng, n):
    """Few points leave the prior's tail, √variance, below the nodes: there the grid ends where their cells do."""
    y = walk(rng, n, "gaussian")[1]
    model = DynamicGLM(likelihood=Gaussian(variance=0.25), level="walk").fit(None, y)
    h = np.sort(model._series.nodes.values[:, 0])
    cells = (1.5 * h[0] - 0.5 * h[1], 1.5 * h[-1] - 0.5 * h[-2])
    evidence, mean, variance = on_a_grid(model, y, np.linspace(*(cells if n == 8 else (-16.0, 4.0)), 161))
    found = model.predict_latent()
    assert model.lower_bound_ == pytest.approx(evidence, abs=0.1)
    assert found[0][-1] == pytest.approx(mean, abs=0.05 * np.sqrt(variance))
    assert found[1][-1] == pytest.approx(variance, rel=0.1)


def test_the_slope_of_the_prior_is_that_of_its_density(rng):
    model = DynamicGLM(likelihood="student-t", level="damped", trend=True, seasonal=4, cycle=9.0)
    model.fit(None, walk(rng, 60, "gaussian")[1])
    prior = WeakPrior(model._series.dynamics, model.likelihood_, model._encoding.spread, 60)
    for ask, at in (
        (prior.dynamic, model.state_.q["dynamics"].value),
        (prior.of_likelihood, model.state_.q["likelihood"].value),
    ):
        steps = 1e-5 * np.eye(len(at))
        slope = [(ask(at + step)[0] - ask(at - step)[0]) / 2e-5 for step in steps]
        np.testing.assert_allclose(ask(at)[1], slope, rtol=1e-5, atol=1e-6)


def test_a_variance_of_zero_is_an_edge_with_a_posterior():
    y = np.array([4.0, 5.0, 4.0, 6.0, 5.0, 4.0, 5.0, 5.0, 4.0, 5.0])
    point = DynamicGLM(likelihood="poisson", level="walk", hyperparameters="point").fit(None, y)
    model = DynamicGLM(likelihood="poisson", level="walk").fit(None, y)
    assert point.level_variance_ < 1e-6 < model.level_variance_
    table = model.hyperparameter_posterior_
    assert table["weight"].sum() == pytest.approx(1.0) and table["level_variance"].max() > 0.01
    ends = [fit.forecast_latent(12).iloc[-1] for fit in (point, model)]
    assert ends[1]["upper"] - ends[1]["lower"] > 1.2 * (ends[0]["upper"] - ends[0]["lower"])


def test_what_is_not_learned_has_no_nodes(rng):
    y = walk(rng, 30, "poisson")[1]
    for given in ({"level_variance": 0.05}, {"level": "constant"}, {"hyperparameters": "point"}):
        model = DynamicGLM(likelihood="poisson", **given).fit(None, y)
        with pytest.raises(AttributeError, match="hyperparameter_posterior_"):
            _ = model.hyperparameter_posterior_


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "negative-binomial"])
def test_files_and_repeats_have_the_same_bits(rng, tmp_path, likelihood):
    y = walk(rng, 40, "gaussian" if likelihood == "gaussian" else "poisson")[1]
    model, again = (DynamicGLM(likelihood=likelihood, level="walk").fit(None, y) for _ in range(2))
    X = pd.DataFrame(index=range(40, 45))
    for rows in (True, False):
        model.save(tmp_path / "series.sksvi", training_rows=rows)
        loaded = sksvi.load(tmp_path / "series.sksvi")
        for one in (again, loaded):
            pd.testing.assert_frame_equal(one.forecast(5), model.forecast(5))
            pd.testing.assert_frame_equal(one.summary(), model.summary())
            pd.testing.assert_frame_equal(one.hyperparameter_posterior_, model.hyperparameter_posterior_)
            np.testing.assert_array_equal(one.predict(X), model.predict(X))
        later = [one.partial_fit(None, y[:3]).forecast(2) for one in (sksvi.load(tmp_path / "series.sksvi"),)]
        whole = DynamicGLM(likelihood=likelihood, level="walk").fit(None, y).partial_fit(None, y[:3]).forecast(2)
        np.testing.assert_allclose(later[0], whole, rtol=1e-7)


def test_mixtures_agree_with_each_other(rng):
    y = walk(rng, 30, "poisson")[1]
    model = DynamicGLM(likelihood="poisson", level="walk", seasonal=4).fit(None, y)
    latents = model.posterior_["latents"]
    mean, variance = model.predict_latent()
    np.testing.assert_allclose(latents.mean, mean)
    np.testing.assert_allclose(latents.std, np.sqrt(variance))
    np.testing.assert_allclose(np.diag(latents.cov), variance, rtol=1e-6)
    draws = latents.sample(4000, random_state=0)
    assert np.max(np.abs(draws.mean(0) - mean) / np.sqrt(variance / 4000)) < 5.0
    paths, ahead = model.simulate(6, 4000, random_state=0).to_numpy(), model.forecast(6)
    assert np.max(np.abs(paths.mean(1) - ahead["mean"]) / (paths.std(1) / np.sqrt(4000))) < 5.0


def test_densities_of_later_points_weigh_what_came_between(rng):
    y = walk(rng, 40, "gaussian")[1]
    model = DynamicGLM(likelihood="gaussian", level="walk").fit(None, y[:30])
    X = pd.DataFrame(index=range(30, 40))
    together = model.log_predictive_density(X, y[30:])
    views, weights = model._series.views, model._series.weights
    each = [
        DynamicGLM(
            likelihood=Gaussian(variance=view.likelihood.scales.noise),
            level_variance=float(view.block.chain.noise[0]),
            hyperparameters="point",
        )
        for view in views
    ]
    for one in each:  # in the units of all: those of the first fit
        one.fit(None, y[:30])
    logs = np.array([one.log_predictive_density(X, y[30:]).sum() for one in each])
    assert together.sum() == pytest.approx(logsumexp(logs, b=weights), abs=0.05)


@pytest.mark.costly
@pytest.mark.parametrize("likelihood, n", [("poisson", 10), ("gaussian", 20)])
def test_intervals_of_short_series_hold(likelihood, n):
    """A variance as a point held 0.69 to 0.81 of them."""
    inside, repeats = [], 60
    for seed in range(repeats):
        f, y = walk(np.random.default_rng([seed, n]), n + 12, likelihood)
        if not y[:n].any():
            continue
        model = DynamicGLM(likelihood=likelihood, level="walk").fit(None, y[:n])
        views, ahead = model._series.views, model.forecast_latent(12).iloc[-1]
        means = np.array([view.block.mean for view in views]) + model.mean_
        stds = np.array([view.block.std for view in views])
        low, high = (normal_quantiles(means, stds, model._series.weights, p) for p in (0.05, 0.95))
        fitted = np.mean((low < f[:n]) & (f[:n] < high))
        inside.append([fitted, ahead["lower"] < f[-1] < ahead["upper"]])
    found, error = np.mean(inside, axis=0), np.std(inside, axis=0) / np.sqrt(len(inside))
    assert np.all(np.abs(found - 0.9) < 4.0 * np.maximum(error, 0.01))
