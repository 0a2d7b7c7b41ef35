"""Full batches without sampling noise: every step is judged, and the fit stops when none is worth `tol`.

A step that lowers the bound is taken back and its rate halved. Natural steps say before they are taken what they are
worth: half of what the algorithm's length in nats promises to second order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sksvi.algorithms.line_search import MAX_HALVINGS, backtrack
from sksvi.algorithms.specs import CovarianceSteps
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference import engine
from sksvi.inference.engine import bound, evaluate, impossible, iterate, step, whole, with_bound
from sksvi.inference.passes import subspace
from sksvi.inference.problem import Problem, divergence_between, prior_of
from sksvi.inference.records import (
    GAIN,
    ROUNDING,
    Evaluation,
    LineSearchState,
    Progress,
    check_due,
    checks_until,
    has_settled,
    replace,
)
from sksvi.inference.start import restarted
from sksvi.inference.state import NonFinite, State, StepInfo, check_finite
from sksvi.models.base import Blocks, Gradient, Linear

#: A step whose predicted gain is below this share of `tol` (times the bound) is not worth taking.
PREDICTED_SHARE = 1 / 150
#: What `tol` is relative to, nats, where a pass finds parameters at q and q at parameters, and both move together: many
#: small gains follow one, and nats that are nothing beside the bound of many rows are standard errors of a parameter.
#: Never less than a share of the bound that is more than its rounding.
CREEPING, ABOVE_ROUNDING = 1.0, 1e-9
#: The same where what a fit leaves undone stays so, nats: hundreds of portions leave it one by one.
LASTING = 20.0
#: How fast a damped step grows again, and the longest of gradients: AdaGrad's own rates fall however good they were.
DAMPING_GROWTH, LONGEST_GRADIENT_STEP = 1.5, 1e3
#: Steps in a row that gain too little, after which a fit ends.
ENOUGH = 2
#: Most halvings of a creeping step whose gain may be less than the error of the bound's own rule.
CREEPING_HALVINGS = 4
#: Share of a whole step that gains are divided by at least: its square is a number.
SHORTEST = 1e-150
#: Fits of fewer rows start on all of them.
ROUGH_ROWS = 8192
#: Numbers of a dense design that the start looks at at most: no share of the largest data is too much to hold.
ROUGH_NUMBERS = 2**24
#: Most passes, and relative tolerance, of the start on a part of the rows.
ROUGH_PASSES, ROUGH_TOL = 8, 1e-2
#: Most passes, and relative tolerance, after which starts are compared.
START_PASSES, START_TOL = 20, 1e-3
#: By how much the precision of a q without a finite bound grows at a time.
NARROWING = 4.0
#: Most natural steps, and their relative tolerance, that let q catch up with hyperparameters at the end of a fit.
RESETTLING_PASSES, RESETTLING_TOL = 10, 1e-5
#: Most steps of L-BFGS for a mean: in FP (Sheth and Khardon's supplement), and in other algorithms.
FP_STEPS, MEAN_STEPS = 500, 30


def line_search_state(state: State) -> LineSearchState:
    """The record of a pass of judged steps in the state."""
    assert isinstance(state.progress, LineSearchState)
    return state.progress


def last_evaluation(state: State) -> Evaluation:
    """Where the last judged step, or the start of a pass, led."""
    here = line_search_state(state).here
    assert here is not None
    return here


class LineSearch:
    """A pass of one judged step on all rows."""

    def begin(self, problem: Problem, state: State) -> State:
        """Many rows start on a part of them, and where a model has several starts the best one is gone on from."""
        if not isinstance(state.progress, LineSearchState):
            state = replace(state, progress=LineSearchState(damping=state.progress.damping))
        state = replace(state, q=problem.model.starts.filled(state.q, problem.data))
        if not problem.algorithm.spec.natural or state.steps:
            return state
        return best_start(problem, rough_start(problem, state))

    def once(self, problem: Problem, state: State, tol: float) -> tuple[State, StepInfo | None]:
        """Evaluate, take back a step that lowered the bound, test, step."""
        starts = problem.model.starts
        if line_search_state(state).here is None:
            state = first_backtracked(problem, state)
        mended, under_way = state.repairs, line_search_state(state).under_way
        if problem.algorithm.spec.nested and not under_way:
            state = with_settled_covariance(problem, state, tol)
        if starts.settled_by_search and state.bounds and (under_way or not problem.frozen):
            return state, None
        progress, natural = line_search_state(state), problem.algorithm.spec.natural
        here = last_evaluation(state)
        rate, size = problem.algorithm.rate(state.steps, True), worth(problem, here.bound, tol)
        warming_up = problem.globals_in(state.passes) is not problem.globals  # a start, at which no fit ends
        if not warming_up and done(problem, state, tol) and (natural or left_to_gain(problem, state) <= tol * size):
            return state, None
        if natural and not warming_up and reported(problem, state) and starts.is_optimal(state.q, problem.data):
            return state, None
        if not natural and isinstance(problem.model, Linear) and check_due(len(state.bounds)):
            # Coordinates and sums of the first q say little of this one's.
            state = replace(state, memory=restarted(problem, state).memory)
        state, (q, memory, promised) = proposed(problem, state)
        if natural and state.bounds and not warming_up:
            change = divergence_between(q, state.q, problem.model.hyper)
            if promised + change / max(rate * progress.damping, SHORTEST) ** 2 < PREDICTED_SHARE * tol * size:
                return state, None
        state = replace(state, q=q, memory=memory, steps=state.steps + 1, passes=state.passes + 1)
        before, projected = state.repairs, state.locals.repairs
        state = backtracked(problem, state)
        repairs, progress_now, found = state.repairs - before, line_search_state(state), last_evaluation(state).bound
        rate *= progress.damping / 2**repairs
        # A fall that was let pass is the error of the bound's own rule: no gain either, however short the step. A short
        # step hides what a whole one gains; a longer one gained what it did.
        small = (found - here.bound) / (max(min(rate, 1.0), SHORTEST) * size) < tol
        # Where no share of a step was accepted, none of the next one is either.
        count = progress_now.small_changes + (ENOUGH if state.q is here.q else 1) if small and not warming_up else 0
        state = replace(state, progress=replace(progress_now, small_changes=count))
        repairs += state.locals.repairs - projected + before - mended
        return state, StepInfo(found, True, rate, repairs)

    def end(self, problem: Problem, state: State) -> State:
        """The state with the last q that was evaluated, and its bound."""
        if line_search_state(state).here is None:
            state = backtracked(problem, resettled(problem, state))
        progress, here = line_search_state(state), last_evaluation(state)
        q = engine.remembering(problem, state.q, here.gradient)
        # Natural steps have no memory: how short the last ones were says nothing of a fit that goes on.
        damping = 1.0 if problem.algorithm.spec.natural else progress.damping
        progress = replace(progress, here=None, small_changes=0, damping=damping, searched={}, recent=(), under_way={})
        return replace(state, q=q, progress=progress, bound=here.bound, finished=True)


def reported(problem: Problem, state: State) -> bool:
    """Whether the fit has a pass to tell of, or a search that will have."""
    return bool(state.bounds) or (problem.model.traits.bound.exact_search and not problem.frozen)


def worth(problem: Problem, bound: float, tol: float) -> float:
    """What `tol` is relative to at a bound; less where parameters creep along q, and a small gain has many after it."""
    likelihood, size = getattr(problem.model, "likelihood", None), problem.size(bound)
    moves = likelihood is not None and likelihood.learned and likelihood.noise_variance is None
    creeps = moves and "likelihood" not in problem.frozen
    if not (creeps or problem.messages.lasting) or tol == 0.0:
        return size
    return min(size, max(CREEPING if creeps else LASTING, ABOVE_ROUNDING * size / tol))


def done(problem: Problem, state: State, tol: float) -> bool:
    """Whether the last steps gained too little: two in a row if natural, else what checks a factor apart did.

    Where `left_to_gain` says what a natural step is worth, that is asked at every check.
    """
    if problem.algorithm.spec.natural:
        return line_search_state(state).small_changes >= ENOUGH
    bounds = state.bounds[line_search_state(state).since :]
    if isinstance(problem.model, Linear):
        return check_due(len(bounds))
    checks = [bounds[t - 1] for t in checks_until(len(bounds))]
    return check_due(len(bounds)) and has_settled(checks, tol / GAIN, problem.size)


def left_to_gain(problem: Problem, state: State) -> float:
    """What a natural step from here is worth to second order, nats: steps of gradients creep long before the end."""
    model = problem.model
    if not isinstance(model, Linear):
        return 0.0
    noiseless = problem.noiseless
    state = restarted(noiseless, state)
    gradient, _ = evaluate(noiseless, state, whole(noiseless))
    try:
        q, _, promised = step(noiseless, state, whole(noiseless), gradient)
    except NotPositiveDefinite:
        return np.inf
    q = with_best_mean(noiseless, replace(state, q=q))
    return promised + divergence_between(q, state.q, model.hyper)


def propose(problem: Problem, state: State, gradient: Gradient) -> tuple[Blocks, dict[str, Any], float]:
    """The next q, its rules' memory and what its hyperparameters promise."""
    damping = line_search_state(state).damping
    best = subspace.mixed(problem, state, damping) if line_search_state(state).recent else None
    if best is not None:
        return engine.recentred(problem, state, best), state.memory, 0.0
    try:
        q, memory, promised = step(problem, state, whole(problem), gradient, damping)
    except NotPositiveDefinite as error:
        raise impossible(problem, state, error) from error
    if problem.algorithm.spec.natural and problem.algorithm.rate(state.steps, True) * damping == 1.0:
        q = engine.optimized(problem, q)
        q = engine.recentred(problem, state, q)
    return with_best_mean(problem, replace(state, q=q)), memory, promised


def with_best_mean(problem: Problem, state: State) -> Blocks:
    """q with the mean solved for at its covariance: FP's second line, and what a diagonal block needs.

    A natural step on a diagonal block would creep: it ignores how columns correlate, while the best mean at fixed
    variances is a concave problem that costs no Gram product.
    """
    model, algorithm = problem.model, problem.algorithm
    if not isinstance(model, Linear) or model.main in problem.frozen:
        return state.q
    creeps = algorithm.spec.natural and algorithm.schedule is None and not state.q[model.main].full
    if not (algorithm.spec.solves_mean or creeps):
        return state.q
    steps = FP_STEPS if algorithm.spec.solves_mean else MEAN_STEPS
    prior = prior_of(problem, state, state.q)[model.main]
    own = model.best_mean(state.q, prior, problem.data, problem.expect, problem.scale, problem.threads, steps)
    return {**state.q, model.main: own}


def with_settled_covariance(problem: Problem, state: State, tol: float) -> State:
    """The state with the main block's covariance settled at its mean, every step of it judged; all else stays."""
    model = problem.model
    if not isinstance(model, Linear) or model.main in problem.frozen:
        return state
    steps = CovarianceSteps(problem.algorithm.schedule)
    alone = replace(problem, algorithm=steps, frozen=problem.frozen | state.q.keys() - {model.main})
    inner = run_until_settled(alone, state, FP_STEPS, max(tol, ABOVE_ROUNDING))
    here = last_evaluation(inner)
    progress = replace(line_search_state(state), here=here)
    return replace(state, q=here.q, repairs=inner.repairs, progress=progress)


def backtracked(problem: Problem, state: State) -> State:
    """Evaluate the state's q; while the bound fell, go back and take half the step."""
    before = line_search_state(state).here
    if before is None:
        return first_evaluated(problem, state)
    # A deterministic rule with an error of its own (softmax) may see a fall where there is none.
    least = before.bound - (ROUNDING + problem.model.traits.bound.slack) * (abs(before.bound) + 1)
    tried = state

    def attempt(share: float) -> Evaluation | None:
        nonlocal tried
        if share < 1.0:
            tried = with_half_step(problem, tried)
        for name, block in before.q.items():  # wanted again if the step is taken back
            if tried.q[name] is not block:
                block.release()
        try:
            return evaluated(problem, tried)
        except (NotPositiveDefinite, NonFinite):
            return None

    def accepts(here: Evaluation) -> bool:
        nonlocal tried
        if here.bound >= least:
            return True
        recent = subspace.taken_back(problem, tried, here.gradient)
        tried = replace(tried, progress=replace(line_search_state(tried), recent=recent))
        return False

    slack, creeping = problem.model.traits.bound.slack, line_search_state(state).creeping
    found = backtrack(attempt, accepts, CREEPING_HALVINGS if slack and creeping else MAX_HALVINGS)
    if found is None:
        return taken_back(tried)
    progress, here = line_search_state(tried), found.trial
    damping = progress.damping if found.halvings else min(longest(problem), DAMPING_GROWTH * progress.damping)
    gain, last = here.bound - before.bound, before.bound - state.bounds[-2] if len(state.bounds) > 1 else np.inf
    least = max(subspace.SLOWLY * last, subspace.ERRORS * slack * (abs(before.bound) + 1))
    return with_evaluation(problem, tried, here, damping, least < gain < subspace.CREEPING)


def longest(problem: Problem) -> float:
    """How far a step may grow while the bound rises, as a share of a whole one."""
    if problem.algorithm.spec.natural:
        return problem.model.traits.steps.longest
    return LONGEST_GRADIENT_STEP if isinstance(problem.model, Linear) else 1.0


def evaluated(problem: Problem, state: State) -> Evaluation:
    """Gradient and bound at the state's q; NonFinite where they are no numbers."""
    gradient, value = evaluate(problem, state, whole(problem))
    now = bound(problem, state, value)
    check_finite(now, gradient, state)
    return Evaluation(state.q, gradient, now, state.memory)


def first_evaluated(problem: Problem, state: State) -> State:
    """The state with the evaluation of its q, which no step led to."""
    try:
        here = evaluated(problem, state)
    except NotPositiveDefinite as error:
        raise impossible(problem, state, error) from error
    return with_evaluation(problem, state, here, line_search_state(state).damping, False)


def with_evaluation(problem: Problem, state: State, here: Evaluation, damping: float, creeping: bool) -> State:
    """The state at an accepted evaluation, from which the next step goes on at this damping."""
    recent = subspace.remembered(problem, state, here.gradient)
    progress = replace(line_search_state(state), here=here, damping=damping, recent=recent, creeping=creeping)
    return replace(state, progress=progress)


def taken_back(state: State) -> State:
    """The state where its last evaluation was, at half the damping."""
    here, progress = last_evaluation(state), line_search_state(state)
    progress = replace(progress, damping=progress.damping / 2)
    return replace(state, q=here.q, memory=here.memory, repairs=state.repairs + 1, progress=progress)


def with_half_step(problem: Problem, state: State) -> State:
    """The state after half of the step that led to it."""
    state = taken_back(state)
    here = last_evaluation(state)
    q, memory, _ = propose(problem, replace(state, steps=state.steps - 1), here.gradient)
    return replace(state, q=q, memory=memory)


def rough_start(problem: Problem, state: State) -> State:
    """A few judged steps on an eighth of many rows, blown up to all: most of the way at an eighth of the price."""
    model = problem.model
    if not (model.traits.bound.additive and isinstance(model, Linear)):
        return state
    n, width = len(problem.data), state.q[model.main].mean.shape[-1]
    size = max(min(n // 8, ROUGH_NUMBERS // width), 10 * width)
    if n < ROUGH_ROWS or size > n // 4:
        return state
    part = replace(problem, data=problem.data.portion(size, state.seed), total=problem.data.total_weight)
    if part.data.total_weight <= 0:
        return state
    # The optimum of all rows is about so many nats from that of the part: steps that gain less lead no nearer to it.
    error, bounds = 0.5 * state.q[model.main].mean.size * n / size, [-np.inf]

    def small_gain(bound: float) -> bool:
        bounds.append(bound)
        return bounds[-1] - bounds[-2] < error

    rough = run_until_settled(part, state, ROUGH_PASSES, ROUGH_TOL, small_gain)
    expected = last_evaluation(rough)
    try:
        there = backtracked(problem, replace(state, q=rough.q, steps=rough.steps))
    except NonFinite:
        return state
    # Columns that the part does not hold went back to their prior: all rows tell whether they bear that.
    return there if last_evaluation(there).bound > expected.bound - problem.size(expected.bound) else state


def best_start(problem: Problem, state: State) -> State:
    """The start whose bound is best after a few passes, where the model has others: optima may be several."""
    starts = [state]
    for points in problem.model.starts.others(state.q):
        other = replace(state, q={**state.q, **points})
        fitted = run_until_settled(
            replace(problem, frozen=problem.frozen | points.keys()), other, START_PASSES, ROUGH_TOL
        )
        starts.append(replace(state, q=fitted.q))
    if len(starts) == 1:
        return state
    settled = [run_until_settled(problem, start, START_PASSES, START_TOL) for start in starts]
    return starts[int(np.argmax([last_evaluation(own).bound for own in settled]))]


def first_backtracked(problem: Problem, state: State) -> State:
    """Evaluate a first q; one whose bound tells nothing is too wide for some row, and is narrowed until it does."""
    optimum = (
        problem.model.starts.optimum(state.q, problem.data, problem.scale) if problem.algorithm.spec.natural else None
    )
    if optimum is not None and np.isfinite(optimum.bound):
        here = Evaluation(optimum.q, optimum.gradient, optimum.bound, state.memory)
        return replace(state, q=optimum.q, progress=replace(line_search_state(state), here=here))
    for _ in range(MAX_HALVINGS):
        try:
            there = backtracked(problem, state)
        except NonFinite:
            narrower = narrowed(problem, state)
            if narrower is None:
                raise
        else:
            narrower = better_narrower(problem, state, there)
            if narrower is None:
                return there
        state = narrower
    return backtracked(problem, state)


def in_whole_nats(bound: float) -> bool:
    """Whether a bound is so far from zero that it rounds to whole nats: what is gained from there is lost in it."""
    return bool(np.finfo(float).eps * abs(bound) >= 1)


def better_narrower(problem: Problem, state: State, there: State) -> State | None:
    """A narrower q where the bound is so low that it rounds to whole nats, if that is due to q's width.

    Rows' curvature at such a q hides the prior.
    """
    here = last_evaluation(there)
    narrower = narrowed(problem, state) if in_whole_nats(here.bound) else None
    if narrower is None:
        return None
    try:
        best = line_search_state(backtracked(problem, narrower)).here
    except NonFinite:
        return None
    return narrower if best is not None and best.bound > here.bound / 2 else None


def proposed(problem: Problem, state: State) -> tuple[State, tuple[Blocks, dict[str, Any], float]]:
    """`propose`, and the state that it starts from: a first q that no step leads away from is narrowed too."""
    for _ in range(MAX_HALVINGS):
        here = last_evaluation(state)
        try:
            return state, propose(problem, state, here.gradient)
        except ValueError as error:
            impossible_step = isinstance(error.__cause__, NotPositiveDefinite)
            narrower = narrowed(problem, state) if impossible_step and not state.bounds else None
            if narrower is None:
                raise
        state = first_backtracked(problem, replace(narrower, progress=replace(line_search_state(state), here=None)))
    return state, propose(problem, state, last_evaluation(state).gradient)


def narrowed(problem: Problem, state: State) -> State | None:
    """The state with a main block of the same mean and of `NARROWING` times the precision; None: it has none."""
    model = problem.model
    if not isinstance(model, Linear):
        return None
    block = state.q[model.main].narrowed(NARROWING)
    return None if block is None else replace(state, q={**state.q, model.main: block})


def run_until_settled(
    problem: Problem,
    state: State,
    passes: int,
    tol: float,
    stop: Callable[[float], bool] | None = None,
    run: engine.Pass | None = None,
    progress: Progress | None = None,
) -> State:
    """The state after at most `passes` passes; `stop` is called with every bound, and True ends them too.

    ``run``, ``progress`` : the kind of passes and their first record; None: judged ones on all rows.
    """

    def after(state: State, info: StepInfo) -> tuple[State, bool]:
        return (state, True) if stop is not None and stop(info.bound) else with_bound(state, info)

    state = replace(state, progress=LineSearchState() if progress is None else progress, bounds=[])
    return iterate(problem, state, LineSearch() if run is None else run, state.passes + passes, tol, after)[0]


def resettled(problem: Problem, state: State) -> State:
    """Where hyperparameters have moved last, q catches up with them: a few judged natural steps on all rows."""
    model = problem.model
    moving = {name for name, rule in model.hyper.items() if rule.lagged} - problem.frozen
    if problem.exact_batches:  # it has settled where they are
        return state
    if not moving or not isinstance(model, Linear) or not problem.rule(model.main, state.q).natural_coordinates:
        return state
    noiseless = replace(problem.noiseless, frozen=problem.frozen | moving)
    inner = run_until_settled(noiseless, state, RESETTLING_PASSES, RESETTLING_TOL)
    here = last_evaluation(inner)
    return replace(state, q=here.q, repairs=inner.repairs)
