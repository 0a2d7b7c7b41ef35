"""Checks for one's own models, through segments and each family's own coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sksvi.algorithms.rules import Adam, ClosedForm, Newton, Searched, StepSize
from sksvi.algorithms.specs import MCSSVI
from sksvi.algorithms.steps import shortened
from sksvi.expectations import Auto
from sksvi.inference import plan
from sksvi.inference.engine import bound, evaluate, whole
from sksvi.inference.passes.line_search import run_until_settled
from sksvi.inference.problem import GLOBALS, Problem, RowSums
from sksvi.inference.search import Fitting
from sksvi.inference.start import locals_of
from sksvi.inference.state import State, check_finite
from sksvi.models.base import Bipartite, Blocks, Gradient, Linear, Model, Segment
from sksvi.testing._close import _assert_close

Array = np.ndarray

#: Step of central differences, relative to natural parameters; directions of each part of a gradient.
STEP, DIRECTIONS = 1e-4, 3
#: Largest change of natural parameters, relative, from the model's first q to where it is checked.
AWAY = 0.1
#: Relative error of sums over rows in another order.
ROUNDING = 1e-9
#: A pass long after the first ones, which may see globals otherwise.
LATE = 1000
#: Passes in which q settles before hyperparameters are searched for.
PASSES = 30


def check_model(model: Model, data: Any, *, tolerance: float = 1e-4, seed: int = 0) -> None:
    """Raise AssertionError if a model's gradients are not those of its bound.

    At a random q near the model's first one: every block has a prior or a rule of its own, and every block that steps
    has a gradient; segments of a pass name blocks of q, visit every row once and stand for all of them; the gradient of
    every block, part by part in its family's own coordinates, is compared with finite differences of E log p. Segments
    and chunks must add up to the whole, rows given twice must count twice, whole weights must count as repeats, and
    several threads must give the same bits. A step of a hyperparameter, a search for one and the best mean of a linear
    model must point uphill, and messages must add up to the natural gradient. A model with local variables must have
    been told to settle or to hold them, and one whose local step draws has no bound to check.

    Parameters
    ----------
    model : Model
        See :class:`sksvi.models.base.Model`.
    data : Data
        A few dozen rows do.
    tolerance : float, default=1e-4
        Relative error allowed in a gradient; more where the integral over the latents is itself an approximation.
    seed : int, default=0
        For q and directions.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Poisson
    >>> from sksvi.models.data import Table
    >>> from sksvi.models.linear.glm import LinearModel
    >>> from sksvi.testing import check_model
    >>> model = LinearModel(Poisson(), prior_precision=1.0, intercept_precision=0.1, n_features=1,
    ...                     fit_intercept=True, full=True)
    >>> check_model(model, Table(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 4.0])))
    """
    rng = np.random.default_rng(seed)
    problem = replace(plan.problem(model, data, MCSSVI(), Auto()), globals=GLOBALS["expected"], warmup_globals=None)
    q = _near(problem, dict(model.starts.filled(model.begin(data, rng), data)), rng)
    look = ModelEvaluation(problem, seed)
    _check_blocks(model, data, q)
    gradient, value = look(q)
    check_finite(value, gradient, State(q, seed))
    _check_names(model, q, gradient)
    _check_segments(problem, q)
    if not model.traits.bound.noisy:
        for name in gradient:
            _check_gradient(name, gradient[name], q, look, rng, tolerance)
    if isinstance(model, Bipartite):
        _check_sides(problem, q, rng, tolerance)
    elif model.traits.bound.additive:
        _check_sums(look, q, gradient, value, rng)
    _check_threads(look, q, gradient, value)
    if not model.traits.bound.noisy:
        _check_hyper(look, q, gradient)
        _check_search(look, q, tolerance)
        _check_sums_over_rows(look, q, gradient, value, rng)
        if isinstance(model, Linear):
            _check_linear(look, q, gradient)


class ModelEvaluation:
    """E log p and its gradient at some q, from fresh local variables, for a problem and a seed."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.seed = problem, seed

    def state(self, q: Blocks) -> State:
        """The state at q before any step."""
        return State(q, self.seed, locals=locals_of(self.problem, State(q, self.seed)))

    def of(self, **changes: Any) -> ModelEvaluation:
        """This evaluation with some attributes of the problem replaced."""
        return ModelEvaluation(replace(self.problem, **changes), self.seed)

    def __call__(self, q: Blocks, rows: Any = None, scale: float = 1.0) -> tuple[Gradient, float]:
        segment = whole(self.problem) if rows is None else Segment(rows, scale)
        return evaluate(replace(self.problem, sums=RowSums()), self.state(q), segment)

    def bound(self, q: Blocks) -> float:
        """The bound at q, nats."""
        return bound(self.problem, self.state(q), self(q)[1])


# ---- where it is checked
def _near(problem: Problem, q: Blocks, rng: Any) -> Blocks:
    """A q near the model's first one; a Gaussian's mean is a draw."""
    for name in sorted(q.keys() - problem.model.hyper.keys()):
        block = q[name]
        step = block.for_step()
        away = [sum(parts) for parts in zip(*_directions(step, rng, positive=True), strict=True)]

        def short(share: float, block: Any = block, away: list[Any] = away) -> Any:
            return _factored(_moved(block, away, AWAY * share))

        q[name] = shortened(short)
    return q


def _factored(block: Any) -> Any:
    block.prepare()
    return block


def _directions(block: Any, rng: Any, positive: bool = False) -> list[list[Any]]:
    """Directions in natural coordinates, one per part of the gradient, that stay in the family's domain if short.

    ``positive``: precisions grow, so that messages about a Gaussian that is its own prior say something.
    """
    if block.column != "gaussian":
        (theta,) = block.natural(block)
        return [[theta * rng.uniform(-1.0, 1.0, np.shape(theta))]]
    shift, precision = block.natural(block)
    way = rng.uniform(-1.0, 1.0, np.shape(shift)) / block.std
    if np.shape(precision) == np.shape(block.mean):
        turn = rng.uniform(0.0 if positive else -1.0, 1.0, np.shape(shift)) / block.variance
        # A message that says nothing cannot say less.
        turn = turn if positive else np.where(precision > 0, precision, 0.0) * turn * block.variance
    else:
        size = np.sqrt(block.structure.diagonal(precision))
        u, v = (size * rng.uniform(-1.0, 1.0, np.shape(shift)) for _ in range(2))
        turn = (block.structure.outer(u, v, block) + precision * rng.uniform(0.0, 0.5)) / np.sqrt(size.shape[-1])
    way = way / AWAY if positive else way
    return [[way, 0.0 * precision], [0.0 * shift, turn]]


def _moved(block: Any, direction: list[Any], share: float) -> Any:
    step = block.for_step()
    natural = [theta + share * d for theta, d in zip(step.natural(step), direction, strict=True)]
    return block.from_step(step.replace(natural))


# ---- gradients
def _moments(block: Any, parts: tuple[Any, ...]) -> list[Any]:
    """What the parts of a gradient are derivatives in."""
    if block.column != "gaussian":
        return [block.moments]
    second = parts[1]
    if not isinstance(second, np.ndarray):  # a structured matrix: on its pattern
        return [block.mean, block.within]
    return [block.mean, block.cov if second.ndim > block.mean.ndim else block.variance]


def _products(part: Any, rise: Any) -> Array:
    """What adds up to the part's share of the rise of the bound."""
    return np.ravel(part * rise) if isinstance(part, np.ndarray) else np.array([part.inner(rise)])


#: Products that add up to a rise of the bound, the rise by differences, and what rounding makes of it.
Rise = tuple[Array, float, float]


def _check_rise(rise: Callable[[float], Rise], what: str, tolerance: float) -> None:
    """Products against differences of a step; where these err by its square, of half of it too, which removes that.

    A row's own variables may settle elsewhere at the two ends, and its part of the bound jump: rarely so between the
    ends of a shorter step.
    """
    for found in _rises(rise):
        if _off(*found, tolerance) <= tolerance:
            return
    _assert_rise(*found, what, tolerance)


def _rises(rise: Callable[[float], Rise]) -> Iterator[Rise]:
    """Rises of ever shorter steps: of each alone, and extrapolated from it and its half."""
    for step in (STEP, STEP / 10, STEP / 100):
        whole = rise(step)
        yield whole
        half = rise(step / 2)
        products, difference = (4.0 * half[0] - whole[0]) / 3.0, (4.0 * half[1] - whole[1]) / 3.0
        yield products, difference, (4.0 * half[2] + whole[2]) / 3.0


def _off(found: Array, wanted: float, noise: float, tolerance: float) -> float:
    """A sum of products against a difference: relative to the smaller of 1 + itself and the size of the products."""
    size = min(1.0 + abs(wanted), float(np.abs(found).sum()) + abs(wanted)) + noise / tolerance
    return abs(float(found.sum()) - wanted) / max(size, np.finfo(float).tiny)


def _assert_rise(found: Array, wanted: float, noise: float, what: str, tolerance: float) -> None:
    """An error that says by how much the two differ."""
    error = _off(found, wanted, noise, tolerance)
    assert error <= tolerance, f"the {what} is off by {error:.1e}, more than {tolerance:.0e}."


def _check_gradient(
    name: str, parts: tuple[Any, ...], q: Blocks, look: Callable[[Blocks], Any], rng: Any, tolerance: float
) -> None:
    """One block's gradient against central differences of E log p, part by part."""
    block = q[name]
    if block.column == "hyper":
        _check_point(name, parts, q, look, rng, tolerance)
        return
    words = ("in the mean", "in the covariance") if block.column == "gaussian" else ("in the moments",)
    # What follows a gradient is a curvature, which may be one that is safe.
    parts = parts[: len(words)]
    assert all(np.shape(part) == np.shape(at) for part, at in zip(parts, _moments(block, parts), strict=True)), (
        f"the gradient of {name!r} has another shape than what it is taken in."
    )
    for _ in range(DIRECTIONS):
        for word, direction in zip(words, _directions(block.for_step(), rng), strict=True):

            def rise(step: float, direction: list[Any] = direction) -> Rise:
                ends = [_moved(block, direction, share) for share in (step, -step)]
                above, below = (_moments(end, parts) for end in ends)
                found = [_products(part, a - b) / step for part, a, b in zip(parts, above, below, strict=True)]
                high, low = (look({**q, name: end})[1] for end in ends)
                return np.concatenate(found), (high - low) / step, 1e-14 * (abs(high) + 1) / step

            _check_rise(rise, f"gradient of {name!r} {word}", tolerance)


def _check_point(
    name: str, parts: tuple[Any, ...], q: Blocks, look: Callable[[Blocks], Any], rng: Any, tolerance: float
) -> None:
    """A point's gradient; its curvature may be one that is safe, so that its step is what is looked at."""
    block = q[name]
    assert np.shape(parts[0]) == np.shape(block.value), f"the gradient of {name!r} has another shape than its value."
    for _ in range(DIRECTIONS):
        way = rng.standard_normal(block.value.shape)

        def rise(step: float, way: Array = way) -> Rise:
            ends = [type(block)(block.value + share * way) for share in (step, -step)]
            high, low = (look({**q, name: end})[1] for end in ends)
            return np.ravel(2 * parts[0] * way), (high - low) / step, 1e-14 * (abs(high) + 1) / step

        _check_rise(rise, f"gradient of {name!r}", tolerance)
    if len(parts) > 1:
        assert np.allclose(parts[1], parts[1].T, rtol=ROUNDING, atol=0.0), (
            f"the curvature of {name!r} is not symmetric."
        )


# ---- blocks, rows
def _check_blocks(model: Any, data: Any, q: Blocks) -> None:
    """Every block has a prior or a rule; the data at hand bring nothing new."""
    prior, hyper = model.prior(q), model.hyper
    assert set(q) == set(prior) | set(hyper), "a block needs a prior, or a rule in `hyper`; not both."
    assert not set(prior) & set(hyper), "a block with a prior has a rule in `hyper` too."
    for name, block in prior.items():
        assert q[name].kl(block) >= -ROUNDING, f"{name!r} has a negative divergence from its prior."
    grown = model.grown(q, data)
    assert set(grown) == set(q) and all(grown[name] is q[name] for name in q), "data at hand make blocks grow."


def _check_names(model: Any, q: Blocks, gradient: Gradient) -> None:
    """Every block that steps along a gradient has one."""
    assert set(gradient) <= set(q), f"{sorted(set(gradient) - set(q))} has a gradient and is no block of q."
    stepped = {name for name, rule in model.hyper.items() if isinstance(rule, Newton)}
    if not isinstance(model, Bipartite):
        stepped |= set(q) - set(model.hyper)
    assert stepped <= set(gradient), f"{sorted(stepped - set(gradient))} has no gradient."


def _check_segments(problem: Problem, q: Blocks) -> None:
    """A pass names blocks of q and visits every row once per block; each segment stands for all that the data weigh."""
    model, data = problem.model, problem.data
    for size in (None, max(len(data) // 3, 1)) if model.traits.bound.additive else (None,):
        rows_of_block: dict[str, list[Array]] = {name: [] for name in q}
        for segment in model.sweep(data, size, 0, LATE):
            rows = np.arange(len(data))[segment.rows]
            weight = data.total_weight if len(rows) == len(data) else data.take(rows).total_weight
            error = abs(segment.scale * weight / data.total_weight - 1.0)
            assert error <= ROUNDING, "a segment does not stand for all rows."
            for name in segment.blocks or q:
                assert name in q, f"a segment names {name!r}, which is no block of q."
                rows_of_block[name].append(rows)
        visited = [np.sort(np.concatenate(parts)) for parts in rows_of_block.values() if parts]
        assert visited and all(np.array_equal(rows, np.arange(len(data))) for rows in visited), "a pass misses rows."


def _check_sums(look: ModelEvaluation, q: Blocks, gradient: Gradient, value: float, rng: Any) -> None:
    """Parts add up, rows given twice count twice, and whole weights are repeats."""
    model: Any = look.problem.model
    data: Any = look.problem.data
    n = len(data)
    parts = [look(q, part) for part in np.array_split(rng.permutation(n), 3)]
    _assert_sum(gradient, value, parts, "parts of the rows do not add up to the whole")
    parts = []
    for segment in list(model.sweep(data, max(n // 3, 1), 0, LATE)):
        part, share = look(q, segment.rows, segment.scale)
        parts.append(({k: tuple(p / segment.scale for p in v) for k, v in part.items()}, share / segment.scale))
    _assert_sum(gradient, value, parts, "segments do not add up to the whole")
    twice = look(q, np.repeat(np.arange(n), 2))
    _assert_sum(*twice, [(gradient, value)] * 2, "rows given twice do not count twice")
    if getattr(data, "weight", None) is not None:
        times = rng.integers(0, 3, n)
        weighted = look.of(data=replace(data, weight=times.astype(float)))(q)
        once = look.of(data=replace(data, weight=np.ones(n)))
        repeated = once(q, np.repeat(np.arange(n), times))
        _assert_sum(*weighted, [repeated], "whole weights are not repeats")


def _check_threads(look: ModelEvaluation, q: Blocks, gradient: Gradient, value: float) -> None:
    """Rows in several chunks add up to the same, and to the same bits however many threads there are."""
    model: Any = look.problem.model

    def chunks(rows: Any, data: Any) -> list[Any]:
        return [part for chunk in model.chunks(rows, data) for part in _split(chunk)]

    several = model.replaced(chunks=chunks) if model.traits.bound.additive else model
    one, three = (look.of(model=several, threads=threads)(q) for threads in (1, 3))
    assert one[1] == three[1] and all(_equal(one[0][k], three[0][k]) for k in gradient), "threads change bits."
    if not model.traits.bound.noisy:
        _assert_sum(gradient, value, [one], "chunks do not add up to the whole")


def _split(chunk: Any) -> list[Any]:
    """A chunk as up to four."""
    if not isinstance(chunk, slice):
        return [part for part in np.array_split(chunk, 4) if len(part)]
    edges = np.unique(np.linspace(chunk.start, chunk.stop, 5).astype(int))
    return [slice(int(a), int(b), chunk.step) for a, b in pairwise(edges)]


def _check_sides(problem: Problem, q: Blocks, rng: Any, tolerance: float) -> None:
    """Gradients of plates given the other side, and chunks of them that add up."""
    model: Any = problem.model
    for side in model.alternating.sides:
        entries, view = problem.data.sides[side], model.side_view(q, side, problem.expect, None)  # type: ignore[attr-defined]

        def look(plates: Any, block: Any, view: Any = view, entries: Any = entries) -> Any:
            return view.plates(entries.of(plates), problem.expect, None)

        everything = slice(0, q[side].n_plates)
        value, parts = look(everything, q[side]).terms(q[side])

        def total(blocks: Blocks, side: str = side, look: Any = look, everything: Any = everything) -> Any:
            return None, float(look(everything, blocks[side]).value(blocks[side]).sum())

        _assert_close(look(everything, q[side]).value(q[side]), value, f"value of {side}", q[side], 1e-10)
        _check_gradient(side, parts, q, total, rng, tolerance)
        chunks = view.chunks(entries)
        rows = np.concatenate([np.arange(q[side].n_plates)[chunk] for chunk in chunks])
        assert np.array_equal(rows, np.arange(q[side].n_plates)), f"chunks miss plates of {side}."
        for plates in np.array_split(rng.permutation(q[side].n_plates), 2):
            own, part = look(plates, q[side][plates]).terms(q[side][plates])
            _assert_close(own, value[plates], f"value of some {side}", q[side], 1e-10)
            for mine, its in zip(part, parts, strict=True):
                _assert_close(mine, its[plates], f"gradient of some {side}", q[side], 1e-10)


# ---- what points uphill
def _check_hyper(look: ModelEvaluation, q: Blocks, gradient: Gradient) -> None:
    """A small part of a hyperparameter's step raises the bound."""
    for name, rule in look.problem.model.hyper.items():
        if isinstance(rule, ClosedForm) or (isinstance(rule, Newton | Adam) and name in gradient):
            pace = StepSize(1e-3, 1.0, look.problem.weight)
            moved = rule.step(name, q, None, gradient.get(name), None, pace).block
            if isinstance(rule, Adam):  # its step has a length of its own
                moved = type(moved)(q[name].value + 1e-4 * (moved.value - q[name].value))
            here, there = look.bound(q), look.bound({**q, name: moved})
            assert there >= here - ROUNDING * (1 + abs(here)), f"the step of {name!r} goes downhill."


def _check_search(look: ModelEvaluation, q: Blocks, tolerance: float) -> None:
    """Where a search for hyperparameters ends the bound is no smaller than where it began."""
    model: Any = look.problem.model
    if not any(isinstance(rule, Searched) for rule in model.hyper.values()):
        return
    state = run_until_settled(look.problem, look.state(q), PASSES, 1e-8)
    fit, before = Fitting(look.problem, state, lambda bound: False), look.bound(state.q)
    found, moved = model.search(fit, tolerance)
    after = look.bound(found)
    assert set(found) == set(q), "a search changes which blocks there are."
    assert after >= before - tolerance * (1 + abs(before)), "a search for hyperparameters ends downhill."
    if not moved:
        assert all(found[name] is state.q[name] for name in q) or after >= before, "a search moves q without telling."


def _check_linear(look: ModelEvaluation, q: Blocks, gradient: Gradient) -> None:
    """Messages have the shapes of `message_shapes` and add up to the natural gradient; the best mean is uphill."""
    problem = look.problem
    model: Any = problem.model
    name, data = model.main, problem.data
    prior = model.prior(q)[name]
    if model.traits.bound.additive:
        batch = model.batch(data, slice(0, len(data)))
        terms = model.terms(problem.globals.view(model, q, np.random.default_rng(0)), batch, problem.expect, None)
        linear, quadratic = terms.message()
        shapes = model.message_shapes(len(data))
        assert (np.shape(linear), np.shape(quadratic)) == shapes, "messages have other shapes than they should."
        if q[name].full:
            pulled_back = model.pull_back(replace(terms, alpha=linear, gamma=quadratic), batch)[name]
            slope, curvature = gradient[name]
            found = slope - 2.0 * q[name].structure.dot(curvature, q[name].mean)
            _assert_sum(
                {name: (found, curvature)}, 0.0, [({name: pulled_back}, 0.0)], "messages are not the natural gradient"
            )
    best = model.best_mean(q, prior, data, problem.expect, 1.0, 1, 50)
    here, there = look.bound(q), look.bound({**q, name: best})
    assert there >= here - ROUNDING * (1 + abs(here)), "the best mean is downhill."
    _assert_close(best.std, q[name].std, "spread after the best mean", q[name], 1e-9)


def _check_sums_over_rows(look: ModelEvaluation, q: Blocks, gradient: Gradient, value: float, rng: Any) -> None:
    """Sufficient statistics, where there are any, say at another q what the rows say there."""
    sums = look.problem.model.sums(q, gradient, value, look.problem.data.total_weight)
    if sums is None:
        return
    there = _near(look.problem, dict(q), rng)
    if "likelihood" in there:
        there["likelihood"] = there["likelihood"].at(there["likelihood"].value + AWAY)
    found = sums.at(look.problem.model, there)
    assert found is not None, "sums over rows say nothing of another q."
    _assert_sum(*look(there), [found], "sums over rows are not what rows say at another q")


# ---- comparisons
def _equal(these: tuple[Any, ...], those: tuple[Any, ...]) -> bool:
    flat = [[p for part in parts for p in getattr(part, "parts", (part,))] for parts in (these, those)]
    return all(np.array_equal(a, b) for a, b in zip(*flat, strict=True))


def _assert_sum(gradient: Gradient, value: float, parts: list[Any], what: str) -> None:
    names = list(gradient)
    wanted = [value, *(part for name in names for part in gradient[name])]
    summands = [[other, *(part for name in names for part in each[name])] for each, other in parts]
    for total, *pieces in zip(wanted, *summands, strict=True):
        apart, size = sum(pieces[1:], pieces[0]) - total, total
        if not isinstance(total, np.ndarray | float):
            apart, size = apart.dense(), total.dense()
        error = np.max(np.abs(apart), initial=0.0) / (1 + np.max(np.abs(size), initial=0.0))
        assert error <= ROUNDING, f"{what}: off by {error:.1e}."
