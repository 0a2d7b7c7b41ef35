"""Once q has settled, the model may move its hyperparameters by a search of its own; then q settles anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from sksvi.algorithms.specs import MCSSVI
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference import engine
from sksvi.inference.messages import NO_FACTORS
from sksvi.inference.passes.line_search import evaluated, last_evaluation, run_until_settled
from sksvi.inference.passes.stochastic import Noisy, averaging_state
from sksvi.inference.problem import Problem, divergence
from sksvi.inference.records import AveragingState, Evaluation, LineSearchState, replace
from sksvi.inference.state import LookEnd, State, StepInfo, recorded, with_own_lists
from sksvi.models.base import Blocks, Fit, Gradient, Linear

Array = np.ndarray
Tick = Callable[[float], bool]

#: How near values of a hyperparameter are of which one bound is found, in its logarithms.
ALIKE = 3e-3


class Fitting(Fit):
    """What a model's search may ask, of a fit whose steps are judged."""

    def record(self, q: Blocks, gradient: Gradient, bound: float, **under_way: Any) -> None:
        """Let the state be at this q, in place: ticks see it."""
        here = Evaluation(q, gradient, bound, self.state.memory)
        self.state.q, self.state.progress = q, replace(self.state.progress, here=here, under_way=under_way)

    def settle(self, q: Blocks, passes: int, tol: float, stop: Tick | None = None, model: Any = None) -> Evaluation:
        """Evaluation after at most `passes` judged passes from q; under another `model`, if given, by natural steps."""
        if self.problem.exact_batches:
            return self._settled_in_batches(q, passes, tol, stop)
        problem = self.problem if model is None else replace(self.problem, model=model, algorithm=MCSSVI())
        return last_evaluation(run_until_settled(problem, replace(self.state, q=q), passes, tol, stop))

    def _settled_in_batches(self, q: Blocks, passes: int, tol: float, stop: Tick | None) -> Evaluation:
        """Evaluation after at most `passes` passes in batches: at equal hyperparameters always the same batches."""
        start = replace(self.state, q=q, passes=0, steps=0, messages=NO_FACTORS)
        state = run_until_settled(self.problem, start, passes, tol, stop, Noisy(), AveragingState())
        return evaluated(self.problem.for_bound, state)

    def divergence(self, q: Blocks) -> float:
        """What q pays for its distance from the prior, nats."""
        return divergence(self.problem, self.state, q)


def improved(problem: Problem, state: State, tick: Tick, tol: float) -> tuple[State, bool]:
    """The state after the model's search, and whether q has to settle anew."""
    if problem.exact_batches:
        return improved_in_batches(problem, state, tick, tol)
    if not problem.deterministic or not isinstance(state.progress, LineSearchState):
        return state, False
    fit = Fitting(problem, state, tick)
    q, moved = problem.model.search(fit, tol)
    if not moved:
        return state, False
    # In the state, so that a fit that was cut off knows it too.
    searched = {name: q[name] for name in problem.model.hyper}
    here = fit.here if fit.here.q is q else None
    return replace(state, q=q, progress=LineSearchState(here=here, searched=searched)), True


def improved_in_batches(problem: Problem, state: State, tick: Tick, tol: float) -> tuple[State, bool]:
    """`improved` where q settles in batches without noise, at the search's points too."""
    progress = averaging_state(state)
    judged = LineSearchState(here=evaluated(problem.for_bound, state), searched=progress.searched)
    q, moved = problem.model.search(Fitting(problem, replace(state, progress=judged), tick), tol)
    if not moved:
        return state, False
    searched = {name: q[name] for name in problem.model.hyper}
    progress = AveragingState(before=len(state.bounds), searched=searched)
    return replace(state, q=q, messages=NO_FACTORS, progress=progress), True


class Ended(Exception):
    """Raised where no further evaluation of the data is wanted."""


@dataclass
class EvaluationBudget:
    """Looks at all the data beside the steps of a fit: each counts as a pass; calling it tells whether it was the last.

    state: lists and counters grow in place. started: when the fit began. look_end: as in `plan.run`. search_start: the
    state before the first look, which a fit that is cut off goes on from where the search records nothing in `state`.
    """

    problem: Problem
    state: State
    max_iter: int
    started: float
    look_end: LookEnd
    ended: bool = False
    search_start: State = field(init=False)

    def __post_init__(self) -> None:
        self.search_start = with_own_lists(self.state)

    def __call__(self, bound: float, rate: float = 0.0) -> bool:
        self.state.passes += 1
        self.state.rows += self.problem.data.total_weight
        recorded(self.state, StepInfo(bound, True, rate, 0), perf_counter() - self.started)
        start = with_own_lists(self.state) if self.state.progress.under_way else self.search_start
        self.ended = bool(self.look_end(self.state, start)) or self.state.passes >= self.max_iter
        return self.ended


def search(
    problem: Problem, state: State, max_iter: int, tol: float, started: float, look_end: LookEnd
) -> tuple[State, bool]:
    """`improved` in a fit: every look at all the data counts as a pass; whether the fit goes on."""
    budget = EvaluationBudget(problem, state, max_iter, started, look_end)
    found, moved = improved(problem, state, budget, tol)
    if not moved:
        return replace(found, converged=not budget.ended), False
    return found, not budget.ended


def profile(
    problem: Problem, state: State, name: str, passes: int, tol: float, budget: EvaluationBudget
) -> Callable[[Array], float]:
    """Value of the hyperparameter `name` to the bound at the best q there: a few passes from where the fit ended.

    Parameters
    ----------
    problem, state : Problem and State
        Of a finished fit.
    name : str
        A point that the prior of the main block reads; all other hyperparameters stay where they are.
    passes : int
        At most, for each value.
    tol : float
        Nats at which q has settled.
    budget : EvaluationBudget
        Counts the passes; the bound that it is called with is that of the fit, which stands.

    Raises
    ------
    Ended
        By the returned function, when `looks` says so.
    """
    model = problem.model
    assert isinstance(model, Linear)
    q = {key: block if block.natural_coordinates else block.natural_form() for key, block in state.q.items()}
    message = q[model.main].over(model.prior(q)[model.main])
    given = engine.with_fixed_hyper(problem.noiseless)
    start = replace(state, memory={}, messages=NO_FACTORS)
    bounds: list[tuple[Array, float]] = []

    def count_pass(_: float) -> bool:
        if budget(state.bound):
            raise Ended
        return False

    def bound(value: Array) -> float:
        for other, found in bounds:
            if np.abs(value - other).max() < ALIKE:
                return found
        here = {**q, name: type(q[name])(value)}
        try:
            here[model.main] = model.prior(here)[model.main].times(message)
        except NotPositiveDefinite:  # messages of a fit that has not settled: from where it ended
            here[model.main] = q[model.main]
        settled = run_until_settled(given, replace(start, q=here), passes, tol / (abs(state.bound) + 1), count_pass)
        bounds.append((value, last_evaluation(settled).bound))
        return bounds[-1][1]

    return bound
