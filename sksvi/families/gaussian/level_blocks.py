"""Matrices that are a diagonal, but for one small block of the effects of each level of grouping factors; their uses.

As the precision of a Gaussian prior they make effects of a level correlated, and levels independent. As a map they make
effects in the units of the user's columns of those about the columns' means, which a fit has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from sksvi.families.gaussian.dense import PreciseGaussian
from sksvi.families.gaussian.normal import InUnits
from sksvi.families.gaussian.structures import Structure

Array = np.ndarray


class LevelBlocks:
    """A matrix that is a diagonal with one block for all levels of each factor.

    Parameters
    ----------
    diag : ndarray of shape (P,)
        The whole diagonal.
    places : tuple of (start, levels) pairs of int
        First coordinate of each factor, and how many levels follow one another from there.
    blocks : tuple of ndarray of shape (r, r)
        Of each factor, what its diagonal in `diag` is too.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.gaussian.level_blocks import LEVELS, LevelBlocks
    >>> P = LevelBlocks(np.array([3.0, 1.0, 2.0]), ((1, 1),), (np.array([[1.0, 0.5], [0.5, 2.0]]),))
    >>> LEVELS.dense(P, 3)
    array([[3. , 0. , 0. ],
           [0. , 1. , 0.5],
           [0. , 0.5, 2. ]])
    """

    LAYOUT = """
        diag (p) f >0; places items F; blocks items F; blocks[*] (r,r) f diag>0; places[*] items 2
        places where all(0 <= s and s + n * len(b) <= p for (s, n), b in zip(it, self.blocks))
    """

    #: NumPy leaves products with arrays to this class.
    __array_ufunc__ = None

    def __init__(self, diag: Array, places: tuple[tuple[int, int], ...], blocks: tuple[Array, ...]) -> None:
        self.diag, self.places, self.blocks = diag, places, blocks

    @property
    def structure(self) -> Structure:
        """The verbs of this class."""
        return LEVELS

    @property
    def factors(self) -> Iterator[tuple[slice, Array]]:
        """Coordinates and block of each factor."""
        for (start, levels), block in zip(self.places, self.blocks, strict=True):
            yield slice(start, start + levels * len(block)), block

    @property
    def pairs(self) -> Iterator[tuple[slice, slice, float]]:
        """Coordinates a and b of two effects, level by level, and the entry of the matrix that all (a, b) have."""
        for own, block in self.factors:
            r = len(block)
            for k in range(r):
                for j in range(k):
                    rows, columns = (slice(own.start + at, own.stop, r) for at in (j, k))
                    yield rows, columns, float(block[j, k])

    def with_diagonals(self) -> Self:
        """The matrix itself, its diagonal written anew where blocks are."""
        for (own, block), (_, levels) in zip(self.factors, self.places, strict=True):
            self.diag[own] = np.tile(np.diagonal(block), levels)
        return self

    def __eq__(self, other: object) -> bool:
        """Whether two matrices are the same."""
        mine, its = ((m.diag, *m.blocks) if isinstance(m, LevelBlocks) else () for m in (self, other))
        return len(mine) == len(its) and all(np.array_equal(a, b) for a, b in zip(mine, its, strict=True))

    __hash__ = None  # type: ignore[assignment]


class Levelwise(Structure):
    """A diagonal and the blocks of levels; the root has the blocks' inverse factors."""

    def dot(self, P: LevelBlocks, x: Array) -> Array:
        """P x."""
        out = P.diag * x
        for own, block in P.factors:
            out[..., own] = (x[..., own].reshape(*x.shape[:-1], -1, len(block)) @ block.T).reshape(x[..., own].shape)
        return out

    def diagonal(self, P: LevelBlocks) -> Array:
        """Diagonal of P."""
        return P.diag

    def dense(self, P: LevelBlocks, size: int) -> Array:
        """P with its zeros."""
        out = np.diag(P.diag)
        for a, b, value in P.pairs:
            a, b = (np.arange(size)[part] for part in (a, b))  # type: ignore[assignment]
            out[a, b] = out[b, a] = value
        return out

    def scaled(self, P: LevelBlocks, factor: Array | float) -> LevelBlocks:
        """D^½ P D^½ of a diagonal D; of blocks its first level tells."""
        factor = np.broadcast_to(factor, P.diag.shape)
        roots = [np.sqrt(factor[own][: len(block)]) for own, block in P.factors]
        blocks = tuple(block * np.outer(root, root) for block, root in zip(P.blocks, roots, strict=True))
        return LevelBlocks(P.diag * factor, P.places, blocks)

    def expected_quadratic(self, P: LevelBlocks, delta: Array, q: Any) -> float:
        """δᵀ P δ + tr(P S)."""
        trace = np.sum(P.diag * q.variance)
        for a, b, value in P.pairs:
            trace += 2.0 * value * np.sum(q.structure.between(q.root, a, b))
        return float(trace + np.sum(delta * self.dot(P, delta)))

    def log_det_precision(self, block: Any) -> float:
        """log |P|."""
        return -self.log_det(block.root)

    def root(self, P: LevelBlocks) -> LevelBlocks:
        """C, whose blocks are L⁻¹ of those of P, L Lᵀ."""
        diag = 1.0 / np.sqrt(P.diag)
        blocks = tuple(np.linalg.inv(np.linalg.cholesky(block)) for block in P.blocks)
        return LevelBlocks(diag, P.places, blocks).with_diagonals()

    def coloured(self, C: LevelBlocks, z: Array) -> Array:
        """Cᵀ z."""
        return self.dot(LevelBlocks(C.diag, C.places, tuple(block.T for block in C.blocks)), z)

    def uncoloured(self, C: LevelBlocks, g: Array) -> Array:
        """C g."""
        return self.dot(C, g)

    def log_det(self, C: LevelBlocks) -> float:
        """log |S|."""
        return 2.0 * float(np.log(C.diag).sum())

    def within(self, C: LevelBlocks) -> LevelBlocks:
        """S."""
        diag, blocks = np.square(C.diag), tuple(block.T @ block for block in C.blocks)
        return LevelBlocks(diag, C.places, blocks).with_diagonals()

    def between(self, C: LevelBlocks, a: slice, b: slice) -> Array:
        """S of pairs of effects of the same levels."""
        values = {(rows.start, columns.start): value for rows, columns, value in self.within(C).pairs}
        return np.full(len(C.diag[a]), values[a.start, b.start])

    def cov(self, C: LevelBlocks) -> Array:
        """S with its zeros."""
        return self.dense(self.within(C), len(C.diag))


LEVELS = Levelwise()


class LevelGaussian(PreciseGaussian):
    """N(m, P⁻¹) whose precision is a diagonal with a block for the effects of each level: a prior of mixed models.

    Parameters
    ----------
    mean : ndarray of shape (P,)
    precision : LevelBlocks
    root : LevelBlocks, optional
        C with CᵀC = precision⁻¹, where it is known already.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.gaussian.level_blocks import LevelBlocks, LevelGaussian
    >>> P = LevelBlocks(np.ones(4), ((0, 2),), (np.array([[1.0, 0.6], [0.6, 1.0]]),))
    >>> LevelGaussian(np.zeros(4), P).variance
    array([1.5625, 1.5625, 1.5625, 1.5625])
    """

    LAYOUT = "precision LevelBlocks; precision.diag (p) f; mean (p) f"

    structure = LEVELS


class LevelEffects(InUnits):
    """The effects of levels in the units of the user's columns, for a posterior of those that the fit has.

    Parameters
    ----------
    inner : Marginal
        Of the effects that the fit has, of each factor level by level.
    lift : LevelBlocks
        Map to those in the user's units: each is a multiple, but the first of a level, which is made of all of its.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Gaussian, Marginal
    >>> from sksvi.families.gaussian.level_blocks import LevelBlocks, LevelEffects
    >>> inner = Marginal(Gaussian(np.array([1.0, 2.0]), np.diag([1.0, 4.0])), np.arange(2))
    >>> lift = LevelBlocks(np.array([1.0, 0.5]), ((0, 1),), (np.array([[1.0, -5.0], [0.0, 0.5]]),))
    >>> LevelEffects(inner, lift).mean, LevelEffects(inner, lift).variance
    (array([-9.,  1.]), array([7.25  , 0.0625]))
    """

    LAYOUT = "lift LevelBlocks; lift.diag (d) f; inner Marginal; inner.mean (d) f"

    def __init__(self, inner: Any, lift: LevelBlocks) -> None:
        self.inner, self.lift = inner, lift

    def around(self, block: Any, prior_std: float = 1.0) -> LevelEffects:
        """The view of another block in the same units."""
        return LevelEffects(self.inner.around(block, prior_std), self.lift)

    def _lift(self, z: Array) -> Array:
        """Effects (..., P) that the fit has in the user's units."""
        return LEVELS.dot(self.lift, z)

    def inner_rows(self, rows: Array) -> Array:
        """Rows a (n, P) as those c for which aᵀ times effects in the user's units is cᵀ times those of the fit."""
        return LEVELS.coloured(self.lift, rows)

    @property
    def variance(self) -> Array:
        """Diagonal of S, (P,)."""
        inner = self.inner.variance
        own = np.square(self.lift.diag) * inner
        for part, block in self.lift.factors:
            first, *others = (slice(part.start + k, part.stop, len(block)) for k in range(len(block)))
            for k, other in enumerate(others, 1) if block[0, 1:].any() else ():
                own[first] += block[0, k] ** 2 * inner[other]
                for j, before in enumerate((first, *others)[:k]):
                    own[first] += 2.0 * block[0, j] * block[0, k] * self.inner.between(other, before)
        return own
