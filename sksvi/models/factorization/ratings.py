"""Entries of a sparsely observed matrix, sorted by either side, in memory or in files.

Entries that need not fit in memory lie in two sorted copies in files, read as memory maps.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.models.data import InMemory

Array = np.ndarray

#: Entries of a block of columns: enough that NumPy's calls cost little beside their arithmetic.
CHUNK_ENTRIES = 2**16
#: Entries that are looked through at a time for which items a user has.
SEEN_ENTRIES = 2**22
#: What a column costs beside its entries, in entries.
COLUMN_COST = 16


@dataclass(frozen=True)
class Entries:
    """The entries of one side's columns: those of column p are starts[p] .. starts[p + 1].

    starts (P + 1,); other (n,): plate on the other side; y (n,); weight (n,) or None; order (n,): row of the user's
    table that each entry came from.
    """

    starts: Array
    other: Array
    y: Array
    weight: Array | None = None

    @classmethod
    def sorted_by(cls, own: Array, other: Array, y: Array, weight: Array | None, n_plates: int) -> Entries:
        """Entries in any order; within a column they keep it."""
        # Short numbers are sorted in a tenth of the time.
        order = np.argsort(own.astype(np.min_scalar_type(n_plates)), kind="stable")
        starts = np.zeros(n_plates + 1, np.int64)
        np.cumsum(np.bincount(own, minlength=n_plates), out=starts[1:])
        return cls(starts, other[order].astype(np.int32), y[order], None if weight is None else weight[order])

    def __len__(self) -> int:
        return len(self.y)

    @property
    def counts(self) -> Array:
        """Entries of each column, (P,)."""
        return np.diff(self.starts)

    @cached_property
    def totals(self) -> Array:
        """Weight of each column, (P,)."""
        return self.summed(np.ones(len(self)))

    def of(self, plates: slice | Array) -> Entries:
        """The entries of some columns, consecutive ones (views) or any."""
        if not isinstance(plates, slice):
            return self.picked(plates)
        starts = self.starts[plates.start : plates.stop + 1]
        part = slice(starts[0], starts[-1])
        weight = None if self.weight is None else self.weight[part]
        return Entries(starts - starts[0], self.other[part], self.y[part], weight)

    def chosen(self, keep: Array) -> Entries:
        """The entries where `keep` (n,) is True."""
        starts = np.concatenate([[0], np.cumsum(keep)])[self.starts]
        weight = None if self.weight is None else self.weight[keep]
        return Entries(starts, self.other[keep], self.y[keep], weight)

    def picked(self, plates: Array) -> Entries:
        """The entries of the columns named, in that order."""
        counts = self.counts[plates]
        starts = np.concatenate([[0], np.cumsum(counts)])
        rows = np.arange(starts[-1]) + np.repeat(self.starts[plates] - starts[:-1], counts)
        weight = None if self.weight is None else self.weight[rows]
        return Entries(starts, self.other[rows], self.y[rows], weight)

    def drawn(self, size: int, rng: np.random.Generator) -> Entries:
        """At most `size` entries of each column, without replacement."""
        key = rng.random(len(self))
        column = np.repeat(np.arange(len(self.starts) - 1), self.counts)
        order = np.argsort(column + key)  # keys are below 1: one sort, not one by two keys
        rank = np.empty(len(self), np.int64)
        rank[order] = np.arange(len(self)) - np.repeat(self.starts[:-1], self.counts)
        return self.chosen(rank < size)

    def summed(self, values: Array) -> Array:
        """Sum over each column's entries, weighted: (P,) for (n,), (P, ...) for (n, ...)."""
        if self.weight is not None:
            values = values * self.weight.reshape(-1, *[1] * (values.ndim - 1))
        out = np.zeros((len(self.starts) - 1, *values.shape[1:]))
        filled = np.flatnonzero(self.counts)
        if len(filled):
            # Column by column: a difference of running sums would lose the small ones beside a huge one.
            out[filled] = np.add.reduceat(values, self.starts[filled], axis=0)
        return out

    def chunks(self, columns: Array | None = None, each: int = COLUMN_COST) -> list[Any]:
        """Columns, all or those named, in blocks of about `CHUNK_ENTRIES` entries, whatever the number of threads.

        `each` is what a column costs beside its entries, in entries.
        """
        counts = self.counts if columns is None else self.counts[columns]
        cost = np.cumsum(counts + max(each, COLUMN_COST))
        marks = np.arange(CHUNK_ENTRIES, cost[-1] if len(cost) else 0, CHUNK_ENTRIES)
        edges = np.unique(np.concatenate([[0], np.searchsorted(cost, marks), [len(counts)]]))
        parts = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        return parts if columns is None else [columns[part] for part in parts]


class Ratings(InMemory):
    """A factorization's data: the same entries by user and by item; `zeros`: every pair has a y of 0 besides."""

    def __init__(
        self,
        users: Array,
        items: Array,
        y: Array,
        weight: Array | None,
        n_users: int,
        n_items: int,
        zeros: bool = False,
        threads: int = 1,
    ) -> None:
        self.zeros = zeros
        given = [(users, items, y, weight, n_users), (items, users, y, weight, n_items)]
        both = parallel.in_order(lambda one: Entries.sorted_by(*one), given, threads)
        self.sides = dict(zip(("users", "items"), both, strict=True))

    def __len__(self) -> int:
        return len(self.sides["users"])

    @cached_property
    def largest_batch(self) -> int:
        """Most entries of a column: a step takes some of each."""
        return max(int(entries.counts.max()) for entries in self.sides.values())

    def items_by_user(self, n_users: int, n_items: int) -> tuple[Array, Array]:
        """Which of the first items each of the first users has rated, each once: starts (n_users + 1,) and items."""
        entries, items = self.sides["users"], [np.zeros(0, np.int32)]
        counts, edges = np.zeros(n_users, np.int64), entries.starts[: n_users + 1]
        marks = np.searchsorted(edges, np.arange(0, edges[-1], SEEN_ENTRIES))
        for a, b in pairwise(np.unique([0, *marks, n_users])):
            part = entries.of(slice(int(a), int(b)))
            part = part.chosen(part.other < n_items)
            users = np.repeat(np.arange(b - a), np.diff(part.starts))
            # User after user: a stable sort has few numbers to move, and NumPy's unique hashes, ten times as long.
            pairs = np.sort(users * n_items + part.other.astype(np.int64), kind="stable")
            pairs = pairs[np.diff(pairs, prepend=-1) > 0]
            counts[a:b] = np.bincount(pairs // n_items, minlength=b - a)
            items.append((pairs % n_items).astype(np.int32))
        return np.concatenate([[0], np.cumsum(counts)]), np.concatenate(items)

    @property
    def y(self) -> Array:
        """Values, user by user, and a 0 for the zeros."""
        values = self.sides["users"].y
        return np.append(values, 0.0) if self.zeros else values

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        weight = self.sides["users"].weight
        return float(len(self)) if weight is None else float(weight.sum())


# ---- entries on disk
#: Entries that are sorted in memory at a time: half a gigabyte with what sorting needs.
BUCKET = 2**23


class RatingsOnDisk(Ratings):
    """Ratings as memory maps, sorted by user and by item; the files take no disk once their maps are gone.

    Parameters
    ----------
    sides : dict of Entries
    targets : Table
        The values in few rows.
    folder : path
    """

    def __init__(self, sides: dict[str, Entries], targets: Any, folder: str) -> None:
        self.sides, self.targets = sides, targets
        # Names go now, whoever holds the maps and however the process ends; with the data where files in use keep them.
        shutil.rmtree(folder, ignore_errors=True)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @property
    def y(self) -> Array:
        """Every value, or those of a sample."""
        return self.targets.alone.y


def ratings_on_disk(
    parts: Iterator[tuple[Array, ...]], starts: dict[str, Array], weighted: bool, targets: Any
) -> RatingsOnDisk:
    """Entries (user, item, value[, weight]) that come in parts, sorted by either side in the order that they came.

    Each side's plates are cut into ranges of about `BUCKET` entries. Entries are first written to their range's file,
    then sorted range by range: every file is written once, from its beginning to its end.

    Parameters
    ----------
    parts : iterator of tuples of ndarrays of shape (m,)
    starts : dict of ndarrays of shape (P + 1,)
        Number of the first entry of each plate, and of all.
    weighted : bool
    targets : Table
        The values in few rows.
    """
    folder = tempfile.mkdtemp(prefix="sksvi-ratings-")
    try:
        sides = {side: _Side(Path(folder), side, own, weighted) for side, own in starts.items()}
        for users, items, *rest in parts:
            sides["users"].append(users, items, *rest)
            sides["items"].append(items, users, *rest)
        return RatingsOnDisk({side: own.sorted() for side, own in sides.items()}, targets, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


class _Side:
    """The entries of one side on their way to order.

    Parameters
    ----------
    folder : Path
    name : str
    starts : ndarray of shape (P + 1,)
    weighted : bool
    """

    def __init__(self, folder: Path, name: str, starts: Array, weighted: bool) -> None:
        self.starts = starts
        marks = np.arange(0, starts[-1], BUCKET)
        self.edges = np.unique(np.append(np.searchsorted(starts, marks), len(starts) - 1))
        self.kinds = {"other": np.dtype(np.int32), "y": np.dtype(float)}
        self.kinds |= {"weight": np.dtype(float)} if weighted else {}
        self.record = np.dtype([("own", np.int32), *self.kinds.items()])
        self.paths = [folder / f"{name}-{k}" for k in range(len(self.edges) - 1)]
        self.columns = {column: folder / f"{name}-{column}" for column in self.kinds}

    def append(self, own: Array, other: Array, y: Array, weight: Array | None = None) -> None:
        """Entries in the order that they come, each to the file of its range."""
        rows = np.empty(len(own), self.record)
        rows["own"], rows["other"], rows["y"] = own, other, y
        if weight is not None:
            rows["weight"] = weight
        bucket = np.searchsorted(self.edges, own, side="right") - 1
        order = np.argsort(bucket, kind="stable")
        rows, bucket = rows[order], bucket[order]
        ends = np.searchsorted(bucket, np.arange(len(self.paths) + 1))
        for path, a, b in zip(self.paths, ends, ends[1:]):
            if b > a:
                with open(path, "ab") as file:
                    rows[a:b].tofile(file)

    def sorted(self) -> Entries:
        """The entries of each plate one after another, as memory maps."""
        files = {column: open(path, "wb") for column, path in self.columns.items()}
        try:
            for path in self.paths:
                if path.exists():
                    rows = np.fromfile(path, self.record)
                    path.unlink()
                    rows = rows[np.argsort(rows["own"], kind="stable")]
                    for column, file in files.items():
                        rows[column].tofile(file)
        finally:
            for file in files.values():
                file.close()
        # Not as read-only ones, for which loops would be compiled anew.
        columns = {column: np.asarray(np.memmap(path, kind, "c")) for (column, path), kind in self._found()}
        return Entries(self.starts, columns["other"], columns["y"], columns.get("weight"))

    def _found(self) -> Iterator[tuple[tuple[str, Path], np.dtype]]:
        return zip(self.columns.items(), self.kinds.values(), strict=True)
