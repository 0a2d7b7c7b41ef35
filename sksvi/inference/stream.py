"""Streams: one portion of data at a time, for ``partial_fit``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import perf_counter

import numpy as np

from sksvi._runtime import parallel
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference import engine
from sksvi.inference.engine import evaluate, iterate, whole, with_bound
from sksvi.inference.messages import NO_FACTORS, BlockFactors
from sksvi.inference.passes import alternating
from sksvi.inference.passes.stochastic import Noisy, noisy_step
from sksvi.inference.plan import changed, pass_of, remembers, run
from sksvi.inference.problem import Problem, divergence
from sksvi.inference.records import PORTION_PASSES, START, LineSearchState, replace
from sksvi.inference.sample import Sample
from sksvi.inference.search import improved
from sksvi.inference.site_updates import RecordedTerms
from sksvi.inference.start import counting_on, first_state, with_scale_inside_range
from sksvi.inference.state import NO_LOCALS, State, StepInfo, recorded, thinned
from sksvi.inference.stream_state import StreamState, beyond_reach, sampled
from sksvi.inference.wide_stream import absorb_chunk
from sksvi.models.base import Bipartite, Blocks, Gradient, Linear, LinearTerms, Segment
from sksvi.models.data import Table

#: The sample is looked at again when so many rows have come since, in shares of its size.
SAMPLE_SHARE = 0.25
#: Most looks at the sample after the first one of a portion.
MOST_LOOKS = 4
#: Sites are found again where q has moved by more, in shares of the farthest that a look takes it.
STALE = 0.1


def absorb(problem: Problem, state: State, tol: float, keep: int = 0, fade: float = 1.0) -> State:
    """One portion of a stream: messages iterated and absorbed, or one step per batch.

    Parameters
    ----------
    problem : Problem
        Of the portion.
    state : State
    tol : float
    keep : int
        Most past rows that are looked at again.
    fade : float
        Share that is left of what was said before.
    """
    started = perf_counter()
    state = replace(state, bounds=list(state.bounds), history=list(state.history), locals=NO_LOCALS)
    state = replace(state, converged=False)  # that of the portion or the fit before says nothing of this one
    if problem.model.traits.path is not None:
        state, info = absorb_chunk(problem, state, tol, keep, fade)
    elif isinstance(problem.model, Bipartite):
        state, info = alternating.absorb(replace(problem, stream=True), state, tol, fade)
    elif remembers(problem):
        with errors_name_algorithm(problem, state):
            state, info = absorb_messages(problem, state, tol, keep, fade)
    else:
        state, info = absorb_steps(problem, state, fade)
    rows = state.rows + problem.data.total_weight
    state = replace(state, passes=state.passes + 1, rows=rows, finished=True, moved_by=problem.moves)
    return thinned(recorded(state, info, perf_counter() - started))


def as_one_pass(
    problem: Problem, state: State, before: State | None, new_weight: float, most: int, tol: float
) -> State:
    """A fit from `state` to all that a stream knows, which is one pass of the stream: its history has a row more.

    Parameters
    ----------
    problem : Problem
        Of the portion, and of what earlier ones left.
    state : State
        Where it begins.
    before : State or None
        The stream as it was; None: it begins.
    new_weight : float
        Weight of the portion's rows.
    most, tol : int, float
        Passes of the fit, and when it ends.
    """
    state = state if before is None else counting_on(state, before, 0.0)
    started, restarted = perf_counter(), replace(state, bounds=[], history=[], passes=0)
    done = run(problem, restarted, most, tol)
    steps, rows = (0, 0.0) if before is None else (before.steps, before.rows)
    info = StepInfo(done.bound, problem.deterministic, 1.0, done.repairs)
    done = replace(done, passes=state.passes + 1, steps=done.steps + steps, rows=rows + new_weight)
    done = replace(done, bounds=list(state.bounds), history=list(state.history))
    return thinned(recorded(done, info, perf_counter() - started))


@contextmanager
def errors_name_algorithm(problem: Problem, state: State) -> Iterator[None]:
    """Make errors of improper messages name the algorithm: where it took steps, q over its prior need be no message."""
    try:
        yield
    except ValueError as error:
        improper = isinstance(error.__cause__, NotPositiveDefinite) and not isinstance(state.messages, StreamState)
        if not improper or state.moved_by in ("", problem.moves):
            raise
        raise ValueError(
            f"algorithm={problem.algorithm.name!r} reads what earlier chunks said as messages, and what those moved by "
            f"{state.moved_by.split(',')[0]!r} left is none: go on with the algorithm that they had, or begin "
            f"anew. {error}"
        ) from error


def absorb_messages(problem: Problem, state: State, tol: float, keep: int, fade: float) -> tuple[State, StepInfo]:
    """The state after one portion, whose messages join those of earlier rows, and some of whose rows the sample."""
    model, first = problem.model, state.steps == 0
    assert isinstance(model, Linear)
    earlier = stream_state_of(problem, state).faded(fade)
    if not keep:
        earlier = replace(earlier, sample=None)
    # Coordinates that messages live in stay.
    lagged = frozenset() if first else frozenset(name for name, rule in model.hyper.items() if rule.lagged)
    frozen = problem.frozen | lagged
    portion = changed(problem, batch_size=None, total=None, frozen=frozen)
    portion = replace(portion, messages=RecordedTerms(model.main, lasting=keep > 0))
    inner = replace(state, q=engine.forgetting(state.q), bounds=[], progress=START, messages=NO_FACTORS)
    earlier, now, certain_rows, inner = settled_after(portion, inner, earlier, lagged, tol, first)
    closed, terms, gradient, value = ended(now, inner)
    updated = earlier.with_rows(portion.data, closed.q, gradient, value)
    updated = replace(
        updated, sample=sampled(portion, closed, terms, earlier, updated, keep, certain_rows) if keep else None
    )
    q = engine.optimized(portion, closed.q, updated.by_block[model.main], PORTION_PASSES)
    if beyond_reach(
        q[model.main], closed.q[model.main]
    ):  # the fit was cut off on its way, and no bound was asked there
        q = closed.q
    done = replace(closed, q=q, messages=updated, bounds=state.bounds, passes=state.passes)
    return done, StepInfo(closed.bound, portion.deterministic, 1.0, inner.repairs - state.repairs)


def settled_after(
    portion: Problem, state: State, earlier: StreamState, lagged: frozenset[str], tol: float, first: bool
) -> tuple[StreamState, Problem, Sample | None, State]:
    """Fit a portion after earlier rows: their `StreamState`, the problem fitted, sampled rows in it, and the new state.

    Sampled rows are looked at where enough came since, and again while q moves and the portion pays for it.
    """
    assert isinstance(portion.model, Linear)
    name, n, size = portion.model.main, len(portion.data), 0 if earlier.sample is None else len(earlier.sample)
    now, certain_rows = replace(portion, prior_factors=earlier), None
    if earlier.complete or (earlier.samples and earlier.waiting + n >= SAMPLE_SHARE * size):
        earlier, now, certain_rows = with_certain_rows(portion, state, earlier, lagged)
        earlier = earlier.with_updated_sites(portion, state)
        now = replace(now, prior_factors=earlier)
        inside = with_scale_inside_range(now, state)
        if inside is not state:
            earlier, state = earlier.with_updated_sites(now, inside, moved_block="likelihood"), inside
    earlier = earlier.bounded(state.q)
    now = replace(now, prior_factors=earlier)
    if certain_rows is not None and not earlier.samples and not lagged and len(certain_rows) <= n:
        # All rows are at hand: the fit is theirs, wherever the first of them had led (labels of one kind, all zeros).
        state = replace(state, q=first_state(now, state.seed).q)
    before, state = state, settled_on(now, state, tol, first)
    looks = min(MOST_LOOKS, int(n / (SAMPLE_SHARE * size))) if earlier.samples else 0
    while beyond_reach(state.q[name], before.q[name], STALE):
        if certain_rows is None and earlier.has_certain_rows:
            earlier, now, certain_rows = with_certain_rows(portion, state, earlier, lagged)
        elif looks:
            earlier, looks = earlier.with_updated_sites(portion, state), looks - 1
            now = replace(now, prior_factors=earlier)
        else:
            break
        before, state = state, settled_on(now, replace(state, progress=START), tol, False)
    return earlier, now, certain_rows, state


def with_certain_rows(
    portion: Problem, state: State, earlier: StreamState, lagged: frozenset[str]
) -> tuple[StreamState, Problem, Sample | None]:
    """Move the sampled rows that stand for themselves alone from `earlier` to the portion: both, and those rows.

    Fitted together with the portion they are never behind it: no sample stands for the rare column that few rows have.
    """
    if not earlier.has_certain_rows:
        return earlier, replace(portion, prior_factors=earlier), None
    earlier, certain_rows = earlier.split_certain_rows(portion.model, state.q)
    assert isinstance(portion.data, Table)
    both, likelihood = portion.data.concatenated(certain_rows.blown_up), getattr(portion.model, "likelihood", None)
    if not earlier.samples:
        # What the portion alone says nothing of (a dispersion, of counts that are all zero) all rows may.
        informed = {"likelihood"} if likelihood is not None and likelihood.scales.informed(both.y) else set()
        portion = replace(portion, frozen=portion.frozen - (informed - lagged))
    return earlier, replace(portion, data=both, prior_factors=earlier), certain_rows


def stream_state_of(problem: Problem, state: State) -> StreamState:
    """The `StreamState` that a stream or a fit left: messages of q over its prior, and the curvature of points."""
    if isinstance(state.messages, StreamState):
        return state.messages
    prior = problem.model.prior(state.q)
    messages = state.messages if isinstance(state.messages, BlockFactors) else BlockFactors.between(state.q, prior)
    by_block = {name: state.q[name].remembered(messages.by_block[name]) for name in prior}
    for name, rule in problem.model.hyper.items():
        if rule.streams:
            zero = np.zeros_like(state.q[name].value)
            by_block[name] = state.q[name].message_from_gradient((zero, state.q[name].curvature))
    if state.steps == 0:
        return StreamState({name: message.faded(0.0) for name, message in by_block.items()})
    earlier = StreamState(by_block, weight=state.counted - problem.data.total_weight)
    value = state.bound + divergence(problem, replace(state, messages=NO_FACTORS), state.q)
    return replace(earlier, constant=value - earlier.expected_log_message(state.q)[1])


def ended(problem: Problem, state: State) -> tuple[State, LinearTerms, Gradient, float]:
    """The end of a portion: the state, every row's terms there, and gradient and value of the sum."""
    recorded_terms = problem.messages
    assert isinstance(recorded_terms, RecordedTerms)
    closed = pass_of(problem).end(problem, state)
    terms = recorded_terms.of(problem, closed.q)
    here = state.progress.here if isinstance(state.progress, LineSearchState) else None
    if terms is not None and here is not None and here.q[recorded_terms.main] is closed.q[recorded_terms.main]:
        return closed, terms, here.gradient, closed.bound + divergence(problem, state, here.q)
    gradient, value = evaluate(replace(problem, expect=problem.exact), closed, whole(problem))
    terms = recorded_terms.of(problem, closed.q)
    assert terms is not None
    return closed, terms, gradient, value


def settled_on(problem: Problem, state: State, tol: float, first: bool) -> State:
    """Passes over one portion until nothing is left to gain; the first one of a stream may search."""
    run = pass_of(problem)
    state = run.begin(problem, state)
    last = state.passes + PORTION_PASSES
    search = partial(improved, problem, tick=lambda bound: False, tol=tol) if first else None  # no callback may end it
    state, settled = iterate(problem, state, run, last, tol, with_bound, search)
    return replace(state, converged=True) if settled else state


def absorb_steps(problem: Problem, state: State, fade: float) -> tuple[State, StepInfo]:
    """One step per batch of the portion, in order, blown up to the population.

    A natural step of rate 1 - fade on a population of weight W / (1 - fade) is what a portion of weight W adds to
    natural parameters that decay towards the prior's.
    """
    n, run = len(problem.data), Noisy()
    values, rate, before = [], 0.0, state.repairs
    # A portion is a sample, however exact its integrals are: its steps go at the rates of noisy ones.
    parts = parallel.slices(n, problem.batch_size or n)
    problem = replace(problem, stream=True, least_rate=1.0 - fade ** (1.0 / len(parts)))
    new_weight, has_population = problem.data.total_weight, state.population > 0
    counted = state.counted or state.rows + new_weight
    grown = problem.weight / state.population if has_population else 1.0
    state = blown_up(problem, state, grown)
    state = concentrated(problem, engine.faded(state, fade), 1.0 / (problem.scale * len(parts)))
    state = run.begin(problem, state)
    cumulative_weight, growing = counted - new_weight, problem.weight == counted
    for part in parts:
        weight = problem.data.take(part).total_weight
        if weight > 0:
            segment = Segment(np.arange(part.start, part.stop), new_weight / weight)
            share, cumulative_weight = rate_share(problem, state, weight), cumulative_weight + weight
            least = max(problem.least_rate, weight / cumulative_weight) if growing else problem.least_rate
            here = replace(problem, batch_size=None, rate_share=share, least_rate=least)
            state, value, rate = noisy_step(here, state, segment)
            values.append(value)
    total = engine.bound(problem, state, float(np.mean(values)))
    if has_population:  # of the population: as the rows that came have it, and as those before them had, of theirs
        total = new_weight / counted * total + (1.0 - new_weight / counted) * grown * state.bound
    state = replace(state, bound=total, population=problem.weight)
    return state, StepInfo(total, False, rate, state.repairs - before)


def blown_up(problem: Problem, state: State, grown: float) -> State:
    """The state with the messages in q times `grown`, the factor by which the population has grown since."""
    if grown == 1.0:
        return state

    def larger(blocks: Blocks) -> Blocks:
        prior, found = problem.model.prior(blocks), dict(blocks)
        for name in prior.keys() & blocks.keys() - problem.frozen:
            if problem.rule(name, blocks).scales:
                message = blocks[name].over(prior[name]).faded(grown)
                with suppress(NotPositiveDefinite):  # less than nothing was said of a direction, which the prior bears
                    found[name] = prior[name].times(message)
        return found

    return replace(state, q=larger(state.q), progress=state.progress.mapped(larger))


def rate_share(problem: Problem, state: State, weight: float) -> float:
    """Share of a batch's rate that rows of this weight step by: that of the batch, or of the population where that is
    more; a step of rows as of a batch would let each of them forget as much as a batch does.
    """
    if problem.batch_size is None or weight >= problem.batch_size:
        return 1.0
    rate = problem.algorithm.rate(state.steps, problem.deterministic)
    of_all = weight / (problem.scale * problem.data.total_weight)
    return min(1.0, max(weight / problem.batch_size, of_all / rate))


def concentrated(problem: Problem, state: State, share: float) -> State:
    """The state no wider than the portion's rows leave it, in the same coordinates.

    What is new in them steps by a `share` of the population blown up to it: no longer than a natural step of that rate.
    """
    if not state.steps:
        return state
    weight = problem.data.total_weight

    def narrow(blocks: Blocks) -> Blocks:
        found = problem.model.concentrated(blocks, problem.data)
        moved = {name for name in found if found[name] is not blocks[name]}
        return {**found, **{name: problem.rule(name, blocks).start(found[name], weight)[0] for name in moved}}

    q, memory = narrow(state.q), dict(state.memory)
    for name in q:
        if q[name] is not state.q[name]:
            memory[name] = problem.rule(name, q).cautious(q[name], memory[name], np.asarray(share), problem.weight)
    return replace(state, q=q, memory=memory, progress=state.progress.mapped(narrow))
