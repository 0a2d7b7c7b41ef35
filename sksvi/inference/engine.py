"""The engine: one evaluation, one step, and the only training loop of the library.

    data ──segment──▶ model.terms ──pull_back──▶ gradient ──Σ, ×N/B──▶ rule.step ──▶ q

It knows six nouns and no adjectives: what the data say (`models.base.Model`), the algebra of a block (`families`), how
a block moves (`algorithms.rules`), how local steps see the globals (`problem`), what stands between terms and pull-back
(`messages`), and the order of things (`passes`). Who serves whom is decided in `plan`, before the first step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from sksvi._runtime import parallel
from sksvi.algorithms.line_search import MAX_HALVINGS
from sksvi.algorithms.rules import ClosedForm, StepSize
from sksvi.expectations import Expectation
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference.messages import NO_FACTORS
from sksvi.inference.problem import ExpectedGlobals, Problem, divergence, prior_of
from sksvi.inference.records import replace
from sksvi.inference.state import NO_LOCALS, NoLocals, State, StepInfo, check_finite, recorded
from sksvi.models.base import Blocks, Gradient, Linear, Model, Segment
from sksvi.models.data import Rows

Array = np.ndarray

# ---- hyperparameters between two looks at the data: what needs none, and what they remember
#: When closed-form steps stop, in the largest change of a coordinate.
TOL = 1e-3
#: How many times as long as the step that a rule finds one may be: they shrink by half, one after another.
LONGEST = 2.0
#: Most of them between two looks at the data.
PRIOR_STEPS = 10


def optimized(problem: Problem, q: Blocks, message: Any = None, n_steps: int = PRIOR_STEPS) -> Blocks:
    """q with hyperparameters of the main block's prior settled, given the data's `message` (None: q over its prior)."""
    model = problem.model
    rules = {
        name: rule
        for name, rule in model.hyper.items()
        if isinstance(rule, ClosedForm) and name in q and name not in problem.frozen
    }
    if not rules or not isinstance(model, Linear) or model.main in problem.frozen:
        return q
    message = q[model.main].over(model.prior(q)[model.main]) if message is None else message
    steps = taken = {name: rule.find(q)[0] for name, rule in rules.items()}
    for _ in range(n_steps):
        moved = {**q, **{name: q[name].moved(step, 1.0) for name, step in taken.items()}}
        try:
            moved[model.main] = model.prior(moved)[model.main].times(message)
        except NotPositiveDefinite:  # too little data to bear so small a precision: the last one stands
            break
        q = moved
        if max(np.max(np.abs(step), initial=0.0) for step in steps.values()) < TOL:
            break
        before, steps = steps, {name: rule.find(q)[0] for name, rule in rules.items()}
        taken = {name: lengthened(step, before[name], taken[name]) for name, step in steps.items()}
    return q


def lengthened(step: Array, before: Array, taken: Array) -> Array:
    """A step of a fixed point by secants, coordinate by coordinate: no shorter, and at most `LONGEST` times as long.

    `before`: the step at the point before, of which `taken` was gone.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        length = taken / (before - step)
    return step * np.where(length > 1.0, np.minimum(length, LONGEST), 1.0)


def recentred(problem: Problem, state: State, q: Blocks) -> Blocks:
    """q along what rows at hand do not feel, where all data are at hand: rows that went say what they said about q."""
    model = problem.model
    alone = state.messages is NO_FACTORS and problem.prior_factors is NO_FACTORS
    if not alone or not isinstance(model, Linear) or problem.frozen & {model.main, "likelihood"}:
        return q
    return model.recentred(q)


def remembering(problem: Problem, q: Blocks, gradient: Gradient) -> Blocks:
    """Blocks of one number or few keep the curvature of the data that they were learned from, for data to come."""
    curved = {name for name in q if len(gradient.get(name, ())) > 1}
    return {name: block.absorbed(gradient[name][1]) if name in curved else block for name, block in q.items()}


def forgetting(q: Blocks) -> Blocks:
    """The blocks without what they remember of earlier data."""
    return {name: block.forgotten() for name, block in q.items()}


def faded(state: State, share: float) -> State:
    """The state with a share of what points, and rules by AdaGrad, remember of earlier data."""
    if share == 1.0:
        return state
    q = {name: block.faded(share) for name, block in state.q.items()}
    memory = {n: own.faded(share) if hasattr(own, "faded") else own for n, own in state.memory.items()}
    return replace(state, q=q, memory=memory)


def with_fixed_hyper(problem: Problem, **changes: Any) -> Problem:
    """The problem with every hyperparameter fixed where it is."""
    return replace(problem, frozen=problem.frozen | frozenset(problem.model.hyper), **changes)


# ---- evaluate, step, fit
class Pass(Protocol):
    """Protocol of a pass over the data: the order in which rows are evaluated and blocks step."""

    def begin(self, problem: Problem, state: State) -> State:
        """The state before the first pass of a fit."""
        ...

    def once(self, problem: Problem, state: State, tol: float) -> tuple[State, StepInfo | None]:
        """One pass; None in the place of its report where nothing worth `tol` was left."""
        ...

    def end(self, problem: Problem, state: State) -> State:
        """The state at the end of a fit: q and a bound that belong together."""
        ...


#: From the state after a pass and the pass's report to the state to go on from, and whether passes end there.
AfterPass = Callable[[State, StepInfo], tuple[State, bool]]


def whole(problem: Problem) -> Segment:
    """All rows as one segment."""
    return Segment(slice(0, len(problem.data)), 1.0)


def prepare(q: Blocks) -> None:
    """Factor every block before threads ask for it; one that cannot be says which it is."""
    name = ""
    try:
        for name in q:
            q[name].prepare()
    except NotPositiveDefinite as error:
        error.block = name
        raise


@dataclass
class BatchGradient:
    """What a pass asks of rows where they lie: gradient per block, E log p, and local covariances that were projected.

    ``key`` : seed and step, of the rows' random numbers. ``locals`` and ``sites`` : what is kept beside the rows.
    ``between`` : what stands between terms and pull-back, of terms, rows and sites. ``drawn`` : whether terms may ask
    for random numbers.
    """

    model: Model
    view: Any
    expect: Expectation
    threads: int
    key: tuple[int, int]
    gradient_wanted: bool = True
    locals: NoLocals = NO_LOCALS
    sites: Any = None
    between: Callable[[Any, Any, Any], Any] | None = None
    drawn: bool = True

    def __call__(self, data: Any, rows: Rows) -> tuple[Gradient, float, int]:
        """Summed over chunks, in an order that depends on their number alone."""
        chunks = list(enumerate(self.model.chunks(rows, data)))
        view, widened = self.model.narrowed(self.view, data, rows)
        one = partial(replace(self, view=view).of_chunk, data)
        if len(chunks) == 1:  # of which there is no sum: to form one takes longer than few rows do
            gradient, value, repairs = one(chunks[0])
        else:
            gradient, value, repairs = parallel.summed(one, chunks, self.threads)
        return widened(gradient), value, repairs

    def of_chunk(self, data: Any, item: tuple[int, Any]) -> tuple[Gradient, float, int]:
        """Gradient per block, E log p and the count of projected covariances of one chunk, `item` = (number, rows)."""
        number, rows = item
        rng = parallel.stream(*self.key, getattr(data, "first", 0) + number) if self.drawn else None
        batch = self.model.batch(data, rows, self.locals.of(rows))
        # What overflows leaves no finite bound or block, and that is an error which names the remedy.
        with np.errstate(over="ignore", invalid="ignore"):
            terms = self.model.terms(self.view, batch, self.expect, rng)
            self.locals.keep(rows, terms)
            value = float(terms.value.sum())
            if not self.gradient_wanted:
                return {}, value, terms.repairs
            to_pull_back = terms if self.between is None else self.between(terms, rows, self.sites)
            return self.model.pull_back(to_pull_back, batch), value, terms.repairs


def evaluate(problem: Problem, state: State, segment: Segment, gradient_wanted: bool = True) -> tuple[Gradient, float]:
    """Gradient per block and E log p of a segment, both of the population."""
    model, q = problem.model, state.q
    prepare(q)
    globals_mode = problem.globals_in(state.passes)
    found = from_sums(problem, q, segment)
    gradient, value = from_rows(problem, state, segment, globals_mode, gradient_wanted) if found is None else found
    scale = segment.scale * problem.scale
    if gradient_wanted:
        gradient = model.completed(problem.messages.blown_up(gradient, scale), q)
    earlier_gradient, earlier_value = problem.prior_factors.expected_log_message(q)
    if gradient_wanted and earlier_gradient:
        gradient = {
            **gradient,
            **{name: parallel.add(gradient.get(name), part) for name, part in earlier_gradient.items()},
        }
    return gradient, value * scale + earlier_value


def from_sums(problem: Problem, q: Blocks, segment: Segment) -> tuple[Gradient, float] | None:
    """Gradient and E log p of all rows from their sufficient statistics, where these are known and say enough."""
    model, sums = problem.model, problem.sums.of(problem.data)
    if sums is None or not isinstance(model, Linear) or not problem.looks_at_all(segment):
        return None
    return sums.at(model, q)


def from_rows(
    problem: Problem, state: State, segment: Segment, globals_mode: ExpectedGlobals, gradient_wanted: bool
) -> tuple[Gradient, float]:
    """Gradient per block and E log p of a segment's rows, from a look at each."""
    model, data, q = problem.model, problem.data, state.q
    key = state.seed, state.steps
    drawn = model.traits.bound.seeded or not problem.deterministic  # to seed a stream takes longer than few rows do
    rng: Any = parallel.stream(*key, data.n_streams(model, segment.rows)) if drawn else None
    view = globals_mode.view(model, q, rng)
    sites = problem.messages.sites(state)
    between = problem.messages.between(problem, state) if gradient_wanted else None
    look = BatchGradient(
        model, view, problem.expect, problem.threads, key, gradient_wanted, state.locals, sites, between, drawn
    )
    gradient, value, repairs = data.evaluate(look, segment.rows)
    state.locals.count(repairs)
    if gradient_wanted and problem.looks_at_all(segment):
        problem.sums.data, problem.sums.found = data, model.sums(q, gradient, value, data.total_weight)
    return globals_mode.corrected(gradient, q, view) if gradient_wanted else gradient, value


def step(
    problem: Problem, state: State, segment: Segment, gradient: Gradient, damping: float = 1.0
) -> tuple[Blocks, dict[str, Any], float]:
    """The segment's blocks after one step, their rules' memory, and the gain that hyperparameters promise, nats."""
    q, memory, promised, weight = dict(state.q), dict(state.memory), 0.0, problem.weight
    hyper, prior, name = problem.model.hyper, None, ""
    left: Blocks = {}
    try:
        # Hyperparameters move first: the other blocks step towards the prior as it will be.
        for name in sorted(segment.blocks or q, key=lambda name: name not in hyper):
            if prior is None and name not in hyper:
                prior, left = prior_of(problem, state, q), left_by(problem, state, q)
            rule = problem.messages.rule(name, problem, state)
            pace = StepSize(problem.messages.rate(name, problem, state, segment), damping, weight, left.get(name))
            own = None if prior is None else prior[name]
            block_gradient = problem.messages.in_turn(problem.model, name, gradient, state.q, q).get(name)
            q[name], memory[name], gain = rule.step(name, q, own, block_gradient, memory.get(name), pace)
            promised += gain
    except NotPositiveDefinite as error:
        error.block = name
        raise
    return q, memory, promised


def left_by(problem: Problem, state: State, q: Blocks) -> Blocks:
    """The prior of the main block before closed forms moved it, where every step is judged; else nothing."""
    model = problem.model
    if model.main is None or not problem.deterministic:
        return {}
    moved = [n for n, rule in model.hyper.items() if isinstance(rule, ClosedForm) and q.get(n) is not state.q.get(n)]
    return {model.main: prior_of(problem, state, state.q)[model.main]} if moved else {}


def bound(problem: Problem, state: State, value: float) -> float:
    """The bound at the state's q, of which the data's part is `value`, nats."""
    return value - divergence(problem, state, state.q)


def exact_bound(problem: Problem, state: State) -> float:
    """The bound of all data at the state's q, without noise."""
    value = evaluate(problem.for_bound, state, whole(problem), gradient_wanted=False)[1]
    total = bound(problem, state, value)
    check_finite(total, {}, state)
    return total


def impossible(problem: Problem, state: State, error: NotPositiveDefinite) -> ValueError:
    """The error of a step that no halving saves."""
    where = f"block {error.block!r}, pass {state.passes + 1}"
    remedy = problem.model.traits.remedy
    return ValueError(f"{where}: {error}, even after {MAX_HALVINGS} halvings of the step. {remedy}")


def fit(
    problem: Problem, state: State, run: Pass, search: Any, max_iter: int, tol: float, pass_end: Callable[[State], bool]
) -> State:
    """The training loop: passes until nothing is left to gain or `max_iter`, then q and bound that belong together.

    Once q has settled, `search` may move hyperparameters; then q settles anew.
    """
    started = perf_counter()

    def after(state: State, info: StepInfo) -> tuple[State, bool]:
        state = recorded(replace(state, rows=state.rows + problem.data.total_weight), info, perf_counter() - started)
        return state, pass_end(state)

    def find(state: State) -> tuple[State, bool]:
        return search(problem, state, max_iter, tol, started)

    # No frame but that of the loop has its state: what a pass replaces is let go.
    return run.end(problem, iterate(problem, run.begin(problem, state), run, max_iter, tol, after, find)[0])


def iterate(
    problem: Problem,
    state: State,
    run: Pass,
    last: int,
    tol: float,
    after: AfterPass,
    search: Callable[[State], tuple[State, bool]] | None = None,
) -> tuple[State, bool]:
    """Passes until nothing is left to gain, pass `last` is done or `after` ends them, and whether nothing was left.

    Where nothing is left `search` may move hyperparameters, and passes go on if it says so.
    """
    while state.passes < last:
        state, info = run.once(problem, state, tol)
        if info is None:
            state, goes_on = (state, False) if search is None else search(state)
            if not goes_on:
                return state, True
            continue
        state, ends = after(state, info)
        if ends:
            break
    return state, False


def with_bound(state: State, info: StepInfo) -> tuple[State, bool]:
    """Append a pass's bound to those of the state, and go on."""
    state.bounds.append(info.bound)
    return state, False
