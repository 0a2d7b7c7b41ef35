"""A Gaussian of many coordinates: a small covariance along a few directions, a diagonal given these."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi._typing.arrays import RandomState
from sksvi.families.gaussian.dense import Gaussian
from sksvi.families.gaussian.normal import Normal
from sksvi.families.gaussian.structures import lower_root

Array = np.ndarray


class LowRankGaussian(Normal):
    """Gaussian of D weights and what follows them, with a covariance B along r directions V and a diagonal off these.

    The coordinates a = Vᵀw, and what follows the weights, have covariance B; given a the weights are as they would be
    under N(0, diag(s)). With W = diag(s) V (Vᵀ diag(s) V)⁻¹ that is w = e + W (a - Vᵀe), e ~ N(0, diag(s)):
    D + (r + 1)² numbers of each plate instead of D². Plates are independent, and share V.

    Parameters
    ----------
    mean : ndarray of shape (..., D + extra)
        Extra coordinates, such as an intercept, follow the D weights.
    diagonal : ndarray of shape (..., D)
        Variances s.
    basis : ndarray of shape (D, r)
        V, orthonormal columns.
    inner : ndarray of shape (..., r + extra, r + extra)
        B, positive definite; zero, with a diagonal of zeros, of a point.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.gaussian.low_rank import LowRankGaussian
    >>> q = LowRankGaussian(np.zeros(3), np.full(3, 2.0), np.array([[0.6], [0.8], [0.0]]), np.array([[1.0]]))
    >>> q.cov.round(2)
    array([[ 1.64, -0.48,  0.  ],
           [-0.48,  1.36,  0.  ],
           [ 0.  ,  0.  ,  2.  ]])
    """

    LAYOUT = """
        mean (…,_) f; diagonal (…,d) f >=0; basis (d,r) f
        inner (…,w,w) f diag>=0 where w == r + self.mean.shape[-1] - d and it.ndim == self.mean.ndim + 1
    """

    #: Rows are best as sparse as they come, whatever few directions they share.
    full = False
    natural_coordinates = True

    def __init__(self, mean: Array, diagonal: Array, basis: Array, inner: Array) -> None:
        self.mean, self.diagonal, self.basis, self.inner = mean, diagonal, basis, inner

    def __getitem__(self, plate: int) -> LowRankGaussian:
        """The weights of one plate."""
        one = LowRankGaussian(self.mean[plate], self.diagonal[plate], self.basis, self.inner[plate])
        one.__dict__["_solved"] = self._solved[plate]  # found for all at once
        return one

    def contrast(self, plate: int, other: int) -> Gaussian:
        """One plate less another, with a precision that is formed when asked for."""
        return Gaussian(self.mean[plate] - self.mean[other], np.linalg.inv(self[plate].cov + self[other].cov))

    def tempered(self, temperature: float) -> LowRankGaussian:
        """The block with a covariance times a temperature; 0: a point."""
        if temperature == 1.0:
            return self
        return LowRankGaussian(self.mean, temperature * self.diagonal, self.basis, temperature * self.inner)

    def prepare(self) -> None:
        """Nothing is factored: rows ask for products alone."""

    @cached_property
    def _scaled(self) -> Array:
        """diag(s) V, (..., D, r)."""
        return self.diagonal[..., None] * self.basis

    @cached_property
    def _solved(self) -> Array:
        """(Vᵀ diag(s) V)⁻¹, (..., r, r)."""
        r, first, second = self._pairs
        found = np.zeros((*self.diagonal.shape[:-1], r, r))
        for rows, products in self._products():
            found[..., first, second] += self.diagonal[..., rows] @ products
        found[..., second, first] = found[..., first, second]
        return np.linalg.inv(found) if found.any() else found  # a point has no variance along V either

    @property
    def _pairs(self) -> tuple[int, Array, Array]:
        """Number of directions, and the places on and above the diagonal of a matrix of them."""
        r = self.basis.shape[1]
        return r, *np.triu_indices(r)

    def _products(self) -> Iterator[tuple[slice, Array]]:
        """Weights block by block with the products of each two of their numbers in V, (rows, pairs)."""
        r, first, _ = self._pairs
        starts = np.searchsorted(first, np.arange(r + 1))
        for rows in parallel.slices(len(self.basis), parallel.chunk_rows(len(first), False)):
            own = self.basis[rows]
            products = np.empty((len(own), len(first)))
            for a in range(r):
                np.multiply(own[:, a : a + 1], own[:, a:], out=products[:, starts[a] : starts[a + 1]])
            yield rows, products

    @property
    def variance(self) -> Array:
        """Diagonal of S, (..., D + extra)."""
        if not self.basis.shape[1]:
            return np.concatenate([self.diagonal, np.diagonal(self.inner, axis1=-2, axis2=-1)], axis=-1)
        if not self.inner.any() and not self.diagonal.any():
            return np.zeros_like(self.mean)
        (r, first, second), solved, s = self._pairs, self._solved, self.diagonal
        middle = (solved @ self.inner[..., :r, :r] @ solved - solved)[..., first, second]
        middle *= np.where(first == second, 1.0, 2.0)
        out = np.empty_like(self.mean)
        out[..., s.shape[-1] :] = np.diagonal(self.inner, axis1=-2, axis2=-1)[..., r:]
        for rows, products in self._products():
            part = s[..., rows] + np.square(s[..., rows]) * (middle @ products.T)
            out[..., rows] = np.maximum(part, 0.0)  # a rounding below zero is none
        return out

    @property
    def cov(self) -> Array:
        """S, (..., D + extra, D + extra): formed when asked for."""
        if self.mean.ndim > 1:
            return np.stack([self[k].cov for k in range(len(self.mean))])
        half = self.half(np.eye(len(self.mean)))
        return half @ half.T

    @property
    def root(self) -> Array:
        """C lower triangular, S = CᵀC: formed when asked for."""
        if self.mean.ndim > 1:
            return np.stack([self[k].root for k in range(len(self.mean))])
        return lower_root(self.half(np.eye(len(self.mean))))

    def spread(self, rows: Array) -> Array:
        """x S xᵀ for each row x of (n, D + extra), of one plate."""
        return np.square(self.half(rows)).sum(-1)

    def spread_of(self, rows: Any) -> Array:
        """diag(A S Aᵀ) of a row block, by products with r + 1 columns."""
        if not self.inner.any() and not self.diagonal.any():
            return np.zeros_like(rows.dot(self.mean))
        (d, r), width = self.basis.shape, len(self.mean)
        wide, s = np.zeros((width, r)).T, np.zeros(width)
        wide[:, :d], s[:d] = self._scaled.T, self.diagonal
        along = rows.dots(wide)
        inside = along @ self._solved
        off = rows.diagonal_spread(s) - np.einsum("ij,ij->i", inside, along)
        z = np.concatenate([inside, np.ones((len(along), width - d))], axis=1)
        return np.maximum(off, 0.0) + np.einsum("ij,ij->i", z @ self.inner, z)

    def crossed(self, rows: Array) -> Array:
        """Covariance (K, m, K, m) of A w for rows A (m, P), K = 1 without plates, which are independent."""
        if self.mean.ndim > 1:
            return super().crossed(rows)
        half = self.half(rows)
        return (half @ half.T)[None, :, None, :]

    def half(self, rows: Array) -> Array:
        """H (n, D + r + extra) with H Hᵀ = A S Aᵀ for rows A (n, D + extra) of one plate."""
        d = len(self.diagonal)
        inside = rows[:, :d] @ self._scaled @ self._solved
        off = (rows[:, :d] - inside @ self.basis.T) * np.sqrt(self.diagonal)
        return np.concatenate([off, np.concatenate([inside, rows[:, d:]], axis=1) @ self._inner_root], axis=1)

    @property
    def _inner_root(self) -> Array:
        """R with B = R Rᵀ, (..., r + extra, r + extra)."""
        return np.linalg.cholesky(self.inner)

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, ..., D + extra)."""
        from sklearn.utils import check_random_state

        rng, r = check_random_state(random_state), self.basis.shape[1]
        e = np.sqrt(self.diagonal) * rng.standard_normal((n, *self.diagonal.shape))
        z = rng.standard_normal((n, *self.inner.shape[:-1]))
        inside = np.einsum("...ij,...j->...i", self._inner_root, z)
        lift = self._scaled @ self._solved
        w = e + np.einsum("...ja,...a->...j", lift, inside[..., :r] - e @ self.basis)
        return self.mean + np.concatenate([w, inside[..., r:]], axis=-1)
