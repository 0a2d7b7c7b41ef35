"""What is predicted of y where hyperparameters have a posterior: a mixture over their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from sksvi.predictive.plain import Predictive

Array = np.ndarray

#: Most bisections of a quantile between those of the components.
BISECTIONS = 60
#: Error of a quantile, in spreads of the distribution.
CLOSE = 1e-7


class MixturePredictive(Predictive):
    """Distribution of y as a mixture of the distributions that nodes of the hyperparameters predict.

    Parameters
    ----------
    components : sequence of Predictive
        Of the same rows and kind of likelihood.
    weights : ndarray of shape (k,)
        Of the components, positive, with a sum of 1.

    Attributes
    ----------
    latent_mean, latent_variance : ndarray of shape (n,), or (n, K) and (n, K, K)
        Moments of f over all components.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Gaussian
    >>> from sksvi.predictive import MixturePredictive, Predictive
    >>> parts = [Predictive(Gaussian(variance=v), np.zeros(1), np.zeros(1)) for v in (1.0, 9.0)]
    >>> MixturePredictive(parts, np.array([0.5, 0.5])).interval(0.9).round(2)
    array([[-3.85,  3.85]])
    """

    def __init__(self, components: Sequence[Predictive], weights: Array) -> None:
        self.components, self.weights = list(components), np.asarray(weights, float)
        mean, variance = mixed_moments(
            [part.latent_mean for part in self.components],
            [part.latent_variance for part in self.components],
            self.weights,
        )
        heaviest = self.components[int(np.argmax(self.weights))]
        super().__init__(heaviest.likelihood, mean, variance)

    def _mixed(self, values: Sequence[Array]) -> Array:
        """Weighted sum of what each component has, in the type of the latents."""
        total = sum(w * np.asarray(part, float) for w, part in zip(self.weights, values, strict=True))
        return np.asarray(total).astype(self.latent_mean.dtype, copy=False)

    def mean(self) -> Array:
        """E y, as of each component."""
        return self._mixed([part.mean() for part in self.components])

    def variance(self) -> Array:
        """Var y: within components and between them."""
        means = [np.asarray(part.mean(), float) for part in self.components]
        centre = sum(w * mean for w, mean in zip(self.weights, means, strict=True))
        parts = zip(self.components, means, strict=True)
        return self._mixed([np.asarray(part.variance(), float) + np.square(mean - centre) for part, mean in parts])

    def log_prob(self, y: Array) -> Array:
        """log p(y) in nats, shape (n,)."""
        logs = np.array([part.log_prob(y) for part in self.components], float)
        found = logsumexp(logs, axis=0, b=self.weights[:, None])
        return np.asarray(found).astype(self.latent_mean.dtype, copy=False)

    def probabilities(self) -> Array:
        """P(y = k), shape (n, L), as of each component."""
        return self._mixed([part.probabilities() for part in self.components])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of y, shape (n_rows, n): each draw has one component for all rows."""
        counts = rng.multinomial(n, self.weights)
        drawn = [part.sample(int(c), rng) for part, c in zip(self.components, counts, strict=True) if c]
        return np.concatenate(drawn, axis=1)[:, rng.permutation(n)]

    def cdf_steps(self, y: Array) -> tuple[Array, Array]:
        """P(Y < y) and P(Y <= y), each of shape (n,)."""
        below, at_most = zip(*(part.cdf_steps(y) for part in self.components), strict=True)
        return self._mixed(below), self._mixed(at_most)

    @cached_property
    def _normals(self) -> tuple[Array, Array] | None:
        """Means and standard deviations (k, n) of y where every component is normal."""
        noises = [part.likelihood.noise_variance for part in self.components]
        if any(noise is None for noise in noises):
            return None
        means = np.array([part.latent_mean for part in self.components], float)
        pairs = zip(self.components, noises, strict=True)
        return means, np.sqrt(np.array([np.asarray(part.latent_variance, float) + noise for part, noise in pairs]))

    def _cdf(self, y: Array, rows: Array) -> Array:
        if self._normals is not None:
            means, stds = self._normals
            return np.asarray(self.weights @ ndtr((y - means[:, rows]) / stds[:, rows]))
        values = [part._cdf(y, rows) for part in self.components]
        return np.asarray(sum(w * value for w, value in zip(self.weights, values, strict=True)))

    def _continuous_quantile(self, level: float) -> Array:
        """Between the quantiles of the components, by secants of the normal score and bisection."""
        if self._normals is None:
            ends = np.array([part._continuous_quantile(level) for part in self.components], float)
        else:
            ends = self._normals[0] + ndtri(level) * self._normals[1]
        low, high = ends.min(0), ends.max(0)
        score, width, slope = ndtri(level), high - low, np.maximum(self._spread().astype(float), np.finfo(float).tiny)
        y, active = np.clip(self.mean() + score * slope, low, high).astype(float), np.flatnonzero(high > low)
        last, scores = y.copy(), np.zeros(len(y))
        for step in range(BISECTIONS):
            if not len(active):
                break
            at = y[active]
            # The normal score is nearly linear in y: at first with the slope of the moments' normal, then as it was.
            off = ndtri(np.clip(self._cdf(at, active), 1e-300, 1.0 - 1e-16)) - score
            under = off < 0
            low[active[under]], high[active[~under]] = at[under], at[~under]
            if step:
                with np.errstate(divide="ignore", invalid="ignore"):
                    slope[active] = (at - last[active]) / (off - scores[active])
            last[active], scores[active] = at, off
            with np.errstate(invalid="ignore"):
                guess = at - off * slope[active]
            a, b = low[active], high[active]
            inside = (guess > a) & (guess < b) & (step % 4 != 3)
            new = np.where(inside | (off == 0), guess, 0.5 * (a + b))
            done = (np.abs(new - at) <= CLOSE * width[active]) | (off == 0)
            y[active] = np.where(off == 0, at, new)
            active = active[~done]
        return y

    def _spread(self) -> Array:
        """Standard deviation of y, once."""
        if not hasattr(self, "_std"):
            self._std = self.std()
        return self._std


def mixed_moments(means: Sequence[Array], variances: Sequence[Array], weights: Array) -> tuple[Array, Array]:
    """Mean and (co)variance of a mixture: (n,), or (n, K) with (n, K, K).

    Parameters
    ----------
    means, variances : sequences of ndarray
        Of the components.
    weights : ndarray of shape (k,)
    """
    mean: Any = sum(w * m for w, m in zip(weights, means, strict=True))
    variance: Any = 0.0
    for w, m, v in zip(weights, means, variances, strict=True):
        off = m - mean
        between = off[..., :, None] * off[..., None, :] if v.ndim > m.ndim else np.square(off)
        variance = variance + w * (v + between)
    return np.asarray(mean), np.asarray(variance)


def normal_quantiles(means: Array, stds: Array, weights: Array, level: float) -> Array:
    """Quantiles of mixtures of normals, one per coordinate, by bisection.

    Parameters
    ----------
    means, stds : ndarray of shape (k, ...)
    weights : ndarray of shape (k,)
    level : float
        In (0, 1).
    """
    ends = means + ndtri(level) * stds
    low, high = ends.min(0), ends.max(0)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        with np.errstate(divide="ignore", invalid="ignore"):
            under = np.tensordot(weights, ndtr((middle - means) / stds), 1) < level
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return 0.5 * (low + high)
