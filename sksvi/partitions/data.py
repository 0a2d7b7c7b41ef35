"""Rows in partitions, with the verbs of data: what is asked of them is asked where they lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from sksvi import _parallel
from sksvi.models.base import Table
from sksvi.partitions.executor import Executor

Array = np.ndarray


@dataclass(frozen=True)
class Columns:
    """The shape of a design that lies elsewhere."""

    shape: tuple[int, int]
    dtype: Any


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
    X: Columns
    targets: Table
    at_hand: ClassVar[bool] = False

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def y(self) -> Array:
        """Every value that a target has, or those of a sample."""
        return self.targets.y

    # ---- verbs
    def seen(self, look: Callable[[Any, Any], Any], rows: Any) -> Any:
        """What a look at all rows says, summed over partitions."""
        return self.reduced(partial(_whole, look))

    def n_streams(self, model: Any, rows: Any) -> int:
        """No more than rows."""
        return len(self)

    def reduced(self, function: Callable[..., Any], combine: Any = None, beside: Any = None) -> Any:
        """`function` of every partition, with what was kept beside it, combined in a tree."""
        return self.executor.round(function, self._with(beside), combine)

    def held(self, function: Callable[..., Any], beside: Any = None) -> list[Any]:
        """What a function says of every partition, kept where it lies."""
        return self.executor.kept(function, self._with(beside))

    def _with(self, beside: Any) -> list[tuple[Any, ...]]:
        return [(part,) for part in self.parts] if beside is None else list(zip(self.parts, beside, strict=True))

    def take(self, rows: Any) -> Table:
        """A few rows, brought here."""
        chosen = range(len(self))[rows] if isinstance(rows, slice) else rows
        chosen = np.asarray(chosen)
        at = np.searchsorted(chosen, self.starts)
        wanted = [(part, chosen[a:b] - start) for part, a, b, start in zip(self.parts, at, at[1:], self.starts)]
        return self.executor.round(Table.take, [pair for pair in wanted if len(pair[1])], Table.joined)  # type: ignore[no-any-return]

    def portion(self, size: int, seed: int) -> Partitioned:
        """About `size` rows, drawn without repeats; they are kept where they lie."""
        n, ends = len(self), list(zip(self.starts, self.starts[1:]))
        rows = [_parallel.sample(n, size, seed, int(a), int(b)) - a for a, b in ends]
        return self._of([(part, own) for part, own in zip(self.parts, rows) if len(own)])

    def _of(self, wanted: list[tuple[Any, Array]]) -> Partitioned:
        """These rows of these partitions, kept where they lie."""
        starts = np.cumsum([0, *(len(rows) for _, rows in wanted)])
        parts = self.executor.kept(_part, [(*pair, int(start)) for pair, start in zip(wanted, starts)])
        weight = self.executor.round(_weight, [(part,) for part in parts])
        return Partitioned(self.executor, parts, starts, weight, self.X, self.targets)


def _whole(look: Callable[[Any, Any], Any], data: Any) -> Any:
    return look(data, slice(0, len(data)))


def _part(data: Table, rows: Array, start: int) -> Table:
    from dataclasses import replace

    return replace(data.take(rows), first=start)


def _weight(data: Table) -> float:
    return data.total_weight
