"""Ctrl-C during a fit with `KeepInterrupted`: it takes effect where a pass ends, so that a valid fit remains."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interruption:
    """Whether the user has requested, by Ctrl-C, that a fit ends.

    Parameters
    ----------
    keeps : bool
        Whether a fit that is interrupted is kept; False: Ctrl-C does what it always does.
    """

    def __init__(self, keeps: bool) -> None:
        self.keeps, self.requested = keeps, False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Context in which the first Ctrl-C only sets `requested`, in the main thread; a second one interrupts."""
        before = signal.getsignal(signal.SIGINT)
        main = threading.current_thread() is threading.main_thread()
        # One that is ignored, or not Python's own, stays so.
        if not (self.keeps and main and callable(before)):
            yield
            return

        def noted(number: int, frame: Any) -> None:
            if self.requested:
                before(number, frame)
            self.requested = True

        signal.signal(signal.SIGINT, noted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Context that Ctrl-C may leave early, because nothing that the fit retains depends on its end."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.keeps:
                raise
            self.requested = True
