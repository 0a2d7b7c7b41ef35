"""The bounds of a sparse GP per datum: f_i = h_iᵀv + e_i with var e_i = d_i (doc/gaussian_processes.md).

Each bound is a sum of T_i(mu_i, s_i, d_i), mu_i and s_i the mean and variance of h_iᵀv under q; all that a fit needs
are T_i and its derivatives alpha, gamma and delta in the three, and in the likelihood's own parameters.

Inducing points are in white coordinates: w = L v with L Lᵀ = K_ww, so that v ~ N(0, I) a priori. Row i of a sparse GP
is h_i = L⁻¹ k_w(x_i), and what the inducing points leave open is d_i = k_ii - |h_i|².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from sksvi._runtime.parallel import times_triangle
from sksvi.families.gaussian.dense import NotPositiveDefinite
from sksvi.models.data import Table
from sksvi.models.gp import kernels

# ---- inducing points in white coordinates
Array = np.ndarray

#: What is added to the diagonal of K_ww where it needs it, in units of the mean diagonal: none, then ten times more.
JITTERS = (0.0, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)
#: A pivot below this share of the diagonal leaves gradients with too few digits.
LEAST_PIVOT = 5e-11


def factor(K: Array, what: str) -> tuple[Array, float]:
    """Lower Cholesky factor of K + jitter I, and the jitter in units of the mean diagonal.

    Raises
    ------
    NotPositiveDefinite
        When the largest jitter does not help.
    """
    size = float(np.mean(np.diagonal(K)))
    if not np.all(np.isfinite(K)):
        raise NotPositiveDefinite(f"{what} is not finite")
    for jitter in JITTERS:
        A = np.array(K, order="F")
        A[np.diag_indices_from(A)] += jitter * size
        diagonal = np.diagonal(A).copy()
        L, info = lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)
        if info == 0 and np.all(np.square(np.diagonal(L)) > LEAST_PIVOT * diagonal):
            return L, jitter
    raise NotPositiveDefinite(
        f"{what} is not positive definite, even with a jitter of {JITTERS[-1]:g} of its mean diagonal added (none is "
        f"added where none is needed, then {JITTERS[1]:g} and ten times more each time)"
    )


def inverse_triangle(L: Array) -> Array:
    """L⁻¹ of a lower triangle: BLAS multiplies many rows by a triangle in half the time that it solves for them in."""
    inverse, _ = lapack.dtrtri(L, lower=1)
    return np.ascontiguousarray(inverse)


class Geometry:
    """K_ww and its factor at one kernel and one set of inducing inputs.

    Parameters
    ----------
    kernel : scikit-learn kernel
    Z : ndarray of shape (M, D)

    Raises
    ------
    NotPositiveDefinite
        When K_ww needs more jitter than the policy allows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sksvi.models.gp.bounds import Geometry
    >>> Z = np.array([[0.0], [1.0]])
    >>> _, H, d = Geometry(RBF(), Z).rows(Z)
    >>> (H @ H.T).round(3), bool(abs(d).max() < 1e-12)
    (array([[1.   , 0.607],
           [0.607, 1.   ]]), True)
    """

    def __init__(self, kernel: Any, Z: Array) -> None:
        self.kernel, self.Z = kernel, Z
        self.K = kernels.cross(kernel, Z, Z)
        self.L, self.jitter = factor(self.K, "the kernel matrix of the inducing points")
        self.cache: dict[Any, Any] = {}

    @cached_property
    def inverse(self) -> Array:
        """L⁻¹."""
        return inverse_triangle(self.L)

    def rows(self, X: Array) -> tuple[Array, Array, Array]:
        """k_w(x), h and d of the rows of X; a rounding below zero in d counts as zero."""
        K = kernels.cross(self.kernel, X, self.Z)
        H = times_triangle(K, self.inverse)
        return K, H, np.maximum(kernels.diagonal(self.kernel, X) - np.einsum("ij,ij->i", H, H), 0.0)

    def pull_rows(self, X: Array, K: Array, slopes: Array, delta: Array, inputs: bool) -> tuple[Array, Array | None]:
        """Derivatives in theta and Z, given those in k_w(x), (n, M), and in k(x, x), (n,)."""
        theta, moved = kernels.cross_pullback(self.kernel, X, self.Z, slopes, K, inputs)
        return theta + kernels.diagonal_pullback(self.kernel, X, delta), moved

    def pull_factor(self, P: Array, inputs: bool) -> tuple[Array, Array | None]:
        """Derivatives in theta and Z through L, given P = Σ g_i h_iᵀ with g_i the derivative in h_i."""
        phi = np.tril(P)
        phi[np.diag_indices_from(phi)] *= 0.5
        G = self.inverse.T @ phi @ self.inverse
        G = -0.5 * (G + G.T)
        G[np.diag_indices_from(G)] += self.jitter * np.trace(G) / len(G)
        return kernels.gram_pullback(self.kernel, self.Z, G, self.K, inputs)


# ---- bounds per datum
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
    value, first, second = _log_normal(np.square(r) + s, c)
    return BoundTerms(value, r / c, -0.5 / c, first, _noise_points(likelihood, first, second))


def v2(likelihood: Any, y: Array, mu: Array, s: Array, d: Array, expect: Any, rng: Any) -> BoundTerms:
    """log N(y; mu, s + d + noise)."""
    c, r = s + d + likelihood.noise_variance, y - mu
    value, first, second = _log_normal(np.square(r), c)
    return BoundTerms(value, r / c, first, first, _noise_points(likelihood, first, second))


def _log_normal(square: Array, c: Array) -> tuple[Array, Array, Array]:
    """Log density of a normal variable of this square and variance c, and its first two derivatives in c."""
    share = square / c
    return -0.5 * (LOG_2PI + np.log(c) + share), 0.5 * (share - 1.0) / c, (0.5 - share) / np.square(c)


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


# ---- the exact process with Gaussian noise, of which the optimal bound is made (doc/gaussian_processes.md)
# A row of weight k is k rows with the same x and y, which one row with k times less noise stands for, up to a
# constant.
def row_noise(data: Table, noise: float) -> tuple[Array, float]:
    """Noise variance per row, and the constant that weights add to the log density."""
    if data.weight is None:
        return np.full(len(data), noise), 0.0
    left = float(np.sum(data.weight - 1.0)) * (LOG_2PI + np.log(noise)) + float(np.sum(np.log(data.weight)))
    return noise / data.weight, -0.5 * left


def factor_of_y(A: Array, noise: float) -> Array:
    """Lower Cholesky factor of the covariance of y, which it overwrites; `noise` is for the error."""
    L, info = lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)
    if info:
        raise NotPositiveDefinite(
            f"the covariance matrix of y is singular at row {info - 1}: with a noise variance of {noise:g} rows with "
            "equal x cannot differ in y, and no jitter is added to it"
        )
    return L


def whitened_rows(geometry: Any, data: Table, noise: float) -> tuple[Array, Array, float]:
    """Rows h and target with covariance R = K - Q + noise turned to I, and the constant of the log density.

    Returns
    -------
    rows : ndarray of shape (n, M)
    target : ndarray of shape (n,)
    constant : float
    """
    _, H, _ = geometry.rows(data.X)
    own, constant = row_noise(data, noise)
    R = np.array(kernels.cross(geometry.kernel, data.X, data.X), order="F")
    R = blas.dgemm(-1.0, H, H, beta=1.0, c=R, trans_b=1, overwrite_c=1)
    R[np.diag_indices_from(R)] += own
    L = factor_of_y(R, noise)
    rows = blas.dtrsm(1.0, L, H, lower=1)
    target = blas.dtrsm(1.0, L, data.centred[:, None], lower=1)[:, 0]
    return np.ascontiguousarray(rows), target, constant - float(np.log(np.diagonal(L)).sum())


def log_density(K: Array, data: Table, noise: float) -> tuple[float, float]:
    """log p(y), nats, and the square of whitened y, where f has the covariance K, which is overwritten."""
    own, constant = row_noise(data, noise)
    K.flat[:: len(K) + 1] += own
    L = factor_of_y(K.T, noise)
    half = lapack.dtrtrs(L, data.centred, lower=1)[0]
    square = float(half @ half)
    return constant - 0.5 * (square + len(half) * LOG_2PI) - float(np.log(np.diagonal(L)).sum()), square


def log_evidence(kernel: Any, data: Table, noise: float) -> tuple[float, Array, float]:
    """log p(y), and its derivatives in ``kernel.theta`` and in the noise variance.

    Parameters
    ----------
    kernel : scikit-learn kernel
    data : Table
    noise : float
        Variance.

    Returns
    -------
    value : float
        In nats.
    theta : ndarray of shape (P,)
    in_noise : float

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sksvi.models.data import Table
    >>> from sksvi.models.gp.bounds import log_evidence
    >>> value, _, _ = log_evidence(RBF(), Table(np.zeros((1, 1)), np.zeros(1)), 1.0)
    >>> round(value, 4)
    -1.2655
    """
    own, constant = row_noise(data, noise)
    K = kernels.cross(kernel, data.X, data.X)
    A = np.array(K, order="F")
    A[np.diag_indices_from(A)] += own
    L = factor_of_y(A, noise)
    y = data.centred
    alpha, _ = lapack.dpotrs(L, y, lower=1)
    value = -0.5 * float(y @ alpha) - float(np.log(np.diagonal(L)).sum()) - 0.5 * len(y) * LOG_2PI + constant
    inverse, _ = lapack.dpotri(L, lower=1)
    G = -np.tril(inverse)
    G = blas.dsyr(1.0, alpha, lower=1, a=np.asfortranarray(G), overwrite_a=1)
    in_noise = 0.5 * float(np.diagonal(G) @ (own / noise))
    in_noise -= 0.5 * (0.0 if data.weight is None else float(np.sum(data.weight - 1.0)) / noise)
    # The lower triangle stands for both: off the diagonal twice.
    G[np.diag_indices_from(G)] *= 0.5
    theta, _ = kernels.cross_pullback(kernel, data.X, data.X, G, K, inputs=False)
    return value, theta, in_noise
