"""Likelihoods of positive y with mean exp(f): Gamma and inverse Gaussian."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import stats
from scipy.special import digamma, gammainc, gammaincc, gammaincinv, gammaln, hyp1f1, log_ndtr, ndtr, polygamma

from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.one_scale import OneScale
from sksvi.likelihoods.scales import LEAST_NOISE, weighted_moments
from sksvi.likelihoods.tails import LogScaleTails
from sksvi.likelihoods.traits import LOG_SQRT_2PI, Array, LikelihoodTraits, Support, as_float, safe_exp

POSITIVE = Support(float(np.nextafter(0.0, 1.0)), np.inf, False, "y > 0")


#: Terms of the continued fraction far in the upper tail.
FRACTIONS = 60


def squared_variation(y: Array, weight: Array | None) -> float:
    """Squared coefficient of variation of y, half of which is left to the features; 1 where y is constant."""
    mean, variance = weighted_moments(y, weight)
    return float(0.5 * variance / mean**2) or 1.0


def log_gamma_tails(shape: float, log_x: Array) -> tuple[Array, Array]:
    """Logarithms of the regularised incomplete gamma functions at exp(log_x), also where these are no numbers.

    Series and continued fraction: Abramowitz and Stegun, 6.5.29 and 6.5.31.
    """
    x = np.asarray(safe_exp(log_x))
    with np.errstate(divide="ignore"):
        below, above = np.log(gammainc(shape, x)), np.log(gammaincc(shape, x))
    low, high = np.isneginf(below), np.isneginf(above)
    common = shape * log_x - x - float(gammaln(shape))
    if low.any():
        below[low] = common[low] - np.log(shape) + np.log(hyp1f1(1.0, shape + 1.0, x[low]))
    if high.any():
        fraction = at = x[high]
        for k in range(FRACTIONS, 0, -1):
            fraction = at + (k - shape) / (1.0 + k / fraction)
        above[high] = common[high] - np.log(fraction)
    return below, above


class LogLink(Likelihood):
    """Base of positive y with mean exp(f)."""

    support = POSITIVE
    ratio: str | None = "rate"

    def mean(self, f: Array) -> Array:
        return safe_exp(f)

    def expected_mean(self, m: Array, v: Array) -> Array:
        return safe_exp(as_float(m) + 0.5 * as_float(v))

    def centre(self, y: Array) -> Array:
        return np.log(as_float(y))


class Gamma(OneScale, LogLink):
    """Gamma likelihood with mean exp(f) and variance dispersion * mean^2; y > 0.

    Parameters
    ----------
    dispersion : float or "auto", default="auto"
        Squared coefficient of variation of y given f, 1 over the distribution's shape; "auto" learns it, down to 1e-8
        of that of all y. Its root has an exponential prior of mean 1.

    Examples
    --------
    >>> from sksvi.likelihoods import Gamma
    >>> print(Gamma(dispersion=0.25).conditional_variance(0.0))
    0.25
    """

    scale_name = "dispersion"
    spread_power = 0.5
    predictable = {"scale": ("dispersion", -1.0)}

    def __init__(self, *, dispersion: float | str = "auto") -> None:
        self.dispersion = dispersion

    @property
    def variance_function(self) -> tuple[float, float]:
        return 0.0, self._number("dispersion")

    @property
    def width(self) -> float:
        return np.minimum(1.0, 2.0 * np.sqrt(self._number("dispersion")))

    def _constant(self, y: Array, dtype: np.dtype) -> tuple[float, Array, Array]:
        """Shape k, log(k y), and log p(y | f) without what depends on f."""
        shape = 1.0 / self._number("dispersion")
        y = np.asarray(y, dtype)
        log_y = np.log(y)
        constant = (shape * np.log(shape) - gammaln(shape)).astype(dtype)
        return shape, log_y + np.log(shape).astype(dtype), constant + (shape - 1.0) * log_y

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        f = as_float(f)
        shape, log_scaled, constant = self._constant(y, f.dtype)
        ratio = safe_exp(log_scaled - f)
        return constant - shape * f - ratio, ratio - shape, -ratio

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        m = as_float(m)
        shape, log_scaled, constant = self._constant(y, m.dtype)
        ratio = safe_exp(log_scaled - m + 0.5 * v)
        return constant - shape * m - ratio, ratio - shape, -0.5 * ratio

    def conditional_variance(self, f: Array) -> Array:
        return self._number("dispersion") * np.minimum(safe_exp(f), 1e150) ** 2  # its square stays finite

    def cdf(self, y: Array, f: Array) -> Array:
        shape = 1.0 / self._number("dispersion")
        return gammainc(shape, shape * np.maximum(y, 0.0) * safe_exp(-as_float(f)))

    @property
    def tails(self) -> LogScaleTails:
        return LogScaleTails(self)

    def _log_tails(self, y: Array, f: Array) -> tuple[Array, Array]:
        shape = 1.0 / self._number("dispersion")
        return log_gamma_tails(shape, np.log(shape * as_float(y)) - as_float(f))

    def ppf(self, p: Array | float, f: Array) -> Array:
        shape = 1.0 / self._number("dispersion")
        return gammaincinv(shape, p) / shape * safe_exp(f)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        dispersion = self._number("dispersion")
        return rng.gamma(1.0 / dispersion, dispersion, size=np.shape(f)) * safe_exp(f)

    def cdf_centre(self, y: Array) -> Array:
        return np.log(np.maximum(as_float(y), POSITIVE.low))

    def cdf_width(self, y: Array) -> Array:
        return np.full(np.shape(y), min(1.0, self._number("dispersion") ** 0.5))

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        y, mu = as_float(y), as_float(mu)
        return 2.0 * ((y - mu) / mu - np.log(y / mu))

    def _started(self, y: Array, weight: Array | None) -> tuple[float, float]:
        first = squared_variation(y, weight)
        return first, LEAST_NOISE**2 * first

    def _in_log_size(self, y: Array, f: Array) -> tuple[Array, Array]:
        shape, y, f = 1.0 / self._number("dispersion"), as_float(y), as_float(f)
        ratio = safe_exp(np.log(y) - f)
        slope = np.log(shape) + 1.0 - digamma(shape) + np.log(y) - f - ratio
        return -shape * slope, shape * slope + shape * (1.0 - shape * polygamma(1, shape))


class InverseGaussian(OneScale, LogLink):
    """Inverse Gaussian likelihood with mean exp(f) and variance dispersion * mean^3; y > 0, not log-concave in f.

    Parameters
    ----------
    dispersion : float or "auto", default="auto"
        Variance of y given f over its cubed mean, in 1 over the unit of y; "auto" learns its logarithm, whose prior is
        flat.

    Examples
    --------
    >>> from sksvi.likelihoods import InverseGaussian
    >>> print(InverseGaussian(dispersion=0.25).conditional_variance(0.0))
    0.25
    """

    scale_name = "dispersion"
    traits = LikelihoodTraits(log_concave=False)

    def __init__(self, *, dispersion: float | str = "auto") -> None:
        self.dispersion = dispersion

    def _parts(self, y: Array, f: Array, v: Array | float) -> tuple[Array, Array, Array]:
        """What log p does not owe to f, and E of its two exponentials of f ~ N(f, v)."""
        f = as_float(f)
        y, log_rate = np.asarray(y, f.dtype), -float(np.log(self._number("dispersion")))
        log_y = np.log(y)
        constant = 0.5 * (log_rate - 3.0 * log_y) - LOG_SQRT_2PI - 0.5 * safe_exp(log_rate - log_y)
        return constant, 0.5 * safe_exp(log_rate + log_y - 2.0 * f + 2.0 * v), safe_exp(log_rate - f + 0.5 * v)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        constant, square, linear = self._parts(y, f, 0.0)
        return constant - square + linear, 2.0 * square - linear, linear - 4.0 * square

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        constant, square, linear = self._parts(y, m, v)
        return constant - square + linear, 2.0 * square - linear, 0.5 * linear - 2.0 * square

    def conditional_variance(self, f: Array) -> Array:
        return self._number("dispersion") * np.minimum(safe_exp(f), 1e100) ** 3  # its cube stays finite

    def cdf(self, y: Array, f: Array) -> Array:
        rate, mean = 1.0 / self._number("dispersion"), safe_exp(f)
        y = np.maximum(as_float(y), POSITIVE.low)
        root = np.sqrt(rate) / np.sqrt(y)
        return ndtr(root * (y / mean - 1.0)) + safe_exp(2.0 * rate / mean + log_ndtr(-root * (y / mean + 1.0)))

    def ppf(self, p: Array | float, f: Array) -> Array:
        rate = 1.0 / self._number("dispersion")
        with warnings.catch_warnings(action="ignore"):  # where SciPy's first search gives up, its second finds it
            return np.asarray(stats.invgauss.ppf(p, safe_exp(f) / rate, scale=rate))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return rng.wald(safe_exp(f), 1.0 / self._number("dispersion"))

    def cdf_centre(self, y: Array) -> Array:
        return np.log(np.maximum(as_float(y), POSITIVE.low))

    def cdf_width(self, y: Array) -> Array:
        return np.clip(np.sqrt(self._number("dispersion") * as_float(y)), 1e-3, 1.0)

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        y, mu = as_float(y), as_float(mu)
        return (y - mu) ** 2 / (mu**2 * y)

    def _started(self, y: Array, weight: Array | None) -> tuple[float, float]:
        mean, _ = weighted_moments(y, weight)
        first = squared_variation(y, weight) / mean
        return first, LEAST_NOISE**2 * first

    def _in_log_size(self, y: Array, f: Array) -> tuple[Array, Array]:
        rate, y, inverse = 1.0 / self._number("dispersion"), as_float(y), safe_exp(-as_float(f))
        half = 0.5 * rate * (y * inverse - 1.0) ** 2 / y
        return half - 0.5, -half
