"""Dates whose frequency, or time zone, is more than its text says: fitted, continued, streamed and saved."""

from __future__ import annotations

import datetime
import zoneinfo
from dataclasses import replace
from pathlib import Path

import dateutil.tz
import numpy as np
import pandas as pd
import pytest

import sksvi
from sksvi import DynamicGLM
from sksvi.time_series._frequency import frequency_record, offset_of

offsets = pd.offsets

#: Some have holidays among the fitted rows, some after them.
FREQUENCIES = {
    "days": offsets.Day(),
    "three days": offsets.Day(3),
    "hours": offsets.Hour(5),
    "business days": offsets.BDay(),
    "months": offsets.MonthBegin(),
    "month ends": offsets.MonthEnd(2),
    "month ends at midnight": offsets.MonthEnd(normalize=True),
    "quarters": offsets.BQuarterEnd(startingMonth=2),
    "years": offsets.YearEnd(month=6),
    "half months": offsets.SemiMonthBegin(day_of_month=10),
    "second Wednesdays": offsets.WeekOfMonth(week=1, weekday=2),
    "holidays that were": offsets.CustomBusinessDay(holidays=["2024-01-10"]),
    "holidays to come": offsets.CustomBusinessDay(holidays=["2024-02-02", "2024-02-05", "2024-02-06"]),
    "calendar": offsets.CustomBusinessDay(2, calendar=np.busdaycalendar("1111100", ["2024-01-10", "2024-02-02"])),
    "from Sunday on": offsets.CustomBusinessDay(weekmask="Sun Mon Tue Wed Thu"),
    "a list of days": offsets.CustomBusinessDay(weekmask=[1, 1, 1, 0, 1, 0, 1]),
    "last open days": offsets.CustomBusinessMonthEnd(holidays=["2024-01-31", "2025-08-29"]),
    "first open days": offsets.CustomBusinessMonthBegin(holidays=["2024-02-01", "2025-09-01"]),
    "opening hours": offsets.BusinessHour(start="10:00", end="16:00"),
    "hours and holidays": offsets.CustomBusinessHour(
        holidays=["2024-01-05"], start=["09:00", "14:00"], end=["12:00", "18:30"]
    ),
    "a month": pd.DateOffset(months=1),
    "a week": pd.DateOffset(weeks=1),
    "two weeks and a day": pd.DateOffset(weeks=2, days=1),
    "two days": pd.DateOffset(2),
    "weeks": offsets.Week(),
    "weeks, Wednesdays": offsets.Week(weekday=2),
    "Easter": offsets.Easter(),
    "fiscal years": offsets.FY5253(),
    "fiscal quarters": offsets.FY5253Quarter(),
}

ZONES = [
    "UTC",
    "Europe/Berlin",
    "dateutil/Europe/Berlin",
    dateutil.tz.tzutc(),
    dateutil.tz.tzoffset("EST", -5 * 3600),
    datetime.timezone(datetime.timedelta(hours=1), "CET"),  # no clock changes, which the zone of this name has
    zoneinfo.ZoneInfo("Etc/GMT+5"),
]


def level(index):
    """A fit to rows with these times."""
    y = pd.Series(5.0 + np.sin(np.arange(len(index))), index=index)
    return DynamicGLM(likelihood="gaussian", level_variance=0.1).fit(None, y)


def in_zone(index, zone):
    """Dates in a zone that this pandas reads: earlier ones do not read those of dateutil 4."""
    try:
        return index.tz_localize(zone)
    except AttributeError:
        pytest.skip("this pandas does not read the zones of this dateutil")


def one_row(time, value=5.0):
    return pd.Series([value], index=pd.DatetimeIndex([time]))


def check_goes_on(index, step, folder):
    """Forecasts, files with and without rows, and points one by one, have the dates of pandas."""
    model, ahead = level(index), pd.date_range(index[-1], periods=8, freq=step)[1:]
    assert model.index_.equals(index) and frequency_record(model.index_.freq) == frequency_record(step)
    assert model.forecast(2).index.equals(ahead[:2])
    for file, options in (("whole", {}), ("bare", {"training_rows": False})):
        model.save(folder / file, **options)
        again = sksvi.load(folder / file)
        assert again.index_.equals(index) and frequency_record(again.index_.freq) == frequency_record(step)
        pd.testing.assert_frame_equal(again.forecast(2), model.forecast(2))
        again.partial_fit(None, one_row(ahead[0]))
        assert again.forecast(1).index.equals(ahead[1:2])
    for time in ahead[:5]:
        model.partial_fit(None, one_row(time))
    assert list(model.index_) == [*index, *ahead[:5]] and model.forecast(2).index.equals(ahead[5:])
    with pytest.raises(ValueError, match="leaves a gap"):
        model.partial_fit(None, one_row(ahead[6]))


@pytest.mark.parametrize("step", FREQUENCIES.values(), ids=FREQUENCIES)
def test_a_frequency_is_kept_whole(step, tmp_path):
    check_goes_on(pd.date_range("2024-01-03 10:00", periods=20, freq=step), step, tmp_path)


def test_months_from_the_last_day_on_go_on_as_pandas_dates_them(tmp_path):
    """From 31 January they are at the 29th after February; two months at once would be 31 March."""
    step = pd.DateOffset(months=1)
    check_goes_on(pd.date_range("2023-12-31", periods=2, freq=step), step, tmp_path)


@pytest.mark.parametrize("step", ["D", "h", pd.DateOffset(days=1), offsets.CustomBusinessDay(holidays=["2024-04-02"])])
@pytest.mark.parametrize("zone", ZONES, ids=repr)
def test_a_time_zone_is_kept(zone, step, tmp_path):
    """Over a change of clocks."""
    step = pd.tseries.frequencies.to_offset(step)
    first = "2024-03-30 12:00" if step == offsets.Hour() else "2024-03-15"
    in_zone(pd.DatetimeIndex(["2024-03-15"]), zone)
    index = pd.date_range(first, periods=12, freq=step, tz=zone)
    model, ahead = level(index), pd.date_range(index[-1], periods=8, freq=step)[1:]
    assert list(model.index_) == list(index)
    model.save(tmp_path / "model")
    for fit in (sksvi.load(tmp_path / "model"), model):
        for time in ahead[:4]:
            fit.partial_fit(None, one_row(time))
        dates = fit.forecast(3).index
        assert list(dates) == list(ahead[4:]) and list(dates.tz_localize(None)) == list(ahead[4:].tz_localize(None))


@pytest.mark.parametrize(
    "days", [("2024-03-31", "2024-04-01"), ("2024-10-27", "2024-10-28"), ("2024-03-29", "2024-04-01")]
)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "dateutil/Europe/Berlin"])
def test_two_dates_at_one_time_of_the_day_are_whole_days_apart(days, zone):
    """Which a change of clocks makes 23 or 25 hours; a Friday and a Monday are three days apart."""
    first, second = pd.DatetimeIndex(days)
    index = in_zone(pd.DatetimeIndex([first, second]), zone)
    wanted = pd.DatetimeIndex([second + k * (second - first) for k in (1, 2)]).tz_localize(zone)
    assert level(index).forecast(2).index.equals(wanted)


def test_two_dates_at_an_hour_that_clocks_show_twice_or_never():
    days = pd.DatetimeIndex(["2024-10-26 02:30", "2024-10-27 02:30"])
    twice = level(days.tz_localize("Europe/Berlin", ambiguous=False))
    assert twice.forecast(1).index[0] == pd.Timestamp("2024-10-28 03:30", tz="Europe/Berlin")  # 25 hours on
    never = pd.date_range("2024-03-28 02:30", periods=3, freq="D", tz="Europe/Berlin")
    with pytest.raises(ValueError, match=r"2 dates from .*2024-03-31 02:30.*Fit to a PeriodIndex"):
        level(never).forecast(1)


def test_two_dates_at_two_times_of_the_day_are_that_long_apart():
    index = pd.date_range("2024-03-31 01:00", periods=4, freq="h", tz="Europe/Berlin")
    assert list(level(pd.DatetimeIndex(index[:2], freq=None)).forecast(2).index) == list(index[2:])


def test_a_frequency_that_does_not_give_its_times_is_refused():
    """Of every second month from the 31st on pandas keeps one that dates them otherwise."""
    index = pd.date_range("2024-01-31", periods=20, freq=pd.DateOffset(months=1))[::2]
    with pytest.raises(
        ValueError, match=r"2024-01-31.* 10 rows, has the frequency .*months=1.*row 1 is .*03-29.*03-31.*Set index.freq"
    ):
        level(index)
    index.freq = None
    with pytest.warns(UserWarning, match="no single frequency"):
        level(index)


class OpenDays(offsets.CustomBusinessDay):
    """A frequency that no file can name."""


def check_is_fitted_and_not_saved(index, match, folder):
    model = level(index)
    assert model.forecast(2).index.equals(pd.date_range(index[-1], periods=3, freq=index.freq)[1:])
    model.partial_fit(None, one_row(index[-1] + index.freq))
    for options in ({}, {"training_rows": False}):
        with pytest.raises(TypeError, match=match):
            model.save(folder / "model", **options)
    assert not (folder / "model").exists()


def test_a_frequency_that_files_cannot_tell_is_fitted_and_not_saved(tmp_path):
    index = pd.date_range("2024-01-03", periods=20, freq=OpenDays())
    check_is_fitted_and_not_saved(index, r"times\['freq'\].*all of the frequency.*Fit to times with", tmp_path)


def test_a_time_zone_that_files_cannot_tell_is_fitted_and_not_saved(tmp_path):
    path = next((path for path in map(Path, zoneinfo.TZPATH) if (path / "Europe/Berlin").exists()), None)
    if path is None:
        pytest.skip("no zones on this machine")
    with open(path / "Europe/Berlin", "rb") as file:
        zone = zoneinfo.ZoneInfo.from_file(file)
    index = pd.date_range("2024-03-25", periods=20, tz=zone)
    check_is_fitted_and_not_saved(index, r"times\['tz'\].*all of the time zone.*tz_convert", tmp_path)


@pytest.mark.parametrize(
    "parts, match",
    [
        ({"class": "to_offset"}, "no frequency of pandas"),
        ({"class": ["Week"]}, "no frequency of pandas"),
        ({"n": 0}, "frequency of 0 steps"),
        ({"n": 10**12}, "frequency of 1000000000000 steps"),
        ({"n": True}, "frequency of True steps"),
        ({"given": {"weekday": None}}, "neither text nor numbers"),
        ({"given": {"day": 1}}, "day"),
        ({"given": {"n": 1}}, "n"),
    ],
)
def test_a_crafted_frequency_is_refused(parts, match, tmp_path):
    model = level(pd.date_range("2024-01-03", periods=20, freq=offsets.Week()))
    times = model._series.times
    model._series = replace(model._series, times={**times, "freq": {**times["freq"], **parts}})
    model.save(tmp_path / "crafted")
    with pytest.raises(ValueError, match=match):
        sksvi.load(tmp_path / "crafted")


@pytest.mark.parametrize("zone", ["dateutil//etc/passwd", "dateutil/../secret", "Nowhere"])
def test_a_crafted_time_zone_is_refused(zone, tmp_path):
    model = level(pd.date_range("2024-01-03", periods=20, tz="Europe/Berlin"))
    model._series = replace(model._series, times={**model._series.times, "tz": zone})
    model.save(tmp_path / "crafted")
    with pytest.raises(ValueError, match="crafted"):
        sksvi.load(tmp_path / "crafted")


def test_text_is_told_where_it_says_all():
    """As earlier versions wrote and read it."""
    for step in (offsets.Day(), offsets.MonthBegin(3), offsets.Week(weekday=2), offsets.FY5253(), offsets.BDay()):
        assert frequency_record(step) == step.freqstr and offset_of(step.freqstr) == step


def test_dates_that_pandas_does_not_make_are_refused():
    """Of a month and two days at a time the last date is that of all months, then all days, which is earlier."""
    step = pd.DateOffset(months=1, days=2)
    with pytest.raises(ValueError, match=r"frequency .*days=2, months=1.*pandas makes 18 of them.*PeriodIndex"):
        level(pd.date_range("2024-01-03", periods=20, freq=step))
    few = level(pd.date_range("2024-01-03", periods=2, freq=step))
    with pytest.raises(ValueError, match=r"pandas makes .* of the 31 dates from .*days=2, months=1.*PeriodIndex"):
        few.forecast(30)
