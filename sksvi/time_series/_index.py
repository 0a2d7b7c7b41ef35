"""Points in time: the index that rows bring, which point each row is, and how an index goes on."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._typing.arrays import NUMBERS, REAL
from sksvi.time_series._frequency import (
    advanced,
    check_frequency,
    frequency_record,
    offset_of,
    stepped,
    zone_of,
    zone_record,
)

Array = np.ndarray

#: Most times that a record describes by the first two and their number.
MOST_REGULAR = 2**22


def index_of(X: Any, y: Any, n: int) -> Any:
    """The index of n rows: that of X or of y where they have one, which must agree; else 0, 1, ...

    Raises
    ------
    ValueError
        Two that differ; times that are repeated, missing or out of order, or that their frequency does not give.
    """
    import pandas as pd

    index = paired_index(X, y)
    if index is None:
        return pd.RangeIndex(n)
    check_order(index)
    if isinstance(index, pd.DatetimeIndex):
        check_frequency(index)
    return index


def paired_index(X: Any, y: Any) -> Any:
    """The index of X or of y where they have one, which must agree; else None.

    Raises
    ------
    ValueError
        Two that differ.
    """
    indices = [own for own in (own_index(X), own_index(y)) if own is not None]
    if len(indices) == 2 and len(indices[0]) == len(indices[1]) and not indices[0].equals(indices[1]):
        plain = [counts_rows(own) for own in indices]
        if not any(plain):
            at = int(np.argmax(np.asarray(indices[0] != indices[1])))
            raise ValueError(
                f"X and y have different indices: row {at} is {indices[0][at]!r} in X and {indices[1][at]!r} in y. "
                "Align them, for example by X.loc[y.index]."
            )
        indices = [indices[plain.index(False)]]
    return indices[0] if indices else None


def counts_rows(index: Any) -> bool:
    """Whether an index is 0, 1, ..., as pandas gives it to rows without one."""
    import pandas as pd

    return isinstance(index, pd.RangeIndex) and index.equals(pd.RangeIndex(len(index)))


def own_index(table: Any) -> Any:
    """The index of a frame or series, or None."""
    index = getattr(table, "index", None)
    return index if hasattr(index, "is_monotonic_increasing") else None


def only_times(table: Any) -> bool:
    """Whether a table has an index and no column: times, and nothing else."""
    return own_index(table) is not None and np.shape(table)[1:] == (0,)


def check_order(index: Any) -> None:
    """An error where times are missing, repeated or out of order."""
    import pandas as pd

    if index.nlevels > 1:
        raise ValueError(
            f"the index has {index.nlevels} levels, {list(index.names)}: keep the one of the times, for example by "
            "droplevel or reset_index."
        )
    if isinstance(index, pd.RangeIndex) and index.step > 0:  # without making numbers of it
        return
    if index.hasnans:
        raise ValueError(f"the time index has no time in row {int(np.argmax(index.isna()))}: every row needs its time.")
    if index.has_duplicates:
        row = int(np.argmax(index.duplicated()))
        raise ValueError(
            f"the time index has {index[row]!r} more than once, again in row {row}: one row per point in time. Sum or "
            "average the rows of a time, for example by groupby(level=0)."
        )
    if not index.is_monotonic_increasing:
        row = 1 + int(np.argmax(np.asarray(index[1:] < index[:-1])))
        raise ValueError(
            f"the time index goes back in row {row}, from {index[row - 1]!r} to {index[row]!r}: sort the rows, for "
            "example by sort_index()."
        )


def regular(index: Any) -> Any:
    """The index with its frequency where it is one of dates and has one; None where their steps differ."""
    import pandas as pd

    if isinstance(index, pd.DatetimeIndex):
        if index.freq is not None:
            return index
        if len(index) < 3:
            return _of_two(index)
        even = pd.DatetimeIndex(index, freq="infer")
        return None if even.freq is None else even
    if isinstance(index, pd.PeriodIndex):
        ordinals, step = _ordinals(index)
        return index if np.all(np.diff(ordinals) == step) else None
    if isinstance(index, pd.RangeIndex):
        return index
    if isinstance(index, pd.TimedeltaIndex):
        steps = np.diff(index.asi8)
        return index if len(steps) and np.all(steps == steps[0]) else None
    if index.dtype.kind in REAL:
        steps = np.diff(np.asarray(index, float))
        return index if not len(steps) or np.allclose(steps, steps[0], rtol=1e-9, atol=0) else None
    return None


def _ordinals(index: Any) -> tuple[Array, int]:
    """Numbers of periods, and by how many each is to follow the one before."""
    return index.asi8, index.freq.n


def _of_two(index: Any) -> Any:
    """An index of two dates, which are a step apart: whole months where both begin or end one; None for one date.

    Of two at the same time of the day whole days, which a clock change makes longer or shorter.
    """
    import pandas as pd

    if len(index) < 2:
        return None
    first, second = index.tz_localize(None)
    months = 12 * (second.year - first.year) + second.month - first.month
    if months and first - first.normalize() == second - second.normalize():
        for ends, step in ((index.is_month_start, pd.offsets.MonthBegin), (index.is_month_end, pd.offsets.MonthEnd)):
            if ends.all():
                return pd.DatetimeIndex(index, freq=step(months))
    days, rest = divmod(second - first, pd.Timedelta(days=1))
    if days and not rest:
        try:
            stepped(index[1], 2, pd.offsets.Day(days), None)
            return pd.DatetimeIndex(index, freq=pd.offsets.Day(days))
        except Exception:  # at an hour that clocks show twice, or never
            pass
    return pd.DatetimeIndex(index, freq=index[1] - index[0])


def continued(index: Any, steps: int) -> Any:
    """The index of the next `steps` points; 0, 1, ... from the number of rows on where it does not say."""
    import pandas as pd

    even = regular(index)
    if even is not None and len(index):
        if isinstance(index, pd.PeriodIndex):
            return pd.period_range(index[-1] + 1, periods=steps, freq=index.freq)
        if isinstance(even, pd.DatetimeIndex) and even.freq is not None:
            return stepped(index[-1], steps + 1, even.freq, index.name)[1:]
        if isinstance(index, pd.TimedeltaIndex):
            return pd.TimedeltaIndex(index[-1] + (index[1] - index[0]) * np.arange(1, steps + 1)).rename(index.name)
        if index.dtype.kind in REAL:
            step = index[1] - index[0] if len(index) > 1 else 1
            values = index[-1] + step * np.arange(1, steps + 1)
            if isinstance(index, pd.RangeIndex):
                return pd.RangeIndex(int(values[0]), int(values[-1]) + int(step), int(step), name=index.name)
            return pd.Index(values, name=index.name)
    return pd.RangeIndex(len(index), len(index) + steps)


def frequency_warning(index: Any) -> str:
    """Warning about an index that does not say how far apart its points are; empty where it does."""
    import pandas as pd

    if regular(index) is not None:
        return ""
    if len(index) == 1 and index.dtype.kind == "M":
        return (
            f"{index[0]!r} alone does not say how far apart points are: forecasts count on from 1 until a second point "
            "came. Give the index a frequency, for example by y.asfreq(...), or a PeriodIndex."
        )
    hint = "Give gaps as rows of NaN, for example by y.asfreq(...)."
    what = "has no single frequency"
    if isinstance(index, pd.DatetimeIndex) and (months := index.tz_localize(None).to_period("M")).is_unique:
        if regular(months) is not None:
            hint = 'The rows are of months that follow each other: give y.to_period("M").'
    if index.dtype.kind not in REAL + "Mm" and not hasattr(index, "freq"):
        what = f"holds {index[0]!r} and the like, which are no times"
        hint = "Convert it, for example by pd.to_datetime."
    return (
        f"the time index {what}: its rows were taken as equally far apart, and forecasts count on from the number of "
        f"rows. {hint}"
    )


def index_record(index: Any) -> dict[str, Any]:
    """An index as plain arrays and words, as files hold it."""
    import pandas as pd

    out: dict[str, Any] = {"name": index.name if isinstance(index.name, str) else None}
    if isinstance(index, pd.RangeIndex):
        return out | {"kind": "range", "values": [int(index.start), int(index.stop), int(index.step)]}
    if isinstance(index, pd.PeriodIndex):
        return out | {"kind": "period", "values": np.asarray(index.asi8), "freq": index.freqstr}
    if isinstance(index, pd.DatetimeIndex):
        plain = index if index.tz is None else index.tz_convert("UTC").tz_localize(None)
        freq = None if index.freq is None else frequency_record(index.freq)
        return out | {"kind": "date", "values": np.asarray(plain.values), "freq": freq, "tz": zone_record(index.tz)}
    values = np.asarray(index)
    return out | {"kind": "plain", "values": values if values.dtype.kind in NUMBERS + "m" else values.astype(object)}


def short_record(index: Any) -> dict[str, Any]:
    """An `index_record` with, of equally spaced times, the first two and their number; of others all."""
    record, n, even = index_record(index), len(index), regular(index)
    if even is None or record["kind"] == "range" or not 2 < n <= MOST_REGULAR:
        return record
    short = {**record, "values": record["values"][:2], "even": n}
    if record["kind"] == "date":
        short["freq"] = frequency_record(even.freq)
    again = _index_from_record(short)
    return short if again.equals(index) and again.dtype == index.dtype else record


def extended_record(record: dict[str, Any], n: int) -> dict[str, Any]:
    """An `index_record` with n points that follow: made on request, as steps of a calendar take their time."""
    return {**record, "more": record.get("more", 0) + n}


def follows(record: dict[str, Any], index: Any) -> bool:
    """Whether times are the next ones in equal steps, where a record shows it without making its own times."""
    import pandas as pd

    kind, values, more, n = record["kind"], record["values"], record.get("more", 0), len(index)
    if kind == "range":
        start, step = values[1] + more * values[2], values[2]
        return isinstance(index, pd.RangeIndex) and index.equals(pd.RangeIndex(start, start + n * step, step))
    if "even" in record or not len(values):
        return False
    if kind == "period":
        if not isinstance(index, pd.PeriodIndex) or index.freqstr != record["freq"]:
            return False
        ordinals, step = _ordinals(index)
        return bool(np.array_equal(ordinals, values[-1] + np.arange(1 + more, 1 + more + n) * step))
    if kind != "date" or record["freq"] is None or not isinstance(index, pd.DatetimeIndex):
        return False
    step, last = offset_of(record["freq"]), _in_zone(pd.DatetimeIndex(values[-1:]), record["tz"])[0]
    return bool(stepped(advanced(last, more, step), n + 1, step, None)[1:].equals(index))


def index_from_record(record: dict[str, Any]) -> Any:
    """The index of an `index_record`, with the points that follow."""
    index, more = _index_from_record(record), record.get("more", 0)
    return appended(index, None, more) if more else index


def _index_from_record(record: dict[str, Any]) -> Any:
    import pandas as pd

    kind, values, name, n = record["kind"], record["values"], record["name"], record.get("even")
    if kind == "range":
        start, stop, step = values
        return pd.RangeIndex(start, stop, step, name=name)
    if n is not None and not 0 < n <= MOST_REGULAR:  # of a file from anywhere
        raise ValueError(f"it tells of {n} times")
    if n is not None and kind != "date":
        values = values[0] + (values[1] - values[0]) * np.arange(n)
    if kind == "period":
        return pd.PeriodIndex(pd.arrays.PeriodArray(values, dtype=pd.PeriodDtype(record["freq"])), name=name)
    if kind == "date":
        index = _in_zone(pd.DatetimeIndex(values, name=name), record["tz"])
        step = None if record["freq"] is None else offset_of(record["freq"])
        if n is not None:
            return pd.date_range(index[0], periods=n, freq=step, name=name, unit=index.unit)
        return index if step is None else pd.DatetimeIndex(index, freq=step)
    return pd.Index(values, name=name)


def _in_zone(index: Any, zone: Any) -> Any:
    """Dates in UTC, converted to the zone of a record."""
    return index if zone is None else index.tz_localize("UTC").tz_convert(zone_of(zone))


def appended(index: Any, more: Any, n: int) -> Any:
    """The index with n further points; `more`: theirs, or None for those that follow."""
    import pandas as pd

    even = regular(index)
    if even is not None and len(index) and not isinstance(index, pd.PeriodIndex):
        following = continued(index, n)
        if isinstance(index, pd.RangeIndex) and isinstance(following, pd.RangeIndex):
            return pd.RangeIndex(index.start, following.stop, index.step, name=index.name)
        if isinstance(even, pd.DatetimeIndex) and even.freq is not None:
            return stepped(index[0], len(index) + n, even.freq, index.name)
    following = continued(index, n) if more is None else more
    same = type(following) is type(index) or more is not None
    return index.append(following) if same else pd.RangeIndex(len(index) + n)


def without_times(index: Any, given: Any) -> bool:
    """Whether rows say nothing of their times: no index, or 0, 1, ... where the fit's is another kind."""
    import pandas as pd

    return given is None or (counts_rows(given) and not isinstance(index, pd.RangeIndex))


def positions(index: Any, given: Any) -> Array:
    """Which point in time, counted from the first fitted one, each row is.

    Raises
    ------
    ValueError
        For a time before the first one, between two, or one that the index cannot be continued to.
    """
    found = np.asarray(index.get_indexer(given))
    missing = np.flatnonzero(found < 0)
    if len(missing):
        found = found.copy()
        found[missing] = len(index) + _beyond(index, given, missing)
    return found


def later(times: Any, index: Any) -> Array:
    """Which times come after the last one of an index.

    Raises
    ------
    ValueError
        Times that cannot be compared.
    """
    try:
        return np.asarray(times > index[-1])
    except TypeError as error:
        raise ValueError(
            f"the rows have times such as {times[0]!r}, and those of the fit are such as {index[-1]!r}: give both the "
            "same kind of index."
        ) from error


def _beyond(index: Any, given: Any, missing: Array) -> Array:
    """Steps after the last fitted point, less one, of times that are not in the index."""
    wanted = given[missing]
    late = later(wanted, index)
    steps, found = len(wanted), np.where(late, 0, -1)
    while np.all(late) and regular(index) is not None:
        following = continued(index, steps)
        found = np.asarray(following.get_indexer(wanted))
        if np.all(found >= 0):
            return found
        if following[-1] >= wanted.max():
            break
        steps *= 2
    at = wanted[int(np.argmin(found))]
    raise ValueError(
        f"time {at!r} is neither a fitted point nor one of those that follow {index[-1]!r} in equal steps: predictions "
        "are for these."
    )
