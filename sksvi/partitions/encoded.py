"""Encoding of a collection as the data of a fit: a summary of all rows first, then each partition by it."""

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
from sksvi.partitions.collections import aligned, drop_zero_weight
from sksvi.partitions.data import Partitioned, RemoteDesign
from sksvi.partitions.executor import Executor, run_broadcast
from sksvi.partitions.summary import DataSummary

#: Share of the memory up to which encoded rows stay where they are; more of them are read and encoded in every pass.
HELD_SHARE = 0.25
#: What a fit leaves on an estimator and encoding does not read: it would travel with every partition.
LEFT_BEHIND = ("state_", "posterior_", "_skl_callbacks")


@contextmanager
def named(partition: int) -> Iterator[None]:
    """Context in which an error about a partition names the partition."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"partition {partition}: {error}") from error


class Reader:
    """Task that returns the data summary of a partition.

    Parameters
    ----------
    estimator : estimator
        Without a fit; a copy of it reads each partition.
    """

    def __init__(self, estimator: Any, fresh: bool) -> None:
        self.estimator, self.fresh = estimator, fresh

    def __call__(self, number: int, *part: Any) -> DataSummary:
        with named(number):
            rows = drop_zero_weight(*part)
            if not rows[0].shape[0]:
                return DataSummary({number: (0, 0.0)}, {}, np.float32)
            return copy.copy(self.estimator)._facts(*rows, number, self.fresh)


class Drawer:
    """Task that returns the rows of a partition that belong to the sample of targets of all `n` rows.

    Parameters
    ----------
    estimator : estimator
        As a `Reader` has it.
    """

    def __init__(self, estimator: Any, fresh: bool, n: int) -> None:
        self.estimator, self.fresh, self.n = estimator, fresh, n

    def __call__(self, number: int, start: int, *part: Any) -> Any:
        with named(number):
            rows = copy.copy(self.estimator)._targets_in(*drop_zero_weight(*part), self.fresh)
        return drawn(replace(rows, first=start), self.n)


class PartitionEncoder:
    """Task that encodes a partition for a fit.

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
            return copy.copy(self.estimator)._encode_partition(*drop_zero_weight(*part), start, self.dtype)


def data_summary(estimator: Any, start: Any, given: list[tuple[Any, ...]], executor: Executor) -> DataSummary:
    """Summary of all rows in one pass over them, or two where a sample of targets has to be drawn.

    Raises
    ------
    ValueError
        Naming the partition: what `fit` raises of arrays, or columns that other partitions do not have.
    """
    reader = Reader(bare(clone(estimator) if start.fresh else estimator), start.fresh)
    facts = executor.round(reader, [(i, *part) for i, part in enumerate(given)], DataSummary.merged)
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
        arguments = [(number, first, *given[number]) for number, first in facts.starts.items()]
        drawer = Drawer(reader.estimator, start.fresh, facts.n)
        few = facts.targets.by(executor.round(drawer, arguments, Table.concatenated))
    return replace(facts, few=few)


def encoded(
    estimator: Any, start: Any, X: Any, y: Any, sample_weight: Any, offset: Any
) -> tuple[Partitioned, DataSummary]:
    """The data of a fit, and the summary of all rows, by which a fresh `start` sets what depends on the data.

    Raises
    ------
    ValueError
        As `data_summary`.
    """
    from dask import delayed

    given = aligned(type(estimator).__name__, X, y=y, sample_weight=sample_weight, offset=offset)
    executor = Executor()
    facts = data_summary(estimator, start, given, executor)
    targets = estimator._fix(facts, start.fresh)
    numbers = [number for number in range(len(given)) if facts.rows[number][0]]
    starts = np.cumsum([0, *(facts.rows[number][0] for number in numbers)])
    encoder = executor.sent(PartitionEncoder(bare(estimator), facts.dtype))
    task = delayed(run_broadcast, pure=False)
    parts = [task(encoder, number, int(first), *given[number]) for number, first in zip(numbers, starts)]
    if float(starts[-1]) * facts.bytes_per_row <= HELD_SHARE * executor.memory:
        parts = executor.persisted(parts)
    weight = float(sum(facts.rows[number][1] for number in numbers))
    shape = RemoteDesign((int(starts[-1]), estimator._width(facts)), facts.dtype)
    return Partitioned(executor, parts, starts, weight, shape, targets), facts


def one_by_one(estimator: str, X: Any, **beside: Any) -> Iterator[tuple[Any, ...]]:
    """Iterate over the partitions with rows, each brought to this process: a stream."""
    executor = Executor()
    for number, part in enumerate(aligned(estimator, X, **beside)):
        rows = executor.fetched(part)
        with named(number):
            rows = drop_zero_weight(*rows)
            if rows[0].shape[0]:
                yield rows


def bare(estimator: Any) -> Any:
    """Copy of an estimator without the fitted attributes that encoding does not read."""
    new = copy.copy(estimator)
    for name in LEFT_BEHIND:
        vars(new).pop(name, None)
    return new
