"""Sweeps of a model's own sampler: no bound to settle, and q matches the draws of the second half."""

from __future__ import annotations

from sksvi._runtime import parallel
from sksvi.inference.engine import bound, evaluate, whole
from sksvi.inference.memory.locals import Locals
from sksvi.inference.problem import Problem
from sksvi.inference.progress import SamplingState
from sksvi.inference.records import replace
from sksvi.inference.state import State, StepInfo, check_finite
from sksvi.models.base import Sampleable

#: Draws without which nothing has a spread.
LEAST_DRAWS = 2


def sampling_state(state: State) -> SamplingState:
    """The record of a sampler in the state."""
    assert isinstance(state.progress, SamplingState)
    return state.progress


class GibbsPass:
    """One sweep per pass; draws of the second half of the passes are kept, wherever they end."""

    def begin(self, problem: Problem, state: State) -> State:
        """A chain from the means of q and from where each row's local variables were, or one that was cut off."""
        assert isinstance(problem.model, Sampleable)
        self.chain = problem.model.chain(problem.data, problem.threads)
        if isinstance(state.progress, SamplingState):
            return state
        values = state.locals.values if isinstance(state.locals, Locals) else None
        return replace(state, progress=SamplingState(state.passes, self.chain.begin(state.q, values)))

    def once(self, problem: Problem, state: State, tol: float) -> tuple[State, StepInfo | None]:
        """One sweep over all rows."""
        assert isinstance(problem.model, Sampleable)
        progress = sampling_state(state)
        draw, value = self.chain.sweep(progress.draw, parallel.stream(state.seed, state.passes, 1))
        check_finite(value, {}, state)
        # Draws of the second half, however often the way there was cut off; a single one has no spread.
        done = state.passes + 1 - progress.first
        draws = [*progress.draws, draw.globals][-max(done - done // 2, LEAST_DRAWS) :]
        state = replace(
            state,
            q=self.chain.matched(draws),
            passes=state.passes + 1,
            steps=state.steps + 1,
            locals=Locals(draw.local, rule=problem.local_rule),
            progress=SamplingState(progress.first, draw, draws),
        )
        return state, StepInfo(value, False, 1.0, 0)

    def end(self, problem: Problem, state: State) -> State:
        """The state with q and its bound, by expectations as of any other fit."""
        if len(sampling_state(state).draws) < LEAST_DRAWS:
            raise ValueError(
                f"a sampler's draws have no spread after {state.passes} pass: {LEAST_DRAWS} passes at least."
            )
        # Rows stay where the chain has left them.
        look = replace(state, locals=state.locals.copy())
        _, value = evaluate(problem.for_bound, look, whole(problem), gradient_wanted=False)
        total = bound(problem, state, value)
        check_finite(total, {}, state)
        return replace(state, bound=total, converged=True, finished=True)
