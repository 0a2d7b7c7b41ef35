"""Grouping columns of a Dask collection: levels and slopes of all partitions are known before any is encoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sksvi.estimators.categorical import Levels
from sksvi.estimators.stage import Stage
from sksvi.estimators.tables import as_table
from sksvi.mixed_effects._levels import slopes_among
from sksvi.models.base import Table
from sksvi.partitions.summary import DataSummary

Array = np.ndarray


class GroupsInPartitions:
    """Mixin that reads grouping columns from partitions; stands before the GLM among the bases."""

    groups: Any
    likelihood_: Any
    _categories: Any
    _factors: list[int] | None
    _fix_factors: Callable[[], None]
    _fix_group_levels: Callable[[list[Levels]], None]
    _layout: Any
    _prior_kind: str
    _level_values: Callable[[Table], list[Any]]
    _constant: Array
    _scale_by: Callable[[Any], Array]
    _slope_columns: Callable[..., Any]
    _slopes: Any
    #: Of a partition of a fit the number of its first row without a level, by grouping column; None: there may be none.
    _alone: list[int] | None = None

    def _collected(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Any:
        self._streams = False
        data = super()._collected(X, y, sample_weight, offset, start)
        vars(self).pop("_alone_by_start", None)  # for partitions, which have it by now
        return data

    def _facts(self, X: Any, y: Any, sample_weight: Any, offset: Any, number: int, fresh: bool) -> DataSummary:
        facts = super()._facts(X, y, sample_weight, offset, number, fresh)
        if self.groups is None or not fresh:
            return facts
        levels = {f"levels {f}": Levels.of(as_table(X), j, number) for f, j in enumerate(self._factors)}
        return replace(facts, own={**facts.own, **levels})

    def _column_facts(self, data: Table) -> dict[str, Any]:
        facts = super()._column_facts(data)
        if self.groups is None:
            return facts
        slopes = {f"slopes {f}": self._slope_columns(data, columns) for f, (_, columns) in enumerate(self._slopes)}
        values = {f"values {f}": own for f, own in enumerate(self._level_values(data))}
        return {**facts, **slopes, **values}

    def _fix_columns(self, facts: DataSummary, targets: Table, fresh: bool) -> None:
        if fresh:
            self._factors = None
            self._overdispersible = self.likelihood_.overdispersible(targets.alone.y)
            if self.groups is not None:
                self._fix_factors()
                levels = [facts.own[f"levels {f}"] for f in range(len(self._factors))]
                self._fix_group_levels(levels)
                self._slope_scales = [self._scale_by(facts.own[f"slopes {f}"]) for f in range(len(self._factors))]
                self._constant = np.stack([facts.own[f"values {f}"].constant for f in range(len(self._factors))])
                if "categories" in facts.own:  # indicators of missing values that no row has are no columns
                    left = facts.own["categories"].settled(facts.own["columns"].high, self._prior_kind == "flat")[1]
                    self._constant = self._constant[:, left]
                if any(sum(one.alone.values()) for one in levels):
                    before = {start: [one.before(number) for one in levels] for number, start in facts.starts.items()}
                    self._alone_by_start = before
        super()._fix_columns(facts, targets, fresh)
        if fresh and self.groups is not None:
            self._slopes = slopes_among(self._slopes, self._categories)

    def _width(self, facts: DataSummary) -> int:
        layout = self._layout
        return super()._width(facts) if layout is None else layout.starts[-1]

    def _encode_partition(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: int, dtype: Any) -> Table:
        self._alone = getattr(self, "_alone_by_start", {}).get(start)
        return super()._encode_partition(X, y, sample_weight, offset, start, dtype)
