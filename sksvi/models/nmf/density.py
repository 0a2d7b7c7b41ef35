"""Predictive distribution of counts: a Poisson whose mean has the first two moments that q says."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from sksvi.families import Gamma

Array = np.ndarray

#: Variance over squared mean below which a mean is as good as known.
KNOWN = 1e-10


def moments_of(shape: Array, rate: Array, components: Gamma, weights: Gamma | None = None) -> tuple[Array, Array]:
    """Mean and variance of Σ_k θ_k W_fk H_nk, (n, F): the factors of a term are independent under q. θ = 1 if None."""
    weight, square = (1.0, 1.0) if weights is None else (weights.mean, weights.variance + np.square(weights.mean))
    mean = (shape / rate * weight) @ components.mean
    squares = (shape * (shape + 1.0) / np.square(rate) * square) @ (components.variance + np.square(components.mean))
    known = np.square(shape / rate * weight) @ np.square(components.mean)
    return mean, np.maximum(squares - known, 0.0)  # a difference that rounding may leave below 0


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
