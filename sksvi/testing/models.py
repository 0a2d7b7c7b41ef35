"""Checks for one's own models, through segments and each family's own coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sksvi.algorithms.rows import MCSSVI
from sksvi.algorithms.rules import ClosedForm, Newton, Pace
from sksvi.expectations import Auto
from sksvi.inference import plan
from sksvi.inference.engine import bound, evaluate, whole
from sksvi.inference.problem import Problem
from sksvi.inference.start import locals_of
from sksvi.inference.state import State, check_finite
from sksvi.models.base import Blocks, Gradient, Segment, Sided
from sksvi.testing._close import _assert_close

Array = Any

#: Step of central differences, relative to natural parameters.
STEP = 1e-4


def check_model(model: Any, data: Any, *, tolerance: float = 1e-4, seed: int = 0) -> None:
    """Raise AssertionError if a model's gradients are not those of its bound.

    At a random q near the model's first one: every block has a prior or a rule of its own; segments of a pass name
    blocks of q and visit every row once; the gradient of every block, in its family's own coordinates, is compared with
    finite differences of E log p; parts of the rows must add up to the whole, rows given twice must count twice, and
    several threads must give the same bits; a step of a hyperparameter must point uphill. A model with local variables
    must have been told to settle them, and one whose local step draws has no bound to check.

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
    >>> from sksvi.models.base import Table
    >>> from sksvi.models.linear.glm import LinearModel
    >>> from sksvi.testing import check_model
    >>> model = LinearModel(Poisson(), prior_precision=1.0, intercept_precision=0.1, n_features=1,
    ...                     fit_intercept=True, full=True)
    >>> check_model(model, Table(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 4.0])))
    """
    rng = np.random.default_rng(seed)
    problem = plan.problem(model, data, MCSSVI(), Auto())
    problem = replace(problem, globals=plan.GLOBALS["expected"])
    q = _near(problem, dict(model.begin(data, rng)), rng)
    look = Look(problem, seed)
    assert set(q) == set(model.prior(q)) | set(model.hyper), "a block needs a prior, or a rule in `hyper`; not both."
    assert not set(model.prior(q)) & set(model.hyper), "a block with a prior has a rule in `hyper` too."
    _check_segments(problem, q)
    gradient, value = look(q)
    check_finite(value, gradient, State(q, seed))
    for name, parts in gradient.items():
        _check_gradient(name, parts, q, lambda blocks: look(blocks)[1], rng, tolerance)
    if isinstance(model, Sided):
        _check_sides(problem, q, rng, tolerance)
    elif model.batchable:
        rows = [look(q, part) for part in np.array_split(rng.permutation(len(data)), 3)]
        _assert_sum(gradient, value, rows, "parts of the rows do not add up to the whole")
        twice = look(q, np.repeat(np.arange(len(data)), 2))
        _assert_sum(*twice, [(gradient, value)] * 2, "rows given twice do not count twice")
    again, same = Look(replace(problem, threads=3), seed)(q)
    assert same == value and all(_equal(gradient[k], again[k]) for k in gradient), "threads change bits."
    _check_hyper(look, q, gradient)


class Look:
    """E log p and its gradient at some q, from fresh local variables, for a problem and a seed."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.seed = problem, seed

    def state(self, q: Blocks) -> State:
        """The state at q before any step."""
        return State(q, self.seed, locals=locals_of(self.problem, State(q, self.seed)))

    def __call__(self, q: Blocks, rows: Any = None) -> tuple[Gradient, float]:
        segment = whole(self.problem) if rows is None else Segment(rows, 1.0)
        return evaluate(self.problem, self.state(q), segment)

    def bound(self, q: Blocks) -> float:
        """The bound at q, nats."""
        return bound(self.problem, self.state(q), self(q)[1])


def _near(problem: Problem, q: Blocks, rng: Any) -> Blocks:
    """A q near the model's first one; a Gaussian's mean is a draw."""
    for name in q.keys() - problem.model.hyper.keys():
        step = q[name].stepping()
        away = [0.1 * d for d in _direction(step, rng)]
        q[name] = q[name].held(step.replace([t + d for t, d in zip(step.natural(step), away, strict=True)]))
    return q


def _direction(block: Any, rng: Any) -> list[Any]:
    """A direction in natural coordinates that stays in the family's domain for shares below one."""
    parts = []
    for theta in block.natural(block):
        tilt = rng.uniform(-1.0, 1.0, np.shape(theta)) if isinstance(theta, np.ndarray) else rng.uniform(-1.0, 1.0)
        parts.append(theta * tilt)
    if block.column == "gaussian":
        shift = parts[0] + rng.uniform(-1.0, 1.0, np.shape(parts[0])) / block.std
        turn = parts[1]
        if isinstance(turn, np.ndarray) and turn.ndim > block.mean.ndim:
            turn = 0.5 * (turn + np.swapaxes(turn, -1, -2)) / np.sqrt(block.mean.shape[-1])
        parts = [shift, 0.5 * turn]
    return parts


def _moved(block: Any, direction: list[Any], share: float) -> Any:
    step = block.stepping()
    return block.held(step.replace([t + share * d for t, d in zip(step.natural(step), direction, strict=True)]))


def _moments(block: Any, parts: tuple[Any, ...]) -> list[Any]:
    """What the parts of a gradient are derivatives in."""
    if block.column != "gaussian":
        return [block.moments]
    second = parts[1]
    if not isinstance(second, np.ndarray):  # a structured matrix: on its pattern
        return [block.mean, block.within]
    return [block.mean, block.cov if second.ndim > block.mean.ndim else block.variance]


def _inner(part: Any, rise: Any) -> float:
    return float(np.sum(part * rise)) if isinstance(part, np.ndarray) else float(part.inner(rise))


def _check_gradient(
    name: str, parts: tuple[Any, ...], q: Blocks, value: Callable[[Blocks], float], rng: Any, tolerance: float
) -> None:
    """One block's gradient against central differences of E log p."""
    block = q[name]
    if block.column == "hyper":
        way = rng.standard_normal(block.value.shape)
        ends = [type(block)(block.value + share * way) for share in (STEP, -STEP)]
        found = 2 * STEP * float(np.sum(parts[0] * way))
    else:
        direction = _direction(block.stepping(), rng)
        ends = [_moved(block, direction, share) for share in (STEP, -STEP)]
        above, below = (_moments(end, parts) for end in ends)
        found = sum(_inner(part, a - b) for part, a, b in zip(parts, above, below, strict=True))
    high, low = (value({**q, name: end}) for end in ends)
    _assert_close(np.asarray(found / STEP), np.asarray((high - low) / STEP), f"gradient of {name!r}", block, tolerance)


def _check_segments(problem: Problem, q: Blocks) -> None:
    """A pass names blocks of q and visits every row once per block; what it visits weighs what the data do."""
    model, data = problem.model, problem.data
    for size in (None, max(len(data) // 3, 1)) if model.batchable else (None,):
        seen: dict[str, list[Array]] = {name: [] for name in q}
        for segment in model.sweep(data, size, 0, 1):
            rows = np.arange(len(data))[segment.rows]
            assert segment.scale >= 1.0 - 1e-12, "a segment stands for less than itself."
            for name in segment.blocks or q:
                assert name in q, f"a segment names {name!r}, which is no block of q."
                seen[name].append(rows)
        visited = [np.sort(np.concatenate(parts)) for parts in seen.values() if parts]
        assert all(np.array_equal(rows, np.arange(len(data))) for rows in visited), "a pass misses rows."


def _check_sides(problem: Problem, q: Blocks, rng: Any, tolerance: float) -> None:
    """Gradients of plates given the other side, and chunks of them that add up."""
    model: Any = problem.model
    for side in model.sides:
        entries, view = problem.data.sides[side], model.seen_from(q, side, problem.expect, None)  # type: ignore[attr-defined]

        def look(plates: Any, block: Any, view: Any = view, entries: Any = entries) -> tuple[Any, Any]:
            return model.columns(view, entries.of(plates), problem.expect, None).terms(block)  # type: ignore[no-any-return]

        everything = slice(0, q[side].n_plates)
        value, parts = look(everything, q[side])

        def total(blocks: Blocks, side: str = side, look: Any = look, everything: Any = everything) -> float:
            return float(look(everything, blocks[side])[0].sum())

        _check_gradient(side, parts, q, total, rng, tolerance)
        halves = np.array_split(rng.permutation(q[side].n_plates), 2)
        for plates in halves:
            own, part = look(plates, q[side][plates])
            _assert_close(own, value[plates], f"value of some {side}", q[side], 1e-10)
            _assert_close(part[0], parts[0][plates], f"gradient of some {side}", q[side], 1e-10)


def _check_hyper(look: Look, q: Blocks, gradient: Gradient) -> None:
    """A small part of a hyperparameter's step raises the bound."""
    for name, rule in look.problem.model.hyper.items():
        if isinstance(rule, Newton | ClosedForm) and (isinstance(rule, ClosedForm) or name in gradient):
            pace = Pace(1e-3, 1.0, look.problem.weight)
            moved = rule.step(name, q, None, gradient.get(name), None, pace).block
            here, there = look.bound(q), look.bound({**q, name: moved})
            assert there >= here - 1e-9 * (1 + abs(here)), f"the step of {name!r} goes downhill."


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
        assert error <= 1e-10, f"{what}: off by {error:.1e}."
