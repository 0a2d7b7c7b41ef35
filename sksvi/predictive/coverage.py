"""Coverage of an interval, as users give it."""

from __future__ import annotations

from numbers import Real
from typing import Any


def tail_of(coverage: Any) -> float:
    """Probability below an equal-tailed interval of that coverage.

    Raises
    ------
    ValueError
        If coverage is no number strictly between 0 and 1.
    """
    if not isinstance(coverage, Real) or not 0 < coverage < 1:  # type: ignore[operator]  # Real has no order in typeshed
        raise ValueError(f"coverage must lie strictly between 0 and 1; found {coverage!r}.")
    tail = 0.5 - 0.5 * float(coverage)
    if 1.0 - tail == 1.0:
        raise ValueError(f"coverage must lie strictly between 0 and 1; found {coverage!r}, which leaves nothing.")
    return tail
