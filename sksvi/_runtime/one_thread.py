"""BLAS held to one thread while anyone works, and given back whatever moment an interrupt hits.

The number of threads belongs to the process. Each restoring what it found would leave, of two that overlap, the limit
of the other, and would change a fit's bits under way. And a count of who is inside is wrong for good once Ctrl-C hits
between a `with` and its first line: so who is inside is derived, from tokens that live as long as their `with` and,
of the thread that asks, from the frames it is in. Frames of other threads change while they are read.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import weakref
from contextlib import AbstractContextManager
from functools import cache
from types import FrameType
from typing import Any

from sksvi._runtime import memory

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
            self._tokens.pop(key, None)

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
        self._lock = threading.RLock()
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
