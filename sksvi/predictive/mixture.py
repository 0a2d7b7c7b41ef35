"""Predictive distribution of y where hyperparameters have a posterior: a mixture over their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from sksvi.families.gaussian.mixture import sample_mixture
from sksvi.predictive.plain import Predictive
from sksvi.predictive.quantiles import smallest_count

Array = np.ndarray

#: Least weight of a component of a prediction: lighter nodes are merged with their neighbours.
LEAST = 0.2
#: Most bisections of a quantile between those of the components.
BISECTIONS = 60
#: Largest distance between means of components whose square stays finite, as those of counts.
FARTHEST_MEAN = 1e150
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
        dtype = self.components[0].latent_mean.dtype
        mean, variance = mean.astype(dtype, copy=False), variance.astype(dtype, copy=False)
        super().__init__(self.components[int(np.argmax(self.weights))].likelihood, mean, variance)

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
        apart = [np.clip(mean - centre, -FARTHEST_MEAN, FARTHEST_MEAN) for mean in means]
        parts = zip(self.components, apart, strict=True)
        return self._mixed([np.asarray(part.variance(), float) + np.square(off) for part, off in parts])

    def log_prob(self, y: Array) -> Array:
        """log p(y) in nats, shape (n,)."""
        logs = np.array([part.log_prob(y) for part in self.components], float)
        found = logsumexp(logs, axis=0, b=self.weights[:, None])
        return np.asarray(found).astype(self.latent_mean.dtype, copy=False)

    def probabilities(self) -> Array:
        """P(y = k), shape (n, L), as of each component."""
        return self._mixed([part.probabilities() for part in self.components])

    def sample(self, n: int, rng: np.random.Generator, trials: Array | None = None) -> Array:
        """Draws of y, or of successes, shape (n_rows, n): each draw has one component for all rows."""
        return sample_mixture(self.components, self.weights, n, rng, axis=1, trials=trials)

    def cdf_steps(self, y: Array) -> tuple[Array, Array]:
        """P(Y < y) and P(Y <= y), each of shape (n,)."""
        below, at_most = zip(*(part.cdf_steps(y) for part in self.components), strict=True)
        return self._mixed(below), self._mixed(at_most)

    def _successes(self, k: Array, trials: Array, rows: Array) -> Array:
        values = [part._successes(k, trials, rows) for part in self.components]
        return np.asarray(sum(w * value for w, value in zip(self.weights, values, strict=True)))

    def _cdf(self, y: Array, rows: Array) -> Array:
        values = [part._cdf(y, rows) for part in self.components]
        return np.asarray(sum(w * value for w, value in zip(self.weights, values, strict=True)))

    def _cdf_and_density(self, y: Array, rows: Array) -> list[Array]:
        values = zip(*(part._cdf_and_density(y, rows) for part in self.components), strict=True)
        return [np.asarray(sum(w * one for w, one in zip(self.weights, value, strict=True))) for value in values]

    def _count_quantile(self, level: float) -> Array:
        """Smallest count whose distribution function reaches `level`, looked for about that of log-normals."""
        centres, spreads = zip(*(part._log_normal() for part in self.components), strict=True)
        guess = normal_quantiles(np.array(centres), np.array(spreads), self.weights, level)
        return smallest_count(self._cdf, level, np.floor(np.exp(guess)))

    def _continuous_quantile(self, level: float) -> Array:
        noise = [part.likelihood.noise_variance for part in self.components]
        if all(variance is not None for variance in noise):
            parts = zip(self.components, noise, strict=True)
            stds = np.sqrt([np.asarray(part.latent_variance, float) + v for part, v in parts])
            means = np.array([part.latent_mean for part in self.components], float)
            return normal_quantiles(means, stds, self.weights, level)
        return self._between(level)

    def _quantile_bracket(self, level: float) -> tuple[Array, Array, Array]:
        """The mean of the components' guesses, and ends that hold all of their quantiles."""
        guesses, lows, highs = zip(*(part._quantile_bracket(level) for part in self.components), strict=True)
        return self.weights @ np.array(guesses), np.min(lows, axis=0), np.max(highs, axis=0)


def mixed_moments(means: Sequence[Array], variances: Sequence[Array], weights: Array) -> tuple[Array, Array]:
    """Mean and (co)variance of a mixture: (n,), or (n, K) with (n, K, K).

    Parameters
    ----------
    means, variances : sequences of ndarray
        Of the components.
    weights : ndarray of shape (k,)
    """
    mean: Any = sum(w * np.asarray(m, float) for w, m in zip(weights, means, strict=True))
    variance: Any = 0.0
    for w, m, v in zip(weights, means, variances, strict=True):
        off = m - mean
        between = off[..., :, None] * off[..., None, :] if v.ndim > m.ndim else np.square(off)
        variance = variance + w * (v + between)
    return np.asarray(mean), np.asarray(variance)


def merged(
    means: list[Array], variances: list[Array], weights: Array, spreads: Sequence[float]
) -> tuple[list, list, Array]:
    """Components of f of one likelihood as few: neighbours in spread with their moments, each of ``LEAST`` weight.

    Parameters
    ----------
    means, variances : lists of ndarray
        Of the components.
    weights : ndarray of shape (k,)
    spreads : sequence of float
        By which they are neighbours, whatever rows are asked for together.
    """
    order = np.argsort(spreads, kind="stable")
    groups: list[list[int]] = [[]]
    for k in order:
        if weights[groups[-1]].sum() >= LEAST:
            groups.append([])
        groups[-1].append(int(k))
    if len(groups) > 1 and weights[groups[-1]].sum() < LEAST:
        last = groups.pop()
        groups[-1] += last
    found = []
    for group in groups:
        own = weights[group] / weights[group].sum()
        moments = mixed_moments([means[k] for k in group], [variances[k] for k in group], own)
        found.append([part.astype(means[0].dtype, copy=False) for part in moments])
    return [m for m, _ in found], [v for _, v in found], np.array([weights[group].sum() for group in groups])


def normal_quantiles(means: Array, stds: Array, weights: Array, level: float) -> Array:
    """Quantiles of mixtures of normals, one per coordinate, by Newton's steps between those of the components.

    Parameters
    ----------
    means, stds : ndarray of shape (k, ...)
    weights : ndarray of shape (k,)
    level : float
        In (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.predictive.mixture import normal_quantiles
    >>> normal_quantiles(np.array([[-1.0], [1.0]]), np.ones((2, 1)), np.array([0.5, 0.5]), 0.75).round(2)
    array([1.05])
    """
    shape = means.shape[1:]
    means, stds = (np.asarray(part, float).reshape(len(weights), -1) for part in (means, stds))
    ends = means + ndtri(level) * stds
    low, high = ends.min(0), ends.max(0)
    centre = weights @ means
    spread = np.sqrt(weights @ (np.square(stds) + np.square(means - centre)))
    x = np.clip(centre + ndtri(level) * spread, low, high)
    active = np.flatnonzero(high > low)
    scale = np.where(stds > 0, stds, 1.0)
    for _ in range(BISECTIONS):
        if not len(active):
            break
        at, m, s = x[active], means[:, active], scale[:, active]
        z = np.where(stds[:, active] > 0, (at - m) / s, np.where(at >= m, np.inf, -np.inf))
        cdf = weights @ ndtr(z)
        under = cdf < level
        low[active[under]], high[active[~under]] = at[under], at[~under]
        density = weights @ (np.exp(-0.5 * np.square(z)) / s) / np.sqrt(2.0 * np.pi)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            new = at - (cdf - level) / density
        inside = (new > low[active]) & (new < high[active])
        new = np.where(inside, new, 0.5 * (low[active] + high[active]))
        x[active] = new
        active = active[np.abs(new - at) > CLOSE * spread[active]]
    return x.reshape(shape)
