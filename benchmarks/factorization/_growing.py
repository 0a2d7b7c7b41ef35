"""An automatic batch size, tried out on the package's own passes: the batch grows where noise exceeds the gain.

Two estimates of the noise, by what a step is. Of a linear model a pass has many steps: over a window of them the
divergence of q from where the window began is compared with the sum of the divergences of its steps. Were steps all
drift, the first would be the window's length times the second; of a random walk they are equal. Below twice the sum the
batch doubles: in the metric of natural gradients the norm test of Byrd, Chin, Nocedal and Wu (2012), whose variance of
the gradient is that between steps. Of a factorization a pass is one step of each plate, between which factors are
turned: there the mean of the bounds of three passes is compared with that of the three before, as the stop rule of a
fit whose bounds are noisy does (`sksvi.inference.records.hidden`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean, variance
from typing import Any

import numpy as np

from sksvi.estimators.base import BaseSVI, Phase
from sksvi.inference import plan
from sksvi.inference.passes.stochastic import noisy_step
from sksvi.inference.problem import divergence_between
from sksvi.inference.records import replace
from sksvi.inference.state import StepInfo
from sksvi.models.base import Bipartite, Segment

#: Steps of a window, what net movement has to be of the sum of its steps, and by how much a batch grows.
WINDOW, LEAST, FACTOR = 16, 2.0, 2
#: Passes of each mean, standard errors that a gain has to exceed, and by how much entries of a plate grow.
PASSES, ERRORS, PLATE_FACTOR = 3, 2.0, 4


@dataclass
class GrowingPlates:
    """Passes over two sides on more and more entries of each plate; on all of them they are judged passes."""

    inner: Any
    size: int
    bounds: list[float] = field(default_factory=list)
    used: list[int] = field(default_factory=list)

    def begin(self, problem: Any, state: Any) -> Any:
        return self.inner.begin(problem, state)

    def end(self, problem: Any, state: Any) -> Any:
        return self.inner.end(replace(problem, batch_size=self.size), state)

    def once(self, problem: Any, state: Any, tol: float) -> tuple[Any, Any]:
        ready = replace(problem, batch_size=self.size)
        state, info = self.inner.once(ready, state, tol)
        if info is None:
            if ready.full_batch:
                return state, None
            self._grow()
            return self.once(problem, state, tol)
        self.bounds.append(info.bound)
        self.used.append(self.size)
        if not ready.full_batch and gains_nothing(self.bounds):
            self._grow()
        return state, info

    def _grow(self) -> None:
        self.size, self.bounds = PLATE_FACTOR * self.size, []


def gains_nothing(bounds: list[float]) -> bool:
    """Whether the last passes' bounds gained less than their noise."""
    if len(bounds) < 2 * PASSES:
        return False
    before, after = bounds[-2 * PASSES : -PASSES], bounds[-PASSES:]
    noise = ((variance(before) + variance(after)) / PASSES) ** 0.5
    return fmean(after) - fmean(before) < ERRORS * noise


@dataclass
class GrowingBatches:
    """Noisy steps on batches that double where a window of steps is a random walk; ends where one would be all rows."""

    inner: Any
    size: int
    steps: int = 0
    path: float = 0.0
    first: Any = None
    used: list[int] = field(default_factory=list)

    def begin(self, problem: Any, state: Any) -> Any:
        self.first = state.q
        return self.inner.begin(problem, state)

    def end(self, problem: Any, state: Any) -> Any:
        return self.inner.end(problem, state)

    def once(self, problem: Any, state: Any, tol: float) -> tuple[Any, Any]:
        n = len(problem.data)
        if 2 * self.size > n:
            return state, None
        order = np.random.default_rng([state.seed, state.passes]).permutation(n)
        bounds, at, rate = [], 0, 0.0
        while at < n and 2 * self.size <= n:
            rows = np.sort(order[at : at + self.size])
            at, before = at + self.size, state.q
            state, bound, rate = noisy_step(problem, state, Segment(rows, n / len(rows)))
            bounds.append(bound)
            self.used.append(len(rows))
            self._stepped(problem, before, state.q)
        state = replace(state, passes=state.passes + 1)
        return state, StepInfo(float(np.mean(bounds)), False, rate, 0)

    def _stepped(self, problem: Any, before: Any, after: Any) -> None:
        after, before, first = (natural_form(problem, q) for q in (after, before, self.first))
        self.path, self.steps = self.path + divergence_between(after, before, {}), self.steps + 1
        if self.steps == WINDOW:
            if divergence_between(after, first, {}) < LEAST * self.path:
                self.size *= FACTOR
            self.steps, self.path, self.first = 0, 0.0, after


def natural_form(problem: Any, q: dict[str, Any]) -> dict[str, Any]:
    """The blocks that have a prior, in coordinates in which divergences are known."""
    own = {name: block for name, block in q.items() if name not in problem.model.hyper}
    return {name: block if block.natural_coordinates else block.natural_form() for name, block in own.items()}


#: What the last fit's pass was, for its record of batches.
LAST: list[Any] = []


@contextmanager
def growing() -> Iterator[None]:
    """Context in which fits on batches let them grow, and end on all rows."""
    pass_of, phases = plan.pass_of, BaseSVI._phases

    def growing_pass(ready: Any) -> Any:
        inner = pass_of(ready)
        if ready.full_batch:
            return inner
        kind = GrowingPlates if isinstance(ready.model, Bipartite) else GrowingBatches
        LAST[:] = [kind(inner, ready.batch_size)]
        return LAST[0]

    def with_all_rows(self: Any, problem: Any, state: Any, passes: int) -> list[Phase]:
        first = phases(self, problem, state, passes)
        if problem.full_batch or isinstance(problem.model, Bipartite):
            return first
        return [*first, Phase(plan.changed(problem, batch_size=None), passes, self.tol)]

    plan.pass_of, BaseSVI._phases = growing_pass, with_all_rows  # type: ignore[method-assign]
    try:
        yield
    finally:
        plan.pass_of, BaseSVI._phases = pass_of, phases  # type: ignore[method-assign]
