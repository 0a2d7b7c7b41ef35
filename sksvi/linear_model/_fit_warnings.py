"""Warnings after the fit of a linear model: separated labels, streams of one target value, priors that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sksvi.estimators import fit_warnings
from sksvi.estimators.dispersion import Dispersion, dispersion, has_excess, may_vary_more, varies_more
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.inference.stream_state import StreamState
from sksvi.linear_model._columns import ColumnStats
from sksvi.models.base import Table

Array = np.ndarray

#: Columns named of a direction that separates labels, and how large they are at least, beside the largest.
LARGEST, SHARE = 3, 0.1


class LinearFindings:
    """Mixin that yields warnings after a fit; stands before the classes that fit, whose attributes it reads."""

    n_samples_seen_: float
    state_: Any
    stream_sample: Any
    _constants: Callable[[int], Iterator[str]]
    _columns: Any
    _coordinate_names: Callable[[], list[str]]
    _coordinate_name: Callable[[int], str]
    _fixed_part: Callable[[Any], Any]
    _names_of_rows: Callable[[Any], Iterator[str]]
    _pinned: Callable[[], Iterator[str]]
    _prior_kind: str
    _uneven: Callable[[], Iterator[str]]
    #: The one target that all rows of a stream have had so far, (1,), or none: (0,).
    _only_target: Array = np.empty(0)
    #: Whether such rows went into the past before others came.
    _one_sided_past = False

    def _fit_warnings(self, problem: Problem, state: State) -> Iterator[str]:
        yield from super()._fit_warnings(problem, state)
        yield from self._names_of_rows(problem)
        yield from self._uneven()
        stats = self._columns.known
        if stats is not None:
            yield from fit_warnings.too_small(self._coordinate_names(), stats.high - stats.low)
        yield from self._pinned()
        yield from self._constants(len(problem.data))
        yield from self._separated(problem, state)
        yield from self._varies_more(problem, state)

    def _varies_more(self, problem: Problem, state: State) -> Iterator[str]:
        """Counts that vary more than their likelihood lets them, about a fit that has found its means."""
        likelihood, y, q = problem.model.likelihood, problem.data.y, state.shown
        settled = state.converged and "noise" not in q
        if not settled or not may_vary_more(likelihood, y) or not has_excess(likelihood, y):
            return
        rates = not likelihood.traits.paired and bool(np.any(y % 1))
        one = partial(dispersion, problem.model, q, problem.exact, problem.threads, rates)
        found = problem.data.reduced(one, Dispersion.merged)
        if found.matters:
            yield varies_more(likelihood, self.likelihood, found)

    def _portion_findings(self, data: Table, first: bool) -> Iterator[str]:
        """Warning, once, that rows of one target value were summarized before another value came."""
        self._one_sided_past = self._one_sided_past and not first
        if self._one_sided_past:
            self._not_converged()
        before = data.y[:1] if first else self._only_target
        self._only_target = before if len(before) and np.all(data.y == before) else data.y[:0]
        stream_state = self.state_.messages
        if not len(self._only_target) or not isinstance(stream_state, StreamState) or stream_state.complete:
            return
        value = self._target_name(self._only_target[0])
        self._only_target, self._one_sided_past = data.y[:0], True
        self._not_converged()
        yield (
            f"y is {value} in all {self.n_samples_seen_:g} rows of the stream so far, and not all of them are kept "
            f"(stream_sample={self.stream_sample!r}): what they say of the columns stays as it is before other values "
            "come, and may leave the fit several standard deviations off. Shuffle the rows, begin with a chunk that "
            "has other values too, or let stream_sample hold all rows until they come."
        )

    def _not_converged(self) -> None:
        """A portion may have settled where the stream has not: some of its rows are read as they were at first."""
        self.state_, self.converged_ = replace(self.state_, converged=False), False

    def _target_name(self, value: Any) -> str:
        """What a user calls a value of the encoded target."""
        names = getattr(self, "classes_", getattr(self, "levels_", None))
        if names is not None:
            return repr(np.asarray(names)[int(value)].item())
        return f"{value:g}" if np.ndim(value) == 0 else str(value.tolist())

    def _separated(self, problem: Problem, state: State) -> Iterator[str]:
        """Labels told apart, by a prior without a size; few rows are told apart by chance columns (Cover 1965)."""
        model, data = problem.model, problem.data
        free = model.width * max(1, model.likelihood.n_latents - 1)
        if self._prior_kind == "fixed" or len(data) <= 2 * free or not model.separates(state.q, data):
            return
        named = self._largest(problem, state)
        if named:
            yield fit_warnings.separation(named, len(data))

    def _largest(self, problem: Problem, state: State) -> list[str]:
        """The coefficients that move the latents most, none of them by far less than the first."""
        model = problem.model
        spread = problem.data.reduced(partial(self._known_of, model.n_fixed), ColumnStats.merged).spread
        size = np.abs(model.by_latent(state.q["weights"].mean)[:, : model.n_fixed]).max(axis=0) * spread
        most = np.argsort(-size, kind="stable")[:LARGEST]
        return [self._coordinate_name(int(j)) for j in most if size[j] > SHARE * size[most[0]]]

    def _known_of(self, n_fixed: int, data: Table) -> ColumnStats:
        return ColumnStats.of(self._fixed_part(data.X), data.weight, np.zeros(n_fixed))
