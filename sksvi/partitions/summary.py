"""What the rows of a fit say at a glance, partition by partition: it adds up, so that no row has to travel.

Targets travel as they are while they are few, as the table of their distinct values where these are few, and as mean
and variance. Where a fit asks for more, a second look draws the rows of a sample: those that a fit in memory looks at.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sksvi._runtime.kinds import NUMBERS
from sksvi.likelihoods.weighted import weighted_moments
from sksvi.models import targets as rule
from sksvi.models.base import Table
from sksvi.models.targets import Summary

Array = np.ndarray
#: Weight, mean and variance.
Spread = tuple[float, float, float]


@dataclass(frozen=True)
class Targets:
    """Targets of n rows.

    rows: all with their weights and offsets, or None where they are many. values: the distinct ones and the weight of
    each, or None where they are many. own, beside: moments of targets that are numbers, and of what they are beside
    their offsets. offset: whether they have any.
    """

    n: int
    rows: Table | None
    values: Table | None
    own: Spread | None
    beside: Spread | None
    offset: bool

    @classmethod
    def of(cls, y: Array, weight: Array | None, offset: Array | None) -> Targets:
        """Those of the rows of one partition."""
        rows = Table(np.empty((len(y), 0)), y, weight, offset)
        own = beside = _moments(y, weight) if y.dtype.kind in NUMBERS and y.ndim == 1 else None
        if own is not None and offset is not None:
            beside = _moments(y - offset, weight)
        kept = rows if len(y) <= rule.SAMPLE else None
        return cls(len(y), kept, rule.counted(y, weight), own, beside, offset is not None)

    def joined(self, other: Targets) -> Targets:
        """Those of both."""
        n, rows, values = self.n + other.n, None, None
        if self.rows is not None and other.rows is not None and n <= rule.SAMPLE:
            rows = self.rows.joined(other.rows)
        if self.values is not None and other.values is not None:
            both = self.values.joined(other.values)
            values = rule.counted(both.y, both.weight)
        own, beside = _either_joined(self.own, other.own), _either_joined(self.beside, other.beside)
        return Targets(n, rows, values, own, beside, self.offset or other.offset)

    def few(self, by_moments: bool) -> Summary | None:
        """All targets in few rows; None: a sample is to be drawn."""
        if self.rows is not None:
            return self.by(self.rows)
        if self.values is not None and not self.offset:
            return self.by(self.values)
        if not by_moments or self.own is None or self.beside is None:
            return None
        # Two rows have the mean and variance of all, and so has what they are beside their offsets.
        side = np.array([-1.0, 1.0])
        y, rest = (mean + side * np.sqrt(variance) for _, mean, variance in (self.own, self.beside))
        weight = np.full(2, 0.5 * self.own[0])
        return self.by(Table(np.empty((2, 0)), y, weight, y - rest if self.offset else None))

    def by(self, rows: Table) -> Summary:
        """All targets by rows that stand for them."""
        return Summary(rows.X, rows.y, rows.weight, rows.offset, n=self.n, values=self.values)


def _moments(y: Array, weight: Array | None) -> Spread:
    return (float(len(y) if weight is None else weight.sum()), *weighted_moments(y, weight))


def _either_joined(a: Spread | None, b: Spread | None) -> Spread | None:
    return None if a is None or b is None else _joined(a, b)


def _joined(a: tuple[Any, Any, Any], b: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    total = a[0] + b[0]
    share = b[0] / total
    apart = b[1] - a[1]
    return total, a[1] + share * apart, (1 - share) * a[2] + share * b[2] + share * (1 - share) * apart**2


@dataclass(frozen=True)
class DataSummary:
    """What fixes a fit: rows and weight of each partition, columns' names, and what an estimator wants to know besides.

    dtype: of what the fit answers in, None where that is no matter of the rows.
    targets: None of rows that have none. few: the same of all rows in few. own: by name, anything with ``joined``.
    """

    rows: dict[int, tuple[int, float]]
    features: dict[str, Any]
    dtype: Any
    targets: Targets | None = None
    n_columns: int = 0
    bytes_per_row: float = 0.0
    offset: bool = False
    own: dict[str, Any] = field(default_factory=dict)
    kinds: dict[tuple[Any, ...], int] = field(default_factory=dict)
    few: Summary | None = None

    @property
    def n(self) -> int:
        """Rows that count."""
        return sum(n for n, _ in self.rows.values())

    @property
    def starts(self) -> dict[int, int]:
        """Number of the first row of every partition that has rows."""
        found, n = {}, 0
        for number in sorted(self.rows):
            if self.rows[number][0]:
                found[number] = n
                n += self.rows[number][0]
        return found

    def joined(self, other: DataSummary) -> DataSummary:
        """Those of both; a partition without rows says nothing, and of other columns no more than which."""
        rows = {**self.rows, **other.rows}
        if not self.n or not other.n:
            return replace(self if self.n else other, rows=rows)
        kinds = dict(self.columns)
        for columns, first in other.columns.items():
            kinds[columns] = min(first, kinds.get(columns, first))
        if len(kinds) > 1:
            return replace(self, rows=rows, kinds=kinds)
        targets = None if self.targets is None or other.targets is None else self.targets.joined(other.targets)
        own = {name: one.joined(other.own[name]) for name, one in self.own.items()}
        dtype = None if self.dtype is None else np.result_type(self.dtype, other.dtype)
        size = (self.n * self.bytes_per_row + other.n * other.bytes_per_row) / (self.n + other.n)
        offset = self.offset or other.offset
        return DataSummary(rows, self.features, dtype, targets, self.n_columns, size, offset, own, kinds)

    @property
    def columns(self) -> dict[tuple[Any, ...], int]:
        """Names, or the number, of the columns that partitions have, with the first partition that has them."""
        if self.kinds:
            return self.kinds
        names = tuple(np.atleast_1d(self.features.get("feature_names_in_", ())))
        first = min(number for number, (n, _) in self.rows.items() if n)
        return {(names or self.features["n_features_in_"],): first}

    def check_columns(self) -> None:
        """An error where partitions have different columns: the first of those that differ from the first of all.

        Raises
        ------
        ValueError
        """
        ((here, first), *others) = sorted(self.columns.items(), key=lambda kind: kind[1])
        if others:
            (there, second), *_ = others
            shown = [list(kind[0]) if isinstance(kind[0], tuple) else kind[0] for kind in (here, there)]
            raise ValueError(
                f"partition {second}: X has the columns {shown[1]}, those of partition {first} are {shown[0]}: all "
                "partitions must have the same."
            )


@dataclass(frozen=True)
class Moments:
    """Weight of rows, and mean, variance and extremes of each of their columns."""

    weight: float
    mean: Array
    variance: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, X: Array, weight: Array | None) -> Moments:
        """Those of some rows."""
        mean = np.average(X, axis=0, weights=weight)
        variance = np.average(np.square(X - mean), axis=0, weights=weight)
        return cls(float(len(X) if weight is None else weight.sum()), mean, variance, X.min(axis=0), X.max(axis=0))

    def joined(self, other: Moments) -> Moments:
        """Those of both."""
        mine, its = ((one.weight, one.mean, one.variance) for one in (self, other))
        return Moments(*_joined(mine, its), np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def deviation(self) -> Array:
        """Standard deviation, 0 of a constant column, whatever its mean rounds to."""
        return np.where(self.low < self.high, np.sqrt(self.variance), 0.0)


@dataclass(frozen=True)
class Either:
    """What is so of all rows once it is of any."""

    value: bool

    def joined(self, other: Either) -> Either:
        """Of both."""
        return self if self.value else other


@dataclass(frozen=True)
class Union:
    """Values that any row has, sorted, or in the order that a categorical type declares."""

    values: Array
    declared: bool = False

    def joined(self, other: Union) -> Union:
        """Those of both."""
        if self.declared and other.declared and np.array_equal(self.values, other.values):
            return self
        return Union(np.unique(np.concatenate([self.values, other.values])))


@dataclass(frozen=True)
class Total:
    """Numbers that add up."""

    value: Any

    def joined(self, other: Total) -> Total:
        """Their sum."""
        return Total(self.value + other.value)
