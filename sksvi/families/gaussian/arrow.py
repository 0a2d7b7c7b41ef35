"""A Gaussian whose precision is an arrow: many small blocks on the diagonal, a dense border.

Effects of thousands of levels meet each other only through what their rows share: a row touches one level of a factor,
so that two levels of one factor are independent given everything else. Ordering the largest factor first,

    P = [ D  Bᵀ ]   D block-diagonal, (L, r, r)        C = [ A           0   ]   A D Aᵀ = I
        [ B  K  ]   B (P2, L r), K (P2, P2)                [ -F⁻¹ B D⁻¹  F⁻¹ ]   F Fᵀ = K - B D⁻¹ Bᵀ

with S = CᵀC: no P x P array is ever formed. Variances of latents and traces against P need S on the pattern of P alone.
Coordinates are in the model's order throughout; the diagonal part is the range [start, start + L r).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from sksvi._runtime.parallel import working
from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian import arrow_loops as loops
from sksvi.families.gaussian.arrow_matrix import ArrowMatrix, by_level, join, split
from sksvi.families.gaussian.dense import PreciseGaussian
from sksvi.families.gaussian.structures import PIVOT_ROUNDINGS, Structure

__all__ = ["ARROW", "ArrowGaussian", "ArrowMatrix", "ArrowRoot", "arrow_root"]

Array = np.ndarray

#: Below this share of non-zeros in the border, sparse products beat BLAS.
SPARSE_SHARE = 0.1


class ArrowRoot:
    """C with S = CᵀC for an arrow-shaped precision: see the module.

    ``inverse`` (L, r, r) holds A, ``across`` (L r, P2) is Bᵀ (CSR where the border is sparse), ``factor`` F. Standard
    coordinates have the order of the model's coordinates.
    """

    def __init__(self, inverse: Array, across: Any, factor: Array, start: int) -> None:
        self.inverse, self.across, self.factor, self.start = inverse, across, factor, start

    def coloured(self, z: Array) -> Array:
        """Cᵀz for z (P,) or (m, P)."""
        a, b = split(z, self.start, self.across.shape[0])
        b = self._over_factor(b, 1)
        a = by_level(self.inverse.transpose(0, 2, 1), a) - by_level(self._given, _rows_times(b, self.across.T))
        return join(a, b, self.start)

    def uncoloured(self, g: Array) -> Array:
        """C g for g (P,) or (m, P)."""
        a, b = split(g, self.start, self.across.shape[0])
        b = b - _rows_times(by_level(self._given, a), self.across)
        return join(by_level(self.inverse, a), self._over_factor(b, 0), self.start)

    def _over_factor(self, b: Array, transposed: int) -> Array:
        """F⁻¹ b, or F⁻ᵀ b, of vectors (P2,) or (m, P2)."""
        if not b.size:
            return b
        # LAPACK reads the rows of F as columns.
        return np.asarray(lapack.dtrtrs(self.factor.T, b.T, lower=0, trans=1 - transposed)[0].T)

    @cached_property
    def _given(self) -> Array:
        """D⁻¹: covariances of the diagonal part given the others, (L, r, r)."""
        return self.inverse.transpose(0, 2, 1) @ self.inverse

    @cached_property
    def log_det(self) -> float:
        """log |C|."""
        levels = np.log(np.diagonal(self.inverse, axis1=1, axis2=2)).sum()
        return float(levels - np.log(np.diagonal(self.factor)).sum())

    @cached_property
    def _corner(self) -> Array:
        """S of the others."""
        if not len(self.factor):
            return self.factor
        with working():  # beyond the triangle that is found the zeros of the factor stand
            lower = lapack.dpotri(self.factor.T, lower=0)[0].T
            out = lower + lower.T
        np.fill_diagonal(out, np.diagonal(lower))
        return out

    @cached_property
    def _diag(self) -> Array:
        """S of each level, (L, r, r)."""
        if isinstance(self.across, np.ndarray):
            rows = self.across.reshape(*self.inverse.shape[:2], -1)
            found = rows @ self._corner @ rows.transpose(0, 2, 1)
        else:
            found = self._forms(self.across)
        return self._given + self._given @ found @ self._given

    def _forms(self, rows: Any) -> Array:
        """Products x S yᵀ of the own rows x of each level with those of another border, (L, r, r)."""
        out = np.empty(self.inverse.shape)
        parts = [part for border in (self.across, rows) for part in (border.indptr, border.indices, border.data)]
        loops.forms(*parts, self._corner, out)
        return out

    def trace(self, P: ArrowMatrix) -> float:
        """tr(P S) of a matrix on the pattern: of a sparse border no more of S is found than it asks for."""
        rows = P.across(_sparse_or_dense)
        if isinstance(rows, np.ndarray) or isinstance(self.across, np.ndarray):
            return P.inner(self.within)
        border = float(np.vdot(self._given, self._forms(rows)))
        return float(np.vdot(P.diag, self._diag) + np.vdot(P.corner, self._corner)) - 2.0 * border

    @property
    def variance(self) -> Array:
        """Diagonal of S, (P,)."""
        levels = np.diagonal(self._diag, axis1=1, axis2=2).reshape(-1)
        return join(levels, np.diagonal(self._corner), self.start)

    @cached_property
    def within(self) -> ArrowMatrix:
        """S on the pattern of the precision."""
        n_levels, r, _ = self._given.shape
        if isinstance(self.across, np.ndarray):
            rows = (self._given @ self.across.reshape(n_levels, r, -1)).reshape(self.across.shape)
        else:
            blocks = (self._given, np.arange(n_levels), np.arange(n_levels + 1))
            rows = sp.bsr_array(blocks, shape=(n_levels * r, n_levels * r)) @ self.across
        with working():
            border = np.negative(rows @ self._corner)
        return ArrowMatrix(self._diag, border.T, self._corner, self.start)


def _rows_times(x: Array, matrix: Any) -> Array:
    """x @ matrix for x (n,) or (m, n), the matrix sparse or dense."""
    return (matrix.T @ x.T).T


def _level_factors(diag: Array, start: int) -> Array:
    """A of each level's block, A D Aᵀ = I, by the policy of `families.gaussian`."""
    n_levels, r, _ = diag.shape
    factor, inverse = np.zeros_like(diag), np.zeros_like(diag)
    for j in range(r):
        pivot = diag[:, j, j] - np.square(factor[:, j, :j]).sum(1)
        _check_pivots(pivot / diag[:, j, j], start + np.arange(n_levels) * r + j)
        factor[:, j, j] = np.sqrt(pivot)
        below = diag[:, j + 1 :, j] - np.einsum("lik,lk->li", factor[:, j + 1 :, :j], factor[:, j, :j])
        factor[:, j + 1 :, j] = below / factor[:, j, j, None]
        inverse[:, j, :j] = -np.einsum("lk,lki->li", factor[:, j, :j], inverse[:, :j, :j])
        inverse[:, j, j] = 1.0
        inverse[:, j] /= factor[:, j, j, None]
    return inverse


def _check_pivots(pivots: Array, coordinates: Array) -> None:
    """Every pivot, in units of its diagonal entry, must carry a correct digit."""
    worst = int(np.argmin(pivots)) if len(pivots) else -1
    if worst < 0 or pivots[worst] > PIVOT_ROUNDINGS * np.finfo(float).eps:
        return
    at = int(coordinates[worst])
    if not pivots[worst] > 0:
        raise NotPositiveDefinite(f"the precision matrix is not positive definite at coordinate {at}", at)
    raise NotPositiveDefinite(f"coordinate {at} is a linear combination of the others to working precision", at)


def arrow_root(precision: ArrowMatrix) -> ArrowRoot:
    """C of an arrow-shaped precision."""
    start, (n_levels, r, _) = precision.start, precision.diag.shape
    scale = precision.diagonal()
    if not np.all(np.isfinite(scale)):
        raise NotPositiveDefinite("the precision matrix is not finite")
    if not np.all(scale > 0):
        worst = int(np.argmin(scale))
        raise NotPositiveDefinite(f"the precision matrix is not positive definite at coordinate {worst}", worst)
    inverse = _level_factors(precision.diag, start)
    given, across = inverse.transpose(0, 2, 1) @ inverse, precision.across(_sparse_or_dense)
    if isinstance(across, np.ndarray):
        rows = across.reshape(n_levels, r, -1)
        gram = across.T @ (given @ rows).reshape(across.shape)
    else:
        gram = np.zeros(precision.corner.shape)
        loops.gram(across.indptr, across.indices, across.data, given, gram)
    _, others = split(np.arange(len(scale)), start, n_levels * r)
    schur = np.subtract(precision.corner, gram, out=gram)
    return ArrowRoot(inverse, across, _factor(schur, scale, others), start)


def _sparse_or_dense(across: Array) -> Any:
    """The border as CSR where few of its entries are not zero."""
    across = np.ascontiguousarray(across)
    indptr = np.empty(len(across) + 1, np.int32)
    loops.count(across, indptr)
    if not indptr[-1] < SPARSE_SHARE * across.size:
        return across
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
    loops.store(across, indptr, indices, data)
    return sp.csr_array((data, indices, indptr), shape=across.shape)


def _factor(schur: Array, scale: Array, others: Array) -> Array:
    """F with F Fᵀ = schur, of its lower triangle: pivots are judged against the diagonal of the whole precision."""
    if not len(others):
        return schur
    factor, info = lapack.dpotrf(schur.T, lower=0, clean=1, overwrite_a=1)
    factor = factor.T
    if info:
        at = int(others[info - 1])
        raise NotPositiveDefinite(f"the precision matrix is not positive definite at coordinate {at}", at)
    _check_pivots(np.square(np.diagonal(factor)) / scale[others], others)
    return factor


class Arrow(Structure):
    """Block-diagonal with a dense border; S is known on the pattern without ever being formed."""

    def dot(self, P: ArrowMatrix, x: Array) -> Array:
        """P x."""
        return P.dot(x)

    def diagonal(self, P: ArrowMatrix) -> Array:
        """Diagonal of P."""
        return P.diagonal()

    def dense(self, P: ArrowMatrix, size: int) -> Array:
        """P with its zeros."""
        return P.dense()

    def of_diagonal(self, vector: Array, like: Any) -> ArrowMatrix:
        """diag(vector) in the layout of `like`."""
        return ArrowMatrix.of_diagonal(np.broadcast_to(vector, like.mean.shape), like.precision)

    def of_dense(self, matrix: Array, like: Any) -> ArrowMatrix:
        """The entries on the pattern of `like`."""
        n_levels, r, _ = like.precision.diag.shape
        return ArrowMatrix.of_dense(matrix, n_levels, r, like.precision.start)

    def added(self, P: Any, source: Structure, data: ArrowMatrix, share: float, like: Any) -> ArrowMatrix:
        """The sum; with a diagonal without a matrix of its zeros."""
        if source.full or hasattr(P, "pairs"):
            return super().added(P, source, data, share, like)
        return data.times_plus_diagonal(share, np.broadcast_to(P, like.mean.shape))

    def converted(self, P: Any, source: Structure, like: Any) -> ArrowMatrix:
        """The matrix P in this structure; of a diagonal with few pairs beside it without a dense matrix."""
        pairs = getattr(P, "pairs", None)
        if pairs is None:
            return super().converted(P, source, like)
        out = self.of_diagonal(source.diagonal(P), like)
        for a, b, value in pairs:
            for rows, columns in ((a, b), (b, a)):
                part, at = out.entries(rows, columns)
                part[at] = value
        return out

    def outer(self, u: Array, v: Array, like: Any) -> ArrowMatrix:
        """½ (u vᵀ + v uᵀ) on the pattern of `like`."""
        return ArrowMatrix.of_outer(u, v, like.precision)

    def inner(self, P: ArrowMatrix, S: ArrowMatrix) -> float:
        """tr(P S)."""
        return P.inner(S)

    def expected_quadratic(self, P: ArrowMatrix, delta: Array, q: Any) -> float:
        """δᵀ P δ + tr(P S)."""
        if q.structure is self:
            trace = q.root.trace(P)
        elif q.full:
            n_levels, r, _ = P.diag.shape
            trace = P.inner(ArrowMatrix.of_dense(q.cov, n_levels, r, P.start))
        else:
            trace = float(P.diagonal() @ q.variance)
        return float(trace + delta @ P.dot(delta))

    def root(self, P: ArrowMatrix) -> ArrowRoot:
        """C of P."""
        with working():
            return arrow_root(P)

    def prepare(self, C: ArrowRoot) -> None:
        """Form the entries of S that rows ask for."""
        _ = C.within

    def coloured(self, C: ArrowRoot, z: Array) -> Array:
        """Cᵀ z."""
        return C.coloured(z)

    def uncoloured(self, C: ArrowRoot, g: Array) -> Array:
        """C g."""
        return C.uncoloured(g)

    def log_det(self, C: ArrowRoot) -> float:
        """log |S|."""
        return 2.0 * C.log_det

    def variance(self, C: ArrowRoot) -> Array:
        """Diagonal of S, without its border."""
        return C.variance

    def cov(self, C: ArrowRoot) -> Array:
        """S: formed only when asked for."""
        root = C.uncoloured(np.eye(len(C.variance)))
        return root @ root.T

    def within(self, C: ArrowRoot) -> ArrowMatrix:
        """S on the pattern of P."""
        return C.within

    def between(self, C: ArrowRoot, a: slice, b: slice) -> Array:
        """S of pairs of coordinates, which are on the pattern."""
        part, at = C.within.entries(a, b)
        return part[at]


ARROW = Arrow()
ArrowMatrix.structure = ARROW


class ArrowGaussian(PreciseGaussian):
    """N(m, P⁻¹) with an arrow-shaped precision: joint over the effects of thousands of levels.

    Parameters
    ----------
    mean : ndarray of shape (P,)
    precision : ArrowMatrix
    root : ArrowRoot, optional
        C with CᵀC = precision⁻¹, where it is known already.

    Raises
    ------
    NotPositiveDefinite
        When the factor of the precision is first needed and does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.gaussian.arrow import ArrowGaussian, ArrowMatrix
    >>> precision = ArrowMatrix(np.full((3, 1, 1), 2.0), np.zeros((1, 3)), np.array([[4.0]]), 0)
    >>> ArrowGaussian(np.zeros(4), precision).variance
    array([0.5 , 0.5 , 0.5 , 0.25])
    """

    LAYOUT = """
        precision ArrowMatrix where it.diagonal() > 0
        precision.diag (n,r,_) f; precision.corner (o,_) f; mean (o+n*r) f
    """

    structure = ARROW
    #: Files and pickles leave the factor out: it is several times the precision, and comes back with the same bits.
    _not_saved = ("_root",)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._not_saved}
