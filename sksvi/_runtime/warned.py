"""Warnings that are about the line of the user's that made the call."""

from __future__ import annotations

import sys
import warnings


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the line of the user's that made the call, however many calls of ours lie between."""
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("sksvi.", "sklearn.", "contextlib")):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    warnings.warn(text, category, stacklevel=level)
