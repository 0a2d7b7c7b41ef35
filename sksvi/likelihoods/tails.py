"""Tails of a likelihood of measured y: log P(Y <= y | f) and log P(Y > y | f) with their derivatives in f.

Where the quantile at y moves by w(y) with f, the distribution function falls by w p(y | f), so that both tails have
derivatives from log p alone. Families of log y = f + noise have closed ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.likelihoods.traits import Array, as_float

Terms = tuple[Array, Array, Array]


class Tails:
    """Tails by the density; a subclass says how quantiles move and has accurate logarithms.

    Parameters
    ----------
    likelihood : Likelihood
        With every parameter a number.
    """

    def __init__(self, likelihood: Any) -> None:
        self.likelihood = likelihood

    def log_quantile_slope(self, y: Array) -> Array:
        """log w(y): 0 of an additive y, log y where f is the logarithm of a scale."""
        raise TypeError(f"{type(self).__name__} needs a method log_quantile_slope")

    def logs(self, y: Array, f: Array) -> tuple[Array, Array]:
        """log P(Y <= y | f) and log P(Y > y | f)."""
        raise TypeError(f"{type(self).__name__} needs a method logs")

    def cdf_slope(self, y: Array, f: Array) -> tuple[Array, Array]:
        """Log of how fast P(Y <= y | f) falls with f, and the derivative of that logarithm."""
        value, slope, _ = self.likelihood.derivatives(y, f)
        return value + self.log_quantile_slope(y), slope

    def _terms(self, value: Array, y: Array, f: Array, sign: float) -> Terms:
        log_cdf_slope, slope = self.cdf_slope(y, f)
        rate = sign * limited_exp(log_cdf_slope - value)
        return value, rate, self._bend(rate * (slope - rate))

    def below(self, y: Array, f: Array) -> Terms:
        """log P(Y <= y | f) and two derivatives in f."""
        return self._terms(self.logs(y, f)[0], y, f, -1.0)

    def above(self, y: Array, f: Array) -> Terms:
        """log P(Y > y | f) and two derivatives in f."""
        return self._terms(self.logs(y, f)[1], y, f, 1.0)

    def expected_above(self, y: Array, m: Array, v: Array) -> Terms | None:
        """Closed form of E log P(Y > y | f) under f ~ N(m, v) and its derivatives in m and v, or None."""
        return None

    def between(self, lower: Array, upper: Array, f: Array) -> Terms:
        """log P(lower < Y <= upper | f) and two derivatives in f."""
        value = self._log_between(lower, upper, f)
        (low, low_slope), (high, high_slope) = self.cdf_slope(lower, f), self.cdf_slope(upper, f)
        into, out = limited_exp(low - value), limited_exp(high - value)
        slope = into - out
        return value, slope, self._bend(into * low_slope - out * high_slope - slope * slope)

    def _bend(self, curve: Array) -> Array:
        """A second derivative, which of a log-concave density is not positive, beyond rounding."""
        return np.minimum(curve, 0.0) if self.likelihood.traits.log_concave else curve

    def _log_between(self, lower: Array, upper: Array, f: Array) -> Array:
        """Log of a difference of distribution functions, from the side where both are small."""
        (low_below, low_above), (high_below, high_above) = self.logs(lower, f), self.logs(upper, f)
        upper_side = low_above < low_below
        larger, smaller = np.where(upper_side, low_above, high_below), np.where(upper_side, high_above, low_below)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = larger + np.log(-np.expm1(smaller - larger))
        # So narrow, or so far out, that both ends are one number: the density times the width.
        flat = self.likelihood.log_prob(0.5 * (lower + upper), f) + np.log(upper - lower)
        return np.where(np.isfinite(found), found, flat)


def limited_exp(x: Array) -> Array:
    """exp(x) up to a number whose square is one."""
    x = as_float(x)
    return np.exp(np.minimum(x, 40.0 if x.dtype == np.float32 else 150.0))


class LogScaleTails(Tails):
    """Tails where f is the logarithm of a scale; the likelihood has `_log_tails`."""

    def log_quantile_slope(self, y: Array) -> Array:
        return np.log(y)

    def logs(self, y: Array, f: Array) -> tuple[Array, Array]:
        found: tuple[Array, Array] = self.likelihood._log_tails(y, f)
        return found


class AdditiveTails(LogScaleTails):
    """Tails of an additive y; the likelihood has `_log_tails`."""

    def log_quantile_slope(self, y: Array) -> Array:
        return np.zeros(np.shape(y))


class LogLocationTails(LogScaleTails):
    """Tails of (log y - f) / scale = z; the likelihood has `_standard_below` and `_standard_above` of z."""

    def logs(self, y: Array, f: Array) -> tuple[Array, Array]:
        z, _, _ = self.likelihood._z(y, f)
        return self.likelihood._standard_below(z)[0], self.likelihood._standard_above(z)[0]

    def _in_f(self, terms: Any, y: Array, f: Array) -> Terms:
        z, _, scale = self.likelihood._z(y, f)
        value, slope, curve = terms(z)
        return value, -slope / scale, curve / scale**2

    def below(self, y: Array, f: Array) -> Terms:
        return self._in_f(self.likelihood._standard_below, y, f)

    def above(self, y: Array, f: Array) -> Terms:
        return self._in_f(self.likelihood._standard_above, y, f)

    def expected_above(self, y: Array, m: Array, v: Array) -> Terms | None:
        found: Terms | None = self.likelihood._expected_above(y, m, v)
        return found
