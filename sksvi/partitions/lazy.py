"""Predictions and sums of rows wherever they lie; for Dask collections one task per partition.

Predictions are lazy, with the frame's index and names; a sum is of rows in memory or over partitions.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from functools import partial, wraps
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sksvi._runtime import parallel
from sksvi._runtime.user import check_seed
from sksvi._typing.arrays import is_sparse
from sksvi.partitions.collections import aligned, drop_zero_weight, in_memory, is_collection, like, partitions
from sksvi.partitions.encoded import named
from sksvi.partitions.executor import Broadcast, Executor, run_broadcast

if TYPE_CHECKING:
    from dask.typing import Key


# ---- predictions
Array = np.ndarray

#: Methods whose answer has a row for each row of X.
BY_ROW = (
    "predict predict_proba predict_log_proba predict_latent predict_quantiles predict_interval decision_function "
    "sample_y log_predictive_density transform inverse_transform score_samples impute reconstruct "
    "proportion_interval importance_score transform_draws recommend"
).split()
#: Where an answer has its rows, if not on the first axis.
ROW_AXIS = {"transform_draws": 1}
#: Those that answer a row by a table of several rows, with an index of its own.
TABLES = ("recommend",)


def over_partitions(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a method of rows that returns a Dask collection when it is given one."""
    first = list(inspect.signature(method).parameters)[1]

    @wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        X = args[0] if args else kwargs.get(first)
        return lazily(self, method, args, kwargs) if is_collection(X) else method(self, *args, **kwargs)

    return wrapped


def at_hand(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a method that refuses Dask collections, by an error that names the argument.

    Raises
    ------
    TypeError
    """
    names = list(inspect.signature(method).parameters)[1:]

    @wraps(method)
    def of_arrays(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name, values in (*zip(names, args), *kwargs.items()):
            if is_collection(values):
                what = f"{name} of {method.__name__} is a Dask collection"
                raise TypeError(
                    f"{type(self).__name__} takes no Dask collection here, and {what}: give it {name}.compute()."
                )
        return method(self, *args, **kwargs)

    return of_arrays


def lazily(estimator: Any, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Collection of the results of a method for every partition of its first argument; other collections align.

    Raises
    ------
    ValueError
        Collections whose partitions differ in number.
    """
    from dask import delayed

    given = inspect.signature(method).bind(estimator, *args, **kwargs)
    name, arguments = method.__name__, dict(list(given.arguments.items())[1:])
    first, X = next(iter(arguments.items()))
    parts = {first: partitions(X, first)}
    for other, values in arguments.items():
        if other != first and is_collection(values):
            parts[other] = partitions(like(values, X, other, first), other)
            if len(parts[other]) != len(parts[first]):
                found = f"{other} has {len(parts[other])} partitions and {first} has {len(parts[first])}"
                raise ValueError(f"{found}: repartition one like the other.")
    seeds = seeds_of(arguments, len(parts[first]))
    fixed = {key: value for key, value in arguments.items() if key not in parts}
    caller = Answer(travelling(estimator), method, fixed)
    shape = trial(caller, X, parts)
    node = delayed(Broadcast(caller.for_rows(shape)), pure=False, traverse=False)
    task = delayed(run_broadcast, pure=False)
    rows = [dict(zip(parts, each, strict=True)) for each in zip(*parts.values(), strict=True)]
    tasks = [task(node, i, seeds[i], own) for i, own in enumerate(rows)]
    if not isinstance(shape, tuple):
        return collected(estimator, name, arguments, X, tasks, shape)
    pick = delayed(_item, pure=False)
    each = ([pick(part, k) for part in tasks] for k in range(len(shape)))
    return tuple(collected(estimator, name, arguments, X, one, like) for one, like in zip(each, shape, strict=True))


def added(estimator: Any, name: str, X: Any, *args: Any) -> Any:
    """Result of a method that sums over rows, one number or several; for a collection the sum over its partitions."""
    if not is_collection(X):
        return getattr(estimator, name)(X, *args)
    parts = [(number, part) for number, part in enumerate(partitions(X, "X"))]
    found = Executor().round(PartialScore(travelling(estimator), name, args), parts)
    if found is None:
        raise ValueError(f"X has {len(parts)} partitions and no row: {type(estimator).__name__} needs one at least.")
    return found


class PartialScore:
    """Task that returns the contribution of one partition to a sum, or None where it has no rows.

    Parameters
    ----------
    estimator : estimator
    name : str
        Of a method.
    args : tuple
        What it takes besides rows.
    """

    def __init__(self, estimator: Any, name: str, args: tuple[Any, ...]) -> None:
        self.estimator, self.name, self.args = estimator, name, args

    def __call__(self, number: int, X: Any) -> Any:
        with named(number):
            return getattr(self.estimator, self.name)(X, *self.args) if X.shape[0] else None


class Answer:
    """Task that returns the result of a method for one partition, in the type that all of them have.

    Parameters
    ----------
    estimator : estimator
    method : function
    fixed : dict
        Arguments that are the same for all partitions.
    """

    def __init__(self, estimator: Any, method: Callable[..., Any], fixed: dict[str, Any]) -> None:
        self.estimator, self.name, self.fixed = estimator, method.__name__, fixed
        self.shape: Any = None

    def for_rows(self, shape: Any) -> Answer:
        """Copy of the task with `shape`, the result for no rows, which empty partitions return."""
        new = copy.copy(self)
        new.shape = shape
        return new

    def __call__(self, number: int, seed: int | None, rows: dict[str, Any]) -> Any:
        with named(number):
            X = next(iter(rows.values()))
            if not X.shape[0]:
                return self.shape
            fixed = self.fixed if seed is None else {**self.fixed, "random_state": seed}
            found = getattr(self.estimator, self.name)(**rows, **fixed)
            if self.name in TABLES:
                return found.infer_objects()  # Dask makes strings of objects that are numbers
            return found if not isinstance(found, list) else tuple(found)


def travelling(estimator: Any) -> Any:
    """Copy of the estimator for workers, without callbacks and without what its state stores per training row."""
    new = copy.copy(estimator)
    vars(new).pop("_skl_callbacks", None)
    if hasattr(new, "state_"):
        new.state_ = new.state_.without_history
    return new


def seeds_of(arguments: dict[str, Any], n: int) -> list[int | None]:
    """A seed for every partition from `random_state`, which is removed; None where the method draws nothing."""
    if "random_state" not in arguments:
        return [None] * n
    rng = check_seed(arguments.pop("random_state"))
    return [int(seed) for seed in rng.randint(np.iinfo(np.int32).max, size=n)]


def trial(caller: Answer, X: Any, parts: dict[str, list[Any]]) -> Any:
    """Result of a task for no rows, from that for made-up ones, or for a partition where the fit refuses those."""
    axis = ROW_AXIS.get(caller.name, 0)
    try:
        if len(parts) > 1:
            raise ValueError("targets are not made up")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = caller(0, None, {next(iter(parts)): made_up(X)})
    except (KeyError, TypeError, ValueError):
        found = first_answer(caller, parts)
    return tuple(_empty(one, axis) for one in found) if isinstance(found, tuple) else _empty(found, axis)


def first_answer(caller: Answer, parts: dict[str, list[Any]]) -> Any:
    """Result of a task for the first partition that has rows."""
    first, executor = next(iter(parts)), Executor()
    for number in range(len(parts[first])):
        found = executor.round(caller, [(number, None, {name: part[number] for name, part in parts.items()})])
        if found is not None:
            return found
    raise ValueError(f"{first} has {len(parts[first])} partitions and no row: {caller.name} needs one at least.")


def made_up(X: Any) -> Any:
    """Two made-up rows with the columns and types of a collection."""
    if hasattr(X, "_meta_nonempty"):
        return X._meta_nonempty
    rows = np.ones((2, *X.shape[1:]), X.dtype)
    return sp.csr_matrix(rows) if is_sparse(X._meta) else rows


def collected(estimator: Any, name: str, arguments: dict[str, Any], X: Any, parts: list[Any], shape: Any) -> Any:
    """Results of all partitions as a collection of the kind of X."""
    import dask.dataframe as dd
    from dask import delayed

    if not hasattr(shape, "iloc") and (hasattr(X, "chunks") or shape.ndim > 2):
        rows = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(parts)  # a frame has two dimensions
        return end_to_end(name, parts, rows, shape)
    if name in TABLES:
        numbers = getattr(estimator, "_row_numbers", None)
        if numbers is not None and hasattr(X, "chunks"):
            numbered = delayed(_numbered, pure=False)
            parts = [numbered(part, numbers, first) for part, first in zip(parts, first_rows(X), strict=True)]
        return dd.from_delayed(parts, meta=shape, verify_meta=False)
    meta = shape if hasattr(shape, "iloc") else as_frame(shape, X._meta.index, column_names(estimator, name, arguments))
    framed = delayed(as_frame, pure=False)
    if not hasattr(shape, "iloc"):
        names = column_names(estimator, name, arguments)
        parts = [framed(part, rows.index, names) for part, rows in zip(parts, partitions(X, "X"), strict=True)]
    divisions = tuple(X.divisions) if hasattr(X, "divisions") and X.known_divisions else None
    return dd.from_delayed(parts, meta=meta, divisions=divisions, verify_meta=False)


def end_to_end(name: str, parts: list[Any], rows: Any, shape: Any) -> Any:
    """Array whose chunks are the results, also those without rows, which `dask.array.concatenate` leaves out."""
    import dask.array as da
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    axis = ROW_AXIS.get(name, 0)
    before, after = shape.shape[:axis], shape.shape[axis + 1 :]
    blocks = [da.from_delayed(part, (*before, n, *after), meta=shape) for part, n in zip(parts, rows, strict=True)]
    origin = (0,) * shape.ndim
    whole = f"{name}-{tokenize([block.name for block in blocks])}"
    keys: dict[Key, Any] = {
        (whole, *origin[:axis], i, *origin[axis + 1 :]): (block.name, *origin) for i, block in enumerate(blocks)
    }
    graph = HighLevelGraph.from_collections(whole, keys, dependencies=blocks)
    chunks = (*((n,) for n in before), tuple(rows), *((n,) for n in after))
    return da.Array(graph, whole, chunks, meta=shape)


def first_rows(X: Any) -> list[Any]:
    """Index of the first row of every chunk of an array; delayed where the sizes of chunks are unknown."""
    from dask import delayed

    sizes = X.chunks[0]
    if np.isnan(sum(sizes)):
        length = delayed(_length, pure=False)
        sizes = [length(part) for part in partitions(X, "X")]
    return list(accumulate(sizes[:-1], initial=0))


def as_frame(values: Any, index: Any, names: Any) -> Any:
    """Results as a Series or DataFrame with the index of their rows."""
    import pandas as pd

    if np.ndim(values) == 1:
        return pd.Series(values, index=index)
    columns = names if names is not None and len(names) == values.shape[1] else range(values.shape[1])
    values = values.toarray() if is_sparse(values) else values
    return pd.DataFrame(values, index=index, columns=list(columns))


def column_names(estimator: Any, name: str, arguments: dict[str, Any]) -> list[Any] | None:
    """Names of the columns of a result; None: they are numbered."""
    if name in ("predict_proba", "predict_log_proba", "decision_function"):
        found = getattr(estimator, "classes_", getattr(estimator, "levels_", None))
        return None if found is None else list(found)
    if name == "predict_interval":
        return ["lower", "upper"]
    if name == "predict_quantiles":
        return [float(q) for q in np.atleast_1d(arguments["q"])]
    if name == "transform" and hasattr(estimator, "get_feature_names_out"):
        return list(estimator.get_feature_names_out())
    return None


def _item(values: Any, k: int) -> Any:
    return values[k]


def _length(rows: Any) -> int:
    return int(rows.shape[0])


def _numbered(table: Any, column: str, first: int) -> Any:
    """Add the index of the first row to the column of row indices of a table."""
    return table.assign(**{column: table[column] + first})


def _empty(values: Any, axis: int) -> Any:
    """Result without its rows, of the same type."""
    return values.iloc[:0] if hasattr(values, "iloc") else values[(slice(None),) * axis + (slice(0),)]


# ---- sums
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
