"""Between a user and a running fit: Ctrl-C, warnings at the line that made the call, the seed."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the line of the user's that made the call, however many calls of ours lie between."""
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("sksvi.", "sklearn.", "contextlib")):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    warnings.warn(text, category, stacklevel=level)


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


def check_seed(random_state: Any) -> np.random.RandomState:
    """The generator that a user's `random_state` stands for; an error that names the parameter."""
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError) as error:
        found = f"found {random_state!r}"
        raise ValueError(f"random_state must be an integer, a RandomState or None; {found}.") from error
