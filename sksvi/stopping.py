"""When is a noisy fit done: the stopping rule for bounds that are estimates."""

from __future__ import annotations

import numpy as np

#: Passes before a noisy fit may stop.
MIN_PASSES = 10
#: How far the bound may still climb, in units of tol: a rate that falls as 1/t leaves as much to gain as it gained
#: since half the time.
REMAINING = 20.0


def extrapolated_change(bounds: list[float]) -> tuple[float, float]:
    """What the bound still has to gain, were its error to fall as 1/t, and the standard error of that guess.

    A line through the last half of the passes has slope s; an error C/t has slope C/t², so C/t = s t is left.
    """
    t = len(bounds)
    window = np.asarray(bounds[t // 2 :])
    x = np.arange(len(window)) - (len(window) - 1) / 2
    slope = float(x @ window / (x @ x))
    residual = window - window.mean() - slope * x
    error = np.sqrt(float(residual @ residual) / max(len(window) - 2, 1) / float(x @ x))
    return slope * t, error * t


def settled(bounds: list[float], tol: float) -> bool:
    """Whether the smoothed bound has stopped moving, up to what its own noise allows to say.

    Examples
    --------
    >>> from sksvi.stopping import settled
    >>> settled([-100.0 - 50.0 / t for t in range(1, 15)], 1e-4), settled([-100.0] * 15, 1e-4)
    (False, True)
    """
    if len(bounds) < MIN_PASSES:
        return False
    change, error = extrapolated_change(bounds)
    return abs(change) + error < REMAINING * tol * (abs(bounds[-1]) + 1)
