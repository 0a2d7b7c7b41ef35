"""The compiled loop of `logistic`."""

from __future__ import annotations

import math

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray


@njit()
def _by_series(up: Array, down: Array, m: Array, sd: Array, small: Array, log_one_plus: Array, out: Array) -> None:
    """Expectations of narrow rows by Taylor's series about m: E g = sum over k of g's 2k-th derivative v^k / (2^k k!).

    With s = sigmoid(m), p = s (1 - s) and t = 1 - 2 s, odd derivatives of s are polynomials P of p, as dp/dm = p t, and
    those after them p t dP/dp. No row branches, so that several share an instruction; `small` is exp(-|m|).
    """
    for i in range(len(m)):
        larger = 1.0 / (1.0 + small[i])
        smaller = small[i] * larger
        rise, fall = (smaller, larger) if m[i] > 0.0 else (larger, smaller)
        p, t, h = rise * fall, rise - fall, 0.5 * sd[i] * sd[i]
        third = p * (1.0 - p * 6.0)
        fifth = p * (1.0 - p * (30.0 - p * 120.0))
        seventh = p * (1.0 - p * (126.0 - p * (1680.0 - p * 5040.0)))
        ninth = p * (1.0 - p * (510.0 - p * (17640.0 - p * (151200.0 - p * 362880.0))))
        last = p * (1.0 - p * (2046.0 - p * (168960.0 - p * (3160080.0 - p * (19958400.0 - p * 39916800.0)))))
        fourth = 1.0 - p * 12.0
        sixth = 1.0 - p * (60.0 - p * 360.0)
        eighth = 1.0 - p * (252.0 - p * (5040.0 - p * 20160.0))
        tenth = 1.0 - p * (1020.0 - p * (52920.0 - p * (604800.0 - p * 1814400.0)))
        b, c, d, e = h / 2.0, h / 3.0, h / 4.0, h / 5.0
        both = up[i] + down[i]
        bent = h * (p + b * (third + c * (fifth + d * (seventh + e * ninth))))
        lean = h * p * t * (1.0 + b * (fourth + c * (sixth + d * (eighth + e * tenth))))
        curve = p + h * (third + b * (fifth + c * (seventh + d * (ninth + e * last))))
        kink = up[i] * m[i] if m[i] < 0.0 else -down[i] * m[i]
        out[0, i] = kink - both * (log_one_plus[i] + bent)
        out[1, i] = up[i] * rise - down[i] * fall - both * lean
        out[2, i] = -0.5 * both * curve


@njit()
def _by_sums(
    up: float, down: float, m: float, sd: float, h: float, first: int, last: int, centre: int, values: Array
) -> tuple[float, float, float]:
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
    return (up * rising + down * falling) / total, (up * slope - down * back) / total, -(up + down) * both / total


@njit()
def _by_excess(
    up: float, down: float, m: float, sd: float, h: float, last: int, centre: int, values: Array
) -> tuple[float, float, float]:
    """Expectations beyond the kink max(f, 0), by the trapezoidal rule on [-last h, last h]; f = 0 is row `centre`.

    The rule's sums of the kink and of the step themselves differ from their closed forms by Euler and Maclaurin's
    derivatives of the density at 0.
    """
    z, v = m / sd, sd * sd
    density = np.exp(-0.5 * z * z) / (sd * np.sqrt(2.0 * np.pi))
    above, below = 0.5 * math.erfc(-z / np.sqrt(2.0)), 0.5 * math.erfc(z / np.sqrt(2.0))
    excess, lean, both = -values[centre, 0] * density, 0.0, values[centre, 4] * density
    if density > 0.0:
        right = left = density
        # exp(-(kh)²/2v ± khm/v), k = 1, 2, ..., by ratios.
        rise, fall, shrink, square = np.exp(h * m / v), np.exp(-h * m / v), np.exp(-0.5 * h * h / v), np.exp(-h * h / v)
        for k in range(1, last + 1):
            right *= rise * shrink
            left *= fall * shrink
            shrink *= square
            excess -= values[centre + k, 0] * (right + left)
            lean += values[centre + k, 2] * (left - right)
            both += values[centre + k, 4] * (right + left)
    slope = density * m / v
    bend = h * excess - h * h / 12.0 * density + h**4 / 240.0 * (slope * m / v - density / v)
    step = h * lean - h * h / 12.0 * slope + h**4 / 720.0 * slope * (m * m / v - 3.0) / v
    value = -up * (v * density - m * below + bend) - down * (v * density + m * above + bend)
    return value, up * (below - step) - down * (above + step), -(up + down) * h * both


@entry(
    "up (n) f", "down (n) f", "m (n) f", "sd (n) f", "small (n) f", "log_one_plus (n) f", "values (N, 5) f",
    "steps (L) f", "centres (L) i < N", "reaches (L) i < N", "out (3, n) f", "beyond (n) i",
)  # fmt: skip
@njit()
def by_table(
    up: Array,
    down: Array,
    m: Array,
    sd: Array,
    small: Array,
    log_one_plus: Array,
    steps: Array,
    centres: Array,
    reaches: Array,
    values: Array,
    least: float,
    half: float,
    wide: float,
    end: int,
    out: Array,
    beyond: Array,
) -> int:
    """E of up log sigmoid(f) + down log sigmoid(-f), f ~ N(m, sd²), and its derivatives in m and sd² into out (3, n).

    The largest step of which sd is `least` serves a row, and a series where none does; nodes reach `half` sd, and `end`
    steps of a row with an sd of at least `wide`. Returns how many rows lie beyond every table, and lists them.
    """
    n, L = 0, len(steps)
    _by_series(up, down, m, sd, small, log_one_plus, out)
    for i in range(len(m)):
        if sd[i] < least * steps[L - 1]:
            continue
        if sd[i] >= wide and abs(m[i]) < np.inf:
            value, slope, curve = _by_excess(up[i], down[i], m[i], sd[i], steps[0], end, centres[0], values)
        else:
            j = 0
            while sd[i] < least * steps[j]:
                j += 1
            # Also of a mean that is no number: it is within no reach.
            if not abs(m[i]) + half * sd[i] < reaches[j] * steps[j]:
                beyond[n] = i
                n += 1
                continue
            first, last = math.ceil((m[i] - half * sd[i]) / steps[j]), math.floor((m[i] + half * sd[i]) / steps[j])
            value, slope, curve = _by_sums(up[i], down[i], m[i], sd[i], steps[j], first, last, centres[j], values)
        out[0, i], out[1, i], out[2, i] = value, slope, 0.5 * curve
    return n
