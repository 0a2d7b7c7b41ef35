"""Encoding of a collection as the data of a fit: a summary of all rows first, then each partition by it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from sksvi.models.data import Table
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


class PartReader:
    """Task that returns the data summary of a partition, by the encoding class of an estimator.

    Parameters
    ----------
    estimator : estimator
        A copy of it reads each partition.
    fixed : Encoding or None
        What earlier rows have fixed.
    part : Part
        Of a partition, without its number.
    """

    def __init__(self, estimator: Any, fixed: Any, part: Any) -> None:
        self.estimator, self.fixed, self.part = estimator, fixed, part

    def rows(self, number: int, given: tuple[Any, ...], n_before: int = 0) -> tuple[Any, Any, Any]:
        """Copy of the estimator, checked rows of a partition, and which part they are."""
        estimator, part = copy.copy(self.estimator), self.part._replace(number=number, n_before=n_before)
        kind = type(estimator)._encoding_class
        return estimator, kind.read(estimator, kind.given(*drop_zero_weight(*given)), self.fixed, part), part

    def __call__(self, number: int, *given: Any) -> DataSummary:
        with named(number):
            if not drop_zero_weight(*given)[0].shape[0]:
                return DataSummary({number: (0, 0.0)}, {}, np.float32)
            estimator, rows, part = self.rows(number, given)
            return type(estimator)._encoding_class.summary(estimator, rows, self.fixed, part)


class TargetSample(PartReader):
    """Task that returns the rows of a partition that belong to the sample of targets of all `n` rows."""

    def __call__(self, number: int, n_before: int, n: int, *given: Any) -> Any:
        with named(number):
            estimator, rows, _ = self.rows(number, given, n_before)
        return drawn(replace(type(estimator)._encoding_class.as_given(rows), first=n_before), n)


class PartEncoder(PartReader):
    """Task that encodes a partition for a fit."""

    def __call__(self, number: int, n_before: int, dtype: Any, *given: Any) -> Any:
        with named(number):
            rows = drop_zero_weight(*given)
            rows = (in_double(rows[0]) if dtype == np.float64 else rows[0], *rows[1:])
            estimator, checked, part = self.rows(number, rows, n_before)
            return replace(self.fixed.encode(estimator, checked, part), first=n_before)


def in_double(X: Any) -> Any:
    """X with its single-precision columns in double precision: before anything is scaled."""
    if hasattr(X, "iloc"):
        single = [name for name, dtype in X.dtypes.items() if dtype == np.float32]
        return X.astype(dict.fromkeys(single, np.float64)) if single else X
    return X.astype(np.float64) if X.dtype == np.float32 else X


def summary_of(
    estimator: Any, reader: PartReader, given: list[tuple[Any, ...]], executor: Executor, by_moments: Any
) -> DataSummary:
    """Summary of all rows in one pass over them, or two where a sample of targets has to be drawn.

    Raises
    ------
    ValueError
        Naming the partition: what `fit` raises of arrays, or columns that other partitions do not have.
    """
    facts = executor.round(reader, [(i, *part) for i, part in enumerate(given)], DataSummary.merged)
    if not facts.n:
        what = "" if given[0][2] is None else " with a positive sample_weight"
        raise ValueError(
            f"X has {len(given)} partitions and no row{what}: {type(estimator).__name__} needs one at least."
        )
    facts.check_columns()
    if facts.targets is None:
        return facts
    few = facts.targets.few(by_moments())
    if few is None:
        arguments = [(number, first, facts.n, *given[number]) for number, first in facts.starts.items()]
        sample = TargetSample(reader.estimator, reader.fixed, reader.part)
        few = facts.targets.by(executor.round(sample, arguments, Table.concatenated))
    return replace(facts, few=few)


class SummarisedParts(NamedTuple):
    """Partitions of a fit, the summary of all their rows, and the encoding that they fix or bring up to date."""

    executor: Executor
    given: list[tuple[Any, ...]]
    summary: DataSummary
    encoding: Any


def summarised(estimator: Any, rows: tuple[Any, ...], fixed: Any, part: Any) -> SummarisedParts:
    """The partitions of a Dask collection with the encoding of a fit to them.

    Parameters
    ----------
    estimator : estimator
        Gets the number and names of the columns where nothing is fixed yet.
    rows : tuple
        X, y, sample_weight and offset, collections or None.
    fixed : Encoding or None
    part : Part
        Of a partition, without its number.

    Raises
    ------
    ValueError
        As `summary_of`.
    """
    kind, (X, y, sample_weight, offset) = type(estimator)._encoding_class, rows
    given = aligned(type(estimator).__name__, X, y=y, sample_weight=sample_weight, offset=offset)
    executor = Executor()
    reader = PartReader(bare(clone(estimator) if fixed is None else estimator), fixed, part)
    facts = summary_of(estimator, reader, given, executor, lambda: kind.by_moments(estimator, fixed))
    if fixed is None:
        vars(estimator).pop("feature_names_in_", None)
        vars(estimator).update(facts.features)
        return SummarisedParts(executor, given, facts, kind.fit(estimator, facts))
    return SummarisedParts(executor, given, facts, fixed.updated(estimator, facts, 0.0))


def encoded_by_part(estimator: Any, rows: tuple[Any, ...], fixed: Any, part: Any) -> tuple[Partitioned, Any, bool]:
    """The data of a fit to a Dask collection, its encoding, and if any row has an offset; arguments of `summarised`."""
    from dask import delayed

    executor, given, facts, encoding = summarised(estimator, rows, fixed, part)
    vars(estimator).update(encoding.exposed)  # which partitions are read by
    starts = np.cumsum([0, *(facts.rows[number][0] for number in facts.starts)])
    encoder = executor.sent(PartEncoder(bare(estimator), encoding, part))
    task = delayed(run_broadcast, pure=False)
    parts = [task(encoder, number, first, facts.dtype, *given[number]) for number, first in facts.starts.items()]
    if float(starts[-1]) * facts.bytes_per_row <= HELD_SHARE * executor.memory:
        parts = executor.persisted(parts)
    weight = float(sum(facts.rows[number][1] for number in facts.starts))
    shape = RemoteDesign((int(starts[-1]), encoding.width(facts)), facts.dtype)
    data = Partitioned(executor, parts, starts, weight, shape, encoding.targets(estimator, facts))
    return data, encoding, facts.offset


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
