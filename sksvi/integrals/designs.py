"""Rules for a standard normal of several dimensions: points z (k, H) and shares (k,), which sum to 1."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import chdtri, ndtri

Array = np.ndarray
Rule = tuple[Array, Array]

#: Nodes of one hyperparameter, and how far they reach in standard deviations.
ON_A_LINE, LINE = 7, 2.7
#: Radius of a design over the square root of the number of hyperparameters.
RADIUS = 1.1
#: Degrees of freedom of scattered points.
TAILS = 4.0


def design(size: int, corners: int = 0) -> Rule:
    """A line, or the centre and axes of a sphere; its corners too where there are at most `corners` dimensions."""
    return line() if size == 1 else composite(size, size <= corners)


def line() -> Rule:
    """The trapezoidal rule."""
    z = np.linspace(-LINE, LINE, ON_A_LINE)
    share = np.exp(-0.5 * np.square(z))
    return z[:, None], share / share.sum()


def composite(size: int, with_corners: bool = False) -> Rule:
    """Centre, axes and corners (or half of them) of a sphere: exact to the third degree."""
    if size == 0:
        return np.zeros((1, 0)), np.ones(1)
    sphere = np.sqrt(size) * np.concatenate([np.eye(size), -np.eye(size)])
    if with_corners:
        signs = np.array(list(product((1.0, -1.0), repeat=size)))
        if size >= 5:  # the half fraction whose signs multiply to one keeps squares and products of two apart
            signs = signs[np.prod(signs, axis=1) > 0]
        sphere = np.concatenate([sphere, signs])
    return _about_the_centre(RADIUS * sphere)


def simplex(size: int) -> Rule:
    """Centre and vertices of a regular simplex: exact to the second degree."""
    if size == 0:
        return np.zeros((1, 0)), np.ones(1)
    # Helmert's rows span what is orthogonal to the vector of ones.
    basis = np.array([np.r_[np.ones(k), -k, np.zeros(size - k)] / np.sqrt(k * (k + 1.0)) for k in range(1, size + 1)])
    vertices = (np.eye(size + 1) - 1.0 / (size + 1)) @ basis.T
    return _about_the_centre(RADIUS * np.sqrt(size) * vertices / np.linalg.norm(vertices, axis=1, keepdims=True))


def _about_the_centre(sphere: Array) -> Rule:
    """Points of equal share on a sphere, and the centre with the rest."""
    share = np.full(len(sphere), 1.0 / (RADIUS**2 * len(sphere)))
    centre = np.zeros((1, sphere.shape[1]))
    return np.concatenate([centre, sphere]), np.append(1.0 - RADIUS**-2, share)


def scattered(size: int, n: int) -> Rule:
    """Points of a t distribution, evenly spread, with a standard normal's density over their own, scaled to a sum of 1.

    Unlike a design of few nodes it follows tails that are heavy, and a second mode that is not far.
    """
    ratio = 2.0
    for _ in range(30):  # the root of x^(d + 1) = x + 1, whose powers spread points evenly in d dimensions
        ratio = (1.0 + ratio) ** (1.0 / (size + 2))
    steps = ratio ** -np.arange(1.0, size + 2)
    uniform = (0.5 + np.arange(1, n // 2 + 1)[:, None] * steps) % 1.0
    normal, spread = ndtri(uniform[:, :-1]), chdtri(TAILS, 1.0 - uniform[:, -1]) / TAILS
    z = np.concatenate([normal, -normal]) / np.sqrt(np.tile(spread, 2))[:, None]
    square = np.square(z).sum(1)
    log_t = -0.5 * (TAILS + size) * np.log1p(square / TAILS)
    share = np.exp(-0.5 * square - log_t)
    return z, share / share.sum()
