"""The compiled steps of one point's message: the judged steps of a fit, by numbers in the place of arrays.

`at` holds where the steps are: what a look left, and what the next one is to tell.
"""

from __future__ import annotations

import math

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.algorithms.line_search import MAX_HALVINGS
from sksvi.algorithms.loops import halved
from sksvi.inference.passes.line_search import DAMPING_GROWTH, PREDICTED_SHARE
from sksvi.inference.records import ROUNDING

Array = np.ndarray

#: Where the steps are: the message about the predicted mean, the moments of f under it, and what the point says there.
LINEAR, WEIGHT, MOVE, VARIANCE, BOUND, ALPHA, GAMMA = range(7)
#: What is tried: a message, and the moments of f under it.
TRIED_LINEAR, TRIED_WEIGHT, TRIED_MOVE, TRIED_VARIANCE = range(7, 11)
#: Of the next step: its rate, how often it was halved, how many gained too little in a row. Looks so far.
RATE, HALVINGS, SMALL, LOOKS = range(11, 15)
SIZE = 15
#: What a look is followed by: another one, an end of the steps, the end of looks; without a finite bound none; or a
#: message that knows so much more than the prediction that steps had better begin elsewhere.
ASKS, SETTLED, CUT_OFF, NOWHERE, BEYOND = range(5)
#: Of a message that knows at most so many times what the prediction does, steps may begin at the prediction.
MILD = 4.0
#: Beyond it exp has no number.
LARGEST_LOG = 700.0


@njit()
def _try(at: Array, s: float, linear: float, weight: float) -> bool:
    """Moments of f under a message; False: of no positive joint precision."""
    D = 1.0 + weight * s
    at[TRIED_LINEAR], at[TRIED_WEIGHT] = linear, weight
    if not D > 0.0:
        return False
    at[TRIED_MOVE], at[TRIED_VARIANCE] = s * linear / D, s / D
    return True


@njit()
def _next(at: Array, s: float, tol: float, most: int) -> int:
    """The next natural step, halved while it has no variance."""
    while True:
        if at[LOOKS] == most:
            return CUT_OFF
        at[LOOKS] += 1.0
        rate, gamma = at[RATE], at[GAMMA]
        weight = (1.0 - rate) * at[WEIGHT] - rate * 2.0 * gamma
        linear = (1.0 - rate) * at[LINEAR] + rate * (at[ALPHA] - 2.0 * gamma * at[MOVE])
        if _try(at, s, linear, weight):
            move, v = at[TRIED_MOVE], at[TRIED_VARIANCE]
            change = 0.5 * ((move - at[MOVE]) ** 2 / v + 0.5 * (v / at[VARIANCE] - 1.0) ** 2)
            promises = change / rate**2 >= PREDICTED_SHARE * tol * (abs(at[BOUND]) + 1.0)
            return ASKS if promises else SETTLED
        if not _shortened(at):
            return SETTLED


@njit()
def _shortened(at: Array) -> bool:
    """Half of the step; False: no step from here gains."""
    at[RATE] = halved(at[RATE], at[HALVINGS], MAX_HALVINGS)
    at[HALVINGS] += 1.0
    return at[RATE] > 0.0


@njit()
def _advance(at: Array, s: float, value: float, alpha: float, gamma: float, mild: float, tol: float, most: int) -> int:
    """Judge what was tried, and propose what is next."""
    linear, weight, move, v = at[TRIED_LINEAR], at[TRIED_WEIGHT], at[TRIED_MOVE], at[TRIED_VARIANCE]
    D = 1.0 + weight * s
    bound = value - 0.5 * (1.0 / D - 1.0 + move * move / s + math.log(D))
    good = math.isfinite(bound) and math.isfinite(alpha) and math.isfinite(gamma)
    if at[LOOKS] == 0.0:
        if not good:
            return NOWHERE
        if -2.0 * gamma * s > mild:
            return BEYOND
    else:
        size = abs(at[BOUND]) + 1.0
        if not good or bound < at[BOUND] - ROUNDING * size:
            return _next(at, s, tol, most) if _shortened(at) else SETTLED
        rate = at[RATE]
        at[SMALL] = at[SMALL] + 1.0 if bound - at[BOUND] < tol * rate * size else 0.0
        at[RATE] = rate if at[HALVINGS] else min(1.0, DAMPING_GROWTH * rate)
        at[HALVINGS] = 0.0
    at[LINEAR], at[WEIGHT], at[MOVE], at[VARIANCE] = linear, weight, move, v
    at[BOUND], at[ALPHA], at[GAMMA] = bound, alpha, gamma
    return SETTLED if at[SMALL] == 2.0 else _next(at, s, tol, most)


@njit()
def _begin(at: Array, s: float, linear: float, weight: float) -> bool:
    """The first try; False: of no positive joint precision."""
    at[RATE], at[HALVINGS], at[SMALL], at[LOOKS] = 1.0, 0.0, 0.0, 0.0
    return _try(at, s, linear, weight)


@entry("at (>=15) f")
@njit()
def begin(at: Array, s: float, linear: float, weight: float) -> int:
    """Set the first trial, a message about the predicted mean of an f of variance `s`: ASKS, or NOWHERE if improper."""
    return ASKS if _begin(at, s, linear, weight) else NOWHERE


@entry("at (>=15) f")
@njit()
def advance(at: Array, s: float, value: float, alpha: float, gamma: float, mild: float, tol: float, most: int) -> int:
    """Judge a look with this value and these slopes in mean and variance; returns what follows it (ASKS, ...)."""
    return _advance(at, s, value, alpha, gamma, mild, tol, most)


@entry("at (>=15) f")
@njit()
def exponential(
    at: Array,
    s: float,
    linear: float,
    weight: float,
    y: float,
    times: float,
    mean: float,
    mild: float,
    tol: float,
    most: int,
) -> int:
    """All looks at a count y of rate exp(f), `times` as often seen, where f was predicted to have this mean."""
    if not _begin(at, s, linear, weight):
        return NOWHERE
    constant, after = math.lgamma(y + 1.0), ASKS
    while after == ASKS:
        m = mean + at[TRIED_MOVE]
        rate = math.exp(min(m + 0.5 * at[TRIED_VARIANCE], LARGEST_LOG))
        after = _advance(
            at, s, times * (y * m - rate - constant), times * (y - rate), -0.5 * times * rate, mild, tol, most
        )
    return after
