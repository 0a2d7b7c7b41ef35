"""Streams that begin with few rows: these are stored, and fitted together, until they are enough to start from.

Components that start among one row, or ten, are alike or those of ten rows, and steps on later ones do not part them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from sksvi.estimators.base import BaseSVI
from sksvi.estimators.encoding import GivenRows, Part
from sksvi.estimators.fitting import STREAM_BYTES
from sksvi.estimators.refit import ANEW
from sksvi.inference import plan, stream
from sksvi.inference.problem import Problem
from sksvi.inference.state import NO_LOCALS, State
from sksvi.models.data import Table

#: Rows that are enough.
ENOUGH = 2000


class FirstRows(BaseSVI):
    """Estimator whose stream begins with fits to all its rows, whenever these have doubled, before steps follow."""

    _outgrown_at = ANEW
    #: Rows of the stream so far, while they are few; None: enough have come, or a fit began.
    _first_rows: Table | None = None

    def _encoded(self, given: GivenRows, fresh: bool, part: Part) -> Any:
        if part.whole:
            self._first_rows = None
        return super()._encoded(given, fresh, part)

    def _absorbed(self, data: Table, first: bool, new_weight: float, fade: float, counted: float) -> tuple[Any, State]:
        rows = self._rows_so_far(data, first, fade)
        if rows is None or not self._due(rows, first):
            return super()._absorbed(data, first, new_weight, fade, counted)
        self._record = replace(self._record, began_among=rows.total_weight)
        self._encoding = self._encoding.by_stored(self, rows)
        self.__dict__.update(self._encoding.exposed)
        everything = self._encoding.restored(self, rows)
        self._check_memory(everything)
        problem = plan.changed(self._problem(*self._build_model(everything)), total=self.total_samples)
        state, before = self._new_state(problem), None if first else self.state_
        state = stream.as_one_pass(problem, state, before, new_weight, self._most_passes(), self.tol)
        return problem.model, self._concluded(
            problem, replace(state, counted=counted, population=problem.weight, locals=NO_LOCALS)
        )

    def _rows_so_far(self, data: Table, first: bool, fade: float) -> Table | None:
        """All rows of the stream so far, or None where they are not stored."""
        if first:
            return self._encoding.stored(data)
        stored = self._first_rows
        if stored is None:
            return None
        stored = stored.times(np.full(len(stored), fade)) if fade < 1.0 else stored
        return stored.concatenated(self._encoding.stored(data))

    def _due(self, rows: Table, first: bool) -> bool:
        """Whether all rows are to be fitted together now; once they are enough, they are no longer stored."""
        enough = self._are_enough(rows)
        self._first_rows = None if enough else rows
        return not (first and enough) and (enough or rows.total_weight >= ANEW * self._record.began_among or first)

    def _are_enough(self, rows: Table) -> bool:
        """Whether the rows are enough to start from, or as many as are stored at most."""
        return len(rows) >= self._enough_rows or len(rows) * rows.bytes_per_row >= STREAM_BYTES

    @property
    def _enough_rows(self) -> int:
        return ENOUGH

    def _concluded(self, problem: Problem, state: State) -> State:
        """The state at the end of a fit to the stored rows, as it is saved on the estimator."""
        return state

    def _stream_warnings(self, data: Any, first: bool) -> Iterator[str]:
        yield from super()._stream_warnings(data, first)
        began, total = self._record.began_among, self.n_samples_seen_
        due = not first and total - data.total_weight < self._outgrown_at * began <= total
        # First rows of a stream from its beginning, or of a wide one, have been stored.
        if due and self._first_rows is None and began < ENOUGH and began * data.bytes_per_row < STREAM_BYTES:
            yield (
                f"the components of this {type(self).__name__} began among the {began:g} rows of a fit, and as many "
                "have come since: partial_fit makes no components that these would need. Begin with partial_fit, which "
                f"keeps the first {ENOUGH} rows, or fit all of them with warm_start=True, which begins anew."
            )

    def _without_rows(self) -> Self:
        bare: Self = super()._without_rows()
        bare._first_rows = None
        return bare
