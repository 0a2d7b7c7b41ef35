"""Full batches without sampling noise whose pass is several steps: each segment moves its blocks and is judged alone.

A step that lowers the bound, leaves a family's domain or leads to where the bound is no finite number is taken back and
halved; what is left of a segment's rate grows again. So the bound never falls, whatever the start and the rate.
"""

from __future__ import annotations

from sksvi.algorithms.steps import MAX_HALVINGS
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference.engine import bound, evaluate, step, whole
from sksvi.inference.passes.line_search import DAMPING_GROWTH, LineSearch
from sksvi.inference.problem import Problem
from sksvi.inference.progress import BlockwiseState, Evaluation
from sksvi.inference.records import replace
from sksvi.inference.state import NonFinite, State, StepInfo, check_finite
from sksvi.inference.stopping import ROUNDING
from sksvi.models.base import Segment


class Blockwise(LineSearch):
    """One judged step per segment of the model's sweep."""

    def begin(self, problem: Problem, state: State) -> State:
        """No segment was halved yet."""
        return state if isinstance(state.progress, BlockwiseState) else replace(state, progress=BlockwiseState())

    def once(self, problem: Problem, state: State, tol: float) -> tuple[State, StepInfo | None]:
        """Every segment once; a pass gains too little where two in a row did, for the length of their steps."""
        if blockwise_state(state).here is None:
            state = replace(state, progress=replace(blockwise_state(state), here=looked(problem, state)))
        before, repairs, shortest = at(state), state.repairs, 1.0
        if blockwise_state(state).small_changes >= 2:
            return state, None
        for segment in problem.model.sweep(problem.data, None, state.seed, state.passes):
            state, length = moved(problem, state, segment)
            shortest = min(shortest, length)
        here = at(state)
        small = (here.bound - before.bound) / (shortest * problem.size(here.bound)) < tol
        count = blockwise_state(state).small_changes + 1 if small else 0
        state = replace(state, passes=state.passes + 1, progress=replace(blockwise_state(state), small_changes=count))
        return state, StepInfo(here.bound, True, shortest, state.repairs - repairs)


def blockwise_state(state: State) -> BlockwiseState:
    """The pass's own record."""
    assert isinstance(state.progress, BlockwiseState)
    return state.progress


def at(state: State) -> Evaluation:
    """The evaluation of the state's q."""
    here = blockwise_state(state).here
    assert here is not None
    return here


def looked(problem: Problem, state: State) -> Evaluation:
    """Gradient and bound at the state's q; NonFinite where they are no numbers."""
    gradient, value = evaluate(problem, state, whole(problem))
    now = bound(problem, state, value)
    check_finite(now, gradient, state)
    return Evaluation(state.q, gradient, now, state.memory)


def moved(problem: Problem, state: State, segment: Segment) -> tuple[State, float]:
    """The state after the segment's step, and its length as a share of a step of rate 1."""
    key, here = "/".join(segment.blocks or ()), at(state)
    rate = problem.algorithm.rate(state.steps, True)
    damping, reach = blockwise_state(state).dampings.get(key, 1.0), rate
    unit = damping
    if segment.blocks and problem.model.conjugate.issuperset(segment.blocks):
        unit, reach = damping / rate, 1.0
    for halvings in range(MAX_HALVINGS):
        share = 0.5**halvings
        tried = attempt(problem, state, segment, unit * share)
        if tried is not None and at(tried).bound >= here.bound - ROUNDING * (abs(here.bound) + 1):
            left = damping * share if halvings else min(1.0, DAMPING_GROWTH * damping)
            progress = replace(blockwise_state(tried), dampings={**blockwise_state(state).dampings, key: left})
            return replace(tried, repairs=state.repairs + halvings, progress=progress), reach * damping * share
    return replace(state, repairs=state.repairs + MAX_HALVINGS), reach * damping * 0.5**MAX_HALVINGS


def attempt(problem: Problem, state: State, segment: Segment, damping: float) -> State | None:
    """The state after a step, evaluated; None where there is no such q, or its bound is no number."""
    try:
        q, memory, _ = step(problem, state, segment, at(state).gradient, damping)
        state = replace(state, q=q, memory=memory, steps=state.steps + 1)
        return replace(state, progress=replace(blockwise_state(state), here=looked(problem, state)))
    except (NotPositiveDefinite, NonFinite):
        return None
