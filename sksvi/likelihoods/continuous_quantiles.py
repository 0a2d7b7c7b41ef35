"""Quantiles of continuous distributions, many at once, inside brackets that hold them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from sksvi.likelihoods.traits import LOG_SQRT_2PI

Array = np.ndarray

#: Most looks at a distribution function.
LOOKS = 300
#: Distance in normal scores at which Newton's next step, whose error is its square, is the last.
LAST = 1e-5
#: Width of a bracket, of the value and of what it was, that is closed.
CLOSED = 1e-10


def quantile_between(
    cdf_and_density: Callable[[Array, Array], list[Array]], level: Array | float, guess: Array, low: Array, high: Array
) -> Array:
    """Quantiles inside brackets, by Newton's steps in normal scores, which are nearly linear, and bisection.

    Parameters
    ----------
    cdf_and_density : callable
        Of values and the indices of their rows.
    level : float or ndarray of shape (n,)
        In (0, 1).
    guess, low, high : ndarray of shape (n,)
        Where to begin, and ends that hold the quantile.
    """
    low, high, y = low.copy(), high.copy(), np.clip(guess, low, high)
    width, active = high - low, np.flatnonzero(high > low)
    level, score = np.broadcast_to(level, y.shape), np.broadcast_to(ndtri(level), y.shape)
    before = np.full(len(y), np.inf)
    for _ in range(LOOKS):
        if not len(active):
            break
        at = y[active]
        cdf, density = cdf_and_density(at, active)
        under = cdf < level[active]
        low[active[under]], high[active[~under]] = at[under], at[~under]
        a, b = low[active], high[active]
        z = ndtri(np.clip(cdf, 1e-300, 1.0 - 1e-16))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = at + (score[active] - z) * np.exp(-0.5 * z * z - LOG_SQRT_2PI) / density
        inside, off = (newton >= a) & (newton <= b), np.abs(score[active] - z)
        last, good = inside & (off <= LAST), inside & (off <= 0.5 * before[active])
        # halve the bracket in log y where it spans orders of magnitude
        middle = np.where(a > 0, np.sqrt(np.maximum(a, 0)) * np.sqrt(np.maximum(b, 0)), 0.5 * (a + b))
        y[active], before[active] = np.where(last | good, newton, middle), np.where(good, off, np.inf)
        closed = b - a <= CLOSED * np.minimum(width[active], np.abs(at))
        active = active[~(last | closed)]
    return y
