"""ξ(Λ) = log p(Y | Λ) of the gamma factor model (equations.md 9), by matrices of K x K.

Loadings L = Λᵀ (..., K, D), noise ψ (D,), C = Ψ + ΛΛᵀ. With P = LΨ⁻¹, B = I + PLᵀ and G = B⁻¹P = (C⁻¹Λ)ᵀ,

    C⁻¹ = Ψ⁻¹ - PᵀG,   log|C| = log|B| + Σ log ψ,   ∂ξ/∂L = G S C⁻¹ - νG,

where S is the scatter of the rows and ν how many there are (one less where their mean was integrated out).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sksvi.families.base import NotPositiveDefinite
from sksvi.models.gamma_factor.scatter import Scatter

Array = np.ndarray


class Density(NamedTuple):
    """ξ (...), nats, and its derivatives in loadings (..., K, D) and noise variances (..., D)."""

    value: Array
    in_loadings: Array
    in_noise: Array | None


def log_density(loadings: Array, noise: Array, data: Scatter, of_noise: bool = False) -> Density:
    """ξ and its derivatives.

    Parameters
    ----------
    loadings : ndarray of shape (..., K, D)
    noise : ndarray of shape (D,)
    data : Scatter
    of_noise : bool, default=False
        Whether the derivative in the noise is wanted.
    """
    S, freedom = data.products, data.freedom
    P = loadings / noise
    B = P @ np.swapaxes(loadings, -1, -2) + np.eye(loadings.shape[-2])
    try:
        factor, G = np.linalg.cholesky(B), np.linalg.inv(B) @ P
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefinite("loadings are so large that the covariance of rows is no number") from error
    log_det = 2.0 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(-1) + np.log(noise).sum()
    GS = G @ S
    trace = float(np.sum(np.diag(S) / noise)) - np.sum(P * GS, axis=(-2, -1))
    value = -0.5 * (freedom * (log_det + len(noise) * np.log(2.0 * np.pi)) + trace)
    if data.centred:
        value = value - 0.5 * len(noise) * np.log(data.n)
    slope = GS / noise - (GS @ np.swapaxes(P, -1, -2)) @ G - freedom * G
    if not of_noise:
        return Density(value, slope, None)
    inverse = 1.0 / noise - np.sum(P * G, axis=-2)
    twice = np.diag(S) / noise**2 - 2.0 / noise * np.sum(GS * P, axis=-2)
    twice = twice + np.sum(P * ((GS @ np.swapaxes(G, -1, -2)) @ P), axis=-2)
    return Density(value, slope, 0.5 * (twice - freedom * inverse))


def inverse_covariance(loadings: Array, noise: Array) -> Array:
    """C⁻¹ (..., D, D)."""
    P = loadings / noise
    B = P @ np.swapaxes(loadings, -1, -2) + np.eye(loadings.shape[-2])
    return np.eye(len(noise)) / noise - np.swapaxes(P, -1, -2) @ np.linalg.solve(B, P)


def projection(loadings: Array, noise: Array) -> Array:
    """E[x | y] = projection (y - mean), (..., K, D)."""
    P = loadings / noise
    B = P @ np.swapaxes(loadings, -1, -2) + np.eye(loadings.shape[-2])
    return np.linalg.solve(B, P)


def information(loadings: Array, noise: Array, freedom: float) -> Array:
    """Expected -∂²ξ/∂L², each entry's own (K, D): ν[(C⁻¹)_dd (ΛᵀC⁻¹Λ)_kk + (C⁻¹Λ)_dk²]."""
    G = projection(loadings, noise)
    inverse = 1.0 / noise - np.sum(loadings / noise * G, axis=0)
    return freedom * (np.multiply.outer(np.sum(G * loadings, axis=1), inverse) + G**2)


def noise_information(loadings: Array, noise: Array, freedom: float) -> Array:
    """Expected -∂²ξ/∂ψ², (D, D)."""
    return 0.5 * freedom * np.square(inverse_covariance(loadings, noise))


class Second(NamedTuple):
    """Second derivatives of ξ at one Λ, and the first ones beside them.

    loadings (K D, K D), mixed (K D, D) with the noise variances, noise (D, D); slope (K, D), in_noise (D,).
    """

    loadings: Array
    mixed: Array
    noise: Array
    slope: Array
    in_noise: Array


def second_derivatives(loadings: Array, noise: Array, data: Scatter) -> Second:
    """Second derivatives of ξ in loadings (K, D) and noise variances, and the first ones beside them.

    With R = C⁻¹SC⁻¹ - νC⁻¹ the slopes are ∂ξ/∂Λ = RΛ and ∂ξ/∂ψ = ½ diag R, and
    dR = -C⁻¹ dC C⁻¹SC⁻¹ - C⁻¹SC⁻¹ dC C⁻¹ + νC⁻¹ dC C⁻¹.
    """
    (K, D), P = loadings.shape, inverse_covariance(loadings, noise)
    W = P @ data.products @ P
    R, G, V = W - data.freedom * P, loadings @ P, loadings @ W
    A, B = V @ loadings.T, G @ loadings.T
    # Entry ((k, d), (l, e)): what dC = dΛ Λᵀ gives, then what Λ dΛᵀ does.
    full = np.multiply.outer(np.eye(K) - B, R) - np.multiply.outer(A, P)
    other = np.multiply.outer(V, G) + np.multiply.outer(G, V - data.freedom * G)  # (l, d, k, e)
    full = np.swapaxes(full, 1, 2) - other.transpose(2, 1, 0, 3)
    mixed = -(V[:, None] * P) - G[:, None] * R
    own = 0.5 * data.freedom * P**2 - P * W
    return Second(full.reshape(K * D, K * D), mixed.reshape(K * D, D), own, loadings @ R, 0.5 * np.diag(R))
