"""What the rows of a fit say at a glance, partition by partition: it adds up, so that no row has to travel.

Targets travel as the table of their distinct values where these are few, else as a sample: of all rows those whose
random numbers are the smallest, numbers that depend on a row's place in its partition alone. A measured target's sample
is brought to the mean and variance of all rows, so that units are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sksvi.likelihoods.weighted import weighted_moments
from sksvi.models.base import Table

Array = np.ndarray

#: Rows of a sample of targets, and distinct values that are held one by one.
SAMPLE, DISTINCT = 2**16, 2**12


@dataclass(frozen=True)
class Summary(Table):
    """Targets of many rows in few: `n_rows` of them."""

    n: int = 0

    @property
    def n_rows(self) -> int:
        """Rows that these stand for."""
        return self.n


@dataclass(frozen=True)
class Targets:
    """Targets of n rows with their offsets and weights.

    values, counts: the distinct values and the weight of each, or None where they are many. sample: the rows with the
    smallest `order`: y, weight and offset. moments: weight, mean and variance of a target of numbers.
    """

    n: int
    order: Array
    y: Array
    weight: Array | None
    offset: Array | None
    values: Array | None
    counts: Array | None
    moments: tuple[float, float, float] | None

    @classmethod
    def of(cls, y: Array, weight: Array | None, offset: Array | None, partition: int) -> Targets:
        """Those of the rows of one partition."""
        n, order = len(y), np.random.default_rng([partition, 4]).random(len(y))
        values, counts = _distinct(y, weight) if offset is None else (None, None)
        numbers = y.dtype.kind in "biuf" and y.ndim == 1
        moments = (float(n if weight is None else weight.sum()), *weighted_moments(y, weight)) if numbers else None
        return cls(n, order, y, weight, offset, values, counts, moments)._thinned()

    def joined(self, other: Targets) -> Targets:
        """Those of both."""

        def both(a: Array | None, b: Array | None) -> Array | None:
            return None if a is None or b is None else np.concatenate([a, b])

        values, counts = both(self.values, other.values), both(self.counts, other.counts)
        if values is not None:
            values, counts = _distinct(values, counts)
        parts = (both(getattr(self, name), getattr(other, name)) for name in ("order", "y", "weight", "offset"))
        moments = None if self.moments is None or other.moments is None else _joined(self.moments, other.moments)
        return Targets(self.n + other.n, *parts, values, counts, moments)._thinned()  # type: ignore[arg-type]

    def _thinned(self) -> Targets:
        if len(self.order) <= SAMPLE:
            return self
        keep = np.sort(np.argpartition(self.order, SAMPLE)[:SAMPLE])
        weight, offset = (None if part is None else part[keep] for part in (self.weight, self.offset))
        return replace(self, order=self.order[keep], y=self.y[keep], weight=weight, offset=offset)

    @cached_property
    def table(self) -> Summary:
        """All targets in few rows: exact where these are all, or all values."""
        if self.n > len(self.y) and self.values is not None:
            return Summary(np.empty((len(self.values), 0)), self.values, self.counts, None, n=self.n)
        y = self.y
        if self.n > len(y) and self.moments is not None and self.offset is None and y.dtype.kind == "f":
            _, mean, variance = self.moments
            own, spread = weighted_moments(y, self.weight)
            if spread > 0 and np.any(y != np.round(y)):  # counts stay counts
                y = mean + (y - own) * np.sqrt(variance / spread)
        return Summary(np.empty((len(y), 0)), y, self.weight, self.offset, n=self.n)


def _distinct(y: Array, weight: Array | None) -> tuple[Array | None, Array | None]:
    """The values and the weight of each, or None where they are many."""
    paired = y.ndim == 2
    if len(y) > DISTINCT and len(np.unique(y[: 2 * DISTINCT], axis=0 if paired else None)) > DISTINCT:
        return None, None
    values, at = np.unique(y, axis=0 if paired else None, return_inverse=True)
    if len(values) > DISTINCT:
        return None, None
    return values, np.bincount(at.ravel(), weight, len(values)).astype(float)


def _joined(a: tuple[Any, Any, Any], b: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    total = a[0] + b[0]
    share = b[0] / total
    apart = b[1] - a[1]
    return total, a[1] + share * apart, (1 - share) * a[2] + share * b[2] + share * (1 - share) * apart**2


@dataclass(frozen=True)
class Facts:
    """What fixes a fit: rows and weight of each partition, columns' names, and what an estimator wants to know besides.

    dtype: of what the fit answers in, None where that is no matter of the rows.
    targets: None of rows that have none. own: by name, anything with ``joined``.
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

    def joined(self, other: Facts) -> Facts:
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
        return Facts(rows, self.features, dtype, targets, self.n_columns, size, offset, own, kinds)

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
