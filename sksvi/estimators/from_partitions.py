"""Estimators whose bound is a sum over rows: a fit to the partitions of a Dask collection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sksvi.estimators.offsets import remember_offset
from sksvi.estimators.stage import PARTITION, Stage
from sksvi.models.base import Table
from sksvi.partitions.encoded import encoded
from sksvi.partitions.summary import DataSummary, Targets

Array = np.ndarray

#: What scikit-learn's validation leaves on an estimator.
FEATURES = ("n_features_in_", "feature_names_in_")


def in_double(X: Any) -> Any:
    """X with its single-precision columns in double precision: before anything is scaled."""
    if hasattr(X, "iloc"):
        single = [name for name, dtype in X.dtypes.items() if dtype == np.float32]
        return X.astype(dict.fromkeys(single, np.float64)) if single else X
    return X.astype(np.float64) if X.dtype == np.float32 else X


class FromPartitions:
    """Estimator that can be fitted to partitions: summaries of data, what these fix, and the encoding of partitions.

    A subclass has ``_read(X, y, sample_weight, offset, fresh)``: checked rows with targets as they are given;
    ``_target_facts(y, data)``: values of the target (None: there is none), and what else is to be known of it;
    ``_column_facts(data)``; ``_fix_target(facts, fresh)`` and ``_fix_columns(facts, targets, fresh)``, which set what a
    fit to the same rows in memory sets.
    """

    def _collected(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Any:
        data, facts = encoded(self, start, X, y, sample_weight, offset)
        remember_offset(self, facts.offset or None)
        return data

    def _facts(self, X: Any, y: Any, sample_weight: Any, offset: Any, number: int, fresh: bool) -> DataSummary:
        """Data summary of a partition with rows; `number`: which partition it is."""
        data = self._read(X, y, sample_weight, offset, fresh)  # type: ignore[attr-defined]
        values, own = self._target_facts(y, data)  # type: ignore[attr-defined]
        return DataSummary(
            {number: (len(data), data.total_weight)},
            self._features,
            np.dtype(self._dtype) if hasattr(self, "_dtype") else None,
            None if values is None else Targets.of(values, data.weight, data.offset),
            data.X.shape[1],
            data.bytes_per_row,
            offset is not None and bool(np.any(np.asarray(offset))),
            {**own, **self._column_facts(data)},  # type: ignore[attr-defined]
        )

    def _targets_in(self, X: Any, y: Any, sample_weight: Any, offset: Any, fresh: bool) -> Table:
        """The targets of a partition with rows, as `_facts` has them."""
        data = self._read(X, y, sample_weight, offset, fresh)  # type: ignore[attr-defined]
        return replace(data, y=self._target_facts(y, data)[0])  # type: ignore[attr-defined, no-any-return]

    def _by_moments(self, fresh: bool) -> bool:
        """Whether a fit needs no more of its targets than mean and variance."""
        return bool(self._base(fresh).traits.by_moments)  # type: ignore[attr-defined]

    @property
    def _features(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FEATURES if hasattr(self, name)}

    def _fix(self, facts: DataSummary, fresh: bool) -> Table | None:
        """Set the attributes that depend on all rows; return the targets in few rows, or None where there are none."""
        if fresh:
            vars(self).pop("feature_names_in_", None)
            vars(self).update(facts.features)
        else:
            self._check_choices()  # type: ignore[attr-defined]
        if facts.dtype is not None:
            self._dtype = np.dtype(facts.dtype).name
        targets = self._fix_target(facts, fresh)  # type: ignore[attr-defined]
        self._fix_columns(facts, targets, fresh)  # type: ignore[attr-defined]
        return targets  # type: ignore[no-any-return]

    def _width(self, facts: DataSummary) -> int:
        """Number of columns of encoded rows, which may be more than those of a single partition."""
        return facts.n_columns

    def _encode_partition(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: int, dtype: Any) -> Table:
        """Encode a partition with rows, whose own precision may be lower than that of all."""
        if dtype == np.float64:
            X = in_double(X)
        return replace(self._encode(X, y, sample_weight, offset, PARTITION), first=start)  # type: ignore[attr-defined]
