"""Frequencies and time zones of dates in words and numbers, as files hold them, and back again."""

from __future__ import annotations

import re
from datetime import time, timedelta, timezone
from typing import Any

import numpy as np

Array = np.ndarray

#: Most steps of a calendar that one step of a frequency takes: pandas takes them one by one.
MOST_STEPS = 2**16
#: Least share of the times of a frequency that there must be for it to be that of the times that are there.
OBSERVED_TIMES = 0.5
#: Nanoseconds of a day.
DAY = 86_400 * 10**9
#: A zone of dateutil, which knows the file that it is from; the name of one.
_OF_DATEUTIL, _NAME = re.compile(r"tzfile\('(?:.*/zoneinfo/)?(.+)'\)"), re.compile(r"[\w+-]+(/[\w+-]+)*")


# ---- frequencies
def frequency_record(offset: Any) -> Any:
    """A frequency as text where pandas reads it from that, else its class and what it was made of.

    Itself where neither says all of it: `index_from_record` steps on with it, and files refuse it.
    """
    for tell in (_text, _parts):
        try:
            words = tell(offset)
            again = offset_of(words)
            if type(again) is type(offset) and _parts(again) == _parts(offset):
                return words
        except (AttributeError, TypeError, ValueError):  # what pandas says of words that it does not read
            continue
    return offset


def offset_of(parts: Any) -> Any:
    """The pandas frequency of a `frequency_record`.

    Raises
    ------
    ValueError
        For what `frequency_record` does not return, of a file from anywhere.
    """
    import pandas as pd

    if not isinstance(parts, dict):
        return pd.tseries.frequencies.to_offset(parts)
    name, n, given = parts["class"], parts["n"], dict(parts["given"])
    kind = getattr(pd.offsets, name, None) if isinstance(name, str) else None
    if not isinstance(kind, type) or not issubclass(kind, pd.offsets.BaseOffset):
        raise ValueError(f"{name!r} is no frequency of pandas")
    if type(n) is not int or not 0 < n <= MOST_STEPS:
        raise ValueError(f"a frequency of {n!r} steps is not one of 1 to {MOST_STEPS}")
    if not all(_plain(value) for value in given.values()):
        raise ValueError(f"what {name} is made of is neither text nor numbers")
    return kind(n=n, normalize=bool(parts["normalize"]), **given)


def _text(offset: Any) -> str:
    return str(offset.freqstr)


def _parts(offset: Any) -> dict[str, Any]:
    """The class of a frequency and what it was made of, in text and numbers."""
    given = {key: _worded(value) for key, value in offset.kwds.items() if key != "calendar"}  # which holidays are of
    if given.get("offset") == timedelta(0):
        del given["offset"]
    if not isinstance(given.get("weekmask", ""), str):
        given["weekmask"] = "".join(str(int(day)) for day in given["weekmask"])
    return {"class": type(offset).__name__, "n": int(offset.n), "normalize": bool(offset.normalize), "given": given}


def _worded(value: Any) -> Any:
    """Holidays and times of a day as text, whole."""
    if isinstance(value, tuple | list):
        return [_worded(one) for one in value]
    if isinstance(value, np.generic):
        return str(value) if isinstance(value, np.datetime64) else value.item()
    return value.strftime("%H:%M") if isinstance(value, time) else value


def _plain(value: Any) -> bool:
    return all(map(_plain, value)) if isinstance(value, list) else isinstance(value, bool | int | float | str)


def check_frequency(index: Any) -> None:
    """An error where the frequency that dates bring does not give them, as after some slices of pandas."""
    import pandas as pd

    step, n = index.freq, len(index)
    if step is None or not n or isinstance(step, pd.offsets.Tick):
        return
    try:
        dates = pd.date_range(index[0], periods=n, freq=step)
        if dates.equals(index):
            return
        found = f"pandas makes {len(dates)} of them" if len(dates) != n else _first_off(index, dates)
    except Exception as error:  # of whatever class of a user's own
        found = str(error)
    raise ValueError(
        f"the time index, from {index[0]!r} to {index[-1]!r} in {n} rows, has the frequency {step!r}, which from its "
        f"first time on gives others: {found}. Set index.freq = None to have the frequency found from the times, or "
        "give a PeriodIndex or whole numbers."
    )


def _first_off(index: Any, dates: Any) -> str:
    """Text about the first row of an index that its frequency does not give."""
    row = int(np.argmax(np.asarray(index != dates)))
    return f"row {row} is {index[row]!r} and would be {dates[row]!r}"


def spanned(index: Any) -> Any:
    """All times from the first to the last in the coarsest steps that have every given one.

    None where the times have a frequency, where they are neither dates nor periods, or where most would be absent.
    """
    import pandas as pd

    if not isinstance(index, pd.DatetimeIndex | pd.PeriodIndex) or len(index) < 3 or index.hasnans:
        return None
    ranges: list[Any] = []
    most = len(index) / OBSERVED_TIMES
    if isinstance(index, pd.PeriodIndex):
        if index.asi8[-1] - index.asi8[0] <= most * index.freq.n:  # type: ignore[union-attr]
            ranges = [(pd.period_range, index.freq)]
    elif index.freq is None:
        ranges = [(pd.date_range, step) for step in _steps(index, most)]
    found = []
    for make, step in ranges:
        try:
            found.append(make(index[0], index[-1], freq=step, name=index.name))
        except Exception:  # at an hour that clocks skip pandas 2 raises one of pytz
            continue
    best = min((times for times in found if index.isin(times).all()), key=len, default=index)
    return best if len(index) < len(best) <= most else None


def _steps(index: Any, most: float) -> list[Any]:
    """Frequencies that dates may have: days, weekdays, months from their first or last day, else equal steps."""
    import pandas as pd

    found: list[Any] = []
    local, offsets = index.tz_localize(None), pd.offsets
    days, months = (local.normalize() - local[0].normalize()).days, 12 * local.year + local.month
    clock = local - local.normalize()
    if (clock == clock[0]).all():
        found.append(offsets.Day(int(np.gcd.reduce(np.diff(days)))))
        if local.day_of_week.max() < 5:
            found.append(offsets.BDay())
        step = int(np.gcd.reduce(np.diff(months)))
        if step:
            found += [offsets.MonthBegin(step)] * bool(local.is_month_start.all())
            found += [offsets.MonthEnd(step)] * bool(local.is_month_end.all())
    each = int(np.gcd.reduce(np.diff(index.asi8)))
    return found + [pd.Timedelta(each, index.unit)] * bool(index.asi8[-1] - index.asi8[0] <= most * each)


# ---- clocks that change
def clock_of(index: Any, periods: list[float]) -> dict[str, Any] | None:
    """The clock of equally spaced times of a zone whose clocks change, for seasons of days; else None."""
    step = _clock_step(index)
    if not step or not any(follows_clock(period, step) for period in periods):
        return None
    return {"start": int(index.as_unit("ns").asi8[0]), "step": step, "zone": zone_record(index.tz), "place": 0}


def _clock_step(index: Any) -> int:
    """Nanoseconds between times of a zone whose clocks change, if less than a day and all the same; else 0."""
    import pandas as pd

    if not isinstance(index, pd.DatetimeIndex) or index.tz is None or index.tz.utcoffset(None) is not None:
        return 0
    steps = np.unique(np.diff(index.as_unit("ns").asi8))
    return int(steps[0]) if len(steps) == 1 and steps[0] < DAY else 0


def follows_clock(period: float, step: int) -> bool:
    """Whether a season of so many steps has whole days, or a day has whole seasons."""
    length = period * step
    return length % DAY == 0 or DAY % length == 0


def clock_shifts(clock: dict[str, Any], at: Array) -> Array:
    """By how many steps the clock is ahead of the count of points at these places, since ``clock["place"]``."""
    import pandas as pd

    times = clock["start"] + clock["step"] * np.append(clock["place"], at)
    local = pd.DatetimeIndex(times, tz="UTC").tz_convert(zone_of(clock["zone"])).tz_localize(None)
    ahead = np.asarray(local.as_unit("ns").asi8 - times)
    return (ahead[1:] - ahead[0]) / clock["step"]


def clock_warning(index: Any, periods: list[float]) -> str:
    """Warning about seasons that count points where clocks change within a day; empty where they do not."""
    import pandas as pd

    if not periods or not isinstance(index, pd.DatetimeIndex) or index.tz is None or len(index) < 2:
        return ""
    local = index.tz_localize(None)
    shifts = (local - index.tz_convert("UTC").tz_localize(None)).unique()
    by_clock = len(np.unique(np.diff(local.asi8))) == 1  # points of 0, 6, 12 and 18 hours every day are the clock's
    if by_clock or len(shifts) < 2 or index[1] - index[0] >= pd.Timedelta(hours=23):
        return ""
    return (
        f"clocks of {index.tz} change between {index[0]!r} and {index[-1]!r}, and seasons count points, since none "
        "has whole days, nor a day whole seasons: from then on they are off by it. For a season by the clock give "
        "columns of index.hour as X in place of seasonal."
    )


def stepped(first: Any, n: int, step: Any, name: Any) -> Any:
    """n dates from the first one on.

    Raises
    ------
    ValueError
        Where one falls into a change of clocks, or pandas makes fewer: its last date is that of all steps at once,
        which some lead beyond.
    """
    import pandas as pd

    what = f"of the {n} dates from {first!r} on with the frequency {step!r}"
    hint = "Fit to a PeriodIndex, for example of y.tz_localize(None), or to whole numbers."
    try:
        dates = pd.date_range(first, periods=n, freq=step, name=name)
    except Exception as error:  # of a time that clocks skip pandas 2 raises one of pytz
        raise ValueError(f"pandas does not make all {what}: {error}. {hint}") from error
    if len(dates) != n:
        raise ValueError(f"pandas makes {len(dates)} {what}. {hint}")
    return dates


def advanced(date: Any, n: int, step: Any) -> Any:
    """The date n steps later."""
    import pandas as pd

    if not n:
        return date
    # A month from the 31st on ends at the last day of a short one and goes on from there: n months at once do not.
    return pd.date_range(date, periods=n + 1, freq=step)[-1] if type(step) is pd.DateOffset else date + n * step


# ---- time zones
def zone_record(zone: Any) -> Any:
    """A time zone as text that pandas reads, or itself where there is none; None without one."""
    if zone is None:
        return None
    always = zone.utcoffset(None)  # None where it has clock changes
    fixed = [] if always is None else [str(timezone(always))]
    if isinstance(zone, timezone):  # which may be called as a zone with clock changes is
        names = fixed
    else:
        match = _OF_DATEUTIL.fullmatch(str(zone))
        names = [str(zone), *([f"dateutil/{match[1]}"] if match else []), *fixed]
    return next((name for name in names if _reads(name, always)), zone)


def _reads(name: str, always: Any) -> bool:
    """Whether pandas finds the zone of a name, with the same fixed difference from UTC or none."""
    import pandas as pd

    try:
        zone = pd.Timestamp(0, tz=zone_of(name)).tz
    except (KeyError, OSError, TypeError, ValueError):  # what pandas says of names that it does not know
        return False
    return zone is not None and zone.utcoffset(None) == always


def zone_of(name: Any) -> Any:
    """The time zone of a `zone_record`, as pandas takes it; no path of a file of its own."""
    if isinstance(name, str) and name.startswith("dateutil/") and not _NAME.fullmatch(name.removeprefix("dateutil/")):
        raise ValueError(f"{name!r} is no time zone")
    return name
