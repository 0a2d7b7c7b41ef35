"""One point that follows others: what is predicted of its f is known, and so is all that its own message depends on.

The steps of a fit to this point alone, by numbers in the place of arrays: a stream that comes one by one has no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sksvi.algorithms.steps import MAX_HALVINGS
from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian.chain import Chain
from sksvi.inference.passes.judged import DAMPING_GROWTH, PREDICTED_SHARE
from sksvi.inference.stopping import ROUNDING
from sksvi.models.base import Table
from sksvi.models.time_series.search import first_messages

Array = np.ndarray

#: Of a message that knows at most so many times what the prediction does, steps may begin at the prediction.
MILD = 4.0

#: E log p(y|f) and its slopes in mean and variance, of the two.
Told = Callable[[float, float], tuple[float, float, float]]


class Met(NamedTuple):
    """Messages of points and the states after them; the bound, looks at the points, steps, and whether these settled.

    linear, weights (n,). last (m,), last_cov (m, m).
    """

    linear: Array
    weights: Array
    last: Array
    last_cov: Array
    bound: float
    looks: int
    steps: int
    settled: bool


class _Here(NamedTuple):
    """A message about the predicted mean, the moments of f under it, and what the point says there."""

    linear: float
    weight: float
    move: float
    variance: float
    bound: float
    alpha: float
    gamma: float


#: Mean and variance of an f, and its covariance with the states.
Ahead = tuple[float, float, Array]


def predicted(chain: Chain) -> Ahead:
    """Mean and variance of the first f of a chain, and its covariance with the states."""
    if chain.is_level:
        return float(chain.mean[0]), float(chain.cov[0, 0]), chain.cov[0]
    h = np.concatenate([chain.h, chain.X[0]])
    M = chain.cov @ h
    return float(h @ chain.mean), float(h @ M), M


def one_met(likelihood: Any, chain: Chain, ahead: Ahead, row: Table, expect: Any, tol: float, most: int) -> Met:
    """A point whose chain is what is known of it before its message.

    Parameters
    ----------
    likelihood : Likelihood
        With every parameter a number.
    chain : Chain
        Of one point.
    ahead : tuple
        `predicted` of it.
    row : Table
        Of one row.
    expect : Expectation
        Without noise.
    tol : float
        As of a fit.
    most : int
        Looks at most.

    Raises
    ------
    NotPositiveDefinite
        Where no step from the first message leaves a positive precision, or it has no finite bound.
    """
    if row.weight is not None and row.weight[0] == 0.0:
        return Met(np.zeros(1), np.zeros(1), chain.mean, chain.cov, 0.0, 1, 0, True)
    mean, variance, M = ahead
    weight = 1.0 if row.weight is None else float(row.weight[0])
    at = mean if row.offset is None else mean + float(row.offset[0])

    def told(move: float, spread: float) -> tuple[float, float, float]:
        value, alpha, gamma = expect(likelihood, row.y, np.array([at + move]), np.array([spread]))
        return weight * value.item(), weight * alpha.item(), weight * gamma.item()

    with np.errstate(over="ignore", invalid="ignore"):
        here = _at(told, variance, 0.0, 0.0)
        if here is None or -2.0 * here.gamma * variance > MILD:
            linear, weights = (float(part[0]) for part in first_messages(likelihood, row))
            here = _at(told, variance, linear - weights * mean, weights)
        if here is None:
            raise NotPositiveDefinite("the first message of the point has no finite bound", 0)
        here, looks, settled = _settled(told, variance, here, tol, most)
    known = here.weight / (1.0 + here.weight * variance)
    scaled = M * math.sqrt(abs(known))  # so that the covariance is symmetric to the last bit
    told_of = scaled[:, None] * scaled
    return Met(
        np.array([here.linear + here.weight * mean]),
        np.array([here.weight]),
        chain.mean + M * (here.move / variance),
        chain.cov - told_of if known > 0.0 else chain.cov + told_of,
        here.bound,
        looks,
        looks - settled,
        settled,
    )


def _settled(told: Told, s: float, here: _Here, tol: float, most: int) -> tuple[_Here, int, bool]:
    """Natural steps, each halved while the bound falls, until the next promises too little or two gained too little."""
    rate, halvings, small = 1.0, 0, 0
    for looks in range(1, most + 1):
        size, there = abs(here.bound) + 1.0, None
        weight = (1.0 - rate) * here.weight - rate * 2.0 * here.gamma
        linear = (1.0 - rate) * here.linear + rate * (here.alpha - 2.0 * here.gamma * here.move)
        if 1.0 + weight * s > 0.0:
            move, v = s * linear / (1.0 + weight * s), s / (1.0 + weight * s)
            change = 0.5 * ((move - here.move) ** 2 / v + 0.5 * (v / here.variance - 1.0) ** 2)
            if change / rate**2 < PREDICTED_SHARE * tol * size:
                return here, looks, True
            there = _at(told, s, linear, weight)
        if there is None or there.bound < here.bound - ROUNDING * size:
            if halvings == MAX_HALVINGS:  # no step from here gains
                return here, looks, True
            rate, halvings = 0.5 * rate, halvings + 1
            continue
        small = small + 1 if there.bound - here.bound < tol * rate * size else 0
        here, rate, halvings = there, rate if halvings else min(1.0, DAMPING_GROWTH * rate), 0
        if small == 2:
            return here, looks, True
    return here, most, False


def _at(told: Told, s: float, linear: float, weight: float) -> _Here | None:
    """What is there under a message of positive joint precision; None: no finite numbers."""
    D = 1.0 + weight * s
    move, v = s * linear / D, s / D
    value, alpha, gamma = told(move, v)
    bound = value - 0.5 * (1.0 / D - 1.0 + move * move / s + math.log(D))
    good = math.isfinite(bound) and math.isfinite(alpha) and math.isfinite(gamma)
    return _Here(linear, weight, move, v, bound, alpha, gamma) if good else None
