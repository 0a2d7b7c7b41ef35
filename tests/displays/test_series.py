"""Time series, their bands and fans, and the parts of their latents."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksvi import BayesianGLMRegressor, DynamicGLM
from sksvi.displays import TimeSeriesDisplay

pytest.importorskip("matplotlib")


@pytest.fixture
def counts(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y = rng.poisson(5, 48).astype(float)
    y[7:9] = np.nan
    return pd.Series(y, pd.period_range("2020-01", periods=48, freq="M"))


def vertices(band):
    return band.get_paths()[0].vertices


def test_series_with_a_fan(counts):
    model = DynamicGLM(level_variance=0.01, seasonal=4, seasonal_variance=0.0).fit(None, counts)
    display = TimeSeriesDisplay.from_estimator(model, steps=5, fan=(0.5, 0.8))
    assert_array_equal(display.points_.get_ydata(), counts)
    assert_allclose(display.lines_[0].get_ydata(), model.predict())
    assert_allclose(display.lines_[1].get_ydata(), model.forecast(5)["mean"])
    _, wide, narrow = display.bands_
    assert vertices(wide)[:, 1].max() == model.forecast(5, coverage=0.8)["upper"].max()
    assert vertices(narrow)[:, 1].max() == model.forecast(5, coverage=0.5)["upper"].max()
    # Months are dates, and the fan begins where the series ends.
    assert display.lines_[1].get_xdata()[0] == np.datetime64("2024-01-01")
    display.figure_.canvas.draw()
    assert display.ax_.get_xlabel() == "Time"
    legend, axes = display.ax_.get_legend().get_window_extent(), display.ax_.get_window_extent()
    assert legend.y0 >= axes.y1 - 1  # above the data
    short = display.plot(last=10)
    assert len(short.points_.get_ydata()) == 10
    one = TimeSeriesDisplay.from_estimator(model, steps=1)
    assert one.lines_[1].get_marker() == "o" and len(one.bands_) == 3


def test_components(counts):
    model = DynamicGLM(level_variance=0.01, trend=True, trend_variance=0.0, seasonal=4).fit(None, counts)
    display = TimeSeriesDisplay.from_estimator(model, kind="components", coverage=0.5)
    assert [ax.get_ylabel() for ax in display.ax_] == ["level", "trend", "seasonal"]
    assert [ax.get_xlabel() for ax in display.ax_] == ["", "", "Time"]
    parts = model.components_
    assert_allclose(display.lines_[0].get_ydata(), parts["level", "mean"])
    high = (parts["level", "mean"] + 0.6744898 * parts["level", "std"]).max()
    assert_allclose(vertices(display.bands_[0])[:, 1].max(), high)
    display.figure_.canvas.draw()
    with pytest.raises(ValueError, match="ax has 1 axes for the 3 components"):
        display.plot(display.ax_[0], kind="components")


def test_probabilities_in_the_place_of_zeros_and_ones(counts):
    y = (counts > 4).astype(float).where(counts.notna())
    model = DynamicGLM(likelihood="logit", level_variance=0.1).fit(None, y)
    display = TimeSeriesDisplay.from_estimator(model, steps=3)
    latent = model.forecast_latent(3)
    assert_allclose(display.forecasts[0.9]["upper"], 1 / (1 + np.exp(-latent["upper"])))
    assert display.smoothed["upper"].max() < 1.0 and display.smoothed["lower"].min() > 0.0
    trials = DynamicGLM(likelihood="binomial", level_variance=0.1).fit(None, np.column_stack([y * 2, 4 - y * 2]))
    assert_array_equal(TimeSeriesDisplay.from_estimator(trials).points_.get_ydata(), y / 2)


def test_columns_ahead_and_other_indices(counts):
    X = np.linspace(-1, 1, 48)[:, None]
    model = make_pipeline(StandardScaler(), DynamicGLM(level_variance=0.01)).fit(X, counts.to_numpy())
    display = TimeSeriesDisplay.from_estimator(model, steps=2, X=[[1.0], [1.1]])
    assert_array_equal(display.lines_[1].get_xdata(), [48, 49])
    aware = counts.set_axis(pd.date_range("2020-03-01", periods=48, freq="D", tz="Europe/Berlin"))
    display = TimeSeriesDisplay.from_estimator(DynamicGLM(level_variance=0.01).fit(None, aware), steps=2)
    assert display.lines_[1].get_xdata()[0] == np.datetime64("2020-04-18")


def test_what_is_refused(counts):
    with pytest.raises(NotFittedError):
        TimeSeriesDisplay.from_estimator(DynamicGLM())
    with pytest.raises(TypeError, match="components_"):
        TimeSeriesDisplay.from_estimator(BayesianGLMRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0]))
    model = DynamicGLM(level_variance=0.01).fit(None, counts)
    for wrong, said in (
        ({"kind": "parts"}, "kind='parts' is unknown"),
        ({"last": 0}, "last must be"),
        ({"steps": -1}, "steps must"),
    ):
        with pytest.raises(ValueError, match=said):
            TimeSeriesDisplay.from_estimator(model, **wrong)
    with pytest.raises(ValueError, match="no components"):
        TimeSeriesDisplay(counts, pd.DataFrame({"mean": counts, "lower": counts, "upper": counts})).plot(
            kind="components"
        )
    with pytest.raises(ValueError, match="48 points and smoothed 1"):
        TimeSeriesDisplay(counts, pd.DataFrame({"mean": [1.0]}))
