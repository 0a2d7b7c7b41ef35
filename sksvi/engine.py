"""The engine: State, one step, and the only training loop of the library.

    data ──segment──▶ model.terms ──pull_back──▶ gradient ──Σ, ×N/B──▶ algorithm.step ──▶ q

A full batch without sampling noise is judged: a step that lowers the bound is taken back and its rate halved, and the
fit stops when neither the last step nor the next one is worth ``tol``. Stochastic steps are not judged one by one: the
mean bound over a pass is followed, and the fit ends with one exact pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sksvi import batches
from sksvi.families.gaussian import Gaussian, NotPositiveDefinite
from sksvi.models.base import Data, Segment
from sksvi.sites import Sites
from sksvi.steps import MAX_HALVINGS
from sksvi.stopping import check_due, settled

Array = np.ndarray

#: A step whose predicted gain is below this share of `tol` (times the bound) is not worth taking.
PREDICTED_SHARE = 1 / 300
#: Relative fall of a bound that rounding explains, and how fast a damped step grows again.
ROUNDING, DAMPING_GROWTH = 1e-10, 1.5
#: Fits of fewer rows start on all of them.
ROUGH_ROWS = 8192
#: Most passes, and relative tolerance, of the start on a part of the rows.
ROUGH_PASSES, ROUGH_TOL = 8, 1e-2
#: Most steps of L-BFGS for a mean at its covariance: in FP (Sheth and Khardon's supplement), and in other algorithms.
FP_STEPS, MEAN_STEPS = 500, 30
#: Most closed-form steps of the prior precision between two looks at the data, and when they stop (log precision).
PRIOR_STEPS, PRIOR_TOL = 10, 1e-3
#: Most passes over one streamed chunk.
CHUNK_PASSES = 50


class NonFinite(ValueError):
    """A bound or gradient that is not a finite number."""


@dataclass
class Evaluation:
    """Gradient and bound at one q: what a step needs, and what taking it back needs."""

    q: dict[str, Any]
    gradient: dict[str, Any]
    bound: float


@dataclass
class State:
    """All that a fit knows: saved, resumed, continued by ``partial_fit``. Plain arrays, numbers and blocks."""

    q: dict[str, Any]
    seed: int
    passes: int = 0
    steps: int = 0
    rows: float = 0.0
    damping: float = 1.0
    memory: dict[str, Any] = field(default_factory=dict)
    sites: Sites | None = None
    average: dict[str, Any] = field(default_factory=dict)
    absorbed: Gaussian | None = None
    seen: float = 0.0
    previous: Evaluation | None = None
    bound: float = -np.inf
    bounds: list[float] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    converged: bool = False
    finished: bool = False
    repairs: int = 0
    small_changes: int = 0


@dataclass
class Problem:
    """What a fit does not change: model, data, algorithm, expectations and how to split the work.

    ``expect`` serves the steps, ``exact`` the bound that a fit reports at its end. ``total`` is the population's
    weight where the data are a part of it, ``frozen`` names blocks that stay as they are, ``past`` is the size of the
    bound of earlier chunks (nats): `tol` is relative to all data seen. ``so_far`` is the posterior that a stream left,
    the prior of this chunk.
    """

    model: Any
    data: Data
    algorithm: Any
    expect: Any
    exact: Any
    batch_size: int | None = None
    threads: int = 1
    total: float | None = None
    frozen: frozenset[str] = frozenset()
    past: float = 0.0
    so_far: Any = None

    @property
    def full_batch(self) -> bool:
        """Whether one segment is all the data."""
        return self.batch_size is None or self.batch_size >= len(self.data)

    @property
    def deterministic(self) -> bool:
        """No mini-batch and no sampling noise."""
        return self.full_batch and self.expect.exact

    @property
    def scale(self) -> float:
        """Population size over the data's weight."""
        return 1.0 if self.total is None else self.total / self.data.total_weight


@dataclass(frozen=True)
class StepInfo:
    """One row of ``history_``."""

    bound: float
    exact: bool
    rate: float
    repairs: int


def prior_of(problem: Problem, state: State) -> dict[str, Any]:
    """The prior of every block, with what streamed chunks left behind."""
    prior = dict(problem.model.prior(state.q))
    if problem.so_far is not None:
        prior["weights"] = problem.so_far
    elif state.absorbed is not None:
        prior["weights"] = joined(prior["weights"], state.absorbed)
    return prior


def joined(prior: Any, absorbed: Any) -> Any:
    """Product of a prior and a Gaussian message held as (linear as mean, precision)."""
    blank = type(absorbed)(np.zeros_like(prior.mean), prior.precision_like(absorbed) + absorbed.precision)
    return type(absorbed)(blank.solve(prior.times(prior.mean) + absorbed.mean), blank.precision, blank.root)


def divergence(problem: Problem, state: State, q: dict[str, Any]) -> float:
    """Σ KL(q ‖ prior) over the blocks that have a prior, nats."""
    prior = prior_of(problem, replace(state, q=q))
    return sum(q[name].kl(block) for name, block in prior.items()) + sum(
        block.penalty() for block in q.values() if block.kind == "point"
    )


def evaluate(
    problem: Problem, state: State, segment: Segment, site_rate: float | None = None, gradient_wanted: bool = True
) -> tuple[Any, float]:
    """Gradient per block and E log p of a segment, scaled; with `site_rate`, sites move and their change comes back."""
    model, data, q = problem.model, problem.data, state.q
    for block in q.values():
        block.prepare()

    def one(item: tuple[int, Any]) -> tuple[Any, Any]:
        number, rows = item
        batch = model.batch(data, rows)
        terms = model.terms(q, batch, problem.expect, batches.stream(state.seed, state.steps, number))
        value = float(terms.value.sum())
        if site_rate is not None:
            terms = state.sites.move(terms, rows, site_rate, q["weights"].full)  # type: ignore[union-attr]
        return (model.pull_back(terms, batch) if gradient_wanted else {}), value

    items = list(enumerate(model.blocks(segment.rows, data)))
    gradient, value = batches.tree_sum(batches.in_order(one, items, problem.threads))
    scale = segment.scale * problem.scale
    return (gradient if site_rate is not None else batches.scaled(gradient, scale)), value * scale


def whole(problem: Problem) -> Segment:
    """All rows as one segment."""
    return Segment(slice(0, len(problem.data)), 1.0)


def check_finite(value: float, gradient: dict[str, Any], state: State) -> None:
    """A non-finite bound or gradient stops the fit, naming pass and block."""
    for name, parts in gradient.items():
        if not all(np.all(np.isfinite(part)) for part in parts):
            raise NonFinite(f"the gradient of block {name!r} is not finite in pass {state.passes + 1}")
    if not np.isfinite(value):
        raise NonFinite(f"the bound is not finite in pass {state.passes + 1}")


def step(problem: Problem, state: State, gradient: dict[str, Any], rate: float) -> tuple[dict[str, Any], dict, float]:
    """One step of every block: new q, new memory, and the gain that the points promise, nats."""
    algorithm, q = problem.algorithm, dict(state.q)
    memory = dict(state.memory)
    n = problem.data.total_weight * problem.scale
    points = problem.model.point_steps(q, gradient)
    for name in points.keys() - problem.frozen:
        q[name] = q[name].moved(points[name][0], rate * state.damping)
    # The points move first: the other blocks step towards the prior as it will be.
    for name, block in prior_of(problem, replace(state, q=q)).items():
        q[name], memory[name] = algorithm.step(q[name], block, gradient[name], rate, state.damping, memory.get(name), n)
    return q, memory, sum(gain for name, (_, gain) in points.items() if name not in problem.frozen)


def run(problem: Problem, state: State, max_iter: int, tol: float, pass_end: Callable[[State], bool]) -> State:
    """The training loop: passes until settled or `max_iter`, then q and bound that belong together."""
    run_pass = full_pass if problem.deterministic else stochastic_pass
    started = time.perf_counter()
    q = {name: block.forgotten() if block.kind == "point" else block for name, block in state.q.items()}
    state = replace(state, q=q, finished=False, converged=False, absorbed=None)
    if problem.deterministic and problem.algorithm.natural and state.steps == 0:
        state = rough_start(problem, state)
    while state.passes < max_iter:
        state, info, stop = run_pass(problem, state, tol)
        if stop:
            state.converged = True
            break
        state.rows += problem.data.total_weight
        record(state, info, started)
        if pass_end(state):
            break
    return close(problem, state)


def first_state(problem: Problem, seed: int) -> State:
    """The state before any step: the model's first q in the coordinates that the algorithm steps in."""
    q, memory = dict(problem.model.init(problem.data)), {}
    for name, block in q.items():
        if block.kind == "gaussian":
            q[name], memory[name] = problem.algorithm.start(block, problem.data.total_weight)
    return State(q, seed, memory=memory)


def rough_start(problem: Problem, state: State) -> State:
    """A few judged steps on an eighth of many rows, blown up to all: most of the way at an eighth of the price."""
    n, width = len(problem.data), problem.model.shape[-1]
    size = max(n // 8, 10 * width)
    if n < ROUGH_ROWS or size > n // 4:
        return state
    rows = np.sort(np.random.default_rng([state.seed, 0, 2]).choice(n, size, replace=False))
    part = replace(problem, data=problem.data.take(rows), total=problem.data.total_weight)
    if part.data.total_weight <= 0:
        return state
    rough = replace(state, bounds=[])
    for _ in range(ROUGH_PASSES):
        rough, info, stop = full_pass(part, rough, ROUGH_TOL)
        if stop:
            break
        rough.bounds.append(info.bound)
    return replace(state, q=rough.q, steps=rough.steps)


def record(state: State, info: StepInfo, started: float) -> None:
    """A row of the history and of the bounds per pass."""
    state.bounds.append(info.bound)
    state.history.append(
        {
            "pass": state.passes,
            "step": state.steps,
            "rows": state.rows,
            "seconds": time.perf_counter() - started,
            "bound": info.bound,
            "exact": info.exact,
            "rate": info.rate,
            "repairs": info.repairs,
        }
    )


def full_pass(problem: Problem, state: State, tol: float) -> tuple[State, StepInfo, bool]:
    """Evaluate, take back a step that lowered the bound, test, step."""
    if state.previous is None:
        state = judged(problem, state)
    here = state.previous
    assert here is not None
    rate, size = problem.algorithm.rate(state.steps, True), abs(here.bound) + problem.past + 1
    if problem.algorithm.natural:
        done = state.small_changes >= 2
    else:
        done = settled([b for t, b in enumerate(state.bounds, 1) if check_due(t)], tol) and check_due(len(state.bounds))
    if done:
        return state, StepInfo(here.bound, True, rate, 0), True
    proposal, memory, gain = propose(problem, state, here.gradient, rate)
    if problem.algorithm.natural and state.bounds:
        promised = gain + divergence_between(proposal, state.q) / (rate * state.damping) ** 2
        if promised < PREDICTED_SHARE * tol * size:
            return state, StepInfo(here.bound, True, rate, 0), True
    state = replace(state, q=proposal, memory=memory, steps=state.steps + 1, passes=state.passes + 1)
    before = state
    state = judged(problem, state)
    assert state.previous is not None
    bound, repairs = state.previous.bound, state.repairs - before.repairs
    rate *= before.damping / 2**repairs
    change = abs(bound - here.bound) / (rate * size)
    state = replace(state, small_changes=state.small_changes + 1 if change < tol else 0)
    return state, StepInfo(bound, True, rate, repairs), False


def propose(problem: Problem, state: State, gradient: dict[str, Any], rate: float) -> tuple[dict, dict, float]:
    """The next q; the fixed-point algorithm then solves for the mean at the new covariance."""
    try:
        q, memory, gain = step(problem, state, gradient, rate)
    except NotPositiveDefinite as error:
        raise impossible(state, error) from error
    if problem.deterministic and problem.algorithm.natural and rate * state.damping == 1.0:
        q = settled_prior(problem, q, None, PRIOR_STEPS)
    if solves_mean(problem, state):
        q["weights"] = solved_mean(problem, replace(state, q=q))
    return q, memory, gain


def solves_mean(problem: Problem, state: State) -> bool:
    """FP does; and so does a natural step on a diagonal block without noise, whose mean would creep: it ignores how
    columns correlate, while the best mean at fixed variances is a concave problem that costs no Gram product."""
    creeps = problem.deterministic and problem.algorithm.schedule is None and not state.q["weights"].full
    return problem.algorithm.mean_solver or (problem.algorithm.natural and creeps)


def solved_mean(problem: Problem, state: State) -> Any:
    """The Gaussian block with the mean that is best at its covariance: a concave problem without Gram products."""
    from scipy.optimize import minimize

    model, data, q = problem.model, problem.data, state.q
    block, prior = q["weights"], prior_of(problem, state)["weights"]
    block.prepare()
    rows = model.blocks(slice(0, len(data)), data)
    variances = list(batches.in_order(lambda r: model.latent_variance(q, model.batch(data, r)), rows, problem.threads))

    def negative(flat: Array) -> tuple[float, Array]:
        mean = block.mean + block.coloured(flat.reshape(block.mean.shape))
        here = {**q, "weights": type(block)(mean, block.precision, block.root)}

        def one(item: tuple[Any, Array]) -> tuple[Array, float]:
            batch = model.batch(data, item[0])
            terms = model.terms(here, batch, problem.expect, None, variance=item[1])
            return model.pull_back_mean(terms, batch), float(terms.value.sum())

        g, value = batches.tree_sum(batches.in_order(one, list(zip(rows, variances, strict=True)), problem.threads))
        delta = mean - prior.mean
        slope = g * problem.scale - prior.times(delta)
        return 0.5 * float(np.sum(delta * prior.times(delta))) - value * problem.scale, -block.uncoloured(slope).ravel()

    steps = FP_STEPS if problem.algorithm.mean_solver else MEAN_STEPS
    options = {"gtol": 1e-5, "maxiter": steps}
    best = minimize(negative, np.zeros(block.mean.size), jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    return type(block)(block.mean + block.coloured(best.x.reshape(block.mean.shape)), block.precision, block.root)


def impossible(state: State, error: NotPositiveDefinite) -> ValueError:
    """The error of a step that no halving saves."""
    return ValueError(
        f"block 'weights', pass {state.passes + 1}: {error}, even after {MAX_HALVINGS} halvings of the step. "
        "Standardise the columns, drop duplicated ones, or raise prior_precision."
    )


def judged(problem: Problem, state: State) -> State:
    """Evaluate the state's q; while the bound fell, go back and take half the step."""
    for halvings in range(MAX_HALVINGS):
        before = state.previous
        try:
            gradient, value = evaluate(problem, state, whole(problem))
            bound = value - divergence(problem, state, state.q)
            check_finite(bound, gradient, state)
        except NotPositiveDefinite as error:
            if before is None:
                raise impossible(state, error) from error
            bound = -np.inf
        except NonFinite:
            if before is None:
                raise
            bound = -np.inf
        # A deterministic rule with an error of its own (softmax) may see a fall where there is none.
        slack = 0.0 if before is None else (ROUNDING + problem.model.rule_error) * (abs(before.bound) + 1)
        if before is None or bound >= before.bound - slack:
            damping = state.damping if before is None or halvings else min(1.0, DAMPING_GROWTH * state.damping)
            return replace(state, previous=Evaluation(state.q, gradient, bound), damping=damping)
        back = replace(state, q=before.q, damping=state.damping / 2, repairs=state.repairs + 1)
        q, memory, _ = propose(problem, back, before.gradient, problem.algorithm.rate(state.steps - 1, True))
        state = replace(back, q=q, memory=memory)
    assert state.previous is not None
    return replace(state, q=state.previous.q)


def divergence_between(new: dict[str, Any], old: dict[str, Any]) -> float:
    """KL of the blocks after a natural step to those before, nats: to second order what the step gains."""
    return sum(block.kl(old[name]) for name, block in new.items() if block.kind != "point")


def stochastic_pass(problem: Problem, state: State, tol: float) -> tuple[State, StepInfo, bool]:
    """Steps over shuffled batches; the mean of their scaled bounds stands for the pass."""
    if settled(state.checks, tol):
        return state, StepInfo(state.bounds[-1], False, 0.0, 0), True
    bounds, shares, rate, before = [], [], 0.0, state.repairs
    for segment in problem.model.sweep(problem.data, problem.batch_size, state.seed, state.passes):
        state, bound, rate = stochastic_step(problem, state, segment)
        bounds.append(bound)
        shares.append(1.0 / segment.scale)
    state = replace(state, passes=state.passes + 1, previous=None)
    if check_due(len(state.bounds) + 1):
        exact = exact_bound(problem, replace(state, q=state.average))
        state = replace(state, checks=[*state.checks, exact])
        if state.sites is not None:
            state.sites.total = summed_sites(problem, state)
    return state, StepInfo(float(np.average(bounds, weights=shares)), False, rate, state.repairs - before), False


def summed_sites(problem: Problem, state: State) -> tuple[Array, Array]:
    """The sums of all sites, afresh: changes that were added up drift by their rounding."""
    model, data, sites = problem.model, problem.data, state.sites
    assert sites is not None

    def one(rows: Any) -> Any:
        return model.pull_back(sites.as_terms(rows), model.batch(data, rows))["weights"]

    rows = model.blocks(slice(0, len(data)), data)
    return batches.tree_sum(batches.in_order(one, rows, problem.threads))


def exact_bound(problem: Problem, state: State) -> float:
    """The bound of all data at the state's q, without noise."""
    _, value = evaluate(replace(problem, expect=problem.exact), state, whole(problem), gradient_wanted=False)
    bound = value - divergence(problem, state, state.q)
    check_finite(bound, {}, state)
    return bound


def stochastic_step(problem: Problem, state: State, segment: Segment) -> tuple[State, float, float]:
    """One step on a segment: gradient, or change of sites, and the scaled bound before the step."""
    remembers = problem.algorithm.remembers and not problem.full_batch
    # What is remembered moves once a pass, everything else with every batch.
    rate = problem.algorithm.rate(state.passes if remembers else state.steps, False, remembers)
    if remembers and state.sites is None:
        prior = prior_of(problem, state)["weights"]
        shapes = problem.model.site_shapes(len(problem.data))
        state = replace(state, sites=Sites.empty(state.q["weights"], prior, *shapes))
    gradient, value = evaluate(problem, state, segment, rate if remembers else None)
    bound = value - divergence(problem, state, state.q)
    check_finite(bound, gradient, state)
    if remembers:
        change = gradient.pop("weights")
        gradient = batches.scaled(gradient, segment.scale * problem.scale)
        q, memory, _ = site_update(problem, state, change, gradient, rate, 1.0 / segment.scale)
    else:
        q, memory, _ = propose(problem, state, gradient, rate)
    state = replace(state, q=q, memory=memory, steps=state.steps + 1)
    return replace(state, average=averaged(state)), bound, rate


def averaged(state: State) -> dict[str, Any]:
    """Mean of all q so far with weights that grow as t³: what noise is left in the steps averages out (Polyak)."""
    if not state.average:
        return state.q
    weight = 4.0 / (state.steps + 3.0)
    return {name: state.average[name].blended(block, weight) for name, block in state.q.items()}


def site_update(
    problem: Problem, state: State, change: Any, gradient: dict[str, Any], rate: float, share: float
) -> tuple[dict[str, Any], dict, float]:
    """q from prior, sites and what is left of the first q; points take their own steps."""
    q = dict(state.q)
    assert state.sites is not None
    state.sites.add(change)
    for name, (move, _) in problem.model.point_steps(q, gradient).items():
        q[name] = q[name].moved(move, rate)
    prior = prior_of(problem, replace(state, q=q))["weights"]
    try:
        q["weights"] = state.sites.block(q["weights"], prior, rate * share)
    except NotPositiveDefinite as error:
        raise impossible(state, error) from error
    return q, state.memory, 0.0


def close(problem: Problem, state: State) -> State:
    """Leave q with its own bound: evaluated already by a judged fit, one exact pass after a stochastic one."""
    if state.previous is not None:
        gradient, bound = state.previous.gradient, state.previous.bound
    else:
        state = replace(state, q=state.average or state.q)
        learned = any(block.kind == "point" for block in state.q.values())
        exact = replace(problem, expect=problem.exact)
        gradient, value = evaluate(exact, state, whole(problem), gradient_wanted=learned)
        bound = value - divergence(problem, state, state.q)
        check_finite(bound, gradient, state)
    q = remembered_points(state.q, gradient)
    return replace(state, q=q, average={}, finished=True, bound=bound, previous=None, sites=None, small_changes=0)


def remembered_points(q: dict[str, Any], gradient: dict[str, Any]) -> dict[str, Any]:
    """Points keep the curvature of the data that they were learned from, for data to come."""
    return {
        name: block.absorbed(gradient[name][1]) if block.kind == "point" and name in gradient else block
        for name, block in q.items()
    }


def with_block(state: State, name: str, block: Any) -> State:
    """The state with one block replaced, and no memory of it."""
    memory = {key: value for key, value in state.memory.items() if key != name}
    return replace(state, q={**state.q, name: block}, memory=memory)


# ---- streaming
def absorb(problem: Problem, state: State, tol: float) -> State:
    """One chunk of a stream: sites iterated and absorbed, or one step per batch."""
    started = time.perf_counter()
    state = replace(state, bounds=list(state.bounds), history=list(state.history))
    if problem.algorithm.remembers:
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
        state = replace(state, absorbed=message(problem, state.q))
    if not first:
        so_far = prior_of(problem, state)["weights"]
        problem = replace(problem, frozen=frozenset({"prior_precision"}), past=abs(state.bound), so_far=so_far)
    inner = replace(state, bounds=[], small_changes=0, previous=None, damping=1.0, sites=None)
    run_pass = full_pass if problem.deterministic else stochastic_pass
    for _ in range(CHUNK_PASSES):
        inner, info, stop = run_pass(problem, inner, tol)
        if stop:
            inner = replace(inner, converged=True)
            break
        inner.bounds.append(info.bound)
    repairs = inner.repairs - state.repairs
    closed = close(problem, inner)
    past = 0.0 if first else state.bound
    done = replace(closed, bounds=state.bounds, history=state.history, passes=state.passes, bound=past + closed.bound)
    said = message(problem, done.q)
    q = settled_prior(replace(problem, frozen=frozenset(), so_far=None), done.q, said, CHUNK_PASSES)
    return replace(done, q=q, absorbed=said), StepInfo(done.bound, problem.deterministic, 1.0, repairs)


def message(problem: Problem, blocks: dict[str, Any]) -> Any:
    """What the data said about the weights: natural parameters of q less those of the prior (linear as mean)."""
    q, prior = blocks["weights"], problem.model.prior(blocks)["weights"]
    return type(q)(q.times(q.mean) - prior.times(prior.mean), q.precision - prior.precision_like(q))


def settled_prior(problem: Problem, q: dict[str, Any], said: Any, n_steps: int) -> dict[str, Any]:
    """Learned prior precisions, given what the data said about the weights: closed-form steps, no data."""
    if "prior_precision" not in q or "prior_precision" in problem.frozen:
        return q
    said = message(problem, q) if said is None else said
    for _ in range(n_steps):
        step = problem.model.prior_step(q)
        moved = {**q, "prior_precision": q["prior_precision"].moved(step, 1.0)}
        try:
            moved["weights"] = joined(problem.model.prior(moved)["weights"], said)
        except NotPositiveDefinite:  # too little data to bear so small a precision: the last one stands
            break
        q = moved
        if np.max(np.abs(step)) < PRIOR_TOL:
            break
    return q


def absorb_steps(problem: Problem, state: State) -> tuple[State, StepInfo]:
    """One step per batch of the chunk, in order, blown up to the population."""
    n = len(problem.data)
    bounds, rate, before = [], 0.0, state.repairs
    for part in batches.blocks(n, problem.batch_size or n):
        weight = problem.data.take(part).total_weight
        if weight > 0:
            segment = Segment(np.arange(part.start, part.stop), problem.data.total_weight / weight)
            state, bound, rate = stochastic_step(replace(problem, batch_size=None), state, segment)
            bounds.append(bound)
    chunk = float(np.mean(bounds))
    seen = len(state.bounds)
    state = replace(state, bound=chunk if not seen else (state.bound * seen + chunk) / (seen + 1))
    return state, StepInfo(state.bound, False, rate, state.repairs - before)
