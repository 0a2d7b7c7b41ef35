"""Compiled random numbers, logs and exponentials for loops over features: plain arithmetic, which vectorises."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import njit

Array = np.ndarray

#: What loops pass to `np.empty`: numba compiles it for each way in which a type is named.
FLOAT = np.dtype(np.float64)

GOLDEN, MIX1, MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
UNIT = 2.0**-53

MANTISSA, ONE, MANTISSA_BITS, BIAS = np.int64(2**52 - 1), np.int64(1023 << 52), np.int64(52), np.int64(1023)
LN2, SQRT2 = 0.6931471805599453, 1.4142135623730951


@njit()
def zeros(n: int) -> Array:
    """n zeros: NumPy's compiles for three times as long."""
    out = np.empty(n, FLOAT)
    out[:] = 0.0
    return out


@njit(inline="always")
def mixed(state: np.uint64) -> np.uint64:
    """One output of SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (state ^ (state >> S30)) * MIX1
    z = (z ^ (z >> S27)) * MIX2
    return z ^ (z >> S31)


@njit(inline="always")
def uniform_of(first: np.uint64) -> float:
    """The number in (0, 1) at which a stream begins; the k-th is that of `first` + k `GOLDEN`."""
    return (float(mixed(first) >> S11) + 0.5) * UNIT


@njit()
def uniform(state: Array) -> float:
    """The next number in (0, 1)."""
    state[0] += GOLDEN
    return uniform_of(state[0])


@njit(inline="always")
def normal(state: Array, spare: Array) -> float:
    """A standard normal number by Box and Muller; the second of the two waits in `spare`."""
    if spare[0] != 0.0:
        value = spare[0]
        spare[0] = 0.0
        return value
    radius = np.sqrt(-2.0 * np.log(uniform(state)))
    angle = 2.0 * np.pi * uniform(state)
    spare[0] = radius * np.sin(angle)
    return radius * np.cos(angle)


@njit(inline="always")
def log_of(x: float) -> float:
    """log x of a positive normal number, to a few roundings."""
    bits = np.float64(x).view(np.int64)
    m = np.int64((bits & MANTISSA) | ONE).view(np.float64)
    high = m > SQRT2
    m = 0.5 * m if high else m
    e = float((bits >> MANTISSA_BITS) - BIAS) + (1.0 if high else 0.0)
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    tail = 1 / 9 + q * (1 / 11 + q * (1 / 13 + q * (1 / 15 + q * (1 / 17))))
    return e * LN2 + 2.0 * s * (1.0 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * tail))))


@njit(inline="always")
def exp_minus(x: float) -> float:
    """exp(-x) for 0 <= x <= 40, to a relative 1e-9: a polynomial at x / 64, squared six times."""
    t = -x * (1 / 64)
    e = 1.0 + t * (1 / 7) * (1.0 + t * (1 / 8) * (1.0 + t * (1 / 9) * (1.0 + t * (1 / 10))))
    e = 1.0 + t * (1 / 3) * (1.0 + t * (1 / 4) * (1.0 + t * (1 / 5) * (1.0 + t * (1 / 6) * e)))
    e = 1.0 + t * (1.0 + t * 0.5 * e)
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    return e * e
