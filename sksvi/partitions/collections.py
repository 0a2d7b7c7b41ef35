"""Dask arrays, frames and series as rows in partitions, each with its target, weights and offset."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from sksvi._typing.arrays import is_sparse

#: What may be one number for all rows.
ONE_FOR_ALL = ("sample_weight", "offset")


def is_collection(X: Any) -> bool:
    """Whether X is a Dask array, DataFrame or Series."""
    return hasattr(X, "__dask_graph__") and (hasattr(X, "npartitions"))


def a_kind(values: Any) -> str:
    """Name of the type of `values` with its indefinite article."""
    kind = type(values).__name__
    return f"an {kind}" if kind[0] in "aeiouAEIOU" or kind == "ndarray" else f"a {kind}"


def in_memory(estimator: str, X: Any, **beside: Any) -> None:
    """Raise where X is in memory and another argument is a Dask collection.

    Raises
    ------
    TypeError
        Naming the parameter.
    """
    for name, values in beside.items():
        if is_collection(values):
            raise TypeError(
                f"{name} is a Dask collection and X is {a_kind(X)}: give {estimator} both as collections of the same "
                f"partitions, or both in memory ({name}.compute())."
            )


def aligned(estimator: str, X: Any, **beside: Any) -> list[tuple[Any, ...]]:
    """List of (X, y, sample_weight, offset) of every partition as delayed objects; None stays None.

    Raises
    ------
    TypeError
        A part of the rows that is no collection.
    ValueError
        Naming the parameter whose partitions are others than those of X.
    """
    parts = [partitions(X, "X")]
    for name, values in beside.items():
        if values is None or (name in ONE_FOR_ALL and isinstance(values, Real)):
            parts.append([values] * len(parts[0]))
            continue
        if not is_collection(values):
            raise TypeError(
                f"X is a Dask collection and {name} is {a_kind(values)}: give {estimator} both as collections "
                f"of the same partitions, such as dask.array.from_array({name}, chunks=...)."
            )
        parts.append(partitions(like(values, X, name), name))
        if len(parts[-1]) != len(parts[0]):
            raise ValueError(
                f"{name} has {len(parts[-1])} partitions and X has {len(parts[0])}: repartition one like the other."
            )
    return list(zip(*parts, strict=True))


def like(values: Any, X: Any, name: str, given: str = "X") -> Any:
    """Rechunk an array to the rows of the chunks of X, where both know theirs.

    Raises
    ------
    ValueError
        Other numbers of rows.
    """
    own, chunks = getattr(values, "chunks", None), getattr(X, "chunks", None)
    if own is None or chunks is None or own[0] == chunks[0] or np.isnan(sum(own[0]) + sum(chunks[0])):
        return values
    if sum(own[0]) != sum(chunks[0]):
        found = f"{name} has {sum(own[0])} rows and {given} has {sum(chunks[0])}"
        raise ValueError(f"{found}: both must hold the same rows.")
    return values.rechunk({0: chunks[0]})


def partitions(values: Any, name: str) -> list[Any]:
    """List of the partitions of a collection as delayed objects, of whole rows each."""
    if hasattr(values, "chunks"):
        if values.ndim not in (1, 2):
            raise ValueError(f"{name} has {values.ndim} dimensions, and must be a table or a column.")
        values = values.rechunk({1: -1}) if values.ndim == 2 and values.numblocks[1] > 1 else values
        return list(values.to_delayed().ravel())
    # Dask's other optimisations join the files of a few columns, X in one way and y in another.
    return list(values.simplify().to_delayed(optimize_graph=False))


def drop_zero_weight(X: Any, y: Any, weight: Any, offset: Any) -> tuple[Any, Any, Any, Any]:
    """The rows of a partition without those of weight zero, aligned in memory; none may be left.

    Raises
    ------
    ValueError
        Parts of different lengths.
    """
    n = X.shape[0]
    for name, values in (("y", y), ("sample_weight", weight), ("offset", offset)):
        if values is not None and not isinstance(values, Real) and len(values) != n:
            raise ValueError(f"X has {n} rows and {name} has {len(values)}: both must hold the same rows.")
    X, y, weight, offset = (at_whole_numbers(part) for part in (X, y, weight, offset))
    if not n or np.ndim(weight) != 1:
        return X, y, weight, offset
    keep = np.flatnonzero(np.asarray(weight) != 0)
    if len(keep) == n:
        return X, y, weight, offset
    return tuple(part if np.ndim(part) == 0 else _rows(part, keep) for part in (X, y, weight, offset))


def at_whole_numbers(values: Any) -> Any:
    """Copy rows whose buffers are not aligned in memory, as they arrive by wire: NumPy sums such in another order.

    What comes from a worker begins at any byte, what was made here does not, and both are to have the same bits.
    """
    if hasattr(values, "iloc"):
        columns = [values] if values.ndim == 1 else [values.iloc[:, j] for j in range(values.shape[1])]
        numbers = (column.to_numpy() for column in columns if isinstance(column.dtype, np.dtype))
        return values if all(column.flags.aligned for column in numbers) else values.copy()
    if is_sparse(values):
        return values if getattr(values, "data", np.empty(0)).flags.aligned else values.copy()
    return np.require(values, requirements="A") if isinstance(values, np.ndarray) else values


def _rows(values: Any, keep: Any) -> Any:
    return values.iloc[keep] if hasattr(values, "iloc") else (values.tocsr() if is_sparse(values) else values)[keep]
