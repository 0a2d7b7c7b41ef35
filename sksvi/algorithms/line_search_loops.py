"""The compiled twin of `line_search`, for loops over points that each have a step of their own."""

from __future__ import annotations

from sksvi._runtime.compiling import njit


@njit()
def halved(rate: float, halvings: int, most: int) -> float:
    """Half the rate of a step that was not accepted; 0 where it has been halved `most` times: it is given up."""
    return 0.5 * rate if halvings < most else 0.0
