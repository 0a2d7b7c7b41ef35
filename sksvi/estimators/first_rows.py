"""Streams that begin with few rows: these are kept, and fitted together, until they are enough to begin from.

Components that start among one row, or ten, are alike or those of ten rows, and steps on later ones do not part them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from sksvi.estimators.base import BaseSVI
from sksvi.estimators.stage import ANEW, Stage
from sksvi.estimators.streamed import STREAM_BYTES
from sksvi.inference import plan, stream
from sksvi.inference.memory.locals import NO_LOCALS
from sksvi.inference.problem import Problem
from sksvi.inference.start import counting_on
from sksvi.inference.state import State
from sksvi.models.base import Table

#: Rows that are enough.
ENOUGH = 2000


class FirstRows(BaseSVI):
    """A stream whose first rows are fitted as `fit` would, together, whenever they have doubled; then come steps."""

    _outgrown_at = ANEW
    #: Rows of the stream so far, while they are few; None: enough have come, or a fit began.
    _first_rows: Table | None = None

    def _data(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Any:
        self._first_rows = None
        return super()._data(X, y, sample_weight, offset, start)

    def _absorbed(self, data: Table, first: bool, came: float, fade: float, counted: float) -> tuple[Any, State]:
        rows = self._rows_so_far(data, first, fade)
        if rows is None or not self._due(rows, first):
            return super()._absorbed(data, first, came, fade, counted)
        self._began_among = rows.total_weight
        self._fix_first(rows)
        everything = self._of_rows(rows)
        self._check_memory(everything)
        problem = plan.changed(self._problem(*self._build_model(everything)), total=self.total_samples)
        state, before = self._new_state(problem), None if first else self.state_
        if before is not None:
            state = counting_on(state, before, 0.0)
        state = stream.as_one_pass(problem, state, before, came, self._most_passes(), self.tol)
        return problem.model, self._concluded(
            problem, replace(state, counted=counted, population=problem.weight, locals=NO_LOCALS)
        )

    def _rows_so_far(self, data: Table, first: bool, fade: float) -> Table | None:
        """The first rows of the stream with these, while all are known."""
        if first:
            return self._as_rows(data)
        kept = self._first_rows
        if kept is None:
            return None
        if fade < 1.0:
            kept = kept.times(np.full(len(kept), fade))
        return kept.joined(self._as_rows(data))

    def _due(self, rows: Table, first: bool) -> bool:
        """Whether all rows are fitted together now; once they are enough, they are kept no longer."""
        enough = self._are_enough(rows)
        self._first_rows = None if enough else rows
        return not (first and enough) and (enough or rows.total_weight >= ANEW * self._began_among or first)

    def _are_enough(self, rows: Table) -> bool:
        """Whether so many rows say what the model has to begin from, or are as many as are kept."""
        return len(rows) >= self._enough_rows or len(rows) * rows.bytes_per_row >= STREAM_BYTES

    @property
    def _enough_rows(self) -> int:
        return ENOUGH

    def _as_rows(self, data: Any) -> Table:
        """A chunk as rows that more can be joined to."""
        rows: Table = data
        return rows

    def _of_rows(self, rows: Table) -> Any:
        """The other way round: what a fit takes."""
        return rows

    def _concluded(self, problem: Problem, state: State) -> State:
        """The end of a fit to the rows at hand, as it is left behind."""
        return state

    def _fix_first(self, rows: Table) -> None:
        """What the first rows fix of the model, by all of them."""

    def _portion_findings(self, data: Any, first: bool) -> Iterator[str]:
        yield from super()._portion_findings(data, first)
        began, seen = self._began_among, self.n_samples_seen_
        due = not first and seen - data.total_weight < self._outgrown_at * began <= seen
        # Those of a stream from its beginning, or of a wide one, have been kept.
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
