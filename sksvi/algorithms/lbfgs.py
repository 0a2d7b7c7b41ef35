"""L-BFGS within a box, for functions of few numbers that take no longer than SciPy's own bookkeeping."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Array = np.ndarray

#: Sufficient decrease and curvature that end a line search, and its most evaluations.
DECREASE, CURVATURE, MOST_TRIALS = 1e-3, 0.9, 20
#: How far beyond the last trial an extrapolation goes, and how near to an end of its bracket an interpolation.
FARTHEST, NEAREST = 4.0, 0.02
#: Relative curvature along a step below which nothing is learned from it.
FLAT = 2.2e-16


class Point(NamedTuple):
    """Where, value and gradient."""

    x: Array
    value: float
    gradient: Array


def descend(
    function: Callable[[Array], tuple[float, Array]],
    start: Array,
    low: Array,
    high: Array,
    accepted: Callable[[Array], None],
    memory: int,
    max_evaluations: int,
) -> None:
    """Minimise by L-BFGS (Nocedal and Wright 2006, 7.2) on the numbers that no end of the box holds.

    Parameters
    ----------
    function : callable
        x to (value, gradient), both finite; what it raises ends the search.
    start : ndarray of shape (P,)
        Within the box.
    low, high : ndarray of shape (P,)
        Infinite: no bound on that side.
    accepted : callable
        Told the end of every iteration, the last point that was evaluated.
    memory : int
        Pairs of steps and gradients that are kept.
    max_evaluations : int
    """
    here, count = Point(start, *function(start)), 1
    pairs: deque[tuple[Array, Array]] = deque(maxlen=memory)
    while count < max_evaluations:
        free = np.where(here.gradient > 0.0, here.x > low, here.x < high)
        slope = np.where(free, here.gradient, 0.0)
        step = np.minimum(np.maximum(here.x - _scaled(slope, pairs, free), low), high) - here.x
        if not step @ slope < 0.0:  # what was learned elsewhere leads astray here
            pairs.clear()
            step = np.minimum(np.maximum(here.x - slope, low), high) - here.x
            if not step @ slope < 0.0:
                return
        found, used = _searched(function, here, step, low, high, max_evaluations - count)
        count += used
        if found is None:
            if not pairs:
                return
            pairs.clear()
            continue
        moved, bend = found.x - here.x, found.gradient - here.gradient
        if moved @ bend > FLAT * (bend @ bend):
            pairs.append((moved, bend))
        here = found
        accepted(here.x)


def _scaled(slope: Array, pairs: deque[tuple[Array, Array]], free: Array) -> Array:
    """The slope times the inverse curvature that the pairs tell of the numbers that are free."""
    kept, out = [], slope
    for moved, bend in reversed(pairs):
        s, y = np.where(free, moved, 0.0), np.where(free, bend, 0.0)
        along = float(s @ y)
        if along > FLAT * float(y @ y):
            share = float(s @ out) / along
            out = out - share * y
            kept.append((s, y, along, share))
    if kept:
        out = out * (kept[0][2] / float(kept[0][1] @ kept[0][1]))
    for s, y, along, share in reversed(kept):
        out = out + (share - float(y @ out) / along) * s
    return out


def _searched(
    function: Callable[[Array], tuple[float, Array]], here: Point, step: Array, low: Array, high: Array, most: int
) -> tuple[Point | None, int]:
    """A point along a step where value and slope have fallen enough, and the evaluations that it took.

    None where there is no such point. Between two trials, or beyond the last, the next one is where a cubic is lowest.
    """
    slope, moving = float(here.gradient @ step), step != 0.0
    room = np.where(step > 0.0, high - here.x, low - here.x)
    farthest = float(np.min(room[moving] / step[moving]))
    near, far, at = (0.0, here.value, slope), None, 1.0
    for trial in range(1, min(MOST_TRIALS, most) + 1):
        x = np.minimum(np.maximum(here.x + at * step, low), high)
        point = Point(x, *function(x))
        now, before = (at, point.value, float(point.gradient @ step)), near
        if point.value > here.value + DECREASE * at * slope or point.value >= near[1]:
            far = now
        elif abs(now[2]) <= -CURVATURE * slope or (far is None and now[2] < 0.0 and at >= farthest):
            return point, trial
        else:
            if now[2] * ((np.inf if far is None else far[0]) - at) >= 0.0:
                far = near
            near = now
        if far is None:
            lowest = _lowest(before, now)
            at = min(max(lowest if lowest > at else np.inf, 1.1 * at), FARTHEST * at, farthest)
        else:
            share = (_lowest(near, far) - near[0]) / (far[0] - near[0])
            share = min(max(share, NEAREST), 1.0 - NEAREST) if share == share else 0.5
            at = near[0] + share * (far[0] - near[0])
    return None, min(MOST_TRIALS, most)


def _lowest(a: tuple[float, float, float], b: tuple[float, float, float]) -> float:
    """Where the cubic with these values and slopes at two places is lowest; NaN: nowhere."""
    (at, value, slope), (to, end, last) = a, b
    inner = slope + last - 3.0 * (value - end) / (at - to)
    square = inner * inner - slope * last
    if square < 0.0:
        return np.nan
    root = float(np.copysign(np.sqrt(square), to - at))
    below = last - slope + 2.0 * root
    return to - (to - at) * (last + root - inner) / below if below else np.nan
