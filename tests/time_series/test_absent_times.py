"""Times that an index leaves out are gaps of its frequency, and clocks that change are told."""

import numpy as np
import pandas as pd
import pytest

from sksvi import DynamicGLM
from sksvi.time_series._frequency import spanned

START = "2024-01-31"
FREQUENCIES = ["D", "B", "h", "7D", "ME", "W-MON"]


def without(times, seed=0):
    absent = 2 + np.random.default_rng(seed).choice(len(times) - 4, len(times) // 5, replace=False)
    return times.delete(absent)


@pytest.mark.parametrize("frequency", FREQUENCIES)
@pytest.mark.parametrize("zone", [None, "Europe/London"])
def test_absent_times_have_their_place(frequency, zone, global_random_seed):
    times = pd.date_range(START, periods=60, freq=frequency, tz=zone)
    assert spanned(without(times, global_random_seed)).equals(times)
    assert spanned(times._with_freq(None)) is None


def test_periods_and_times_without_a_frequency():
    months = pd.period_range("2020-01", periods=40, freq="M")
    assert spanned(without(months)).equals(months)
    scattered = pd.DatetimeIndex(pd.Timestamp(START) + pd.to_timedelta(np.cumsum(np.arange(1, 40)) ** 2, "s"))
    assert spanned(scattered) is None and spanned(pd.RangeIndex(5)) is None


def test_a_fit_without_rows_of_gaps_is_that_with_them(global_random_seed):
    rng, times = np.random.default_rng(global_random_seed), pd.date_range(START, periods=84, freq="D")
    y = pd.Series(2 + np.sin(2 * np.pi * np.arange(84) / 7) + 0.05 * rng.standard_normal(84), times)
    X = pd.DataFrame({"x": rng.standard_normal(84)}, times)
    rows, own = without(times, global_random_seed), {"likelihood": "gaussian", "level": "walk", "seasonal": 7}
    with pytest.warns(UserWarning, match="leaves out 16 of the 84 times of <Day>"):
        model = DynamicGLM(**own).fit(None, y[rows])
    whole = DynamicGLM(**own).fit(None, y.where(times.isin(rows)))
    pd.testing.assert_frame_equal(model.forecast(7), whole.forecast(7))
    assert model.index_.equals(times) and model.forecast(1).index[0] == times[-1] + times.freq
    with pytest.warns(UserWarning, match="leaves out"):
        model = DynamicGLM(**own).fit(X.loc[rows], y[rows])
    assert len(model.predict(X.loc[rows])) == len(rows) and np.isfinite(model.score(X.loc[rows], y[rows]))


def test_clocks_that_change():
    times = pd.date_range("2020-03-20", periods=24 * 8, freq="h", tz="Europe/London")
    rng = np.random.default_rng(0)
    y = pd.Series(np.abs(times.hour.to_numpy() - 12) + 0.1 * rng.standard_normal(len(times)), times)
    model = DynamicGLM(likelihood="gaussian", seasonal={24: 4}, level="constant").fit(None, y)
    with pytest.warns(UserWarning, match="clocks of Europe/London change"):
        model.forecast(48)
    hours = lambda at: pd.get_dummies(pd.Categorical(at.hour, range(24))).set_axis(at).iloc[:, 1:]  # noqa: E731
    model = DynamicGLM(likelihood="gaussian", level="constant").fit(hours(times), y)
    ahead = pd.date_range(times[-1], periods=49, freq="h")[1:]
    off = model.forecast(48, hours(ahead))["mean"] - np.abs(ahead.hour.to_numpy() - 12)
    assert np.abs(off).max() < 4.5 * 0.1 / np.sqrt(8)
