"""The updates: pure functions, block in, block out.

``gradient`` is that of the batch's expected log-likelihood times N/B in the block's mean and covariance (moments for
conjugate families); no function here knows a model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi.families.gaussian import NotPositiveDefinite
from sksvi.schedules import AdaGrad

Array = np.ndarray

#: Halvings of a step before it is called impossible.
MAX_HALVINGS = 20


@dataclass(frozen=True)
class AdaGradMemory:
    """Sums of squared gradients per datum, of the mean and of C, and the unit of each coordinate."""

    unit: Array
    mean: Array
    root: Array

    @classmethod
    def start(cls, q: Any) -> AdaGradMemory:
        """Empty sums for a Gaussian block; the units are its first standard deviations."""
        return cls(q.std, np.zeros_like(q.mean), np.zeros_like(q.root))


def natural_step(q: Any, prior: Any, gradient: Any, rate: float) -> Any:
    """theta <- (1 - rate) theta + rate (theta_prior + gradient): equations.md 1, every natural block of the library."""
    target = [p + g for p, g in zip(prior.natural(q), q.natural_gradient(gradient), strict=True)]
    return q.replace([(1 - rate) * t + rate * s for t, s in zip(q.natural(q), target, strict=True)])


def hybrid_step(
    q: Any, prior: Any, gradient: Any, rate: float, memory: AdaGradMemory, adagrad: AdaGrad, n: float
) -> tuple[Any, AdaGradMemory]:
    """AdaGrad on the Gaussian mean, the natural step on its covariance."""
    in_mean = prior.times(prior.mean - q.mean) + gradient[0]
    step, total = adagrad.step(in_mean * memory.unit / n, memory.mean)
    moved = natural_step(q, prior, gradient, rate)
    return type(q)(q.mean + memory.unit * step, moved.precision, moved.root), AdaGradMemory(
        memory.unit, total, memory.root
    )


def euclidean_step(
    q: Any, prior: Any, gradient: Any, memory: AdaGradMemory, adagrad: AdaGrad, n: float
) -> tuple[Any, AdaGradMemory]:
    """AdaGrad on mean and Cholesky factor; a factor that leaves its domain is shortened (see `shortened`)."""
    in_mean, in_root = q.standard_gradient(prior, gradient)
    unit = memory.unit[..., None, :] if q.full else memory.unit
    mean_step, mean_total = adagrad.step(in_mean * memory.unit / n, memory.mean)
    root_step, root_total = adagrad.step(in_root * unit / n, memory.root)
    step = shortened(lambda share: type(q)(q.mean + share * memory.unit * mean_step, q.root + share * unit * root_step))
    return step, AdaGradMemory(memory.unit, mean_total, root_total)


def site_step(sites: Array, target: Array, rate: float) -> Array:
    """Damped messages: (1 - rate) site + rate target, one per datum (CVI, equations.md 1)."""
    return (1 - rate) * sites + rate * target


def shortened(step: Callable[[float], Any], counter: list[int] | None = None) -> Any:
    """The first of step(1), step(1/2), ... whose precision is positive definite: the one PSD policy.

    Raises
    ------
    NotPositiveDefinite
        After ``MAX_HALVINGS`` halvings.
    """
    share = 1.0
    for halving in range(MAX_HALVINGS + 1):
        try:
            return step(share)
        except NotPositiveDefinite as error:
            if halving == MAX_HALVINGS:
                raise
            last = error
            share /= 2
            if counter is not None:
                counter[0] += 1
    raise last
