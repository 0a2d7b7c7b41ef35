"""Likelihood of a quantile: asymmetric Laplace, whose mode in f is quantile regression's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from sksvi.likelihoods.one_scale import OneScale, RelativeSpread
from sksvi.likelihoods.scales import LEAST_NOISE, own_unit
from sksvi.likelihoods.traits import LOG_SQRT_2PI, Array, LikelihoodTraits, as_float, tiny

#: Level of the tests for which the bandwidth of a density is chosen.
LEVEL = 0.05


class AsymmetricLaplace(OneScale):
    """Asymmetric Laplace likelihood, log p(y | f) = log(q (1 - q) / s) - ρ(y - f) / s: f is a quantile of y.

    s is the scale, ρ(u) = q u for u > 0, (q - 1) u below: the loss of quantile regression (Koenker and Bassett 1978),
    so that the mode under a flat prior is its estimate. As a model of y it is rarely meant. Fits predict f, and their
    intervals, `predict_interval` too, are those of the quantile f: `BayesianGLMRegressor` replaces the covariance that
    follows from the likelihood by the corrected one (Yang, Wang and He 2016), whose intervals hold whatever the
    distribution of y about its quantile. `GMERegressor`, `SparseGPRegressor` and `DynamicGLM` find the scale at which
    the posterior is as wide as estimates vary (Lyddon, Holmes and Walker 2019), where y is distributed alike about its
    quantile in all rows; what their intervals hold is measured in `doc/likelihoods.md`. Draws of y and log densities
    are of the working likelihood.

    Parameters
    ----------
    quantile : float, default=0.5
        Probability q in (0, 1) that y is below f.
    scale : float or "auto", default="auto"
        In units of y; "auto" learns it, down to 1e-4 of the standard deviation of y, or finds it as above. A number
        is a learning rate of your own: the smaller, the more a row says.

    Examples
    --------
    >>> from sksvi.likelihoods import AsymmetricLaplace
    >>> print(AsymmetricLaplace(quantile=0.9, scale=1.0).cdf(0.0, 0.0))
    0.9
    """

    traits = LikelihoodTraits(additive=True, quantile=True)
    scale_name = "scale"

    def __init__(self, quantile: float = 0.5, *, scale: float | str = "auto") -> None:
        self.quantile = quantile
        self.scale = scale

    @property
    def scales(self) -> LossScale:
        return LossScale(self)

    def _shape(self) -> tuple[float, float]:
        """The probability, and the scale."""
        q = self.quantile
        if isinstance(q, bool) or not isinstance(q, int | float | np.floating) or not 0.0 < q < 1.0:
            raise ValueError(f"AsymmetricLaplace needs quantile, a number between 0 and 1; found {q!r}.")
        return float(q), self._number("scale")

    def loss(self, y: Array, f: Array) -> Array:
        """ρ(y - f), in units of y."""
        q, u = self._shape()[0], np.asarray(y, float) - as_float(f)
        return np.where(u > 0, q * u, (q - 1.0) * u)

    def expected_loss(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """E ρ(y - f) under f ~ N(m, v), and its derivatives in m and v."""
        q, sd = self._shape()[0], np.sqrt(np.maximum(as_float(v), tiny(m)))
        u = np.asarray(y, dtype=m.dtype) - m
        below = ndtr(-u / sd)
        density = np.exp(-0.5 * np.minimum((u / sd) ** 2, 170.0) - LOG_SQRT_2PI)
        return u * (q - below) + sd * density, below - q, 0.5 * density / sd

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        q, scale = self._shape()
        f = as_float(f)
        slope = np.where(np.asarray(y, float) > f, q, q - 1.0) / scale
        value = np.log(q * (1.0 - q) / scale) - self.loss(y, f) / scale
        return value.astype(f.dtype, copy=False), slope.astype(f.dtype, copy=False), np.zeros_like(value, dtype=f.dtype)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        q, scale = self._shape()
        loss, dm, dv = self.expected_loss(y, as_float(m), v)
        return np.log(q * (1.0 - q) / scale) - loss / scale, -dm / scale, -dv / scale

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        (q, scale), m = self._shape(), np.asarray(m, float)
        v = np.maximum(np.asarray(v, float), 1e-300)
        u, sd = np.asarray(y, float) - m, np.sqrt(v)
        above = -q * u / scale + 0.5 * q**2 * v / scale**2 + log_ndtr(u / sd - q * sd / scale)
        p = 1.0 - q
        below = p * u / scale + 0.5 * p**2 * v / scale**2 + log_ndtr(-u / sd - p * sd / scale)
        found: Array = np.log(q * p / scale) + np.logaddexp(above, below)
        return found

    def mean(self, f: Array) -> Array:
        q, scale = self._shape()
        return as_float(f) + scale * (1.0 - 2.0 * q) / (q * (1.0 - q))

    def conditional_variance(self, f: Array) -> Array:
        q, scale = self._shape()
        variance = scale**2 * (1.0 - 2.0 * q + 2.0 * q**2) / (q * (1.0 - q)) ** 2
        return np.full_like(as_float(f), variance)

    def cdf(self, y: Array, f: Array) -> Array:
        q, scale = self._shape()
        z = (np.asarray(y, float) - as_float(f)) / scale
        below = q * np.exp((1.0 - q) * np.minimum(z, 0.0))
        return np.where(z < 0, below, 1.0 - (1.0 - q) * np.exp(-q * np.maximum(z, 0.0)))

    def ppf(self, p: Array | float, f: Array) -> Array:
        q, scale = self._shape()
        p = np.asarray(p, float)
        z = np.where(p < q, np.log(p / q) / (1.0 - q), -np.log((1.0 - p) / (1.0 - q)) / q)
        return as_float(f) + scale * z

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return self.ppf(1.0 - rng.random(np.shape(f)), f)

    @property
    def width(self) -> float:
        return self._shape()[1]

    def centre(self, y: Array) -> Array:
        return as_float(y)

    def cdf_centre(self, y: Array) -> Array:
        return as_float(y)

    def _started(self, y: Array, weight: Array | None) -> tuple[float, float]:
        unit = own_unit(y, weight)
        return 0.3 * unit, LEAST_NOISE * unit

    def calibrated_scale(self, y: Array, f: Array, weight: Array) -> float:
        """Scale s = q (1 - q) / p(y = f), from estimates f of the quantile of each y, (n,), and weights of rows.

        There rows say as much of f as their scores vary, q (1 - q) / s² = p(y = f) / s, so that the posterior is as
        wide as the estimate varies (Lyddon, Holmes and Walker 2019), where p is alike for all rows: it is the mean of
        a normal kernel of width `bandwidth`.
        """
        q, n = self._shape()[0], float(np.sum(weight))
        lost = float(weight @ self.loss(y, f)) / n
        width = max(bandwidth(q, n) * lost, LEAST_NOISE * own_unit(y, weight))
        density = float(weight @ np.exp(-0.5 * np.square((y - f) / width) - LOG_SQRT_2PI)) / (n * width)
        return q * (1.0 - q) / density

    def _in_log_size(self, y: Array, f: Array) -> tuple[Array, Array]:
        lost = self.loss(y, f) / self._shape()[1]
        return lost - 1.0, -lost


@dataclass(frozen=True)
class LossScale(RelativeSpread[AsymmetricLaplace]):
    """The scale of a loss that has a kink: expectations in closed form."""

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        lost = self.likelihood.expected_loss(y, m, v)[0] / self.likelihood._number("scale")
        return (lost - 1.0)[None], -lost[None, None]


def bandwidth(tau: float, n: float) -> float:
    """Standard deviation of the kernel, in units of the scale: half of the window that normal rows have."""
    at = ndtri(tau)
    density = np.exp(-0.5 * at**2) / np.sqrt(2.0 * np.pi)
    share = (1.5 * ndtri(1.0 - 0.5 * LEVEL) ** 2 * density**2 / ((2.0 * at**2 + 1.0) * n)) ** (1.0 / 3.0)
    share = min(share, 0.5 * tau, 0.5 * (1.0 - tau))
    return 0.5 * float(ndtri(tau + share) - ndtri(tau - share)) / float(density)
