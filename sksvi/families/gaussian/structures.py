"""Structures in which a Gaussian's precision is held, and the operations that a Gaussian needs of them.

A structure is a set of verbs on matrices P of one shape and on their roots C, S = P⁻¹ = CᵀC. `DENSE` and `DIAGONAL`
work on plain arrays; other structures bring a matrix class that adds and scales like an array and names its structure
(``matrix.structure``), so that nobody need ask what a matrix is. Every structure registers one Gaussian class
(``structure.block``), which :func:`sksvi.families.gaussian.dense.gaussian` picks.

The one policy on positive definiteness lives here: a precision that has no Cholesky factor, or whose factor says that
a coordinate is a linear combination of the others to working precision, raises :class:`NotPositiveDefinite`; whoever
took the step shortens it (``steps.shortened``) and counts the event.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from scipy.linalg import eigh, lapack

from sksvi.families.base import NotPositiveDefinite

Array = np.ndarray

#: A pivot below this many roundings of its diagonal entry carries no correct digit.
PIVOT_ROUNDINGS, EPS = 4.0, float(np.finfo(float).eps)
#: Coordinates up to which matrices of a stack are inverted together, row by row: one by one calls cost more than work.
FEW = 32
#: The covariance of the block that was asked for last: all chunks of a pass ask for one.
_LAST_COVARIANCE: list[tuple[weakref.ref[Any], Array, Array]] = []


def covariance(q: Any) -> Array:
    """S of a block that has a root, found once for the chunks of a pass and the divergence from the next block."""
    for block, root, S in _LAST_COVARIANCE:
        if root is q.root and block() is q:
            return S
    S = q.cov
    _LAST_COVARIANCE[:] = [(weakref.ref(q, lambda _: _LAST_COVARIANCE.clear()), q.root, S)]
    return S


def lower_root(half: Array) -> Array:
    """C (lower triangular) with CᵀC = H Hᵀ for H (P, n), n >= P, without H Hᵀ, which squares the condition."""
    upper: Array = np.linalg.qr(half[::-1].T, mode="r")  # type: ignore[assignment]
    root = upper[::-1, ::-1]
    return np.where(np.diagonal(root) < 0.0, -1.0, 1.0)[:, None] * root


def lower_factor(precision: Array) -> Array:
    """L (lower triangular) of precision = L Lᵀ, (n, n)."""
    diagonal = precision.diagonal()
    if not np.isfinite(diagonal).all():
        raise NotPositiveDefinite("the precision matrix is not finite")
    factor, info = lapack.dpotrf(precision, lower=1, clean=1)
    if info:
        raise NotPositiveDefinite(f"the precision matrix is not positive definite at coordinate {info - 1}", info - 1)
    pivots = np.square(factor.diagonal()) / diagonal
    if not (pivots > PIVOT_ROUNDINGS * EPS).all():
        worst = int(np.argmin(pivots))
        raise NotPositiveDefinite(
            f"coordinate {worst} is a linear combination of the others to working precision", worst
        )
    return factor


def inverse_factor(precision: Array) -> Array:
    """C = L⁻¹ (lower triangular) of precision = L Lᵀ, so that S = CᵀC; stacks allowed."""
    together = _inverse_factors(precision) if precision.ndim > 2 and precision.shape[-1] <= FEW else None
    if together is not None:
        return together
    roots = np.empty(precision.shape)
    for place in np.ndindex(precision.shape[:-2]) if precision.ndim > 2 else [()]:
        roots[place], info = lapack.dtrtri(lower_factor(precision[place]), lower=1, overwrite_c=1)
        if info:
            raise NotPositiveDefinite(f"the Cholesky factor is singular at coordinate {info - 1}", info - 1)
    return roots


def _inverse_factors(precision: Array) -> Array | None:
    """`inverse_factor` of a stack of small matrices; None where one of them has none."""
    try:
        factor = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        return None
    pivots = np.diagonal(factor, axis1=-2, axis2=-1)
    if not np.all(np.square(pivots) > PIVOT_ROUNDINGS * EPS * np.diagonal(precision, axis1=-2, axis2=-1)):
        return None
    roots, scale = np.zeros(factor.shape), 1.0 / pivots
    for i in range(factor.shape[-1]):
        roots[..., i, i] = scale[..., i]
        row = factor[..., i : i + 1, :i] @ roots[..., :i, :i]
        roots[..., i : i + 1, :i] = -scale[..., i, None, None] * row
    return roots


class Structure:
    """The verbs. P: a matrix, C: a root, x, z, g: vectors (..., n), `like`: a Gaussian block of the structure."""

    #: Whether coordinates are correlated; axes of a matrix that are no plates.
    full: bool = True
    rank: int = 2
    #: The Gaussian class over this structure.
    block: Any = None

    # ---- matrices
    def dot(self, P: Any, x: Array) -> Array:
        """P x."""
        raise AttributeError(f"{type(self).__name__} has no dot")

    def diagonal(self, P: Any) -> Array:
        """Diagonal of P, (..., n)."""
        raise AttributeError(f"{type(self).__name__} has no diagonal")

    def dense(self, P: Any, size: int) -> Array:
        """P as an array (..., n, n)."""
        raise AttributeError(f"{type(self).__name__} has no dense")

    def of_diagonal(self, vector: Array, like: Any) -> Any:
        """diag(vector)."""
        raise AttributeError(f"{type(self).__name__} has no of_diagonal")

    def of_dense(self, matrix: Array, like: Any) -> Any:
        """The entries of a symmetric matrix that this structure holds."""
        raise AttributeError(f"{type(self).__name__} has no of_dense")

    def outer(self, u: Array, v: Array, like: Any) -> Any:
        """½ (u vᵀ + v uᵀ), the entries that this structure holds."""
        raise AttributeError(f"{type(self).__name__} has no outer")

    def inner(self, P: Any, S: Any) -> float:
        """tr(P S) for two matrices of this structure, where P is zero off the pattern."""
        raise AttributeError(f"{type(self).__name__} has no inner")

    def converted(self, P: Any, source: Structure, like: Any) -> Any:
        """The matrix P, which is held in the structure `source`, in this structure."""
        if source is self:
            return P
        if not source.full:
            return self.of_diagonal(P, like)
        return self.of_dense(source.dense(P, like.mean.shape[-1]), like)

    def added(self, P: Any, source: Structure, data: Any, share: float, like: Any) -> Any:
        """The matrix P, held in the structure `source`, plus a share of `data`, a matrix of this structure."""
        return self.converted(P, source, like) + (data if share == 1.0 else share * data)

    def scaled(self, P: Any, factor: Array | float) -> Any:
        """D^½ P D^½ of a diagonal D."""
        raise AttributeError(f"{type(self).__name__} has no scaled")

    def expected_quadratic(self, P: Any, delta: Array, q: Any) -> float:
        """δᵀ P δ + tr(P S) with S of q, a block in any structure, summed over plates."""
        if q.structure is self:
            trace = self.inner(P, q.within)
        elif q.full:
            trace = self.inner(P, self.of_dense(q.cov, self.block(q.mean, P)))
        else:
            trace = float(np.sum(self.diagonal(P) * q.variance))
        return float(trace + (delta * self.dot(P, delta)).sum())

    def log_det_precision(self, block: Any) -> float:
        """log |P| of a block held as mean and precision, summed over plates."""
        return -block.log_det_cov()

    def carried(self, P: Any, old: Any, new: Any) -> Any:
        """P, a sum over all rows, after the part of it that a sample estimates went from `old` to `new`.

        Here by the difference; where a structure can, by the ratio: what is definite stays definite.
        """
        return P + (new - old)

    def regressed(self, error: Array, across: Any, own: Any) -> Array:
        """What a sampling error becomes, given its covariance and that with what it becomes; here it stays."""
        return error

    def log_gain(self, P: Any, linear: Array) -> float:
        """½ (hᵀ S h + log |S|) of a vector h, summed over plates: log ∫ exp(hᵀw - ½ wᵀP w) dw, up to a constant."""
        root = self.root(P)
        return 0.5 * (float(np.square(self.uncoloured(root, linear)).sum()) + self.log_det(root))

    # ---- roots
    def root(self, P: Any) -> Any:
        """C of P."""
        raise AttributeError(f"{type(self).__name__} has no root")

    def prepare(self, C: Any) -> None:
        """Find what threads will ask of a root."""

    def solve(self, C: Any, x: Array) -> Array:
        """S x."""
        return self.coloured(C, self.uncoloured(C, x))

    def coloured(self, C: Any, z: Array) -> Array:
        """Cᵀ z."""
        raise AttributeError(f"{type(self).__name__} has no coloured")

    def uncoloured(self, C: Any, g: Array) -> Array:
        """C g."""
        raise AttributeError(f"{type(self).__name__} has no uncoloured")

    def log_det(self, C: Any) -> float:
        """log |S| summed over plates."""
        raise AttributeError(f"{type(self).__name__} has no log_det")

    def variance(self, C: Any) -> Array:
        """Diagonal of S, (..., n)."""
        return self.diagonal(self.within(C))

    def cov(self, C: Any) -> Array:
        """S, (..., n, n)."""
        raise AttributeError(f"{type(self).__name__} has no cov")

    def within(self, C: Any) -> Any:
        """S on the pattern of P."""
        raise AttributeError(f"{type(self).__name__} has no within")

    def between(self, C: Any, a: slice, b: slice) -> Array:
        """S of pairs, the first coordinates of `a` and `b`, the second ones and so on, which are different."""
        raise AttributeError(f"{type(self).__name__} has no between")

    def spread(self, C: Any, rows: Array) -> Array:
        """x S xᵀ for each row x of (m, n)."""
        return np.square(self.uncoloured(C, rows)).sum(-1)

    def spread_of(self, q: Any, rows: Any) -> Array:
        """diag(A S Aᵀ) for a row block with verbs of its own."""
        return rows.form(q.within)


class Dense(Structure):
    """Any symmetric matrix, C lower triangular."""

    def dot(self, P: Array, x: Array) -> Array:
        """P x."""
        return np.einsum("...ij,...j->...i", P, x)

    def diagonal(self, P: Array) -> Array:
        """Diagonal of P."""
        return np.diagonal(P, axis1=-2, axis2=-1)

    def dense(self, P: Array, size: int) -> Array:
        """P itself."""
        return P

    def scaled(self, P: Array, factor: Array | float) -> Array:
        """D^½ P D^½ of a diagonal D."""
        root = np.broadcast_to(np.sqrt(factor), P.shape[-1:])
        return np.asarray(root[:, None] * P * root)

    def of_diagonal(self, vector: Array, like: Any) -> Array:
        """diag(vector)."""
        return np.diag(vector) if vector.ndim == 1 else vector[..., None] * np.eye(like.mean.shape[-1])

    def of_dense(self, matrix: Array, like: Any) -> Array:
        """The matrix itself."""
        return matrix

    def carried(self, P: Array, old: Array, new: Array) -> Array:
        """T P Tᵀ with T = (new old⁻¹)^½, which takes `old` to `new` and leaves alone what did not change."""
        try:
            ratio, U = eigh(new, old)
        except np.linalg.LinAlgError:
            return super().carried(P, old, new)
        if not ratio.min() > 0:
            return super().carried(P, old, new)
        carry = old @ (U * np.sqrt(ratio)) @ U.T
        out = carry @ P @ carry.T
        return 0.5 * (out + out.T)

    def regressed(self, error: Array, across: Array, own: Array) -> Array:
        """across own⁻¹ error."""
        try:
            return across @ self.solve(inverse_factor(own), error)
        except NotPositiveDefinite:
            return error

    def outer(self, u: Array, v: Array, like: Any) -> Array:
        """½ (u vᵀ + v uᵀ)."""
        product = u[..., :, None] * v[..., None, :]
        return 0.5 * (product + np.swapaxes(product, -1, -2))

    def inner(self, P: Array, S: Array) -> float:
        """tr(P S)."""
        return float((P * S).sum())

    def expected_quadratic(self, P: Array, delta: Array, q: Any) -> float:
        """δᵀ P δ + tr(P S)."""
        if not q.full:
            trace = np.sum(self.diagonal(P) * q.variance)
        else:
            trace = self.inner(P, covariance(q) if q.structure is self else q.cov)
        return float(trace + (delta * self.dot(P, delta)).sum())

    def log_gain(self, P: Array, linear: Array) -> float:
        """½ (hᵀ S h + log |S|), from L alone."""
        total = 0.0
        for place in np.ndindex(P.shape[:-2]) if P.ndim > 2 else [()]:
            factor = lower_factor(P[place])
            whitened = lapack.dtrtrs(factor, linear[place], lower=1)[0]
            total += 0.5 * float(whitened @ whitened) - float(np.log(factor.diagonal()).sum())
        return total

    def root(self, P: Array) -> Array:
        """C = L⁻¹, P = L Lᵀ."""
        return inverse_factor(P)

    def solve(self, C: Array, x: Array) -> Array:
        """S x."""
        return np.einsum("...ji,...j->...i", C, np.einsum("...ij,...j->...i", C, x))

    def coloured(self, C: Array, z: Array) -> Array:
        """Cᵀ z."""
        return np.einsum("...j,...jk->...k", z, C)

    def uncoloured(self, C: Array, g: Array) -> Array:
        """C g."""
        return np.einsum("...jk,...k->...j", C, g)

    def log_det(self, C: Array) -> float:
        """log |S|."""
        return 2.0 * float(np.log(np.diagonal(C, axis1=-2, axis2=-1)).sum())

    def variance(self, C: Array) -> Array:
        """Diagonal of S."""
        return np.square(C).sum(-2)

    def cov(self, C: Array) -> Array:
        """S = CᵀC."""
        return np.swapaxes(C, -1, -2) @ C

    def within(self, C: Array) -> Array:
        """S."""
        return self.cov(C)

    def between(self, C: Array, a: slice, b: slice) -> Array:
        """S of pairs of coordinates."""
        return np.einsum("ki,ki->i", C[:, a], C[:, b])

    def spread(self, C: Array, rows: Array) -> Array:
        """x S xᵀ for each row."""
        return np.square(rows @ np.swapaxes(C, -1, -2)).sum(-1)

    def spread_of(self, q: Any, rows: Any) -> Array:
        """diag(A S Aᵀ) from C or from S, as is cheaper for the rows."""
        return rows.full_spread(q)


class Diagonal(Structure):
    """A diagonal, held as a vector; C are standard deviations."""

    full = False
    rank = 1

    def dot(self, P: Array, x: Array) -> Array:
        """P x."""
        return P * x

    def diagonal(self, P: Array) -> Array:
        """P itself."""
        return P

    def dense(self, P: Array, size: int) -> Array:
        """The matrix."""
        return P[..., None] * np.eye(size)

    def of_diagonal(self, vector: Array, like: Any) -> Array:
        """The vector itself."""
        return vector

    def of_dense(self, matrix: Array, like: Any) -> Array:
        """The diagonal."""
        return np.diagonal(matrix, axis1=-2, axis2=-1)

    def outer(self, u: Array, v: Array, like: Any) -> Array:
        """u v, entry by entry."""
        return u * v

    def scaled(self, P: Array, factor: Array | float) -> Array:
        """P times the diagonal."""
        return P * factor

    def inner(self, P: Array, S: Array) -> float:
        """Σ P S."""
        return float((P * S).sum())

    def converted(self, P: Any, source: Structure, like: Any) -> Array:
        """The diagonal of a matrix P that is held in the structure `source`."""
        return P if source is self else source.diagonal(P)

    def expected_quadratic(self, P: Array, delta: Array, q: Any) -> float:
        """δᵀ P δ + tr(P S)."""
        return float((P * (np.square(delta) + q.variance)).sum())

    def log_det_precision(self, block: Any) -> float:
        """log |P|: without a factor, and of as many plates as there are means."""
        precision, shape = block.precision, block.mean.shape
        return float(np.log(precision if precision.shape == shape else np.broadcast_to(precision, shape)).sum())

    def root(self, P: Array) -> Array:
        """Standard deviations."""
        if not np.all(P > 0):
            worst = int(np.argmin(P))
            raise NotPositiveDefinite(f"the precision of coordinate {worst} is not positive", worst)
        return 1.0 / np.sqrt(P)

    def solve(self, C: Array, x: Array) -> Array:
        """S x."""
        return x * np.square(C)

    def coloured(self, C: Array, z: Array) -> Array:
        """Cᵀ z."""
        return z * C

    def uncoloured(self, C: Array, g: Array) -> Array:
        """C g."""
        return g * C

    def log_det(self, C: Array) -> float:
        """log |S|."""
        return 2.0 * float(np.log(C).sum())

    def variance(self, C: Array) -> Array:
        """S."""
        return np.square(C)

    def cov(self, C: Array) -> Array:
        """S as a matrix."""
        return self.dense(np.square(C), C.shape[-1])

    def within(self, C: Array) -> Array:
        """S."""
        return np.square(C)

    def between(self, C: Array, a: slice, b: slice) -> Array:
        """S of pairs of coordinates: none."""
        return np.zeros_like(C[a])

    def spread(self, C: Array, rows: Array) -> Array:
        """x S xᵀ for each row."""
        return np.square(rows) @ np.square(C)

    def spread_of(self, q: Any, rows: Any) -> Array:
        """diag(A S Aᵀ) from the squares of the rows."""
        return rows.diagonal_spread(q.variance)


DENSE, DIAGONAL = Dense(), Diagonal()


def structure_of(matrix: Any, n_axes: int) -> Structure:
    """The structure of a matrix that belongs to vectors of `n_axes` axes."""
    own = getattr(matrix, "structure", None)
    if own is not None:
        return own
    return DIAGONAL if matrix.ndim == n_axes else DENSE
