"""One verdict over a fit: every estimator has one, and rows that are not those of the fit are refused."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    DynamicGLM,
    GeneralizedPMF,
    GMERegressor,
    GPClassifier,
    SparseGPRegressor,
)
from sksvi.inspection import diagnose
from sksvi.inspection._diagnoses import in_order
from sksvi.inspection._hyperparameters import NORMAL_DF, Hyperparameters, hyperparameters
from sksvi.likelihoods import StudentT
from tests.contracts.test_registry import ESTIMATORS, small


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_estimator_has_a_diagnosis(cls):
    model, X, y = small(cls)
    model.fit(X) if y is None else model.fit(X, y)
    found = diagnose(model) if cls.__name__ == "DynamicGLM" else diagnose(model, X, y)
    assert set(found.parts["state"]) <= {"alarm", "fine", "not applicable"} and len(found.parts) == 9
    absent = found.parts[found.parts["state"] == "not applicable"]
    assert absent["found"].str.fullmatch(r"not applicable: .{10,}", flags=re.DOTALL).all()


def test_other_rows_are_refused():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = BayesianGLMRegressor().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="rows"):
        diagnose(model, X[:20], X[:20, 0])


def test_missing_columns_are_named():
    """Where rows lack the groups' column the error is scikit-learn's, as of predictions."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=40), "site": np.repeat(list("abcde"), 8)})
    model = GMERegressor(groups="site", prior_precision=1.0).fit(X, X["x"] + rng.normal(size=40))
    with pytest.raises(ValueError, match="feature names should match"):
        diagnose(model, X[["x"]], X["x"])


def test_a_small_p_value_is_not_zero(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(200, 1))
    y = rng.poisson(rng.gamma(0.5, 10.0, 200))
    with pytest.warns(UserWarning, match="varies"):
        model = BayesianGLMRegressor(likelihood="poisson").fit(X, y)
    found = diagnose(model, X, y).parts["found"]
    assert "uniform with p < 0.001" in found["calibration"] and not found.str.contains("p 0.000").any()


# ---- degrees of freedom
def freedom(middle: float, spread: float) -> Hyperparameters:
    """Nodes of a posterior of degrees of freedom: their logarithm has this middle and standard deviation."""
    df = np.exp(np.log(middle) + spread * np.array([-1.0, 1.0]))
    return Hyperparameters.of_nodes(pd.DataFrame({"weight": [0.5, 0.5], "df": df}))


def test_degrees_of_freedom_without_an_upper_end_are_an_alarm():
    """It is the upper side that data of normal noise leave open, and the remedy is a normal one."""
    found = hyperparameters(freedom(NORMAL_DF / 2, 1.0), np.inf, 200)
    assert found.alarm == "Degrees of freedom are not known from above: the noise may well be normal"
    assert found.remedy == 'likelihood="gaussian"' and found.text.startswith("df ")
    # Known from above, whatever they are from below: upper ends of 1.64 deviations decide.
    for middle, spread in [(4.0, 0.3), (4.0, 1.0)]:
        assert middle * np.exp(1.64 * spread) < NORMAL_DF
        assert hyperparameters(freedom(middle, spread), np.inf, 200).alarm == ""


def test_a_stated_number_of_degrees_of_freedom_that_is_normal_is_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    y = X[:, 0] + rng.normal(size=60)
    point = {"prior_precision": 1.0, "hyperparameters": "point"}
    found = diagnose(BayesianGLMRegressor(likelihood=StudentT(df=10 * NORMAL_DF), **point).fit(X, y), X, y)
    assert found.parts.loc["hyperparameters", "alarm"].startswith("Degrees of freedom are not known from above")
    found = diagnose(BayesianGLMRegressor(likelihood=StudentT(df=4.0), **point).fit(X, y), X, y)
    assert found.parts.loc["hyperparameters", "state"] == "fine"


def test_degrees_of_freedom_of_no_known_width_are_an_alarm():
    """Of data that say nothing of them the width is infinite, and no number overflows."""
    found = hyperparameters(Hyperparameters({"df": np.log(1e6)}, {"df": np.inf}, {}), np.inf, 200)
    assert found.alarm.startswith("Degrees of freedom") and "(×/÷ inf)" in found.text


@pytest.mark.costly
@pytest.mark.parametrize("normal", [True, False])
def test_a_verdict_on_a_fit_names_the_open_side(normal, global_random_seed):
    """Of normal noise degrees of freedom have no upper end; of a t of two they have, in five sets of 300 rows."""
    rng = np.random.default_rng(global_random_seed)
    accused = 0
    for _ in range(5):
        X = rng.normal(size=(300, 1))
        noise = rng.normal(size=300) if normal else rng.standard_t(2.0, 300)
        found = diagnose(BayesianGLMRegressor(likelihood="student-t").fit(X, X[:, 0] + noise), X, X[:, 0] + noise)
        accused += "not known from above" in found.parts.loc["hyperparameters", "alarm"]
    assert accused >= 4 if normal else accused == 0


# ---- hyperparameters that are points
POINT = {"hyperparameters": "point"}


def levels(rng, n_levels, each, std):
    g = np.repeat(np.arange(n_levels), each)
    X = pd.DataFrame({"x": rng.normal(size=len(g)), "g": g})
    return X, X["x"] + std * rng.normal(size=n_levels)[g] + rng.normal(size=len(g))


def point_alarm(model, X, y):
    model.set_params(**POINT).fit(X, y)
    return (diagnose(model) if X is None else diagnose(model, X, y)).parts.loc["hyperparameters", "alarm"]


@pytest.mark.exhaustive
def test_points_that_are_no_estimates_are_alarms(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    x = rng.uniform(-2, 2, (60, 1))
    assert "may be zero" in point_alarm(GMERegressor(groups="g"), *levels(rng, 3, 10, 1.0))
    assert "ran away" in point_alarm(GPClassifier(), x, (x[:, 0] > 0).astype(int))
    constant = np.repeat([1.0, -1.0], 20) * np.tile([1.0, -1.0], 20)  # goes back and forth about one level
    assert "level_variance collapsed" in point_alarm(DynamicGLM(likelihood="gaussian"), None, constant)
    noise = rng.normal(size=300)
    assert "Degrees of freedom" in point_alarm(BayesianGLMRegressor(likelihood="student-t"), noise[::-1, None], noise)


def test_points_that_are_determined_are_none(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    x = rng.uniform(-2, 2, (80, 1))
    f = np.sin(2 * x[:, 0])
    process = SparseGPRegressor(kernel=ConstantKernel() * RBF(1.0), n_inducing=15)
    assert point_alarm(GMERegressor(groups="g"), *levels(rng, 30, 8, 1.0)) == ""
    assert point_alarm(process, x, f + 0.3 * rng.normal(size=80)) == ""
    many = rng.normal(size=(300, 1))
    assert point_alarm(BayesianGLMRegressor(likelihood="student-t"), many, rng.standard_t(2.0, 300)) == ""
    assert point_alarm(BayesianGLMRegressor(), x, x[:, 0]) == ""  # no noise at all, of which rows are sure


def test_widths_of_points_are_those_of_nodes(global_random_seed):
    """The information of 30 levels stands for the posterior of their standard deviation, within a third."""
    X, y = levels(np.random.default_rng(global_random_seed), 30, 20, 1.0)
    by_nodes = Hyperparameters.of_nodes(GMERegressor(groups="g").fit(X, y).hyperparameter_posterior_)
    points = Hyperparameters.of_points(GMERegressor(groups="g", **POINT).fit(X, y), len(y))
    assert points.sd["std(g, intercept)"] == pytest.approx(by_nodes.sd["std(g, intercept)"], rel=1 / 3)


# ---- rows that follow one another
def autocorrelated(rng, n):
    e = rng.normal(size=n)
    for t in range(1, n):
        e[t] += 0.8 * e[t - 1]
    return e


def test_residuals_that_follow_in_time_are_an_alarm(global_random_seed):
    rng, n = np.random.default_rng(global_random_seed), 200
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    y = X["a"] + autocorrelated(rng, n)
    found = diagnose(BayesianGLMRegressor().fit(X, y), X, y)
    assert found.parts.loc["autocorrelation", "alarm"].endswith("in the order of rows, as in time")
    assert "DynamicGLM, or a lag" in found.parts.loc["autocorrelation", "remedy"]
    shuffled = rng.permutation(n)
    dates = pd.date_range("2024-01-01", periods=n)
    Z, z = X.set_axis(dates).iloc[shuffled], y.set_axis(dates).iloc[shuffled]
    found = diagnose(BayesianGLMRegressor().fit(Z, z), Z, z)
    assert found.parts.loc["autocorrelation", "alarm"].endswith("in the order of dates")
    X["t"] = np.arange(n)
    found = diagnose(BayesianGLMRegressor().fit(X, y), X, y)
    assert found.parts.loc["autocorrelation", "alarm"].endswith("in which 't' rises or falls")


def test_rows_in_some_order_are_none(global_random_seed):
    """Rows in the order of a column, of groups, or of y itself follow nothing that is missing."""
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    y = X["a"] + rng.normal(size=200)
    for order, state in (
        (X["a"].argsort(), "fine"),
        (y.argsort(), "not applicable"),
        ((-y).argsort(), "not applicable"),
    ):
        found = diagnose(BayesianGLMRegressor().fit(X.iloc[order], y.iloc[order]), X.iloc[order], y.iloc[order])
        assert found.parts.loc["autocorrelation", "state"] == state
    X, y = levels(rng, 30, 4, 1.0)
    assert diagnose(GMERegressor(groups="g").fit(X, y), X, y).parts.loc["autocorrelation", "state"] == "fine"
    X, y = levels(rng, 30, 4, 3.0)
    found = diagnose(BayesianGLMRegressor().fit(X[["x"]], y), X[["x"]], y)
    assert "group or column that neighbours share" in found.parts.loc["autocorrelation", "remedy"]


def test_values_in_long_runs_are_in_order(global_random_seed):
    """Sorted values, and those sorted in parts of many rows; neither noise nor a walk."""
    noise = np.random.default_rng(global_random_seed).normal(size=200)
    assert in_order(np.sort(noise)) and in_order(np.sort(noise.reshape(10, 20), axis=1).ravel())
    assert not in_order(noise) and not in_order(np.cumsum(noise))


# ---- kinds of rows
@pytest.mark.parametrize("weights", [None, pytest.param(2.0, marks=pytest.mark.exhaustive)])
def test_other_targets_of_factors_are_told(weights, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.integers(0, 12, (200, 2)), rng.normal(size=200)
    given = {} if weights is None else {"sample_weight": np.full(200, weights)}
    model = GeneralizedPMF(n_components=1, likelihood="gaussian", random_state=0).fit(X, y, **given)
    diagnose(model, X, y, **given)
    with pytest.warns(UserWarning, match=r"R² of the fit is .* X and y are not those of the fit"):
        diagnose(model, X, y[::-1], **given)
    with pytest.raises(ValueError, match="total weight of 100"):
        diagnose(model, X[:100], y[:100])


def test_a_wide_fit_is_not_accused_of_separation(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(50, 2000))
    y = (X[:, 0] + rng.logistic(size=50) > 0).astype(int)
    model = BayesianGLMClassifier(covariance="low-rank").fit(X, y)
    found = diagnose(model, X, y)
    assert found.alarms == [] and np.isnan(found.k_hat)
    with pytest.warns(UserWarning, match="accuracy of the fit"):
        diagnose(model, X, 1 - y)


@pytest.mark.filterwarnings("ignore:y varies")
def test_overdispersed_shares_are_told(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(200, 2))
    odds = np.exp(X[:, 0])
    for share, alarm in (
        (odds / (1 + odds), ""),
        (rng.beta(2 * odds / (1 + odds), 2 / (1 + odds)), "y is overdispersed"),
    ):
        successes = rng.binomial(12, share)
        y = np.column_stack([successes, 12 - successes])
        found = diagnose(BayesianGLMRegressor(likelihood="binomial").fit(X, y), X, y)
        assert found.parts.loc["calibration", "alarm"] == alarm


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "student-t"])
def test_a_stream_has_the_verdict_of_its_rows(likelihood, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(300, 2))
    tails = stats.t(3.0).ppf((rng.permutation(300) + 0.5) / 300)  # no row at the limit of what is an outlier
    y = rng.poisson(np.exp(1 + 0.5 * X[:, 0])) if likelihood == "poisson" else X[:, 0] + tails
    model = BayesianGLMRegressor(likelihood=likelihood)
    for part in np.split(np.arange(300), 3):
        model.partial_fit(X[part], y[part])
    parts = diagnose(model, X, y).parts["state"]
    at_once = diagnose(BayesianGLMRegressor(likelihood=likelihood).fit(X, y), X, y).parts["state"]
    for part in ("dispersion", "calibration", "influence", "posterior", "autocorrelation"):
        assert parts[part] == at_once[part]


def test_collections_are_refused():
    array = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = BayesianGLMRegressor().fit(X, X[:, 0])
    with pytest.raises(TypeError, match=r"X is a Dask collection.* give X.compute\(\)"):
        diagnose(model, array.from_array(X), X[:, 0])
