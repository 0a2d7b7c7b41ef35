"""A population of series: the Gaussian prior of the parameters of each, whose mean and spread all of them tell.

Parameters are logarithms of variances, logits of dampings and the like. Mean and spread maximise the evidence of all
series (empirical Bayes), each of which is known at its own nodes. The mean, which is a typical series, has the weak
prior of a single one, and spreads have an exponential one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sksvi.integrals.nodes import Nodes

Array = np.ndarray

#: Prior mean of the standard deviation of a parameter between series.
SPREAD = 1.0
#: How far a mean and a log spread move at a time, and the least curvature that a step believes in.
REACH, SMALLEST = 0.7, 1e-3
#: Step of the differences that give second derivatives.
STEP = 1e-3
#: Standard deviations from the mean of a population within which a search for a series begins.
WITHIN = 3.0


class PopulationPrior:
    """Normal prior of the parameters of a series, those of its states and then the likelihood's; as `WeakPrior`.

    Parameters
    ----------
    mean, sd : ndarray of shape (P,)
    n_dynamics : int
        How many of them are of the states.
    """

    def __init__(self, mean: Array, sd: Array, n_dynamics: int) -> None:
        self.mean, self.sd, self.n_dynamics = mean, sd, n_dynamics

    def starts(self, other: dict[int, float]) -> dict[int, float]:
        """An alternative start of a search, within the population."""
        low, high = self.mean - WITHIN * self.sd, self.mean + WITHIN * self.sd
        return {place: float(np.clip(value, low[place], high[place])) for place, value in other.items()}

    def log_density(self, values: Array, begin: int = 0) -> tuple[float, Array]:
        """Log density of the parameters from place `begin` on, and its slope."""
        own = slice(begin, begin + len(values))
        z = (values - self.mean[own]) / self.sd[own]
        return float(-0.5 * z @ z - np.log(np.sqrt(2.0 * np.pi) * self.sd[own]).sum()), -z / self.sd[own]

    def dynamic(self, theta: Array) -> tuple[float, Array]:
        """Log density of the parameters of the states, and its slope."""
        return self.log_density(theta)

    def of_likelihood(self, values: Array) -> tuple[float, Array]:
        """Log density of the likelihood's unconstrained parameters, and its slope."""
        return self.log_density(values, self.n_dynamics)

    def bend(self, values: Array) -> Array:
        """Second derivatives of the log density of the likelihood's parameters, (P, P)."""
        return -np.diag(self.sd[self.n_dynamics :] ** -2.0)


def prior_slope(prior: Any, values: Array, n_dynamics: int) -> Array:
    """Slope of the log density of all parameters of a series under its prior."""
    return np.concatenate([prior.dynamic(values[:n_dynamics])[1], prior.of_likelihood(values[n_dynamics:])[1]])


def first_population(nodes: list[Nodes]) -> tuple[Array, Array]:
    """Mean and standard deviation of the parameters of all series, each at its own nodes."""
    means, stds = (np.array([getattr(own, name) for own in nodes]) for name in ("mean", "std"))
    return means.mean(0), np.sqrt(means.var(0) + np.square(stds).mean(0))


def improved(mean: Array, sd: Array, nodes: list[Nodes], slope: Callable[[Array], Array]) -> tuple[Array, Array, Array]:
    """Mean and standard deviation after a Newton step of each, and the standard error of the mean.

    Slopes are those of the log evidence of all series, whose nodes are under this population (Fisher's identity);
    curvatures are those of normal likelihoods with the moments that the posteriors have.

    Parameters
    ----------
    mean, sd : ndarray of shape (P,)
    nodes : list of Nodes
        Of each series.
    slope : callable
        Slope of the log prior density of the mean.
    """
    off = (np.array([own.mean for own in nodes]) - mean) / sd
    left = np.square(np.array([own.std for own in nodes]) / sd)  # the share of its prior variance that a series leaves
    steps = STEP * np.eye(len(mean))
    own = np.array([slope(mean - step) - slope(mean + step) for step in steps]).diagonal() / (2.0 * STEP)
    curvature = np.maximum((1.0 - left).sum(0) / sd**2 + own, SMALLEST)
    by = (off.sum(0) / sd + slope(mean)) / curvature
    # In the logarithm of the deviation, with its prior.
    slopes = (left + np.square(off) - 1.0).sum(0) + 1.0 - sd / SPREAD
    bends = (2.0 * left * (1.0 - left) + 2.0 * np.square(off) * (1.0 - 2.0 * left)).sum(0) + sd / SPREAD
    log_by = slopes / np.where(bends > SMALLEST, bends, np.abs(slopes) / REACH + SMALLEST)
    return mean + np.clip(by, -REACH, REACH), sd * np.exp(np.clip(log_by, -REACH, REACH)), curvature**-0.5
