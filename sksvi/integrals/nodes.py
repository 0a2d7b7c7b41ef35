"""Nodes of a posterior of few hyperparameters: where they lie, and what each weighs.

A density exp L(h) with its mode at ĥ is explored along the axes of its curvature there. Each half axis gets the scale
of a normal that falls as much as the density does at `REACH` of them, so that a skewed density, or one whose mode lies
at an end of its support, is followed on either side. Nodes are those of a rule for a standard normal, stretched by
these scales (Rue, Martino & Chopin 2009, section 6.5: a central composite design), and weigh what the density is there
over that normal: the rule is exact for a normal density, and its sum estimates the integral of any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import chdtri, gammaln, ndtri

Array = np.ndarray

#: Step of the finite differences that give the curvature at the mode.
STEP = 0.05
#: Standard deviations at which the density is compared with a normal one along each half axis.
REACH = 1.5
#: Looks for it at most, how near it must be, and how much farther a look goes than the one before.
LOOKS, NEAR, FURTHER = 6, (0.75, 1.3), 3.0
#: Widest scale, and widest ratio to that of the curvature, that a half axis may have.
WIDEST, STRETCHED = 5.0, 12.0
#: Nodes of one hyperparameter, and how far they reach in standard deviations.
ON_A_LINE, LINE = 11, 3.0
#: Radius of the design over the square root of the number of hyperparameters.
RADIUS = 1.1
#: Most hyperparameters for which corners are looked at; beyond, axes alone.
CORNERS = 6
#: Degrees of freedom of scattered points.
TAILS = 4.0
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

    def corrected(self, by: Array) -> Nodes:
        """With a log density that is larger by `by` (k,) at the nodes than the one that they were found from."""
        logs = np.log(self.weights) + by
        total = float(np.logaddexp.reduce(logs))
        return Nodes(self.values, np.exp(logs - total), self.log_integral + total)

    def few(self, dropped: float = DROPPED) -> Nodes:
        """Without the lightest nodes, which weigh `dropped` at most together."""
        order = np.argsort(self.weights, kind="stable")
        light = order[np.cumsum(self.weights[order]) <= dropped]
        left = np.setdiff1d(np.arange(len(self.weights)), light)
        return Nodes(self.values[left], self.weights[left] / self.weights[left].sum(), self.log_integral)


@dataclass(frozen=True)
class Shape:
    """A density about its mode: axes (H, H) as columns, and the scale of either half (2, H) of each."""

    log_density: Callable[[Array], float]
    mode: Array
    peak: float
    axes: Array
    scales: Array

    def nodes(self, rule: tuple[Array, Array]) -> Nodes:
        """Nodes of a rule for a standard normal, z (k, H) and shares (k,), stretched, with the density's weights."""
        z, share = rule
        stretch = np.where(z > 0, self.scales[1], self.scales[0])
        # The volume of an orthant is that of its half axes; of a node on an axis, the mean of both sides elsewhere.
        volume = np.prod(np.where(z == 0, self.scales.mean(0), stretch), axis=1)
        points = self.mode + (z * stretch) @ self.axes.T
        heights = np.array([self.log_density(h) for h in points]) - self.peak + 0.5 * np.square(z).sum(1)
        with np.errstate(divide="ignore"):
            logs = np.log(share) + np.log(volume) + heights
        if not np.any(np.isfinite(logs)):
            return Nodes(self.mode[None], np.ones(1), self.peak)
        total = float(np.logaddexp.reduce(logs))
        weights = np.exp(logs - total)
        own = weights > 0
        lengths = np.linalg.norm(self.axes, axis=0)
        log_volume = 0.5 * len(self.mode) * np.log(2.0 * np.pi) + float(np.sum(np.log(lengths)))
        return Nodes(points[own], weights[own], float(self.peak + total + log_volume))

    def few(self, narrow: float) -> Nodes:
        """One node more than there are wide axes, and one at the mode: mean and covariance are those of a normal's.

        Parameters
        ----------
        narrow : float
            Axes that no coordinate follows so far, at one standard deviation, are left out.
        """
        reach = np.abs(self.axes).max(axis=0) * self.scales.max(axis=0)
        wide = np.flatnonzero(reach >= narrow)
        z, share = _simplex(len(wide))
        whole = np.zeros((len(z), len(self.mode)))
        whole[:, wide] = z
        return self.nodes((whole, share))


def shape_about(
    log_density: Callable[[Array], float],
    mode: Array,
    curvature: Array | None = None,
    lowest: Array | None = None,
    highest: Array | None = None,
    step: float = STEP,
) -> Shape:
    """Axes and scales of a density of hyperparameters about its mode: see `nodes_about`."""
    mode = np.asarray(mode, float)
    size = len(mode)
    low = np.full(size, -np.inf) if lowest is None else np.asarray(lowest, float)
    high = np.full(size, np.inf) if highest is None else np.asarray(highest, float)

    def inside(h: Array) -> float:
        value = log_density(h) if np.all((h >= low) & (h <= high)) else -np.inf
        return value if np.isfinite(value) else -np.inf

    peak = inside(mode)
    if curvature is None:
        curvature = _curvature(inside, mode, peak, low, high, step)
    values, vectors = np.linalg.eigh(curvature)
    axes = vectors / np.sqrt(np.maximum(values, WIDEST**-2))
    scales = np.array([[_scale(inside, mode, peak, side * axis) for axis in axes.T] for side in (-1.0, 1.0)])
    return Shape(inside, mode, peak, axes, scales)


def nodes_about(
    log_density: Callable[[Array], float],
    mode: Array,
    curvature: Array | None = None,
    lowest: Array | None = None,
    highest: Array | None = None,
    step: float = STEP,
    corners: int = CORNERS,
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
    step : float
        Of the finite differences: larger where the density has an error of its own.
    corners : int
        Most hyperparameters for which corners are looked at.

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
    return shape_about(log_density, mode, curvature, lowest, highest, step).nodes(design(len(mode), corners))


def design(size: int, corners: int = CORNERS) -> tuple[Array, Array]:
    """A rule for a standard normal: on a line, or a central composite one."""
    return _line() if size == 1 else _composite(size, size <= corners)


def _curvature(
    log_density: Callable[[Array], float], mode: Array, peak: float, low: Array, high: Array, step: float
) -> Array:
    """By differences about the mode, or inwards from an end of the support."""
    size = len(mode)
    centre = np.clip(mode, np.where(np.isfinite(low), low + step, mode), np.where(np.isfinite(high), high - step, mode))
    middle = peak if np.array_equal(centre, mode) else log_density(centre)
    steps = step * np.eye(size)
    sides = np.array([log_density(centre + one) + log_density(centre - one) for one in steps])
    out = np.diag(2.0 * middle - sides)
    for a in range(size):
        for b in range(a):
            both = steps[a] + steps[b]
            pair = log_density(centre + both) + log_density(centre - both)
            out[a, b] = out[b, a] = -0.5 * (pair - sides[a] - sides[b] + 2.0 * middle)
    out /= step**2
    return out if np.all(np.isfinite(out)) else np.eye(size)


def _scale(log_density: Callable[[Array], float], mode: Array, peak: float, axis: Array) -> float:
    """Scale of a half axis, in units of it: where the density has fallen as a normal has at `REACH`."""
    far = min(STRETCHED, WIDEST / float(np.linalg.norm(axis))) * REACH
    inner, outer, at = 0.0, np.inf, min(REACH, far)
    for _ in range(LOOKS):
        fall = peak - log_density(mode + at * axis)
        reached = np.sqrt(2.0 * max(fall, 0.0))
        if NEAR[0] * REACH <= reached <= NEAR[1] * REACH:
            return float(at / reached)
        inner, outer = (at, outer) if reached < REACH else (inner, at)
        if inner >= far:
            break
        # As if it fell like a normal from here on; between what is known, and at most some times as far.
        guess = at * REACH / max(reached, REACH / FURTHER) if np.isfinite(reached) else 0.0
        least, most = inner + 0.1 * (min(outer, far) - inner), min(inner + 0.9 * (outer - inner), FURTHER * at, far)
        at = float(np.clip(guess, min(least, most), most))
    return at / REACH


def _line() -> tuple[Array, Array]:
    """The trapezoidal rule for a standard normal."""
    z = np.linspace(-LINE, LINE, ON_A_LINE)
    share = np.exp(-0.5 * np.square(z))
    return z[:, None], share / share.sum()


def _composite(size: int, with_corners: bool) -> tuple[Array, Array]:
    """Centre, axes and corners (or half of them) of a sphere: exact for a standard normal to the third degree."""
    axes = np.sqrt(size) * np.concatenate([np.eye(size), -np.eye(size)])
    corners = np.empty((0, size))
    if with_corners:
        signs = np.array(list(product((1.0, -1.0), repeat=size)))
        if size >= 5:  # the half fraction whose signs multiply to one keeps squares and products of two apart
            signs = signs[np.prod(signs, axis=1) > 0]
        corners = signs
    sphere = RADIUS * np.concatenate([axes, corners])
    share = np.full(len(sphere), 1.0 / (RADIUS**2 * len(sphere)))
    return np.concatenate([np.zeros((1, size)), sphere]), np.append(1.0 - RADIUS**-2, share)


def _simplex(size: int) -> tuple[Array, Array]:
    """Centre and vertices of a regular simplex: exact for a standard normal to the second degree."""
    if size == 0:
        return np.zeros((1, 0)), np.ones(1)
    vertices = np.eye(size + 1) - 1.0 / (size + 1)
    # Helmert's rows span what is orthogonal to the vector of ones.
    basis = np.array([np.r_[np.ones(k), -k, np.zeros(size - k)] / np.sqrt(k * (k + 1.0)) for k in range(1, size + 1)])
    z = vertices @ basis.T
    z *= RADIUS * np.sqrt(size) / np.linalg.norm(z, axis=1, keepdims=True)
    share = np.full(size + 1, 1.0 / (RADIUS**2 * (size + 1)))
    return np.concatenate([np.zeros((1, size)), z]), np.append(1.0 - RADIUS**-2, share)


def scattered(size: int, n: int) -> tuple[Array, Array]:
    """Points of a t distribution, evenly spread, with a standard normal's density over their own.

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
    log_t = gammaln(0.5 * (TAILS + size)) - gammaln(0.5 * TAILS) - 0.5 * size * np.log(TAILS * np.pi)
    log_t = log_t - 0.5 * (TAILS + size) * np.log1p(square / TAILS)
    return z, np.exp(-0.5 * square - 0.5 * size * np.log(2.0 * np.pi) - log_t) / len(z)
