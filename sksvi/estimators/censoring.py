"""Censored targets as users give them, times with events or bounds of intervals, and as likelihoods read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.estimators.checks import check_numbers
from sksvi.likelihoods import Censored, Likelihood
from sksvi.likelihoods.censored import ABOVE, BELOW, BETWEEN, EXACT

Array = np.ndarray

#: Columns of a frame, and of these what may be left out.
TIMES, BOUNDS, ENTRY = ("time", "event"), ("lower", "upper"), "entry"


def is_censored(y: Any) -> bool:
    """Whether a target is a frame with columns of times or bounds, or a structured array of events and times."""
    columns = getattr(y, "columns", None)
    if columns is not None and len(columns) > 1:
        return set(TIMES) <= set(columns) or set(BOUNDS) <= set(columns)
    names = getattr(getattr(y, "dtype", None), "names", None)
    return names is not None and len(names) in (2, 3)


def censored_rows(y: Any, likelihood: Likelihood) -> Array:
    """Targets as `Censored` has them: lower, upper, what they say, and where rows could be seen only later, since when.

    Parameters
    ----------
    y : DataFrame, structured array, or array-like of shape (n,)
        A frame with columns ``time`` and ``event``, or ``lower`` and ``upper``, and perhaps ``entry``;
        scikit-survival's array with a field of events (bool) and one of times; numbers: all of them were seen.
    likelihood : Likelihood
        Its support says which bounds are none.

    Raises
    ------
    ValueError
        Naming the column, what was found and its row.
    """
    fields = _fields(y)
    if set(TIMES) <= set(fields):
        time, event = check_numbers(fields["time"], "y's time"), _events(fields["event"])
        rows = [time, time, np.where(event, EXACT, ABOVE)]
    else:
        lower, upper = (np.asarray(fields[name], dtype=float) for name in BOUNDS)
        rows = _bounds(lower, upper, likelihood.support.low)
    if ENTRY in fields:
        rows.append(check_numbers(fields[ENTRY], "y's entry"))
    return np.column_stack(rows).astype(float)


def with_censoring(likelihood: Likelihood, y: Array) -> Likelihood:
    """The likelihood of targets that `censored_rows` made; itself where they are others."""
    if likelihood.traits.censored or likelihood.traits.paired or np.ndim(y) != 2:
        return likelihood
    if likelihood.tails is None:
        others = "gaussian, student-t, gamma, exponential, log-normal, weibull, log-logistic"
        raise ValueError(f"y is censored, which {type(likelihood).__name__} cannot be: use one of {others}.")
    return Censored(likelihood, truncated=np.shape(y)[1] == 4)


def _fields(y: Any) -> dict[str, Any]:
    """Columns or fields by their names; of a structured array the boolean one is the event."""
    if hasattr(y, "columns"):
        return {str(name): y[name].to_numpy() for name in y.columns}
    if getattr(getattr(y, "dtype", None), "names", None) is None:
        values = np.ravel(check_numbers(y, "y"))
        return {"time": values, "event": np.ones(len(values), dtype=bool)}
    kinds = {name: y.dtype[name].kind for name in y.dtype.names}
    events = [name for name, kind in kinds.items() if kind == "b"]
    times = [name for name, kind in kinds.items() if kind in "fiu" and name != ENTRY]
    if len(events) == 1 and len(times) == 1:
        found = {"event": y[events[0]], "time": y[times[0]]}
        return found | ({ENTRY: y[ENTRY]} if ENTRY in kinds else {})
    if set(BOUNDS) <= set(kinds):
        return {name: y[name] for name in kinds}
    raise ValueError(f"y needs a field of bool and one of numbers, or lower and upper; found {y.dtype.descr}.")


def _events(event: Any) -> Array:
    """Whether each row's time is that of an event."""
    values = np.asarray(event)
    if values.dtype.kind == "b":
        return values
    numbers = check_numbers(values, "y's event")
    wrong = ~np.isin(numbers, (0.0, 1.0))
    if np.any(wrong):
        row = int(np.argmax(wrong))
        raise ValueError(f"y's event must be 0 or 1, or bool; found {values[row]!r} in row {row}.")
    return numbers == 1.0


def _bounds(lower: Array, upper: Array, least: float) -> list[Array]:
    """Columns of rows by their bounds; one that is missing or infinite is none."""
    no_upper, no_lower = np.isnan(upper) | np.isposinf(upper), np.isnan(lower) | (lower <= least)
    for what, wrong in {
        "no bound": no_upper & no_lower,
        "lower > upper": ~no_upper & ~no_lower & (lower > upper),
        f"upper <= {least:g}": ~no_upper & (upper <= least),
    }.items():
        if np.any(wrong):
            row = int(np.argmax(wrong))
            raise ValueError(f"y's row {row} has {what}: found lower {lower[row]:g} and upper {upper[row]:g}.")
    kind = np.where(no_upper, ABOVE, np.where(no_lower, BELOW, np.where(lower == upper, EXACT, BETWEEN)))
    return [np.where(no_lower, upper, lower), np.where(no_upper, lower, upper), kind]
