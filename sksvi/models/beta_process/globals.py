"""The globals of beta process factor analysis as its local steps read them: a draw, expectations, or given values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import digamma

Array = np.ndarray


@dataclass(frozen=True)
class Globals:
    """One draw of the globals, or expectations, as local steps read them.

    features (K, D), spread (K, D) its variance or (0, D) for a draw; centre: E features under q, for the gradient.
    noise, log_noise (D,): precision of the noise and its log. logit (K,), log_unused: log odds of use and
    sum_k log(1 - pi_k). precision, log_precision: of the weights.
    """

    features: Array
    spread: Array
    centre: Array
    noise: Array
    log_noise: Array
    logit: Array
    log_unused: float
    precision: float
    log_precision: float

    @cached_property
    def scaled(self) -> Array:
        """Features in units of the noise."""
        return np.ascontiguousarray(self.features * np.sqrt(self.noise))

    @cached_property
    def scaled_spread(self) -> Array:
        """Variances in units of the noise."""
        return np.ascontiguousarray(self.spread * self.noise)

    @cached_property
    def columns(self) -> Array:
        """Features in units of the noise, (D, K)."""
        return np.ascontiguousarray(self.scaled.T)

    @cached_property
    def spread_columns(self) -> Array:
        """Variances in units of the noise, (D, K) or (0, K)."""
        return np.ascontiguousarray(self.scaled_spread.T) if len(self.spread) else np.empty((0, len(self.features)))

    @property
    def slack(self) -> float:
        """(E log γ_w - log E γ_w)/2, 0 for a draw: what expectations cost each weight that counts."""
        return 0.5 * (self.log_precision - float(np.log(self.precision)))

    @cached_property
    def gram(self) -> Array:
        """Φ Φᵀ in units of the noise, what rows without missing entries share."""
        return self.scaled @ self.scaled.T

    @cached_property
    def square(self) -> Array:
        """E φ², (K, D)."""
        return np.square(self.features) + (self.spread if len(self.spread) else 0.0)


def expected(q: dict[str, Any], n_features: int) -> Globals:
    """Expectations of the globals."""
    features, use = q["features"], q["probabilities"]
    noise, weight = q["noise_precision"], q["weight_precision"]
    moments = use.moments
    return Globals(
        features.mean,
        features.variance,
        features.mean,
        np.broadcast_to(noise.mean, (n_features,)),
        np.broadcast_to(noise.mean_log, (n_features,)),
        digamma(use.a) - digamma(use.b),
        float(moments[:, 1].sum()),
        float(weight.mean[0]),
        float(weight.mean_log[0]),
    )


def draw(q: dict[str, Any], rng: np.random.Generator, n_features: int) -> Globals:
    """One draw of the globals from q."""
    features, use = q["features"], q["probabilities"]
    phi = features.mean + features.root * rng.standard_normal(features.mean.shape)
    # As a ratio of Gamma variables in logs: a small `a` would give probabilities of exactly 0.
    log_a, log_b = log_gamma_draw(use.a, rng), log_gamma_draw(use.b, rng)
    noise = rng.standard_gamma(q["noise_precision"].shape) / q["noise_precision"].rate
    weight = rng.standard_gamma(q["weight_precision"].shape) / q["weight_precision"].rate
    return at_values(phi, log_a - log_b, noise, float(weight[0]), n_features, features.mean)


def at_values(
    phi: Array, logit: Array, noise: Array, weight: float, n_features: int, centre: Array | None = None
) -> Globals:
    """Globals of these values: features, log odds of use, precisions of noise and weights."""
    return Globals(
        phi,
        np.empty((0, n_features)),
        phi if centre is None else centre,
        np.broadcast_to(noise, (n_features,)),
        np.broadcast_to(np.log(noise), (n_features,)),
        logit,
        -float(np.logaddexp(0.0, logit).sum()),
        weight,
        float(np.log(weight)),
    )


def log_gamma_draw(shape: Array, rng: np.random.Generator) -> Array:
    """Log of a Gamma(shape, 1) draw, also where the draw itself would be 0."""
    return np.log(rng.standard_gamma(shape + 1.0)) + np.log1p(-rng.random(shape.shape)) / shape
