"""The engine: one step, and the only training loop of the library.

    data ──segment──▶ model.terms ──pull_back──▶ gradient ──Σ, ×N/B──▶ algorithm.step ──▶ q

A full batch without sampling noise is judged: a step that lowers the bound is taken back and its rate halved, and the
fit stops when neither the last step nor the next one is worth ``tol``. Stochastic steps are not judged one by one: now
and then the bound of the averaged q is evaluated exactly (`stopping`), and the fit ends with such a pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sksvi import _parallel
from sksvi.algorithms import MCSSVI
from sksvi.algorithms.steps import MAX_HALVINGS, adam_step
from sksvi.families.gaussian.dense import NotPositiveDefinite
from sksvi.inference.best_mean import solved_mean, solves_mean
from sksvi.inference.memory.of_rows import Sites
from sksvi.inference.state import (
    Evaluation,
    NonFinite,
    Problem,
    State,
    StepInfo,
    divergence,
    divergence_between,
    prior_of,
    remembered_points,
    settled_prior,
)
from sksvi.inference.stopping import check_due, settled
from sksvi.models.base import Segment

Array = np.ndarray

#: A step whose predicted gain is below this share of `tol` (times the bound) is not worth taking.
PREDICTED_SHARE = 1 / 150
#: Relative fall of a bound that rounding explains, and how fast a damped step grows again.
ROUNDING, DAMPING_GROWTH = 1e-10, 1.5
#: Fits of fewer rows start on all of them.
ROUGH_ROWS = 8192
#: Most passes, and relative tolerance, of the start on a part of the rows.
ROUGH_PASSES, ROUGH_TOL = 8, 1e-2
#: Most natural steps, and their relative tolerance, that let q catch up with free blocks at the end of a noisy fit.
RESETTLING_PASSES, RESETTLING_TOL = 10, 1e-5
#: Most closed-form steps of the prior precision between two looks at the data.
PRIOR_STEPS = 10


def evaluate(
    problem: Problem, state: State, segment: Segment, site_rate: float | None = None, gradient_wanted: bool = True
) -> tuple[Any, float]:
    """Gradient per block and E log p of a segment, scaled; with `site_rate`, sites move and their change comes back."""
    model, data, q = problem.model, problem.data, state.q
    for block in q.values():
        block.prepare()
    items = list(enumerate(model.blocks(segment.rows, data)))
    view = model.view(q, problem.algorithm.samples_globals, _parallel.stream(state.seed, state.steps, len(items)))

    def one(item: tuple[int, Any]) -> tuple[Any, float, int]:
        number, rows = item
        batch = model.batch(data, rows)
        if state.local is not None:
            batch.start = state.local[rows]
        terms = model.terms(view, batch, problem.expect, _parallel.stream(state.seed, state.steps, number))
        if state.local is not None:
            state.local[rows] = terms.local
        value = float(terms.value.sum())
        if site_rate is not None:
            terms = state.sites.move(terms, rows, site_rate, q[model.block].full)  # type: ignore[union-attr]
        return (model.pull_back(terms, batch) if gradient_wanted else {}), value, getattr(terms, "repairs", 0)

    gradient, value, repairs = _parallel.tree_sum(_parallel.in_order(one, items, problem.threads))
    state.local_repairs += repairs
    if gradient:
        gradient = model.corrected(gradient, view)
    scale = segment.scale * problem.scale
    return (gradient if site_rate is not None else _parallel.scaled(gradient, scale)), value * scale


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
    move_free(problem, q, gradient, memory)
    # The points move first: the other blocks step towards the prior as it will be.
    for name, block in prior_of(problem, replace(state, q=q)).items():
        q[name], memory[name] = algorithm.step(q[name], block, gradient[name], rate, state.damping, memory.get(name), n)
    return q, memory, sum(gain for name, (_, gain) in points.items() if name not in problem.frozen)


def move_free(problem: Problem, q: dict[str, Any], gradient: dict[str, Any], memory: dict[str, Any]) -> None:
    """Adam's step of every free block, in place."""
    for name, slope in problem.model.free_gradients(q, gradient).items():
        if name not in problem.frozen:
            q[name], memory[name] = adam_step(q[name], slope, memory.get(name))


def run(problem: Problem, state: State, max_iter: int, tol: float, pass_end: Callable[[State], bool]) -> State:
    """The training loop: passes until settled or `max_iter`, then q and bound that belong together."""
    run_pass = passes_of(problem)
    started = time.perf_counter()
    q = {name: block.forgotten() if block.kind == "point" else block for name, block in state.q.items()}
    state = replace(state, q=q, finished=False, converged=False, absorbed=None, local=first_local(problem, state))
    if problem.deterministic and problem.algorithm.natural and state.steps == 0:
        state = rough_start(problem, state)
    while state.passes < max_iter:
        state, info, stop = run_pass(problem, state, tol)
        if stop:
            state, goes_on = improve(problem, state, max_iter, tol, started, pass_end)
            if goes_on:
                continue
            break
        state.rows += problem.data.total_weight
        record(state, info, started)
        if pass_end(state):
            break
    return close(problem, state)


def passes_of(problem: Problem) -> Callable[[Problem, State, float], tuple[State, StepInfo, bool]]:
    """How one pass goes: side by side, judged on all rows, or over batches."""
    if problem.model.plates:
        from sksvi.inference.passes.by_side import round_pass

        return round_pass
    return full_pass if problem.deterministic else stochastic_pass


def improve(
    problem: Problem, state: State, max_iter: int, tol: float, started: float, pass_end: Callable[[State], bool]
) -> tuple[State, bool]:
    """Once q has settled the model may move its free blocks; then q settles anew, until there is nothing to gain."""
    ended = False

    def tick(bound: float) -> bool:
        """Another look at all data; True: the fit must stop."""
        nonlocal ended
        state.passes += 1
        state.rows += problem.data.total_weight
        record(state, StepInfo(bound, True, 0.0, 0), started)
        ended = pass_end(state) or state.passes >= max_iter
        return ended

    moved = False
    if problem.deterministic:
        improved, moved = problem.model.improved(problem, state, tick, tol)
    if not moved:
        state.converged = not ended
        return state, False
    fresh = replace(improved, previous=None, small_changes=0, damping=1.0)
    return fresh, not ended


def first_state(problem: Problem, seed: int) -> State:
    """The state before any step: the model's first q in the coordinates that the algorithm steps in."""
    try:
        q = dict(problem.model.first(problem.data, np.random.default_rng([seed, 0, 3])))
    except NotPositiveDefinite as error:
        raise impossible(problem, State({}, seed), error) from error
    return restarted(problem, State(q, seed))


def restarted(problem: Problem, state: State) -> State:
    """The state with every block in the algorithm's coordinates, and an empty memory."""
    q, memory = dict(state.q), {}
    for name, block in q.items():
        if block.kind not in ("point", "free"):
            q[name], memory[name] = problem.algorithm.start(block, problem.model.start_weight(name, problem.data))
    return replace(state, q=q, memory=memory, average={})


def first_local(problem: Problem, state: State) -> Array | None:
    """Local starts of an unfinished fit on the same rows, else fresh ones."""
    if state.local is not None and len(state.local) == len(problem.data):
        return state.local.copy()
    return problem.model.local_start(problem.data)


def rough_start(problem: Problem, state: State) -> State:
    """A few judged steps on an eighth of many rows, blown up to all: most of the way at an eighth of the price."""
    if not (problem.model.batchable and problem.model.linear):
        return state
    n, width = len(problem.data), problem.model.shape[-1]
    size = max(n // 8, 10 * width)
    if n < ROUGH_ROWS or size > n // 4:
        return state
    rows = np.sort(np.random.default_rng([state.seed, 0, 2]).choice(n, size, replace=False))
    part = replace(problem, data=problem.data.take(rows), total=problem.data.total_weight)
    if part.data.total_weight <= 0:
        return state
    rough = settle(part, state, ROUGH_PASSES, ROUGH_TOL)
    return replace(state, q=rough.q, steps=rough.steps)


def settle(
    problem: Problem, state: State, passes: int, tol: float, seen: Callable[[float], bool] | None = None
) -> State:
    """q after at most `passes` judged passes from where it is; `seen` is told every bound, and True ends it too."""
    state = replace(state, previous=None, sites=None, bounds=[], small_changes=0, damping=1.0)
    for _ in range(passes):
        state, info, stop = full_pass(problem, state, tol)
        if stop or (seen is not None and seen(info.bound)):
            break
        state.bounds.append(info.bound)
    return state


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
    before, projected = state, state.local_repairs
    state = judged(problem, state)
    assert state.previous is not None
    bound, repairs = state.previous.bound, state.repairs - before.repairs
    rate *= before.damping / 2**repairs
    change = abs(bound - here.bound) / (rate * size)
    state = replace(state, small_changes=state.small_changes + 1 if change < tol else 0)
    repairs += state.local_repairs - projected
    return state, StepInfo(bound, True, rate, repairs), False


def propose(problem: Problem, state: State, gradient: dict[str, Any], rate: float) -> tuple[dict, dict, float]:
    """The next q; the fixed-point algorithm then solves for the mean at the new covariance."""
    try:
        q, memory, gain = step(problem, state, gradient, rate)
    except NotPositiveDefinite as error:
        raise impossible(problem, state, error) from error
    if problem.deterministic and problem.algorithm.natural and rate * state.damping == 1.0:
        q = settled_prior(problem, q, None, PRIOR_STEPS)
    if solves_mean(problem, state):
        q[problem.model.block] = solved_mean(problem, replace(state, q=q))
    return q, memory, gain


def impossible(problem: Problem, state: State, error: NotPositiveDefinite) -> ValueError:
    """The error of a step that no halving saves."""
    return ValueError(
        f"block {problem.model.block!r}, pass {state.passes + 1}: {error}, even after {MAX_HALVINGS} halvings of the "
        f"step. {problem.model.remedy}"
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
                raise impossible(problem, state, error) from error
            bound = -np.inf
        except NonFinite:
            if before is None:
                raise
            bound = -np.inf
        # A deterministic rule with an error of its own (softmax) may see a fall where there is none.
        slack = 0.0 if before is None else (ROUNDING + problem.model.rule_error) * (abs(before.bound) + 1)
        if before is None or bound >= before.bound - slack:
            damping = state.damping if before is None or halvings else min(1.0, DAMPING_GROWTH * state.damping)
            return replace(state, previous=Evaluation(state.q, gradient, bound, state.memory), damping=damping)
        back = replace(state, q=before.q, memory=before.memory, damping=state.damping / 2, repairs=state.repairs + 1)
        q, memory, _ = propose(problem, back, before.gradient, problem.algorithm.rate(state.steps - 1, True))
        state = replace(back, q=q, memory=memory)
    assert state.previous is not None
    return replace(state, q=state.previous.q)


def stochastic_pass(problem: Problem, state: State, tol: float) -> tuple[State, StepInfo, bool]:
    """Steps over shuffled batches; the mean of their scaled bounds stands for the pass."""
    if settled(state.checks, tol):
        return state, StepInfo(state.bounds[-1], False, 0.0, 0), True
    bounds, shares, rate, before = [], [], 0.0, state.repairs + state.local_repairs
    for segment in problem.model.sweep(problem.data, problem.batch_size, state.seed, state.passes):
        state, bound, rate = stochastic_step(problem, state, segment)
        bounds.append(bound)
        shares.append(1.0 / segment.scale)
    state = replace(state, passes=state.passes + 1, previous=None)
    if check_due(len(state.bounds) + 1):
        if tol > 0:  # else nothing settles, and the check would cost a pass
            exact = exact_bound(problem, replace(state, q=state.average))
            state = replace(state, checks=[*state.checks, exact])
        if state.sites is not None:
            state.sites.total = summed_sites(problem, state)
    repairs = state.repairs + state.local_repairs - before
    return state, StepInfo(float(np.average(bounds, weights=shares)), False, rate, repairs), False


def summed_sites(problem: Problem, state: State) -> tuple[Any, Any]:
    """The sums of all sites, afresh: changes that were added up drift by their rounding."""
    model, data, sites = problem.model, problem.data, state.sites
    assert sites is not None

    def one(rows: Any) -> Any:
        return model.pull_back(sites.as_terms(rows), model.batch(data, rows))[model.block]

    rows = model.blocks(slice(0, len(data)), data)
    return _parallel.tree_sum(_parallel.in_order(one, rows, problem.threads))


def data_value(problem: Problem, state: State) -> float:
    """The data's part of the bound at the state's q, without noise."""
    return evaluate(replace(problem, expect=problem.exact), state, whole(problem), gradient_wanted=False)[1]


def exact_bound(problem: Problem, state: State) -> float:
    """The bound of all data at the state's q, without noise."""
    bound = data_value(problem, state) - divergence(problem, state, state.q)
    check_finite(bound, {}, state)
    return bound


def stochastic_step(problem: Problem, state: State, segment: Segment) -> tuple[State, float, float]:
    """One step on a segment: gradient, or change of sites, and the scaled bound before the step."""
    remembers = problem.remembers and not problem.full_batch
    # What is remembered moves once a pass, everything else with every batch.
    rate = problem.algorithm.rate(state.passes if remembers else state.steps, False, remembers)
    if remembers and state.sites is None:
        name = problem.model.block
        shapes = problem.model.site_shapes(len(problem.data))
        state = replace(state, sites=Sites.empty(state.q[name], prior_of(problem, state)[name], *shapes))
    gradient, value = evaluate(problem, state, segment, rate if remembers else None)
    bound = value - divergence(problem, state, state.q)
    check_finite(bound, gradient, state)
    if remembers:
        change = gradient.pop(problem.model.block)
        gradient = _parallel.scaled(gradient, segment.scale * problem.scale)
        q, memory, _ = site_update(problem, state, change, gradient, rate, 1.0 / segment.scale)
    else:
        q, memory, _ = propose(problem, state, gradient, rate)
    state = replace(state, q=q, memory=memory, steps=state.steps + 1)
    return replace(state, average=averaged(state)), bound, rate


def averaged(state: State) -> dict[str, Any]:
    """Mean of all q so far with weights that grow as t³: what noise is left in the steps averages out (Polyak)."""
    # Where free blocks move, q of an earlier pass belongs to other coordinates than today's: no mean of them is one.
    if not state.average or any(block.kind == "free" for block in state.q.values()):
        return state.q
    weight = 4.0 / (state.steps + 3.0)
    return {name: state.average[name].blended(block, weight) for name, block in state.q.items()}


def site_update(
    problem: Problem, state: State, change: Any, gradient: dict[str, Any], rate: float, share: float
) -> tuple[dict[str, Any], dict, float]:
    """q from prior, sites and what is left of the first q; points and other blocks take their own steps."""
    q, main = dict(state.q), problem.model.block
    assert state.sites is not None
    state.sites.add(change)
    memory = dict(state.memory)
    for name, (move, _) in problem.model.point_steps(q, gradient).items():
        q[name] = q[name].moved(move, rate)
    move_free(problem, q, gradient, memory)
    try:
        prior = prior_of(problem, replace(state, q=q))
        q[main] = state.sites.block(q[main], prior.pop(main), rate * share)
        own = problem.algorithm.rate(state.steps, False)
        n = problem.data.total_weight * problem.scale
        for name, before in prior.items():
            step = problem.algorithm.step(q[name], before, gradient[name], own, 1.0, memory.get(name), n)
            q[name], memory[name] = step
    except NotPositiveDefinite as error:
        raise impossible(problem, state, error) from error
    return q, memory, 0.0


def resettled(problem: Problem, state: State) -> State:
    """After noisy steps of free blocks q lags behind them: a few judged natural steps on all rows, they still."""
    name = problem.model.block
    free = {key for key, block in state.q.items() if block.kind == "free"} - problem.frozen
    if not free or not hasattr(state.q[name], "natural"):
        return state
    still = replace(problem, expect=problem.exact, batch_size=None, algorithm=MCSSVI(), frozen=problem.frozen | free)
    inner = settle(still, state, RESETTLING_PASSES, RESETTLING_TOL)
    assert inner.previous is not None
    return replace(state, q=inner.previous.q, repairs=inner.repairs)


def close(problem: Problem, state: State) -> State:
    """Leave q with its own bound: evaluated already by a judged fit, one exact pass after a stochastic one."""
    if state.previous is not None:
        gradient, bound = state.previous.gradient, state.previous.bound
    else:
        state = resettled(problem, replace(state, q=state.average or state.q))
        learned = any(block.kind == "point" for block in state.q.values())
        exact = replace(problem, expect=problem.exact)
        gradient, value = evaluate(exact, state, whole(problem), gradient_wanted=learned)
        bound = value - divergence(problem, state, state.q)
        check_finite(bound, gradient, state)
    q = remembered_points(state.q, gradient)
    return replace(state, q=q, average={}, finished=True, bound=bound, previous=None, sites=None, small_changes=0)
