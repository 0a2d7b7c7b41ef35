"""Arrays that rows are appended to, a few at a time: without a copy of all that is there for each of them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

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
    >>> from sksvi._runtime.growing import extended
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
