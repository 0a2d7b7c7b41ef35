"""f = A w + e: project q to every datum, pull gradients back. Dense and sparse designs live here, once.

A row block is a design [X, 1] of some rows with four verbs: ``dot(w)`` = A w, ``spread(q)`` = diag(A S Aᵀ),
``pull(alpha)`` = Aᵀ alpha and ``gram(gamma)`` = Aᵀ diag(gamma) A (its diagonal alone for diagonal blocks).
Everything else is written on these verbs, with plates (classes) as a last axis of what is per datum. Threads call
them side by side: products by `numpy.dot`, for which see `sksvi._runtime.parallel`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi._runtime.parallel import chunk_rows, parts_of, times_triangle
from sksvi._typing.arrays import is_compressed
from sksvi.families.gaussian.structures import covariance
from sksvi.models.data import Table, compressed

Array = np.ndarray

#: A multiplication in a compiled sparse loop costs about this many in BLAS.
SPARSE_COST = 10.0


class _RowBlock:
    """What both kinds of row block answer through their verbs."""

    def dot(self, w: Array) -> Array:
        """A w."""
        raise AttributeError(f"{type(self).__name__} has no dot")

    def dots(self, W: Array) -> Array:
        """A wᵀ for each row w of W (J, P), (n, J), in double precision."""
        raise AttributeError(f"{type(self).__name__} has no dots")

    def form(self, S: Array) -> Array:
        """diag(A S Aᵀ) for any symmetric S."""
        raise AttributeError(f"{type(self).__name__} has no form")

    def dense(self) -> Array:
        """A as an array."""
        raise AttributeError(f"{type(self).__name__} has no dense")

    def spread(self, q: Any) -> Array:
        """diag(A S Aᵀ) for S of a Gaussian block, which knows best what to ask the rows for."""
        return q.spread_of(self)

    def full_spread(self, q: Any) -> Array:
        """diag(A S Aᵀ) for S of a block that has a root C and a covariance of all coordinates."""
        return self.form(covariance(q))

    def replaced(self, A: Array) -> DenseRows:
        """A block with these rows in the place of A."""
        return DenseRows.of(A)

    def classes(self, mean: Array, cov: Array) -> tuple[Array, Array]:
        """Mean (n, K) and covariance (n, K, K) of the latents A w_k, for cov (K, K, P, P) between classes."""
        k = len(mean)
        m = np.stack([self.dot(mean[a]) for a in range(k)], axis=1)
        v = np.empty((len(m), k, k), m.dtype)
        for a in range(k):
            for b in range(a + 1):
                v[:, a, b] = v[:, b, a] = self.form(0.5 * (cov[a, b] + cov[a, b].T))
        return m, v


class Design:
    """A design that makes its own row blocks, in the place of an array or a CSR matrix."""

    def block_rows(self, width: int, full: bool) -> int:
        """Rows of a block."""
        return chunk_rows(width, full)

    def rows(self, intercept: bool) -> Any:
        """The row block, with the four verbs."""
        raise AttributeError(f"{type(self).__name__} has no rows")


class DenseRows(_RowBlock):
    """Rows [X, 1] as one contiguous array."""

    def __init__(self, X: Any, intercept: bool) -> None:
        n, d = X.shape
        self.A = np.empty((n, d + intercept), X.dtype)
        self.A[:, :d] = X.toarray() if is_compressed(X) else X
        if intercept:
            self.A[:, d] = 1.0

    @classmethod
    def of(cls, A: Array) -> DenseRows:
        """A block of the rows A as they are, without an intercept added."""
        new = object.__new__(cls)
        new.A = A
        return new

    def dense(self) -> Array:
        """A."""
        return self.A

    def dot(self, w: Array) -> Array:
        """A w."""
        return np.dot(self.A, w.astype(self.A.dtype, copy=False))

    def dots(self, W: Array) -> Array:
        """A wᵀ for each row w of W."""
        return np.dot(self.A.astype(float, copy=False), W.T)

    def diagonal_spread(self, variance: Array) -> Array:
        """diag(A S Aᵀ) for a diagonal S."""
        return np.dot(np.square(self.A), variance)

    def full_spread(self, q: Any) -> Array:
        """diag(A S Aᵀ): one triangular product."""
        Z = times_triangle(self.A, q.root)
        return np.einsum("ij,ij->i", Z, Z)

    def form(self, S: Array) -> Array:
        """diag(A S Aᵀ) for any symmetric S."""
        return np.einsum("ij,ij->i", np.dot(self.A, S.astype(self.A.dtype, copy=False)), self.A)

    def pull(self, alpha: Array) -> Array:
        """Aᵀ alpha."""
        return np.dot(alpha.astype(self.A.dtype, copy=False), self.A)

    def gram(self, gamma: Array, full: bool) -> Array:
        """Aᵀ diag(gamma) A as symmetric rank-n products of one sign each."""
        return _gram(self.A, gamma) if full else np.dot(gamma.astype(self.A.dtype, copy=False), np.square(self.A))


def _gram(A: Array, gamma: Array) -> Array:
    if 2 * np.count_nonzero(gamma > 0.0) > len(gamma):  # all rows are in the product of the sign that most have
        return -_gram(A, -gamma)
    negative = np.sqrt(np.maximum(-gamma, 0.0)).astype(A.dtype, copy=False)
    # A trial step may overflow: a sum that is not finite is one that the engine steps back from.
    with np.errstate(over="ignore"):
        scaled = np.einsum("ij,i->ij", A, negative)  # broadcasting takes longer where rows are short
        out = np.dot(scaled.T, scaled)
    np.negative(out, out=out)
    convex = gamma > 0
    if convex.any():
        scaled = A[convex] * np.sqrt(gamma[convex]).astype(A.dtype, copy=False)[:, None]
        out += np.dot(scaled.T, scaled)
    return out


class RescaledRows(_RowBlock):
    """Rows [(x - c) / s, 1] whose frequent products are of x as it is: c and s enter what comes out."""

    def __init__(self, design: Rescaled, intercept: bool) -> None:
        self.design, self.intercept = design, intercept
        self.X, self.shift, self.inverse = design.X, design.centre / design.scale, 1.0 / design.scale

    @cached_property
    def made(self) -> DenseRows:
        """The rows themselves, which the other products take."""
        return self.design.made(self.intercept)

    def dense(self) -> Array:
        """A as an array."""
        return self.made.A

    def _split(self, w: Array) -> tuple[Array, Array]:
        """Rows of weights of x (d, ...) and what they add to each row, for w (P, ...)."""
        d = len(self.inverse)
        return (w[:d].T * self.inverse).T, w[d:].sum(0) - self.shift @ w[:d]

    def dot(self, w: Array) -> Array:
        """A w."""
        of_x, constant = self._split(w)
        out = np.dot(self.X, of_x)
        out += constant
        return out

    def dots(self, W: Array) -> Array:
        """A wᵀ for each row w of W."""
        return self.made.dots(W)

    def form(self, S: Array) -> Array:
        """diag(A S Aᵀ) for any symmetric S."""
        return self.made.form(S)

    def diagonal_spread(self, variance: Array) -> Array:
        """diag(A S Aᵀ) for a diagonal S."""
        return self.made.diagonal_spread(variance)

    def full_spread(self, q: Any) -> Array:
        """diag(A S Aᵀ): one triangular product."""
        d = len(self.inverse)
        of_x, constant = self._split(q.root.T)
        Z, constant, last = times_triangle(self.X, of_x[:, :d].T), constant[:d], constant[d:]
        # |z + c|² without an addition to each entry of z
        out = np.einsum("ij,ij->i", Z, Z)
        out += np.dot(self.X, 2.0 * np.dot(of_x[:, :d], constant))
        out += constant @ constant
        return out + np.square(np.dot(self.X, of_x[:, d]) + last) if self.intercept else out

    def pull(self, alpha: Array) -> Array:
        """Aᵀ alpha."""
        total = alpha.sum()
        return np.append(np.dot(alpha, self.X) * self.inverse - total * self.shift, [total] * self.intercept)

    def gram(self, gamma: Array, full: bool) -> Array:
        """Aᵀ diag(gamma) A as symmetric rank-n products of one sign each."""
        d, total, pulled = len(self.inverse), gamma.sum(), np.dot(gamma, self.X) * self.inverse
        half = pulled - 0.5 * total * self.shift
        if not full:
            squares = np.dot(gamma, np.square(self.X)) * np.square(self.inverse) - 2.0 * half * self.shift
            return np.append(squares, [total] * self.intercept)
        out = np.empty((d + self.intercept, d + self.intercept))
        out[d:, :d] = pulled - total * self.shift
        out[:d, d:] = out[d:, :d].T
        out[d:, d:] = total
        both = np.stack([half, self.shift])
        np.multiply(_gram(self.X, gamma), self.inverse, out=out[:d, :d])
        out[:d, :d] *= self.inverse[:, None]
        out[:d, :d] -= np.dot(both.T, both[::-1])
        return out


class Rescaled(Design):
    """Columns (x - centre) / scale of an array: passes hold no second copy of the rows.

    Parameters
    ----------
    X : ndarray of shape (n, D)
    centre, scale : ndarray of shape (D,)
    raw : bool, default=False
        Whether products are of x, and centre and scale taken out of them, else of (x - centre) / scale.
    stored : ndarray of shape (n, D + 1), optional
        The rows as they are made, with a last column of ones.
    """

    def __init__(self, X: Array, centre: Array, scale: Array, raw: bool = False, stored: Array | None = None) -> None:
        self.X, self.centre, self.scale, self.raw, self.stored = X, centre, scale, raw, stored
        self.shape, self.dtype, self.nbytes = X.shape, X.dtype, X.nbytes

    def __len__(self) -> int:
        return len(self.X)

    def block_rows(self, width: int, full: bool) -> int:
        """Rows of a block: twice as many where none are copied."""
        return chunk_rows(width, full) * (2 if self.raw else 1)

    def __getitem__(self, rows: Array | slice) -> Rescaled:
        """The design of some rows."""
        stored = None if self.stored is None else self.stored[rows]
        return Rescaled(self.X[rows], self.centre, self.scale, self.raw, stored)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        out = np.empty(self.shape, self.dtype)
        self.filled(out)
        return out if dtype is None else out.astype(dtype, copy=False)

    def stacked(self, other: Any) -> Array:
        """An array of these rows in the coordinates of the fit, followed by the rows of `other`."""
        return np.concatenate([np.asarray(self), np.asarray(other)])

    def filled(self, out: Array) -> None:
        """The columns, written to `out` (n, D); differences are of doubles."""
        off = np.subtract(self.X, self.centre, out=out if out.dtype == np.float64 else None)
        if off is not out or np.any(self.scale != 1.0):
            np.multiply(off, 1.0 / self.scale, out=out, casting="same_kind")  # divisions take thrice the time

    def rows(self, intercept: bool) -> DenseRows | RescaledRows:
        """The row block."""
        return RescaledRows(self, intercept) if self.raw else self.made(intercept)

    def made(self, intercept: bool) -> DenseRows:
        """The row block of (x - centre) / scale."""
        n, d = self.shape
        if self.stored is not None:
            return DenseRows.of(self.stored[:, : d + intercept])
        A = np.empty((n, d + intercept), self.dtype)
        self.filled(A[:, :d])
        A[:, d:] = 1.0
        return DenseRows.of(A)


class SparseRows(_RowBlock):
    """CSR rows with an implied column of ones."""

    def __init__(self, X: Any, intercept: bool) -> None:
        self.X, self.intercept = X, intercept

    @cached_property
    def _squared(self) -> Any:
        squared = self.X.copy()
        squared.data = np.square(squared.data)
        return squared

    def dot(self, w: Array) -> Array:
        """A w."""
        d = self.X.shape[1]
        out = self.X @ w[:d]
        return out + w[d] if self.intercept else out

    def dots(self, W: Array) -> Array:
        """A wᵀ for each row w of W."""
        d = self.X.shape[1]
        out = self.X @ np.ascontiguousarray(W[:, :d].T)
        return out + W[:, d] if self.intercept else out

    def dense(self) -> Array:
        """A as an array."""
        return DenseRows(self.X, self.intercept).A

    def diagonal_spread(self, variance: Array) -> Array:
        """diag(A S Aᵀ) for a diagonal S."""
        return SparseRows(self._squared, self.intercept).dot(variance)

    def form(self, S: Array) -> Array:
        """diag(A S Aᵀ) for any symmetric S, pairs of non-zeros only."""
        from sksvi.models.linear.sparse_loops import spread

        out = np.empty(self.X.shape[0])
        spread(self.X.indptr, self.X.indices, self.X.data, S, self.intercept, out)
        return out

    def pull(self, alpha: Array) -> Array:
        """Aᵀ alpha."""
        X = self.X
        out = compressed(sp.csc_array, X.shape[::-1], X.data, X.indices, X.indptr) @ alpha
        return np.append(out, alpha.sum()) if self.intercept else out

    def gram(self, gamma: Array, full: bool) -> Array:
        """Aᵀ diag(gamma) A, pairs of non-zeros only."""
        if not full:
            return SparseRows(self._squared, self.intercept).pull(gamma)
        from sksvi.models.linear.sparse_loops import gram

        size = self.X.shape[1] + self.intercept
        out = np.zeros((size, size))
        gram(self.X.indptr, self.X.indices, self.X.data, gamma, self.intercept, out)
        return out


def stays_sparse(X: Any, full: bool) -> bool:
    """Whether loops over non-zeros beat BLAS on dense row blocks."""
    if not is_compressed(X):
        return False
    per_row = X.nnz / max(X.shape[0], 1)
    return bool(not full or SPARSE_COST * per_row**2 < X.shape[1] ** 2)


def design(X: Any, intercept: bool, sparse: bool) -> Any:
    """The row block of X in the form that is cheaper."""
    if isinstance(X, Design):
        return X.rows(intercept)
    return SparseRows(X, intercept) if sparse else DenseRows(X, intercept)


def row_slices(rows: Array | slice, data: Table, width: int, sparse: bool, full: bool) -> list[Array | slice]:
    """A segment's rows in blocks of fixed size."""
    size = 8192 if sparse else chunk_rows(width, full)
    size = data.X.block_rows(width, full) if isinstance(data.X, Design) else size
    return parts_of(slice(*rows.indices(len(data))) if isinstance(rows, slice) else rows, size)


def project_mean(rows: DenseRows | SparseRows, mean: Array) -> Array:
    """A w: (n,), or (n, K) for K weight vectors."""
    return rows.dot(mean) if mean.ndim == 1 else np.stack([rows.dot(w) for w in mean], axis=1)


def project(rows: DenseRows | SparseRows, q: Any) -> tuple[Array, Array]:
    """Mean and variance of A w under q: (n,), or (n, K) for K plates."""
    if q.mean.ndim == 1:
        return rows.dot(q.mean), rows.spread(q)
    plates = [project(rows, q[k]) for k in range(len(q.mean))]
    return np.stack([m for m, _ in plates], axis=1), np.stack([v for _, v in plates], axis=1)


def pull_back_classes(rows: DenseRows | SparseRows, alpha: Array, gamma: Array) -> tuple[Array, Array]:
    """Σ alpha_ia h_i, stacked over classes a, and Σ gamma_iab h_i h_iᵀ in blocks (a, b): (KP,), (KP, KP)."""
    k = alpha.shape[1]
    g = np.concatenate([rows.pull(alpha[:, a]) for a in range(k)]).astype(float, copy=False)
    p = len(g) // k
    curvature = np.empty((k, p, k, p))
    for a in range(k):
        for b in range(a + 1):
            curvature[a, :, b] = rows.gram(gamma[:, a, b], True)
            curvature[b, :, a] = curvature[a, :, b]
    return g, curvature.reshape(k * p, k * p)


def pull_back(rows: DenseRows | SparseRows, alpha: Array, gamma: Array, full: bool) -> tuple[Array, Array]:
    """Σ alpha_i h_i and Σ gamma_i h_i h_iᵀ, float64, a leading axis for plates."""
    if alpha.ndim == 1:
        return rows.pull(alpha).astype(float, copy=False), rows.gram(gamma, full).astype(float, copy=False)
    plates = [pull_back(rows, alpha[:, k], gamma[:, k], full) for k in range(alpha.shape[1])]
    return np.stack([g for g, _ in plates]), np.stack([h for _, h in plates])


def informed_subspace(X: Any, scale: Array) -> tuple[Array, Array]:
    """The N directions of D > N weights that N rows can inform.

    With w = scale * u, u ~ N(0, I), only the row space of X diag(scale) = L Bᵀ matters: f = L z with z = Bᵀu ~ N(0, I).
    So a wide design is the same model with r <= N columns L: the dual, in coordinates that every algorithm understands.

    Returns
    -------
    L : ndarray of shape (N, r)
    B : ndarray of shape (D, r), orthonormal columns
    """
    scaled = X.multiply(scale).tocsr() if is_compressed(X) else X * scale
    if not is_compressed(X):
        left, values, right = np.linalg.svd(np.asarray(scaled, float), full_matrices=False)
        keep = values > values.max(initial=0.0) * max(X.shape) * np.finfo(float).eps
        return left[:, keep] * values[keep], np.ascontiguousarray(right[keep].T)
    values, left = np.linalg.eigh((scaled @ scaled.T).toarray())
    keep = values > values.max(initial=0.0) * max(X.shape) * np.finfo(float).eps
    roots = np.sqrt(values[keep])
    return left[:, keep] * roots, scaled.T @ (left[:, keep] / roots)
