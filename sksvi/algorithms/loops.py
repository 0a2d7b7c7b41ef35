"""Compiled steps of searches: of a few parameters NumPy takes several times as long."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray

#: Of a pivot, in units of its coordinate's own curvature, the least that counts as positive: of second derivatives,
#: which may have others, and of what BFGS makes, which has none but by rounding.
LEAST_PIVOT, ROUNDED = 1e-2, 1e-12


@njit()
def _root(B: Array, free: Array, least: float, L: Array) -> bool:
    """Cholesky's root of the free rows and columns of B, of those held an identity's; False: not positive definite."""
    P = len(B)
    for i in range(P):
        for j in range(i + 1):
            total = B[i, j] if free[i] and free[j] else 1.0 * (i == j)
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                if not total > least * (B[i, i] if free[i] else 1.0):
                    return False
                L[i, i] = np.sqrt(total)
            else:
                L[i, j] = total / L[j, j]
    return True


@njit()
def _plain(B: Array, slope: Array) -> None:
    """In the place of a curvature that is none, its own of each coordinate; of none at all, steps of 1."""
    P = len(B)
    for i in range(P):
        own = abs(B[i, i])
        for j in range(P):
            B[i, j] = B[j, i] = 0.0
        B[i, i] = max(own, 1e-3 * abs(slope[i]), 1e-300)


@entry("B (P,P) f", "slope (P) f", "x (P) f", "low (P) f", "high (P) f", "step (P) f", "there (P) f")
@njit()
def to_the_top(
    B: Array, fresh: bool, slope: Array, x: Array, low: Array, high: Array, reach: float, step: Array, there: Array
) -> tuple[float, float]:
    """The step from x to the top of a parabola of this slope and curvature B, and where it ends.

    Within the box, and in no coordinate longer than `reach`; a coordinate that lies on a side and is drawn beyond it
    stays. B without a root becomes diagonal. fresh: whether B are second derivatives. Returned: what the top promises,
    and the slope along the step.
    """
    P = len(x)
    free, L = np.empty(P, np.bool_), np.zeros((P, P))
    for i in range(P):
        free[i] = (slope[i] > 0.0 and x[i] < high[i]) or (slope[i] < 0.0 and x[i] > low[i])
    if not _root(B, free, LEAST_PIVOT if fresh else ROUNDED, L):
        _plain(B, slope)
        _root(B, free, ROUNDED, L)
    for i in range(P):
        total = slope[i] if free[i] else 0.0
        for k in range(i):
            total -= L[i, k] * step[k]
        step[i] = total / L[i, i]
    for i in range(P - 1, -1, -1):
        total = step[i]
        for k in range(i + 1, P):
            total -= L[k, i] * step[k]
        step[i] = total / L[i, i]
    longest, promised, along = 0.0, 0.0, 0.0
    for i in range(P):
        longest = max(longest, abs(step[i]))
        promised += 0.5 * slope[i] * step[i]
    for i in range(P):
        share = min(1.0, reach / longest) if longest > 0.0 else 0.0
        there[i] = min(max(x[i] + share * step[i], low[i]), high[i])
        step[i] = there[i] - x[i]
        along += slope[i] * step[i]
    if not along > 0.0:  # sides turned it: each coordinate by itself
        along = 0.0
        for i in range(P):
            own = min(max(slope[i] / abs(B[i, i]), -reach), reach) if free[i] else 0.0
            there[i] = min(max(x[i] + own, low[i]), high[i])
            step[i] = there[i] - x[i]
            along += slope[i] * step[i]
    return promised, along


@entry("B (P,P) f", "step (P) f", "before (P) f", "after (P) f")
@njit()
def corrected(B: Array, step: Array, before: Array, after: Array) -> float:
    """What B had promised of a step; then BFGS: B says what the slopes at its ends, `before` and `after`, did."""
    P = len(B)
    along, curved, change = 0.0, 0.0, 0.0
    Bs = np.empty(P)
    for i in range(P):
        total = 0.0
        for j in range(P):
            total += B[i, j] * step[j]
        Bs[i] = total
        curved += step[i] * total
        along += before[i] * step[i]
        change += (before[i] - after[i]) * step[i]
    if change > 0.0 and curved > 0.0 and np.isfinite(change):
        for i in range(P):
            for j in range(P):
                rise = (before[i] - after[i]) * (before[j] - after[j]) / change
                B[i, j] += rise - Bs[i] * Bs[j] / curved
    return along - 0.5 * curved


# ---- the compiled twin of `line_search`, for loops over points that each have a step of their own
@njit()
def halved(rate: float, halvings: int, most: int) -> float:
    """Half the rate of a step that was not accepted; 0 where it has been halved `most` times: it is given up."""
    return 0.5 * rate if halvings < most else 0.0
