"""Full batches without sampling noise whose pass is several steps: each segment moves its blocks and is judged alone.

A step that lowers the bound, leaves a family's domain or leads to where the bound is no finite number is taken back and
halved; what is left of a segment's rate grows again. So the bound never falls, whatever the start and the rate.
"""

from __future__ import annotations

from sksvi.algorithms.line_search import MAX_HALVINGS, backtrack
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference.engine import step
from sksvi.inference.passes.line_search import DAMPING_GROWTH, LineSearch, evaluated
from sksvi.inference.problem import Problem
from sksvi.inference.progress import BlockwiseState, Evaluation
from sksvi.inference.records import replace
from sksvi.inference.state import NonFinite, State, StepInfo
from sksvi.inference.stopping import ROUNDING
from sksvi.models.base import Segment


class Blockwise(LineSearch):
    """One judged step per segment of the model's sweep."""

    def begin(self, problem: Problem, state: State) -> State:
        """The state with a record in which no segment's rate is halved."""
        return state if isinstance(state.progress, BlockwiseState) else replace(state, progress=BlockwiseState())

    def once(self, problem: Problem, state: State, tol: float) -> tuple[State, StepInfo | None]:
        """Every segment once; a pass gains too little where two in a row did, for the length of their steps."""
        if blockwise_state(state).here is None:
            state = replace(state, progress=replace(blockwise_state(state), here=evaluated(problem, state)))
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
    """The record of a pass of judged segments in the state."""
    assert isinstance(state.progress, BlockwiseState)
    return state.progress


def at(state: State) -> Evaluation:
    """The evaluation of the state's q."""
    here = blockwise_state(state).here
    assert here is not None
    return here


def moved(problem: Problem, state: State, segment: Segment) -> tuple[State, float]:
    """The state after the segment's step, and its length as a share of a step of rate 1."""
    key, here = "/".join(segment.blocks or ()), at(state)
    rate = problem.algorithm.rate(state.steps, True)
    damping, reach = blockwise_state(state).dampings.get(key, 1.0), rate
    unit = damping
    if segment.blocks and problem.model.traits.steps.conjugate.issuperset(segment.blocks):
        unit, reach = damping / rate, 1.0
    least = here.bound - ROUNDING * (abs(here.bound) + 1)
    found = backtrack(
        lambda share: attempt(problem, state, segment, unit * share), lambda trial: at(trial).bound >= least
    )
    if found is None:
        return replace(state, repairs=state.repairs + MAX_HALVINGS), reach * damping * 0.5**MAX_HALVINGS
    trial, share, halvings = found
    rate_left = damping * share if halvings else min(1.0, DAMPING_GROWTH * damping)
    progress = replace(blockwise_state(trial), dampings={**blockwise_state(state).dampings, key: rate_left})
    return replace(trial, repairs=state.repairs + halvings, progress=progress), reach * damping * share


def attempt(problem: Problem, state: State, segment: Segment, damping: float) -> State | None:
    """The state after a step, evaluated; None where there is no such q, or its bound is no number."""
    try:
        q, memory, _ = step(problem, state, segment, at(state).gradient, damping)
        state = replace(state, q=q, memory=memory, steps=state.steps + 1)
        return replace(state, progress=replace(blockwise_state(state), here=evaluated(problem, state)))
    except (NotPositiveDefinite, NonFinite):
        return None
