"""`partial_fit` of every estimator: a portion is encoded and absorbed, or the stream begins anew with all its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sksvi._runtime import parallel
from sksvi.estimators import fit_warnings
from sksvi.estimators.offsets import remember_offset
from sksvi.estimators.stage import FIRST_PORTION, PORTION
from sksvi.inference import plan, stream
from sksvi.inference.memory.factors import NO_FACTORS
from sksvi.inference.records import replace
from sksvi.inference.start import counting_on
from sksvi.partitions.collections import in_memory, is_collection
from sksvi.partitions.encoded import one_by_one

#: Rows of a stream that are kept where the user leaves it to us, and the most memory that their columns may take.
STREAM_ROWS, STREAM_BYTES = 8000, 2**24


class Streamed:
    """Mixin with `_partial_fit`, for classes that encode rows, build their problem and expose a state."""

    _at_one_end: Callable[[Any, Any], bool]
    _began_among: float
    _one_sided: bool
    batch_size: Any
    forgetting: Any
    half_life: Any
    total_samples: Any
    tol: float
    state_: Any
    n_iter_: int
    n_samples_seen_: float
    _all_or_nothing: Callable[[], Any]
    _check_memory: Callable[[Any], None]
    _columns_named: Callable[[], Any]
    _continued: Callable[[Any], Any]
    _encode: Callable[..., Any]
    _finish: Callable[..., None]
    _new_state: Callable[[Any], Any]
    _problem: Callable[[Any, Any], Any]
    _validate_params: Callable[[], None]

    #: Rows of a step of `partial_fit` where the user leaves it to us; None: a chunk is one batch.
    _portion_rows: int | None = None

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Any:
        if is_collection(X):
            with self._all_or_nothing():
                for part in one_by_one(type(self).__name__, X, y=y, sample_weight=sample_weight, offset=offset):
                    self._partial_fit(*part)
            return self
        in_memory(type(self).__name__, X, y=y, sample_weight=sample_weight, offset=offset)
        with self._all_or_nothing(), parallel.working():
            first = self._stream_begins()
            data = self._encode(X, y, sample_weight, offset, FIRST_PORTION if first else PORTION)
            remember_offset(self, offset, before=not first and getattr(self, "_had_offset", False))
            new_weight, fade = data.total_weight, self._fade(data.total_weight)
            total_weight = new_weight + (0.0 if first else self.n_samples_seen_)
            counted = new_weight + (0.0 if first else fade * (self.state_.counted or self.n_samples_seen_))
            model, state = self._absorbed(data, first, new_weight, fade, counted)
            self._one_sided = (first or self._one_sided) and self._at_one_end(model, data)
            self._finish(model, state, total_weight)
            found = list(fit_warnings.other_order(X=X, y=y, sample_weight=sample_weight, offset=offset))
            found += self._portion_findings(data, first)
        fit_warnings.warn_all(found)
        return self

    def _absorbed(self, data: Any, first: bool, new_weight: float, fade: float, counted: float) -> tuple[Any, Any]:
        """Absorb a chunk: the model of it, and the state after it.

        Parameters
        ----------
        data : encoded rows of the chunk
        first : bool
            Whether it is the first one.
        new_weight, counted : float
            Weight of its rows, and of all rows that have not been forgotten.
        fade : float
            Share that is left of what was said before.
        """
        everything = None if first else self._restart_rows(data, fade)
        begins, data = first or everything is not None, data if everything is None else everything
        self._check_memory_of_portion(data)
        whole = {"batch_size": self._portion_rows} if self.batch_size == "auto" else {}
        problem = self._problem(self._streaming_model(data, begins), data)
        problem = plan.changed(problem, total=self.total_samples or counted, **whole)
        self._began_among = data.total_weight if begins else self._began_among
        state = self._new_state(problem) if begins else self._continued(problem)
        if begins and not first:
            state = counting_on(state, self.state_, new_weight - data.total_weight)
        if not begins and not state.population:  # a fit's rows stand for themselves alone
            state = replace(state, population=self.state_.counted or self.n_samples_seen_)
        state = replace(state, counted=counted)
        if not plan.remembers(problem):
            state = replace(state, messages=NO_FACTORS)
        with self._columns_named():
            return problem.model, stream.absorb(problem, state, self.tol, self._stream_rows(data), fade)

    def _stream_begins(self) -> bool:
        """Whether a chunk is the first; a later one is checked: scikit-learn sees the first call's parameters only."""
        if not hasattr(self, "state_"):
            return True
        self._validate_params()
        self._check_finished()
        return False

    def _check_finished(self) -> None:
        """Raise where a stream would continue a fit that was cut off, which has not used all that its rows say."""
        if not self.state_.finished:
            raise ValueError(
                f"this is the checkpoint of a fit that was cut off after {self.n_iter_} passes, which partial_fit "
                "cannot go on from: end it first by set_params(warm_start=True).fit(X, y) with the rows that it began "
                "with."
            )

    def _portion_findings(self, data: Any, first: bool) -> Iterator[str]:
        """Warnings about a stream, after a chunk."""
        yield from ()

    def _fade(self, weight: float) -> float:
        """Factor by which earlier data are forgotten when data of this weight arrive."""
        if self.half_life is None:
            return float(self.forgetting)
        if self.forgetting != 1.0:
            raise ValueError(
                f"forgetting={self.forgetting!r} and half_life={self.half_life!r} say the same in two ways: set "
                "forgetting=1.0 or half_life=None."
            )
        return float(0.5 ** (weight / self.half_life))

    def _stream_rows(self, data: Any) -> int:
        """Number of rows of a stream that are stored, for models that can evaluate them again."""
        rows = getattr(self, "stream_sample", 0)
        return min(STREAM_ROWS, int(STREAM_BYTES // data.bytes_per_row)) if rows == "auto" else int(rows)

    def _restart_rows(self, data: Any, fade: float) -> Any:
        """All rows of the stream, where it is to begin anew with them (older ones as forgetting left them), or None."""
        return None

    def _streaming_model(self, data: Any, first: bool) -> Any:
        """The model of one chunk; `first`: of the first one, or of all rows that a stream begins anew with."""
        raise AttributeError(f"{type(self).__name__} does not stream")

    def _check_memory_of_portion(self, data: Any) -> None:
        """Raise where the arrays of a step on a chunk of a stream exceed the memory that is available."""
        self._check_memory(data)
