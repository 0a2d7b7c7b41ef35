"""Nodes of a posterior of few hyperparameters: where they lie, and what each weighs.

A density exp L(h) with its mode at ĥ is explored along the axes of its curvature there. Each half axis gets the scale
of a normal that falls as much as the density does at `REACH` of them, so that a skewed density, or one whose mode lies
at an end of its support, is followed on either side. Nodes are those of a rule for a standard normal, stretched by
these scales (Rue, Martino & Chopin 2009, section 6.5, whose central composite design is here without its corners), and
weigh what the density is there over that normal: the rule is exact for a normal density, and its sum estimates the
integral of any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

Array = np.ndarray

#: Step of the finite differences that give the curvature at the mode.
STEP = 0.05
#: Standard deviations at which the density is compared with a normal one along each half axis.
REACH = 1.5
#: Widest scale, and widest ratio to that of the curvature, that a half axis may have.
WIDEST, STRETCHED = 5.0, 12.0
#: Nodes of one hyperparameter, and how far they reach in standard deviations.
ON_A_LINE, LINE = 7, 2.7
#: Radius of the design over the square root of the number of hyperparameters.
RADIUS = 1.1
#: Looks for the scale of a half axis, and the relative error of a fall at which it is found.
STEPS, CLOSE = 6, 0.15
#: Largest scale of a half axis that is asked once.
FARTHEST = 4.0
#: Weight that may be dropped in all.
DROPPED = 0.02


@dataclass(frozen=True)
class Nodes:
    """Values (k, H) of hyperparameters, weights (k,) that sum to 1, and the log of the density's integral, nats."""

    values: Array
    weights: Array
    log_integral: float = np.nan

    @property
    def mean(self) -> Array:
        """(H,)."""
        return self.weights @ self.values

    @property
    def std(self) -> Array:
        """(H,)."""
        return np.sqrt(np.maximum(self.weights @ np.square(self.values - self.mean), 0.0))

    def few(self, dropped: float = DROPPED) -> Nodes:
        """Without the lightest nodes, which weigh `dropped` at most together."""
        order = np.argsort(self.weights, kind="stable")
        light = order[np.cumsum(self.weights[order]) <= dropped]
        left = np.setdiff1d(np.arange(len(self.weights)), light)
        return Nodes(self.values[left], self.weights[left] / self.weights[left].sum(), self.log_integral)


def nodes_about(
    log_density: Callable[[Array], float],
    mode: Array,
    curvature: Array | None = None,
    lowest: Array | None = None,
    highest: Array | None = None,
    sharp: float = 0.0,
    along: Callable[[Array], float] | None = None,
) -> Nodes:
    """Nodes of a density of hyperparameters about its mode.

    Parameters
    ----------
    log_density : callable
        h (H,) to log density, nats; -inf outside of the support.
    mode : ndarray of shape (H,)
        May lie at an end of the support.
    curvature : ndarray of shape (H, H), optional
        Of -log density at the mode; None: by finite differences.
    lowest, highest : ndarray of shape (H,), optional
        Ends of the support; None: none.
    sharp : float, default=0.0
        Axes along which no hyperparameter has so large a standard deviation stay at the mode.
    along : callable, optional
        A density that is better and dearer: asked once per half axis, and nodes then weigh as the normals that it
        gives.

    Returns
    -------
    Nodes

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.integrals.nodes import nodes_about
    >>> found = nodes_about(lambda h: -0.5 * float(h @ h) / 0.09, np.zeros(1))
    >>> found.std.round(2), bool(abs(found.log_integral - 0.5 * np.log(2 * np.pi * 0.09)) < 1e-2)
    (array([0.3]), True)
    """
    mode = np.asarray(mode, float)
    size = len(mode)
    low = np.full(size, -np.inf) if lowest is None else np.asarray(lowest, float)
    high = np.full(size, np.inf) if highest is None else np.asarray(highest, float)

    def inside(h: Array, density: Callable[[Array], float] = log_density) -> float:
        value = density(h) if np.all((h >= low) & (h <= high)) else -np.inf
        return value if np.isfinite(value) else -np.inf

    peak = inside(mode)
    if curvature is None:
        curvature = _curvature(inside, mode, peak, low, high)
    values, vectors = np.linalg.eigh(curvature)
    axes = vectors / np.sqrt(np.maximum(values, WIDEST**-2))
    log_volume = 0.5 * size * np.log(2.0 * np.pi) + float(np.sum(np.log(np.linalg.norm(axes, axis=0))))
    axes = axes[:, np.abs(axes).max(axis=0) >= sharp]
    if not axes.shape[1]:
        return Nodes(mode[None], np.ones(1), float(peak + log_volume))
    if along is None:
        scales = np.array([[_scale(inside, mode, peak, side * axis) for axis in axes.T] for side in (-1.0, 1.0)])
    else:
        scales = _scales_along(lambda h: inside(h, along), mode, axes)
    z, share = _line() if axes.shape[1] == 1 and along is None else _composite(axes.shape[1])
    stretch = np.where(z > 0, scales[1], scales[0])
    # The volume of an orthant is that of its half axes; of a node on an axis, the mean of both sides elsewhere.
    volume = np.prod(np.where(z == 0, scales.mean(0), stretch), axis=1)
    points = mode + (z * stretch) @ axes.T
    heights = np.zeros(len(z))
    if along is None:
        heights = np.array([inside(h) for h in points]) - peak + 0.5 * np.square(z).sum(1)
    else:
        heights[~np.all((points >= low) & (points <= high), axis=1)] = -np.inf
    with np.errstate(divide="ignore"):
        logs = np.log(share) + np.log(volume) + heights
    total = float(np.logaddexp.reduce(logs))
    weights = np.exp(logs - total)
    own = weights > 0
    return Nodes(points[own], weights[own], float(peak + total + log_volume))


def _scales_along(density: Callable[[Array], float], mode: Array, axes: Array) -> Array:
    """Scales (2, axes) from the height of a density at `REACH` along each half axis; at most `FARTHEST`."""
    peak = density(mode)
    drop = np.array([[peak - density(mode + side * REACH * axis) for axis in axes.T] for side in (-1.0, 1.0)])
    return REACH / np.sqrt(2.0 * np.maximum(drop, 0.5 * (REACH / FARTHEST) ** 2))


def _curvature(log_density: Callable[[Array], float], mode: Array, peak: float, low: Array, high: Array) -> Array:
    """By differences about the mode, or inwards from an end of the support."""
    size = len(mode)
    centre = np.clip(mode, np.where(np.isfinite(low), low + STEP, mode), np.where(np.isfinite(high), high - STEP, mode))
    middle = peak if np.array_equal(centre, mode) else log_density(centre)
    out, steps = np.empty((size, size)), STEP * np.eye(size)
    for a in range(size):
        for b in range(a + 1):
            corners = [log_density(centre + s * steps[a] + t * steps[b]) for s, t in product((1, -1), repeat=2)]
            second = (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * STEP**2)
            if a == b:
                second = (corners[0] - 2 * middle + corners[3]) / (4 * STEP**2)
            out[a, b] = out[b, a] = -second
    return out if np.all(np.isfinite(out)) else np.eye(size)


def _scale(log_density: Callable[[Array], float], mode: Array, peak: float, axis: Array) -> float:
    """Scale of a half axis, in units of it: where the density has fallen as a normal has at `REACH`."""
    wanted, length = 0.5 * REACH**2, float(np.linalg.norm(axis))
    far = min(STRETCHED, WIDEST / length) * REACH
    inner, outer, at = 0.0, far, min(REACH, far)
    for _ in range(STEPS):
        drop = peak - log_density(mode + at * axis)
        inner, outer = (at, outer) if drop < wanted else (inner, at)
        if abs(drop - wanted) < CLOSE * wanted or (at == far and drop < wanted):
            return at / REACH
        # A normal's fall goes with the square of the distance.
        guess = at * np.sqrt(wanted / drop) if 0.0 < drop < np.inf else far
        at = guess if inner < guess < outer else (far if outer == far else 0.5 * (inner + outer))
    return at / REACH


def _line() -> tuple[Array, Array]:
    """The trapezoidal rule for a standard normal."""
    z = np.linspace(-LINE, LINE, ON_A_LINE)
    share = np.exp(-0.5 * np.square(z))
    return z[:, None], share / share.sum()


def _composite(size: int) -> tuple[Array, Array]:
    """Centre and axes of a sphere: exact for a standard normal to the third degree."""
    axes = RADIUS * np.sqrt(size) * np.concatenate([np.eye(size), -np.eye(size)])
    share = np.full(len(axes), 1.0 / (RADIUS**2 * len(axes)))
    return np.concatenate([np.zeros((1, size)), axes]), np.append(1.0 - RADIUS**-2, share)
