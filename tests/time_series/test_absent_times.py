"""Times that an index leaves out are gaps of its frequency, and clocks that change are told."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import sksvi
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


HOURS = np.abs(np.arange(24) - 12.0)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("first", "own"),
    [
        ("2024-03-24", {"seasonal": 24, "seasonal_variance": 0.0}),  # an hour is left out on the 31st
        (
            "2024-10-20",
            {"seasonal": 24, "seasonal_type": "trigonometric", "seasonal_variance": 1e-4},
        ),  # one comes twice
        ("2024-10-20", {"seasonal": {24: "full"}}),
    ],
)
def test_seasons_follow_the_clock(first, own, global_random_seed, tmp_path):
    """An hour of the clock has its value of the profile before a change and after it, in the fit and ahead."""
    times = pd.date_range(first, periods=24 * 12, freq="h", tz="Europe/Berlin")
    noise = 0.1 * np.random.default_rng(global_random_seed).standard_normal(len(times))
    y = pd.Series(HOURS[times.hour] + noise, times)
    change = int(np.argmax(times.map(lambda at: at.utcoffset()) != times[0].utcoffset()))
    own = {"likelihood": sksvi.likelihoods.Gaussian(variance=0.01), "level": "constant", **own}
    for n in (change - 5, change + 48):
        model = DynamicGLM(**own).fit(None, y[:n])
        ahead = model.forecast(len(times) - n)
        assert ahead.index.equals(times[n:])
        error = np.abs(ahead["mean"].to_numpy() - HOURS[times.hour][n:])
        assert error.max() < 4.5 * 0.1 * np.sqrt(24 / (n - 24)) + 4.0 * 0.1 / np.sqrt(24)
        before, after = np.split(model.predict() - HOURS[times.hour][:n], [min(change, n - 24)])
        assert np.abs(after).max() < np.abs(before).max() + 0.1
    parts = model.components_
    assert_allclose(parts["level", "mean"] + parts["seasonal", "mean"], model.predict(), atol=1e-8)
    assert_allclose(
        model.summary().loc["seasonal", ["mean", "std"]].astype(float), parts["seasonal"].iloc[-1], rtol=1e-6
    )
    assert_allclose(model.predict(pd.DataFrame(index=times[n:])), ahead["mean"], atol=1e-8)
    stream = model.online()
    seen = [stream.observe(value).mean for value in y[n : n + 30]]
    model.save(tmp_path / "short", training_rows=False)
    later = sksvi.load(tmp_path / "short").partial_fit(None, y[n : n + 30])
    assert_allclose(later.forecast(3)["mean"], stream.update().forecast(3)["mean"], rtol=1e-6)
    assert np.abs(seen - HOURS[times.hour[n : n + 30]]).max() < 0.3


@pytest.mark.parametrize("first", ["2024-03-11", "2024-10-07"])
@pytest.mark.parametrize("hours", [3, 6])
def test_seasons_of_several_hours_follow_the_clock(first, hours, global_random_seed):
    """After a change points fall on other hours, where the profile is what its waves are there."""
    times = pd.date_range(first, periods=35 * 24 // hours, freq=f"{hours}h", tz="Europe/Berlin")
    turn = 2 * np.pi * times.hour.to_numpy() / 24
    profile = 3.0 + np.cos(turn - 2.0) + (0.5 * np.sin(2.0 * turn) if hours == 3 else 0.0)
    y = pd.Series(profile + 0.1 * np.random.default_rng(global_random_seed).standard_normal(len(times)), times)
    n = int(np.argmax(times.map(lambda at: at.utcoffset()) != times[0].utcoffset()))  # 20 days of it have been
    own = {"likelihood": sksvi.likelihoods.Gaussian(variance=0.01), "level": "constant"}
    model = DynamicGLM(seasonal={24 // hours: "full"}, **own)
    before, after = (clone(model).fit(None, y[:m]).forecast(len(times) - m)["mean"] for m in (n, n + 40 // hours))
    error = 0.1 * np.sqrt(24 / hours / n)
    assert np.abs(before - profile[n:]).max() < 5.0 * error and after.index[-1] == times[-1]
    assert np.abs(after - profile[-len(after) :]).max() < 5.0 * error
    late = model.fit(None, y[:n]).partial_fit(None, y[n : n + 40 // hours])
    assert_allclose(late.forecast(len(after))["mean"], after, atol=2e-3)


def test_without_a_change_of_clocks_points_are_counted(global_random_seed):
    """By the clock or by the count, in winter."""
    y = 5.0 + np.random.default_rng(global_random_seed).standard_normal(100)
    own = {"likelihood": "gaussian", "seasonal": [24, 10], "level": "walk"}
    zoned, utc = (
        DynamicGLM(**own).fit(None, pd.Series(y, pd.date_range("2024-01-01", periods=100, freq="h", tz=zone)))
        for zone in ("Europe/Berlin", "UTC")
    )
    assert_allclose(zoned.forecast(30), utc.forecast(30), rtol=1e-5)
    assert list(zoned.components_) == list(utc.components_)
    assert_allclose(zoned.components_, utc.components_, rtol=1e-4, atol=1e-5)


def test_clocks_that_change_in_columns():
    times = pd.date_range("2020-03-20", periods=24 * 8, freq="h", tz="Europe/London")
    rng = np.random.default_rng(0)
    y = pd.Series(HOURS[times.hour] + 0.1 * rng.standard_normal(len(times)), times)
    slow = pd.Series(y.to_numpy()[:64], pd.date_range("2020-03-24", periods=64, freq="3h", tz="Europe/London"))
    with pytest.warns(UserWarning, match="clocks of Europe/London change"):
        DynamicGLM(likelihood="gaussian", seasonal={10: 2}, level="constant").fit(None, slow)
    local = pd.date_range("2020-03-24", periods=64, freq="3h").tz_localize("Europe/London")
    with pytest.warns(UserWarning, match="has no single frequency"):  # and of the clock nothing
        DynamicGLM(likelihood="gaussian", seasonal={8: 2}, level="constant").fit(None, slow.set_axis(local))
    hours = lambda at: pd.get_dummies(pd.Categorical(at.hour, range(24))).set_axis(at).iloc[:, 1:]  # noqa: E731
    model = DynamicGLM(likelihood="gaussian", level="constant").fit(hours(times), y)
    ahead = pd.date_range(times[-1], periods=49, freq="h")[1:]
    off = model.forecast(48, hours(ahead))["mean"] - HOURS[ahead.hour]
    assert np.abs(off).max() < 4.5 * 0.1 / np.sqrt(8)
