"""Streams: one portion of data at a time, for ``partial_fit``."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from sksvi import _parallel
from sksvi.inference import hyper
from sksvi.inference.memory.locals import NO_LOCALS
from sksvi.inference.memory.said import NOTHING_SAID, Said
from sksvi.inference.passes import by_side
from sksvi.inference.passes.noisy import Noisy, noisy_step
from sksvi.inference.plan import changed, pass_of, remembers
from sksvi.inference.priors import prior_of
from sksvi.inference.problem import Problem
from sksvi.inference.progress import START
from sksvi.inference.search import improved
from sksvi.inference.state import State, StepInfo, recorded
from sksvi.inference.stopping import PORTION_PASSES
from sksvi.models.base import Linear, Segment, Sided


def absorb(problem: Problem, state: State, tol: float) -> State:
    """One portion of a stream: messages iterated and absorbed, or one step per batch."""
    started = perf_counter()
    state = replace(state, bounds=list(state.bounds), history=list(state.history), locals=NO_LOCALS)
    if isinstance(problem.model, Sided):
        state, info = by_side.absorb(replace(problem, stream=True), state, tol)
    elif remembers(problem):
        state, info = absorb_messages(changed(problem, batch_size=None, total=None), state, tol)
    else:
        state, info = absorb_steps(problem, state)
    state = replace(state, passes=state.passes + 1, rows=state.rows + problem.data.total_weight, finished=True)
    return recorded(state, info, perf_counter() - started)


def absorb_messages(problem: Problem, state: State, tol: float) -> tuple[State, StepInfo]:
    """The posterior so far is the prior of the portion; what it said then joins a sum kept apart from the prior."""
    model, first, past = problem.model, state.steps == 0, 0.0
    assert isinstance(model, Linear)
    if not first:
        past = state.bound
        said = state.messages if isinstance(state.messages, Said) else Said.between(state.q, model.prior(state.q))
        so_far = prior_of(problem, replace(state, messages=said), state.q)
        frozen = problem.frozen | {name for name, rule in model.hyper.items() if not rule.streams}
        problem = replace(problem, frozen=frozen, past=abs(past), so_far=so_far)
    inner = settled_on(problem, replace(state, bounds=[], progress=START, messages=NOTHING_SAID), tol, first)
    closed = pass_of(problem).end(problem, inner)
    said = Said.between(closed.q, model.prior(closed.q))
    alone = replace(problem, frozen=frozenset(), so_far={})
    q = hyper.settled(alone, closed.q, said.by_block[model.main], PORTION_PASSES)
    total = past + closed.bound
    done = replace(closed, q=q, messages=said, bounds=state.bounds, passes=state.passes, bound=total)
    return done, StepInfo(total, problem.deterministic, 1.0, inner.repairs - state.repairs)


def settled_on(problem: Problem, state: State, tol: float, first: bool) -> State:
    """Passes over one portion until nothing is left to gain; the first one of a stream may search."""
    run = pass_of(problem)
    state = run.begin(problem, state)
    for _ in range(PORTION_PASSES):
        state, info = run.once(problem, state, tol)
        if info is not None:
            state.bounds.append(info.bound)
            continue
        state, moved = improved(problem, state, lambda bound: False, tol) if first else (state, False)
        if not moved:
            return replace(state, converged=True)
    return state


def absorb_steps(problem: Problem, state: State) -> tuple[State, StepInfo]:
    """One step per batch of the portion, in order, blown up to the population."""
    n, run = len(problem.data), Noisy()
    bounds, rate, before = [], 0.0, state.repairs
    # A portion is a sample, however exact its integrals are: its steps go at the rates of noisy ones.
    problem = replace(problem, stream=True)
    state = run.begin(problem, state)
    for part in _parallel.slices(n, problem.batch_size or n):
        weight = problem.data.take(part).total_weight
        if weight > 0:
            segment = Segment(np.arange(part.start, part.stop), problem.data.total_weight / weight)
            state, bound, rate = noisy_step(replace(problem, batch_size=None), state, segment)
            bounds.append(bound)
    portion = float(np.mean(bounds))
    seen = len(state.bounds)
    state = replace(state, bound=portion if not seen else (state.bound * seen + portion) / (seen + 1))
    return state, StepInfo(state.bound, False, rate, state.repairs - before)
