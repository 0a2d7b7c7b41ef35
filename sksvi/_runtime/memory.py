"""Memory before work: what is too large is refused before it is allocated, with what it needs and what to change.

And within work: what a chunk of rows let go is there for the next chunk, and rows are appended to arrays, a few at a
time, without a copy of all that is there for each of them.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

#: Bytes that nobody is asked about.
SMALL = 2**26


def available() -> float:
    """Bytes that a process can still get: of the machine and, where one is set, of its control group and its limit."""
    return min(_of_machine(), _of_group(), _of_process())


def need(size: float, what: str, remedy: str) -> None:
    """Raise where an array of `size` bytes exceeds the memory that is available.

    Parameters
    ----------
    size : float
        Bytes.
    what : str
        What needs them, with its dimensions.
    remedy : str
        Which parameter to change, as an order.

    Raises
    ------
    ValueError
    """
    if size <= SMALL:
        return
    there = available()
    if size > there:
        raise ValueError(
            f"{what} needs {size / 2**30:.3g} GiB of memory, and {there / 2**30:.3g} GiB are available: {remedy}."
        )


def array_bytes(thing: Any) -> int:
    """Total size, in bytes, of all arrays in an object, a dict, a list or a tuple, however deeply nested."""
    if hasattr(thing, "nbytes"):
        return int(thing.nbytes)
    parts = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, tuple | list) else None
    return sum(map(array_bytes, getattr(thing, "__dict__", {}).values() if parts is None else parts))


class Weighed:
    """Base of objects that report the size of their arrays, by which Dask places tasks, moves them and spills."""

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + array_bytes(vars(self))


def _of_machine() -> float:
    """Free bytes of the machine: on Linux with what caches would give back, elsewhere free pages; else infinity."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
        return float(os.sysconf("SC_AVPHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return float("inf")


def _of_group() -> float:
    """Bytes that a control group, as containers have one, leaves of its limit; its page cache counts as free."""
    for folder, most, used, cache in (
        ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            limit, current = (float((Path(folder) / name).read_text()) for name in (most, used))
            lines = (Path(folder) / "memory.stat").read_text().splitlines()
        except (OSError, ValueError):  # no such group, or "max"
            continue
        free = sum(float(line.split()[1]) for line in lines if line.startswith(f"{cache} "))
        return max(0.0, limit - current + free)
    return float("inf")


def _of_process() -> float:
    """Bytes left of a limit on the address space, as ``ulimit -v`` and queues of clusters set one."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return float("inf")
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError, AttributeError):  # no such limits, or nobody says what is mapped
        return float("inf")
    return max(0.0, float(limit) - mapped)


#: Bytes up to which glibc keeps what was let go, and up to which an array comes from what it keeps (its largest).
TRIM_BYTES, MMAP_BYTES = 2**28, 2**25
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt(3)


def keep_freed() -> None:
    """Keep freed memory in the process, for the next chunk of rows, also where the environment returns it at once.

    Dask's workers run under ``MALLOC_TRIM_THRESHOLD_=65536``, so that partitions that are let go are seen to go; every
    temporary of every chunk is fetched from the system anew there, which makes a fit three times as long.
    """
    _set_thresholds(TRIM_BYTES, MMAP_BYTES)


def give_back_freed() -> None:
    """Undo `keep_freed`: restore the environment's thresholds, and return freed memory to the system."""
    if _set_thresholds(*_environment_thresholds()):
        _libc().malloc_trim(0)


def _set_thresholds(trim: int, mmap: int) -> bool:
    """Set the thresholds of glibc; False where the environment sets none, since glibc then finds good ones itself."""
    if _environment_thresholds()[0] >= TRIM_BYTES or _libc() is None:
        return False
    _libc().mallopt(_TRIM_THRESHOLD, trim)
    _libc().mallopt(_MMAP_THRESHOLD, mmap)
    return True


@lru_cache(1)
def _libc() -> Any:
    """The C library of this process where it is glibc, else None."""
    try:
        libc = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return libc if hasattr(libc, "gnu_get_libc_version") else None


@lru_cache(1)
def _environment_thresholds() -> tuple[int, int]:
    """Thresholds of malloc, in bytes, that the environment sets, else those of glibc."""

    def number(name: str, unless: int) -> int:
        value = os.environ.get(name, "")
        return int(value) if value.isdecimal() else unless

    return number("MALLOC_TRIM_THRESHOLD_", TRIM_BYTES), number("MALLOC_MMAP_THRESHOLD_", 2**17)


# ---- rows appended to arrays
Array = np.ndarray

#: One over the share of an array that is kept free behind it.
FREE = 4
_LOCK = threading.Lock()


class _Room(np.ndarray):
    """Buffer with room for further rows; `address`: where it begins in memory, `written`: rows that are in use."""

    written: int = 0
    address: int = 0


def extended(array: Array, more: Array) -> Array:
    """Rows of an array, then others: behind it, where it ends where its memory is written to, else in new memory.

    Parameters
    ----------
    array : ndarray of shape (n, ...)
        Stays as it is.
    more : ndarray of shape (m, ...)

    Returns
    -------
    ndarray of shape (n + m, ...)
        It may share memory with `array`: neither is written to by who holds both.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi._runtime.memory import extended
    >>> first = extended(np.arange(3.0), np.array([3.0]))
    >>> extended(first, np.array([4.0])), extended(first, np.array([5.0]))
    (array([0., 1., 2., 3., 4.]), array([0., 1., 2., 3., 5.]))
    """
    n, total = len(array), len(array) + len(more)
    with _LOCK:  # of two that go on from one fit, the second takes new memory
        room = _room(array)
        if room is None or room.written != n or total > len(room):
            kind = np.result_type(array, more)
            room = _Room((total + total // FREE, *array.shape[1:]), kind)
            room.address = _address(room)
            room[:n] = array
        room[n:total] = more
        room.written = total
        return room.view(np.ndarray)[:total]


def _room(array: Array) -> Any:
    """The memory that an array begins, where it came from `extended`."""
    base: Any = array
    while base is not None and not isinstance(base, _Room):
        base = getattr(base, "base", None)
    if base is None or base.dtype != array.dtype or base.strides != array.strides:
        return None
    same = base.shape[1:] == array.shape[1:] and base.address == _address(array)
    return base if same and array.flags.writeable else None


def _address(array: Array) -> int:
    """Where an array begins in memory."""
    return int(array.__array_interface__["data"][0])
