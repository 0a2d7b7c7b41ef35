"""Questions to the estimator inside pipelines, searches and transformed targets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import sksvi
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.predictive import unwrapped

N = 200


@pytest.fixture
def rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"a": rng.standard_normal(N), "b": rng.uniform(0, 100, N)})
    return X, np.exp(1.0 + 0.5 * X["a"].to_numpy() + 0.3 * rng.standard_normal(N))


def columns():
    return make_column_transformer((StandardScaler(), ["a"]), ("passthrough", ["b"]))


def wrapped():
    """A search around a pipeline around a transformed target."""
    inner = TransformedTargetRegressor(BayesianGLMRegressor(), func=np.log, inverse_func=np.exp)
    model = make_pipeline(columns(), inner)
    return GridSearchCV(model, {"transformedtargetregressor__regressor__prior_precision": ["auto"]}, cv=2)


def test_each_question_reaches_the_regressor_inside(rows):
    X, y = rows
    model = wrapped().fit(X, y)
    inner, steps, inverses = unwrapped(model)
    A = steps[0].transform(X)
    assert len(inverses) == 1 and inner.n_features_in_ == 2
    q = [0.1, 0.5, 0.9]
    np.testing.assert_allclose(sksvi.predict_quantiles(model, X, q), np.exp(inner.predict_quantiles(A, q)))
    np.testing.assert_allclose(sksvi.sample_y(model, X, 3, 0), np.exp(inner.sample_y(A, 3, 0)))
    density = inner.log_predictive_density(A, np.log(y)) - np.log(y)
    np.testing.assert_allclose(sksvi.log_predictive_density(model, X, y), density, atol=1e-8)
    table = sksvi.summary(model, coverage=0.5)
    assert table.index[:2].tolist() == ["standardscaler__a", "remainder__b"] or "b" in table.index[1]
    np.testing.assert_array_equal(table["mean"], inner.summary(coverage=0.5)["mean"])
    text = sksvi.summary_text(model, coverage=0.5)
    assert all(name in text for name in table.index) and "x0" not in text


@pytest.mark.filterwarnings("ignore:noise is larger where column")
def test_a_density_has_its_slope_and_sums_to_one(rows):
    X, y = rows
    model = TransformedTargetRegressor(BayesianGLMRegressor(), transformer=StandardScaler()).fit(X, y)
    plain = sksvi.log_predictive_density(model, X, y)
    inside = model.regressor_.log_predictive_density(X, (y - y.mean()) / y.std()) - np.log(y.std())
    np.testing.assert_allclose(plain, inside, atol=1e-8)
    grid = np.linspace(y.min() - 10 * y.std(), y.max() + 10 * y.std(), 4001)
    one = np.exp(sksvi.log_predictive_density(model, X.iloc[[0] * len(grid)], grid))
    assert abs(np.trapezoid(one, grid) - 1) < 1e-3
    flat = TransformedTargetRegressor(BayesianGLMRegressor(), func=np.sign, inverse_func=np.abs, check_inverse=False)
    with pytest.raises(ValueError, match="no slope at y"):
        sksvi.log_predictive_density(flat.fit(X, y * np.where(X["a"] > 0, 1, -1)), X, y)


@pytest.mark.filterwarnings("ignore:noise is larger where column")
def test_a_falling_transformation_turns_quantiles_round(rows):
    X, y = rows
    falling = FunctionTransformer(np.negative, np.negative)
    model = TransformedTargetRegressor(BayesianGLMRegressor(), transformer=falling).fit(X, y)
    plain = BayesianGLMRegressor().fit(X, y)
    q = [0.05, 0.3, 0.95]
    np.testing.assert_allclose(sksvi.predict_quantiles(model, X, q), plain.predict_quantiles(X, q), rtol=1e-5)
    np.testing.assert_allclose(sksvi.predict_interval(model, X), plain.predict_interval(X), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:noise is larger where column")
def test_a_saved_estimator_knows_the_names_of_its_columns(rows, tmp_path):
    X, y = rows
    model = make_pipeline(columns(), BayesianGLMRegressor()).fit(X, y)
    with pytest.warns(UserWarning, match="holds the BayesianGLMRegressor alone: keep columntransformer"):
        sksvi.save(model, tmp_path / "model")
    loaded = sksvi.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == model[0].get_feature_names_out().tolist()
    A = pd.DataFrame(model[0].transform(X), columns=loaded.feature_names_in_)
    np.testing.assert_array_equal(loaded.predict(A), model.predict(X))
    assert not hasattr(model[-1], "feature_names_in_")
    sksvi.save(BayesianGLMRegressor().fit(X, y), tmp_path / "bare")  # nothing is left out: no warning


@pytest.mark.filterwarnings("ignore:noise is larger where column")
def test_what_is_not_inside_is_named(rows):
    X, y = rows
    for ask in (
        lambda model: sksvi.predict_quantiles(model, X, [0.5]),
        lambda model: sksvi.sample_y(model, X),
        lambda model: sksvi.log_predictive_density(model, X, y),
        sksvi.summary,
    ):
        with pytest.raises(TypeError, match=r"LinearRegression has no .*fit one of sksvi's estimators inside"):
            ask(make_pipeline(StandardScaler(), LinearRegression()).fit(X, y))
    search = GridSearchCV(BayesianGLMRegressor(), {"tol": [1e-3]}, cv=2, refit=False).fit(X, y)
    with pytest.raises(TypeError, match="no best_estimator_: set refit=True"):
        sksvi.summary(search)
    classifier = make_pipeline(StandardScaler(), BayesianGLMClassifier()).fit(X, y > np.median(y))
    with pytest.raises(TypeError, match="BayesianGLMClassifier has no predict_interval: it is not for this kind"):
        sksvi.predict_interval(classifier, X)
    labels = make_pipeline(StandardScaler(), BayesianGLMClassifier()).fit(X, y > np.median(y))
    assert sksvi.log_predictive_density(labels, X, y > np.median(y)).shape == (N,)


def test_quantiles_of_counts_by_exposure(rows):
    X, _ = rows
    rng = np.random.default_rng(0)
    hours = rng.uniform(0.5, 20.0, N)
    y = rng.poisson(hours * np.exp(0.3 * X["a"]))
    model = make_pipeline(StandardScaler(), BayesianGLMRegressor(likelihood="poisson"))
    model.fit(X, y, bayesianglmregressor__exposure=hours)
    m, v = model[-1].predict_latent(model[0].transform(X), offset=np.log(hours))
    inside = sksvi.predict_interval(model, X, exposure=hours)
    median = sksvi.predict_quantiles(model, X, [0.5], exposure=hours)[:, 0]
    assert np.all(np.abs(median - stats.poisson.ppf(0.5, np.exp(m))) <= 1 + 0.05 * np.exp(m) + v)
    assert np.mean((y >= inside[:, 0]) & (y <= inside[:, 1])) > 0.9 - 4 * np.sqrt(0.09 / N)


def test_categories_by_their_type_through_a_pipeline(rows):
    """Columns of categories are found by their type, by an encoder or the model, and their levels have names."""
    X, y = rows
    X = X.assign(day=pd.Categorical(np.where(np.arange(N) % 3 == 0, "weekend", "week")))
    y = np.log(y) + 2.0 * (X["day"] == "weekend")
    with pytest.raises(ValueError, match=r"'day'.*OneHotEncoder"):
        BayesianGLMRegressor(categorical_features=None).fit(X, y)
    encoded = (OneHotEncoder(drop="first"), make_column_selector(dtype_include="category"))
    model = make_pipeline(make_column_transformer(encoded, remainder=StandardScaler()), BayesianGLMRegressor())
    row = sksvi.summary(model.fit(X, y)).loc["onehotencoder__day_weekend"]
    assert abs(row["mean"] - 2.0) < 4 * row["std"] < 1.0
    scaled = make_column_transformer((StandardScaler(), ["a", "b"]), remainder="passthrough")
    flat = make_pipeline(scaled.set_output(transform="pandas"), BayesianGLMRegressor(prior_precision="flat")).fit(X, y)
    row = sksvi.summary(flat).loc["remainder__day_weekend"]
    assert abs(row["mean"] - 2.0) < 4 * row["std"] < 1.0
