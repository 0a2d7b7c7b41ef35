"""Chunks of rows, index streams, threads, and the fixed tree that sums what chunks return.

Bits do not depend on the number of threads: chunks have a fixed size, each runs with BLAS held to one thread, and the
partial sums meet in an order that depends on the number of chunks alone.

The number of threads of BLAS belongs to the process. Each restoring what it found would leave, of two that overlap, the
limit of the other, and would change a fit's bits under way. And a count of who is inside is wrong for good once Ctrl-C
hits between a `with` and its first line: so who is inside is derived, from tokens that live as long as their `with`
and, of the thread that asks, from the frames it is in. Frames of other threads change while they are read.

Threads work on chunks side by side only while none of them holds Python's lock. `numpy.dot` lets go of it for every
product; ``@`` keeps it where what comes out is small (fewer than 500 numbers), as a Gram matrix of few columns is, and
SciPy's wrappers of BLAS always do.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress
from functools import cache, lru_cache, reduce
from types import FrameType
from typing import Any

import numpy as np

from sksvi._runtime import memory

# ---- BLAS held to one thread while anyone works, and given back whatever moment an interrupt hits
#: Code whose frames wait while their caller goes on.
SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@cache
def _blas_libraries() -> list[Any]:
    import threadpoolctl

    return [lib for lib in threadpoolctl.ThreadpoolController().lib_controllers if lib.user_api == "blas"]


def _set_threads(numbers: list[int]) -> None:
    """Set the number of threads of every BLAS, past threadpoolctl, which from 3.8 on obeys one thread alone.

    Whoever is last out need not be who was first in, and a fit in a thread needs the limit as one in the main thread.
    """
    for lib, number in zip(_blas_libraries(), numbers, strict=True):
        getattr(lib, "_real_set_num_threads", lib.set_num_threads)(number)


class _Holder:
    """BLAS at one thread and freed memory kept while a token is inside; every step may be interrupted, and repeated."""

    def __init__(self) -> None:
        #: Reentrant: a token may die, and call, while its own thread is in here.
        self._lock = threading.RLock()
        #: Of each token its reference, its thread and the frame of its `with`; None for a generator's, which no thread
        #: need be in.
        self._tokens: dict[int, tuple[weakref.ref[Any], threading.Thread, int | None]] = {}
        self._before: list[int] | None = None
        self._held = False
        #: Threads that no call has at work, by their number: to start them takes as long as a small chunk does.
        self._idle: dict[int, list[ThreadPoolExecutor]] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def enter(self, token: Any, frame: FrameType) -> None:
        """Register a token whose `with` is in this frame, and limit BLAS to one thread."""
        key = id(token)
        with self._lock:
            place = None if frame.f_code.co_flags & SUSPENDED else id(frame)
            reference = weakref.ref(token, lambda dead: self.leave(key, dead))
            self._tokens[key] = reference, threading.current_thread(), place
            if self._before is None:
                self._before = [lib.get_num_threads() for lib in _blas_libraries()]
            if not self._held:
                _set_threads([1] * len(self._before))
                memory.keep_freed()
                self._held = True

    def leave(self, key: int, dead: weakref.ref[Any] | None = None) -> None:
        """Restore the process if this token is the last, and only then remove it, so that a call can be repeated."""
        with self._lock:
            registered = self._tokens.get(key)
            if registered is None or (dead is not None and registered[0] is not dead):
                return
            self._restore_without(key)
            idle, self._idle = ({}, self._idle) if self._held else (self._idle, {})
            self._tokens.pop(key, None)
        for pool in (one for pools in idle.values() for one in pools):  # without the lock, which a dying token asks for
            pool.shutdown()

    def pool(self, threads: int) -> ThreadPoolExecutor:
        """Threads for one call alone: those of an earlier one, or new."""
        with self._lock:
            idle = self._idle.get(threads)
            return idle.pop() if idle else ThreadPoolExecutor(threads)

    def take_back(self, pool: ThreadPoolExecutor, threads: int) -> None:
        """Keep threads that are done for the next call while anyone is inside, else end them."""
        with self._lock:
            if self._held:
                self._idle.setdefault(threads, []).append(pool)
                return
        pool.shutdown()

    def _restore_without(self, key: int | None) -> None:
        for other in [name for name in self._tokens if name != key]:
            if not self._inside(other):
                self._tokens.pop(other, None)
        if self._before is None or any(name != key for name in self._tokens):
            return
        self._held = False
        _set_threads(self._before)
        memory.give_back_freed()
        self._before = None

    def _inside(self, key: int) -> bool:
        """Whether a token's `with` is under way: a traceback that is kept keeps tokens of others alive.

        Those of another thread are found when it works here again, or ends.
        """
        reference, thread, wanted = self._tokens[key]
        if reference() is None or not thread.is_alive():
            return False
        if wanted is None or thread is not threading.current_thread():
            return True
        at: FrameType | None = sys._getframe(1)
        while at is not None and id(at) != wanted:
            at = at.f_back
        return at is not None

    def _forked(self) -> None:
        """Reset after a fork: the child has one thread of its parent's, so no other is inside or holds the lock."""
        self._lock, self._idle = threading.RLock(), {}
        for key in [key for key, (_, thread, _) in self._tokens.items() if thread is not threading.current_thread()]:
            self._tokens.pop(key)
        self._restore_without(None)


_HOLDER = _Holder()


class _Inside:
    """One `with working():`."""

    def __enter__(self) -> None:
        try:
            _HOLDER.enter(self, sys._getframe(1))
        except BaseException:
            _HOLDER.leave(id(self))
            raise

    def __exit__(self, *error: object) -> None:
        try:
            _HOLDER.leave(id(self))
        except BaseException:
            _HOLDER.leave(id(self))
            raise


def working() -> AbstractContextManager[Any]:
    """Hold BLAS to one thread, as our own work on chunks and bits stay the same, and keep what chunks let go."""
    return _Inside()


# ---- products with triangles, without Python's lock
Array = np.ndarray


@lru_cache(2)
def _routine(name: str, number: Any) -> Any:
    """A triangular routine of BLAS, from where SciPy offers it to Cython."""
    from scipy.linalg import cython_blas

    capsules: Mapping[str, object] = cython_blas.__pyx_capi__
    capsule = capsules[name]
    signature, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    size = ctypes.POINTER(ctypes.c_int)
    kinds = [ctypes.c_char_p] * 4 + [size, size, ctypes.POINTER(number), ctypes.c_void_p, size, ctypes.c_void_p, size]
    return ctypes.CFUNCTYPE(None, *kinds)(pointer(capsule, signature(capsule)))


def times_triangle(A: Array, root: Array) -> Array:
    """A Cᵀ for the lower triangle C of `root`: half the work of a product of full matrices.

    Parameters
    ----------
    A : ndarray of shape (n, P), of floats or doubles
    root : ndarray of shape (P, P)

    Returns
    -------
    ndarray of shape (n, P)
    """
    out = np.array(A, order="C")
    triangle = np.ascontiguousarray(root, A.dtype)
    n, size = out.shape
    if n and size:
        kind, number = ("s", ctypes.c_float) if A.dtype == np.float32 else ("d", ctypes.c_double)
        width, rows, one = ctypes.c_int(size), ctypes.c_int(n), number(1.0)
        # In the order of Fortran these are the transposed triangle, an upper one, and Aᵀ.
        given = width, rows, one, triangle.ctypes.data, width, out.ctypes.data, width
        _routine(f"{kind}trmm", number)(b"L", b"U", b"T", b"N", *given)
    return out


# ---- chunks, streams, threads, sums
#: Numbers in a dense chunk of rows: 1 MB, for a cache of the second level; smaller ones cost more in calls.
CHUNK_NUMBERS = 2**17


def chunk_rows(width: int, full: bool) -> int:
    """Number of rows of a dense chunk: it fits the cache, and costs more than adding up a full Gram matrix, if any."""
    rows = min(max(CHUNK_NUMBERS // max(width, 1), 64), 8192)
    return max(rows, min(width, 4096)) if full else rows


def slices(n: int, size: int) -> list[slice]:
    """0..n in slices of `size` rows."""
    return [slice(start, min(start + size, n)) for start in range(0, max(n, 1), size)]


def parts_of(rows: Array | slice, size: int) -> list[Any]:
    """Rows in parts of `size`: slices of a slice."""
    if isinstance(rows, slice):
        return [slice(rows.start + p.start, rows.start + p.stop) for p in slices(rows.stop - rows.start, size)]
    return [rows[part] for part in slices(len(rows), size)]


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
    pool, ahead = _HOLDER.pool(threads), 2 * threads
    waiting = [pool.submit(function, item) for item in items[:ahead]]
    try:
        for i in range(len(items)):
            result = waiting[i].result()
            waiting[i] = None  # type: ignore[call-overload]
            if i + ahead < len(items):
                waiting.append(pool.submit(function, items[i + ahead]))
            yield result
    finally:
        wait([future for future in waiting if future is not None and not future.cancel()])
        _HOLDER.take_back(pool, threads)


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


class _Tree:
    """Pairwise sum of numbered results in an order of their numbers alone, whoever brings them in which order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Sums that wait for their neighbour, by level and number in it: log2(number of results) of one thread's.
        self._waiting: dict[tuple[int, int], Any] = {}

    def add(self, number: int, result: Any) -> None:
        """Add a result, and what it completes; the results of a pair are added by whoever brings the second."""
        level = 0
        while True:
            with self._lock:
                if (level, number ^ 1) not in self._waiting:
                    self._waiting[level, number] = result
                    return
                other = self._waiting.pop((level, number ^ 1))
            result = add(other, result) if number % 2 else add(result, other)
            level, number = level + 1, number // 2

    def total(self) -> Any:
        """The sum of all results, of which there is one or more."""
        return reduce(lambda low, high: add(high, low), (self._waiting[at] for at in sorted(self._waiting)))


def tree_sum(results: Iterable[Any]) -> Any:
    """Pairwise sum in a fixed order, holding log2(number of results) partial sums at most."""
    tree = _Tree()
    for number, result in enumerate(results):
        tree.add(number, result)
    return tree.total()


#: Parts of a sum for each thread: fewer leave threads idle at the end, more cost in calls.
PARTS_EACH = 4


def summed(function: Callable[[Any], Any], items: list[Any], threads: int) -> Any:
    """`tree_sum` of function(item) over the items; threads add up whole branches of the tree, which is the same."""
    if threads <= 1 or len(items) <= 1:
        return tree_sum(map(function, items))
    size = 1 << max(0, (len(items) // (PARTS_EACH * threads)).bit_length() - 1)
    left, tree, failed = deque(enumerate(slices(len(items), size))), _Tree(), {}

    def work() -> None:
        with suppress(IndexError):  # none is left
            while left:
                number, part = left.popleft()
                try:
                    tree.add(number, tree_sum(map(function, items[part])))
                except BaseException as error:
                    failed[number] = error
                    left.clear()

    pool = _HOLDER.pool(threads)
    workers = [pool.submit(work) for _ in range(min(threads, len(left)))]
    try:
        wait(workers)
    finally:  # also of an interrupt
        left.clear()
        wait(workers)
        _HOLDER.take_back(pool, threads)
    if failed:
        try:
            raise failed[min(failed)]
        finally:  # frames of its traceback know `failed`: they and their arrays would stay until cycles are collected
            failed.clear()
    return tree.total()


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
