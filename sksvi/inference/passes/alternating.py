"""Passes of models with plates on two sides: users given items, then items given users.

Plates of one side are independent given the other, so a chunk of columns is evaluated, stepped and judged on its own,
in any thread. A step of a plate that lowers its own part of the bound is halved. Every plate has its own clock: its
rate is that of a plate seen so often, whenever the others came. Any family serves whose blocks have plates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.algorithms.line_search import MAX_HALVINGS, backtrack
from sksvi.algorithms.rules import FIXED, StepSize
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference import engine
from sksvi.inference.engine import bound, evaluate, exact_bound, impossible, iterate, whole, with_bound
from sksvi.inference.messages import BlockFactors
from sksvi.inference.passes.blockwise import Stepper, entries_of, sided
from sksvi.inference.problem import Problem
from sksvi.inference.records import PORTION_PASSES, ROUNDING, AlternatingState, check_due, has_settled, replace
from sksvi.inference.state import PlateMemory, State, StepInfo, check_finite
from sksvi.models.base import Blocks, Gradient

#: Entries per number of the plates from which a stream learns the plates' priors. Fewer leave them at their first
#: width: they would shrink factors to zero that later portions have evidence for, and zero times zero stays.
ENOUGH = 1.0


@dataclass
class Half:
    """What half a pass did: the side's block, the data's part of the bound before and after, and its memory."""

    block: Any
    before: float
    after: float
    gradient: Gradient
    repairs: int
    rate: float
    memory: PlateMemory


def alternating_state(state: State) -> AlternatingState:
    """The record of a pass over two sides in the state."""
    assert isinstance(state.progress, AlternatingState)
    return state.progress


class Alternating:
    """A pass over both sides, one after the other, and then over what is learned of all plates.

    Parameters
    ----------
    prior_factors : BlockFactors, optional
        Messages of earlier portions about every plate: times the prior they are the prior of this portion, and what is
        learned of all plates stays.
    learns : bool, default=True
        Whether the priors of plates are learned.
    """

    def __init__(self, prior_factors: BlockFactors | None = None, learns: bool = True) -> None:
        self.prior_factors, self.learns = prior_factors, learns and prior_factors is None

    def begin(self, problem: Problem, state: State) -> State:
        """The state with the pass's own record, and the weight of each plate's data at hand."""
        progress = state.progress if isinstance(state.progress, AlternatingState) else AlternatingState()
        sides, entries = sided(problem).alternating.sides, entries_of(problem)
        memory = {side: replace(state.memory[side], seen=entries[side].totals) for side in sides}
        return replace(state, progress=progress, memory={**state.memory, **memory})

    def once(self, problem: Problem, state: State, tol: float) -> tuple[State, StepInfo | None]:
        """One pass over both sides; None in the place of its report where nothing worth `tol` was left."""
        tempered = self._tempered_problem(problem, state)
        if tempered is not None:
            return self._tempered_pass(problem, tempered, state)
        model, judged, progress = sided(problem), problem.deterministic, alternating_state(state)
        learned_from = model.alternating.before_priors
        if progress.small_changes >= 2 if judged else has_settled(progress.checks, tol, problem.size):
            return state, None
        state, repairs = replace(state, memory=dict(state.memory), q=dict(state.q)), 0
        if state.steps >= model.alternating.before_hyper:
            state, repairs = with_hyper(problem, state)
        state, half, halvings = self._both(problem, state)
        if state.passes + 1 >= learned_from and self.learns:
            state = replace(state, q=model.learned(state.q, problem.algorithm.spec.natural or judged))
        value = half.after if judged else half.before
        now = (
            bound(problem, state, value)
            if self.prior_factors is None
            else value - portion_divergence(problem, state.q, self.prior_factors)
        )
        check_finite(now, {}, state)
        small = judged and progress.bound is not None and abs(now - progress.bound) < tol * problem.size(now)
        state = replace(
            state,
            steps=state.steps + 1,
            passes=state.passes + 1,
            repairs=state.repairs + repairs + halvings,
            progress=replace(
                progress,
                gradient=half.gradient,
                value=half.after,
                bound=now if judged else None,
                small_changes=progress.small_changes + 1 if small and state.passes >= learned_from else 0,
            ),
        )
        if not judged and not problem.stream and self.prior_factors is None and check_due(len(state.bounds) + 1):
            progress = alternating_state(state)
            checks = [*progress.checks, exact_bound(problem, state)]
            state = replace(state, progress=replace(progress, checks=checks))
        return state, StepInfo(now, judged, half.rate, repairs + halvings)

    def _both(self, problem: Problem, state: State) -> tuple[State, Half, int]:
        """Either side moved once, in place: the state, its last half, and how many steps were halved."""
        half, repairs = None, 0
        for segment in sided(problem).sweep(problem.data, problem.batch_size, state.seed, state.passes):
            (side,) = segment.blocks or ("",)
            # The state is the pass's own: its plates are written in place, as large as they are.
            half = half_sweep(problem, state, side, self.prior_factors, in_place=True)
            state.q[side], state.memory[side] = half.block, half.memory
            repairs += half.repairs
        assert half is not None
        return state, half, repairs

    def _tempered_problem(self, problem: Problem, state: State) -> Problem | None:
        """The problem with a tempered model, for the first passes of a new fit; None: the model is the fit's own."""
        if not problem.deterministic or problem.stream or self.prior_factors is not None:
            return None
        model = sided(problem).tempered(state.steps)
        return None if model is None else replace(problem, model=model)

    def _tempered_pass(self, problem: Problem, tempered: Problem, state: State) -> tuple[State, StepInfo]:
        """One pass under the tempered model, reported with the bound of the fit's own model."""
        state, half, repairs = self._both(tempered, replace(state, memory=dict(state.memory), q=dict(state.q)))
        if state.passes + 1 >= sided(problem).alternating.before_priors and self.learns:
            state = replace(state, q=sided(problem).learned(state.q, problem.algorithm.spec.natural))
        state = replace(state, steps=state.steps + 1, passes=state.passes + 1, repairs=state.repairs + repairs)
        return state, StepInfo(exact_bound(problem, state), True, half.rate, repairs)

    def end(self, problem: Problem, state: State) -> State:
        """The state with q and its bound: of the last pass, or of one exact evaluation."""
        progress = alternating_state(state)
        gradient, total = progress.gradient, progress.bound
        if total is None:
            exact = replace(problem, expect=problem.exact)
            gradient, value = evaluate(exact, state, whole(problem), gradient_wanted=bool(problem.model.hyper))
            total = bound(problem, state, value)
            check_finite(total, gradient, state)
        q = engine.remembering(problem, state.q, gradient)
        return replace(state, q=q, progress=replace(progress, bound=None, small_changes=0), bound=total, finished=True)


def with_hyper(problem: Problem, state: State) -> tuple[State, int]:
    """The state with hyperparameters after the last pass's step, halved while that lowers the bound."""
    progress, repairs = alternating_state(state), 0
    rate = problem.algorithm.rate(state.steps, problem.deterministic)
    least = progress.value - ROUNDING * (abs(progress.value) + 1) if problem.deterministic else -np.inf
    for name, gradient in progress.gradient.items():
        if problem.rule(name, state.q) is not FIXED:
            repairs += move_hyperparameter(problem, state, name, gradient, rate, least)
    return replace(state, progress=replace(progress, gradient={}, value=-np.inf)), repairs


def move_hyperparameter(problem: Problem, state: State, name: str, gradient: Any, rate: float, least: float) -> int:
    """Step one hyperparameter in the state's q, halved while the data's value is below `least`; how often it was."""
    before, rule = state.q[name], problem.rule(name, state.q)

    def attempt(share: float) -> Any:
        size = StepSize(rate, share, problem.weight)
        state.q[name] = rule.step(name, {**state.q, name: before}, None, gradient, None, size).block
        return state.q[name]

    is_small = np.max(np.abs(attempt(1.0).value - before.value)) <= sided(problem).alternating.longest_hyper
    found = backtrack(attempt, lambda block: is_small or data_value(problem, state) >= least)
    if found is None:
        state.q[name] = before
        return MAX_HALVINGS
    return found.halvings


def data_value(problem: Problem, state: State) -> float:
    """The data's part of the bound at the state's q, without noise."""
    return evaluate(replace(problem, expect=problem.exact), state, whole(problem), gradient_wanted=False)[1]


def half_sweep(
    problem: Problem, state: State, side: str, prior_factors: BlockFactors | None = None, in_place: bool = False
) -> Half:
    """One step of every plate of a side that has entries; `in_place` writes to the state's own plates."""
    model = sided(problem)
    entries = entries_of(problem)[side]
    number = model.alternating.sides.index(side)
    view = model.side_view(state.q, side, problem.expect, parallel.stream(state.seed, 2 * state.steps + number, 0))
    counts = entries.counts
    chosen = None if np.all(counts > 0) else np.flatnonzero(counts)
    stepper = Stepper(problem, state, side, view, prior_factors, in_place)

    def one(item: tuple[int, Any]) -> tuple[float, float, Gradient, int]:
        chunk, plates = item
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # as in `engine.BatchGradient`
                return stepper.step(plates, parallel.stream(state.seed, 2 * state.steps + number, chunk + 1))
        except NotPositiveDefinite as error:
            error.block = side
            raise impossible(problem, state, error) from error

    items = list(enumerate(view.chunks(entries, chosen)))
    before, after, gradient, repairs = parallel.summed(one, items, problem.threads)
    return Half(stepper.block, before, after, gradient, repairs, stepper.largest_rate, stepper.memory)


def portion_divergence(problem: Problem, q: Blocks, prior_factors: BlockFactors) -> float:
    """Σ KL of the portion's plates from prior times earlier messages, and the penalties of points, nats."""
    total = sum(block.penalty() for block in q.values())
    for side, prior in problem.model.prior(q).items():
        touched = np.flatnonzero(entries_of(problem)[side].counts)
        own = q[side][touched]
        total += own.kl(prior.of_plates(touched, q[side]).times(prior_factors.by_block[side].of(touched)))
    return float(total)


# ---- streams
def absorb(problem: Problem, state: State, tol: float, fade: float = 1.0) -> tuple[State, StepInfo]:
    """One portion of ratings: columns iterated on it and absorbed, or one step of each by its own clock.

    Of the earlier messages about every plate a share `fade` is left.
    """
    state, problem = engine.faded(state, fade), replace(problem, least_rate=1.0 - fade)
    memory = dict(state.memory)
    for side, entries in entries_of(problem).items():
        memory[side] = replace(memory[side], seen=memory[side].seen + entries.totals)
    progress = state.progress if isinstance(state.progress, AlternatingState) else AlternatingState()
    state = replace(state, memory=memory, progress=replace(progress, bound=None))
    if problem.algorithm.spec.messages:
        return absorb_columns(problem, state, tol, fade)
    state, info = Alternating().once(problem, state, 0.0)
    assert info is not None
    return replace(state, bound=info.bound, passes=state.passes - 1), info


def absorb_columns(problem: Problem, state: State, tol: float, fade: float) -> tuple[State, StepInfo]:
    """One portion whose columns are iterated, with earlier messages as its prior; its own are then added to those."""
    learns = state.counted >= ENOUGH * parameters(problem, state.q)
    first, previous_bound, run = state.steps == 0, 0.0, Alternating(None, learns)
    # A portion is iterated without sampling noise: its messages stay.
    problem = replace(problem, stream=False, total=None, expect=problem.exact)
    if not first:
        previous_bound = state.bound
        prior_factors = (
            state.messages
            if isinstance(state.messages, BlockFactors)
            else BlockFactors.between(state.q, problem.model.prior(state.q))
        ).faded(fade)
        run, problem = Alternating(prior_factors), replace(problem, previous_bound=abs(previous_bound))
        state = replace(state, q=with_current_priors(problem, state.q, prior_factors))
    repairs = state.repairs
    seen_weights = {side: state.memory[side].seen for side in sided(problem).alternating.sides}
    inner = replace(state, bounds=[], progress=replace(alternating_state(state), checks=[], small_changes=0))
    inner, done = iterate(problem, inner, run, inner.passes + PORTION_PASSES, tol, with_bound)
    q = engine.remembering(problem, inner.q, alternating_state(inner).gradient)
    prior = problem.model.prior(q)
    now = BlockFactors.between(q, prior) if first else updated(problem, q, prior, run.prior_factors)
    if not first and learns:
        q = sided(problem).learned(q, False)
    memory = {
        **inner.memory,
        **{side: replace(inner.memory[side], seen=weight) for side, weight in seen_weights.items()},
    }
    total = previous_bound + inner.bounds[-1]
    state = replace(
        inner, q=q, memory=memory, messages=now, bounds=state.bounds, passes=state.passes, bound=total,
        converged=done, progress=AlternatingState(checks=alternating_state(state).checks),
    )  # fmt: skip
    return state, StepInfo(total, True, 1.0, inner.repairs - repairs)


def parameters(problem: Problem, q: Blocks) -> int:
    """Count of the numbers in the plates' means."""
    return sum(int(np.size(q[side].mean)) for side in sided(problem).alternating.sides)


def updated(problem: Problem, q: Blocks, prior: Blocks, prior_factors: BlockFactors | None) -> BlockFactors:
    """The messages about every plate, computed anew for the plates that this portion has entries of."""
    assert prior_factors is not None
    out = {}
    for side, its in prior.items():
        touched = np.flatnonzero(entries_of(problem)[side].counts)
        out[side] = prior_factors.by_block[side].copy()
        out[side].put(touched, q[side][touched].over(its.of_plates(touched, q[side])))
    return BlockFactors(out)


def with_current_priors(problem: Problem, q: Blocks, prior_factors: BlockFactors) -> Blocks:
    """q with the portion's plates recomputed as current prior times earlier messages."""
    q = dict(q)
    for side, prior in problem.model.prior(q).items():
        touched = np.flatnonzero(entries_of(problem)[side].counts)
        if len(touched):
            block = q[side].copy()
            block.put(
                touched,
                block.from_step(prior.of_plates(touched, block).times(prior_factors.by_block[side].of(touched))),
            )
            q[side] = block
    return q
