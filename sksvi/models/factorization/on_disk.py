"""Ratings that need not fit in memory: two sorted copies of the entries in files, read as memory maps."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sksvi.models.factorization.ratings import Entries, Ratings

Array = np.ndarray

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
        columns = {column: np.asarray(np.memmap(path, kind, "r")) for (column, path), kind in self._found()}
        return Entries(self.starts, columns["other"], columns["y"], columns.get("weight"))

    def _found(self) -> Iterator[tuple[tuple[str, Path], np.dtype]]:
        return zip(self.columns.items(), self.kinds.values(), strict=True)
