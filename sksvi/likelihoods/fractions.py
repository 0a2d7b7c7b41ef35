"""Likelihoods of shares: beta, and beta-binomial successes of trials."""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincinv, digamma, gammaln, polygamma

from sksvi.likelihoods.one_scale import OneScale
from sksvi.likelihoods.scales import weighted_moments
from sksvi.likelihoods.traits import Array, LikelihoodTraits, Support, as_float, sigmoid

FRACTION = Support(float(np.nextafter(0.0, 1.0)), float(np.nextafter(1.0, 0.0)), False, "0 < y < 1")
#: A latent beyond has shares whose gamma functions are no numbers; log p is flat there.
FARTHEST, FARTHEST_SINGLE = 300.0, 80.0
#: Precision that a fit begins with at least, and at most.
FIRST_PRECISION = (0.1, 1e6)


def scaled_digamma(x: Array) -> Array:
    """x digamma(x), which is -1 at 0."""
    return x * digamma(x + 1.0) - 1.0


def scaled_trigamma(x: Array) -> Array:
    """x^2 trigamma(x), which is 1 at 0."""
    return 1.0 + x * x * polygamma(1, x + 1.0).astype(np.result_type(x), copy=False)


class Beta(OneScale):
    """Beta likelihood with mean sigmoid(f) and variance mean (1 - mean) / (1 + precision); 0 < y < 1.

    Parameters
    ----------
    precision : float or "auto", default="auto"
        Sum of the distribution's two shapes; "auto" learns it. 1 over its root has an exponential prior of mean 1.

    Notes
    -----
    Not log-concave in f (Ferrari and Cribari-Neto 2004 have the model).

    Examples
    --------
    >>> from sksvi.likelihoods import Beta
    >>> print(Beta(precision=2.0).log_prob(0.5, 0.0))
    0.0
    """

    support = FRACTION
    traits = LikelihoodTraits(log_concave=False)
    scale_name = "precision"
    spread_power = -0.5
    predictable = {"scale": ("precision", 1.0)}

    def __init__(self, *, precision: float | str = "auto") -> None:
        self.precision = precision

    def _shapes(self, f: Array) -> tuple[Array, Array, float]:
        """Both shapes and the precision."""
        precision, f = self._number("precision"), as_float(f)
        end = FARTHEST_SINGLE if f.dtype == np.float32 else FARTHEST
        f = np.clip(f, -end, end)
        return precision * sigmoid(f), precision * sigmoid(-f), precision

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        f = as_float(f)
        a, b, precision = self._shapes(f)
        y = np.asarray(y, f.dtype)
        log_up, log_down = np.log(y), np.log1p(-y)
        up, down = a / precision, b / precision
        value = gammaln(precision).astype(f.dtype) - gammaln(a) - gammaln(b) + (a - 1.0) * log_up + (b - 1.0) * log_down
        slope = a * down * (log_up - log_down) - down * scaled_digamma(a) + up * scaled_digamma(b)
        bend = down * down * scaled_trigamma(a) + up * up * scaled_trigamma(b)
        return value, slope, (down - up) * slope - bend

    def mean(self, f: Array) -> Array:
        return sigmoid(as_float(f))

    def conditional_variance(self, f: Array) -> Array:
        f = as_float(f)
        return sigmoid(f) * sigmoid(-f) / (1.0 + self._number("precision"))

    def cdf(self, y: Array, f: Array) -> Array:
        a, b, _ = self._shapes(f)
        return betainc(a, b, np.clip(y, 0.0, 1.0))

    def ppf(self, p: Array | float, f: Array) -> Array:
        a, b, _ = self._shapes(f)
        return betaincinv(a, b, p)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        a, b, _ = self._shapes(f)
        return np.clip(rng.beta(a, b), FRACTION.low, FRACTION.high)

    def centre(self, y: Array) -> Array:
        y = as_float(y)
        return np.log(y) - np.log1p(-y)

    def cdf_centre(self, y: Array) -> Array:
        return self.centre(np.clip(as_float(y), FRACTION.low, FRACTION.high))

    def cdf_width(self, y: Array) -> Array:
        return np.full(np.shape(y), min(1.0, 2.0 / np.sqrt(1.0 + self._number("precision"))))

    def _started(self, y: Array, weight: Array | None) -> tuple[float, float]:
        mean, variance = weighted_moments(y, weight)
        # half of the variance is left to the features
        first = 2.0 * mean * (1.0 - mean) / variance - 1.0 if variance > 0 else FIRST_PRECISION[1]
        return float(np.clip(first, *FIRST_PRECISION)), 0.0

    def _in_log_size(self, y: Array, f: Array) -> tuple[Array, Array]:
        a, b, precision = self._shapes(f)
        y = as_float(y)
        total = np.asarray(precision)
        first = scaled_digamma(total) - scaled_digamma(a) - scaled_digamma(b) + a * np.log(y) + b * np.log1p(-y)
        second = scaled_trigamma(total) - scaled_trigamma(a) - scaled_trigamma(b)
        return first, first + second
