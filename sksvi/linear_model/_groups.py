"""Columns that share a prior precision, where `prior_precision` maps names, patterns or positions to precisions.

Coefficients of a group are independent N(0, 1/precision) for its columns as they are given, so that the lengths of the
columns of a smooth keep their meaning. The columns of a group are put on one scale c in the place of their own spreads,
c² = Σ var / Σ (var / spread²): they together give f as much variance as columns on their own spreads would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from numbers import Real
from typing import Any, Self

import numpy as np

from sksvi.estimators.tables import position
from sksvi.linear_model._columns import SPREAD, ColumnStats
from sksvi.models.linear.scales import ScalePrior

Array = np.ndarray

#: The key of columns that no other key has.
OTHERS = "*"
#: Stands for a precision that is learned.
LEARNED = 0.0


@dataclass(frozen=True)
class PrecisionGroups:
    """Groups of coefficients, each with its prior precision.

    Parameters
    ----------
    names : list of str
        What each group is called: its key.
    of_columns : ndarray of int, shape (D,)
        Group of each coefficient.
    precisions : ndarray of shape (K,)
        `LEARNED`, or the number that the user gives.
    """

    LAYOUT = "names items k; names[*] text; of_columns (_) i <k; precisions (k) f >=0"

    names: list[str]
    of_columns: Array
    precisions: Array

    @classmethod
    def of(cls, estimator: Any, columns: Sequence[Any], positions: Sequence[int], categories: Any) -> Self:
        """The groups that `prior_precision` makes of columns with these names and positions in X.

        Raises
        ------
        ValueError
            Naming a key that has no column or a value that is no precision.
        """
        given = estimator.prior_precision
        keys = [*given, *[OTHERS] * (OTHERS not in given)]
        group = np.full(len(columns), -1)
        for k, key in enumerate(keys):
            at = _columns_of(key, estimator, columns, positions)
            if not np.any(at & (group < 0)) and key != OTHERS:
                why = (
                    "only columns that a key before it has"
                    if at.any()
                    else f"no column of X, which has {[*map(str, columns)]}"
                )
                raise ValueError(
                    f"prior_precision key {key!r} has {why}. Keys are names of columns, patterns of names or "
                    "positions, and the first one that fits has a column; transformers give names after "
                    "set_output(transform='pandas')."
                )
            group[at & (group < 0)] = k
        used, group = np.unique(group, return_inverse=True)
        precisions = [_precision(keys[k], given.get(keys[k], "auto")) for k in used]
        of_columns = group if categories is None else categories.for_each(group)
        return cls([str(keys[k]) for k in used], of_columns.astype(np.int64), np.array(precisions))

    def split(self, kinds: Array, n_kinds: int) -> Self:
        """Groups of which the columns that no key has are split by their kinds (D,), if their scale is learned."""
        if not np.any(self.own_spread):
            return self
        others, more = int(np.argmax(self.own_spread)), n_kinds - 1
        of_columns = np.where((self.of_columns == others) & (kinds > 0), len(self.names) + kinds - 1, self.of_columns)
        precisions = np.append(self.precisions, np.full(more, LEARNED))
        return replace(self, names=[*self.names, *[OTHERS] * more], of_columns=of_columns, precisions=precisions)

    @property
    def own_spread(self) -> Array:
        """Which groups have columns on spreads of their own, as under "auto": that of the others, if learned, (K,)."""
        return (np.array(self.names) == OTHERS) & (self.precisions == LEARNED)

    def common(self, stats: ColumnStats) -> Array:
        """The scale c of the columns of each group, (K,); of columns on spreads of their own these, in deviations."""
        return np.where(self.own_spread, SPREAD, stats.common_spread(self.of_columns, len(self.names)))

    def spread(self, stats: ColumnStats, own: Array) -> Array:
        """What the prior of each column is for, (D,): scale of its group, or its `own` spread; 0 of a constant one."""
        common = self.common(stats)[self.of_columns]
        return np.where(self.own_spread[self.of_columns] | (own == 0.0), own, common)

    def limited(self, scales: ScalePrior, stats: ColumnStats) -> ScalePrior:
        """The prior of scales with those that are given, and without a largest precision of a group that is learned.

        A group may be as good as left out: that of the bends of a curve which is a line.
        """
        fixed = self.precisions != LEARNED
        given = np.log(np.where(fixed, self.precisions, 1.0)) - 2.0 * np.log(self.common(stats))
        highest = np.where(self.own_spread, scales.highest, np.inf)
        return replace(scales, lowest=np.where(fixed, given, scales.lowest), highest=np.where(fixed, given, highest))


def _columns_of(key: Any, estimator: Any, columns: Sequence[Any], positions: Sequence[int]) -> Array:
    """Which columns a key has: the one of this name or position, else those whose names fit the pattern."""
    names = np.array([str(name) for name in columns], dtype=object)
    if not isinstance(key, str):
        return np.asarray(positions) == position(estimator, key, "prior_precision key")
    return names == key if np.any(names == key) else np.array([fnmatchcase(name, key) for name in names], bool)


def _precision(key: Any, value: Any) -> float:
    """The value of a key as a number."""
    if isinstance(value, str) and value == "auto":
        return LEARNED
    if isinstance(value, Real) and not isinstance(value, bool) and 0.0 < float(value) < np.inf:
        return float(value)
    raise ValueError(f"prior_precision[{key!r}] must be 'auto' or a positive number; found {value!r}.")
