"""A hyperparameter is a block whose q is a point."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray

#: Longest Newton step of a point in its unconstrained coordinates (e-folds of a scale).
TRUST_RADIUS = 2.0


class Point:
    """A learned hyperparameter in unconstrained coordinates, with the information that earlier chunks left.

    Parameters
    ----------
    value : ndarray of shape (P,)
        Unconstrained coordinates (a log scale, cut points as first value and log increments).
    centre, information : ndarray of shape (P,) and (P, P), optional
        What was learned before: earlier data count as -1/2 (value - centre)ᵀ information (value - centre).

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Point
    >>> Point(np.array([1.0])).moved(np.array([0.5]), 1.0).value
    array([1.5])
    """

    kind = "point"
    full = False

    def __init__(self, value: Array, centre: Array | None = None, information: Array | None = None) -> None:
        self.value = np.asarray(value, float)
        size = len(self.value)
        self.centre = self.value if centre is None else centre
        self.information = np.zeros((size, size)) if information is None else information

    def prepare(self) -> None:
        """Nothing to factor."""

    @property
    def mean(self) -> Array:
        """The point."""
        return self.value

    @property
    def std(self) -> Array:
        """Zero: a point has no spread."""
        return np.zeros_like(self.value)

    @property
    def cov(self) -> Array:
        """Zero."""
        return np.zeros((len(self.value), len(self.value)))

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """The point, n times: (n, P)."""
        return np.repeat(self.value[None], n, axis=0)

    def penalty(self) -> float:
        """What earlier data lose by the move from the centre, nats."""
        delta = self.value - self.centre
        return 0.5 * float(delta @ self.information @ delta)

    def blended(self, other: Point, weight: float) -> Point:
        """(1 - weight) of this value plus weight of the other's."""
        return Point((1 - weight) * self.value + weight * other.value, other.centre, other.information)

    def forgotten(self) -> Point:
        """The same point without memory of earlier data."""
        return Point(self.value)

    def moved(self, step: Array, rate: float) -> Point:
        """The point after `rate` times a step, cut to the trust radius."""
        longest = float(np.max(np.abs(step), initial=0.0))
        step = step * min(1.0, TRUST_RADIUS / longest) if longest > 0 else step
        return Point(self.value + rate * step, self.centre, self.information)

    def newton(self, gradient: tuple[Array, Array]) -> Array:
        """Newton step for gradient (P,) and Hessian (P, P) of the new data plus the old information."""
        g, hessian = gradient
        g = g - self.information @ (self.value - self.centre)
        return ascent(g, hessian - self.information)

    def absorbed(self, hessian: Array) -> Point:
        """The point with this data's curvature added to the information."""
        return Point(self.value, self.value, self.information + _convex(-hessian))


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
