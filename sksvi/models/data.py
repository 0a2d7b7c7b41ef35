"""Encoded training data: what passes ask of rows wherever they lie; rows in memory; tables of a design and a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from sksvi._runtime import parallel
from sksvi._runtime.memory import Weighed, extended

Array = np.ndarray
#: Some rows, by range or by number.
Rows = slice | Array


def compressed(kind: Any, shape: tuple[int, ...], data: Array, indices: Array, indptr: Array) -> Any:
    """A compressed matrix of these numbers themselves: SciPy's constructor copies those that are a part of others."""
    out = kind(shape, dtype=data.dtype)
    out.data, out.indices, out.indptr = data, indices, indptr
    return out


def take_rows(X: Any, rows: Rows) -> Any:
    """X[rows]; a range of compressed rows shares their numbers, which SciPy copies."""
    if type(X) not in (sp.csr_array, sp.csr_matrix) or not isinstance(rows, slice) or rows.step not in (None, 1):
        return X[rows]
    start, stop, _ = rows.indices(X.shape[0])
    indptr = X.indptr[start : max(start, stop) + 1]
    stored, shape = slice(indptr[0], indptr[-1]), (len(indptr) - 1, X.shape[1])
    return compressed(type(X), shape, X.data[stored], X.indices[stored], indptr - indptr[0])


class Data(Sized, Protocol):
    """Encoded training data."""

    @property
    def total_weight(self) -> float:
        """Sum of the weights: the N of every formula."""
        ...

    @property
    def at_hand(self) -> bool:
        """Whether rows can be looked at one by one."""
        ...

    def take(self, rows: Rows) -> Any:
        """The data of some rows."""
        ...

    @property
    def largest_batch(self) -> int:
        """Rows of a step from which on it takes all the data."""
        ...

    def portion(self, size: int, seed: int) -> Any:
        """About `size` rows, drawn without repeats."""
        ...

    def batches(self, size: int, seed: int, number: int) -> Iterator[tuple[Any, int, float]]:
        """Batches of pass `number`: rows, how many they are, and their weight."""
        ...

    def evaluate(self, look: Callable[[Any, Any], Any], rows: Any) -> Any:
        """What a look at some rows says, where they lie; of rows that lie in parts the sum over these."""
        ...

    def n_streams(self, model: Any, rows: Any) -> int:
        """Random streams that chunks of these rows read: the next one is free."""
        ...

    def reduced(self, function: Callable[..., Any], combine: Any = None, beside: Any = None) -> Any:
        """`function` of all rows where they lie; of rows that lie in parts, what it says of each, combined (summed).

        ``beside``: what `persist` left with the rows, the function's second argument.
        """
        ...

    def persist(self, function: Callable[[Any], Any]) -> Any:
        """What a function says of the rows, kept where they lie: numbers per row do not travel."""
        ...

    def mapped(self, function: Callable[..., Any], beside: Any = None) -> Any:
        """Data that a function makes of the rows, kept where they lie; ``beside``: data made of them before."""
        ...


class Lost(RuntimeError):
    """What was kept beside rows is gone with the worker that held it."""


class InMemory(Weighed):
    """The verbs of data that lie in one piece, in the memory of this process.

    ``at_hand`` : rows can be looked at one by one.
    """

    at_hand: ClassVar[bool] = True
    weight: Array | None

    def __len__(self) -> int:
        raise AttributeError(f"{type(self).__name__} has no rows")

    @property
    def largest_batch(self) -> int:
        """Rows of a step from which on it takes all the data."""
        return len(self)

    def take(self, rows: Rows) -> Any:
        """The data of some rows."""
        raise AttributeError(f"{type(self).__name__} has no rows to take")

    def portion(self, size: int, seed: int) -> Any:
        """About `size` rows, drawn without repeats."""
        return self.take(parallel.sample(len(self), size, seed))

    def batches(self, size: int, seed: int, number: int) -> Iterator[tuple[Any, int, float]]:
        """Batches of pass `number`, shuffled: rows, how many they are, and their weight."""
        for rows in parallel.shuffled(len(self), size, seed, number):
            yield rows, len(rows), float(len(rows)) if self.weight is None else float(self.weight[rows].sum())

    def evaluate(self, look: Callable[[Any, Any], Any], rows: Any) -> Any:
        """What a look at some rows says."""
        return look(self, rows)

    def n_streams(self, model: Any, rows: Any) -> int:
        """Random streams that chunks of these rows read: one per chunk."""
        return len(model.chunks(rows, self))

    def reduced(self, function: Callable[..., Any], combine: Any = None, beside: Any = None) -> Any:
        """`function` of the rows, with what was kept beside them."""
        return function(self) if beside is None else function(self, beside)

    def persist(self, function: Callable[[Any], Any]) -> Any:
        """What a function says of the rows."""
        return function(self)

    def mapped(self, function: Callable[..., Any], beside: Any = None) -> Any:
        """What a function makes of the rows."""
        return self.reduced(function, beside=beside)


class TwoSided(Data, Protocol):
    """Entries by either side: ``sides[name]`` has those of each plate of a side."""

    sides: dict[str, Any]


@dataclass(frozen=True)
class Table(InMemory):
    """Data row by row: design (dense or CSR), target, and per-row weight and offset (None: ones, zeros).

    ``first`` : the number of the first row, where they are a part of more rows: random streams are told apart by it.
    """

    LAYOUT = """
        X (_,_) x or csr_matrix/GroupedDesign/MixtureRows/CountMatrix
        y (n,…) x or (n,…) i where n == self.X.shape[0]
        weight? (n) f >=0; offset? (n) f
    """

    X: Any
    y: Array
    weight: Array | None = None
    offset: Array | None = None
    first: int = 0

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def targets(self) -> Table:
        """Rows whose targets, weights and offsets stand for those of all."""
        return self

    @property
    def centred(self) -> Array:
        """Targets less the offsets of their latents, (n,)."""
        return self.y if self.offset is None else self.y - self.offset

    @property
    def alone(self) -> Table:
        """Targets without their offsets: every value that these have."""
        return self if self.offset is None else replace(self, offset=None)

    @property
    def n_rows(self) -> int:
        """Rows, or those that these stand for."""
        return len(self)

    @property
    def total_weight(self) -> float:
        """Sum of the weights: the N of every formula."""
        return float(len(self)) if self.weight is None else float(self.weight.sum())

    def take(self, rows: Rows) -> Table:
        """The table of some rows."""
        return Table(
            take_rows(self.X, rows),
            self.y[rows],
            None if self.weight is None else self.weight[rows],
            None if self.offset is None else self.offset[rows],
        )

    def on(self, latents: Array) -> Array:
        """Latents (n,) or (n, K) with the rows' offsets, which each has for all of them or one by one."""
        offset = self.offset
        if offset is None:
            return latents
        return latents + (offset if offset.ndim == latents.ndim else offset.reshape(-1, *[1] * (latents.ndim - 1)))

    def moved(self, by: Array) -> Table:
        """The table with `by` added to the offsets, which moves the latents."""
        return replace(self, offset=self.on(by))

    @property
    def bytes_per_row(self) -> float:
        """Memory of a row, about."""
        return nbytes(self.X) / max(len(self), 1) + self.y.nbytes / max(len(self), 1) + 32.0

    def times(self, factor: Array) -> Table:
        """The table with every row's weight multiplied by a factor."""
        return replace(self, weight=factor if self.weight is None else self.weight * factor)

    def concatenated(self, other: Table) -> Table:
        """A table of these rows, followed by the rows of `other`."""
        return self._with(other, stacked, lambda a, b: np.concatenate([a, b]))

    def appended(self, other: Table) -> Table:
        """A table of these dense rows, followed by the rows of `other`, in memory that has room for more."""
        return self._with(other, extended, extended)

    def _with(self, other: Table, of_designs: Callable[..., Any], of_columns: Callable[..., Array]) -> Table:
        def both(a: Array | None, b: Array | None, unless: float) -> Array | None:
            if a is None and b is None:
                return None
            parts = zip((a, b), (len(self), len(other)), strict=True)
            return of_columns(*(np.full(n, unless) if part is None else part for part, n in parts))

        X, y = of_designs(self.X, other.X), of_columns(self.y, other.y)
        return Table(X, y, both(self.weight, other.weight, 1.0), both(self.offset, other.offset, 0.0))


def nbytes(X: Any) -> int:
    """Memory of a design: an array, a CSR matrix, or a design that has ``nbytes``."""
    csr: Any = X
    return sum(part.nbytes for part in (csr.data, csr.indices, csr.indptr)) if sp.issparse(X) else int(X.nbytes)


def stacked(a: Any, b: Any) -> Any:
    """The rows of two designs of one kind, arrays and CSR matrices among each other too."""
    if sp.issparse(a) or sp.issparse(b):
        return sp.vstack([sp.csr_matrix(a), sp.csr_matrix(b)], format="csr")
    return np.concatenate([a, b]) if isinstance(a, np.ndarray) else a.stacked(b)
