"""Rows of several series in one long table: whose each row is, parts of the table, answers put together again."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import WHOLE
from sksvi.estimators.checks import check_seed
from sksvi.time_series._index import own_index, regular

Array = np.ndarray


# ---- labels and times
def plain_labels(labels: Any, name: Any) -> Array:
    """Labels as an array; an error where one is missing."""
    import pandas as pd

    missing = np.asarray(pd.isna(labels))
    if missing.any():
        raise ValueError(f"groups={name!r} is missing in row {int(np.argmax(missing))}: every row needs its series.")
    return np.asarray(labels, dtype=object)


def in_order(labels: Array) -> list[Any]:
    """Distinct labels in order; as they come where they have none."""
    found = dict.fromkeys(label.item() if isinstance(label, np.generic) else label for label in labels)
    try:
        return sorted(found)
    except TypeError:
        return list(found)


def are_mixed(labels: list[Any]) -> bool:
    return len({type(label) for label in labels}) > 1 or not isinstance(labels[0], int | float | bool | str)


def on_index(y: Any, index: Any) -> Any:
    """y on the times of X."""
    import pandas as pd

    if index is None or len(index) != len(y):
        return y
    return pd.DataFrame(y, index=index) if np.ndim(y) > 1 else pd.Series(y, index=index)


def counts_rows_of_all(index: Any, labels: Array) -> bool:
    """Whether an index counts the rows of a table and holds no times: whole numbers, each once, over several series."""
    whole = index is not None and index.nlevels == 1 and index.dtype.kind in WHOLE and index.is_unique
    return bool(whole and len(set(labels.tolist())) > 1)


def step_of_others(calls: list[dict[str, Any]]) -> None:
    """Series of one date take the step between dates that all others have, where these have one."""
    import pandas as pd

    indexed = [
        (call, name, own_index(call[name])) for call in calls for name in ("X", "y") if call.get(name) is not None
    ]
    dated = [each for each in indexed if isinstance(each[2], pd.DatetimeIndex)]
    alone = [each for each in dated if len(each[2]) == 1 and each[2].freq is None]
    if not alone:
        return
    even = [regular(index) for _, _, index in dated if len(index) > 1]
    steps = {None if index is None else index.freq for index in even}
    step = steps.pop() if len(steps) == 1 else None
    for call, name, index in alone:
        if step is not None and step.is_on_offset(index[0]):
            call[name] = call[name].set_axis(pd.DatetimeIndex(index, freq=step))


class TableRows(NamedTuple):
    """A table, of which rows are taken; `counting`: its index holds no times."""

    table: Any
    counting: bool

    def of(self, rows: Array) -> Any:
        """Some of them."""
        if not hasattr(self.table, "iloc"):
            return None if self.table is None else np.asarray(self.table)[rows]
        part = self.table.iloc[rows]
        return part.reset_index(drop=True) if self.counting else part


def seeds_of_each(random_state: Any, n: int) -> list[Any]:
    """A seed for each series."""
    if random_state is None:
        return [None] * n
    return [int(seed) for seed in check_seed(random_state).randint(np.iinfo(np.int32).max, size=n)]


# ---- warnings
@contextmanager
def collected_warnings(here: Any, name: Any, order: list[Any]) -> Iterator[None]:
    """Warnings of several series as one each, which says of how many and of which."""
    collected: dict[tuple[type[Warning], str], list[Any]] = {}

    def note(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        collected.setdefault((category, str(message)), []).append(getattr(here, "label", None))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
        yield
    for (category, text), found in collected.items():
        labels = [label for label in order if label in found]  # threads tell in any order
        shown = ", ".join(repr(label) for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
        warn_user(f"{len(labels)} series of {name!r} ({shown}): {text}", category)


def one_for_all(value: Any, name: str) -> None:
    """An error for an entry per row where a call has no rows."""
    if value is not None and np.ndim(value):
        raise ValueError(f"{name} has an entry per row, and without X there are no rows: give X with them.")


def aligned(rows: list[Array], found: list[Any]) -> Any:
    """Answers in the order of the rows that were asked about."""
    if isinstance(found[0], tuple):
        return tuple(aligned(rows, [each[i] for each in found]) for i in range(len(found[0])))
    out = np.empty((sum(map(len, rows)), *found[0].shape[1:]), np.result_type(*found))
    for at, part in zip(rows, found, strict=True):
        out[at] = part
    return out
