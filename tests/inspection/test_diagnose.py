"""One verdict over a fit: every estimator has one, and rows that are not those of the fit are refused."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from sksvi import BayesianGLMRegressor, GMERegressor
from sksvi.inspection import diagnose
from sksvi.inspection._findings import NORMAL_DF, hyperparameters
from sksvi.likelihoods import StudentT
from tests.contracts.test_registry import ESTIMATORS, small


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_estimator_has_a_diagnosis(cls):
    model, X, y = small(cls)
    model.fit(X) if y is None else model.fit(X, y)
    found = diagnose(model) if cls.__name__ == "DynamicGLM" else diagnose(model, X, y)
    assert set(found.parts["state"]) <= {"alarm", "fine", "not applicable"} and len(found.parts) == 8
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
def freedom(middle: float, spread: float) -> pd.DataFrame:
    """Nodes of a posterior of degrees of freedom: their logarithm has this middle and standard deviation."""
    return pd.DataFrame({"weight": [0.5, 0.5], "df": np.exp(np.log(middle) + spread * np.array([-1.0, 1.0]))})


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
    assert found.parts.loc["hyperparameters", "state"] == "not applicable"


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
