"""Encoded rows in partitions, with the methods of data: functions of rows are evaluated where the rows lie.

Rows may be gathered on one worker, and cut again into the blocks of a fit in memory. What a fit in memory does to all
rows at once (sort them, merge equal ones) is done in one task on a worker; then the rows lie in parts again. A part
holds blocks of rows as a fit in memory takes them, their number a power of two, so that sums over parts are formed in
the order of sums in memory: the same bits, which a search does not blow up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from sksvi._runtime import parallel
from sksvi.inference.state import NO_LOCALS, Locals
from sksvi.models.data import Table
from sksvi.partitions.executor import Executor

Array = np.ndarray


@dataclass(frozen=True)
class RemoteDesign:
    """Shape and dtype of a design matrix that is not in this process."""

    shape: tuple[int, int]
    dtype: Any


#: Numbers of a portion up to which a pass over it costs less here than a round of tasks.
HERE = 2**20


class RemoteRows:
    """Values per row of partitions (local variables or sites): a handle for each partition, renewed at every step.

    ``change`` : accumulated change of the sum of `start`, the shares of the first q in the sites of rows.
    """

    def __init__(self, handles: list[Any], change: float = 0.0) -> None:
        self.handles, self.change = handles, change

    def copy(self) -> RemoteRows:
        """Copy with a list of its own of the same handles."""
        return RemoteRows(list(self.handles), self.change)


@dataclass(frozen=True)
class PartitionShare:
    """Part `number` of `count` of a partition's rows, in an order of pass `key`."""

    key: tuple[int, ...]
    number: int
    count: int

    def rows(self, n: int) -> Array:
        """Sorted indices of the rows of the share in a partition of n rows."""
        return np.sort(np.array_split(np.random.default_rng(self.key).permutation(n), self.count)[self.number])


@dataclass(frozen=True)
class Batch:
    """Rows of a step: whole partitions (share None), or a share of one."""

    pieces: list[tuple[int, PartitionShare | None]]


@dataclass(frozen=True)
class Partitioned:
    """Encoded rows as delayed tables.

    parts: partitions with rows. starts (P + 1,): number of each one's first row, and of all rows. total_weight: of all
    rows. targets: theirs in few rows.
    """

    executor: Executor
    parts: list[Any]
    starts: Array
    total_weight: float
    X: RemoteDesign
    targets: Table
    at_hand: ClassVar[bool] = False

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def largest_batch(self) -> int:
        """Rows of a step from which on it takes all the data."""
        return len(self)

    @property
    def y(self) -> Array:
        """Distinct values of the target, or targets of a sample."""
        return self.targets.alone.y

    # ---- methods of data
    def evaluate(self, look: Any, rows: Any) -> Any:
        """Evaluate a look at rows, summed over partitions; local variables and sites beside them are renewed."""
        pieces = getattr(rows, "pieces", [(p, None) for p in range(len(self.parts))])
        local, sites = look.locals.apart, look.sites
        parts = [(self.parts[p], share) for p, share in pieces]
        if local is None and sites is None:
            return self.executor.round(partial(_evaluated, look), parts)
        beside = [tuple(None if remote is None else remote.handles[p] for remote in (local, sites)) for p, _ in pieces]
        bare = replace(look, locals=NO_LOCALS, sites=None)
        arguments = [(*part, *own) for part, own in zip(parts, beside, strict=True)]
        (*sums, change), renewed = self.executor.step(partial(_evaluated_with_local, bare), arguments)
        for remote, new in zip((local, sites), renewed, strict=True):
            for (p, _), handle in zip(pieces if remote is not None else [], new):
                remote.handles[p] = handle
        if sites is not None:
            sites.change += change
        return tuple(sums)

    def batches(self, size: int, seed: int, number: int) -> Iterator[tuple[Batch, int, float]]:
        """Batches of pass `number`: shares of a partition, or several small ones, in a shuffled order."""
        lengths = np.diff(self.starts)
        counts = np.maximum(1, np.round(lengths / size).astype(int))
        pieces = [(p, j) for p, count in enumerate(counts) for j in range(count)]
        order = np.random.default_rng([seed, number, 0]).permutation(len(pieces))
        batch: list[tuple[int, PartitionShare | None]] = []
        rows, each = 0, self.total_weight / len(self)
        for i in order:
            p, j = pieces[i]
            share = None if counts[p] == 1 else PartitionShare((seed, number, 0, p + 1), j, int(counts[p]))
            n = len(np.array_split(range(lengths[p]), counts[p])[j])
            if batch and (rows + n > 1.5 * size or share is not None or batch[-1][1] is not None):
                yield Batch(batch), rows, rows * each
                batch, rows = [], 0
            batch.append((p, share))
            rows += n
        yield Batch(batch), rows, rows * each

    def n_streams(self, model: Any, rows: Any) -> int:
        """Upper limit of the number of index streams: the number of rows."""
        return len(self)

    def reduced(self, function: Callable[..., Any], combine: Any = None, beside: Any = None) -> Any:
        """`function` of every partition, with the values of `beside`, combined in a tree."""
        return self.executor.round(function, self._with(beside), combine)

    def cut(self, values: Array) -> RemoteRows:
        """Values per row, which are here, by partition: to be sent beside these."""
        return RemoteRows([values[a:b] for a, b in pairwise(self.starts)])

    def persist(self, function: Callable[[Any], Any]) -> RemoteRows:
        """Results of a function of every partition, stored on the workers."""
        return RemoteRows(self.executor.mapped(function, self._with(None)))

    def mapped(self, function: Callable[..., Any], beside: Any = None) -> Partitioned:
        """Data whose partitions are results of a function of these, stored on the workers."""
        return replace(self, parts=self.executor.mapped(function, self._with(beside)))

    @property
    def handles(self) -> list[Any]:
        """Handles of the partitions, for data that is itself passed as `beside`."""
        return self.parts

    def _with(self, beside: Any) -> list[tuple[Any, ...]]:
        each = [] if beside is None else [beside.handles]
        return list(zip(self.parts, *each, strict=True))

    def take(self, rows: Any) -> Table:
        """A few rows as a table in this process."""
        chosen = range(len(self))[rows] if isinstance(rows, slice) else rows
        chosen = np.asarray(chosen)
        at = np.searchsorted(chosen, self.starts)
        wanted = [(part, chosen[a:b] - start) for part, a, b, start in zip(self.parts, at, at[1:], self.starts)]
        return self.executor.round(Table.take, [pair for pair in wanted if len(pair[1])], Table.concatenated)

    def portion(self, size: int, seed: int) -> Any:
        """About `size` rows, drawn without repeats: in this process where they are few numbers, else on the workers."""
        n, ends = len(self), list(zip(self.starts, self.starts[1:]))
        if size * self.X.shape[1] <= HERE:
            return self.take(parallel.sample(n, size, seed))
        rows = [parallel.sample(n, size, seed, int(a), int(b)) - a for a, b in ends]
        return self._of([(part, own) for part, own in zip(self.parts, rows) if len(own)])

    def _of(self, wanted: list[tuple[Any, Array]]) -> Partitioned:
        """Data of some rows of some partitions, stored on the workers; `wanted`: pairs of a partition and its rows."""
        starts = np.cumsum([0, *(len(rows) for _, rows in wanted)])
        parts = self.executor.mapped(_part, [(*pair, int(start)) for pair, start in zip(wanted, starts)])
        weight = self.executor.round(_weight, [(part,) for part in parts])
        return Partitioned(self.executor, parts, starts, weight, self.X, self.targets)


def _evaluated(look: Any, data: Any, share: PartitionShare | None) -> Any:
    return look(data, slice(0, len(data)) if share is None else share.rows(len(data)))


def _evaluated_with_local(look: Any, data: Any, share: PartitionShare | None, local: Any, sites: Any) -> Any:
    """Sums, and new values of local variables and sites; the old ones are copied, since a task may run twice."""
    own = None if local is None else Locals(local.copy())
    sites = None if sites is None else sites.copy()
    before = 0.0 if sites is None else sites.start_left
    sums = _evaluated(replace(look, locals=NO_LOCALS if own is None else own, sites=sites), data, share)
    change = 0.0 if sites is None else sites.start_left - before
    return (*sums, change), (None if own is None else own.values, sites)


def _part(data: Table, rows: Array, start: int) -> Table:
    return replace(data.take(rows), first=start)


def _weight(data: Table) -> float:
    return data.total_weight


# ---- rows gathered on one worker
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
