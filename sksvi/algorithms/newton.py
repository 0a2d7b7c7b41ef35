"""Searches of a few parameters whose curvature can be had: Newton's steps, corrected by BFGS.

`ascent` begins with steps along the slope and finds out how long they may be: that takes half of the evaluations of a
search of two or three variances.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sksvi.algorithms.ascent import WINDOW
from sksvi.algorithms.newton_loops import corrected, to_the_top
from sksvi.families.base import NotPositiveDefinite

Array = np.ndarray

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
    >>> from sksvi.algorithms.newton import climb
    >>> looks = []
    >>> def parabola(x):
    ...     looks.append(x)
    ...     return -((x - 1) @ (x - 1)), 2 - 2 * x
    >>> climb(parabola, lambda x, slope: 2 * np.eye(2), np.zeros(2), np.full(2, -9.0), np.full(2, 9.0),
    ...       lambda value, promised: False, lambda value: 1e-9)
    >>> looks[-1]
    array([1., 1.])
    """
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
        found, fresh = _valued(function, there), False
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


def _valued(function: Callable[[Array], tuple[float, Array]], x: Array) -> tuple[float, Array] | None:
    """Value and gradient at x; None where the function has none."""
    try:
        return function(x)
    except NotPositiveDefinite:
        return None
