"""Learned parameters of a likelihood that coefficients follow: both are as uncertain as they are together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from sksvi.inspection import loo
from sksvi.linear_model import BayesianGLMRegressor, _integrated


def censored_times(x, rng):
    """Times of which a tenth have their event before the end."""
    times, end = np.exp(1.0 + 0.5 * x) * rng.weibull(1.5, len(x)), 0.6
    return pd.DataFrame({"time": np.minimum(times, end), "event": times <= end})


def below_a_limit(x, rng):
    """Measurements of which four fifths are below what is detected."""
    value = 1.0 + 0.5 * x + rng.standard_normal(len(x))
    return pd.DataFrame({"lower": np.where(value < 2.0, -np.inf, value), "upper": np.maximum(value, 2.0)})


def many_zeros(x, rng):
    """Small counts with zeros that are no counts."""
    return rng.poisson(np.exp(0.5 * x)) * (rng.random(len(x)) < 0.7)


KINDS = {"weibull": censored_times, "gaussian": below_a_limit, "zero-inflated-poisson": many_zeros}


def simulated(likelihood, rng, n=600):
    """One column, and targets of a kind."""
    X = pd.DataFrame({"x": rng.standard_normal(n)})
    return X, KINDS[likelihood](X["x"].to_numpy(), rng)


def together(model, X, y):
    """Standard deviations of slope, intercept and unconstrained parameter by the curvature of the log likelihood."""
    y = model._check_y(X, y)
    likelihood, x = model.likelihood_, X["x"].to_numpy()

    def loss(at):
        return -np.sum(likelihood.replace(at[2:]).log_prob(y, at[0] * x + at[1]))

    start = np.r_[model.coef_, model.intercept_, likelihood.unconstrained]
    best = minimize(loss, start, method="BFGS").x
    step, units = 1e-3, np.eye(3)
    bend = [
        [
            sum(a * b * loss(best + step * (a * i + b * j)) for a in (1, -1) for b in (1, -1)) / (4.0 * step**2)
            for i in units
        ]
        for j in units
    ]
    return np.sqrt(np.diag(np.linalg.inv(bend)))


@pytest.mark.parametrize("likelihood", KINDS)
def test_coefficients_are_as_wide_as_together_with_the_parameter(likelihood, global_random_seed):
    X, y = simulated(likelihood, np.random.default_rng(global_random_seed), n=1500)
    model = BayesianGLMRegressor(likelihood=likelihood).fit(X, y)
    wanted = together(model, X, y)
    assert_allclose(model.summary(effects="joint")["std"].iloc[:2], wanted[:2], rtol=0.25)
    at = model._fitted.places["likelihood"][0]
    assert_allclose(model._fitted.nodes.std[at], wanted[2], rtol=0.25)


@pytest.mark.parametrize("likelihood", KINDS)
def test_a_fit_ends_where_it_has_converged(likelihood, global_random_seed):
    X, y = simulated(likelihood, np.random.default_rng(global_random_seed))
    found = BayesianGLMRegressor(likelihood=likelihood).fit(X, y).summary()
    wanted = BayesianGLMRegressor(likelihood=likelihood, tol=1e-10, max_iter=2000).fit(X, y).summary()
    assert np.all(np.abs(found["mean"] - wanted["mean"]) < 0.05 * wanted["std"])


@pytest.mark.parametrize("likelihood", KINDS)
def test_many_rows_are_looked_at_in_a_sample(likelihood, monkeypatch, global_random_seed):
    X, y = simulated(likelihood, np.random.default_rng(global_random_seed), n=2000)
    wanted = BayesianGLMRegressor(likelihood=likelihood).fit(X, y).summary()
    monkeypatch.setattr(_integrated, "MOST_ROWS", 1000)
    found = BayesianGLMRegressor(likelihood=likelihood).fit(X, y).summary()
    assert_allclose(found["std"], wanted["std"], rtol=0.3)
    assert np.all(np.abs(found["mean"] - wanted["mean"]) < 0.5 * wanted["std"])


def test_leave_one_out_has_each_node_s_own_messages(global_random_seed):
    X, y = simulated("weibull", np.random.default_rng(global_random_seed), n=300)
    model = BayesianGLMRegressor(likelihood="weibull").fit(X, y)
    found = loo(model, X, y)
    event = y.index[y["event"]][0]
    for row in [event, 7]:
        rest = BayesianGLMRegressor(likelihood="weibull").fit(X.drop(row), y.drop(row))
        wanted = rest.log_predictive_density(X.loc[[row, event]], y.loc[[row, event]])[0]
        assert found.pointwise["elpd"][row] == pytest.approx(wanted, abs=0.08)


def test_many_levels_in_few_rows_for_each_column(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((120, 30))
    y = np.argsort(np.argsort(X[:, 0] + rng.logistic(size=120))) // 5
    table = BayesianGLMRegressor(likelihood="ordinal").fit(X, y).summary()
    assert len(table) == 30 + 23 and np.all(np.isfinite(table[["mean", "std"]]))


@pytest.mark.parametrize("likelihood", list(KINDS))
def test_a_stream_is_as_sure_as_the_fit_to_its_rows(likelihood, global_random_seed):
    X, y = simulated(likelihood, np.random.default_rng([global_random_seed, 11]), 3000)
    whole = BayesianGLMRegressor(likelihood=likelihood).fit(X, y).summary()[["mean", "std"]]
    for sampled, share in (("auto", 0.03), (1000, 0.25)):
        model = BayesianGLMRegressor(likelihood=likelihood, stream_sample=sampled, random_state=global_random_seed)
        for start in range(0, len(X), 500):
            model.partial_fit(X[start : start + 500], y[start : start + 500])
        assert_allclose(model.summary()["std"], whole["std"], rtol=share)


@pytest.mark.parametrize("likelihood", list(KINDS))
def test_of_few_rows_a_sample_leaves_parameters_a_point(likelihood, global_random_seed):
    X, y = simulated(likelihood, np.random.default_rng([global_random_seed, 11]))
    given = {"likelihood": likelihood, "random_state": global_random_seed}
    stream, point = (
        BayesianGLMRegressor(stream_sample=200, **given, **more) for more in ({}, {"hyperparameters": "point"})
    )
    for start in range(0, len(X), 100):
        rows = slice(start, start + 100)
        stream.partial_fit(X[rows], y[rows])
        point.partial_fit(X[rows], y[rows])
    assert_allclose(stream.coef_std_, point.coef_std_, rtol=0.1)
