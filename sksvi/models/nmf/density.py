"""Predictive distribution of counts: a Poisson whose mean has its first two moments under q."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from sksvi.families import Gamma
from sksvi.likelihoods.count_quantiles import negative_binomial_quantile, poisson_quantile
from sksvi.likelihoods.counts import poisson_draw

Array = np.ndarray

#: Variance over squared mean below which a mean is as good as known.
KNOWN = 1e-10


def moments_of(
    activations: Array, covariance: Array, components: Gamma, weights: Gamma | None = None
) -> tuple[Array, Array]:
    """Mean and variance of Σ_k θ_k W_fk H_nk, (n, F). θ = 1 if None; it, W and H are independent of each other.

    ``covariance`` : of each row's H, (n, K, K), or variances (n, K).
    """
    bases, spread = components.mean, components.variance
    if weights is not None:  # Var θW = Var θ E W² + (E θ)² Var W: no difference that rounding may leave below 0
        weight, of_weight = weights.mean[:, None], weights.variance[:, None]
        bases, spread = weight * bases, of_weight * (spread + np.square(bases)) + np.square(weight) * spread
    if covariance.ndim == 2:
        variances, activation_variance = covariance, covariance @ np.square(bases)
    else:
        variances = np.diagonal(covariance, axis1=1, axis2=2)
        activation_variance = np.einsum("nkf,kf->nf", covariance @ bases, bases)
    return activations @ bases, np.maximum(activation_variance, 0.0) + (variances + np.square(activations)) @ spread


def moments_of_pairs(rows: Gamma, columns: Gamma) -> tuple[Array, Array]:
    """Mean and variance of Σ_k W_fk H_nk in single cells, (n,): factors of each cell's row and column, both (n, K)."""
    H, W = rows.mean, columns.mean
    squares = np.einsum("nk,nk->n", rows.variance + np.square(H), columns.variance + np.square(W))
    squared_means = np.einsum("nk,nk->n", np.square(H), np.square(W))
    return np.einsum("nk,nk->n", H, W), np.maximum(squares - squared_means, 0.0)


def log_poisson(y: Array, mean: Array) -> Array:
    """log p(y) of a Poisson, nats; with Γ for the factorial of a fraction."""
    return xlogy(y, mean) - mean - gammaln(y + 1.0)


def log_negative_binomial(y: Array, mean: Array, variance: Array) -> Array:
    """log p(y) of a Poisson whose mean is Gamma with these moments, nats: a negative binomial."""
    spread = variance / np.square(mean)
    size = 1.0 / np.maximum(spread, KNOWN)
    gain = gammaln(y + size) - gammaln(size) - gammaln(y + 1.0)
    mixed = gain + xlogy(y, mean / (size + mean)) - xlog1py(size, mean / size)
    return np.where(spread > KNOWN, mixed, log_poisson(y, mean))


class CountPredictive:
    """Distribution of counts whose means have these moments, each (n,): negative binomial, or Poisson for a fixed mean.

    Parameters
    ----------
    rate, spread : ndarray of shape (n,)
        Mean and variance of the Poisson's mean.
    """

    def __init__(self, rate: Array, spread: Array) -> None:
        self.rate, self.spread = rate, spread
        self._size = np.square(rate) / np.maximum(spread, KNOWN * np.square(rate))
        self._is_poisson = spread <= KNOWN * np.square(rate)

    def mean(self) -> Array:
        """E y, (n,)."""
        return self.rate

    def std(self) -> Array:
        """Standard deviation of y, (n,), Poisson noise included."""
        return np.sqrt(self.rate + self.spread)

    def quantile(self, q: Array) -> Array:
        """Smallest counts up to which there is probability q (m,), (n, m)."""
        rate, is_poisson = self.rate[:, None], self._is_poisson[:, None]
        mixed = negative_binomial_quantile(q, self._size[:, None], rate)
        return np.where(is_poisson, poisson_quantile(q, rate), mixed)

    def log_prob(self, y: Array) -> Array:
        """log p(y), nats, (n,)."""
        return log_negative_binomial(y, self.rate, self.spread)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of y, (len(rate), n)."""
        drawn = rng.gamma(self._size[:, None], 1.0, (len(self.rate), n)) * (self.rate / self._size)[:, None]
        return poisson_draw(np.where(self._is_poisson[:, None], self.rate[:, None], drawn), rng)
