"""Summaries of the rows of a partition that a fit needs: those of two partitions merge, so that no row has to travel.

Targets travel as they are while they are few, as the table of their distinct values where these are few, and as mean
and variance. Where a fit asks for more, a second look draws the rows of a sample: those that a fit in memory looks at.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sksvi._typing.arrays import NUMBERS
from sksvi.likelihoods.scales import weighted_moments
from sksvi.models import targets as rule
from sksvi.models.data import Table
from sksvi.models.targets import Summary

Array = np.ndarray
#: Weight, mean and variance.
Spread = tuple[float, float, float]


@dataclass(frozen=True)
class Targets:
    """Summary of the targets of n rows.

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
        """Summary of the targets of one partition."""
        rows = Table(np.empty((len(y), 0)), y, weight, offset)
        own = beside = _moments(y, weight) if y.dtype.kind in NUMBERS and y.ndim == 1 else None
        if own is not None and offset is not None:
            beside = _moments(y - offset, weight)
        stored = rows if len(y) <= rule.SAMPLE else None
        return cls(len(y), stored, rule.counted(y, weight), own, beside, offset is not None)

    def merged(self, other: Targets) -> Targets:
        """Summary of the targets of both."""
        n, rows, values = self.n + other.n, None, None
        if self.rows is not None and other.rows is not None and n <= rule.SAMPLE:
            rows = self.rows.concatenated(other.rows)
        if self.values is not None and other.values is not None:
            both = self.values.concatenated(other.values)
            values = rule.counted(both.y, both.weight)
        own, beside = _either_merged(self.own, other.own), _either_merged(self.beside, other.beside)
        return Targets(n, rows, values, own, beside, self.offset or other.offset)

    def few(self, by_moments: bool) -> Summary | None:
        """Few rows that stand for all targets; None where a sample has to be drawn."""
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
        """Summary by given rows that stand for all targets."""
        return Summary(rows.X, rows.y, rows.weight, rows.offset, n=self.n, values=self.values)


def _moments(y: Array, weight: Array | None) -> Spread:
    return (float(len(y) if weight is None else weight.sum()), *weighted_moments(y, weight))


def _either_merged(a: Spread | None, b: Spread | None) -> Spread | None:
    return None if a is None or b is None else _merged_moments(a, b)


def _merged_moments(a: tuple[Any, Any, Any], b: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    total = a[0] + b[0]
    share = b[0] / total
    apart = b[1] - a[1]
    return total, a[1] + share * apart, (1 - share) * a[2] + share * b[2] + share * (1 - share) * apart**2


@dataclass(frozen=True)
class DataSummary:
    """Summary of partitions: rows and weight of each, names of columns, and further facts of an estimator.

    dtype: of what the fit answers in, None where that is no matter of the rows.
    targets: None of rows that have none, or are in memory. few: rows that stand for all targets. own: by name, anything
    with ``merged``.
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
    few: Table | None = None

    @property
    def n(self) -> int:
        """Number of rows of nonzero weight."""
        return sum(n for n, _ in self.rows.values())

    @property
    def starts(self) -> dict[int, int]:
        """By partition with rows, the index of its first row."""
        found, n = {}, 0
        for number in sorted(self.rows):
            if self.rows[number][0]:
                found[number] = n
                n += self.rows[number][0]
        return found

    def merged(self, other: DataSummary) -> DataSummary:
        """Summary of the rows of both; where their columns differ only these are recorded, for `check_columns`."""
        rows = {**self.rows, **other.rows}
        if not self.n or not other.n:
            return replace(self if self.n else other, rows=rows)
        kinds = dict(self.columns)
        for columns, first in other.columns.items():
            kinds[columns] = min(first, kinds.get(columns, first))
        if len(kinds) > 1:
            return replace(self, rows=rows, kinds=kinds)
        targets = None if self.targets is None or other.targets is None else self.targets.merged(other.targets)
        own = {name: one.merged(other.own[name]) for name, one in self.own.items()}
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
        """Raise where partitions have different columns, naming the first that differs from the first of all.

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
        """Moments of the columns of X."""
        mean = np.average(X, axis=0, weights=weight)
        variance = np.average(np.square(X - mean), axis=0, weights=weight)
        return cls(float(len(X) if weight is None else weight.sum()), mean, variance, X.min(axis=0), X.max(axis=0))

    def merged(self, other: Moments) -> Moments:
        """Moments of the rows of both."""
        mine, its = ((one.weight, one.mean, one.variance) for one in (self, other))
        return Moments(*_merged_moments(mine, its), np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def deviation(self) -> Array:
        """Standard deviation of each column, exactly 0 of a constant one, whatever its mean rounds to."""
        return np.where(self.low < self.high, np.sqrt(self.variance), 0.0)


@dataclass(frozen=True)
class Either:
    """Flag of the data that is True once it is True of the rows of any partition."""

    value: bool

    def merged(self, other: Either) -> Either:
        """Logical or of both flags."""
        return self if self.value else other


@dataclass(frozen=True)
class Union:
    """Distinct values of rows, sorted, or in the order that a categorical type declares."""

    values: Array
    declared: bool = False

    def merged(self, other: Union) -> Union:
        """Union of both sets of values."""
        if self.declared and other.declared and np.array_equal(self.values, other.values):
            return self
        return Union(np.unique(np.concatenate([self.values, other.values])))


@dataclass(frozen=True)
class Total:
    """Sum over rows of a number or an array."""

    value: Any

    def merged(self, other: Total) -> Total:
        """Sum of both."""
        return Total(self.value + other.value)
