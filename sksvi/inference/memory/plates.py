"""Memory of plates, plate by plate: how often each has moved, the weight of its data so far, AdaGrad's sums."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass
class PlateMemory:
    """Memory of the plates of one side.

    clock (P,): steps that each plate has taken. seen (P,): weight of its data so far. rule: what the
    side's rule remembers, arrays of P rows, or None.
    """

    LAYOUT = """
        clock (n) i >=0; seen (n) f >=0
        rule? where all(len(a) == n for a in getattr(it, '__dict__', {}).values() if isinstance(a, np.ndarray))
    """

    clock: Array
    seen: Array
    rule: Any = None

    @classmethod
    def empty(cls, n: int, rule: Any = None) -> PlateMemory:
        """Memory of n plates that no data have informed yet."""
        return cls(np.zeros(n, np.int64), np.zeros(n), rule)

    def copy(self) -> PlateMemory:
        """A copy with arrays of its own."""
        return PlateMemory(self.clock.copy(), self.seen.copy(), copy.deepcopy(self.rule))

    def of(self, plates: Any) -> PlateMemory:
        """Memory of some plates alone."""
        return PlateMemory(self.clock[plates], self.seen[plates], chosen(self.rule, plates))

    def faded(self, share: float) -> PlateMemory:
        """Memory with a share of the weight of earlier data, and of a rule's sums."""
        rule = self.rule.faded(share) if hasattr(self.rule, "faded") else self.rule
        return replace(self, seen=share * self.seen, rule=rule)

    def lengthened(self, new: Any) -> PlateMemory:
        """Memory with empty entries for the plates of the block `new` at its end."""
        n = new.n_plates
        clock = np.concatenate([self.clock, np.zeros(n, self.clock.dtype)])
        return PlateMemory(clock, np.concatenate([self.seen, np.zeros(n)]), lengthened(self.rule, new))


def _arrays(memory: Any) -> dict[str, Array]:
    """Arrays of a rule's memory by name."""
    if not is_dataclass(memory):
        return {}
    return {f.name: a for f in fields(memory) if isinstance(a := getattr(memory, f.name), np.ndarray)}


def chosen(memory: Any, plates: Any) -> Any:
    """A rule's memory of some plates."""
    arrays = _arrays(memory)
    return replace(memory, **{name: a[plates] for name, a in arrays.items()}) if arrays else memory


def put(memory: Any, plates: Any, rows: Any) -> None:
    """Write a rule's sums of some plates."""
    for name, a in _arrays(memory).items():
        a[plates] = getattr(rows, name)


def lengthened(memory: Any, new: Any) -> Any:
    """A rule's memory with empty entries for new plates at its end."""
    arrays, n = _arrays(memory), new.n_plates
    if not arrays:
        return memory
    own = {"unit": new.root} if "unit" in arrays else {}
    longer = {name: np.concatenate([a, own.get(name, np.zeros((n, *a.shape[1:])))]) for name, a in arrays.items()}
    return replace(memory, **longer)
