"""Symmetric matrices in the shape of an arrow: many small blocks on the diagonal, a dense border and corner."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

Array = np.ndarray


def split(x: Array, start: int, size: int) -> tuple[Array, Array]:
    """Coordinates of the diagonal part, and the others."""
    stop = start + size
    return x[..., start:stop], np.concatenate([x[..., :start], x[..., stop:]], axis=-1)


def join(a: Array, b: Array, start: int) -> Array:
    """The inverse of `split`."""
    return np.concatenate([b[..., :start], a, b[..., start:]], axis=-1)


def by_level(blocks: Array, x: Array) -> Array:
    """Block times vector for each level, x (..., L r)."""
    n_levels, r, _ = blocks.shape
    return np.einsum("ljk,...lk->...lj", blocks, x.reshape(*x.shape[:-1], n_levels, r)).reshape(x.shape)


class ArrowMatrix(NDArrayOperatorsMixin):
    """Symmetric matrix with a block-diagonal part and a dense border; adds and scales like an array.

    Parameters
    ----------
    diag : ndarray of shape (L, r, r)
    border : ndarray of shape (P2, L * r)
        Rows are the other coordinates in their order, columns those of the diagonal part.
    corner : ndarray of shape (P2, P2)
    start : int
        Where the diagonal part begins among the P2 + L * r coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.gaussian.arrow_matrix import ArrowMatrix
    >>> matrix = ArrowMatrix(np.full((2, 1, 1), 2.0), np.array([[1.0, 3.0]]), np.array([[5.0]]), 0)
    >>> (2.0 * matrix).dense()
    array([[ 4.,  0.,  2.],
           [ 0.,  4.,  6.],
           [ 2.,  6., 10.]])
    """

    LAYOUT = "diag (n,r,r) f; corner (o,o) f; border (o,n*r) f; start count <=o"

    #: Set by the module of the structure, which needs this class.
    structure: ClassVar[Any] = None

    def __init__(self, diag: Array, border: Array, corner: Array, start: int) -> None:
        self.diag, self.border, self.corner, self.start = diag, border, corner, start

    @classmethod
    def zeros(cls, n_levels: int, r: int, n_others: int, start: int) -> ArrowMatrix:
        """No entry; the border in Fortran order: a level's column in one piece."""
        border = np.zeros((n_levels * r, n_others)).T
        return cls(np.zeros((n_levels, r, r)), border, np.zeros((n_others, n_others)), start)

    @classmethod
    def of_diagonal(cls, vector: Array, like: ArrowMatrix) -> ArrowMatrix:
        """diag(vector) with the layout of `like`; nothing is stored of the border."""
        n_levels, r, _ = like.diag.shape
        out = cls.zeros(n_levels, r, len(like.corner), like.start)
        out.border = np.broadcast_to(0.0, out.border.shape)
        a, b = split(vector, like.start, n_levels * r)
        index = np.arange(r)
        out.diag[:, index, index] = a.reshape(n_levels, r)
        np.fill_diagonal(out.corner, b)
        return out

    @classmethod
    def of_dense(cls, matrix: Array, n_levels: int, r: int, start: int) -> ArrowMatrix:
        """The entries of a symmetric matrix that lie on the pattern."""
        size = n_levels * r
        a, b = split(np.arange(len(matrix)), start, size)
        levels, index = np.arange(n_levels), a.reshape(n_levels, r)
        diag = matrix[index[levels][:, :, None], index[levels][:, None, :]]
        return cls(diag, matrix[np.ix_(b, a)], matrix[np.ix_(b, b)], start)

    @classmethod
    def of_outer(cls, u: Array, v: Array, like: ArrowMatrix) -> ArrowMatrix:
        """The entries of ½ (u vᵀ + v uᵀ) on the pattern of `like`."""
        n_levels, r, _ = like.diag.shape
        (a, b), (c, d) = split(u, like.start, n_levels * r), split(v, like.start, n_levels * r)
        diag, corner = a.reshape(n_levels, r, 1) * c.reshape(n_levels, 1, r), np.outer(b, d)
        border = 0.5 * (np.outer(b, c) + np.outer(d, a))
        return cls(0.5 * (diag + diag.transpose(0, 2, 1)), border, 0.5 * (corner + corner.T), like.start)

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """diag, border, corner."""
        return self.diag, self.border, self.corner

    @property
    def shape(self) -> tuple[int, int]:
        """(P, P)."""
        size = self.border.shape[1] + len(self.corner)
        return size, size

    def alike(self, other: ArrowMatrix) -> bool:
        """Whether both have the same layout."""
        shapes = zip(self.parts, other.parts, strict=True)
        return self.start == other.start and all(a.shape == b.shape for a, b in shapes)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        raise TypeError("an ArrowMatrix does not become a dense array by itself: ask for dense()")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Elementwise functions that leave zeros outside the pattern zero."""
        if method != "__call__" or kwargs or not _keeps_pattern(ufunc, inputs):
            return NotImplemented
        if any(not self.alike(x) for x in inputs if isinstance(x, ArrowMatrix)):
            raise ValueError("arrow matrices of different layouts have no elementwise result")
        diags, borders, corners = zip(
            *(x.parts if isinstance(x, ArrowMatrix) else (x,) * 3 for x in inputs), strict=True
        )
        if ufunc is np.add:  # what is added to a diagonal, or to the 0 of a sum, has its border
            arrays = [x for x in borders if np.ndim(x)]
            borders = tuple(x for x in arrays if any(x.strides)) or tuple(arrays[:1])
        border = borders[0] if ufunc is np.add and len(borders) == 1 else ufunc(*borders)
        return ArrowMatrix(ufunc(*diags), border, ufunc(*corners), self.start)

    def all(self, axis: None = None, out: None = None) -> bool:
        """Whether every entry on the pattern is true."""
        return all(bool(part.all()) for part in self.parts)

    @property
    def size(self) -> int:
        """Entries on the pattern."""
        return sum(part.size for part in self.parts)

    def max(self, axis: None = None, out: None = None) -> Any:
        """Largest entry on the pattern."""
        return max(part.max() for part in self.parts if part.size)

    def min(self, axis: None = None, out: None = None) -> Any:
        """Smallest entry on the pattern."""
        return min(part.min() for part in self.parts if part.size)

    def astype(self, dtype: Any, copy: bool = True) -> ArrowMatrix:
        """The matrix in another type."""
        diag, border, corner = (part.astype(dtype, copy=copy) for part in self.parts)
        return ArrowMatrix(diag, border, corner, self.start)

    def dot(self, x: Array) -> Array:
        """Matrix times vectors (..., P)."""
        a, b = split(x, self.start, self.border.shape[1])
        return join(by_level(self.diag, a) + b @ self.border, a @ self.border.T + b @ self.corner, self.start)

    def diagonal(self) -> Array:
        """(P,)."""
        a = np.diagonal(self.diag, axis1=1, axis2=2).reshape(-1)
        return join(a, np.diagonal(self.corner), self.start)

    def inner(self, other: ArrowMatrix) -> float:
        """Σ over the pattern of products of entries: the trace of the product when one is zero off it."""
        off = np.vdot(self.border.T, other.border.T)
        return float(np.vdot(self.diag, other.diag) + 2.0 * off + np.vdot(self.corner, other.corner))

    def entries(self, a: slice, b: slice) -> tuple[Array, tuple[Any, Any, Any] | tuple[Any, Any]]:
        """The part that holds the pairs of the coordinates of two effects, level by level, and where they are there."""
        n_levels, r, _ = self.diag.shape
        size = n_levels * r
        if self.start <= a.start < self.start + size:
            return self.diag, (slice(None), (a.start - self.start) % r, (b.start - self.start) % r)
        own = [np.arange(len(self.corner) + size)[part] for part in (a, b)]
        i, j = (part - (size if part[0] >= self.start else 0) for part in own)
        return self.corner, (i, j)

    def dense(self) -> Array:
        """(P, P), zeros off the pattern."""
        out = np.zeros(self.shape)
        n_levels, r, _ = self.diag.shape
        a, b = split(np.arange(len(out)), self.start, n_levels * r)
        index = a.reshape(n_levels, r)
        out[index[:, :, None], index[:, None, :]] = self.diag
        out[np.ix_(b, a)], out[np.ix_(a, b)], out[np.ix_(b, b)] = self.border, self.border.T, self.corner
        return out


def _keeps_pattern(ufunc: Any, inputs: tuple[Any, ...]) -> bool:
    """Whether zeros stay zeros: sums of arrows, an arrow times a number, absolute values, tests that zeros pass."""
    numbers = [x for x in inputs if not isinstance(x, ArrowMatrix)]
    if any(np.ndim(x) for x in numbers):
        return False
    if ufunc in (np.add, np.subtract):
        return all(x == 0 for x in numbers)
    if ufunc is np.multiply:
        return len(numbers) == 1
    if ufunc is np.true_divide:
        return isinstance(inputs[0], ArrowMatrix) and len(numbers) == 1
    if ufunc is np.less_equal:
        return isinstance(inputs[0], ArrowMatrix) and len(numbers) == 1 and bool(numbers[0] >= 0)
    return ufunc in (np.negative, np.absolute, np.isfinite)
