"""The compiled loop of `logistic`."""

from __future__ import annotations

import math

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray


@njit(error_model="numpy")
def _by_nodes(up: float, down: float, m: float, sd: float, nodes: Array, weights: Array, out: Array) -> None:
    """Gauss-Hermite nodes of a narrow row: value, derivative in f and second derivative into out (3,)."""
    out[:] = 0.0
    for z, w in zip(nodes, weights):
        f = m + sd * z
        small = np.exp(-abs(f))
        larger, log_one_plus = 1.0 / (1.0 + small), np.log1p(small)
        rise, fall = (small * larger, larger) if f > 0.0 else (larger, small * larger)
        out[0] += w * (up * min(f, 0.0) - down * max(f, 0.0) - (up + down) * log_one_plus)
        out[1] += w * (up * rise - down * fall)
        out[2] -= w * (up + down) * rise * fall


@njit(error_model="numpy")
def _by_sums(
    up: float, down: float, m: float, sd: float, h: float, first: int, last: int, centre: int, values: Array, out: Array
) -> None:
    """The trapezoidal rule with nodes first h, ..., last h, whose values stand from row centre + first on."""
    # exp(-z²/2) at equal distances: the ratio of two neighbours falls by one factor.
    d, z = h / sd, (first * h - m) / sd
    weight, ratio, fall = np.exp(-0.5 * z * z), np.exp(-d * (z + 0.5 * d)), np.exp(-d * d)
    total = rising = falling = slope = back = both = 0.0
    for k in range(centre + first, centre + last + 1):
        rising += weight * values[k, 0]
        falling += weight * values[k, 1]
        slope += weight * values[k, 2]
        back += weight * values[k, 3]
        both += weight * values[k, 4]
        total += weight
        weight *= ratio
        ratio *= fall
    out[0] = (up * rising + down * falling) / total
    out[1] = (up * slope - down * back) / total
    out[2] = -(up + down) * both / total


@njit(error_model="numpy")
def _by_excess(up: float, down: float, m: float, sd: float, h: float, last: int, values: Array, out: Array) -> None:
    """Expectations beyond the kink max(f, 0), by the trapezoidal rule on [-last h, last h]; `values` begins at f = 0.

    The rule's sums of the kink and of the step themselves differ from their closed forms by Euler and Maclaurin's
    derivatives of the density at 0.
    """
    z, v = m / sd, sd * sd
    density = np.exp(-0.5 * z * z) / (sd * np.sqrt(2.0 * np.pi))
    above, below = 0.5 * math.erfc(-z / np.sqrt(2.0)), 0.5 * math.erfc(z / np.sqrt(2.0))
    excess, lean, both = -values[0, 0] * density, 0.0, values[0, 4] * density
    if density > 0.0:
        right = left = density
        # exp(-(kh)²/2v ± khm/v), k = 1, 2, ..., by ratios.
        rise, fall, shrink, square = np.exp(h * m / v), np.exp(-h * m / v), np.exp(-0.5 * h * h / v), np.exp(-h * h / v)
        for k in range(1, last + 1):
            right *= rise * shrink
            left *= fall * shrink
            shrink *= square
            excess -= values[k, 0] * (right + left)
            lean += values[k, 2] * (left - right)
            both += values[k, 4] * (right + left)
    slope = density * m / v
    bend = h * excess - h * h / 12.0 * density + h**4 / 240.0 * (slope * m / v - density / v)
    step = h * lean - h * h / 12.0 * slope + h**4 / 720.0 * slope * (m * m / v - 3.0) / v
    out[0] = -up * (v * density - m * below + bend) - down * (v * density + m * above + bend)
    out[1] = up * (below - step) - down * (above + step)
    out[2] = -(up + down) * h * both


@entry(
    "up (n) f", "down (n) f", "m (n) f", "sd (n) f", "values (N, 5) f", "steps (L) f", "centres (L) i < N",
    "reaches (L) i < N", "nodes (K) f", "weights (K) f", "out (3, n) f", "beyond (n) i",
)  # fmt: skip
@njit(error_model="numpy")
def by_table(
    up: Array,
    down: Array,
    m: Array,
    sd: Array,
    steps: Array,
    centres: Array,
    reaches: Array,
    values: Array,
    nodes: Array,
    weights: Array,
    least: float,
    half: float,
    wide: float,
    end: int,
    out: Array,
    beyond: Array,
) -> int:
    """E of up log sigmoid(f) + down log sigmoid(-f), f ~ N(m, sd²), and its derivatives in m and sd² into out (3, n).

    The largest step of which sd is `least` serves a row; nodes reach `half` sd, and `end` steps of a row with an sd of
    at least `wide`. Returns how many rows lie beyond every
    table, and lists them.
    """
    n, L, row = 0, len(steps), np.empty(3)
    for i in range(len(m)):
        if sd[i] < least * steps[L - 1]:
            _by_nodes(up[i], down[i], m[i], sd[i], nodes, weights, row)
        elif sd[i] >= wide and abs(m[i]) < np.inf:
            _by_excess(up[i], down[i], m[i], sd[i], steps[0], end, values[centres[0] :], row)
        else:
            j = 0
            while sd[i] < least * steps[j]:
                j += 1
            # Also of a mean that is no number: it is within no reach.
            if not abs(m[i]) + half * sd[i] < reaches[j] * steps[j]:
                beyond[n] = i
                n += 1
                continue
            first = int(np.ceil((m[i] - half * sd[i]) / steps[j]))
            last = int(np.floor((m[i] + half * sd[i]) / steps[j]))
            _by_sums(up[i], down[i], m[i], sd[i], steps[j], first, last, centres[j], values, row)
        out[0, i], out[1, i], out[2, i] = row[0], row[1], 0.5 * row[2]
    return n
