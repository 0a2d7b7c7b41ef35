"""Streams: one portion of data at a time, for ``partial_fit``."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from sksvi import _parallel
from sksvi.inference import hyper
from sksvi.inference.engine import evaluate, whole
from sksvi.inference.memory.locals import NO_LOCALS
from sksvi.inference.memory.of_stream import Kept, Past, Sample, sites_of, trailing
from sksvi.inference.memory.said import NOTHING_SAID, Said
from sksvi.inference.passes import by_side
from sksvi.inference.passes.noisy import Noisy, noisy_step
from sksvi.inference.plan import changed, pass_of, remembers
from sksvi.inference.priors import divergence
from sksvi.inference.problem import Problem
from sksvi.inference.progress import START, Judging
from sksvi.inference.search import improved
from sksvi.inference.state import State, StepInfo, recorded
from sksvi.inference.stopping import PORTION_PASSES
from sksvi.models.base import Blocks, Data, Gradient, Linear, LinearTerms, Segment, Sided

#: Passes over a portion and the sample together, where rows were dropped from it.
SAMPLE_PASSES = 1
#: The sample is looked at again when so many rows have come since, in shares of its size.
SAMPLE_SHARE = 0.5


def absorb(problem: Problem, state: State, tol: float, keep: int = 0, fade: float = 1.0) -> State:
    """One portion of a stream: messages iterated and absorbed, or one step per batch."""
    started = perf_counter()
    state = replace(state, bounds=list(state.bounds), history=list(state.history), locals=NO_LOCALS)
    if isinstance(problem.model, Sided):
        state, info = by_side.absorb(replace(problem, stream=True), state, tol)
    elif remembers(problem):
        state, info = absorb_messages(problem, state, tol, keep, fade)
    else:
        state, info = absorb_steps(problem, state)
    state = replace(state, passes=state.passes + 1, rows=state.rows + problem.data.total_weight, finished=True)
    return recorded(state, info, perf_counter() - started)


def absorb_messages(problem: Problem, state: State, tol: float, keep: int, fade: float) -> tuple[State, StepInfo]:
    """What earlier rows said is a part of the data's sum; what these say joins it, and some of them the sample."""
    model, data, first = problem.model, problem.data, state.steps == 0
    assert isinstance(model, Linear)
    past = past_of(problem, state).faded(fade)
    sample = past.sample if keep else None
    # Coordinates that messages live in stay.
    frozen = frozenset() if first else frozenset(name for name, rule in model.hyper.items() if rule.lagged)
    alone = changed(problem, batch_size=None, total=None, frozen=frozen, said=past)
    alone = last = replace(alone, messages=Kept())
    inner = replace(state, q=hyper.forgetting(state.q), bounds=[], progress=START, messages=NOTHING_SAID)
    if sample is None or not past.complete:
        inner = settled_on(alone, inner, tol, first)
    if sample is not None and (past.complete or due(past, data)):
        last = replace(alone, data=data.joined(sample.blown_up), said=past.without_sample(model, inner.q))
        passes = PORTION_PASSES if past.complete else SAMPLE_PASSES
        inner = settled_on(last, replace(inner, progress=START), tol, False, passes)
    closed, terms, gradient, value = looked_at(last, inner)
    by_block = {name: closed.q[name].heard(gradient[name]) for name in gradient if speaks(closed.q, name, gradient)}
    now = Past(by_block, weight=past.weight + data.total_weight, waiting=past.waiting + data.total_weight)
    now.constant = value - now.told(closed.q)[1]
    if keep:
        now.sample = sampled(replace(last, data=data), state, closed.q, terms, past, now, keep)
    if last is not alone:
        now.waiting = 0.0
    q = hyper.settled(alone, closed.q, by_block[model.main], PORTION_PASSES)
    done = replace(closed, q=q, messages=now, bounds=state.bounds, passes=state.passes)
    return done, StepInfo(closed.bound, alone.deterministic, 1.0, inner.repairs - state.repairs)


def past_of(problem: Problem, state: State) -> Past:
    """What a stream or a fit left: messages of q over its prior, and the curvature that points remember."""
    if isinstance(state.messages, Past):
        return state.messages
    prior = problem.model.prior(state.q)
    said = state.messages if isinstance(state.messages, Said) else Said.between(state.q, prior)
    by_block = {name: said.by_block[name] for name in prior}
    for name, rule in problem.model.hyper.items():
        if rule.streams:
            zero = np.zeros_like(state.q[name].value)
            by_block[name] = state.q[name].heard((zero, state.q[name].curvature))
    if state.steps == 0:
        return Past({name: message.faded(0.0) for name, message in by_block.items()})
    past = Past(by_block, weight=problem.weight - problem.data.total_weight)
    past.constant = state.bound + divergence(problem, replace(state, messages=NOTHING_SAID), state.q) - past.told(state.q)[1]
    return past


def due(past: Past, data: Data) -> bool:
    """Whether so many rows have come since the last look at the sample that another one pays."""
    assert past.sample is not None
    return past.waiting + data.total_weight >= SAMPLE_SHARE * len(past.sample)


def speaks(q: Blocks, name: str, gradient: Gradient) -> bool:
    """Whether a block has messages: all but points that have no curvature."""
    return q[name].column != "hyper" or len(gradient[name]) > 1


def looked_at(problem: Problem, state: State) -> tuple[State, LinearTerms, Gradient, float]:
    """The end of a portion: the state, every row's terms there, and gradient and value of the sum."""
    model, kept = problem.model, problem.messages
    closed = pass_of(problem).end(problem, state)
    chunks = model.chunks(slice(0, len(problem.data)), problem.data)
    terms = kept.of(closed.q[model.main], chunks)
    here = state.progress.here if isinstance(state.progress, Judging) else None
    if terms is not None and here is not None and here.q[model.main] is closed.q[model.main]:
        gradient, value = here.gradient, closed.bound + divergence(problem, state, here.q)
    else:
        gradient, value = evaluate(replace(problem, expect=problem.exact), closed, whole(problem))
        terms = kept.of(closed.q[model.main], chunks)
    return closed, terms, gradient, value


def sampled(
    problem: Problem, state: State, q: Blocks, terms: LinearTerms, past: Past, now: Past, keep: int
) -> Sample:
    """The sample with this portion's rows in it, of which `terms` holds first theirs and then those looked at again."""
    model, data, n = problem.model, problem.data, len(problem.data)
    block = q[model.main]
    new = terms.take(slice(0, n))
    leverage = trailing(np.abs(2.0 * new.gamma * new.variance))
    precision = now.by_block[model.main].added()[1]
    whole_leverage = block.structure.expected_quadratic(precision, np.zeros_like(block.mean), block)
    mean = max(whole_leverage, float(leverage.sum())) / now.weight
    importance = (np.ones(n) if data.weight is None else data.weight) + leverage / mean
    draws = np.random.default_rng([state.seed, state.passes, 0, 4]).random(n)
    at = None if block.full else block.mean
    fresh = Sample(data, sites_of(new, q, block.full), importance, importance / (1.0 - draws), np.ones(n), mean=at)
    old = past.sample
    if old is None:
        return fresh.joined(fresh.none, keep)
    if len(terms.value) > n:
        own = terms.take(slice(n, None)).weighted(1.0 / old.factor)
        old = replace(old, sites=sites_of(own, q, block.full))
    return old.joined(fresh, keep)


def settled_on(problem: Problem, state: State, tol: float, first: bool, passes: int = PORTION_PASSES) -> State:
    """Passes over one portion until nothing is left to gain; the first one of a stream may search."""
    run = pass_of(problem)
    state = run.begin(problem, state)
    for _ in range(passes):
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
