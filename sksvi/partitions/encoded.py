"""The way from a collection to the data of a fit: what the rows fix first, then every partition in its terms."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from sksvi.models.base import Table
from sksvi.models.targets import drawn
from sksvi.partitions.collections import aligned, that_count
from sksvi.partitions.data import Partitioned, RemoteDesign
from sksvi.partitions.executor import Executor, called
from sksvi.partitions.summary import DataSummary

#: Share of the memory up to which encoded rows stay where they are; more of them are read and encoded in every pass.
HELD_SHARE = 0.25
#: What a fit leaves on an estimator and encoding does not read: it would travel with every partition.
LEFT_BEHIND = ("state_", "posterior_", "_skl_callbacks")


@contextmanager
def named(partition: int) -> Iterator[None]:
    """An error about a partition says which one it is."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"partition {partition}: {error}") from error


class Reader:
    """What a partition says before anything is fixed.

    Parameters
    ----------
    estimator : estimator
        Without a fit; a copy of it reads each partition.
    """

    def __init__(self, estimator: Any, fresh: bool) -> None:
        self.estimator, self.fresh = estimator, fresh

    def __call__(self, number: int, *part: Any) -> DataSummary:
        with named(number):
            rows = that_count(*part)
            if not rows[0].shape[0]:
                return DataSummary({number: (0, 0.0)}, {}, np.float32)
            return copy.copy(self.estimator)._facts(*rows, number, self.fresh)


class Drawer:
    """The rows of a partition that are in the sample of targets of `n` rows.

    Parameters
    ----------
    estimator : estimator
        As a `Reader` has it.
    """

    def __init__(self, estimator: Any, fresh: bool, n: int) -> None:
        self.estimator, self.fresh, self.n = estimator, fresh, n

    def __call__(self, number: int, start: int, *part: Any) -> Any:
        with named(number):
            rows = copy.copy(self.estimator)._targets_in(*that_count(*part), self.fresh)
        return drawn(replace(rows, first=start), self.n)


class PartitionEncoder:
    """A partition in the terms of a fit.

    Parameters
    ----------
    estimator : estimator
        That knows what the rows fix.
    dtype : dtype
        Of the design, whatever a partition's own is.
    """

    def __init__(self, estimator: Any, dtype: Any) -> None:
        self.estimator, self.dtype = estimator, dtype

    def __call__(self, number: int, start: int, *part: Any) -> Any:
        with named(number):
            return copy.copy(self.estimator)._encode_partition(*that_count(*part), start, self.dtype)


def known(estimator: Any, start: Any, given: list[tuple[Any, ...]], executor: Executor) -> DataSummary:
    """What all rows say at a glance, and at a second one where their targets need it.

    Raises
    ------
    ValueError
        Naming the partition: what `fit` raises of arrays, or columns that other partitions do not have.
    """
    reader = Reader(bare(clone(estimator) if start.fresh else estimator), start.fresh)
    facts = executor.round(reader, [(i, *part) for i, part in enumerate(given)], DataSummary.joined)
    if not facts.n:
        what = "" if given[0][2] is None else " with a positive sample_weight"
        raise ValueError(
            f"X has {len(given)} partitions and no row{what}: {type(estimator).__name__} needs one at least."
        )
    facts.check_columns()
    if facts.targets is None:
        return facts
    few = facts.targets.few(estimator._by_moments(start.fresh))
    if few is None:
        asked = [(number, first, *given[number]) for number, first in facts.starts.items()]
        few = facts.targets.by(executor.round(Drawer(reader.estimator, start.fresh, facts.n), asked, Table.joined))
    return replace(facts, few=few)


def encoded(
    estimator: Any, start: Any, X: Any, y: Any, sample_weight: Any, offset: Any
) -> tuple[Partitioned, DataSummary]:
    """The data of a fit, and what all rows say; a fresh `start` fixes by it what the data fix.

    Raises
    ------
    ValueError
        As `known`.
    """
    from dask import delayed

    given = aligned(type(estimator).__name__, X, y=y, sample_weight=sample_weight, offset=offset)
    executor = Executor()
    facts = known(estimator, start, given, executor)
    targets = estimator._fix(facts, start.fresh)
    numbers = [number for number in range(len(given)) if facts.rows[number][0]]
    starts = np.cumsum([0, *(facts.rows[number][0] for number in numbers)])
    encoder = executor.sent(PartitionEncoder(bare(estimator), facts.dtype))
    task = delayed(called, pure=False)
    parts = [task(encoder, number, int(first), *given[number]) for number, first in zip(numbers, starts)]
    if float(starts[-1]) * facts.bytes_per_row <= HELD_SHARE * executor.memory:
        parts = executor.persisted(parts)
    weight = float(sum(facts.rows[number][1] for number in numbers))
    shape = RemoteDesign((int(starts[-1]), estimator._width(facts)), facts.dtype)
    return Partitioned(executor, parts, starts, weight, shape, targets), facts


def one_by_one(estimator: str, X: Any, **beside: Any) -> Iterator[tuple[Any, ...]]:
    """The partitions with rows, brought here one after another: a stream."""
    executor = Executor()
    for number, part in enumerate(aligned(estimator, X, **beside)):
        rows = executor.fetched(part)
        with named(number):
            rows = that_count(*rows)
            if rows[0].shape[0]:
                yield rows


def bare(estimator: Any) -> Any:
    """A copy without what a fit leaves behind that encoding does not read."""
    new = copy.copy(estimator)
    for name in LEFT_BEHIND:
        vars(new).pop(name, None)
    return new
