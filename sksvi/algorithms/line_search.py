"""Backtracking line search: a step that is not accepted is halved until one is.

What a step is, and what makes it acceptable (a bound that does not fall, a precision that is positive definite), is the
caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

Array = np.ndarray
Trial = TypeVar("Trial")

#: Most trials of a search: after them the step is a millionth of the first.
MAX_HALVINGS = 20


class Accepted(NamedTuple, Generic[Trial]):
    """The trial that a search accepted, its share of the whole step, and the number of halvings before it."""

    trial: Trial
    share: float
    halvings: int


def backtrack(
    attempt: Callable[[float], Trial | None], accepts: Callable[[Trial], bool], most: int = MAX_HALVINGS
) -> Accepted[Trial] | None:
    """Return the first accepted trial among shares 1, 1/2, 1/4, ... of a step; None where none is.

    Parameters
    ----------
    attempt : callable
        From a share of the step to what is found there, or None where nothing can be.
    accepts : callable
        Whether a trial ends the search.
    most : int, default=MAX_HALVINGS
        Most trials.

    Returns
    -------
    accepted : Accepted or None

    Examples
    --------
    >>> from sksvi.algorithms.line_search import backtrack
    >>> found = backtrack(lambda share: 1.0 - 3.0 * share, lambda x: abs(x) < 1.0)
    >>> found.trial, found.share, found.halvings
    (-0.5, 0.5, 1)
    """
    for halvings in range(most):
        share = 0.5**halvings
        trial = attempt(share)
        if trial is not None and accepts(trial):
            return Accepted(trial, share, halvings)
    return None


def halved(rate: Array, accepted: Array) -> Array:
    """Rates of the next steps of points that move together, each at its own rate: half where the last was rejected."""
    return np.where(accepted, rate, 0.5 * rate)


def backtrack_plates(rejected: Array, attempt: Callable[[Array, float], Array], most: int = MAX_HALVINGS) -> int:
    """Halve the steps of rejected plates, each by itself, until they are accepted; the last share is 0.

    Parameters
    ----------
    rejected : ndarray of shape (n,) of bool
        Plates whose whole step was tried and not accepted.
    attempt : callable
        From the indices of plates (k,) and a share of their steps to which of them are accepted (k,) of bool; a share
        of 0 takes them back to where they were.
    most : int, default=MAX_HALVINGS
        Most halvings, of which the last one takes plates back.

    Returns
    -------
    halvings : int
        Summed over plates.
    """
    plates, halvings = np.flatnonzero(rejected), 0
    for halving in range(1, most + 1):
        if not len(plates):
            break
        halvings += len(plates)
        plates = plates[~attempt(plates, 0.5**halving if halving < most else 0.0)]
    return halvings
