"""Streams: one chunk of data at a time, for ``partial_fit``."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from sksvi import _parallel
from sksvi.inference.engine import close, full_pass, record, stochastic_pass, stochastic_step
from sksvi.inference.state import Problem, State, StepInfo, messages, prior_of, settled_prior
from sksvi.models.base import Segment

#: Most passes over one chunk, and most closed-form steps of the prior precision after it.
CHUNK_PASSES = 50


def absorb(problem: Problem, state: State, tol: float) -> State:
    """One chunk of a stream: sites iterated and absorbed, or one step per batch."""
    started = time.perf_counter()
    state = replace(state, bounds=list(state.bounds), history=list(state.history), local=None)
    if problem.model.plates:
        from sksvi.inference.passes import by_side

        state, info = by_side.absorb(replace(problem, stream=True), state, tol)
    elif problem.remembers:
        state, info = absorb_sites(replace(problem, batch_size=None, total=None), state, tol)
    else:
        state, info = absorb_steps(problem, state)
    state = replace(state, passes=state.passes + 1, rows=state.rows + problem.data.total_weight, finished=True)
    record(state, info, started)
    return state


def absorb_sites(problem: Problem, state: State, tol: float) -> tuple[State, StepInfo]:
    """The posterior so far is the prior of the chunk; its sites then join a sum kept apart from the prior."""
    first = state.steps == 0
    if not first and state.absorbed is None:
        state = replace(state, absorbed=messages(problem, state.q))
    if not first:
        frozen = frozenset(problem.model.prior_steps(state.q)) | {n for n, b in state.q.items() if b.kind == "free"}
        so_far = prior_of(problem, state)
        problem = replace(problem, frozen=frozen, past=abs(state.bound), so_far=so_far)
    inner = replace(state, bounds=[], small_changes=0, previous=None, damping=1.0, sites=None)
    run_pass = full_pass if problem.deterministic else stochastic_pass
    for _ in range(CHUNK_PASSES):
        inner, info, stop = run_pass(problem, inner, tol)
        if stop and first and problem.deterministic:
            improved, moved = problem.model.improved(problem, inner, lambda bound: False, tol)
            if moved:
                inner = replace(improved, previous=None, small_changes=0, damping=1.0)
                continue
        if stop:
            inner = replace(inner, converged=True)
            break
        inner.bounds.append(info.bound)
    repairs = inner.repairs - state.repairs
    closed = close(problem, inner)
    past = 0.0 if first else state.bound
    done = replace(closed, bounds=state.bounds, history=state.history, passes=state.passes, bound=past + closed.bound)
    said = messages(problem, done.q)
    alone = replace(problem, frozen=frozenset(), so_far=None)
    q = settled_prior(alone, done.q, said[problem.model.block], CHUNK_PASSES)
    return replace(done, q=q, absorbed=said), StepInfo(done.bound, problem.deterministic, 1.0, repairs)


def absorb_steps(problem: Problem, state: State) -> tuple[State, StepInfo]:
    """One step per batch of the chunk, in order, blown up to the population."""
    n = len(problem.data)
    bounds, rate, before = [], 0.0, state.repairs
    for part in _parallel.blocks(n, problem.batch_size or n):
        weight = problem.data.take(part).total_weight
        if weight > 0:
            segment = Segment(np.arange(part.start, part.stop), problem.data.total_weight / weight)
            state, bound, rate = stochastic_step(replace(problem, batch_size=None), state, segment)
            bounds.append(bound)
    chunk = float(np.mean(bounds))
    seen = len(state.bounds)
    state = replace(state, bound=chunk if not seen else (state.bound * seen + chunk) / (seen + 1))
    return state, StepInfo(state.bound, False, rate, state.repairs - before)
