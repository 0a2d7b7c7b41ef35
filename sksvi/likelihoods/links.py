"""Numerically stable link functions shared by the likelihoods."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

Array = np.ndarray  # or NumPy's scalars, of float32 or float64

LOG_SQRT_2PI = 0.9189385332046727
_SQRT_HALF = 0.7071067811865476
_SQRT_2_OVER_PI = 0.7978845608028654


def as_float(values: Array) -> Array:
    """Array of floats; float32 and float64 keep their type."""
    values = np.asarray(values)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def safe_exp(f: Array) -> Array:
    """Exponential that saturates at about 1e304 (float32: 1e37) where the true value has no finite float nearby."""
    f = as_float(f)
    return np.exp(np.minimum(f, 85.0 if f.dtype == np.float32 else 700.0))


def log_normal_variance(m: Array, v: Array) -> Array:
    """Var exp(f) under f ~ N(m, v), saturating like `safe_exp`."""
    relative = np.where(v < 40.0, np.expm1(np.minimum(v, 40.0)), 1.0)
    return safe_exp(np.minimum(2.0 * m + np.where(v < 40.0, v, 2.0 * v), 600.0)) * relative


def tiny(f: Array) -> float:
    """Smallest number that is safe to divide by in the type of f."""
    return 1e-37 if np.asarray(f).dtype == np.float32 else 1e-300


def one_where(condition: Array, small: Array) -> Array:
    """1 where the condition holds, elsewhere `small`, numbers in [0, 1].

    `np.where` branches value by value, which costs several times the arithmetic where the condition looks random.
    """
    return np.maximum(small, np.asarray(condition).astype(small.dtype))


def sigmoid(t: Array) -> Array:
    """Logistic function 1 / (1 + exp(-t)), relatively accurate in both tails."""
    small = np.exp(-np.abs(t))
    return one_where(t > 0, small) / (1.0 + small)


def softplus(t: Array) -> Array:
    """log(1 + exp(t))."""
    return np.maximum(t, 0.0) + np.log1p(np.exp(-np.abs(t)))


def log_sigmoid(t: Array) -> Array:
    """log sigmoid(t), to the bit that of `log_sigmoid_terms`."""
    return np.minimum(t, 0.0) - np.log1p(np.exp(-np.abs(t)))


def log_sigmoid_terms(t: Array) -> tuple[Array, Array, Array]:
    """log sigmoid(t) with its first and second derivative."""
    small = np.exp(-np.abs(t))
    return np.minimum(t, 0.0) - np.log1p(small), *log_sigmoid_slopes(t, small)


def log_sigmoid_slopes(t: Array, small: Array) -> tuple[Array, Array]:
    """First and second derivative of log sigmoid(t), given exp(-|t|), which is overwritten."""
    larger = 1.0 / (1.0 + small)
    slope = one_where(t <= 0, small) * larger
    small *= larger
    larger *= small
    return slope, -larger


def log_normal_cdf_terms(t: Array) -> tuple[Array, Array, Array]:
    """log Phi(t) with its first and second derivative, Phi the standard normal distribution function."""
    t = np.atleast_1d(t)
    tail = ndtr(-np.abs(t))
    in_tail = t < -6.0
    any_in_tail = in_tail.any()
    if any_in_tail:
        tail = np.where(in_tail, 0.5, tail)  # replaced below: the plain ratio loses digits, then underflows
    positive = t > 0
    value = np.where(positive, np.log1p(-tail), np.log(np.maximum(tail, tiny(t))))
    slope = np.exp(-0.5 * np.minimum(t * t, 170.0 if t.dtype == np.float32 else 1400.0) - LOG_SQRT_2PI)
    slope = slope.astype(t.dtype, copy=False) / np.where(positive, 1.0 - tail, tail)
    curve = -slope * (t + slope)
    if any_in_tail:
        value[in_tail] = log_ndtr(t[in_tail])
        slope[in_tail] = ratio = _SQRT_2_OVER_PI / erfcx(-_SQRT_HALF * t[in_tail])
        curve[in_tail] = -ratio * _ratio_minus_argument(-t[in_tail], ratio)
    return value, slope, curve


def _ratio_minus_argument(x: Array, ratio: Array) -> Array:
    """phi(x)/Phi(-x) - x for large x: by its asymptotic series where the difference loses digits."""
    inverse = 1.0 / (x * x)
    series = (1.0 - inverse * (2.0 - inverse * (10.0 - inverse * (74.0 - 706.0 * inverse)))) / x
    return np.where(x > (10.0 if x.dtype == np.float32 else 50.0), series, ratio - x)


def log_softplus(f: Array, small: Array) -> tuple[Array, Array]:
    """The rate r = log(1 + exp(f)) and log r, given exp(-|f|)."""
    rate = np.maximum(f, 0.0) + np.log1p(small)
    low = f < (-80.0 if np.asarray(f).dtype == np.float32 else -600.0)
    return rate, np.where(low, f, np.log(np.maximum(rate, tiny(f))))


def log_softplus_terms(f: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
    """For the rate r = log(1 + exp(f)): r, log r, and the derivatives r', r'/r, r'' and (log r)''."""
    small = np.exp(-np.abs(f))
    rate, log_rate = log_softplus(f, small)
    larger = 1.0 / (1.0 + small)
    slope = one_where(f > 0, small) * larger
    # Far below zero log r is f itself.
    ratio = np.where(log_rate == f, 1.0, slope / np.maximum(rate, tiny(f)))
    # (log r)'' = ratio * (1 - r' - ratio); the difference by its series where it cancels
    near_zero = small * (f < 0)
    series = near_zero * (-0.5 + near_zero * (7.0 / 12.0 - 0.625 * near_zero))
    difference = np.where(f < -9.0, series, 1.0 - slope - ratio)
    return rate, log_rate, slope, ratio, small * larger * larger, ratio * difference
