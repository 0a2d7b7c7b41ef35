"""Scale mixtures of Gaussians: y | f ~ N(f, s) with s random, for likelihoods that are not log-concave in f."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from sksvi.likelihoods.links import Array


class ScaleMixture:
    """Base: the distribution of the variance s = `unit` exp(x) of y given f, through the density of x.

    Attributes
    ----------
    unit : float
        In squared units of y.
    step : float
        Step in x at which the trapezoidal rule integrates the density of x.
    log_constant : float
        Logarithm, in nats, of what `log_density` leaves out of the denominator.
    """

    unit: float
    step: float
    log_constant: float

    def reach(self, squared_distance: Array) -> tuple[Array, Array]:
        """Least and largest x that matter where (y - f)² is at most `squared_distance`, shape (n,)."""
        raise TypeError(f"{type(self).__name__} needs a method reach")

    def log_density(self, x: Array) -> Array:
        """Log density of x, nats, up to `log_constant`."""
        raise TypeError(f"{type(self).__name__} needs a method log_density")

    def d_parameters(self, x: Array) -> tuple[Array, Array]:
        """Derivatives of log p(s) in the likelihood's `unconstrained`, at the s of x: (P, ...) and (P, P, ...)."""
        raise TypeError(f"{type(self).__name__} needs a method d_parameters")


@dataclass(frozen=True)
class InverseGammaVariance(ScaleMixture):
    """Inverse gamma variance of shape df / 2, which makes y Student-t.

    Parameters
    ----------
    scale, df : float
        Of the Student-t distribution.
    least : float
        Least scale: a learned one is `least` + exp(unconstrained).
    learned : tuple of str
        Which of "scale" and "df" are learned.
    """

    scale: float
    df: float
    least: float
    learned: tuple[str, ...]

    @property
    def _shape(self) -> float:
        return 0.5 * self.df

    @property
    def unit(self) -> float:  # type: ignore[override]
        return 0.5 * self.df * self.scale**2

    @property
    def step(self) -> float:  # type: ignore[override]
        return min(0.45, 0.9 / np.sqrt(self._shape + 0.5))

    @property
    def log_constant(self) -> float:  # type: ignore[override]
        return float(gammaln(self._shape))

    def reach(self, squared_distance: Array) -> tuple[Array, Array]:
        a = self._shape
        mode = np.log(squared_distance) - np.log(self.unit) - np.log(2 * a + 1)
        return -np.log(a) - _fall(a, -1.0), np.maximum(-np.log(a), mode) + _fall(a, 1.0)

    def log_density(self, x: Array) -> Array:
        return -self._shape * x - np.exp(-x)

    def d_parameters(self, x: Array) -> tuple[Array, Array]:
        a = self._shape
        part = 1.0 - self.least / self.scale
        in_log_b, in_a = a - np.exp(-x), -x - digamma(a)
        first = {"scale": 2.0 * part * in_log_b, "df": a * in_a + in_log_b}
        second = {
            ("scale", "scale"): 2.0 * part * (1.0 - part) * in_log_b - 4.0 * part**2 * np.exp(-x),
            ("df", "df"): a * in_a + 2.0 * a - np.exp(-x) - a**2 * polygamma(1, a),
            ("scale", "df"): 2.0 * part * in_log_b,
            ("df", "scale"): 2.0 * part * in_log_b,
        }
        names = self.learned
        return np.stack([first[i] for i in names]), np.stack([np.stack([second[i, j] for j in names]) for i in names])


def _fall(a: float, sign: float) -> float:
    """How far from its mode the log density of a log inverse gamma variable falls by 24 nats, above or below."""
    x = 24.0 / a if sign > 0 else np.log1p(24.0 / a)
    x += np.sqrt(48.0 / a)
    for _ in range(60):
        x -= (a * (np.expm1(-sign * x) + sign * x) - 24.0) / (a * sign * (1.0 - np.exp(-sign * x)))
    return float(x)
