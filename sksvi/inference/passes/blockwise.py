"""Passes of several steps, each judged by itself: segment by segment of the blocks, or plate by plate of a side.

Of segments in full batches, without sampling noise: each moves its blocks; a step that lowers the bound, leaves a
family's domain or leads to where the bound is no finite number is taken back and halved; what is left of a segment's
rate grows again. So the bound never falls, whatever the start and the rate.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from sksvi.algorithms.line_search import MAX_HALVINGS, backtrack, backtrack_plates
from sksvi.algorithms.rules import StepSize
from sksvi.algorithms.steps import by_plate
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference.engine import step
from sksvi.inference.messages import BlockFactors
from sksvi.inference.passes.line_search import DAMPING_GROWTH, SHORTEST, LineSearch, evaluated
from sksvi.inference.problem import Problem
from sksvi.inference.records import ROUNDING, BlockwiseState, Evaluation, check_due, replace
from sksvi.inference.state import NonFinite, PlateMemory, State, StepInfo, chosen, put
from sksvi.models.base import Bipartite, Gradient, Segment
from sksvi.models.data import TwoSided


# ---- segments
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
        small = (here.bound - before.bound) / (max(shortest, SHORTEST) * problem.size(here.bound)) < tol
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


# ---- plates of one side, chunk of columns by chunk
Array = np.ndarray


def sided(problem: Problem) -> Bipartite:
    """The problem's model, which has two sides."""
    assert isinstance(problem.model, Bipartite)
    return problem.model


def entries_of(problem: Problem) -> dict[str, Any]:
    """The problem's entries by side."""
    return cast(TwoSided, problem.data).sides


class Stepper:
    """One side's plates on their way through half a pass; `block` and `memory` are theirs after it."""

    def __init__(
        self, problem: Problem, state: State, side: str, view: Any, prior_factors: BlockFactors | None, in_place: bool
    ) -> None:
        self.problem, self.side, self.view = problem, side, view
        self.rule = problem.rule(side, state.q)
        self.old = state.q[side]
        self.old.prepare()
        self.block = self.old if in_place else self.old.copy()
        self.prior = problem.model.prior(state.q)[side]
        self.message = None if prior_factors is None else prior_factors.by_block[side]
        self.entries = entries_of(problem)[side]
        fresh = PlateMemory.empty(self.old.n_plates)
        self.memory = state.memory[side].copy() if side in state.memory else fresh
        self.clock = state.memory[side].clock if side in state.memory else fresh.clock
        self.seen = self.memory.seen if problem.stream else self.entries.totals
        # A stream stands for `total_samples`, where given, instead of for what was seen of it.
        self.population = problem.total / self.seen.sum() if problem.stream and problem.total else 1.0
        # AdaGrad's sums are of gradients per datum of the population, whatever came today.
        self.weight = self.seen.sum() * self.population / max(self.old.n_plates, 1)
        self.largest_rate = self._rate(self.clock).max(initial=0.0)
        spec = problem.algorithm.spec
        self.by_gradient = problem.deterministic and not (spec.natural or spec.literal)
        if self.by_gradient and check_due(state.steps):
            # Before the priors are learned slopes are of any size, and correlations those of draws.
            self.memory.rule = self.rule.start(self.old.for_step(), self.weight)[1]

    def _rate(self, clock: Array) -> Array:
        """Rate of each plate, by how often it has moved."""
        times, which = np.unique(clock, return_inverse=True)
        rates = [self.problem.algorithm.rate(int(t), self.problem.deterministic) for t in times]
        return np.maximum(np.asarray(rates, float), self.problem.least_rate)[which]

    def _prior(self, plates: Any) -> Any:
        """Prior of some plates, what earlier portions said about them included."""
        prior = self.prior.of_plates(plates, self.old)
        return prior if self.message is None else prior.times(self.message.of(plates))

    def _scale(self, plates: Any, entries: Any) -> Array:
        """Weight of a column in the population over that of the entries it is seen through."""
        weight, whole = entries.totals, self.seen[plates] * self.population
        return np.divide(whole, weight, out=np.zeros_like(whole), where=weight > 0)

    def step(self, plates: Any, rng: np.random.Generator) -> tuple[float, float, Gradient, int]:
        """Move these plates; the data's part of the bound before and after, hyperparameters' gradient, halvings."""
        problem, own = self.problem, self.old[plates]
        entries = self.entries.of(plates)
        if problem.batch_size is not None and not problem.full_batch:
            entries = entries.drawn(problem.batch_size, rng)
        columns = self.view.plates(entries, problem.expect, rng)
        before, gradient = columns.terms(own)
        scale = self._scale(plates, entries)
        gradient = tuple(by_plate(scale, part) * part for part in gradient)
        prior, natural = self._prior(plates), problem.algorithm.spec.natural
        new, memory = self._stepped(plates, own, prior, gradient, columns, scale)
        after, repairs = np.zeros(len(before)), 0
        if problem.deterministic:
            after = columns.value(new)
            if self.by_gradient or (natural and columns.judged):
                new, after, repairs = self._judged(plates, own, new, prior, gradient, before, after)
            elif natural:
                new, after, repairs = columns.mended(own, new, prior, after)
        self.block.put(plates, new)
        put(self.memory.rule, plates, memory)
        self.memory.clock[plates] += 1
        last = self.side == sided(problem).alternating.sides[-1]
        hyper = columns.hyper(new) if last and not problem.frozen else {}
        return float(before @ scale), float(after @ scale), hyper, repairs

    def _stepped(self, plates: Any, own: Any, prior: Any, gradient: Any, columns: Any, scale: Array) -> tuple[Any, Any]:
        """The plates' blocks after the step of their rule, and what it remembers."""
        rate, side = self._rate(self.clock[plates]), self.side
        if self.problem.algorithm.spec.natural and np.all(rate == 1.0):
            whole = StepSize(1.0, 1.0, self.weight)
            try:  # a step of rate 1 does not look at the covariance that it replaces
                step = self.rule.step(side, {side: own.for_full_step()}, prior, gradient, None, whole)
            except NotPositiveDefinite:
                step = self.rule.step(side, {side: own.for_step()}, prior, gradient, None, whole)
            return columns.refined(own, own.from_step(step.block), prior), None
        memory = chosen(self.memory.rule, plates)
        here = self.rule.start(own.for_step(), self.weight)[0]
        if self.problem.stream:
            has_moved = (self.clock[plates] > 0) & (scale > 0)
            share = np.divide(1.0, scale, out=np.full(len(scale), np.inf), where=has_moved)
            memory = self.rule.cautious(here, memory, share, self.weight)
        block, memory, _ = self.rule.step(side, {side: here}, prior, gradient, memory, StepSize(rate, 1.0, self.weight))
        return own.from_step(block), memory

    def _judged(
        self, plates: Any, own: Any, new: Any, prior: Any, gradient: Any, before: Array, after: Array
    ) -> tuple[Any, Array, int]:
        """Steps that lowered their plate's part of the bound are halved until they do not."""
        new, after = new.copy(), after.copy()
        start = before - own.kl_by_plate(prior)
        slack = ROUNDING * (np.abs(start) + 1)
        rate, rows = self._rate(self.clock[plates]), np.arange(self.old.n_plates)[plates]

        def attempt(which: Array, share: float) -> Array:
            if share == 0.0:
                new.put(which, own[which])
                after[which] = before[which]
                return np.ones(len(which), bool)
            some, part = prior.of_plates(which, own), tuple(g[which] for g in gradient)
            size = StepSize(rate[which], share, self.weight)
            here = self.rule.start(own[which].for_step(), self.weight)[0]
            memory = chosen(self.memory.rule, rows[which])
            step = self.rule.step(self.side, {self.side: here}, some, part, memory, size)
            trial, entries = own.from_step(step.block), self.entries.of(rows[which])
            value = self.view.plates(entries, self.problem.expect, None).value(trial)
            good = value - trial.kl_by_plate(some) >= (start - slack)[which]
            new.put(which[good], trial[good])
            after[which[good]] = value[good]
            return np.asarray(good)

        repairs = backtrack_plates(~(after - new.kl_by_plate(prior) >= start - slack), attempt)
        return new, after, repairs
