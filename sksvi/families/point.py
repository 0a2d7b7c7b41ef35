"""A hyperparameter is a block whose q is a point."""

from __future__ import annotations

from typing import Self

import numpy as np

from sksvi.families.base import Message, PointMass

Array = np.ndarray

#: Longest Newton step of a point in its unconstrained coordinates (e-folds of a scale).
TRUST_RADIUS = 2.0


class Point(PointMass):
    """A learned array without spread, in unconstrained coordinates, with the information that earlier portions left.

    Parameters
    ----------
    value : ndarray of any shape; (P,) where steps are Newton's
        Unconstrained coordinates (a log scale, cut points as first value and log increments, inducing inputs).
    centre, information : ndarray of shape (P,) and (P, P), optional
        What was learned before: earlier data count as -1/2 (value - centre)ᵀ information (value - centre).

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Point
    >>> Point(np.array([1.0])).moved(np.array([0.5]), 1.0).value
    array([1.5])
    """

    LAYOUT = "value (…) f; centre? (…) f; information? (P,P) f where P == self.value.size"

    column = "hyper"
    array_dims = {"value": 1}
    # Files that have only a value are of points that remember nothing.
    centre: Array | None = None
    information: Array | None = None

    def __init__(self, value: Array, centre: Array | None = None, information: Array | None = None) -> None:
        self.value = np.asarray(value, float)
        self.centre = self.value if centre is None else centre
        self.information = information

    @property
    def mean(self) -> Array:
        """The value."""
        return self.value

    @property
    def moments(self) -> Array:
        """The value."""
        return self.value

    def _made(self, value: Array) -> Self:
        return type(self)(value, self.centre, self.information)

    def _strayed(self) -> Array:
        """How far the value is from where earlier data had it."""
        return np.zeros_like(self.value) if self.centre is None else self.value - self.centre

    def penalty(self) -> float:
        """What earlier data lose by the move from the centre, nats."""
        if self.information is None:
            return 0.0
        delta = self._strayed()
        return 0.5 * float(delta @ self.information @ delta)

    @property
    def curvature(self) -> Array:
        """Hessian of what it remembers, (P, P)."""
        size = self.value.size
        return np.zeros((size, size)) if self.information is None else -self.information

    def blended(self, other: Point, weight: float) -> Self:
        """(1 - weight) of this value plus weight of the other's."""
        return type(self)((1 - weight) * self.value + weight * other.value, other.centre, other.information)

    def at(self, value: Array) -> Self:
        """The point at another value, with the same memory of earlier data."""
        return self._made(value)

    def forgotten(self) -> Self:
        """The point at this value, without memory of earlier data."""
        return type(self)(self.value)

    def faded(self, share: float) -> Self:
        """The point with a share of what it remembers of earlier data."""
        return type(self)(self.value, self.centre, None if self.information is None else share * self.information)

    def moved(self, step: Array, rate: float) -> Self:
        """The point after `rate` times a step, cut to the trust radius."""
        longest = float(np.max(np.abs(step), initial=0.0))
        step = step * min(1.0, TRUST_RADIUS / longest) if longest > 0 else step
        return self._made(self.value + rate * step)

    def slopes(self, gradient: tuple[Array, Array]) -> tuple[Array, Array]:
        """Gradient (P,) and Hessian (P, P) of the new data plus the old information."""
        g, hessian = (np.asarray(part, float) for part in gradient)
        if self.information is None:
            return g, hessian
        return g - self.information @ self._strayed(), hessian - self.information

    def newton(self, gradient: tuple[Array, Array]) -> Array:
        """Newton step for gradient (P,) and Hessian (P, P) of the new data plus the old information."""
        return ascent(*self.slopes(gradient))

    def message_from_gradient(self, gradient: tuple[Array, Array]) -> Message:
        """(g + J θ, J) with J = -H, for gradient and Hessian at the value θ."""
        g, information = self.natural_gradient(gradient)
        return Message((g + information @ self.value, information))

    def bounded(self, message: Message) -> Message:
        """The message with the same slope at this value, without parabolas that open upwards, which have no maximum."""
        (g, hessian), _ = self.expected_log_message(message)
        return self.message_from_gradient((g, -_convex(-hessian)))

    @staticmethod
    def natural_gradient(gradient: tuple[Array, Array]) -> tuple[Array, Array]:
        """(g, J) with J = -H."""
        g, hessian = gradient
        return g, -hessian

    def expected_log_message(self, message: Message) -> tuple[tuple[Array, Array], float]:
        """Gradient and Hessian at the value θ of hᵀθ - θᵀJ θ / 2, and itself."""
        linear, information = message.added()
        there = information @ self.value
        return (linear - there, -information), float(self.value @ (linear - 0.5 * there))

    def absorbed(self, hessian: Array) -> Self:
        """The point with this data's curvature added to the information."""
        added = np.asarray(_convex(-hessian), float)
        return type(self)(self.value, self.value, added if self.information is None else self.information + added)


def _convex(information: Array) -> Array:
    """An information matrix without its negative eigenvalues."""
    values, vectors = np.linalg.eigh(information)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def ascent(g: Array, hessian: Array) -> Array:
    """-H⁻¹ g with H made concave; a direction without curvature keeps its gradient's sign at most."""
    values, vectors = np.linalg.eigh(hessian)
    size = np.abs(values)
    along = vectors.T @ g
    floor = np.maximum(np.abs(along) / TRUST_RADIUS, np.finfo(float).tiny)
    return vectors @ (along / np.maximum(size, floor))


#: A point without memory of earlier data: kernel parameters, inducing inputs.
Free = Point
