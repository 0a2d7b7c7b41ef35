"""Chunks of rows, index streams, threads, and the fixed tree that sums what chunks return.

Bits do not depend on the number of threads: chunks have a fixed size, each runs with BLAS held to one thread, and the
partial sums meet in an order that depends on the number of chunks alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any

import numpy as np

from sksvi._runtime.one_thread import working as working

Array = np.ndarray

#: Numbers in a dense chunk of rows: 4 MB; smaller ones cost more in calls than the cache gives back.
CHUNK_NUMBERS = 2**19


def chunk_rows(width: int, full: bool) -> int:
    """Number of rows of a dense chunk: it fits the cache, and costs more than adding up a full Gram matrix, if any."""
    rows = int(np.clip(CHUNK_NUMBERS // max(width, 1), 64, 8192))
    return max(rows, min(width, 4096)) if full else rows


def slices(n: int, size: int) -> list[slice]:
    """0..n in slices of `size` rows."""
    return [slice(start, min(start + size, n)) for start in range(0, max(n, 1), size)]


def n_threads(n_jobs: int | None) -> int:
    """Threads for `n_jobs`; None: as many as OpenMP may use here."""
    if n_jobs is None:
        from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

        return int(_openmp_effective_n_threads())
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


def in_order(function: Callable[[Any], Any], items: list[Any], threads: int) -> Iterator[Any]:
    """function(item) for every item, in order, at most two results per thread waiting."""
    if threads <= 1 or len(items) <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        ahead = 2 * threads
        waiting = [pool.submit(function, item) for item in items[:ahead]]
        for i in range(len(items)):
            result = waiting[i].result()
            waiting[i] = None  # type: ignore[call-overload]
            if i + ahead < len(items):
                waiting.append(pool.submit(function, items[i + ahead]))
            yield result


def add(a: Any, b: Any) -> Any:
    """Sum of two nested results (dicts, tuples, arrays, numbers); `a` may be overwritten."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, dict):
        return {key: add(a[key], b[key]) for key in a}
    if isinstance(a, tuple):
        return tuple(add(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) and a.flags.writeable and a.dtype == np.result_type(a, b):
        return np.add(a, b, out=a)
    return a + b


def tree_sum(results: Iterable[Any]) -> Any:
    """Pairwise sum in a fixed order, holding log2(number of results) partial sums at most."""
    levels: list[Any] = []
    for result in results:
        level = 0
        while level < len(levels) and levels[level] is not None:
            result, levels[level] = add(levels[level], result), None
            level += 1
        if level == len(levels):
            levels.append(None)
        levels[level] = result
    left = [partial for partial in levels if partial is not None]
    return reduce(lambda low, high: add(high, low), left)


def end_to_end(a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
    """Each array followed by its counterpart."""
    return tuple(np.concatenate(pair) for pair in zip(a, b, strict=True))


def scaled(gradient: Any, scale: float) -> Any:
    """N/B times a gradient: a batch blown up to the population."""
    if scale == 1.0 or gradient is None:
        return gradient
    if isinstance(gradient, dict):
        return {key: scaled(part, scale) for key, part in gradient.items()}
    if isinstance(gradient, tuple):
        return tuple(scaled(part, scale) for part in gradient)
    return gradient * scale


def shuffled(n: int, size: int, seed: int, pass_number: int) -> list[Array]:
    """One pass over n rows in batches of `size` (the last may be smaller), a permutation per pass."""
    order = np.random.default_rng([seed, pass_number, 0]).permutation(n)
    return [np.sort(order[part]) for part in slices(n, size)]


#: Rows among which a sample is drawn at a time, so that whoever holds a part of the rows can draw its share.
SAMPLE_BLOCK = 2**16


def sample(n: int, size: int, seed: int, start: int = 0, stop: int | None = None) -> Array:
    """Sorted sample of about `size` of n rows without repeats, a share of each block; those from start to stop."""
    stop, found = n if stop is None else stop, [np.zeros(0, np.intp)]
    for block in range(start // SAMPLE_BLOCK, -(-stop // SAMPLE_BLOCK)):
        low, high = block * SAMPLE_BLOCK, min((block + 1) * SAMPLE_BLOCK, n)
        share = high * size // n - low * size // n
        rows = low + np.sort(np.random.default_rng([seed, 0, 2, block]).choice(high - low, share, replace=False))
        found.append(rows[(rows >= start) & (rows < stop)])
    return np.concatenate(found)


#: Numbers up to which an order of all of them is drawn for the sake of a few.
ALL_IN_ORDER = 2**20


def few(n: int, size: int, rng: np.random.Generator) -> Array:
    """At most `size` of n numbers without repeats, in random order."""
    return rng.permutation(n)[:size] if n <= max(ALL_IN_ORDER, size) else rng.choice(n, size, replace=False)


def stream(seed: int, step: int, chunk: int) -> np.random.Generator:
    """The random numbers of one chunk of rows at one step, whoever computes it."""
    return np.random.default_rng([seed, step, chunk, 1])
