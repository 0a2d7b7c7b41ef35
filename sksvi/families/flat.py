"""Families with one array of natural parameters: all that a step, a message and a bound ask of them, once.

With A the log normaliser and F = ∂η/∂θ the Fisher information,

    KL(q ‖ p) = η·(θ_q - θ_p) - A(θ_q) + A(θ_p),   ∂(bound)/∂u = (∂θ/∂u) F (θ_p + gradient - θ_q),

where the gradient is in η and u are unconstrained coordinates. A family is its θ, η, A, F and u.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from sksvi._typing.arrays import RandomState
from sksvi.families.base import Draw, Family, Message, between

Array = np.ndarray


class Flat(Family):
    """An exponential family in its natural parameters θ, one array."""

    @property
    def theta(self) -> Array:
        """θ."""
        raise AttributeError(f"{type(self).__name__} has no theta")

    def of_theta(self, theta: Array) -> Self:
        """The block with these natural parameters."""
        raise AttributeError(f"{type(self).__name__} has no of_theta")

    @property
    def moments(self) -> Array:
        """η = E t(x)."""
        raise AttributeError(f"{type(self).__name__} has no moments")

    @property
    def log_normaliser(self) -> Array:
        """A(θ) of each distribution, those that a block is a product of."""
        raise AttributeError(f"{type(self).__name__} has no log_normaliser")

    def fisher(self, v: Array) -> Array:
        """F v."""
        raise AttributeError(f"{type(self).__name__} has no fisher")

    @property
    def stretch(self) -> Array:
        """∂θ/∂u of the unconstrained coordinates, which do not mix."""
        raise AttributeError(f"{type(self).__name__} has no stretch")

    @property
    def standard_values(self) -> Array:
        """Unconstrained coordinates u."""
        raise AttributeError(f"{type(self).__name__} has no standard_values")

    def at(self, values: Array) -> Self:
        """The block at unconstrained coordinates."""
        raise AttributeError(f"{type(self).__name__} has no at")

    # ---- what follows
    @property
    def variance(self) -> Array:
        """Var x."""
        raise AttributeError(f"{type(self).__name__} has no variance")

    @property
    def cov(self) -> Array:
        """Covariance matrix, diagonal."""
        variance = self.variance
        return variance[..., None] * np.eye(variance.shape[-1])

    def natural(self, about: Any = None) -> tuple[Array]:
        """θ."""
        return (self.theta,)

    def replace(self, natural: Any) -> Self:
        """The block with these natural parameters."""
        (theta,) = natural
        return self.of_theta(theta)

    @staticmethod
    def natural_gradient(gradient: tuple[Array, ...]) -> tuple[Array, ...]:
        """The gradient in the moments is the natural gradient already."""
        return gradient

    def standard_gradient(self, prior: Any, gradient: tuple[Array]) -> Array:
        """Gradient of the bound, KL included, in unconstrained coordinates."""
        return self.stretch * self.fisher(gradient[0] + prior.theta - self.theta)

    def kl(self, prior: Any) -> float:
        """KL(q ‖ prior), nats, summed over all distributions."""
        between = np.sum((self.theta - prior.theta) * self.moments)
        here = self.log_normaliser
        return float(between - np.sum(here) + np.sum(np.broadcast_to(prior.log_normaliser, here.shape)))

    def divergence(self, prior: Any) -> Array:
        """KL(q ‖ prior) of each distribution, nats."""
        between = np.sum((self.theta - prior.theta) * self.moments, axis=-1)
        return between - self.log_normaliser + prior.log_normaliser

    def kl_by_plate(self, prior: Any) -> Array:
        """KL of each plate of the first axis, nats."""
        each = self.divergence(prior)
        return each.reshape(len(each), -1).sum(1)

    def over(self, prior: Any) -> Message:
        """What the data said: θ of this block less that of its prior."""
        return Message((self.theta - prior.theta,))

    def times(self, message: Message) -> Self:
        """The block of this prior times a message."""
        (theta,) = message.added()
        return self.of_theta(self.theta + theta)

    def message_from_gradient(self, gradient: tuple[Array, ...]) -> Message:
        """The gradient in the moments is a message itself."""
        return Message(tuple(gradient))

    def expected_log_message(self, message: Message) -> tuple[tuple[Array, ...], float]:
        """Natural parameters θ of the message, its gradient in the moments η, and its expected log, θ·η."""
        (theta,) = message.added()
        return (theta,), float(np.sum(theta * self.moments))

    def blended(self, other: Any, weight: float) -> Self:
        """(1 - weight) of these natural parameters plus weight of the other's."""
        return self.of_theta(between(self.theta, other.theta, weight))

    def draws_against(self, prior: Any, n: int, random_state: RandomState = None) -> tuple[Array, Array]:
        """Draws (n, ...), and KL plus (θ_q - θ_p)·(t(x) - η), which is log q - log prior."""
        draws = self.sample(n, random_state)
        off = (self.statistics(draws) - self.moments) * (self.theta - prior.theta)
        return draws, self.kl(prior) + off.reshape(n, -1).sum(1)

    def of_slopes(self, draw: Draw, slope: Array) -> tuple[Array]:
        """∂/∂η E f(x) (Khan and Lin 2017, eq. 15): V of Hoffman and Blei 2015 on the slopes of f in t(x)."""
        return self.corrected(draw, (self.in_statistics(draw, slope),))

    def of_values(self, nodes: Draw, values: Array) -> tuple[Array]:
        """Cov(t, t)⁻¹ Cov(t, f) of each coordinate: f regressed on t(x), so that what is conjugate is found exactly."""
        return (regressed(nodes, self.statistics(nodes.value), values),)

    @staticmethod
    def statistics(value: Array) -> Array:
        """t(x)."""
        raise AttributeError("the family has no statistics of a value")

    def in_statistics(self, draw: Draw, slope: Array) -> Array:
        """A slope in x at a draw as one in t(x)."""
        raise AttributeError(f"{type(self).__name__} has no gradient from slopes")


def regressed(nodes: Draw, statistics: Array, values: Array) -> Array:
    """Cov(t, t)⁻¹ Cov(t, f) under nodes, statistics (n, ..., d) and values (n, ...)."""
    t = statistics - nodes.average(statistics)
    square, cross = nodes.average(t[..., None] * t[..., None, :]), nodes.average(t * values[..., None])
    return np.linalg.solve(square, cross[..., None])[..., 0]
