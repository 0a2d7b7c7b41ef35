"""Levels that are declared and that no row has: half a row of each keeps its probability positive."""

from __future__ import annotations

import numpy as np

from sksvi.likelihoods.links import Array, sigmoid


def half_rows(cuts: Array, without: tuple[int, ...], slope: float) -> tuple[float, Array, Array]:
    """Half the log probability of each level without rows, its gradient (L - 1,) and Hessian in the cut points.

    Each at a latent of its own: the middle of a level between two with rows; below all of these the upper cut point of
    the lowest, above all the lower one of the highest. So nothing changes where all cut points move together, and the
    cut point of an end settles where the rows together are expected to have half a row beyond it.

    Parameters
    ----------
    cuts : ndarray of shape (L - 1,)
    without : tuple of int
        Levels, of which at least two others have rows.
    slope : float
    """
    rows = np.setdiff1d(np.arange(len(cuts) + 1), without)
    value, gradient, hessian = 0.0, np.zeros(len(cuts)), np.zeros((len(cuts), len(cuts)))
    unit = slope * np.eye(len(cuts))
    for level in without:
        if level < rows[0]:
            at = unit[rows[0]]
        elif level > rows[-1]:
            at = unit[rows[-1] - 1]
        else:
            at = 0.5 * (unit[level] + unit[level - 1])
        sides = [unit[level] - at] if level < len(cuts) else []
        sides += [at - unit[level - 1]] if level > 0 else []
        for side in sides:  # log sigmoid of the distance to an edge
            distance = side @ cuts
            beyond = float(sigmoid(-distance))
            first, second = beyond, beyond * (beyond - 1.0)
            value -= 0.5 * float(np.logaddexp(0.0, -distance))
            gradient += 0.5 * first * side
            hessian += 0.5 * second * np.outer(side, side)
        if len(sides) == 2:  # log(1 - exp(-width))
            width = sides[0] + sides[1]
            size = width @ cuts
            odds = 1.0 / np.expm1(size)
            value += 0.5 * float(np.log(-np.expm1(-size)))
            gradient += 0.5 * odds * width
            hessian -= 0.5 * odds * (1.0 + odds) * np.outer(width, width)
    return value, gradient, hessian
