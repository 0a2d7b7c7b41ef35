"""Likelihoods of counts: Poisson, negative binomial."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import betainc, betaincc, betaln, digamma, gammainc, gammaln, pdtr, polygamma, xlogy

from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.count_quantiles import negative_binomial_quantile, poisson_quantile
from sksvi.likelihoods.logistic import expected_outcomes
from sksvi.likelihoods.one_scale import OneScale, RelativeSpread
from sksvi.likelihoods.scales import Scales, weighted_moments
from sksvi.likelihoods.traits import (
    Array,
    LikelihoodTraits,
    Support,
    as_float,
    log_softplus,
    log_softplus_terms,
    safe_exp,
    sigmoid,
    softplus,
)

#: Fewer counts than these are not worth a table of what is asked of them.
LEAST_COUNTS = 64
COUNT = Support(0.0, np.inf, False, "y >= 0")
#: Traits of Poisson counts, by their rate.
_EXP = LikelihoodTraits(discrete=True, exponential=True)
_SOFTPLUS = LikelihoodTraits(discrete=True, poles_only=True)


class Poisson(Likelihood):
    """Poisson likelihood with rate exp(f) or log(1 + exp(f)); y >= 0 need not be an integer.

    Parameters
    ----------
    rate : {"exp", "softplus"}, default="exp"
        The rate as a function of f. Beyond f = 700 exp(f) has no float and the rate stays at about 1e304.

    Examples
    --------
    >>> from sksvi.likelihoods import Poisson
    >>> print(Poisson().log_prob(0.0, 0.0))
    -1.0
    """

    support = COUNT

    def __init__(self, *, rate: str = "exp") -> None:
        self.rate = rate

    @property
    def traits(self) -> LikelihoodTraits:  # type: ignore[override]
        return _EXP if self._is_exp() else _SOFTPLUS

    @property
    def variance_function(self) -> tuple[float, float] | None:
        return (1.0, 0.0) if self._is_exp() else None

    def overdispersible(self, y: Array) -> bool:
        return True

    def excess(self, y: Array, mean: Array) -> tuple[Array, Array, Array, Array]:
        square = mean * mean
        return np.square(y - mean) - y, 2.0 * square, (8.0 * mean + 4.0) * square, mean

    def _is_exp(self) -> bool:
        if self.rate not in ("exp", "softplus"):
            raise ValueError(f'Poisson needs rate="exp" or "softplus"; found {self.rate!r}.')
        return self.rate == "exp"

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        f = as_float(f)
        y = np.asarray(y, dtype=f.dtype)
        constant = gammaln(y + 1.0)
        if self._is_exp():
            rate = safe_exp(f)
            return y * f - rate - constant, y - rate, np.broadcast_to(-rate, np.broadcast(y, f).shape)
        rate, log_rate, slope, ratio, bend, curve = log_softplus_terms(f)
        return y * log_rate - rate - constant, y * ratio - slope, y * curve - bend

    def log_prob(self, y: Array, f: Array) -> Array:
        if self._is_exp():
            return super().log_prob(y, f)
        f = as_float(f)
        y = np.asarray(y, dtype=f.dtype)
        rate, log_rate = log_softplus(f, np.exp(-np.abs(f)))
        return y * log_rate - rate - gammaln(y + 1.0)

    def mean(self, f: Array) -> Array:
        return safe_exp(f) if self._is_exp() else softplus(as_float(f))

    def conditional_variance(self, f: Array) -> Array:
        return self.mean(f)

    def cdf(self, y: Array, f: Array) -> Array:
        y = np.asarray(y, dtype=float)
        return np.where(y < 0, 0.0, pdtr(np.floor(np.maximum(y, 0.0)), self.mean(f)))

    def ppf(self, p: Array | float, f: Array) -> Array:
        return poisson_quantile(p, self.mean(f))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return poisson_draw(np.asarray(self.mean(f), dtype=float), rng)

    def centre(self, y: Array) -> Array:
        rate = np.asarray(y, dtype=float) + 0.5
        return np.log(rate) if self._is_exp() else rate + np.log(-np.expm1(-rate))

    def cdf_width(self, y: Array) -> Array:
        y = np.asarray(y, dtype=float)
        return 1.0 / np.sqrt(np.maximum(y, 1.0)) if self._is_exp() else np.ones(y.shape)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array] | None:
        m = as_float(m)
        return self.expected_given_rate(y, m, m + 0.5 * as_float(v))

    def expected_given_rate(self, y: Array, mean: Array, log_rate: Array) -> tuple[Array, Array, Array] | None:
        if not self._is_exp():
            return None
        y = np.asarray(y, dtype=mean.dtype)
        rate = safe_exp(log_rate)
        return y * mean - rate - gammaln(y + 1.0), y - rate, -0.5 * rate

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        y, mu = as_float(y), as_float(mu)
        return 2.0 * (xlogy(y, y) - xlogy(y, mu) - y + mu)


#: Least dispersion that a fit begins with where most of the excess variance is to be explained, or goes on from.
LEAST_LEFT = 0.02
#: Least share of its mean that a learned dispersion adds to the variance of a count of mean 1 or more: for less, its
#: slope is lost in rounding.
LEAST_EXCESS = 1e-6


class LearnedDispersion(RelativeSpread["NegativeBinomial"]):
    """The dispersion of a negative binomial distribution; its root is the relative spread of the rate."""

    @property
    def takes_excess(self) -> bool:  # type: ignore[override]
        return bool(self.likelihood.learned)

    def with_less_dispersion(self, share: float) -> NegativeBinomial:
        own = self.likelihood
        if not own.learned:
            return own
        return own._replaced({"dispersion": max(share * self.noise, LEAST_LEFT)}, own.learned)

    def moved_off_limits(self) -> NegativeBinomial:
        return self.with_less_dispersion(1.0)

    def informed(self, y: Array) -> bool:
        """Counts that are all zero are explained by any dispersion, the better the larger it is."""
        return bool(np.any(np.asarray(y) > 0))


class NegativeBinomial(OneScale):
    """Negative binomial likelihood with mean exp(f) and variance mean + dispersion * mean^2; y >= 0.

    Parameters
    ----------
    dispersion : float or "auto", default="auto"
        Excess of the variance over Poisson's, per squared mean; "auto" learns it, down to 1e-6, or 1e-6 over the mean
        count where that is more than 1.

    Examples
    --------
    >>> from sksvi.likelihoods import NegativeBinomial
    >>> print(NegativeBinomial(dispersion=0.5).conditional_variance(0.0))
    1.5
    """

    support = COUNT
    traits = LikelihoodTraits(discrete=True)
    ratio = "rate"
    scale_name = "dispersion"
    spread_power = 0.5
    predictable = {"scale": ("dispersion", -1.0)}

    @property
    def variance_function(self) -> tuple[float, float]:
        return 1.0, self._number("dispersion")

    def __init__(self, *, dispersion: float | str = "auto") -> None:
        self.dispersion = dispersion

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        dispersion = self._number("dispersion")
        f = as_float(f)
        y = np.asarray(y, dtype=f.dtype)
        size = 1.0 / dispersion
        u = f + np.log(dispersion).astype(f.dtype)
        # Arithmetic in place: maxima and comparisons take several times as long, and this is most of a fit.
        magnitude = np.abs(u)
        low, high = 0.5 * (u - magnitude), 0.5 * (u + magnitude)
        down, up = np.exp(low), np.exp(-high)
        small = down * up
        log_one_plus = np.log1p(small)
        larger = 1.0 / (1.0 + small)
        down *= larger
        up *= larger
        # log(Gamma(y + size) / (Gamma(size) y!)) without the cancellation at small dispersion
        constant = _of_counts(_constant, y, size).astype(f.dtype, copy=False)
        value = y * (low - log_one_plus) - size * (high + log_one_plus) + constant
        return value, y * up - size * down, -(y + size) * (up * down)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        dispersion = self._number("dispersion")
        y, size = np.asarray(y, dtype=np.result_type(m)), 1.0 / dispersion
        value, dm, dv = expected_outcomes(y, np.full_like(y, size), m + float(np.log(dispersion)), v)
        return value + _of_counts(_constant, y, size).astype(value.dtype, copy=False), dm, dv

    def mean(self, f: Array) -> Array:
        return safe_exp(f)

    def conditional_variance(self, f: Array) -> Array:
        mean = np.minimum(safe_exp(f), 1e150)  # its square stays finite
        return mean + self._number("dispersion") * mean * mean

    def cdf(self, y: Array, f: Array) -> Array:
        y = np.asarray(y, dtype=float)
        return np.where(y < 0, 0.0, self._cdf(np.floor(np.maximum(y, 0.0)), np.asarray(f, dtype=float)))

    def _cdf(self, y: Array, f: Array) -> Array:
        size: Array = np.asarray(1.0 / self._number("dispersion"))
        y, u, size = np.broadcast_arrays(y, np.minimum(f, 700.0) - np.log(size), size)
        # I(size, y + 1) at the probability of failure, from whichever argument is not rounded to 1
        high = u > 0
        out = np.empty(u.shape)
        out[high] = betainc(size[high], y[high] + 1.0, sigmoid(-u[high]))
        out[~high] = betaincc(y[~high] + 1.0, size[~high], sigmoid(u[~high]))
        # A count without neighbours is its rate, of a gamma distribution: the incomplete beta function overflows there.
        large = (y > 2.0**53) & (size < 1e8)
        with np.errstate(over="ignore"):
            out[large] = gammainc(size[large], y[large] * np.exp(-u[large]))
        return out

    def ppf(self, p: Array | float, f: Array) -> Array:
        return negative_binomial_quantile(p, 1.0 / self._number("dispersion"), self.mean(f))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        dispersion = self._number("dispersion")
        shares = rng.gamma(1.0 / dispersion, dispersion, size=np.shape(f))
        return poisson_draw(np.asarray(self.mean(f), dtype=float) * shares, rng)

    def centre(self, y: Array) -> Array:
        return np.full(np.shape(y), self.bends[0])

    @property
    def bends(self) -> np.ndarray:
        return np.array([-np.log(self._number("dispersion"))])

    def cdf_centre(self, y: Array) -> Array:
        return np.log(np.asarray(y, dtype=float) + 0.5)

    def cdf_width(self, y: Array) -> Array:
        y = np.maximum(np.asarray(y, dtype=float), 1.0)
        return np.minimum(np.sqrt(1.0 / y + self._number("dispersion")), 1.0)

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        y, mu, dispersion = as_float(y), as_float(mu), self._number("dispersion")
        tail = (y + 1.0 / dispersion) * (np.log1p(dispersion * y) - np.log1p(dispersion * mu))
        return 2.0 * (xlogy(y, y) - xlogy(y, mu) - tail)

    def _started(self, y: Array, weight: Array | None) -> tuple[float, float]:
        mean, variance = weighted_moments(y, weight)
        # half of the excess variance: the features will explain some of it
        excess = 0.5 * (variance - mean) / mean**2 if mean > 0 else 0.0
        return float(min(max(excess, 0.05), 10.0)), LEAST_EXCESS / max(float(mean), 1.0)

    @property
    def scales(self) -> Scales[NegativeBinomial]:
        return LearnedDispersion(self)

    def _in_log_size(self, y: Array, f: Array) -> tuple[Array, Array]:
        dispersion = self._number("dispersion")
        y, size = as_float(y), 1.0 / dispersion
        u = as_float(f) + np.log(dispersion)
        share, log_one_plus = sigmoid(u), softplus(u)
        digammas = size * (_of_counts(_digamma, y, size) - digamma(size))
        trigammas = size**2 * (_of_counts(_trigamma, y, size) - polygamma(1, size))
        first = y - digammas - (y + size) * share + size * log_one_plus
        second = digammas + trigammas - (y + size) * share * sigmoid(-u) + size * (2.0 * share - log_one_plus)
        return first, second


def _constant(y: Array, size: float) -> Array:
    """log(Gamma(y + size) / (Gamma(size) y!))."""
    found: Array = -betaln(y + 1.0, size) - np.log(y + size)
    return found


def _digamma(y: Array, size: float) -> Array:
    found: Array = digamma(y + size)
    return found


def _trigamma(y: Array, size: float) -> Array:
    found: Array = polygamma(1, y + size)
    return found


def _of_counts(function: Callable[[Array, float], Array], y: Array, size: float) -> Array:
    """A slow function of counts, to the bit: from a table where that has no more values than there are counts."""
    if np.ndim(size):  # one of each count
        return function(y, size)
    if y.shape == (1,) and y.dtype == np.float64:  # a stream asks for that of a point at every look
        return _of_one(function, y.item(), size)
    if y.dtype != np.float64 or y.size < LEAST_COUNTS or not 0 <= y.max() < y.size:
        return function(y, size)
    top, counts = 1 << int(y.max()).bit_length(), y.astype(np.intp)
    if top > y.size or counts.min() < 0 or not np.array_equal(counts, y):
        return function(y, size)
    return _table(function, size, top)[counts]


@lru_cache(maxsize=4096)
def _of_one(function: Callable[[Array, float], Array], y: float, size: float) -> Array:
    """Value of a function at one count, (1,), read-only."""
    found = function(np.array([y]), size)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=32)
def _table(function: Callable[[Array, float], Array], size: float, top: int) -> Array:
    """Values of a function at 0, 1, ... below `top`."""
    return function(np.arange(float(top)), size)


def poisson_draw(mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Poisson draws; beyond 1e15, where counts are no longer exact in floats, the normal limit."""
    draws = rng.poisson(np.minimum(mean, 1e15)).astype(float)
    return np.where(mean > 1e15, mean, draws)
