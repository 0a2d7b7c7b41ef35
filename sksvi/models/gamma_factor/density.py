"""The density ξ(Λ) = log p(Y | Λ) of the gamma factor model (doc/gamma_factors.md), by matrices of K x K.

The data are sufficient statistics of rows: their number, their mean, and their scatter about it. Loadings L = Λᵀ (...,
K, D), noise ψ (D,), C = Ψ + ΛΛᵀ. With P = LΨ⁻¹, B = I + PLᵀ and G = B⁻¹P = (C⁻¹Λ)ᵀ,

    C⁻¹ = Ψ⁻¹ - PᵀG,   log|C| = log|B| + Σ log ψ,   ∂ξ/∂L = G S C⁻¹ - νG,

where S is the scatter of the rows and ν how many there are (one less where their mean was integrated out).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sksvi._runtime import parallel
from sksvi.families.base import NotPositiveDefinite
from sksvi.models.data import InMemory

# ---- sufficient statistics
Array = np.ndarray

#: A column whose standard deviation is at most so many roundings of its mean is a constant.
ROUNDINGS = 8.0


@dataclass(frozen=True)
class Scatter(InMemory):
    """Rows y_n (N, D) as a sum: ``products`` = Σ (y_n - mean)(y_n - mean)ᵀ.

    n: rows, or what forgetting left of them. centred: whether `mean` is that of the rows; else 0.
    """

    LAYOUT = "mean (d) f; products (d,d) f diag>=0; n number >0; centred flag"

    n: float
    mean: Array
    products: Array
    centred: bool

    def __len__(self) -> int:
        return max(1, round(self.n))

    @property
    def total_weight(self) -> float:
        """Number of rows, as weights count them."""
        return self.n

    @property
    def freedom(self) -> float:
        """Rows that inform the covariance: one goes into the mean."""
        return max(self.n - 1.0, 0.0) if self.centred else self.n

    @property
    def variances(self) -> Array:
        """Variance of each column about `mean`, (D,)."""
        return np.diag(self.products) / self.n

    @property
    def informed(self) -> Array:
        """Whether each column varies by more than rounding, (D,)."""
        rounding: Array = ROUNDINGS * np.finfo(float).eps * np.abs(self.mean)
        return np.sqrt(self.variances) > rounding

    def take(self, rows: Any) -> Scatter:
        """All rows: there is no part of a sum."""
        return self

    def divided(self, unit: Array) -> Scatter:
        """The scatter of the same rows in other units: columns divided by `unit` (D,)."""
        return replace(self, mean=self.mean / unit, products=self.products / np.multiply.outer(unit, unit))

    def about_zero(self) -> Scatter:
        """The scatter of the same rows about 0, which is then taken for the mean of their columns."""
        if not self.centred:
            return self
        products = self.products + self.n * np.multiply.outer(self.mean, self.mean)
        return Scatter(self.n, np.zeros_like(self.mean), products, False)

    def faded(self, share: float) -> Scatter:
        """The scatter with every row weighted by `share`."""
        return replace(self, n=share * self.n, products=share * self.products)

    def merged(self, other: Scatter) -> Scatter:
        """The scatter of two sets of rows together, about their common mean."""
        n, delta = self.n + other.n, other.mean - self.mean
        between = self.n * other.n / n * np.multiply.outer(delta, delta)
        mean = self.mean + other.n / n * delta
        return Scatter(n, mean, self.products + other.products + between, self.centred)


def scatter_of(X: Array, centred: bool, threads: int) -> Scatter:
    """The scatter of rows: chunks of fixed size, so that threads change no bit.

    Parameters
    ----------
    X : ndarray of shape (N, D)
    centred : bool
        About the mean of the rows; else about 0.
    threads : int
    """
    parts = parallel.slices(len(X), parallel.chunk_rows(X.shape[1], True))
    mean = np.zeros(X.shape[1])
    if centred:
        mean = parallel.summed(lambda part: X[part].sum(0, dtype=np.float64), parts, threads) / len(X)

    def product(part: slice) -> Array:
        rows = X[part] - mean
        return np.vstack([np.dot(rows.T, rows), rows.sum(0)])

    products, left = np.split(parallel.summed(product, parts, threads), [X.shape[1]])
    products = 0.5 * (products + products.T)
    if centred:  # what rounding left of the first mean: of columns far from 0 it would be their scatter
        left = left[0] / len(X)
        mean, products = mean + left, products - len(X) * np.multiply.outer(left, left)
    return Scatter(float(len(X)), mean, products, centred)


# ---- the density of loadings
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
    return np.eye(len(noise)) / noise - np.swapaxes(P, -1, -2) @ projection(loadings, noise)


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
