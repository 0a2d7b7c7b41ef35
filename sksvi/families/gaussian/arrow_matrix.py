"""Symmetric matrices in the shape of an arrow: many small blocks on the diagonal, a dense border and corner."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
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

    Multiples share one array for the border, and what is known of its zeros: ``times`` that array is the border.

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

    LAYOUT = "diag (n,r,r) f; corner (o,o) f; border (o,n*r) f; start count <=o; times number"

    #: Set by the module of the structure, which needs this class.
    structure: ClassVar[Any] = None

    def __init__(self, diag: Array, border: Array, corner: Array, start: int) -> None:
        self.diag, self.border, self.corner, self.start, self.times = diag, border, corner, start, 1.0

    @cached_property
    def _rows(self) -> list[Any]:
        """The border by rows of the diagonal part, once it has been asked for: the list is that of all multiples."""
        return []

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_rows"}

    def with_border_of(self, other: ArrowMatrix, times: float) -> ArrowMatrix:
        """This matrix with a multiple of the border of another."""
        self.border, self.times, self._rows = other.border, times * other.times, other._rows
        return self

    def across(self, compressed: Callable[[Array], Any]) -> Any:
        """The border as rows of the diagonal part (L r, P2), `compressed` once for all of its multiples."""
        if not self._rows:
            self._rows.append(compressed(self.border.T))
        return self._rows[0] if self.times == 1.0 else self.times * self._rows[0]

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

    def times_plus_diagonal(self, share: float, vector: Array) -> ArrowMatrix:
        """This matrix times `share` plus diag(vector)."""
        n_levels, r, _ = self.diag.shape
        out = ArrowMatrix(share * self.diag, self.border, share * self.corner, self.start).with_border_of(self, share)
        a, b = split(vector, self.start, n_levels * r)
        index, at = np.arange(r), np.arange(len(b))
        out.diag[:, index, index] += a.reshape(n_levels, r)
        out.corner[at, at] += b
        return out

    @classmethod
    def of_dense(cls, matrix: Array, n_levels: int, r: int, start: int) -> ArrowMatrix:
        """The entries of a symmetric matrix that lie on the pattern."""
        a, b = split(np.arange(len(matrix)), start, n_levels * r)
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
        """Blocks of the diagonal part, the border, multiplied, and the corner."""
        return self.diag, self.border if self.times == 1.0 else self.times * self.border, self.corner

    @property
    def shape(self) -> tuple[int, int]:
        """(P, P)."""
        size = self.border.shape[1] + len(self.corner)
        return size, size

    def alike(self, other: ArrowMatrix) -> bool:
        """Whether both have the same layout."""
        return self.start == other.start and self.diag.shape == other.diag.shape and self.shape == other.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        raise TypeError("an ArrowMatrix does not become a dense array by itself: ask for dense()")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Elementwise functions that leave zeros outside the pattern zero."""
        if method != "__call__" or kwargs or not _keeps_pattern(ufunc, inputs):
            return NotImplemented
        if any(not self.alike(x) for x in inputs if isinstance(x, ArrowMatrix)):
            raise ValueError("arrow matrices of different layouts have no elementwise result")
        diags, corners = ([getattr(x, part, x) for x in inputs] for part in ("diag", "corner"))
        out = ArrowMatrix(ufunc(*diags), self.border, ufunc(*corners), self.start)
        arrows = [x for x in inputs if isinstance(x, ArrowMatrix)]
        if ufunc is np.add:  # what is added to a diagonal, or to the 0 of a sum, has its border
            arrows = [x for x in arrows if any(x.border.strides)] or arrows[:1]
        if len(arrows) == 1 and ufunc in MULTIPLES:
            return out.with_border_of(arrows[0], MULTIPLES[ufunc](*inputs))
        out.border = ufunc(*(x.parts[1] if isinstance(x, ArrowMatrix) else x for x in inputs))
        return out

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
        below, above = self.times * (b @ self.border), self.times * (a @ self.border.T)
        return join(by_level(self.diag, a) + below, above + b @ self.corner, self.start)

    def diagonal(self) -> Array:
        """(P,)."""
        a = np.diagonal(self.diag, axis1=1, axis2=2).reshape(-1)
        return join(a, np.diagonal(self.corner), self.start)

    def inner(self, other: ArrowMatrix) -> float:
        """Σ over the pattern of products of entries: the trace of the product when one is zero off it."""
        off = self.times * other.times * np.vdot(self.border.T, other.border.T)
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
        (a, b), border = split(np.arange(len(out)), self.start, n_levels * r), self.parts[1]
        index = a.reshape(n_levels, r)
        out[index[:, :, None], index[:, None, :]] = self.diag
        out[np.ix_(b, a)], out[np.ix_(a, b)], out[np.ix_(b, b)] = border, border.T, self.corner
        return out


#: Functions whose border is a multiple of that of the one arrow among what they are given: how many times.
MULTIPLES: dict[Any, Callable[..., float]] = {
    np.add: lambda *inputs: 1.0,
    np.multiply: lambda *inputs: next(float(x) for x in inputs if not isinstance(x, ArrowMatrix)),
    np.negative: lambda arrow: -1.0,
}


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
