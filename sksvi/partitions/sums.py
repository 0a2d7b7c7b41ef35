"""Sums over rows: one function for rows in memory and in partitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sksvi._runtime import parallel
from sksvi.partitions.collections import aligned, drop_zero_weight, in_memory, is_collection
from sksvi.partitions.encoded import named
from sksvi.partitions.executor import Executor


def summed(
    estimator: str,
    function: Callable[..., Any],
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    offset: Any = None,
    combine: Callable[[Any, Any], Any] = parallel.add,
) -> Any:
    """Result of `function(X, y, sample_weight, offset)` for all rows; for a collection, combined over its partitions.

    Parameters
    ----------
    estimator : str
        What errors call it.
    function : callable
        Travels to the workers.
    X, y, sample_weight, offset : arrays, frames or collections
        Of the same rows.
    combine : callable, optional
        Two answers as one.

    Raises
    ------
    ValueError
        Naming the partition: what `function` raises; or a collection without rows.
    """
    if not is_collection(X):
        in_memory(estimator, X, y=y, sample_weight=sample_weight, offset=offset)
        return function(X, y, sample_weight, offset)
    parts = aligned(estimator, X, y=y, sample_weight=sample_weight, offset=offset)
    numbered = [(number, *part) for number, part in enumerate(parts)]
    found = Executor().round(partial(_of_part, function), numbered, partial(_either, combine))
    if found is None:
        what = "" if sample_weight is None else " with a positive sample_weight"
        raise ValueError(f"X has {len(parts)} partitions and no row{what}: at least one is needed.")
    return found


def _of_part(function: Callable[..., Any], number: int, *part: Any) -> Any:
    with named(number):
        rows = drop_zero_weight(*part)
        return function(*rows) if rows[0].shape[0] else None


def _either(combine: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Combine two results, either of which may be None, of a partition without rows."""
    return combine(a, b) if a is not None and b is not None else b if a is None else a
