"""Inducing points in white coordinates: w = L v with L Lᵀ = K_ww, so that v ~ N(0, I) a priori (equations.md 4).

Row i of a sparse GP is h_i = L⁻¹ k_w(x_i), and what the inducing points leave open is d_i = k_ii - |h_i|².
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import lapack

from sksvi._runtime.parallel import over_triangle
from sksvi.families.gaussian.dense import NotPositiveDefinite
from sksvi.models.gp import kernels

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
    >>> from sksvi.models.gp.geometry import Geometry
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
        inverse, _ = lapack.dtrtri(self.L, lower=1)
        return inverse

    def rows(self, X: Array) -> tuple[Array, Array, Array]:
        """k_w(x), h and d of the rows of X; a rounding below zero in d counts as zero."""
        K = kernels.cross(self.kernel, X, self.Z)
        H = over_triangle(K, self.L)
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
