"""The bounds of a sparse GP per datum: f_i = h_iᵀv + e_i with var e_i = d_i (equations.md 4).

Each bound is a sum of T_i(mu_i, s_i, d_i), mu_i and s_i the mean and variance of h_iᵀv under q; all that a fit needs
are T_i and its derivatives alpha, gamma and delta in the three, and in the likelihood's own parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray

LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass
class BoundTerms:
    """T_i and its derivatives in mu_i, s_i and d_i; `points`: in the likelihood's unconstrained parameters.

    value and delta (n,); alpha and gamma (n,), for K latents (n, K) and (n, K, K).
    """

    value: Array
    alpha: Array
    gamma: Array
    delta: Array
    points: dict[str, tuple[Array, Array]] = field(default_factory=dict)


def simple(likelihood: Any, y: Array, mu: Array, s: Array, d: Array, expect: Any, rng: Any) -> BoundTerms:
    """E log p(y|f) under f ~ N(mu, s + d I): any likelihood (Titsias's bound), K latents with s (n, K, K)."""
    v = left_over(s, d)
    value, alpha, gamma = expect(likelihood, y, mu, v, rng)
    points = {"likelihood": expect.parameters(likelihood, y, mu, v, rng)} if likelihood.learned else {}
    return BoundTerms(value, alpha, gamma, gamma if gamma.ndim == 1 else np.einsum("naa->n", gamma), points)


def left_over(s: Array, d: Any) -> Array:
    """(Co)variance of f: what q says of the inducing points, (n,), (n, K) or (n, K, K), and d (n,) of each latent."""
    if s.ndim == 1:
        return s + d
    return s + (d[:, None] if s.ndim == 2 else d[:, None, None] * np.eye(s.shape[1]))


def v1(likelihood: Any, y: Array, mu: Array, s: Array, d: Array, expect: Any, rng: Any) -> BoundTerms:
    """log N(y; mu, c) - s/2c with c = d + noise: its optimum is FITC."""
    c, r = d + likelihood.noise_variance, y - mu
    square = np.square(r) + s
    value = -0.5 * (LOG_2PI + np.log(c) + square / c)
    first = 0.5 * (square / c - 1.0) / c
    second = (0.5 - square / c) / np.square(c)
    return BoundTerms(value, r / c, -0.5 / c, first, _noise_points(likelihood, first, second))


def v2(likelihood: Any, y: Array, mu: Array, s: Array, d: Array, expect: Any, rng: Any) -> BoundTerms:
    """log N(y; mu, s + d + noise)."""
    c, r = s + d + likelihood.noise_variance, y - mu
    square = np.square(r)
    value = -0.5 * (LOG_2PI + np.log(c) + square / c)
    first = 0.5 * (square / c - 1.0) / c
    second = (0.5 - square / c) / np.square(c)
    return BoundTerms(value, r / c, first, first, _noise_points(likelihood, first, second))


def _noise_points(likelihood: Any, first: Array, second: Array) -> dict[str, tuple[Array, Array]]:
    """Derivatives in the noise variance as derivatives in its unconstrained coordinate, variance = least + exp(u)."""
    if not likelihood.learned:
        return {}
    above = likelihood.noise_variance - likelihood.least
    slope = above * first
    return {"likelihood": (slope[:, None], (slope + above**2 * second)[:, None, None])}


def simple_at(likelihood: Any, y: Array, mu: Array, d: Array, expect: Any) -> Array:
    """T_i of "simple" at inducing values that are known: E log p(y|f) under f ~ N(mu, d)."""
    return expect.value(likelihood, y, mu, d)


def v1_at(likelihood: Any, y: Array, mu: Array, d: Array, expect: Any) -> Array:
    """T_i of "v1" at inducing values that are known: log N(y; mu, d + noise)."""
    c = d + likelihood.noise_variance
    return -0.5 * (LOG_2PI + np.log(c) + np.square(y - mu) / c)


BOUNDS: dict[str, Callable[..., BoundTerms]] = {"simple": simple, "v1": v1, "v2": v2}
#: T_i where the inducing values are known: s = 0 ("v2" is "v1" there).
VALUES: dict[str, Callable[..., Array]] = {"simple": simple_at, "v1": v1_at, "v2": v1_at}
