"""First ratings of a stream: they are stored and fitted together until there are several for each user and item."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sksvi.estimators.encoding import GivenRows, Part
from sksvi.estimators.first_rows import FirstRows
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.models.base import Table
from sksvi.models.factorization.columns import SIDES
from sksvi.models.factorization.ratings import Ratings

Array = np.ndarray

#: Ratings of a user or an item, about, that say what its factors are: what fewer say is read while nothing is known of
#: either side, and leaves factors near zero, where later ones find nothing to go on from.
EACH = 15


class FirstRatings(FirstRows):
    """Ratings as rows of a table: (user, item) as positions among the ids, -1 where an id is missing."""

    _outgrown_at = np.inf  # of a fit to fewer ratings what it has found stays, and what it had shrunk away is revived
    users_: Array
    items_: Array

    def _encoded(self, given: GivenRows, fresh: bool, part: Part) -> Any:
        data = super()._encoded(given, fresh, part)
        if part.whole and data.at_hand:
            rows = self._as_rows(data)
            if not self._are_enough(rows):  # a stream goes on from this fit as from a first chunk
                self._first_rows = rows
        return data

    @property
    def _enough_rows(self) -> int:
        return EACH * (len(self.users_) + len(self.items_))

    def _as_rows(self, data: Ratings) -> Table:
        entries, sizes = data.sides["users"], (len(self.users_), len(self.items_))
        users = np.repeat(np.arange(len(entries.starts) - 1), entries.counts)
        pairs = np.column_stack([users, entries.other])
        return Table(np.where(pairs < sizes, pairs, -1.0), entries.y, entries.weight)

    def _of_rows(self, rows: Table) -> Ratings:
        plates, sizes, weight, blown_up = [], [], rows.weight, self._blown_up(rows.total_weight)
        for side, ids in zip(rows.X.T, (self.users_, self.items_), strict=True):
            nameless = np.flatnonzero(side < 0)
            plate = side.astype(np.int64)
            plate[nameless] = len(ids) + np.arange(len(nameless))
            plates.append(plate)
            sizes.append(len(ids) + len(nameless))
        if blown_up != 1.0:
            weight = blown_up * (np.ones(len(rows)) if weight is None else weight)
        return Ratings(*plates, rows.y, weight, *sizes)

    def _blown_up(self: Any, weight: float) -> float:
        """Factor from ratings of this weight to the stream's population, to which steps on a stream are scaled."""
        steps = self.total_samples is not None and not self._algorithm().spec.messages
        return self.total_samples / weight if steps else 1.0

    def _concluded(self: Any, problem: Problem, state: State) -> State:
        # What later steps are shares of are ratings that came.
        blown_up = self._blown_up(self._record.began_among)
        memory = {side: replace(state.memory[side], seen=state.memory[side].seen / blown_up) for side in SIDES}
        return replace(state, memory={**state.memory, **memory})

    def _fix_first(self: Any, rows: Table) -> None:
        self._fix_scales(self._base(fresh=True), rows.y, rows.weight)
        self._read_features(fresh=True)
