"""Nodes of a posterior of few hyperparameters: where they lie, and what each weighs.

A density exp L(h) with its mode at ĥ is explored along the axes of its curvature there. Each half axis gets the scale
of a normal that falls as much as the density does at `REACH` of them, so that a skewed density is followed on either
side. A support that ends near the mode is left for coordinates without ends first (`integrals/unbounded.py`). Nodes are
those of a rule for a standard normal, stretched by these scales (Rue, Martino & Chopin 2009, section 6.5: a central
composite design), and weigh what the density is there over that normal: the rule is exact for a normal density, and its
sum estimates the integral of any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import chdtri, ndtri

from sksvi.integrals.unbounded import Unbounded

# ---- rules for a standard normal of several dimensions: points z (k, H) and shares (k,), which sum to 1
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


def corners(size: int) -> Rule:
    """Centre and corners of a cube: exact to the third degree, with nodes away from the axes."""
    return _about_the_centre(RADIUS * np.array(list(product((1.0, -1.0), repeat=size))))


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


# ---- nodes of a posterior
Density = Callable[[Array], float]

#: Step of the finite differences that give the curvature at the mode.
STEP = 0.1
#: Step of the differences of slopes, which are exact.
SLOPE_STEP = 0.01
#: Standard deviations at which the density is compared with a normal one along each half axis.
REACH = 1.5
#: Looks for it at most, how near it must be, and how much farther a look goes than the one before.
LOOKS, NEAR, FURTHER = 6, (0.75, 1.3), 3.0
#: Widest scale, and widest ratio to that of the curvature, that a half axis may have.
WIDEST, STRETCHED = 5.0, 12.0
#: Largest scale of a half axis that is asked once.
FARTHEST = 4.0
#: Weight that may be dropped in all.
DROPPED = 0.02


@dataclass(frozen=True)
class Nodes:
    """Values (k, H) of hyperparameters, weights (k,) that sum to 1, and the log of the density's integral, nats.

    ``within`` (H,): variance about every node, along axes that are so narrow that nodes do not follow them.
    """

    LAYOUT = "values (n,s) f where n > 0; within? (s) f >=0; weights (n) f >0 where abs(it.sum() - 1) < 1e-6"

    values: Array
    weights: Array
    log_integral: float = np.nan
    within: Array | None = None

    @property
    def mean(self) -> Array:
        """Mean of the hyperparameters, (H,)."""
        return self.weights @ self.values

    @property
    def std(self) -> Array:
        """Standard deviation of the hyperparameters, (H,)."""
        within = 0.0 if self.within is None else self.within
        return np.sqrt(np.maximum(self.weights @ np.square(self.values - self.mean), 0.0) + within)

    def corrected(self, by: Array) -> Nodes:
        """The nodes under a log density that is larger by `by` (k,) at them than the one that they were found from."""
        logs = np.log(self.weights) + by
        total = float(np.logaddexp.reduce(logs))
        return Nodes(self.values, np.exp(logs - total), self.log_integral + total, self.within)

    def few(self, dropped: float = DROPPED) -> Nodes:
        """The nodes without the lightest ones, which weigh `dropped` at most together."""
        order = np.argsort(self.weights, kind="stable")
        left = np.sort(order[np.cumsum(self.weights[order]) > dropped])
        weights = self.weights[left] / self.weights[left].sum()
        return Nodes(self.values[left], weights, self.log_integral, self.within)


@dataclass(frozen=True)
class Shape:
    """A density about its centre, in coordinates without ends.

    ``axes`` (H, a): those along which nodes are, as columns. ``scales`` (2, a): of either half of each. ``log_volume``
    : log of the integral of the normal with the curvature at the centre, over the density there. ``within`` (H,):
    variance of hyperparameters along axes that are left out. ``evaluated`` (a,): axes along which nodes weigh what the
    density is; along the others it is that normal.
    """

    log_density: Density
    places: Unbounded
    peak: float
    axes: Array
    scales: Array
    log_volume: float
    within: Array
    evaluated: Array

    def nodes(self, rule: Rule, as_normals: bool = False) -> Nodes:
        """Nodes of a rule for a standard normal, z (k, a) and shares (k,), stretched.

        They weigh what the density is, or as the normals that the scales are of. Where the density is zero at all of
        them the centre is the only node, and the integral that of the normal.
        """
        z, share = rule
        stretch = np.where(z > 0, self.scales[1], self.scales[0])
        # The volume of an orthant is that of its half axes; of a node on an axis, the mean of both sides elsewhere.
        volume = np.prod(np.where(z == 0, self.scales.mean(0), stretch), axis=1)
        x = (z * stretch) @ self.axes.T
        logs, differ = np.zeros(len(x)), np.any((z != 0.0) & self.evaluated, axis=1)
        with np.errstate(invalid="ignore"):  # of a fit whose mode has no density
            logs[differ] = [self.log_density(one) for one in x[differ]]
            logs[differ] += 0.5 * np.square(z[differ]).sum(1) - self.peak
        logs = np.where(np.isnan(logs), -np.inf, logs)
        if as_normals:
            logs = np.where(np.isfinite(logs), 0.0, logs)
        with np.errstate(divide="ignore"):
            logs = logs + np.log(share) + np.log(volume)
        total = float(np.logaddexp.reduce(logs))
        if not np.isfinite(total):
            centre = self.places.at(np.zeros(len(self.axes)))
            return Nodes(centre[None], np.ones(1), self.peak + self.log_volume, self.within)
        weights = np.exp(logs - total)
        own = weights > 0
        points = np.array([self.places.at(one) for one in x[own]])
        return Nodes(points, weights[own], float(self.peak + total + self.log_volume), self.within)

    def wide(self, sharp: float) -> Shape:
        """The shape without axes along which no hyperparameter has a standard deviation of `sharp`."""
        axes = self.places.linear @ self.axes
        own = (np.abs(axes).max(axis=0) * self.scales.max(axis=0)) >= sharp
        left = np.square(axes[:, ~own] * self.scales[:, ~own].mean(axis=0)).sum(axis=1)
        axes_and_scales, within = (self.axes[:, own], self.scales[:, own]), self.within + left
        return Shape(
            self.log_density, self.places, self.peak, *axes_and_scales, self.log_volume, within, self.evaluated[own]
        )


def nodes_about(
    log_density: Density,
    mode: Array,
    curvature: Array | None = None,
    lowest: Array | None = None,
    highest: Array | None = None,
    sharp: float | Array = 0.0,
    along: Density | None = None,
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
    sharp : float or ndarray of shape (H,), default=0.0
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
    shape = shape_about(log_density, mode, curvature, lowest, highest, sharp=sharp, along=along)
    size = shape.axes.shape[1]
    return shape.nodes(design(size) if along is None else composite(size), along is not None)


def shape_about(
    log_density: Density,
    mode: Array,
    curvature: Array | None = None,
    lowest: Array | None = None,
    highest: Array | None = None,
    *,
    sharp: float | Array = 0.0,
    along: Density | None = None,
    step: float = STEP,
    narrow: float = 0.0,
) -> Shape:
    """Axes and scales of a density of hyperparameters about its mode: see `nodes_about`.

    ``step`` : of the finite differences; larger where the density has an error of its own. ``narrow`` : along axes
    without a hyperparameter of so large a standard deviation the density is taken for the normal of its curvature.
    """
    mode = np.asarray(mode, float)
    size = len(mode)
    low = np.full(size, -np.inf) if lowest is None else np.asarray(lowest, float)
    high = np.full(size, np.inf) if highest is None else np.asarray(highest, float)

    mode = np.clip(mode, low, high)  # where a step ended on a limit, rounding may have led beyond

    def inside(h: Array, density: Density = log_density) -> float:
        value = density(h) if ((h >= low) & (h <= high)).all() else -np.inf
        return value if math.isfinite(value) else -np.inf

    peak = inside(mode)
    if curvature is None:
        curvature = curvature_by_differences(inside, mode, peak, low, high, step)
    places = Unbounded.about(inside, mode, peak, curvature, low, high, WIDEST**-2, narrow)

    def moved(x: Array) -> float:
        return inside(places.at(x)) + places.log_jacobian(x)

    peak = moved(np.zeros(size)) if places.lines else peak
    axes = places.axes(places.curvature(curvature), WIDEST**-2)
    log_volume = 0.5 * size * np.log(2.0 * np.pi) + float(np.linalg.slogdet(axes)[1])
    shown = places.linear @ axes
    wide = (np.abs(shown).T >= sharp).any(axis=1)
    within, axes = np.square(shown[:, ~wide]).sum(axis=1), axes[:, wide]
    evaluated = np.abs(shown[:, wide]).max(axis=0) >= narrow
    if along is None:
        sides = [
            [_scale(moved, peak, side * axis) if own else 1.0 for axis, own in zip(axes.T, evaluated, strict=True)]
            for side in (-1.0, 1.0)
        ]
    else:
        centre = np.zeros(size)
        top = along(places.at(centre)) + places.log_jacobian(centre)
        sides = [[_scale_along(along, places, top, side * axis) for axis in axes.T] for side in (-1.0, 1.0)]
    return Shape(moved, places, peak, axes, np.array(sides), log_volume, within, evaluated)


def curvature_by_differences(
    log_density: Density, mode: Array, peak: float, low: Array, high: Array, step: float
) -> Array:
    """Curvature of the negative log density, by differences about the mode, or inwards from an end of the support."""
    size = len(mode)
    own = np.minimum(step, 0.49 * (high - low))
    centre = np.clip(mode, low + own, high - own)  # with room for a step to both sides

    def at(h: Array) -> float:
        return log_density(np.clip(h, low, high))  # rounding may lead beyond an end

    middle = peak if np.array_equal(centre, mode) else at(centre)
    steps = np.diag(own)
    with np.errstate(invalid="ignore"):  # a density may be zero on one side
        sides = np.array([at(centre + one) + at(centre - one) for one in steps])
        out = np.diag(2.0 * middle - sides)
        for a in range(size):
            for b in range(a):
                both = steps[a] + steps[b]
                pair = at(centre + both) + at(centre - both)
                out[a, b] = out[b, a] = -0.5 * (pair - sides[a] - sides[b] + 2.0 * middle)
        out /= np.outer(own, own)
    return out if np.all(np.isfinite(out)) else np.eye(size)


def curvature_by_slopes(slope: Callable[[Array], Array], mode: Array, low: Array, high: Array) -> Array:
    """Curvature of the negative log density, by differences of its slope: one look a hyperparameter."""
    own = np.where(mode + SLOPE_STEP <= high, SLOPE_STEP, -np.minimum(SLOPE_STEP, 0.49 * (high - low)))
    here = slope(mode)
    out = np.array([here - slope(mode + one) for one in np.diag(own)]) / own[:, None]
    return 0.5 * (out + out.T) if np.all(np.isfinite(out)) else np.eye(len(mode))


def normal_about(mode: Array, peak: float, curvature: Array) -> Density:
    """Log density that falls from a peak as a normal of this curvature, of standard deviations of `WIDEST` at most."""
    values, vectors = np.linalg.eigh(curvature)
    root = vectors * np.sqrt(np.maximum(values, WIDEST**-2))
    return lambda h: peak - 0.5 * float(np.square((h - mode) @ root).sum())


def _scale_along(density: Density, places: Unbounded, peak: float, axis: Array) -> float:
    """Scale of a half axis from one height of a density along it, at `REACH`."""
    fall = peak - density(places.at(REACH * axis)) - places.log_jacobian(REACH * axis)
    return REACH / float(np.sqrt(2.0 * max(fall, 0.5 * (REACH / FARTHEST) ** 2)))


def _scale(log_density: Density, peak: float, axis: Array) -> float:
    """Scale of a half axis, in units of it: where the density has fallen as a normal has at `REACH`."""
    limit = min(STRETCHED, WIDEST / float(np.linalg.norm(axis))) * REACH
    inner, outer, at = 0.0, np.inf, min(REACH, limit)
    for _ in range(LOOKS):
        fall = peak - log_density(at * axis)
        deviations = np.sqrt(2.0 * max(fall, 0.0))
        if NEAR[0] * REACH <= deviations <= NEAR[1] * REACH:
            return float(at / deviations)
        inner, outer = (at, outer) if deviations < REACH else (inner, at)
        if inner >= limit:
            break
        # As if it fell like a normal from here on; between what is known, and at most some times as far.
        guess = at * REACH / max(deviations, REACH / FURTHER) if np.isfinite(deviations) else 0.0
        least, most = inner + 0.1 * (min(outer, limit) - inner), min(inner + 0.9 * (outer - inner), FURTHER * at, limit)
        at = float(np.clip(guess, min(least, most), most))
    return at / REACH
