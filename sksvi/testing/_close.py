"""The comparison that every check makes, and what is asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray


def _assert_close(
    found: Array | float, wanted: Array | float, what: str, likelihood: Any, tolerance: float = 1e-6
) -> None:
    scale = 1.0 + np.abs(wanted)
    error = float(np.max(np.abs(found - wanted) / scale, initial=0.0))
    assert error <= tolerance, f"{what} of {likelihood} is off by {error:.1e}, more than {tolerance:.0e}."


def asked_again(check: Callable[[int], None], n: int) -> None:
    """A check by n draws; one that fails by four times as many: chance alone goes beyond four errors, hardly twice."""
    try:
        check(n)
    except AssertionError:
        check(4 * n)
