"""L-BFGS for convex functions of millions of numbers.

The two loops of the recursion are over inner products (Chen, Wang and Zhou 2014, algorithm 3), so that a step passes
twice over the stored vectors, by products of matrices. SciPy's allows for bounds, and passes over them several times.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sksvi.algorithms.line_search import backtrack

Array = np.ndarray

#: Share of what its slope promises that a step must gain.
LEAST_GAIN = 1e-4
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
    >>> from sksvi.algorithms.lbfgs import minimise
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
