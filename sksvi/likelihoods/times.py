"""Likelihoods of positive y whose logarithm is f plus noise of one shape: failure times and log-normal y."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.special import expit, exprel, gamma, logit, ndtr, ndtri

from sksvi.likelihoods.logistic import expected_outcomes
from sksvi.likelihoods.one_scale import OneScale
from sksvi.likelihoods.positive import POSITIVE
from sksvi.likelihoods.scales import LEAST_NOISE, weighted_moments
from sksvi.likelihoods.tails import LogLocationTails
from sksvi.likelihoods.traits import (
    LOG_SQRT_2PI,
    Array,
    as_float,
    log_normal_cdf_terms,
    log_sigmoid_terms,
    safe_exp,
    sigmoid,
    softplus,
)

#: A z below has exp(z) as its probability, one above the probability 1.
LOWEST, HIGHEST = -36.0, 6.0


class LogLocation(OneScale):
    """Base of positive y with (log y - f) / scale = z of a standard distribution, log-concave in f.

    A subclass gives what it says of z: its log density with two derivatives, distribution function, quantiles, draws
    and moments of exp(scale z).
    """

    support = POSITIVE
    scale_name = "scale"
    spread_power = 1.0
    ratio: str | None = "rate"

    @abstractmethod
    def _standard(self, z: Array) -> tuple[Array, Array, Array]:
        """Log density of z, nats, and its first two derivatives."""

    @abstractmethod
    def _standard_cdf(self, z: Array) -> Array:
        """P(Z <= z)."""

    @abstractmethod
    def _standard_below(self, z: Array) -> tuple[Array, Array, Array]:
        """log P(Z <= z) and its first two derivatives."""

    @abstractmethod
    def _standard_above(self, z: Array) -> tuple[Array, Array, Array]:
        """log P(Z > z) and its first two derivatives."""

    def _expected_above(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array] | None:
        """Closed form of E log P(Y > y | f) under f ~ N(m, v) and its derivatives in m and v, or None."""
        return None

    @property
    def tails(self) -> LogLocationTails:
        return LogLocationTails(self)

    @abstractmethod
    def _standard_ppf(self, p: Any) -> Array:
        """The z with P(Z <= z) = p."""

    @abstractmethod
    def _exponential_moment(self, power: float) -> float:
        """E exp(power * Z), inf where there is none."""

    def _z(self, y: Array, f: Array) -> tuple[Array, Array, float]:
        """z, log p(y | f) less that of z, and the scale."""
        f, scale = as_float(f), self._number("scale")
        log_y = np.log(np.asarray(y, f.dtype))
        return (log_y - f) / scale, -log_y - float(np.log(scale)), scale

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        z, constant, scale = self._z(y, f)
        value, slope, curve = self._standard(z)
        return value + constant, -slope / scale, curve / scale**2

    def mean(self, f: Array) -> Array:
        return safe_exp(f) * self._exponential_moment(self._number("scale"))

    def expected_mean(self, m: Array, v: Array) -> Array:
        return self.mean(as_float(m) + 0.5 * as_float(v))

    def conditional_variance(self, f: Array) -> Array:
        scale = self._number("scale")
        first, second = self._exponential_moment(scale), self._exponential_moment(2.0 * scale)
        more = second - first**2 if np.isfinite(second) else np.inf
        return np.minimum(safe_exp(f), 1e150) ** 2 * more

    def cdf(self, y: Array, f: Array) -> Array:
        return self._standard_cdf(self._z(np.maximum(as_float(y), POSITIVE.low), f)[0])

    def ppf(self, p: Array | float, f: Array) -> Array:
        return safe_exp(as_float(f) + self._number("scale") * self._standard_ppf(p))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return self.ppf(1.0 - rng.random(np.shape(f)), f)

    @property
    def width(self) -> float:
        return self._number("scale")

    def centre(self, y: Array) -> Array:
        return np.log(as_float(y))

    def cdf_centre(self, y: Array) -> Array:
        return np.log(np.maximum(as_float(y), POSITIVE.low))

    def _started(self, y: Array, weight: Array | None) -> tuple[float, float]:
        _, variance = weighted_moments(np.log(as_float(y)), weight)
        first = 0.7 * float(np.sqrt(variance)) or 1.0  # half of the variance is left to the features
        return first, LEAST_NOISE * first

    def _in_log_size(self, y: Array, f: Array) -> tuple[Array, Array]:
        z, _, _ = self._z(as_float(y), f)
        _, slope, curve = self._standard(z)
        return -1.0 - z * slope, z * slope + z * z * curve


class LogNormal(LogLocation):
    """Log-normal likelihood, log y ~ N(f, scale^2): exp(f) is the median of y > 0.

    Parameters
    ----------
    scale : float or "auto", default="auto"
        Standard deviation of log y given f; "auto" learns it, down to 1e-4 of its first guess. Its prior is exponential
        of mean 1.

    Examples
    --------
    >>> from sksvi.likelihoods import LogNormal
    >>> print(round(float(LogNormal(scale=1.0).log_prob(1.0, 0.0)), 4))
    -0.9189
    """

    def __init__(self, *, scale: float | str = "auto") -> None:
        self.scale = scale

    def _standard(self, z: Array) -> tuple[Array, Array, Array]:
        return -0.5 * z * z - LOG_SQRT_2PI, -z, np.full_like(z, -1.0)

    def _standard_cdf(self, z: Array) -> Array:
        return ndtr(z)

    def _standard_below(self, z: Array) -> tuple[Array, Array, Array]:
        return log_normal_cdf_terms(z)

    def _standard_above(self, z: Array) -> tuple[Array, Array, Array]:
        value, slope, curve = log_normal_cdf_terms(-z)
        return value, -slope, curve

    def _standard_ppf(self, p: Any) -> Array:
        return ndtri(p)

    def _exponential_moment(self, power: float) -> float:
        return float(safe_exp(np.asarray(0.5 * power**2)))

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        value, slope, curve = self.derivatives(y, m)
        return value + 0.5 * curve * v, slope, 0.5 * curve

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        log_y, total = np.log(as_float(y)), as_float(v) + self._number("scale") ** 2
        return -0.5 * (np.log(total) + (log_y - m) ** 2 / total) - LOG_SQRT_2PI - log_y


class Weibull(LogLocation):
    """Weibull likelihood, y = exp(f) E^scale with E exponential: its shape is 1 / scale; y > 0.

    Parameters
    ----------
    scale : float or "auto", default="auto"
        Scale of log y given f, 1 over the distribution's shape (R's ``survreg`` has it so); "auto" learns it, down to
        1e-4 of its first guess. Its prior is exponential of mean 1.

    Examples
    --------
    >>> from sksvi.likelihoods import Weibull
    >>> print(Weibull(scale=1.0).log_prob(2.0, 0.0))
    -2.0
    """

    def __init__(self, *, scale: float | str = "auto") -> None:
        self.scale = scale

    def _standard(self, z: Array) -> tuple[Array, Array, Array]:
        rate = safe_exp(z)
        return z - rate, 1.0 - rate, -rate

    def _standard_cdf(self, z: Array) -> Array:
        return -np.expm1(-safe_exp(z))

    def _standard_below(self, z: Array) -> tuple[Array, Array, Array]:
        rate = safe_exp(np.minimum(z, HIGHEST))
        with np.errstate(divide="ignore"):
            value = np.where(z < LOWEST, z, np.log(-np.expm1(-rate)))
        share = 1.0 / exprel(rate)
        return value, share, share * (1.0 - rate - share)

    def _standard_above(self, z: Array) -> tuple[Array, Array, Array]:
        rate = -safe_exp(z)
        return rate, rate, rate

    def _expected_above(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        z, _, scale = self._z(y, m)
        rate = safe_exp(z + 0.5 * v / scale**2)
        return -rate, rate / scale, -0.5 * rate / scale**2

    def _standard_ppf(self, p: Any) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(-np.log1p(-np.asarray(p, dtype=float)))

    def _exponential_moment(self, power: float) -> float:
        return float(gamma(1.0 + power))

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        z, constant, scale = self._z(y, m)
        rate = safe_exp(z + 0.5 * v / scale**2)
        return z - rate + constant, (rate - 1.0) / scale, -0.5 * rate / scale**2


class Exponential(Weibull):
    """Exponential likelihood with mean exp(f); y > 0.

    Examples
    --------
    >>> from sksvi.likelihoods import Exponential
    >>> print(Exponential().log_prob(2.0, 0.0))
    -2.0
    """

    scale = 1.0

    def __init__(self) -> None:
        pass


class LogLogistic(LogLocation):
    """Log-logistic likelihood, (log y - f) / scale of a logistic distribution: exp(f) is the median of y > 0.

    Parameters
    ----------
    scale : float or "auto", default="auto"
        Scale of log y given f (its standard deviation is 1.81 times as much); "auto" learns it, down to 1e-4 of its
        first guess. Its prior is exponential of mean 1. With scale >= 1 the mean is infinite.

    Examples
    --------
    >>> from sksvi.likelihoods import LogLogistic
    >>> print(round(float(LogLogistic(scale=1.0).log_prob(1.0, 0.0)), 4))
    -1.3863
    """

    def __init__(self, *, scale: float | str = "auto") -> None:
        self.scale = scale

    def _standard(self, z: Array) -> tuple[Array, Array, Array]:
        up = sigmoid(z)
        return z - 2.0 * softplus(z), 1.0 - 2.0 * up, -2.0 * up * sigmoid(-z)

    def _standard_cdf(self, z: Array) -> Array:
        return expit(z)

    def _standard_below(self, z: Array) -> tuple[Array, Array, Array]:
        return log_sigmoid_terms(z)

    def _standard_above(self, z: Array) -> tuple[Array, Array, Array]:
        value, slope, curve = log_sigmoid_terms(-z)
        return value, -slope, curve

    def _standard_ppf(self, p: Any) -> Array:
        return logit(p)

    def _exponential_moment(self, power: float) -> float:
        return float(np.pi * power / np.sin(np.pi * power)) if power < 1.0 else np.inf

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        z, constant, scale = self._z(y, m)
        one = np.ones_like(z)
        value, slope, curve = expected_outcomes(one, one, z, v / scale**2)
        return value + constant, -slope / scale, curve / scale**2
