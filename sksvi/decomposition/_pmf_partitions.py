"""Ratings of a Dask collection: ids are counted, then two sorted copies lie on disk as memory maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi.decomposition._ids import check_has_ids, id_columns, plates_of, positions, unique_ids
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.from_partitions import FEATURES
from sksvi.estimators.stage import Stage
from sksvi.models.base import Table
from sksvi.models.factorization.on_disk import ratings_on_disk
from sksvi.models.factorization.ratings import Ratings
from sksvi.partitions.collections import aligned, drop_zero_weight
from sksvi.partitions.encoded import data_summary, named
from sksvi.partitions.executor import Executor
from sksvi.partitions.summary import DataSummary, Targets, Union

Array = np.ndarray


@dataclass(frozen=True)
class Counted:
    """Ids of one side, sorted where they have an order, with how many ratings each has; ratings without an id."""

    ids: Array
    counts: Array
    missing: dict[int, int]

    @classmethod
    def of(cls, column: Any, partition: int) -> Counted:
        """Ids and their numbers of ratings in a column of one partition."""
        ids = unique_ids(column)
        where = positions(ids, column)
        return cls(ids, np.bincount(where[where >= 0], minlength=len(ids)), {partition: int(np.sum(where < 0))})

    def merged(self, other: Counted) -> Counted:
        """Union of the ids of two sets of partitions, with their numbers of ratings added."""
        import pandas as pd

        ids = unique_ids(pd.concat([pd.Series(self.ids), pd.Series(other.ids)]))
        counts = np.zeros(len(ids), np.int64)
        for one in (self, other):
            counts[positions(ids, pd.Series(one.ids))] += one.counts
        return Counted(ids, counts, {**self.missing, **other.missing})

    def starts(self, ids: Array) -> Array:
        """Where each plate's ratings begin: those of `ids`, then one plate for each rating without an id."""
        import pandas as pd

        counts = np.zeros(len(ids), np.int64)
        counts[positions(ids, pd.Series(self.ids))] = self.counts
        return np.cumsum(np.concatenate([[0], counts, np.ones(sum(self.missing.values()), np.int64)]))


class RatingsInPartitions:
    """Encoding of a collection of ratings for `GeneralizedPMF`, on one machine."""

    def _collected(self: Any, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Ratings:
        from sksvi.estimators.offsets import remember_offset

        given = aligned(type(self).__name__, X, y=y, sample_weight=sample_weight, offset=None)
        executor, fresh = Executor(), start.fresh
        facts = data_summary(self, start, given, executor)
        if fresh:
            vars(self).pop("feature_names_in_", None)
            vars(self).update(facts.features)
        targets = self._fix_ratings(facts, start)
        remember_offset(self, None)
        starts = {side: facts.own[side].starts(ids) for side, ids in (("users", self.users_), ("items", self.items_))}
        weighted = sample_weight is not None
        data = ratings_on_disk(self._entries(executor, given, facts), starts, weighted, targets)
        self._remember_seen(data, fresh)
        return data

    def _facts(self: Any, X: Any, y: Any, sample_weight: Any, offset: Any, number: int, fresh: bool) -> DataSummary:
        columns, values, weight = self._checked_ratings(X, y, sample_weight, fresh)
        base = self._base(fresh)
        own: dict[str, Any] = {
            side: Counted.of(column, number) for side, column in zip(("users", "items"), columns, strict=True)
        }
        if base.traits.ordered:
            values, own["levels"] = self.levels_[values.astype(int)], Union(self.levels_, self._declares(y))
        total = float(len(values) if weight is None else weight.sum())
        features = {name: getattr(self, name) for name in FEATURES if hasattr(self, name)}
        return DataSummary(
            {number: (len(values), total)}, features, np.float64, Targets.of(values, weight, None), 2, own=own
        )

    def _targets_in(self: Any, X: Any, y: Any, sample_weight: Any, offset: Any, fresh: bool) -> Table:
        """The values of a partition with ratings, as `_facts` has them."""
        _, values, weight = self._checked_ratings(X, y, sample_weight, fresh)
        values = self.levels_[values.astype(int)] if self._base(fresh).traits.ordered else values
        return Table(np.empty((len(values), 0)), values, weight)

    @staticmethod
    def _by_moments(fresh: bool) -> bool:
        """False: scales are medians, which moments do not give."""
        return False

    def _checked_ratings(self: Any, X: Any, y: Any, sample_weight: Any, fresh: bool) -> tuple[Any, Array, Any]:
        """Columns of ids, values (positions among the levels of an ordinal y) and weights."""
        columns = id_columns(self, X, fresh)
        values = self._targets(self._base(fresh), columns, y, fresh)
        return columns, values, check_row_values(sample_weight, len(values), "sample_weight", weights=True)

    def _fix_ratings(self: Any, facts: DataSummary, start: Stage) -> Any:
        """Fix levels, scales and ids by the statistics of all ratings; returns their targets in few rows."""
        table, base = facts.few, self._base(start.fresh)
        assert table is not None
        if "levels" in facts.own:
            self.levels_ = facts.own["levels"].values if start.fresh else self.levels_
            table = table.mapped(lambda y: positions(self.levels_, y).astype(float))
        ids_of = [facts.own[side].ids for side in ("users", "items")]
        if not all(len(ids) for ids in ids_of):
            check_has_ids([_missing(ids) for ids in ids_of])
        self._fix_by_targets(base, table.y, table.weight, table.n_rows, start, declared=self._declared(facts))
        self._fix_ids(ids_of, start.fresh)
        return table

    @staticmethod
    def _declared(facts: DataSummary) -> bool:
        return "levels" in facts.own and facts.own["levels"].declared

    def _entries(self: Any, executor: Executor, given: list[Any], facts: DataSummary) -> Iterator[tuple[Array, ...]]:
        """(user, item, value, weight) of every rating, a partition at a time."""
        before = {"users": 0, "items": 0}
        for number, part in enumerate(given):
            if not facts.rows[number][0]:
                continue
            rows = executor.fetched(part)
            with named(number):
                X, y, sample_weight, _ = drop_zero_weight(*rows)
                columns, values, weight = self._checked_ratings(X, y, sample_weight, False)
                where = []
                for side, column, ids in zip(("users", "items"), columns, (self.users_, self.items_), strict=True):
                    plates = plates_of(ids, column)
                    plates[plates >= len(ids)] += before[side]
                    before[side] += facts.own[side].missing[number]
                    where.append(plates)
            yield (*where, values, weight) if weight is not None else (*where, values)


def _missing(ids: Array) -> Any:
    import pandas as pd

    return pd.Series(ids) if len(ids) else pd.Series([None])
