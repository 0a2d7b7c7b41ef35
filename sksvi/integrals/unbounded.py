"""Coordinates without ends for a density on a support that has some.

Nodes of a rule for a normal that fall beyond an end weigh nothing, and what they should weigh goes to the others. Where
an end is so near the mode that it matters, h is moved to x,

    h = ĥ + B t,    t_k = F_k⁻¹(Φ(x_k)) of a bounded hyperparameter k,    t_j = x_j of any other,

F_k the distribution function along a line through the mode: on it the density of x_k is a standard normal. B lets the
hyperparameters without ends follow by their regression on k, so that a normal density that is cut on one axis becomes a
normal one. Whatever F is, weights hold the Jacobian.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtr

Array = np.ndarray
Density = Callable[[Array], float]

#: Nats by which a density falls up to an end that does not matter.
NEGLIGIBLE = 8.0
#: Where a line is looked at on either side, as shares of its length.
SHARES = np.array([0.04, 0.1, 0.2, 0.35, 0.55, 0.75, 1.0])
#: Looks for a length at most, the longest in the units of h, and cells of the distribution function.
LOOKS, LONGEST, CELLS = 12, 15.0, 2000
#: Nats below and above the mode that a line tells apart: those of a density that rounding rules are no density's.
RANGE = 50.0
#: Share of the way to an end that is looked at: rounding would lead beyond it, where there is no density.
WITHIN = 1.0 - 1e-9


@dataclass(frozen=True)
class Line:
    """A distribution on an interval, log-linear between where it was looked at.

    ``grid``, ``log_density``, ``below`` (n,): offsets from the mode, log of the normalised density, and its integral up
    to there.
    """

    grid: Array
    log_density: Array
    below: Array

    @classmethod
    def of(cls, offsets: Array, logs: Array) -> Line:
        """The distribution with these logs of a density at these offsets, (m,) each, in order."""
        grid = np.linspace(offsets[0], offsets[-1], CELLS + 1)
        log_density = np.interp(grid, offsets, logs - logs.max())
        density = np.exp(log_density)
        below = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid)))
        return cls(grid, log_density - np.log(below[-1]), below / below[-1])

    def at(self, x: float) -> float:
        """Offset whose distribution function is that of a standard normal at x."""
        return float(np.interp(ndtr(x), self.below, self.grid))

    def log_slope(self, x: float) -> float:
        """Log of the derivative of the offset in x."""
        log_normal = -0.5 * x * x - 0.5 * np.log(2.0 * np.pi)
        return float(log_normal - np.interp(self.at(x), self.grid, self.log_density))

    @property
    def std(self) -> float:
        """Standard deviation."""
        share, middle = np.diff(self.below), 0.5 * (self.grid[1:] + self.grid[:-1])
        return float(np.sqrt(share @ np.square(middle - share @ middle)))


@dataclass(frozen=True)
class Unbounded:
    """Coordinates x (H,) of hyperparameters h, 0 at their mode or where half of the density is on either side.

    ``mode`` (H,); ``lines``: of hyperparameters with ends that matter, by their places; ``along`` (H, H): B.
    """

    mode: Array
    lines: Mapping[int, Line]
    along: Array

    @classmethod
    def about(
        cls,
        density: Density,
        mode: Array,
        peak: float,
        curvature: Array,
        low: Array,
        high: Array,
        least: float,
        narrow: float = 0.0,
    ) -> Unbounded:
        """Coordinates of a density with its `peak` at the mode, its curvature there, and the ends of its support.

        What has, all else fixed, a standard deviation of `narrow` at most falls towards its ends as a normal does.
        """
        ended = (np.isfinite(low) | np.isfinite(high)) & (low < high)
        directions, lines = regression(curvature, ended, least), {}
        for k in np.flatnonzero(ended):
            rooms = sorted((end[k] - mode[k] for end in (low, high) if np.isfinite(end[k])), key=abs)
            # By a regression that leads far the density may fall more where others follow than where they stay.
            following, alone = directions[:, k], np.eye(len(mode))[k]
            both = [following] if np.array_equal(following, alone) else [following, alone]
            moves = (_length(room, direction) * direction for direction in both for room in rooms)
            if curvature[k, k] * narrow**2 >= 1.0:
                falls = (0.5 * curvature[k, k] * move[k] ** 2 for move in moves)
            else:
                falls = (peak - density(mode + move) for move in moves)
            ended[k] = any(fall < NEGLIGIBLE for fall in falls)
        directions = regression(curvature, ended, least)
        for k in np.flatnonzero(ended):
            ways = directions[:, k], np.eye(len(mode))[k]
            found = _better(density, mode, peak, *ways, curvature[k, k], low[k] - mode[k], high[k] - mode[k])
            directions[:, k], lines[int(k)] = found
        return cls(mode, lines, directions)

    def at(self, x: Array) -> Array:
        """Hyperparameters, (H,)."""
        t = np.array(x, float)
        for k, line in self.lines.items():
            t[k] = line.at(t[k])
        return self.mode + self.along @ t

    def log_jacobian(self, x: Array) -> float:
        """Log of the determinant of the derivative of h in x."""
        return sum(line.log_slope(x[k]) for k, line in self.lines.items())

    def curvature(self, curvature: Array) -> Array:
        """What the curvature in h is in x: along every line that of a standard normal."""
        slopes = np.ones(len(curvature))
        for k, line in self.lines.items():
            slopes[k] = np.exp(line.log_slope(0.0))
        out = (self.along.T @ curvature @ self.along) * np.outer(slopes, slopes)
        for k in self.lines:
            out[k, k] = 1.0
        return out

    def axes(self, curvature: Array, least: float) -> Array:
        """Axes (H, H) of a normal with this curvature in x, at least `least`, as columns.

        Those of lines are as near to them as can be: the distribution function is of each alone.
        """
        out, own = np.zeros_like(curvature), np.array([k in self.lines for k in range(len(curvature))], bool)
        for part in (own, ~own):
            at = np.flatnonzero(part)[:, None]
            values, vectors = np.linalg.eigh(curvature[at, at.T])
            scaled = vectors / np.sqrt(np.maximum(values, least))
            out[at, at.T] = scaled @ vectors.T if part is own else scaled
        return out

    @property
    def linear(self) -> Array:
        """Matrix (H, H) from x to h that has the standard deviations of the lines."""
        scale = np.ones(len(self.mode))
        for k, line in self.lines.items():
            scale[k] = line.std
        return self.along * scale


def regression(curvature: Array, ended: Array, least: float) -> Array:
    """Identity, with columns of those with ends by which the others follow them, (H, H).

    The curvature of the others is `least` at least: a ridge that is bent can have a negative one by differences.
    """
    out, to, own = np.eye(len(ended)), np.flatnonzero(ended), np.flatnonzero(~ended)[:, None]
    values, vectors = np.linalg.eigh(curvature[own, own.T])
    cov = (vectors / np.maximum(values, least)) @ vectors.T
    out[own, to] = -cov @ curvature[own, to]
    return out


def _better(
    density: Density,
    mode: Array,
    peak: float,
    following: Array,
    alone: Array,
    curvature: float,
    low: float,
    high: float,
) -> tuple[Array, Line]:
    """The direction along which the density falls less, where others follow or where they stay, and its line.

    Regression by differences can lead off a ridge that is narrow and bent; the true one is never the lower of the two.
    """
    line = partial(_line, density, mode, peak)
    if np.array_equal(following, alone):
        return alone, line(alone, low, high)
    step, own = 1.0 / np.sqrt(curvature) if curvature > 0.0 else np.inf, None
    if not step < max(high, -low):  # no curvature of a density that falls within the support
        own = line(alone, low, high)
        step = own.std
    step = step if high >= -low else -step  # into the longer side
    too_far = np.abs(step * following).max() > LONGEST  # by differences of rounding alone
    if too_far or density(mode + step * following) < density(mode + step * alone):
        return alone, own or line(alone, low, high)
    return following, line(following, low, high)


def _length(room: float, direction: Array) -> float:
    """How far to go at most where there is this much room: within the end, no hyperparameter farther than `LONGEST`."""
    return float(np.sign(room) * min(WITHIN * abs(room), LONGEST / np.abs(direction).max()))


def _line(density: Density, mode: Array, peak: float, direction: Array, low: float, high: float) -> Line:
    """The distribution along a line through the mode."""
    offsets, logs = np.zeros(1), np.zeros(1)
    for room in (low, high):
        if room == 0.0:
            continue
        length = _length(room, direction)
        fall = peak - density(mode + length * direction)
        for _ in range(LOOKS):  # shorter where it ends in nothing
            if fall < 3.0 * NEGLIGIBLE:
                break
            length *= 0.5
            fall = peak - density(mode + length * direction)
        found = [density(mode + t * direction) - peak for t in length * SHARES[:-1]] + [-fall]
        offsets, logs = np.append(offsets, length * SHARES), np.append(logs, np.clip(found, -RANGE, RANGE))
    order = np.argsort(offsets)
    return Line.of(offsets[order], logs[order])
