"""The first ratings of a stream, which are kept and fitted together until they are several for each user and item."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.estimators.first_rows import FirstRows
from sksvi.estimators.start import Start
from sksvi.models.base import Table
from sksvi.models.factorization.ratings import Ratings

Array = np.ndarray

#: Ratings of a user or an item, about, that say what its factors are: what fewer say is read while nothing is known of
#: either side, and leaves factors near zero, where later ones find nothing to go on from.
EACH = 15


class FirstRatings(FirstRows):
    """Ratings as rows of a table: (user, item) as positions among the ids, -1 where an id is missing."""

    users_: Array
    items_: Array

    def _data(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Start) -> Any:
        data = super()._data(X, y, sample_weight, offset, start)
        if data.at_hand and not self._are_enough(data):  # a stream goes on from this fit as from a first chunk
            self._first_rows, self._fitted_rows = self._as_rows(data), len(data)
        return data

    def _as_rows(self, data: Ratings) -> Table:
        entries, sizes = data.sides["users"], (len(self.users_), len(self.items_))
        users = np.repeat(np.arange(len(entries.starts) - 1), entries.counts)
        pairs = np.column_stack([users, entries.other]).astype(np.int64)
        return Table(np.where(pairs < sizes, pairs, -1), entries.y, entries.weight)

    def _of_rows(self, rows: Table) -> Ratings:
        plates, sizes = [], []
        for side, ids in zip(rows.X.T, (self.users_, self.items_), strict=True):
            nameless = np.flatnonzero(side < 0)
            side = side.copy()
            side[nameless] = len(ids) + np.arange(len(nameless))
            plates.append(side)
            sizes.append(len(ids) + len(nameless))
        return Ratings(*plates, rows.y, rows.weight, *sizes)

    def _due(self: Any, rows: Table, first: bool) -> bool:
        if self.total_samples is not None and not self._algorithm().row.messages:
            # Its steps are blown up to a population, which passes over both sides are not.
            self._first_rows = None
            return False
        return bool(super()._due(rows, first))

    def _are_enough(self, rows: Table | Ratings) -> bool:
        return len(rows) >= EACH * (len(self.users_) + len(self.items_))

    def _fix_first(self: Any, rows: Table) -> None:
        self._fix_scales(self._base(fresh=True), rows.y, rows.weight)
        self._read_features(fresh=True)
