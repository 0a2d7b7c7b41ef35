"""Designs with effects per level of categorical columns: one number of a row finds its level, nothing is expanded.

Coordinates: D fixed columns, then the levels of each factor (level by level, r coordinates each), the intercept last. A
row touches one level of a factor, so the Gram matrix costs (D + number of factors)² per row and is an arrow
(`families.gaussian.arrow`) with the levels of one factor, the largest, as its diagonal part.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi._typing.arrays import is_compressed
from sksvi.families.gaussian.arrow import ArrowMatrix
from sksvi.models.data import nbytes, stacked
from sksvi.models.linear.rows import DenseRows, Design, _RowBlock, stays_sparse

Array = np.ndarray

#: Rows of a block: the Gram matrix of many levels is large, and every block makes one.
GROUPED_ROWS, LARGE_GRAM = 8192, 2**20
#: Codes of rows without a level: one that the fit did not have, and no effect of the factor at all.
UNSEEN, LEFT_OUT = -1, -2
#: Multiplications of a Gram matrix up to which a design is expanded: BLAS needs no compilation.
EXPANDED = 2**24


class GroupedDesign(Design):
    """Fixed columns and the levels of grouping factors, row by row.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, D)
    codes : ndarray of shape (n, F), int32
        Level of each factor; negative: none, the row has no effect of that factor (UNSEEN: in predictions with the
        variance of any level's effect).
    values : tuple of F arrays (n, r) or None
        What multiplies a level's r coordinates (a one for its intercept, columns for slopes); None: one column of ones.
    levels : tuple of F ints
    arrow : int, optional
        The factor whose levels are the diagonal part of an arrow-shaped precision; None: matrices are dense.
    sparse : bool, optional
        Whether X stays sparse; None: where that is cheaper.
    expanded : bool, optional
        Whether rows become dense ones, with a column per level; None: where the design is small and has no arrow.

    Raises
    ------
    ValueError
        If a code is beyond its factor's levels.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.models.mixed.levels import GroupedDesign
    >>> X = GroupedDesign(np.ones((3, 1)), np.array([[0], [1], [-1]], np.int32), (None,), (2,))
    >>> X.shape
    (3, 3)
    >>> X.rows(True).dense()
    array([[1., 1., 0., 1.],
           [1., 0., 1., 1.],
           [1., 0., 0., 1.]])
    """

    LAYOUT = """
        codes (n,F) i where it.dtype == np.int32
        X (_,_) x or csr_matrix where it.shape[0] == n
        levels items F; levels[*] count
        levels where all(a < b for a, b in zip(self.codes.max(axis=0, initial=-1), it))
        values items F; values[*]? (n,_) f; arrow? count <F
    """

    def __init__(
        self,
        X: Any,
        codes: Array,
        values: tuple[Array | None, ...],
        levels: tuple[int, ...],
        arrow: int | None = None,
        sparse: bool | None = None,
        expanded: bool | None = None,
    ) -> None:
        highest = codes.max(axis=0, initial=-1)
        for f in np.flatnonzero(highest >= np.asarray(levels, int)):
            raise ValueError(f"codes of factor {f} go up to {highest[f]}, beyond its {levels[f]} levels")
        self.X, self.codes, self.values, self.levels, self.arrow = X, codes, values, levels, arrow
        #: Decided on all rows, so that a block of them is treated as the whole is.
        self.sparse = stays_sparse(X, True) if sparse is None else sparse
        small = arrow is None and len(codes) * self.shape[1] ** 2 <= EXPANDED
        self.expanded = small if expanded is None else expanded

    @cached_property
    def effects(self) -> tuple[int, ...]:
        """Coordinates of one level, per factor."""
        return tuple(1 if value is None else value.shape[1] for value in self.values)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First coordinate of each factor, and the end of the last."""
        sizes = [count * r for count, r in zip(self.levels, self.effects, strict=True)]
        return tuple(int(start) for start in np.cumsum([self.X.shape[1], *sizes]))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and coordinates without the intercept."""
        return self.X.shape[0], self.starts[-1]

    @property
    def dtype(self) -> Any:
        """Data type of the fixed columns."""
        return self.X.dtype

    def block_rows(self, width: int, full: bool) -> int:
        """Rows of a block: twice as many where a gram, without the arrow's diagonal, is large."""
        size, alone = self.shape[1], 0 if self.arrow is None else self.levels[self.arrow] * self.effects[self.arrow]
        return GROUPED_ROWS * (2 if size * (size - alone) > LARGE_GRAM else 1)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, rows: Array | slice) -> GroupedDesign:
        """The design of some rows; of all of them itself, with the row block that it has made."""
        if isinstance(rows, slice) and rows.indices(len(self)) == (0, len(self), 1):
            return self
        values = tuple(None if value is None else value[rows] for value in self.values)
        return GroupedDesign(
            self.X[rows], self.codes[rows], values, self.levels, self.arrow, self.sparse, self.expanded
        )

    def stacked(self, other: GroupedDesign) -> GroupedDesign:
        """A design of these rows, followed by those of `other`, which may have more levels."""
        values = tuple(
            None if a is None else np.concatenate([a, b]) for a, b in zip(self.values, other.values, strict=True)
        )
        levels = tuple(max(pair) for pair in zip(self.levels, other.levels, strict=True))
        X, codes = stacked(self.X, other.X), np.concatenate([self.codes, other.codes])
        return GroupedDesign(X, codes, values, levels, self.arrow, self.sparse, self.expanded)

    def astype(self, dtype: Any) -> GroupedDesign:
        """The design with fixed columns of another data type."""
        X = self.X.astype(dtype)
        return GroupedDesign(X, self.codes, self.values, self.levels, self.arrow, self.sparse, self.expanded)

    @property
    def nbytes(self) -> int:
        """Memory of all rows."""
        return nbytes(self.X) + self.codes.nbytes + sum(value.nbytes for value in self.values if value is not None)

    def rows(self, intercept: bool) -> GroupedRows | DenseRows:
        """The row block; of a small design every look at the rows has the same one."""
        if not self.expanded:
            return GroupedRows(self, intercept)
        if intercept not in self._blocks:
            self._blocks[intercept] = DenseRows.of(self.dense(intercept))
        return self._blocks[intercept]

    def dense(self, intercept: bool) -> Array:
        """[X, a column per coordinate of each level, 1], (n, P): for small designs."""
        n, width = self.shape
        out = np.zeros((n, width + intercept))
        out[:, : self.X.shape[1]] = self.X.toarray() if is_compressed(self.X) else self.X
        out[:, width:] = 1.0
        for f, r in enumerate(self.effects):
            with_level, value = np.flatnonzero(self.codes[:, f] >= 0), self.values[f]
            first = self.starts[f] + self.codes[with_level, f] * r
            own = 1.0 if value is None else value[with_level]
            out[with_level[:, None], first[:, None] + np.arange(r)] = own
        return out

    @cached_property
    def _blocks(self) -> dict[bool, DenseRows]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Without the row block, which is made anew."""
        return {name: value for name, value in self.__dict__.items() if name != "_blocks"}


class GroupedRows(_RowBlock):
    """Rows of a `GroupedDesign` with an implied column of ones."""

    def __init__(self, design: GroupedDesign, intercept: bool) -> None:
        n, width = design.shape
        self.design, self.width = design, width + intercept
        fixed = sp.csr_array((n, 0)) if design.sparse else design.X
        #: Columns for BLAS: the fixed ones where they are dense, and the intercept.
        self.dense_part = DenseRows(np.empty((n, 0)) if design.sparse else fixed, intercept)
        last = [width] if intercept else []
        self.columns = np.concatenate([np.arange(fixed.shape[1]), last]).astype(np.int32)
        arrow = design.arrow
        self.level, self.slope, self.start, self.n_levels = np.full(n, -1, np.int32), np.empty((n, 0)), width, 0
        if arrow is not None:
            self.level, self.slope = self._factor(arrow)
            self.start, self.n_levels = design.starts[arrow], design.levels[arrow]
        self.others = self._others()

    def _factor(self, f: int) -> tuple[Array, Array]:
        """Level and values of each row for one factor."""
        codes, value = self.design.codes[:, f], self.design.values[f]
        slope = np.ones((len(codes), 1)) if value is None else np.array(value, float, order="C")
        return np.maximum(codes, -1).astype(np.int32), slope

    def _others(self) -> Any:
        """CSR of all entries outside dense columns and the arrow's factor, in the model's coordinates."""
        design = self.design
        n = design.shape[0]
        index, data = [np.empty((n, 0), np.int32)], [np.empty((n, 0))]
        for f, r in enumerate(design.effects):
            if f == design.arrow:
                continue
            level, slope = self._factor(f)
            index.append(np.where(level[:, None] < 0, -1, design.starts[f] + level[:, None] * r + np.arange(r)))
            data.append(slope)
        indices, values = np.concatenate(index, axis=1), np.concatenate(data, axis=1)
        has_level = indices >= 0
        indptr = np.concatenate([[0], np.cumsum(has_level.sum(1))])
        parts = (values[has_level], indices[has_level].astype(np.int32), indptr.astype(np.int32))
        out = sp.csr_array(parts, shape=(n, self.width))
        if not design.sparse:
            return out
        X = design.X
        return sp.csr_array((X.data.astype(float), X.indices, X.indptr), shape=(n, self.width)) + out

    # ---- parts of an arrow, as the compiled loops want them
    @property
    def _effects(self) -> int:
        return self.slope.shape[1]

    def _corner(self, index: Array) -> Array:
        """Coordinates of the model as coordinates of the corner."""
        return np.where(index < self.start, index, index - self.n_levels * self._effects).astype(np.int32)

    @cached_property
    def _entries(self) -> Any:
        indptr, indices = self.others.indptr.astype(np.int32), self._corner(self.others.indices)
        return self.dense_part.A, self._corner(self.columns), indptr, indices, self.others.data, self.level, self.slope

    def _parts(self, S: Any) -> ArrowMatrix:
        """A symmetric matrix in the layout of this design."""
        if isinstance(S, np.ndarray):
            return ArrowMatrix.of_dense(S, self.n_levels, self._effects, self.start)
        found = (S.start, *S.diag.shape[:2], S.shape[0])
        if found != (self.start, self.n_levels, self._effects, self.width):
            raise ValueError(
                f"an arrow matrix with (start, levels, effects, size) {found} does not fit a design with "
                f"{(self.start, self.n_levels, self._effects, self.width)}"
            )
        return S

    def _levelwise(self, w: Array) -> Array:
        """w of the arrow's factor, (L + 1, r); the last row, of no level, is zero."""
        part = w[self.start : self.start + self.n_levels * self._effects]
        return np.concatenate([part.reshape(self.n_levels, self._effects), np.zeros((1, self._effects))])

    # ---- the verbs
    def dense(self) -> Array:
        """(n, P): for small designs."""
        return self.design.dense(self.width > self.design.shape[1])

    def dot(self, w: Array) -> Array:
        """A w."""
        out = self.dense_part.dot(w[self.columns]) + self.others @ w
        return out + np.einsum("ik,ik->i", self.slope, self._levelwise(w)[self.level])

    def dots(self, W: Array) -> Array:
        """A wᵀ for each row w of W."""
        W = np.ascontiguousarray(W.T)
        out = self.dense_part.dots(W[self.columns].T) + self.others @ W
        for k in range(self._effects):
            part = W[self.start + k : self.start + self.n_levels * self._effects : self._effects]
            out += self.slope[:, [k]] * np.concatenate([part, np.zeros((1, W.shape[1]))])[self.level]
        return out

    def diagonal_spread(self, variance: Array) -> Array:
        """diag(A S Aᵀ) for a diagonal S."""
        out = np.dot(np.square(self.dense_part.A), variance[self.columns]) + self.others.power(2) @ variance
        return out + np.einsum("ik,ik->i", np.square(self.slope), self._levelwise(variance)[self.level])

    def form(self, S: Any) -> Array:
        """diag(A S Aᵀ) for a symmetric S, an array or an ArrowMatrix."""
        from sksvi.models.mixed import levels_loops

        S = self._parts(S)
        among = self._corner(self.columns)
        out = self.dense_part.form(S.corner[np.ix_(among, among)]).astype(float)
        diag, border, corner = S.diag, np.ascontiguousarray(S.border.T), np.ascontiguousarray(S.corner)
        levels_loops.form(*self._entries, np.ascontiguousarray(diag), border, corner, out)
        return out

    def pull(self, alpha: Array) -> Array:
        """Aᵀ alpha."""
        return self._pulled(alpha, self.dense_part.A, self.others, self.slope)

    def _pulled(self, alpha: Array, A: Array, others: Any, slope: Array) -> Array:
        out = others.T @ alpha
        out[self.columns] += np.dot(alpha.astype(A.dtype, copy=False), A)
        has_level = self.level >= 0
        size = self._effects
        for k in range(size):
            sums = np.bincount(self.level[has_level], slope[has_level, k] * alpha[has_level], self.n_levels)
            out[self.start + k : self.start + self.n_levels * size : size] = sums
        return out

    def gram(self, gamma: Array, full: bool) -> Any:
        """Aᵀ diag(gamma) A: its diagonal, an array, or an ArrowMatrix where the design has an arrow."""
        if not full:
            return self._pulled(gamma, np.square(self.dense_part.A), self.others.power(2), np.square(self.slope))
        from sksvi.models.mixed import levels_loops

        size = self.n_levels * self._effects
        out = ArrowMatrix.zeros(self.n_levels, self._effects, self.width - size, self.start)
        gamma = np.ascontiguousarray(gamma, float)
        levels_loops.gram(*self._entries, gamma, out.diag, out.border.T, out.corner)
        among = self._corner(self.columns)
        out.corner[np.ix_(among, among)] += self.dense_part.gram(gamma, True)
        return out.corner if self.design.arrow is None else out
