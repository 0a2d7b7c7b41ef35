"""Data that say nothing, or everything: fits end in finite answers and a warning that names what was found."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    GMEClassifier,
    GMERegressor,
    SparseGPClassifier,
    SparseGPRegressor,
)
from sksvi.models.base import Starts
from sksvi.models.mixed.glm import MixedModel

# All-zero counts and separated labels have their optimum far away: some of these fits do not converge, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
COUNTS = ["poisson", "poisson-softplus", "negative-binomial"]


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


@pytest.fixture
def X(rng):
    return pd.DataFrame(rng.standard_normal((60, 3)), columns=["dose", "age", "weight"])


def told(model, X, y):
    """The model fitted, and the warnings about what was found."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(w.message) for w in caught if w.category is UserWarning]


def regressors(likelihood):
    grouped = GMERegressor(likelihood=likelihood, groups="site", noise=False, max_iter=30)
    process = SparseGPRegressor(likelihood=likelihood, n_inducing=10, max_iter=200, random_state=0)
    return [BayesianGLMRegressor(likelihood=likelihood), grouped, process]


@pytest.mark.parametrize("likelihood", COUNTS)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_counts_that_are_all_zero(likelihood, at, X):
    model = regressors(likelihood)[at]
    X = X.assign(site=np.arange(len(X)) % 6) if at == 1 else X
    (text,) = told(model, X, np.zeros(len(X)))
    assert "y is 0 in every row" in text and "Add rows" in text
    mean, std = model.predict(X[:5], return_std=True)
    assert np.all(mean < 1 / 20) and np.all((std > 0) & np.isfinite(std))
    assert np.all(model.predict_quantiles(X[:5], [0.5, 0.9]) == 0)
    assert np.all(model.predict_interval(X[:5]) <= 1)


@pytest.mark.parametrize("likelihood", COUNTS)
def test_scales_get_nodes_once_a_stream_of_zeros_has_an_event(likelihood, X):
    """Nodes of the prior alone have means that are ruled by its tail: 628 counts were predicted where none had come."""
    model = BayesianGLMRegressor(likelihood=likelihood)
    for _ in range(2):
        model.partial_fit(X, np.zeros(len(X)))
        assert not hasattr(model, "hyperparameter_posterior_") and np.sum(model.predict(X)) < 1.0
    model.partial_fit(X, np.arange(len(X)) % 3)
    assert len(model.hyperparameter_posterior_) > 1


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("likelihood", "y"), [("poisson", np.zeros(60)), ("binomial", np.tile([0.0, 3.0], (60, 1)))])
def test_one_message_is_enough(likelihood, y, X):
    """Their best fit is far away, which the finding says; "raise max_iter" would be no remedy."""
    with pytest.warns(UserWarning, match="max_iter") as caught:
        model = BayesianGLMRegressor(likelihood=likelihood, max_iter=3).fit(X, y)
    assert len(caught) == 1 and not model.converged_


def test_zeros_leave_the_dispersion_to_later_portions(X, rng):
    """The first portion says nothing about the dispersion, the second does."""
    model = BayesianGLMRegressor(likelihood="negative-binomial").partial_fit(X, np.zeros(len(X)))
    first = model.noise_
    assert first == pytest.approx(0.05)
    model.partial_fit(X, rng.negative_binomial(0.5, 0.1, len(X)))
    assert model.noise_ > 2 * first


@pytest.mark.parametrize("end", [0, 1])
def test_trials_that_all_end_alike(end, X):
    model = BayesianGLMRegressor(likelihood="binomial")
    y = np.zeros((len(X), 2))
    y[:, end] = 3
    (text,) = told(model, X, y)
    assert ("no failure", "no success")[end] in text
    assert np.all(np.abs(model.predict(X) - (1 - end)) < 0.02)


def test_trials_of_both_kinds_say_nothing(X, rng):
    y = np.c_[rng.binomial(5, 0.4, len(X)), np.full(len(X), 5)]
    assert told(BayesianGLMRegressor(likelihood="binomial"), X, y) == []


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t"])
@pytest.mark.parametrize("value", [0.0, 5.0])
def test_a_constant_target(likelihood, value, X):
    model = BayesianGLMRegressor(likelihood=likelihood)
    (text,) = told(model, X, np.full(len(X), value))
    assert f"y is {value:g} in every row" in text
    low, high = model.predict_interval(X).T
    assert np.all((low < value) & (value < high)) and np.all(high - low < 0.1)


@pytest.mark.parametrize(
    ("model", "cuts"),
    [
        (BayesianGLMClassifier(), [0.0]),
        (BayesianGLMClassifier(likelihood="probit"), [0.0]),
        (BayesianGLMClassifier(covariance="diag"), [0.0]),
        (BayesianGLMClassifier(), [-0.5, 0.5]),
        (BayesianGLMRegressor(likelihood="ordinal", max_iter=30), [-0.5, 0.5]),
        (GMEClassifier(), [0.0]),
    ],
    ids=repr,
)
def test_separated_labels_name_the_columns(model, cuts, X):
    """The first column decides, the last one a little."""
    direction = X["dose"] + 0.3 * X["weight"]
    gap = np.min(np.abs(direction.to_numpy()[:, None] - cuts), axis=1) > 0.1
    X, y = X[gap], np.digitize(direction[gap], cuts)
    (text,) = told(model, X, y)
    assert "mostly column 'dose'" in text and "perfect separation" in text and "prior_precision" in text
    assert np.all(np.isfinite(model.predict_proba(X)))


def test_labels_that_overlap_and_few_rows_say_nothing(X, rng):
    y = X["dose"] + rng.logistic(size=len(X)) > 0
    assert told(BayesianGLMClassifier(), X, y) == []
    # Seven rows in three columns and an intercept are told apart by chance more often than not.
    assert told(BayesianGLMClassifier(), X[:7], X["dose"][:7].rank() > 3) == []


def test_students_tails_without_end(X, rng):
    y = np.where(np.arange(len(X)) % 10 < 7, 0.0, rng.standard_normal(len(X)))
    model = BayesianGLMRegressor(likelihood="student-t")
    (text,) = told(model, X, y)
    assert "degrees of freedom" in text and "StudentT(df=4)" in text
    assert np.all(np.isfinite(model.predict_interval(X)))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("seed", [4, 6, 10])
def test_tails_far_beyond_the_rest(grouped, seed):
    """The fifth powers of Cauchy numbers: their standard deviation is that of one row, and no prior's width."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 3))
    tail = rng.standard_cauchy((2, 80))
    y = X[:, 0] + np.sign(tail[0]) * np.abs(tail[0]) ** 5
    y[:2] = 1e18, -1e15
    model = (GMERegressor if grouped else BayesianGLMRegressor)(likelihood="student-t").fit(X, y)
    assert np.all(np.isfinite(model.predict_interval(X))) and np.all(np.abs(model.coef_) < 100)


# ---- effects of which the learned prior leaves nothing
@pytest.mark.parametrize("model", [BayesianGLMRegressor(), GMERegressor(groups="site")], ids=repr)
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_columns_that_the_prior_shrinks_to_nothing_keep_an_interval(model, scale, X, rng):
    """About that of least squares, whatever the unit of the column; what is left on is as it was."""
    column = rng.standard_normal(len(X))
    y = 2 * X["dose"] + rng.standard_normal(len(X))
    # Of a column without any correlation to what is left of y the learned prior leaves nothing.
    own = X.assign(one=1.0).to_numpy()
    others = np.c_[own, y]
    column = column - others @ np.linalg.lstsq(others, column, rcond=None)[0]
    data = X.assign(idle=scale * column, site=np.arange(len(X)) % 10)
    model = model.set_params(prior_precision="ard")
    if not hasattr(model, "groups"):
        data = data.drop(columns="site")
    assert told(model, data, y) == []
    table = model.summary()
    assert model.summary(effects="joint").loc["idle", "std"] < 0.1 * table.loc["idle", "std"]
    error = np.sqrt(model.likelihood_.variance) / (np.linalg.norm(column) * scale)
    assert 0.8 * error < table.loc["idle", "std"] < 1.3 * error
    assert table.loc["idle", "lower"] < 0 < table.loc["idle", "upper"]


# ---- groups
@pytest.mark.parametrize(
    ("model", "warns"),
    [
        (GMERegressor(groups="row"), True),
        (GMEClassifier(groups="row"), True),
        (GMERegressor(likelihood="poisson", groups="row", noise=False), False),
    ],
    ids=repr,
)
def test_a_group_with_one_row_per_level(model, warns, X, rng):
    """Beside noise, or a label, its effects rest on their prior; for counts it is noise per row."""
    y = rng.poisson(np.exp(X["dose"]), len(X))
    y = y > 0 if isinstance(model, GMEClassifier) else y
    found = told(model, X.assign(row=np.arange(len(X))), y)
    assert len(found) == warns and all("group 'row' has one row in each level" in text for text in found)
    assert told(model, X.assign(row=np.arange(len(X)) // 3), y) == []


def test_slopes_need_groups(X):
    model = GMERegressor(random_slopes="dose")
    with pytest.raises(ValueError, match=r"random_slopes='dose'.*groups is None"):
        model.fit(X, X["age"])
    assert not hasattr(model, "n_features_in_")


def test_independent_slopes_of_a_column_far_from_zero_are_told(global_random_seed):
    """A calendar year: levels' intercepts are their lines at year 0, two thousand years from the data."""
    rng = np.random.default_rng(global_random_seed)
    g, year = rng.integers(0, 20, 300), rng.integers(1990, 2020, 300).astype(float)
    y = rng.normal(size=20)[g] + (0.3 + 0.1 * rng.normal(size=20)[g]) * (year - 2005) + 0.5 * rng.normal(size=300)
    model = GMERegressor(groups="g", random_slopes="year", correlated=False, max_iter=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.warns(UserWarning, match="random_slopes of 'year'.*Subtract a typical value"):
            model.fit(pd.DataFrame({"year": year, "g": g}), y)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(pd.DataFrame({"year": year - 2005, "g": g}), y)
            model.set_params(correlated=True).fit(pd.DataFrame({"year": year, "g": g}), y)


def test_how_far_a_column_lies_is_said_of_rows_as_they_weigh():
    """Few rows at 0 beside many that one row stands for: as among copies of it."""
    x, g = np.append(np.zeros(4), 100.0 + np.arange(8.0) % 3), np.arange(12) % 4
    weight = np.repeat([1.0, 500.0], [4, 8])
    model = GMERegressor(groups="g", random_slopes="x", correlated=False, max_iter=1)
    with pytest.warns(UserWarning, match="random_slopes of 'x': its values are 31 standard deviations"):
        model.fit(pd.DataFrame({"x": x, "g": g}), np.sin(x), sample_weight=weight)


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_slopes_of_a_column_far_from_zero_begin_where_they_may_stay(spread, global_random_seed, monkeypatch):
    """Two optima: one where intercepts at year 0 allow for the slopes, one without slopes, to which the default led."""
    rng = np.random.default_rng(global_random_seed)
    g, year = np.arange(300) % 20, rng.integers(1990, 2020, 300).astype(float)
    slopes = 0.3 + spread * np.linspace(-1.7, 1.7, 20)
    y = rng.normal(size=20)[g] + slopes[g] * (year - 2005) + 0.5 * rng.normal(size=300)
    model = GMERegressor(groups="g", random_slopes="year", correlated=False)
    near = clone(model).fit(pd.DataFrame({"year": year - 2005, "g": g}), y)
    X = pd.DataFrame({"year": year - 1805, "g": g})
    with pytest.warns(UserWarning, match="Subtract a typical value"):
        far = clone(model).fit(X, y)
        monkeypatch.setattr(MixedModel, "starts", Starts())
        first = clone(model).fit(X, y)
    assert far.converged_ and far.lower_bound_ >= first.lower_bound_ - 0.05
    if spread:
        std = far.group_std_["mean"].loc["g", "year"]
        assert std == pytest.approx(near.group_std_["mean"].loc["g", "year"], rel=0.15)
        assert np.std(far.predict(X) - near.predict(X.assign(year=year - 2005))) < 0.15


def test_coefficients_of_nothing_have_an_interval(global_random_seed):
    """Where the learned prior has shrunk to nothing, rows of the table have the width of least squares."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((40, 3))
    y = 1e4 * rng.standard_normal(40)
    y -= X @ np.linalg.lstsq(X - X.mean(0), y - y.mean(), rcond=None)[0]  # nothing is left for the columns to say
    model = BayesianGLMRegressor().fit(X, y)
    table = model.summary().iloc[:3]
    assert np.all(table["direction"] < 1)
    least = np.std(y) / np.sqrt(len(y)) / X.std(0)
    assert np.all(table["std"] > 0.8 * least) and np.all(table["std"] < 1.5 * least)
    assert np.all(model.coef_std_ > 0)


def test_a_process_about_zero_that_misses_the_target_is_told(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(0, 6, (60, 1))
    y = 50_000 + 10_000 * np.sin(X[:, 0]) + 1_000 * rng.standard_normal(60)
    with pytest.warns(UserWarning, match="the noise has a standard deviation of .* has not reached y"):
        SparseGPRegressor(kernel=ConstantKernel() * RBF()).fit(X, y)
    assert SparseGPRegressor().fit(X, y).score(X, y) > 0.9
    assert SparseGPRegressor(kernel=ConstantKernel(1e8, "fixed") * RBF()).fit(X, y - 50_000).score(X, y - 50_000) > 0.9


@pytest.mark.parametrize("row", [10, 1500])
def test_one_row_on_the_other_side_of_many_is_no_separation(row):
    """Wherever it lies: few rows are looked at before all are."""
    X = np.linspace(-1.0, 1.0, 2001)[np.random.default_rng(0).permutation(2001)]
    y = (X > 0.0).astype(int)
    X[row], y[row] = -0.9, 1
    BayesianGLMClassifier().fit(X[:, None], y)
    y[row] = 0
    told(BayesianGLMClassifier(), X[:, None], y)


@pytest.mark.costly
@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(BayesianGLMClassifier(), marks=pytest.mark.exhaustive),
        SparseGPClassifier(n_inducing=4, hyperparameters="point"),
    ],
    ids=["glm", "gp"],
)
def test_numbers_that_are_measured_are_no_classes(estimator, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.normal(size=(160, 2)), rng.permutation(160) // 2
    estimator = clone(estimator).set_params(max_iter=1)
    with pytest.warns(UserWarning, match="80 distinct numbers in 160 rows.*use a regressor"):
        estimator.fit(X, y)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        estimator.fit(X, y.astype(str))
    assert not any("distinct numbers" in str(warning.message) for warning in told)
