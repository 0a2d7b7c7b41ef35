"""Passes of models whose segments name one side of plates: users given items, then items given users.

Plates of one side are independent given the other, so a block of columns is evaluated, stepped and judged on its own,
in any thread. A step of a plate that lowers its own part of the bound is halved. Every plate has its own clock: its
rate is that of a plate seen so often, whenever the others came.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sksvi import _parallel
from sksvi.algorithms.steps import MAX_HALVINGS, by_plate
from sksvi.families import GaussianPlates
from sksvi.families.gaussian.dense import NotPositiveDefinite
from sksvi.inference.engine import check_finite, data_value, exact_bound
from sksvi.inference.memory import of_plates
from sksvi.inference.memory.messages import all_messages, chunk_divergence, rejoined, updated_messages
from sksvi.inference.state import Evaluation, Problem, State, StepInfo, divergence, remembered_points
from sksvi.inference.stopping import check_due, settled

Array = np.ndarray

#: Relative fall of a column's bound that rounding explains.
ROUNDING = 1e-10
#: Largest Newton step of the likelihood's parameters (logarithms, and shares of its width) that is taken unseen: over
#: it the curvature changes by a tenth or so, and the step goes up.
TRUSTED_STEP = 0.1
#: Most passes over one chunk of a stream.
CHUNK_PASSES = 50


@dataclass
class Move:
    """What half a pass did: q of the side, the bound's data part before and after, and sums for the likelihood."""

    block: GaussianPlates
    before: float
    after: float
    points: Any
    repairs: int
    rate: float
    memory: dict[str, Any]


def round_pass(problem: Problem, state: State, tol: float) -> tuple[State, StepInfo, bool]:
    """Both sides once, then what is learned of all plates."""
    judged = problem.deterministic
    if state.small_changes >= 2 if judged else settled(state.checks, tol):
        return state, StepInfo(state.bounds[-1], judged, 0.0, 0), True
    model, here = problem.model, state.previous
    state, moves = replace(state, memory=dict(state.memory), q=dict(state.q)), []
    repairs = move_likelihood(problem, state)
    for segment in model.sweep(problem.data, problem.batch_size, state.seed, state.passes):
        (side,) = segment.blocks or ("",)
        # The state is the pass's own: its plates are written in place, as large as they are.
        move = moved(problem, state, side, in_place=True)
        state.q[side] = move.block
        state.memory.update(move.memory)
        moves.append(move)
    points = moves[-1].points
    if state.passes + 1 >= model.first_passes and not problem.frozen:
        # AdaGrad's sums belong to the coordinates that they were found in.
        state.q = model.learned_priors(model.expanded(state.q) if problem.algorithm.natural else state.q)
    paid = divergence(problem, state, state.q) if problem.so_far is None else chunk_divergence(problem, state)
    bound = (moves[-1].after if judged else moves[-1].before) - paid
    check_finite(bound, {}, state)
    gradient = {} if points is None else {"likelihood": points}
    size = abs(bound) + problem.past + 1
    small = judged and here is not None and abs(bound - here.bound) < tol * size
    repairs += sum(move.repairs for move in moves)
    state = replace(
        state,
        steps=state.steps + 1,
        passes=state.passes + 1,
        repairs=state.repairs + repairs,
        small_changes=state.small_changes + 1 if small and state.passes >= model.first_passes else 0,
        # Blocks of the last pass are not kept: they are as large as q.
        previous=Evaluation({}, gradient, bound) if judged else None,
    )
    state.memory["likelihood"] = points, moves[-1].after
    if not judged and problem.so_far is None and check_due(len(state.bounds) + 1):
        state = replace(state, checks=[*state.checks, exact_bound(problem, state)])
    return state, StepInfo(bound, judged, moves[-1].rate, repairs), False


def move_likelihood(problem: Problem, state: State) -> int:
    """The likelihood's parameters take the step that the last pass found; half of it where that lowers the bound."""
    points, value = state.memory.pop("likelihood", (None, -np.inf))
    if points is None or "likelihood" in problem.frozen:
        return 0
    before = state.q["likelihood"]
    step = problem.model.point_steps(state.q, {"likelihood": points})["likelihood"][0]
    rate = problem.algorithm.rate(state.steps, problem.deterministic)
    least = value - ROUNDING * (abs(value) + 1) if problem.deterministic else -np.inf
    size = rate * np.max(np.abs(step)) / min(1.0, problem.model.likelihood.width)
    for halvings in range(MAX_HALVINGS):
        state.q["likelihood"] = before.moved(step, rate / 2**halvings)
        if size <= TRUSTED_STEP or data_value(problem, state) >= least:
            return halvings
    state.q["likelihood"] = before
    return MAX_HALVINGS


def moved(problem: Problem, state: State, side: str, in_place: bool = False) -> Move:
    """One step of every plate of a side that has entries; `in_place` writes to the state's own plates."""
    model, q = problem.model, state.q
    entries = problem.data.sides[side]
    number = model.sides.index(side)
    view = model.seen_from(q, side, problem.expect, _parallel.stream(state.seed, 2 * state.steps + number, 0))
    counts = entries.counts
    chosen = None if np.all(counts > 0) else np.flatnonzero(counts)
    stepper = Stepper(problem, state, side, view, in_place)

    def one(item: tuple[int, Any]) -> tuple[float, float, Any, int]:
        block, plates = item
        return stepper.step(plates, _parallel.stream(state.seed, 2 * state.steps + number, block + 1))

    results = list(_parallel.in_order(one, list(enumerate(model.column_blocks(entries, chosen))), problem.threads))
    before, after, points, repairs = _parallel.tree_sum(iter(results))
    return Move(stepper.block, before, after, points or None, repairs, stepper.largest_rate, stepper.memory())


class Stepper:
    """The steps of one side's plates, block of columns by block."""

    def __init__(self, problem: Problem, state: State, side: str, view: Any, in_place: bool) -> None:
        self.problem, self.side, self.view = problem, side, view
        self.old = state.q[side]
        self.old.prepare()
        self.block = self.old if in_place else self.old.copy()
        self.prior = problem.model.prior(state.q)[side]
        self.entries = problem.data.sides[side]
        self.messages = None if problem.so_far is None else problem.so_far[side]
        self.clock = state.memory.get(f"{side}_clock", np.zeros(len(self.old), np.int64)).copy()
        self.seen = state.memory[f"{side}_seen"] if problem.stream else self.entries.totals
        # A stream stands for `total_samples`, where given, instead of for what was seen of it.
        self.population = problem.total / self.seen.sum() if problem.stream and problem.total else 1.0
        # AdaGrad's sums are of gradients per datum of the population, whatever came today.
        self.n = self.seen.sum() * self.population / max(len(self.old), 1)
        memory = state.memory.get(side)
        self.adagrad = None if memory is None else copy.deepcopy(memory)
        self.largest_rate = self._rate(self.clock).max(initial=0.0)

    def _rate(self, clock: Array) -> Array:
        """Rate of each plate, by how often it has moved."""
        times, which = np.unique(clock, return_inverse=True)
        rates = [self.problem.algorithm.rate(int(t), self.problem.deterministic) for t in times]
        return np.asarray(rates, float)[which]

    def _prior(self, plates: Any) -> Any:
        """Prior of some plates, what earlier chunks said about them included."""
        prior = self.prior.of_plates(plates, self.old)
        return prior if self.messages is None else prior.times(self.messages.of(plates))

    def _scale(self, plates: Any, entries: Any) -> Array:
        """Weight of a column in the population over that of the entries it is seen through."""
        weight, whole = entries.totals, self.seen[plates] * self.population
        return np.divide(whole, weight, out=np.zeros_like(whole), where=weight > 0)

    def step(self, plates: Any, rng: np.random.Generator) -> tuple[float, float, Any, int]:
        """Move these plates; the data's part of the bound before and after, sums for the likelihood, halvings."""
        problem, own = self.problem, self.old[plates]
        entries = self.entries.of(plates)
        if problem.batch_size is not None:
            entries = entries.drawn(problem.batch_size, rng)
        columns = problem.model.columns(self.view, entries, problem.expect, rng)
        before, gradient = columns.terms(own)
        scale = self._scale(plates, entries)
        gradient = by_plate(scale, gradient[0]) * gradient[0], by_plate(scale, gradient[1]) * gradient[1]
        prior = self._prior(plates)
        new = self._stepped(plates, own, prior, gradient, columns, scale)
        after, repairs = np.zeros(len(before)), 0
        if problem.deterministic:
            after = columns.value(new)
            if columns.consistent and not columns.solved and problem.algorithm.natural:
                new, after, repairs = self._judged(plates, (own, new), prior, gradient, (before, after))
            elif not columns.consistent and problem.algorithm.natural:
                new, after, repairs = judged_means(columns, own, new, prior, after)
        self.block.put(plates, new)
        self.clock[plates] += 1
        learned = "likelihood" not in problem.frozen and problem.model.likelihood.learned
        points = columns.points(new) if learned and self.side == problem.model.sides[-1] else ()
        return float(before @ scale), float(after @ scale), points, repairs

    def _stepped(
        self, plates: Any, own: GaussianPlates, prior: Any, gradient: Any, columns: Any, scale: Array
    ) -> GaussianPlates:
        """The algorithm's step."""
        algorithm, rate = self.problem.algorithm, self._rate(self.clock[plates])
        if algorithm.natural and np.all(rate == 1.0):
            try:
                new = GaussianPlates.of(algorithm.step(own.bare(), prior, gradient, 1.0, 1.0, None, self.n)[0])
            except NotPositiveDefinite:
                new = GaussianPlates.of(algorithm.step(own.precise(), prior, gradient, 1.0, 1.0, None, self.n)[0])
            return new if own.full or not columns.consistent else columns.best_means(own, new, prior)
        memory = None if self.adagrad is None else of_plates.chosen(self.adagrad, plates)
        here = own.precise() if memory is None else algorithm.start(own.precise(), self.n)[0]
        if memory is not None and self.problem.stream:
            known = (self.clock[plates] > 0) & (scale > 0)
            share = np.divide(1.0, scale, out=np.full(len(scale), np.inf), where=known)
            memory = algorithm.cautious(here, memory, share, self.n)
        new, memory = algorithm.step(here, prior, gradient, rate, 1.0, memory, self.n)
        if memory is not None:
            of_plates.put(self.adagrad, plates, memory)
        return GaussianPlates.of(new)

    def _judged(
        self, plates: Any, q: tuple[GaussianPlates, GaussianPlates], prior: Any, gradient: Any, values: tuple
    ) -> tuple[GaussianPlates, Array, int]:
        """Steps that lowered their plate's part of the bound are halved until they do not."""
        own, new = q
        before, after = values
        new, after = new.copy(), after.copy()
        start = before - own.kl_by_plate(prior)
        slack = ROUNDING * (np.abs(start) + 1)
        index = np.arange(len(before))[np.s_[:]]
        rows = np.arange(len(self.old))[plates]
        left, repairs = index[~(after - new.kl_by_plate(prior) >= start - slack)], 0
        for halving in range(1, MAX_HALVINGS + 1):
            if not len(left):
                break
            repairs += len(left)
            some = prior.of_plates(left, own)
            part = gradient[0][left], gradient[1][left]
            step = self.problem.algorithm.step(own[left].precise(), some, part, 1.0, 0.5**halving, None, self.n)[0]
            trial = GaussianPlates.of(step)
            columns = self.problem.model.columns(self.view, self.entries.of(rows[left]), self.problem.expect, None)
            value = columns.value(trial)
            good = value - trial.kl_by_plate(some) >= (start - slack)[left]
            if halving == MAX_HALVINGS:
                trial, value = own[left], before[left]
            done = left[good] if halving < MAX_HALVINGS else left
            keep = good if halving < MAX_HALVINGS else np.ones(len(left), bool)
            new.put(done, trial[keep])
            after[done] = value[keep]
            left = left[~keep]
        return new, after, repairs

    def memory(self) -> dict[str, Any]:
        """Clocks and AdaGrad's sums after the steps."""
        kept: dict[str, Any] = {f"{self.side}_clock": self.clock}
        if not self.problem.stream and self.messages is None:
            # Chunks to come add to what the plates have seen here.
            kept[f"{self.side}_seen"] = self.seen
        if self.adagrad is not None:
            kept[self.side] = self.adagrad
        return kept


def judged_means(
    columns: Any, own: GaussianPlates, new: GaussianPlates, prior: Any, after: Array
) -> tuple[GaussianPlates, Array, int]:
    """Means that lowered the bound at the new covariance go half of the way back until they do not.

    For a curvature that is not the bound's own: its gradient in the mean is.
    """
    repairs, mean = 0, new.mean

    def part(at: Array) -> tuple[Array, Array]:
        block = GaussianPlates(at, new.values, new.log_det, new.full)
        value = columns.value(block)
        return value, value - block.kl_by_plate(prior)

    _, start = part(own.mean)
    now = after - new.kl_by_plate(prior)
    for halving in range(1, MAX_HALVINGS + 1):
        fell = ~(now >= start - ROUNDING * (np.abs(start) + 1))
        if not np.any(fell):
            break
        repairs += int(fell.sum())
        share = 0.5**halving if halving < MAX_HALVINGS else 0.0
        mean = np.where(fell[:, None], own.mean + share * (new.mean - own.mean), mean)
        after, now = part(mean)
    return GaussianPlates(mean, new.values, new.log_det, new.full), after, repairs


def absorb(problem: Problem, state: State, tol: float) -> tuple[State, StepInfo]:
    """One chunk of ratings: columns iterated on it and absorbed, or one step of each by its own clock."""
    memory = dict(state.memory)
    for side, entries in problem.data.sides.items():
        memory[f"{side}_seen"] = memory.get(f"{side}_seen", 0.0) + entries.totals
    state = replace(state, memory=memory)
    if problem.remembers_plates:
        return absorb_columns(problem, state, tol)
    state, info, _ = round_pass(problem, replace(state, previous=None), tol)
    return replace(state, bound=info.bound, previous=None, passes=state.passes - 1), info


def absorb_columns(problem: Problem, state: State, tol: float) -> tuple[State, StepInfo]:
    """What earlier chunks said about a plate is its prior; what this one says then joins it."""
    model, first = problem.model, state.steps == 0
    # A chunk is iterated without sampling noise: its messages stay.
    problem = replace(problem, stream=False, total=None, expect=problem.exact)
    if not first:
        said = state.absorbed or all_messages(model, state.q)
        problem = replace(problem, so_far=said, frozen=frozenset({"priors"}), past=abs(state.bound))
        state = replace(state, q=rejoined(problem, state.q))
    inner = replace(state, bounds=[], checks=[], small_changes=0, previous=None)
    for _ in range(CHUNK_PASSES):
        inner, info, stop = round_pass(problem, inner, tol)
        if stop:
            break
        inner.bounds.append(info.bound)
    points, _ = inner.memory["likelihood"]
    q = remembered_points(inner.q, {} if points is None else {"likelihood": points})
    messages = all_messages(model, q) if first else updated_messages(problem, q)
    if not first:
        q = model.learned_priors(q)
    memory = {name: value for name, value in inner.memory.items() if name != "likelihood"}
    bound = info.bound + (0.0 if first else state.bound)
    done = replace(
        inner, q=q, memory=memory, absorbed=messages, bounds=state.bounds, checks=state.checks, passes=state.passes,
        bound=bound, converged=stop, previous=None, small_changes=0,
    )  # fmt: skip
    return done, replace(info, bound=bound)
