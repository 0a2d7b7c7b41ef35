"""Passes with noise, whose steps are not judged one by one: mini-batches, sampled gradients, a model's own sampler.

Now and then the bound of the averaged q is evaluated exactly (`check_due`), and the fit ends with such a pass. Sweeps
of a sampler have no bound to settle: q matches the draws of the second half.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime import parallel
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference import engine
from sksvi.inference.engine import bound, evaluate, exact_bound, impossible, step, whole
from sksvi.inference.messages import NO_FACTORS
from sksvi.inference.passes.line_search import left_to_gain, resettled
from sksvi.inference.problem import DIRECT, Problem
from sksvi.inference.records import GAIN, AveragingState, SamplingState, check_due, has_settled, hidden, replace
from sksvi.inference.state import Locals, State, StepInfo, check_finite
from sksvi.models.base import Blocks, Sampleable, Segment


# ---- mini-batches, or sampling noise
def averaging_state(state: State) -> AveragingState:
    """The record of a noisy pass in the state."""
    assert isinstance(state.progress, AveragingState)
    return state.progress


class Noisy:
    """Steps over shuffled batches; the mean of their scaled E log p, less the last divergence, stands for the pass."""

    def begin(self, problem: Problem, state: State) -> State:
        """The state with an empty average and no checks, unless it has a record already."""
        return (
            state
            if isinstance(state.progress, AveragingState)
            else replace(state, progress=AveragingState(state.progress.damping))
        )

    def once(self, problem: Problem, state: State, tol: float) -> tuple[State, StepInfo | None]:
        """One pass; the exact bound of the average where a check is due."""
        if ended(problem, state, tol):
            return state, None
        forming = problem.model.traits.warmup.passes
        if state.passes == forming:  # what was averaged until now served another end
            state = replace(state, progress=replace(averaging_state(state), average={}, since=state.steps))
        values, shares, rate, before = [], [], 0.0, state.repairs + state.locals.repairs
        state = problem.messages.begin(problem, state)
        for segment in problem.model.sweep(problem.data, problem.batch_size, state.seed, state.passes):
            state, value, rate = noisy_step(problem, state, segment)
            values.append(value)
            shares.append(1.0 / segment.scale)
        reported = bound(problem, state, float(np.average(values, weights=shares)))
        state = problem.messages.pass_ended(problem, replace(state, passes=state.passes + 1))
        if check_due(len(state.bounds) + 1 - forming - averaging_state(state).before):
            # Under a noisy bound nothing settles, and the check would cost a pass.
            if tol > 0 and not problem.model.traits.bound.noisy:
                progress, exact = averaging_state(state), exact_bound(problem, at_end(problem, state))
                state = replace(state, progress=replace(progress, checks=[*progress.checks, exact]))
            problem.messages.fresh(problem, state)
        repairs = state.repairs + state.locals.repairs - before
        return state, StepInfo(reported, False, rate, repairs)

    def end(self, problem: Problem, state: State) -> State:
        """The average, settled where hyperparameters moved, and its bound by one exact pass."""
        state = at_end(problem, state)
        gradient, value = evaluate(problem.for_bound, state, whole(problem), gradient_wanted=bool(problem.model.hyper))
        total = bound(problem, state, value)
        check_finite(total, gradient, state)
        q = engine.remembering(problem, state.q, gradient)
        # Sites belong to the pass; what portions said belongs to the stream.
        messages = state.messages if problem.messages is DIRECT else NO_FACTORS
        progress = replace(averaging_state(state), average={})
        return replace(state, q=q, messages=messages, progress=progress, bound=total, finished=True)


def at_end(problem: Problem, state: State) -> State:
    """The state as a fit that ended here would have it: the average, settled where hyperparameters moved."""
    state = replace(state, q=state.shown)
    return state if problem.algorithm.spec.literal else resettled(problem, state)


def ended(problem: Problem, state: State, tol: float) -> bool:
    """Whether the last checks say that there is nothing to gain."""
    if problem.model.traits.bound.noisy:
        return tol > 0 and hidden(state.bounds[problem.model.traits.warmup.passes :], tol, problem.size)
    return has_settled(averaging_state(state).checks, tol, problem.size) and nothing_left(problem, state, tol)


def nothing_left(problem: Problem, state: State, tol: float) -> bool:
    """Whether a natural step would gain no more than the checks may, asked at these; noisy natural steps are those."""
    if problem.algorithm.spec.natural:
        return True
    size = problem.size(averaging_state(state).checks[-1])
    return check_due(len(state.bounds)) and left_to_gain(problem, at_end(problem, state)) <= GAIN * tol * size


def noisy_step(problem: Problem, state: State, segment: Segment) -> tuple[State, float, float]:
    """One step on a segment, the scaled E log p before it, nats, and its rate."""
    gradient, value = evaluate(problem, state, segment)
    rate = problem.messages.reported(problem, state)
    check_finite(value, gradient, state)
    try:
        q, memory, _ = step(problem, state, segment, gradient, state.progress.damping)
    except NotPositiveDefinite as error:
        raise impossible(problem, state, error) from error
    state = replace(state, q=q, memory=memory, steps=state.steps + 1)
    return replace(state, progress=replace(averaging_state(state), average=averaged(problem, state))), value, rate


def averaged(problem: Problem, state: State) -> Blocks:
    """Mean of all q so far with weights that grow as t³: what noise is left in the steps averages out (Polyak)."""
    average = averaging_state(state).average
    if not average or problem.algorithm.spec.literal or not problem.model.traits.steps.averages:
        return state.q
    steps = state.steps - averaging_state(state).since
    weight = min(1.0, max(4.0 / (steps + 3.0), 4.0 * problem.least_rate))
    return {name: average[name].blended(block, weight) for name, block in state.q.items()}


# ---- sweeps of a model's own sampler
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
