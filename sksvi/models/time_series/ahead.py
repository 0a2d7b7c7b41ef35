"""One-step-ahead predictions: of every point from those before it, with messages that depend on these alone.

The message of t follows from the prediction of f_t, which follows from earlier messages. Sweeping over all points at
once, and giving each message a few steps of its own at the prediction as it stands, settles them from the first on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sksvi.algorithms.line_search import halved
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.models.base import Table

Array = np.ndarray

#: Most sweeps, steps of a message in each, and the change of a prediction, in its standard deviations, that ends them.
SWEEPS, STEPS, SETTLED = 500, 2, 1e-6
#: How fast a shortened step grows again.
GROWTH = 1.3
#: Relative fall of a bound that the error of its integral explains.
SLACK = 1e-7


class Ahead(NamedTuple):
    """Predictions (T,) of f without offset, and the block of the messages that depend on earlier points alone."""

    mean: Array
    variance: Array
    block: ChainGaussian


def one_step_ahead(likelihood: Any, block: ChainGaussian, data: Table, expect: Any) -> Ahead:
    """Predictions of each point from those before it.

    Parameters
    ----------
    likelihood : Likelihood
        With every parameter a number.
    block : ChainGaussian
        Its messages are where the search for others begins.
    data : Table
    expect : Expectation
    """
    chain, T = block.chain, len(block.chain)
    observed = np.arange(T) if data.weight is None else np.flatnonzero(data.weight > 0)
    linear, weights = block.linear.copy(), np.maximum(block.weights, 0.0)
    linear += (weights - block.weights) * block.mean  # the same mean, where a message of a negative precision is lost
    rate, before, moved = np.ones(T), np.full(T, np.inf), np.full(T, np.inf)
    for _ in range(SWEEPS):
        m, s = ChainGaussian(chain, linear, weights).ahead()
        reach = SETTLED * np.sqrt(s)
        at = observed[(np.abs(m - before) > reach)[observed] | (moved > reach)[observed]]
        if not len(at):
            break
        before = m
        with np.errstate(over="ignore", invalid="ignore"):  # steps beyond all numbers are not taken
            found = _own_steps(likelihood, data.take(at), expect, m[at], s[at], linear[at], weights[at], rate[at])
        linear[at], weights[at], rate[at], moved[at] = found
    return Ahead(m, s, ChainGaussian(chain, linear, weights))


def _own_steps(
    likelihood: Any, rows: Table, expect: Any, m: Array, s: Array, linear: Array, weights: Array, rate: Array
) -> tuple[Array, Array, Array, Array]:
    """A few natural steps of each point's own message at these predictions, each kept where its own bound rises.

    Also how far the mean of f moved in the last one.
    """
    rate = np.minimum(1.0, GROWTH * rate)
    here = _at(likelihood, rows, expect, m, s, linear, weights)
    for _ in range(STEPS):
        value, mean, alpha, gamma = here
        target = np.maximum(-2.0 * gamma, 0.0)
        # The linear part about the mean as it is: nothing is left to do where alpha is what the message says.
        own = linear - weights * mean
        tried_weights = (1.0 - rate) * weights + rate * target
        tried = (1.0 - rate) * own + rate * alpha + tried_weights * mean
        there = _at(likelihood, rows, expect, m, s, tried, tried_weights)
        better = there[0] >= value - SLACK * (1.0 + np.abs(value))
        rate = halved(rate, better)
        linear, weights = np.where(better, tried, linear), np.where(better, tried_weights, weights)
        here = tuple(np.where(better, new, old) for new, old in zip(there, here, strict=True))  # type: ignore[assignment]
        moved = np.abs(there[1] - mean)
    return linear, weights, rate, moved


def _at(
    likelihood: Any, rows: Table, expect: Any, m: Array, s: Array, linear: Array, weights: Array
) -> tuple[Array, Array, Array, Array]:
    """Each point's own bound, the mean of f there, and slopes in mean and variance."""
    D = 1.0 + weights * s
    off = linear - weights * m
    v = s / D
    step = v * off
    mean = m + step
    f = mean if rows.offset is None else mean + rows.offset
    value, alpha, gamma = expect(likelihood, rows.y, f, v)
    kl = 0.5 * (np.log(D) - weights * v + step * (off - weights * step))
    if rows.weight is not None:
        value, alpha, gamma = value * rows.weight, alpha * rows.weight, gamma * rows.weight
    value = value - kl
    good = np.isfinite(value) & np.isfinite(mean) & np.isfinite(alpha) & np.isfinite(gamma)
    return np.where(good, value, -np.inf), mean, alpha, gamma
