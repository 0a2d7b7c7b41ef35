"""Tests of whether a fit has converged: when is a noisy fit done?

The bounds of single passes are estimates, and near the end their noise hides what is still to gain. So at passes that
lie a factor apart the bound of the averaged q is evaluated exactly, and two such checks are compared. If the error
falls as C/t, the gain from t/FACTOR to t is (FACTOR - 1) C/t: as much as is left, up to that factor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, variance

#: The first check, and the ratio of the passes of successive checks.
FIRST_CHECK, FACTOR = 4, 1.5
#: Most passes over one portion of a stream, and most closed-form steps of hyperparameters after it.
PORTION_PASSES = 50
#: Relative fall of a bound that rounding explains.
ROUNDING = 1e-10
#: Passes between two checks whose mean says something of a bound with noise.
LEAST_PASSES = 7
#: Gain between two checks, in units of tol, that is too little to go on.
GAIN = 10.0


def check_due(t: int) -> bool:
    """Whether the bound is evaluated exactly after pass t = 1, 2, ...

    Examples
    --------
    >>> from sksvi.inference.stopping import check_due
    >>> [t for t in range(1, 60) if check_due(t)]
    [4, 6, 9, 14, 21, 32, 48]
    """
    return t in checks_until(t)


@lru_cache(maxsize=4096)
def checks_until(t: int) -> tuple[int, ...]:
    """The passes up to t after which the bound is evaluated exactly."""
    found, check = [], FIRST_CHECK
    while check <= t:
        found.append(check)
        check = round(check * FACTOR + 1e-9)
    return tuple(found)


def has_settled(bounds: list[float], tol: float, size: Callable[[float], float]) -> bool:
    """Whether the exact bounds at the last three checks gained too little, twice, to go on.

    `size` says what `tol` is relative to at a bound.

    Examples
    --------
    >>> from sksvi.inference.stopping import has_settled
    >>> has_settled([-120.0, -110.0, -109.99], 1e-4, abs), has_settled([-110.0, -109.99, -109.98], 1e-4, abs)
    (False, True)
    """
    if len(bounds) < 3:
        return False
    small = GAIN * tol * size(bounds[-1])
    return abs(bounds[-1] - bounds[-2]) < small and abs(bounds[-2] - bounds[-3]) < small


def hidden(bounds: list[float], tol: float, size: Callable[[float], float]) -> bool:
    """Whether what the passes' own bounds gained is too little to go on, or less than their noise, twice.

    For models that draw local variables: there no bound is exact, and means over the passes between two checks have
    less noise than another look. `bounds` ends at a check.
    """
    ends = checks_until(len(bounds))[-4:]
    if len(ends) < 4 or ends[-1] != len(bounds) or ends[-1] - ends[-2] < LEAST_PASSES:
        return False
    parts = [bounds[low:high] for low, high in pairwise(ends)]
    small = GAIN * tol * size(fmean(parts[-1]))
    noise = [variance(part) / len(part) for part in parts]
    return all(
        fmean(after) - fmean(before) < small + 2.0 * (noise[i] + noise[i + 1]) ** 0.5
        for i, (before, after) in enumerate(pairwise(parts))
    )
