"""Predictions along a column or in time, with their bands."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, DynamicGLM, GPClassifier, SparseGPRegressor
from sksvi.displays import PITDisplay, PredictionBandDisplay

pytest.importorskip("matplotlib")


@pytest.fixture
def curve(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(0, 6, (80, 1))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(80)


def ends(band):
    """Lower and upper ends as they are drawn."""
    at = band.get_paths()[0].vertices
    return at[:, 1].min(), at[:, 1].max()


def test_bands_along_the_only_column(curve):
    X, y = curve
    model = SparseGPRegressor(n_inducing=10, hyperparameters="point").fit(X, y)
    display = PredictionBandDisplay.from_estimator(model, X, y, coverages=(0.5, 0.8), n_points=50)
    places = np.linspace(X.min(), X.max(), 50)
    assert_allclose(display.x, places)
    mean, std = model.predict(places[:, None], return_std=True)
    assert_allclose(display.line_.get_ydata(), mean)
    assert list(display.bands) == [0.8, 0.5]
    assert_allclose(display.bands[0.8], mean[:, None] + 1.2815516 * std[:, None] * [-1, 1], atol=1e-6)
    assert_allclose(ends(display.bands_[0]), [display.bands[0.8].min(), display.bands[0.8].max()])
    assert_array_equal(display.points_.get_xdata(), X[:, 0])
    assert_array_equal(display.points_.get_ydata(), y)
    assert display.ax_.get_xlabel() == "x0" and display.ax_.get_ylabel() == "y"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["80 %", "50 %", "mean", "observed"]
    bare = PredictionBandDisplay.from_estimator(model, X, ax=display.ax_, color="C3")
    assert bare.points_ is None and bare.line_.get_color() == "C3" and bare.ax_ is display.ax_
    display.figure_.canvas.draw()
    # Over nodes of the hyperparameters no band is one of normal quantiles.
    mixed = SparseGPRegressor(n_inducing=10).fit(X, y)
    display = PredictionBandDisplay.from_estimator(mixed, X, y, coverages=(0.5, 0.8), n_points=50)
    for coverage, band in display.bands.items():
        assert_allclose(band, mixed.predict_interval(places[:, None], coverage))


def test_other_columns_stay_at_their_medians(global_random_seed):
    """Through a pipeline, with a column of names, which stays at the most frequent one."""
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"age": rng.normal(40, 9, 60), "site": ["a"] * 40 + ["b"] * 20, "rank": rng.integers(0, 9, 60)})
    y = pd.Series(0.1 * X["age"] + (X["site"] == "b") + rng.standard_normal(60), name="score")
    columns = ColumnTransformer([("one", OneHotEncoder(), ["site"])], remainder=StandardScaler())
    model = make_pipeline(columns, BayesianGLMRegressor()).fit(X, y)
    display = PredictionBandDisplay.from_estimator(model, X, y, feature="age", n_points=5)
    rows = pd.DataFrame({"age": display.x, "site": "a", "rank": int(np.sort(X["rank"])[29])})
    assert_allclose(display.centre, model.predict(rows))
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("age", "score")
    assert display.ax_.get_title(loc="left") == "other columns at their medians"
    by_place = PredictionBandDisplay.from_estimator(model, X, feature=0, n_points=5)
    assert_allclose(by_place.centre, display.centre)
    for wrong, said in (
        ({}, r"X has 3 columns: say by feature along which, one of \['age', 'site', 'rank'\]"),
        ({"feature": "size"}, "feature must be one of the 3 columns.*found 'size'"),
        ({"feature": "site"}, "column 'site' has no numbers"),
        ({"feature": "age", "n_points": 1}, "n_points must be a whole number of at least 2; found 1"),
        ({"feature": "age", "coverages": [1.5]}, "coverage must lie strictly between 0 and 1; found 1.5"),
    ):
        with pytest.raises(ValueError, match=said):
            PredictionBandDisplay.from_estimator(model, X, **wrong)


def test_probabilities_have_the_bands_of_their_latent(curve):
    X, y = curve
    labels = np.where(y > 0, "up", "down")
    model = GPClassifier().fit(X, labels)
    display = PredictionBandDisplay.from_estimator(model, X, labels, coverages=[0.9], n_points=20)
    mean, variance = model.predict_latent(display.x[:, None])
    wanted = 1 / (1 + np.exp(-(mean[:, None] + norm.ppf(0.95) * np.sqrt(variance)[:, None] * [-1, 1])))
    assert_allclose(display.bands[0.9], wanted, rtol=1e-6)
    assert_allclose(display.centre, model.predict_proba(display.x[:, None])[:, 1])
    assert_array_equal(display.points_.get_ydata(), y > 0)
    assert display.ax_.get_ylabel() == "Probability of y = up"


def test_transformed_targets_have_a_median(curve):
    X, y = curve
    model = TransformedTargetRegressor(BayesianGLMRegressor(), func=np.log, inverse_func=np.exp).fit(X, np.exp(y))
    display = PredictionBandDisplay.from_estimator(model, X, n_points=10)
    inner = model.regressor_.predict_quantiles(display.x[:, None], [0.05, 0.5, 0.95])
    assert display.what == "median"
    assert_allclose(display.centre, np.exp(inner[:, 1]))
    assert_allclose(display.bands[0.9], np.exp(inner[:, [0, 2]]))


def test_points_of_a_series(global_random_seed):
    index = pd.period_range("2020-01", periods=36, freq="M", name="month")
    y = pd.Series(np.random.default_rng(global_random_seed).poisson(5, 36), index)
    model = DynamicGLM(likelihood="poisson", level_variance=0.01).fit(None, y)
    display = PredictionBandDisplay.from_estimator(model)
    assert_allclose(display.centre, model.predict())
    assert_allclose(display.bands[0.9], model.predict_interval(None, 0.9))
    assert display.x[0] == np.datetime64("2020-01-01") and display.ax_.get_xlabel() == "month"
    assert_array_equal(display.points_.get_ydata(), y)


def test_given_quantiles():
    display = PredictionBandDisplay.from_predictions(
        [3, 1, 2], [[1, 2, 3], [0, 1, 2], [1, 2, 4]], [0.05, 0.5, 0.95], [2, 1, 2]
    )
    assert_array_equal(display.line_.get_xdata(), [1, 2, 3])
    assert_array_equal(display.line_.get_ydata(), [1, 2, 2])
    assert_array_equal(display.bands[0.9], [[0, 2], [1, 4], [1, 3]])
    assert_array_equal(display.points_.get_xdata(), [3, 1, 2])
    with pytest.raises(ValueError, match=r"levels must be 0.5 and pairs p and 1 - p; found \[0.1, 0.9\]"):
        PredictionBandDisplay.from_predictions([1], [[1, 2]], [0.1, 0.9])
    with pytest.raises(ValueError, match=r"quantiles has shape \(1, 2\), expected \(1, 3\)"):
        PredictionBandDisplay.from_predictions([1], [[1, 2]], [0.1, 0.5, 0.9])
    with pytest.raises(ValueError, match=r"the band of coverage 0.5 has shape \(2, 1\), expected \(2, 2\)"):
        PredictionBandDisplay([0, 1], [0, 1], {0.5: [[1], [1]]})
    with pytest.raises(ValueError, match="must be of one length"):
        PredictionBandDisplay([0, 1], [0], {})
    with pytest.raises(ValueError, match="give a value per place"):
        PredictionBandDisplay([0, 1], [0, 1], {}, ([0], [1, 2]))


def test_series_of_labels_and_of_several(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    model = DynamicGLM(likelihood="logit", level_variance=0.1).fit(None, rng.integers(0, 2, 40))
    assert PredictionBandDisplay.from_estimator(model).ax_.get_ylabel() == "Probability of y = 1"
    rows = pd.DataFrame({"shop": np.repeat(["a", "b"], 30)})
    panel = DynamicGLM(groups="shop", level_variance=0.1).fit(rows, rng.poisson(4, 60))
    for display in (PredictionBandDisplay, PITDisplay):
        with pytest.raises(ValueError, match="several series: draw one of its series_"):
            display.from_estimator(panel)
    assert PredictionBandDisplay.from_estimator(panel.series_["a"]).x.shape == (30,)


def test_what_has_no_band_is_said(curve):
    X, y = curve
    with pytest.raises(ValueError, match=r"X must be a table of shape .* that is not sparse"):
        PredictionBandDisplay.from_estimator(BayesianGLMRegressor().fit(X, y), sp.csr_matrix(X))
    model = BayesianGLMRegressor().fit(X, y)
    with pytest.raises(NotFittedError):
        PredictionBandDisplay.from_estimator(clone(model), X)
    with pytest.raises(ValueError, match="BayesianGLMRegressor needs X"):
        PredictionBandDisplay.from_estimator(model)
    several = BayesianGLMClassifier(max_iter=300).fit(X, np.arange(80) % 3)
    with pytest.raises(ValueError, match="predicts several classes or levels, which have no band"):
        PredictionBandDisplay.from_estimator(several, X)


def test_whole_numbers_are_those_of_the_data():
    """Something behind may take them as categories: between two of them there is none."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"hour": rng.integers(0, 24, 300), "temperature": rng.standard_normal(300)})
    model = BayesianGLMRegressor().fit(X, X["hour"] + rng.standard_normal(300))
    display = PredictionBandDisplay.from_estimator(model, X, feature="hour", n_points=10)
    assert len(display.x) == 10 and set(display.x) <= set(X["hour"]) and {display.x[0], display.x[-1]} == {0, 23}


def test_bands_have_offset_and_exposure(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"speed": rng.uniform(0, 2, 90), "wet": rng.integers(0, 2, 90)})
    km = rng.uniform(1, 9, 90)
    y = rng.poisson(km * np.exp(0.5 * X["speed"]))
    model = BayesianGLMRegressor(likelihood="poisson").fit(X, y, exposure=km)
    rows = pd.DataFrame({"speed": np.linspace(X["speed"].min(), X["speed"].max(), 20)})
    rows["wet"] = np.sort(X["wet"])[44]  # the middle one of whole numbers, as of half and half there is none between

    def drawn(**given):
        return PredictionBandDisplay.from_estimator(model, X, feature="speed", n_points=20, coverages=0.8, **given)

    ten = drawn(exposure=10)
    assert_allclose(ten.centre, model.predict(rows, exposure=10))
    assert_allclose(ten.bands[0.8], model.predict_interval(rows, 0.8, exposure=10))
    assert ten.note == "other columns at their medians, exposure 10"
    each = drawn(exposure=km)
    assert_allclose(each.centre, model.predict(rows, offset=np.median(np.log(km))))
    assert each.note == "other columns and exposure at their medians"
    assert_allclose(drawn(offset=0.5, exposure=2.0).centre, model.predict(rows, offset=0.5, exposure=2.0))
    with pytest.raises(ValueError, match=r"exposure.shape == \(3,\), expected \(90,\)"):
        drawn(exposure=km[:3])
    with pytest.warns(UserWarning, match="fitted with an exposure"):
        drawn()
    # Counts of a level: those of a speed that is drawn anew at every point are noise, of which a warning may be right.
    series = DynamicGLM().fit(None, rng.poisson(km), exposure=km)
    assert_allclose(
        PredictionBandDisplay.from_estimator(series, exposure=np.full(90, 2.0)).centre,
        series.predict(exposure=np.full(90, 2.0)),
    )
