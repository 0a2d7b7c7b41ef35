"""The targets by which a fit starts: all of them, or where these are many what stands for all, wherever rows lie.

One rule for rows in memory and in partitions: up to `SAMPLE` rows all of them; of more rows the weight of every value,
where these are few; mean and variance, where they say all that is asked; else a sample, the same rows either way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sksvi._runtime import parallel
from sksvi._typing.arrays import REAL
from sksvi.models.data import Table

Array = np.ndarray

#: Rows of a sample of targets, and distinct values that are held one by one.
SAMPLE, DISTINCT = 2**16, 2**12
#: Of the sample: which rows it has is the same for every fit to them.
SEED = 0


@dataclass(frozen=True)
class Summary(Table):
    """Targets of many rows in few: `n` of them; values: every one that they have, without offsets, where few."""

    n: int = 0
    values: Table | None = None

    @property
    def n_rows(self) -> int:
        """Rows that these stand for."""
        return self.n

    @property
    def alone(self) -> Table:
        """Targets without their offsets."""
        return super().alone if self.values is None else self.values

    def mapped(self, function: Callable[[Array], Array]) -> Summary:  # type: ignore[override]  # of targets, not rows
        """The summary with every target replaced by `function` of it."""
        values = None if self.values is None else replace(self.values, y=function(self.values.y))
        return replace(self, y=function(self.y), values=values)


def starting(data: Table, by_moments: bool) -> Table:
    """The rows by whose targets a fit starts; `by_moments`: it asks for no more than mean and variance.

    Parameters
    ----------
    data : Table
        All rows, or the few that stand for them.
    by_moments : bool
    """
    if len(data) <= SAMPLE:
        return data
    if data.weight is not None and not np.all(data.weight > 0):
        data = data.take(np.flatnonzero(data.weight > 0))
    if len(data) <= SAMPLE or by_moments:
        return data
    found = counted(data.y, data.weight) if data.offset is None else None
    found = drawn(data, len(data)) if found is None else found
    return Summary(found.X, found.y, found.weight, found.offset, n=len(data))


def drawn(data: Table, n: int) -> Table:
    """The rows of the sample of n rows that are among these, the first of which is number `first`; without columns."""
    rows = parallel.sample(n, SAMPLE, SEED, data.first, data.first + len(data.y)) - data.first
    return replace(data, X=np.empty((len(data.y), 0))).take(rows)


def counted(y: Array, weight: Array | None) -> Table | None:
    """The different targets and the weight of each, or None where there are more than `DISTINCT`."""
    if y.ndim == 1 and _whole_within(y):
        low = y.min()
        counts = np.bincount((y - low).astype(np.intp), weight).astype(float)
        present = np.flatnonzero(counts)
        return Table(np.empty((len(present), 0)), present.astype(y.dtype) + low, counts[present])
    if len(y) > DISTINCT and _more_than_few(y[: 2 * DISTINCT]):  # of many most are different
        return None
    values, at = np.unique(y, axis=0 if y.ndim == 2 else None, return_inverse=True)
    if len(values) > DISTINCT:
        return None
    counts = np.bincount(at.ravel(), weight, len(values)).astype(float)
    return Table(np.empty((len(values), 0)), values, counts)


def _whole_within(y: Array) -> bool:
    """Whether there are no more than `DISTINCT` whole numbers from the least to the largest: known without sorting."""
    if y.dtype.kind not in REAL or not len(y):
        return False
    return bool(float(y.max()) - float(y.min()) < DISTINCT and np.all(y == np.floor(y)))


def _more_than_few(y: Array) -> bool:
    if y.ndim == 1:
        return len(np.unique(y)) > DISTINCT
    code = np.zeros(len(y), np.intp)
    for column in y.T:
        values, at = np.unique(column, return_inverse=True)
        if len(values) > DISTINCT:
            return True
        code = code * len(values) + at
    return len(np.unique(code)) > DISTINCT
