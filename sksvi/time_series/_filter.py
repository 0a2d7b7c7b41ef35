"""The filter of single points that follow a fitted series: the message of each, given the prediction of its f.

The steps of a fit to this point alone, by numbers in the place of arrays: a stream that comes one by one has no more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian.chain import Chain
from sksvi.models.data import Table
from sksvi.models.time_series.search import first_messages
from sksvi.time_series import _filter_loops as loops
from sksvi.time_series._filter_loops import ASKS, BEYOND, MILD, NOWHERE, SETTLED

Array = np.ndarray


class PointMessage(NamedTuple):
    """A point's message about its f, how far that moved its mean, the bound, looks, and whether steps settled."""

    linear: float
    weight: float
    move: float
    bound: float
    looks: int
    settled: bool

    @property
    def steps(self) -> int:
        """Steps taken."""
        return self.looks - self.settled


class FilterResult(NamedTuple):
    """The bound of several points, looks at them, steps, and whether these settled."""

    bound: float
    looks: int
    steps: int
    settled: bool


class FilterStep(NamedTuple):
    """Messages of points (n,), the states (m,), (m, m) after them, and how they were found: one by one, or together."""

    linear: Array
    weights: Array
    last: Array
    last_cov: Array
    how: Sequence[PointMessage | FilterResult]


#: The message of a point without an observation.
NOTHING = PointMessage(0.0, 0.0, 0.0, 0.0, 1, True)


class Level:
    """A level that is f itself after a point, by numbers; a point whose message fails leaves it as it was."""

    def __init__(self, chain: Chain, last: Array, last_cov: Array) -> None:
        self.noise = float(chain.noise[0])
        self.mean, self.variance = float(last[0]), float(last_cov[0, 0])

    def ahead(self, X: Array) -> tuple[float, float]:
        """Mean and variance of the next f, whose row of columns is X (1, E)."""
        return self.mean, self.variance + self.noise

    def update(self, message: PointMessage) -> None:
        """Move on to the predicted point, with its message."""
        s = self.variance + self.noise
        self.mean += message.move
        self.variance = s - s * s * (message.weight / (1.0 + message.weight * s))

    def moments(self) -> tuple[Array, Array]:
        """Mean (1,) and covariance (1, 1)."""
        return np.array([self.mean]), np.array([[self.variance]])


class FilterState:
    """Mean and covariance of any states after a point; a point whose message fails leaves them as they were."""

    def __init__(self, chain: Chain, last: Array, last_cov: Array) -> None:
        self.h, self.noise, self.transition = chain.h, np.diag(chain.noise), chain.transition()
        self.mean, self.cov = last, last_cov

    def ahead(self, X: Array) -> tuple[float, float]:
        """Mean and variance of the next f, whose row of columns is X (1, E)."""
        A, h = self.transition, np.concatenate([self.h, X[0]])
        mean, cov = A @ self.mean, A @ self.cov @ A.T + self.noise
        cov = 0.5 * (cov + cov.T)
        along = cov @ h
        s = float(h @ along)
        self._next = mean, cov, along, s
        return float(h @ mean), s

    def update(self, message: PointMessage) -> None:
        """Move on to the predicted point, with its message."""
        mean, cov, along, s = self._next
        gain = message.weight / (1.0 + message.weight * s)
        scaled = along * math.sqrt(abs(gain))  # so that the covariance is symmetric to the last bit
        reduction = scaled[:, None] * scaled
        self.mean, self.cov = mean + along * (message.move / s), cov - reduction if gain > 0.0 else cov + reduction

    def moments(self) -> tuple[Array, Array]:
        """Mean (n,) and covariance (n, n)."""
        return self.mean, self.cov


def states(chain: Chain, last: Array, last_cov: Array) -> Level | FilterState:
    """The states of a chain after a point, given their mean and covariance there."""
    return (Level if chain.is_level else FilterState)(chain, last, last_cov)


class Steps:
    """Finds the message of one point.

    Parameters
    ----------
    likelihood : Likelihood
        With every parameter a number.
    expect : Expectation
        Without noise.
    tol : float
        As of a fit.
    most : int
        Looks at most.
    """

    def __init__(self, likelihood: Any, expect: Any, tol: float, most: int) -> None:
        self.likelihood, self.expect, self.how = likelihood, expect, (float(tol), most)
        self.exponential = likelihood.traits.exponential and expect.closes(likelihood)
        self.at = np.empty(loops.SIZE)

    def __call__(self, mean: float, variance: float, y: Any, weight: float = 1.0, offset: float = 0.0) -> PointMessage:
        """The message of a value, whose f without offset was predicted to have this mean and variance.

        y: a number, (1, 2) of pairs.

        Raises
        ------
        NotPositiveDefinite
            Where no step from the first message leaves a positive precision, or it has no finite bound.
        """
        if weight == 0.0:
            return NOTHING
        about = mean + offset
        after = self._looks(about, variance, y, weight, 0.0, 0.0, MILD)
        if after in (NOWHERE, BEYOND):
            alone = first_messages(self.likelihood, Table(np.zeros((1, 0)), np.atleast_1d(y), None, np.full(1, offset)))
            linear, precision = (weight * float(part[0]) for part in alone)
            after = self._looks(about, variance, y, weight, linear - precision * mean, precision, math.inf)
        if after == NOWHERE:
            raise NotPositiveDefinite("the first message of the point has no finite bound", 0)
        linear, weight, move, _, bound, *_, looks = self.at.tolist()
        return PointMessage(linear + weight * mean, weight, move, bound, int(looks), after == SETTLED)

    def _looks(self, about: float, s: float, y: Any, times: float, linear: float, weight: float, mild: float) -> int:
        """Steps from a message about the predicted mean, `at` where they end; what the last look was followed by."""
        if self.exponential:
            return loops.exponential(self.at, s, linear, weight, y, times, about, mild, *self.how)
        at, y, after = self.at, np.atleast_1d(y), loops.begin(self.at, s, linear, weight)
        with np.errstate(over="ignore", invalid="ignore"):
            while after == ASKS:
                move, v = at[loops.TRIED_MOVE], at[loops.TRIED_VARIANCE]
                found = self.expect(self.likelihood, y, np.array([about + move]), np.array([v]))
                after = loops.advance(at, s, *(times * part.item() for part in found), mild, *self.how)
        return after


def value_of(row: Table) -> tuple[Any, float, float]:
    """Value, weight and offset of a table of one row."""
    y = float(row.y[0]) if row.y.ndim == 1 else row.y
    weight = 1.0 if row.weight is None else float(row.weight[0])
    return y, weight, 0.0 if row.offset is None else float(row.offset[0])


def filter_step(messages: list[PointMessage], here: Level | FilterState) -> FilterStep:
    """Messages of points that were filtered one by one, and the states after the last."""
    linear, weights = np.array([message.linear for message in messages]), np.array([m.weight for m in messages])
    return FilterStep(linear, weights, *here.moments(), messages)
