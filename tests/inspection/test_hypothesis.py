"""Linear questions: the grammar and its refusals, probabilities against closed forms, classes, the response scale."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, SparseGPRegressor
from sksvi.inspection import contrasts, hypothesis, marginal_effects
from sksvi.inspection._expressions import parsed

PAIR = ("simultaneous_lower", "simultaneous_upper")


# ---- the grammar
@pytest.mark.parametrize(
    "text, weights, constant, sign",
    [
        ("x1 - 2*x2 > 0", {("x1", None): 1, ("x2", None): -2}, 0, 1),
        ("x1 = x2", {("x1", None): 1, ("x2", None): -1}, 0, 0),
        ("x1 == x2", {("x1", None): 1, ("x2", None): -1}, 0, 0),
        ("-(a + b)/2 <= 3 - a", {("a", None): 0.5, ("b", None): -0.5}, -3, -1),
        ("plan[T] >= plan[N]", {("plan", "T"): 1, ("plan", "N"): -1}, 0, 1),
        ("`mean radius` < 1e-2", {("mean radius", None): 1}, -0.01, -1),
        ("'x - y'[\"high school\"] + .5", {("x - y", "high school"): 1}, 0.5, 0),
        ("education[high school]*(1 + 2) > 1", {("education", "high school"): 3}, -1, 1),
        ("plan_T - --x.1 > +2", {("plan_T", None): 1, ("x.1", None): -1}, -2, 1),
        ("2*3*größe > 0", {("größe", None): 6}, 0, 1),
        ("age[12.5] > 0", {("age", "12.5"): 1}, 0, 1),
    ],
)
def test_what_is_read(text, weights, constant, sign):
    found = parsed(text)
    assert found.function.weights == pytest.approx(weights)
    assert (found.function.constant, found.sign) == (pytest.approx(constant), sign)


@pytest.mark.parametrize(
    "text, match",
    [
        ("x1*x2 > 0", "multiplies effects"),
        ("1/x1 > 0", "divides by an effect"),
        ("x1/0 > 0", "divides by 0"),
        ("x1**2 > 0", "takes a power"),
        ("x1^2 > 0", "takes a power"),
        ("exp(x1) > 1", "exp.* is a function"),
        ("x1 != 0", "certain of a continuous posterior"),
        ("0 < x1 < 1", "second comparison"),
        ("x1 > 0 > x2", "second comparison"),
        ("mean radius > 0", "operator is missing"),
        ("x1 x2", "operator is missing"),
        ("(x1 > 0", "bracket is not closed"),
        ("x1 + > 0", "a number or an effect is missing"),
        ("x1 >", "a number or an effect is missing"),
        ("plan[] > 0", "a level in"),
        ("plan[T > 0", "a level in"),
        ("1 > 0", "no effect is left"),
        ("x1 - x1 > 0", "no effect is left"),
        ("x1 > 0; y", "';' has no meaning"),
        ("x1 and x2", "operator is missing"),
        ("2x > 0", "has no meaning"),
        ("'x1 > 0", "has no meaning"),
        ("", "a number or an effect is missing"),
        ("1e999*x > 0", "too large"),
        ("(" * 60 + "x" + ")" * 60, "more than 50 deep"),
        ("x+" * 6000 + "x", "10,000 letters"),
        (3, "is text"),
    ],
)
def test_what_is_refused_and_why(text, match):
    with pytest.raises(ValueError, match=match):
        parsed(text)


@given(st.text(alphabet="x1 +-*/()[]<>=.`'\"e^!_", max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        found = parsed(text)
    except ValueError:
        return
    assert all(np.isfinite(list(found.function.weights.values()))) and found.sign in (-1, 0, 1)


# ---- the posterior
@pytest.fixture
def rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(rng.normal(size=(150, 2)), columns=["x1", "pulse rate"]).assign(
        plan=rng.choice(["N", "T", "U"], 150)
    )
    f = 0.4 * X["x1"] + 0.3 * X["pulse rate"] + 0.5 * (X["plan"] == "T")
    return X, f.to_numpy(), rng


def test_a_normal_posterior_has_its_probabilities(rows):
    """Under a given prior and noise q is the posterior, and so is every linear function of it."""
    X, f, rng = rows
    model = BayesianGLMRegressor(prior_precision=1.0, hyperparameters="point").fit(X, f + rng.normal(size=len(f)))
    found = hypothesis(model, ["x1 - 2*`pulse rate` > 0.1", "plan[T] < plan[U] + 0.3", "x1 = 'pulse rate'"])
    view = model.posterior_["weights"]
    a = np.array([[1.0, -2.0, 0, 0, 0, 0], [0, 0, 0, 1.0, -1.0, 0], [1.0, -1.0, 0, 0, 0, 0]])
    mean, std = a @ view.mean - [0.1, 0.3, 0.0], np.sqrt(view.spread(a))
    df = model.n_samples_seen_ - 1 - np.sum(1 - view.variance[:5] * 1.0)
    np.testing.assert_allclose(found.table["mean"], mean, rtol=1e-8)
    np.testing.assert_allclose(found.table["std"], std, rtol=1e-8)
    np.testing.assert_allclose(found.table["upper"], mean + t.ppf(0.95, df) * std, rtol=1e-4)
    holds = t.cdf(np.array([1.0, -1.0]) * (mean / std)[:2], df)
    np.testing.assert_allclose(found.table["probability"].iloc[:2], holds, rtol=1e-4)
    np.testing.assert_allclose(found.table["evidence_ratio"].iloc[:2], holds / (1 - holds), rtol=1e-3)
    assert np.isnan(found.table["probability"].iloc[2]) and np.isnan(found.table["evidence_ratio"].iloc[2])
    wide, narrow = (found.table[b] - found.table[a] for a, b in [PAIR, ("lower", "upper")])
    assert np.all(wide > narrow)


def test_a_mixture_over_nodes_has_its_own(rows):
    X, f, rng = rows
    model = BayesianGLMRegressor().fit(X, f + rng.normal(size=len(f)))
    found = hypothesis(model, "plan[T] > 0")
    row = contrasts(model, "plan", pairs="reference").table.loc["T - N"]
    assert (found.estimate, *found.interval) == pytest.approx((row["mean"], row["lower"], row["upper"]))
    assert max(found.probability, 1 - found.probability) == pytest.approx(row["direction"])
    assert found.evidence_ratio == pytest.approx(found.probability / (1 - found.probability))
    same = hypothesis(model, "plan_T > 0").table
    np.testing.assert_allclose(same, found.table)
    against = hypothesis(model, "plan[T] - plan[N] < 0")
    assert against.probability == pytest.approx(1 - found.probability)
    assert "plan[T] > 0" in str(found) and "own" in str(found)
    with pytest.raises(AttributeError, match="2 hypotheses"):
        _ = hypothesis(model, ["x1 > 0", "x1 < 0"]).estimate


def test_the_intercept_is_that_of_the_summary(rows):
    X, f, rng = rows
    for options in ({}, {"prior_precision": "flat"}):
        model = BayesianGLMRegressor(**options).fit(X, f + rng.normal(size=len(f)))
        found = hypothesis(model, "intercept + plan[T] - plan[T] = 0")
        assert found.estimate == pytest.approx(model.summary().loc["intercept", "mean"], rel=1e-6)


def test_classes_and_pipelines(rows):
    X, f, rng = rows
    numbers = X[["x1", "pulse rate"]]
    y = np.array(["no", "so", "yes"])[np.clip(np.round(2 * f + rng.normal(size=len(f))), -1, 1).astype(int) + 1]
    model = make_pipeline(StandardScaler(), BayesianGLMClassifier()).fit(numbers, y)
    found = hypothesis(model, "x1 > `pulse rate`", reference="so").table
    assert found.index.tolist() == [("no", "x1 > `pulse rate`"), ("yes", "x1 > `pulse rate`")]
    with pytest.raises(AttributeError):
        _ = hypothesis(model, "x1 > `pulse rate`").probability


def test_the_response_scale_has_average_effects(rows):
    X, f, rng = rows
    model = BayesianGLMClassifier().fit(X, rng.random(len(f)) < norm.cdf(f))
    found = hypothesis(
        model, ["x1 > 0", "plan[T] > plan[U]", "plan_U = 0", "x1 = `pulse rate` + 1"], X=X, scale="response"
    )
    effects = marginal_effects(model, X, n_draws=2000)
    error = 4 * effects["std"] / np.sqrt(2000) + 0.002
    for name, row in [("x1 > 0", ("x1", "slope")), ("plan_U = 0", ("plan", "U - N"))]:
        assert abs(found.table.loc[name, "mean"] - effects.loc[row, "mean"]) < error[row]
    difference = effects.loc[("plan", "T - N"), "mean"] - effects.loc[("plan", "U - N"), "mean"]
    assert abs(found.table.loc["plan[T] > plan[U]", "mean"] - difference) < 0.02
    assert 0 < found.table.loc["x1 > 0", "probability"] <= 1
    assert found.table.loc["x1 = `pulse rate` + 1", "upper"] < 0
    assert found.scale == "response"


@pytest.mark.parametrize(
    "question, options, match",
    [
        ("x3 > 0", {}, "no effect of this fit, whose effects are x1"),
        ("plan[Z] > 0", {}, r"'plan\[Z\]' is no effect"),
        ("plan[N] > 0", {}, "first level with itself"),
        ([], {}, "hypotheses is empty"),
        ("x1 > 0", {"scale": "mean"}, "scale must be one of"),
        ("x1 > 0", {"effects": "mine"}, "effects must be one of"),
        ("x1 > 0", {"scale": "response"}, "X is needed"),
        ("plan > 0", {"scale": "response", "X": True}, r"has the effects \['plan\[T\]', 'plan\[U\]'\]"),
        ("intercept > 0", {"scale": "response", "X": True}, "no column of X"),
        ("x1 > 0", {"reference": "yes"}, "more than two classes"),
    ],
)
def test_refusals_name_what_was_found(rows, question, options, match):
    X, f, rng = rows
    model = BayesianGLMRegressor().fit(X, f + rng.normal(size=len(f)))
    options = options | ({"X": X} if options.get("X") else {})
    with pytest.raises(ValueError, match=match):
        hypothesis(model, question, **options)


def test_own_priors_need_independent_ones(rows):
    X, f, rng = rows
    wide = pd.DataFrame(rng.normal(size=(20, 30)), columns=[f"x{j}" for j in range(30)])
    model = BayesianGLMRegressor().fit(wide, wide["x0"] + rng.normal(size=20))
    found = hypothesis(model, "x0 - x1 > 0")
    assert found.effects == ("joint" if model.posterior_["weights"].components[0].correlated_prior else "own")
    gp = SparseGPRegressor(n_inducing=5, random_state=0).fit(X[["x1"]], f)
    with pytest.raises(TypeError, match="of linear models"):
        hypothesis(gp, "x1 > 0")
