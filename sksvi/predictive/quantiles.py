"""Quantiles of continuous distributions, many at once, inside brackets that hold them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from sksvi.likelihoods.count_quantiles import apart
from sksvi.likelihoods.links import LOG_SQRT_2PI

Array = np.ndarray

#: Most looks at a distribution function.
LOOKS = 300
#: Distance in normal scores at which Newton's next step, whose error is its square, is the last.
LAST = 1e-5
#: Width of a bracket, of the value and of what it was, that is closed.
CLOSED = 1e-10


def quantile_between(
    cdf_and_density: Callable[[Array, Array], list[Array]], level: float, guess: Array, low: Array, high: Array
) -> Array:
    """Quantiles inside brackets, by Newton's steps in normal scores, which are nearly linear, and bisection.

    Parameters
    ----------
    cdf_and_density : callable
        Of values and the indices of their rows.
    level : float
        In (0, 1).
    guess, low, high : ndarray of shape (n,)
        Where to begin, and ends that hold the quantile.
    """
    low, high, y = low.copy(), high.copy(), np.clip(guess, low, high)
    width, score, active = high - low, ndtri(level), np.flatnonzero(high > low)
    before = np.full(len(y), np.inf)
    for _ in range(LOOKS):
        if not len(active):
            break
        at = y[active]
        cdf, density = cdf_and_density(at, active)
        under = cdf < level
        low[active[under]], high[active[~under]] = at[under], at[~under]
        a, b = low[active], high[active]
        z = ndtri(np.clip(cdf, 1e-300, 1.0 - 1e-16))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = at + (score - z) * np.exp(-0.5 * z * z - LOG_SQRT_2PI) / density
        inside, off = (newton >= a) & (newton <= b), np.abs(score - z)
        last, good = inside & (off <= LAST), inside & (off <= 0.5 * before[active])
        # halve the bracket in log y where it spans orders of magnitude
        middle = np.where(a > 0, np.sqrt(np.maximum(a, 0)) * np.sqrt(np.maximum(b, 0)), 0.5 * (a + b))
        y[active], before[active] = np.where(last | good, newton, middle), np.where(good, off, np.inf)
        closed = b - a <= CLOSED * np.minimum(width[active], np.abs(at))
        active = active[~(last | closed)]
    return y


# ---- quantiles of counts: the smallest one whose distribution function reaches a level
#: Where rates saturate, so that quantiles stay finite.
LARGEST_COUNT = 1e305
#: Most looks at the distribution function; a third of them halve a bracket, which 200 do not exhaust.
_LOOKS = 600

#: P(Y <= count) of the rows that are asked for.
Cdf = Callable[[Array, Array], Array]


def smallest_count(cdf: Cdf, level: float, guess: Array) -> Array:
    """Smallest count whose distribution function reaches `level`, one for each row.

    Parameters
    ----------
    cdf : callable
        Of counts and the indices of their rows.
    level : float
    guess : ndarray of shape (n,)
        A count of each row, near or far.
    """
    low, high, at_low, at_high = _bracket(cdf, level, guess)
    score, active = ndtri(level), np.flatnonzero(apart(low, high))
    for look in range(_LOOKS):
        if not len(active):
            break
        # the normal score of the distribution function is nearly linear in log y
        x_low, x_high = (ndtri(np.clip(p[active], 1e-300, 1 - 1e-16)) for p in (at_low, at_high))
        linear = (level - at_low[active]) / np.maximum(at_high[active] - at_low[active], 1e-300)
        share = np.where(x_high > x_low, (score - x_low) / np.maximum(x_high - x_low, 1e-300), linear)
        middle = _between(low[active], high[active], np.full_like(share, 0.5) if look % 3 == 2 else share)
        value = cdf(middle, active)
        up, down = value < level, value >= level
        low[active[up]], at_low[active[up]] = middle[up], value[up]
        high[active[down]], at_high[active[down]] = middle[down], value[down]
        active = active[apart(low[active], high[active])]
    return high


def _bracket(cdf: Cdf, level: float, guess: Array) -> tuple[Array, Array, Array, Array]:
    """Counts low < high, -1 among them, and the distribution function there: below `level`, and not below it."""
    rows, step = np.arange(len(guess)), np.ceil(0.02 * guess) + 1.0
    at_guess = cdf(guess, rows)
    enough_at_guess = at_guess >= level
    low, high = np.where(enough_at_guess, -1.0, guess), guess.copy()
    at_low, at_high = np.where(enough_at_guess, 0.0, at_guess), at_guess.copy()
    active, growth = rows[(enough_at_guess & (guess > 0)) | ~enough_at_guess], 1.0
    while len(active):
        # outwards by steps that grow ever faster: a guess may be hundreds of orders of magnitude away
        down = enough_at_guess[active]
        end = np.where(down, np.maximum(high[active] - step[active], -1.0), low[active] + step[active])
        end = np.minimum(end, LARGEST_COUNT)
        value = np.where(end < 0, 0.0, cdf(np.maximum(end, 0.0), active))
        enough = (end == LARGEST_COUNT) | ((end >= 0) & (value >= level))
        low[active[~enough]], at_low[active[~enough]] = end[~enough], value[~enough]
        high[active[enough]], at_high[active[enough]] = end[enough], value[enough]
        active, growth = active[np.where(down, enough, ~enough)], 4.0 * growth
        step[active] = np.minimum(growth * step[active], LARGEST_COUNT)
    return low, high, at_low, at_high


def _between(low: Array, high: Array, share: Array) -> Array:
    """A count inside a bracket, at a share of the way: in log y where the ends are factors apart, else in y."""
    a, b, share = np.log(low + 1.5), np.log(high + 1.5), np.clip(share, 0.0, 1.0)
    within_factor_two = high < 2.0 * low
    middle = np.floor(np.where(within_factor_two, low + (high - low) * share, np.exp(a + (b - a) * share) - 1.5))
    # beyond 2^53 the next float is no integer beside it
    most = np.minimum(high - 1.0, np.nextafter(high, low))
    return np.clip(middle, np.maximum(low + 1.0, np.nextafter(low, np.inf)), most)
