"""What an algorithm remembers of plates (clocks, weights seen, AdaGrad's sums), plate by plate."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

Array = np.ndarray


def _arrays(memory: Any) -> dict[str, Array]:
    """AdaGrad's sums by name."""
    return {f.name: a for f in fields(memory) if isinstance(a := getattr(memory, f.name), np.ndarray)}


def chosen(memory: Any, plates: Any) -> Any:
    """The memory of some plates."""
    if memory is None or isinstance(memory, np.ndarray):
        return None if memory is None else memory[plates]
    return replace(memory, **{name: a[plates] for name, a in _arrays(memory).items()})


def put(memory: Any, plates: Any, rows: Any) -> None:
    """Write AdaGrad's sums of some plates."""
    for name, a in _arrays(memory).items():
        a[plates] = getattr(rows, name)


def lengthened(memory: Any, new: Any) -> Any:
    """The memory with nothing yet of new plates, a block of Gaussians."""
    if memory is None:
        return None
    n = len(new)
    if isinstance(memory, np.ndarray):
        return np.concatenate([memory, np.zeros(n, memory.dtype)])
    own = {"unit": new.root}
    longer = {
        name: np.concatenate([a, own.get(name, np.zeros((n, *a.shape[1:])))]) for name, a in _arrays(memory).items()
    }
    return replace(memory, **longer)
