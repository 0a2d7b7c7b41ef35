"""Hyperparameters by the evidence: L-BFGS, or Newton's steps, on a bound whose q is solved for at every point.

By the envelope theorem the gradient at fixed q is also that of the bound with q at its optimum, so that a model needs
one gradient for the collapsed bound and for steps on mini-batches.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Callable
from typing import NoReturn

import numpy as np

from sksvi.algorithms.line_search import backtrack
from sksvi.families.base import NotPositiveDefinite

Array = np.ndarray

#: Pairs of steps and gradients that L-BFGS remembers, unless a caller wants more.
MEMORY = 20
#: How many iterations in a row have to gain less than `tol` together.
WINDOW = 5
#: Values that one line search looks at. More are a bisection's: the bound jumps, where its rule takes other points.
MOST_LOOKS = 12
#: Of what SciPy calls after an iteration: to read it off a function takes as long as several looks at a short series.
CALLED = inspect.signature(lambda x: None)

#: Between which shares of a step the next one is that gains enough on a parabola, where this one has not.
SHORTENED = 0.1, 0.5

Objective = Callable[[Array], tuple[float, Array]]


def finite(value: float, gradient: Array) -> bool:
    """Whether a value and its gradient (P,) are numbers: of a few, NumPy takes several times as long to tell."""
    return math.isfinite(value) and all(map(math.isfinite, gradient.tolist()))


class StopAscent(Exception):
    """The caller has seen enough: the best point so far is the answer. Objectives may raise it too."""


class _Ascent:
    """The objective as L-BFGS sees it: negated, with points that have no value turned back."""

    def __init__(self, function: Objective, tick: Callable[[float], bool], enough: Callable[[float], float]) -> None:
        self.function, self.tick, self.enough = function, tick, enough
        self.base: tuple[Array, float, Array] | None = None
        self.last: tuple[Array, float, Array] | None = None
        self.best: tuple[Array, float, Array] | None = None
        self.values: list[float] = []
        self.unit, self.looks, self.found = 1.0, 0, 0

    def __call__(self, x: Array) -> tuple[float, Array]:
        """-value and -gradient at x; where there are none, a parabola that sends the line search back."""
        x = np.array(x)
        if self.turned_back(x):
            raise StopAscent
        self.looks += 1
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # far off, from where it is sent back
                value, gradient = self.function(x)
            fine = finite(value, gradient)
        except NotPositiveDefinite:
            if self.base is None:
                raise
            fine = False
        if not fine:
            if self.base is None:
                raise ValueError("the bound or its gradient is not finite where the search begins")
            where, low, slope = self.base
            return (float(slope @ (x - where)) - low) / self.unit, 3.0 * slope / self.unit
        self.last, self.found = (x, float(value), gradient), self.found + 1
        if self.best is None or value > self.best[1]:
            self.best = self.last
        if self.base is None:
            # Within a box the first step would be the whole gradient: make that a unit step.
            self.base, self.unit = self.last, max(1.0, float(np.linalg.norm(gradient)))
            self.looks = self.found = 0
        if self.tick(float(self.best[1])):
            raise StopAscent
        return -float(value) / self.unit, -gradient / self.unit

    def turned_back(self, x: Array) -> bool:
        """Whether a line search has come back to where even its gradient promises too little, or does not end.

        A gradient with an error of its own may point where the value falls, however near.
        """
        if self.base is None or self.looks == 0:
            return False
        if self.found >= MOST_LOOKS:
            return True
        where, value, slope = self.base
        return bool(WINDOW * slope @ (x - where) < self.enough(value))

    def accepted(self, x: Array) -> None:
        """An iteration has ended: remember where, and stop when the last few gained too little."""
        assert self.last is not None
        self.base, self.looks, self.found = self.last, 0, 0
        self.values.append(self.last[1])
        if len(self.values) > WINDOW and self.last[1] - self.values[-1 - WINDOW] < self.enough(self.last[1]):
            raise StopAscent


def ascend(
    function: Objective,
    start: Array,
    bounds: list[tuple[float | None, float | None]],
    tick: Callable[[float], bool],
    enough: Callable[[float], float],
    max_evaluations: int,
    memory: int = MEMORY,
    units: Callable[[], Array] | None = None,
) -> tuple[Array, float]:
    """Maximise by L-BFGS within a box; a point without a finite value is stepped back from.

    Parameters
    ----------
    function : callable
        x to (value, gradient); may raise NotPositiveDefinite, but not at `start`.
    start : ndarray of shape (P,)
    bounds : list of (low, high)
        None: no bound on that side.
    tick : callable
        Told the best value after every evaluation; True ends the search.
    enough : callable
        A value to the gain that is too little for `WINDOW` iterations: then the search ends.
    max_evaluations : int
    memory : int
        Pairs of steps and gradients that are remembered.
    units : callable, optional
        Called at the best point so far for lengths (P,) over which the objective curves about as much in each
        coordinate, where they differ from place to place; None: the same everywhere.

    Returns
    -------
    best : ndarray of shape (P,)
        The best point evaluated; `start` where the objective stopped the search before its first value.
    value : float
        There; -inf without one.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.algorithms.ascent import ascend
    >>> best, value = ascend(lambda x: (-((x - 1) @ (x - 1)), 2 - 2 * x), np.zeros(2), [(None, None)] * 2,
    ...                      lambda value: False, lambda value: 1e-9, 50)
    >>> best.round(6)
    array([1., 1.])
    """
    from scipy.optimize import fmin_l_bfgs_b

    ascent = _Ascent(function, tick, enough)
    most = {"maxfun": max_evaluations, "maxiter": max_evaluations}

    def accepted(x: Array) -> None:
        ascent.accepted(x)

    accepted.__signature__ = CALLED  # type: ignore[attr-defined]
    try:
        if units is not None:
            _descend(ascent, np.array(start), np.array(bounds, float), units, memory)
        # `minimize` prepares as long as several evaluations of a short series take.
        fmin_l_bfgs_b(  # type: ignore[call-overload]
            ascent, start, bounds=bounds, m=memory, factr=0.0, pgtol=0.0, callback=accepted, **most
        )
    except StopAscent:
        pass
    return (np.array(start), -np.inf) if ascent.best is None else ascent.best[:2]


def _descend(ascent: _Ascent, x: Array, box: Array, units: Callable[[], Array], memory: int) -> NoReturn:
    """L-BFGS whose curvature without pairs is that of the units at every point, until the search stops itself."""
    pairs: deque[tuple[Array, Array]] = deque(maxlen=memory)
    (low, high), (value, slope) = box.T, ascent(x)  # NaN where there is no end
    while True:
        free = ~((x <= low) & (slope > 0) | (x >= high) & (slope < 0))
        square = np.where(free, np.square(units()), 0.0)
        step = free * _newton_step(slope, square, pairs)
        if not pairs or step @ slope >= 0:
            pairs.clear()
            step = -square * slope / max(np.sqrt(slope @ (square * slope)), np.finfo(float).tiny)
        while True:
            there = np.fmin(np.fmax(x + step, low), high)
            found, new = ascent(there)
            rise, along = found - value, slope @ (there - x)
            if rise <= LEAST_GAIN * along:
                break
            step *= np.clip(0.5 * along / (along - rise), *SHORTENED)
        if (there - x) @ (new - slope) > 0:
            pairs.append((there - x, new - slope))
        ascent.accepted(there)
        x, value, slope = there, found, new


def _newton_step(slope: Array, square: Array, pairs: deque[tuple[Array, Array]]) -> Array:
    """Minus the slope times the inverse curvature of pairs, and of squared units where these say nothing."""
    step, shares = -slope, []
    for moved, turned in reversed(pairs):
        shares.append((moved @ step) / (moved @ turned))
        step = step - shares[-1] * turned
    step = square * step
    if pairs:
        step *= (pairs[-1][0] @ pairs[-1][1]) / (pairs[-1][1] @ (square * pairs[-1][1]))
    for moved, turned in pairs:
        step += (shares.pop() - (turned @ step) / (moved @ turned)) * moved
    return step


# ---- Newton's steps, corrected by BFGS
# `ascent` begins with steps along the slope and finds out how long they may be: that takes half of the evaluations of
# a search of two or three variances.
#: How far the first step may go in any coordinate, and any step.
REACH, FARTHEST = 1.0, 4.0
#: How much of the next reach is left of a step that gained nothing, and of one to where there is no value.
SHORTER, SHORTEST = 0.5, 0.25
#: Share of what its slope promises that a step must gain.
LEAST_GAIN = 1e-4
#: What a step gained over what the curvature had promised, between which that stands.
AS_PROMISED = 0.5, 2.0
#: Share of the least gain of a step that counts: one that promises less is not worth an evaluation, as in fits of q.
NEAR = 1.0 / (150.0 * WINDOW)


def climb(
    function: Callable[[Array], tuple[float, Array]],
    curvature: Callable[[Array, Array], Array],
    start: Array,
    low: Array,
    high: Array,
    stop: Callable[[float, float], bool],
    enough: Callable[[float], float],
) -> None:
    """Maximise within a box; a point without a finite value is stepped back from.

    Parameters
    ----------
    function : callable
        x to (value, gradient); may raise NotPositiveDefinite, but not at `start`. It remembers the best.
    curvature : callable
        The x that `function` was last asked for, and the gradient there, to minus the second derivatives (P, P), as
        nearly as they can be had.
    start : ndarray of shape (P,)
    low, high : ndarray of shape (P,)
    stop : callable
        Called after every evaluation with the value where steps begin and the gain that the next one promises; True
        ends the search.
    enough : callable
        A value to the gain that is too little for `WINDOW` steps: then the search ends.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.algorithms.ascent import climb
    >>> looks = []
    >>> def parabola(x):
    ...     looks.append(x)
    ...     return -((x - 1) @ (x - 1)), 2 - 2 * x
    >>> climb(parabola, lambda x, slope: 2 * np.eye(2), np.zeros(2), np.full(2, -9.0), np.full(2, 9.0),
    ...       lambda value, promised: False, lambda value: 1e-9)
    >>> looks[-1]
    array([1., 1.])
    """
    from sksvi.algorithms.loops import corrected, to_the_top

    x, reach, fresh, stale = start, REACH, True, False
    value, slope = function(x)
    B, step, values, least = curvature(x, slope), np.empty(len(x)), [value], enough(value)
    while True:
        there = np.empty(len(x))
        promised, along = to_the_top(B, fresh, slope, x, low, high, reach, step, there)
        if stop(value, promised):
            return
        if stale:
            B, fresh, stale = curvature(x, slope), True, False
            promised, along = to_the_top(B, fresh, slope, x, low, high, reach, step, there)
        if promised < NEAR * least:
            return
        found, fresh = value_or_none(function, there), False
        gained = -np.inf if found is None else found[0] - value
        expected = 0.0 if found is None else corrected(B, step, slope, found[1])
        if found is not None and gained >= LEAST_GAIN * along:
            x, (value, slope), reach = there, found, min(2.0 * reach, FARTHEST)
            stale = not AS_PROMISED[0] * expected <= gained <= AS_PROMISED[1] * expected
            values.append(value)
            least = enough(value)
            if len(values) > WINDOW and value - values[-1 - WINDOW] < least:
                return
        elif WINDOW * along < least:  # a slope with an error of its own may point where the value falls
            return
        else:
            reach = (SHORTEST if found is None else SHORTER) * float(np.max(np.abs(step)))


def value_or_none(function: Callable[[Array], tuple[float, Array]], x: Array) -> tuple[float, Array] | None:
    """Value and gradient at x; None where the function has none."""
    try:
        return function(x)
    except NotPositiveDefinite:
        return None


# ---- L-BFGS for convex functions of millions of numbers
# The two loops of the recursion are over inner products (Chen, Wang and Zhou 2014, algorithm 3), so that a step passes
# twice over the stored vectors, by products of matrices. SciPy's allows for bounds, and passes over them several times.
#: Steps in a row that gain too little: one of them may be short for its direction's sake.
IN_A_ROW = 2


def minimise(
    function: Callable[[Array], tuple[float, Array]], x: Array, most: int, gain: float, slope: float, memory: int = 5
) -> tuple[Array, bool]:
    """Minimum of a strictly convex function, and whether nothing was left to gain.

    Parameters
    ----------
    function : callable
        x to (value, gradient).
    x : ndarray of shape (P,)
        Where the search begins, in coordinates in which second derivatives are about 1.
    most : int
        Most steps.
    gain, slope : float
        Relative gain of steps, two in a row, and largest entry of the gradient, that end the search.
    memory : int, default=5
        Steps, and changes of the gradient, that are stored.

    Returns
    -------
    x : ndarray of shape (P,)
    settled : bool

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.algorithms.ascent import minimise
    >>> x, settled = minimise(lambda x: (np.sum((x - 3) ** 4 + x**2), 4 * (x - 3) ** 3 + 2 * x), np.zeros(2), 50,
    ...                       1e-12, 1e-8)
    >>> x.round(4), settled
    (array([2., 2.]), True)
    """
    last = 2 * memory  # rows of `stored`: steps, changes of the gradient, the gradient
    stored, inner = np.zeros((last + 1, len(x))), np.zeros((last + 1, last + 1))
    little = 0
    value, stored[last] = function(x)
    for step in range(most):
        if np.abs(stored[last]).max() <= slope:
            return x, True
        newest = (step - 1) % memory
        rows = [newest, memory + newest, last]
        inner[rows] = stored[rows] @ stored.T
        inner[:, rows] = inner[rows].T
        share = _direction(inner, [(step - 1 - back) % memory for back in range(min(step, memory))])
        direction = share @ stored
        promised = float(share @ inner[last])

        def attempt(t: float, x: Array = x, direction: Array = direction) -> tuple[float, Array, float, Array]:
            there = x + t * direction
            return t, there, *function(there)

        def gains(new: tuple[float, Array, float, Array], low: float = value, down: float = promised) -> bool:
            return new[2] <= low + LEAST_GAIN * new[0] * down

        found = backtrack(attempt, gains)
        if found is None:  # below the precision of the values
            return x, True
        _, there, now, gradient = found.trial
        at = step % memory
        np.subtract(there, x, out=stored[at])
        np.subtract(gradient, stored[last], out=stored[memory + at])
        little = little + 1 if value - now <= gain * max(abs(value), abs(now), 1.0) else 0
        x, value, stored[last] = there, now, gradient
        if little == IN_A_ROW:
            return x, True
    return x, False


def _direction(inner: Array, newest_first: list[int]) -> Array:
    """Shares of stored vectors in the direction of a step, from their inner products."""
    last = len(inner) - 1
    memory, share, along = last // 2, np.zeros(last + 1), {}
    share[last] = -1.0
    for at in newest_first:
        along[at] = share @ inner[at] / inner[at, memory + at]
        share[memory + at] -= along[at]
    if newest_first:
        at = newest_first[0]
        share *= inner[at, memory + at] / inner[memory + at, memory + at]
    for at in reversed(newest_first):
        share[at] += along[at] - share @ inner[memory + at] / inner[at, memory + at]
    return share
