"""Ctrl-C during a fit that is to be kept: heeded where a pass ends, so that what is kept is a fit of fewer passes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interruption:
    """Whether the user wants a fit to end.

    Parameters
    ----------
    keeps : bool
        Whether a fit that is interrupted is kept; False: Ctrl-C does what it always does.
    """

    def __init__(self, keeps: bool) -> None:
        self.keeps, self.asked = keeps, False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """The first Ctrl-C is noted in `asked`; the second does what it did before. In the main thread alone."""
        before = signal.getsignal(signal.SIGINT)
        main = threading.current_thread() is threading.main_thread()
        # One that is ignored, or not Python's own, stays so.
        if not (self.keeps and main and callable(before)):
            yield
            return

        def noted(number: int, frame: Any) -> None:
            if self.asked:
                before(number, frame)
            self.asked = True

        signal.signal(signal.SIGINT, noted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """What is in this block may be cut short: nothing that is kept depends on its end."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.keeps:
                raise
            self.asked = True
