"""Predictive distribution of y when f ~ N(m, v + w2) and the variance w2 of the noise is Rayleigh(sigma)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from sksvi.integrals import rayleigh
from sksvi.integrals.quadrature import expect
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.traits import LOG_SQRT_2PI, safe_exp
from sksvi.predictive.plain import Predictive, _among, cdf_of, check_number_of_samples, closed_variance

Array = np.ndarray

_MEAN = 1.2533141373155001  # E w2 / sigma = sqrt(pi / 2)
_NEGLIGIBLE = 25.0  # nats


def _closed(moment: Array | None) -> Array:
    """A moment of y that its likelihood declares a closed form of."""
    assert moment is not None
    return moment


class NoisyPredictive(Predictive):
    """Distribution of y with f ~ N(mean, variance + w2) and w2 ~ Rayleigh(sigma) integrated out, row by row.

    A mixture over nodes of w2 of what `Predictive` gives, with its methods.

    Parameters
    ----------
    likelihood : Likelihood
        With one latent, every parameter a number.
    mean, variance : array of shape (n,)
        Of f without the noise.
    sigma : float
        Scale of the Rayleigh distribution of the noise's variance w2.

    Attributes
    ----------
    latent_mean, latent_variance : ndarray of shape (n,)
        Of f, the noise's mean variance E w2 included.

    Raises
    ------
    ValueError
        If the shapes differ, a variance is negative or not finite, or sigma is not a positive number.

    Examples
    --------
    >>> from sksvi.likelihoods import Gaussian
    >>> from sksvi.predictive.noisy import NoisyPredictive
    >>> NoisyPredictive(Gaussian(variance=3.0), [0.0], [1.0], sigma=2.0).std().round(4)
    array([2.5508])
    """

    def __init__(self, likelihood: Likelihood, mean: Array, variance: Array, sigma: float) -> None:
        if not 0 < sigma < np.inf:
            raise ValueError(f"sigma, the scale of the noise's variance, must be a positive number; found {sigma!r}.")
        if likelihood.n_latents > 1:
            raise ValueError(
                f"{type(likelihood).__name__} has {likelihood.n_latents} latents; the noise is that of one latent."
            )
        super().__init__(likelihood, mean, variance)
        self.sigma = float(sigma)
        self._m = self.latent_mean.astype(np.float64)
        self._v = self.latent_variance.astype(np.float64)
        self.latent_variance = self.latent_variance + np.asarray(_MEAN * self.sigma, dtype=self.latent_mean.dtype)

    def _mixed(self, function: Any, width: Array | float) -> list[Array]:
        """E over w2 of ``function(rows, v + w2)``, which changes over a scale `width` of f."""

        def scores(rows: Array, r: float) -> list[Array]:
            return function(rows, self._v[rows] + self.sigma * r)

        return rayleigh.over_noise(scores, 1.0 / (np.square(width) + self._v), self.sigma)

    def _log_moment(self, power: float) -> Array:
        """log E exp(power f)."""
        noise, _ = rayleigh.log_exponential_moment(0.5 * power**2 * self.sigma)
        return power * self._m + 0.5 * power**2 * self._v + noise

    def _typed(self, values: Array) -> Array:
        return values.astype(self.latent_mean.dtype, copy=False)

    def mean(self) -> Array:
        """E y, shape (n,); binomial: the proportion."""
        if self.likelihood.variance_function is not None:
            return self._typed(safe_exp(self._log_moment(1.0)))
        likelihood, m = self.likelihood, self._m
        if likelihood.traits.additive:
            return _closed(likelihood.expected_mean(self.latent_mean, self.latent_variance))
        means = self._mixed(lambda rows, v: [Predictive(likelihood, m[rows], v).mean()], likelihood.width)
        return self._typed(means[0])

    def variance(self) -> Array:
        """Var y, shape (n,): what f leaves open, the noise and the uncertainty of f."""
        likelihood, m = self.likelihood, self._m
        if likelihood.traits.additive:
            return _closed(closed_variance(likelihood, self.latent_mean, self.latent_variance))
        if likelihood.variance_function is not None:
            linear, square = likelihood.variance_function
            first, second = self._log_moment(1.0), self._log_moment(2.0)
            relative = np.expm1(np.minimum(second - 2.0 * first, 600.0))
            # exp(2 first) may overflow where its product with a tiny relative variance does not
            total = linear * safe_exp(first) + safe_exp(2.0 * first + np.log(relative))
            if square:
                total = total + safe_exp(second + np.log(square))
            return self._typed(total)
        centre = np.asarray(self.mean(), dtype=np.float64)

        def spread(rows: Array, v: Array) -> list[Array]:
            part = Predictive(likelihood, m[rows], v)
            return [part.variance() + (part.mean() - centre[rows]) ** 2]

        return self._typed(self._mixed(spread, likelihood.width)[0])

    def log_prob(self, y: Array) -> Array:
        """log p(y) in nats, shape (n,), integrated over f and the noise."""
        y = np.asarray(y)
        total = np.full(len(self._m), -np.inf)
        rows, reach, start = np.arange(len(self._m)), 8.5, 0
        while len(rows):
            # an outlier is due to more noise than the first nodes have: go on where the last one still matters
            r, log_weights = rayleigh.rayleigh_log_trapezoid(reach)
            terms = np.empty((len(r) - start, len(rows)))
            for k, (node, log_weight) in enumerate(zip(r[start:], log_weights[start:], strict=True)):
                part = Predictive(self.likelihood, self._m[rows], self._v[rows] + self.sigma * node)
                terms[k] = log_weight + part.log_prob(y[rows])
            top = np.maximum(terms.max(axis=0), total[rows])
            parts = np.concatenate([terms, total[rows][None]])
            # added in the order of the nodes, however many rows there are
            total[rows] = top + np.log(np.cumsum(np.exp(parts - top), axis=0)[-1])
            rows = rows[terms[-1] > total[rows] - _NEGLIGIBLE]
            start, reach = len(r), 2.0 * reach
            if reach > 1e4:
                break
        return self._typed(total)

    def probabilities(self) -> Array:
        """P(y = k), shape (n, L), rows sum to 1, for each of the likelihood's `levels`; binomial: of one trial."""
        likelihood, m = self.likelihood, self._m

        def classes(rows: Array, v: Array) -> list[Array]:
            return [Predictive(likelihood, m[rows], v).probabilities().T]

        p = self._mixed(classes, likelihood.width)[0].T
        return self._typed(p / p.sum(axis=1, keepdims=True))

    def sample(self, n: int, rng: np.random.Generator, trials: Array | None = None) -> Array:
        """Draws of y, shape (n_rows, n), or of the successes in so many `trials` (n_rows,)."""
        check_number_of_samples(n)
        shape = (len(self._m), int(n))
        sd = np.sqrt(self._v[:, None] + rng.rayleigh(self.sigma, shape))
        return self._drawn(self._m[:, None] + sd * rng.standard_normal(shape), rng, trials)

    def _successes(self, k: Array, trials: Array, rows: Array) -> Array:
        likelihood, m, v = self.likelihood, self._m[rows], self._v[rows]

        def among(some: Array, r: Array) -> list[Array]:
            predictive = Predictive(likelihood, m[some], v[some] + self.sigma * r)
            return [predictive._successes(k[some], trials[some], np.arange(len(some)))]

        width = self._fall(_among(k, trials), trials)[1]
        return rayleigh.over_noise(among, 1.0 / (np.square(width) + v), self.sigma)[0]

    def _cdf(self, y: Array, rows: Array) -> Array:
        """P(Y <= y) for some rows."""
        return self._cdf_and_density(y, rows, False)[0]

    def _cdf_and_density(self, y: Array, rows: Array, with_density: bool = True) -> list[Array]:
        likelihood, noise = self.likelihood, self.likelihood.noise_variance
        at = np.maximum(y, likelihood.support.low)
        m, v = self._m[rows], self._v[rows]
        width = likelihood.cdf_width(at) if noise is None else np.full(len(m), np.sqrt(noise))

        def at_noise(own: Array, r: float) -> list[Array]:
            value = at[own]
            if noise is not None:
                sd = np.sqrt(v[own] + self.sigma * r + noise)
                z = (value - m[own]) / sd
                return [ndtr(z), np.exp(-0.5 * z * z - LOG_SQRT_2PI) / sd]

            if not with_density:
                return [cdf_of(likelihood, y[own], m[own], v[own] + self.sigma * r)]

            def function(f: Array, part: Any) -> list[Array]:
                return [likelihood.cdf(y[own][part], f), np.exp(likelihood.log_prob(value[part], f))]

            return expect(function, m[own], v[own] + self.sigma * r, width[own], lambda: likelihood.cdf_centre(value))

        return rayleigh.over_noise(at_noise, 1.0 / (np.square(width) + v), self.sigma)

    def _quantile_bracket(self, level: float) -> tuple[Array, Array, Array]:
        """A guess at a quantile and its ends; of an additive likelihood they move out until they hold the level."""
        if not self.likelihood.traits.additive:
            return super()._quantile_bracket(level)
        unit = np.sqrt(np.asarray(self.latent_variance, dtype=float)) + (self.likelihood.scales.noise or 0.0)
        rows = np.arange(len(unit))
        ends = {}
        for sign in (-1.0, 1.0):
            end, step, active = self._m + unit * ndtri(level), unit.copy(), rows
            while len(active):
                end[active] += sign * step[active]
                short = sign * (self._cdf(end[active], active) - level) < 0
                active = active[short]
                step[active] *= 4.0
            ends[sign] = end
        return 0.5 * (ends[-1.0] + ends[1.0]), ends[-1.0], ends[1.0]

    def _continuous_quantile(self, level: float) -> Array:
        return self._between(level)

    def _latent_reach(self, share: float) -> Array:
        """Distance from its mean beyond which f lies with probability `share`, or less."""
        most = self.sigma * np.sqrt(-2.0 * np.log(0.5 * share))  # P(w2 > most) = share / 2
        return -ndtri(0.25 * share) * np.sqrt(self._v + most)
