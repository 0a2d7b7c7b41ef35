"""Coefficients whose learned prior has shrunk to nothing, and how large they may be all the same.

Where the data say less of a coefficient than its error, the best prior scale is zero, and with it the posterior. That
is a point estimate of the scale: others are hardly less likely. What is shown instead is the coefficient's interval
under the widest scale that a 90 % profile-likelihood interval allows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sksvi.families.gaussian.dense import gaussian
from sksvi.inference.engine import evaluate, whole
from sksvi.inference.memory.of_rows import DIRECT
from sksvi.inference.problem import Problem
from sksvi.inference.state import State

Array = np.ndarray

#: Share of a coefficient that the data determine, the rest being prior, below which it is switched off.
DETERMINED = 1e-3
#: Twice the fall of the log likelihood at the ends of a 90 % interval: the quantile of chi-squared with 1 degree.
FALL = 2.7055434541
#: Steps of the fixed point, each of which at least halves the error.
STEPS = 60


@dataclass(frozen=True)
class SwitchedOff:
    """Which coefficients are off; mean and deviation at the widest scale, in posterior standard deviations.

    Arrays of shape (K, D), with the intercept (K, D + 1), which never is.
    """

    which: Array
    mean: Array
    std: Array

    def widened(self, draws: Array, mean: Array, std: Array) -> Array:
        """Draws (S, P) or (S, K, P) of weights of this mean and deviation, with those that are off at the widest scale.

        The coefficients are the first of the P.
        """
        out = draws.copy()
        for k, j in np.argwhere(self.which):
            at = (j,) if mean.ndim == 1 else (k, j)
            out[:, *at] = self.mean[k, j] * std[at] + self.std[k, j] * (draws[:, *at] - mean[at])
        return out


def switched_off(problem: Problem, state: State) -> SwitchedOff | None:
    """Coefficients that the learned prior has switched off, or None where there are none.

    Parameters
    ----------
    problem : Problem
        Of a linear model whose prior precision is learned.
    state : State
    """
    model, weights = problem.model, state.q["weights"]
    precision = model.precision(state.q)[: model.n_fixed]
    share = 1.0 - precision * model.by_latent(weights.variance)[:, : model.n_fixed]
    off = np.zeros((len(share), model.width), bool)
    off[:, : model.n_fixed] = np.all(share < DETERMINED, axis=0)
    if not off.any():
        return None
    slope, information = _left_free(problem, state, np.flatnonzero(off))
    # Of a constant column the data say nothing: it keeps its prior, whatever that is.
    informed = information > 0
    off[off] = informed
    slope, information = slope[informed], information[informed]
    if not off.any():
        return None
    score = np.square(slope) / information
    wide = widest(score)
    mean, std = np.zeros(off.shape), np.ones(off.shape)
    own = model.by_latent(np.sqrt(weights.variance))[off]
    mean[off] = wide / (1.0 + wide) * slope / information / own
    std[off] = np.sqrt(wide / (1.0 + wide) / information) / own
    shown = [*range(model.n_fixed), *[model.width - 1] * model.fit_intercept]
    return SwitchedOff(off[:, shown], mean[:, shown], std[:, shown])


def _left_free(problem: Problem, state: State, at: Array) -> tuple[Array, Array]:
    """Slope and curvature of the log likelihood in each of the coefficients `at`, the others settling with it."""
    weights, exact = state.q["weights"], replace(problem, expect=problem.exact, messages=DIRECT)
    weights.prepare()
    slope, curvature = evaluate(exact, state, whole(problem))[0]["weights"]
    said: Any = gaussian(weights.mean, -2.0 * curvature)
    information = np.empty(len(at))
    for k, j in enumerate(at):
        unit = np.zeros(weights.mean.size)
        unit[j] = 1.0
        column = said.dot(unit.reshape(weights.mean.shape)).ravel()
        own, column[j] = column[j], 0.0
        information[k] = own - float(np.sum(np.square(weights.uncoloured(column.reshape(weights.mean.shape)))))
    return np.ravel(slope)[at], information


def widest(score: Array) -> Array:
    """Largest prior variance, in squared errors of the estimate, that is not much less likely than the best, 0.

    The estimate is N(0, 1 + t) for a prior variance t; `score` is its square. With score <= 1 the best t is 0, and
    log(1 + t) - score t / (1 + t) rises from 0 to `FALL` at the end of the interval.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.linear_model._switched_off import widest
    >>> widest(np.array([0.0, 0.5])).round(1)
    array([14. , 23.2])
    """
    t = np.zeros(np.shape(score))
    for _ in range(STEPS):
        # Beyond e^700 a prior is flat to the last digit.
        t = np.expm1(np.minimum(FALL + score * t / (1.0 + t), 700.0))
    return t
