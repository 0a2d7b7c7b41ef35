"""Marginal means: f or the mean of y with a column at each of its levels, averaged over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sksvi.inspection._answers import ChangedLevels, identity_link
from sksvi.inspection._changed_rows import ChangedRowMeans, constant, with_column
from sksvi.inspection._grid import compared_levels, has_levels, levels_of

Array = np.ndarray


@dataclass(frozen=True)
class MeansByLevel:
    """Means under the joint posterior.

    Parameters
    ----------
    answers : ChangedRowMeans
    rows : DataFrame
    named : bool
        Whether their columns have names.
    groups : tuple
        Number of each row's group, what the groups are called, and what they are of, or None.
    weight : ndarray of shape (n,) or None
    latent : bool
        Whether means are of f; else of y.
    """

    answers: ChangedRowMeans
    rows: Any
    named: bool
    groups: tuple[Array, list[Any], Any]
    weight: Array | None
    latent: bool

    def with_levels(self, features: list[Any]) -> list[Any]:
        """Columns that have several levels, of those given.

        Raises
        ------
        ValueError
            None of them has.
        """
        found = [name for name in features if has_levels(self.answers, self.rows[name], name)]
        found = [name for name in found if len(levels_of(self.rows[name])) > 1]
        if not found:
            raise ValueError("no column has levels to take means at: name columns of numbers in features.")
        return found

    def table(self, features: list[Any], coverage: float) -> Any:
        """Mean, spread and interval by column, level, group and class."""
        if not features:
            return self._averages([self.rows if self.named else self.rows.to_numpy()], [()], [], coverage)
        return pd.concat([self._of(feature, coverage) for feature in features])

    def _of(self, feature: Any, coverage: float) -> Any:
        levels = compared_levels(self.answers, self.rows, feature)
        column = self.rows[feature]
        changed = [with_column(self.rows, feature, constant(column, level), self.named) for level in levels]
        return self._averages(changed, [(feature, level) for level in levels], ["feature", "level"], coverage)

    def _averages(self, changed: list[Any], keys: list[tuple[Any, ...]], names: list[str], coverage: float) -> Any:
        codes, groups, by = self.groups
        question = ChangedLevels(self.answers, changed, np.eye(len(keys)), codes, len(groups), self.weight)
        if self.latent or identity_link(self.answers.inner):
            found: Any = question.linear("joint", None).plus(question.mean_offset())
        else:
            found = question.draws("joint")
        names = [*names, *[by] * (by is not None), *["class"] * (found.classes[0] is not None)]
        parts = []
        for c, label in enumerate(found.classes):
            of_class = [label] * (label is not None)
            index = [(*key, *[group] * (by is not None), *of_class) for group in groups for key in keys]
            rows: Any = pd.MultiIndex.from_tuples(index, names=names) if names else ["rows"]
            rows = rows.get_level_values(0) if len(names) == 1 else rows
            parts.append(found.pointwise(c, slice(None), coverage).drop(columns="direction").set_axis(rows, axis=0))
        return pd.concat(parts)
