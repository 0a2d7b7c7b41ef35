"""Rows of a collection gathered on one worker, and cut again into the blocks of a fit in memory.

What a fit in memory does to all rows at once (sort them, merge equal ones) is done in one task on a worker; then the
rows lie in parts again. A part holds blocks of rows as a fit in memory takes them, their number a power of two, so that
sums over parts are formed in the order of sums in memory: the same bits, which a search does not blow up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from sksvi.models.base import Table
from sksvi.partitions.data import Partitioned

Array = np.ndarray


@dataclass(frozen=True)
class Repartitioned(Partitioned):
    """Rows in parts that hold blocks of `block` rows, about as many parts as there were."""

    block: int = 1
    wanted: int = 1

    def portion(self, size: int, seed: int) -> Any:
        """About `size` rows, drawn without repeats, in the same blocks."""
        rows = super().portion(size, seed)
        return rows if rows.at_hand else cut(gathered(rows, _same), self.block, self.wanted)


@dataclass(frozen=True)
class Gathered:
    """All rows of partitioned data, on one worker; data: the partitions that they come from."""

    data: Partitioned
    rows: Any
    n: int
    weight: float

    def apply(self, function: Callable[[Table], Any]) -> Any:
        """Result of a function of the table of all rows."""
        return self.data.executor.round(function, [(self.rows,)])


def gathered(data: Partitioned, function: Callable[[Table], Table]) -> Gathered:
    """Gather all rows on one worker and apply a function to their table."""
    rows = data.executor.together(function, data.parts, Table.concatenated)
    return Gathered(data, rows, *data.executor.round(_size, [(rows,)]))


def cut(all_rows: Gathered, block: int, wanted: int, function: Callable[[Table], Table] | None = None) -> Repartitioned:
    """Cut gathered rows into parts of whole blocks of `block` rows, and apply a function to each part."""
    data, n = all_rows.data, all_rows.n
    blocks = -(-n // block)
    size = block * 2 ** int(np.ceil(np.log2(max(1, -(-blocks // wanted)))))
    starts = np.append(np.arange(0, n, size), n)
    cuts = [(all_rows.rows, int(a), int(b)) for a, b in pairwise(starts)]
    parts = data.executor.mapped(partial(_between, function), cuts)
    shape = replace(data.X, shape=(n, data.X.shape[1]))
    return Repartitioned(data.executor, parts, starts, all_rows.weight, shape, data.targets, block, wanted)


def _same(data: Table) -> Table:
    return data


def _between(function: Callable[[Table], Table] | None, data: Table, start: int, stop: int) -> Table:
    rows = replace(data.take(slice(start, stop)), first=start)
    return rows if function is None else function(rows)


def _size(data: Table) -> tuple[int, float]:
    return len(data), data.total_weight
