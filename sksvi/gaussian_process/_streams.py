"""Streams of a sparse process: kernel and inducing points are those of its first rows until more can be looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sksvi import algorithms, expectations
from sksvi.gaussian_process._start import spread_of
from sksvi.inference.stream_state import StreamState
from sksvi.models.base import Table

#: A stream learns kernel and inducing points anew until it has learned them from so many rows for each of the latter,
#: whenever its rows have doubled and all are at hand.
LEARNING_ROWS = 10


class ProcessStreams:
    """Mixin with the streams of a sparse process."""

    algorithm: Any
    expectation: Any
    stream_sample: Any
    mean_: float
    state_: Any

    _model: Callable[..., Any]
    _batch_size: Callable[[int, Any], int | None]
    _base_likelihood: Callable[[], Any]
    _fix_units: Callable[..., None]
    _centred: Callable[[Table], Table]
    #: Rows that kernel and inducing points of a stream were last learned from; None after a fit, and once told.
    _learned_rows: int | None = None

    if TYPE_CHECKING:

        @property
        def _most_points(self) -> int: ...

    def _streaming_model(self, data: Table, first: bool) -> Any:
        if first:
            self._learned_rows = len(data)
        if not algorithms.resolve(self.algorithm).row.messages:
            return self._model(data, "gradient")
        return self._model(data, "evidence" if first else "nothing")

    def _restart_rows(self, data: Table, fade: float) -> Table | None:
        learned, rows = self._learned_rows, self._rows_at_hand(fade)
        if learned is None or rows is None or learned >= LEARNING_ROWS * self._most_points:
            return None
        rows = rows.concatenated(data)
        size = self._batch_size(len(rows), algorithms.resolve(self.algorithm))
        # Batches and draws would take steps along gradients, in the place of messages.
        steps = (size is not None and size < len(rows)) or not expectations.resolve(self.expectation).exact
        if steps or len(rows) < 2 * learned:
            return None
        if self.mean_:
            assert rows.offset is not None  # which has the mean
            rows = replace(rows, offset=rows.offset - self.mean_)
        self._fix_units(self._base_likelihood(), rows, spread_of(rows))
        return self._centred(rows)

    def _rows_at_hand(self, fade: float) -> Table | None:
        """All rows of the stream so far, where they are kept and messages say what they said."""
        stream_state = self.state_.messages
        messages = algorithms.resolve(self.algorithm).row.messages
        return stream_state.faded(fade).everything() if messages and isinstance(stream_state, StreamState) else None

    def _portion_findings(self, data: Table, first: bool) -> Iterator[str]:
        """Fewer inducing points than were asked for, once they cannot become more."""
        learned, most = self._learned_rows, self._most_points
        if first or learned is None or learned >= most or self._rows_at_hand(1.0) is not None:
            return
        self._learned_rows = None
        yield (
            f"the inducing points of this stream are those of its first {learned} rows, n_inducing={most} or not, and "
            f"what was learned of the kernel rests on as many: earlier rows are not all kept (algorithm="
            f"{self.algorithm!r}, stream_sample={self.stream_sample!r}), so that neither can be learned anew. Begin "
            f"with at least {most} rows, or under algorithm='cvi' let stream_sample hold all rows until so many have "
            "come."
        )
