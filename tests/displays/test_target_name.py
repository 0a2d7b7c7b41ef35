"""Axes call the target by the name that y had in the fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import sksvi
from sksvi import displays

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=60), "plan": rng.choice(["a", "b"], 60)})
    return X, pd.Series(rng.poisson(np.exp(0.5 * X["age"])), name="visits"), rng


@pytest.fixture(scope="module")
def models(table):
    X, visits, _ = table
    state = pd.Series(np.where(visits > 0, "ill", "well"), name="state")
    counts = sksvi.BayesianGLMRegressor(likelihood="poisson").fit(X, visits)
    return counts, sksvi.BayesianGLMClassifier().fit(X, state), sksvi.DynamicGLM().fit(None, visits)


def test_axes_have_the_name_of_the_fit(table, models):
    X, visits, _ = table
    counts, labels, series = models
    y, few = visits.to_numpy(), {"n_draws": 10}
    found = {
        displays.PartialEffectDisplay.from_estimator(counts, X, "plan", **few): "Mean of visits, 90 % interval",
        displays.PartialEffectDisplay.from_estimator(labels, X, "plan", **few): "P(state = well), 90 % interval",
        displays.PredictionBandDisplay.from_estimator(counts, X, y, feature="age"): "visits",
        displays.PredictionBandDisplay.from_estimator(labels, X, feature="age"): "Probability of state = well",
        displays.PredictionBandDisplay.from_estimator(series): "visits",
        displays.TimeSeriesDisplay.from_estimator(series): "visits",
        displays.IntervalCoverageDisplay.from_estimator(counts, X, y): "Share of 60 observations of visits inside (%)",
    }
    assert {display: display.ax_.get_ylabel() for display in found} == found
    across = {
        displays.PosteriorPredictiveDisplay.from_estimator(counts, X, y, **few): "visits (count)",
        displays.PITDisplay.from_estimator(counts, X, y): "F(visits)",
        displays.CoefficientDisplay.from_estimator(counts): "(log rate of visits)",
        displays.CoefficientDisplay.from_estimator(labels): "(log odds of state = well)",
        displays.ContrastDisplay.from_estimator(counts, "plan", scale="response", X=X): "(mean of visits)",
    }
    for display, words in across.items():
        assert words in display.ax_.get_xlabel()
    parts = displays.TimeSeriesDisplay.from_estimator(series, kind="components")
    assert "log rate of visits" in parts.ax_[0].get_title()


def test_the_name_is_that_of_the_fit(table, models, tmp_path):
    X, visits, rng = table
    model = models[0]
    model.save(tmp_path / "model.sksvi")
    assert sksvi.load(tmp_path / "model.sksvi").target_name_ == model.target_name_ == "visits"
    assert not hasattr(clone(model), "target_name_")
    again = clone(model).set_params(warm_start=True).fit(X, visits)
    assert not hasattr(again.fit(X, visits.to_numpy()), "target_name_")  # nor the name of an earlier fit
    stream = clone(model).partial_fit(X, visits).partial_fit(X, visits.rename("calls"))
    assert stream.target_name_ == "visits"
    groups = X.assign(site=rng.choice(["u", "v"], len(X)))
    assert sksvi.DynamicGLM(groups="site").fit(groups[["site"]], visits).target_name_ == "visits"
    pytest.importorskip("formulaic")
    formula = sksvi.from_formula("np.log1p(visits) ~ age", X.assign(visits=visits))
    assert formula.fit(X.assign(visits=visits))[-1].target_name_ == "np.log1p(visits)"
