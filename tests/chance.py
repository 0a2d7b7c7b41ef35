"""What chance allows a test that compares draws with what they are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binom, norm

#: Standard errors that one comparison is allowed, and how seldom chance alone goes further.
ERRORS = 4.0
RARE = 2.0 * norm.sf(ERRORS)


def errors_allowed(n: int) -> float:
    """Standard errors that none of n normal means goes beyond, as surely as one of them not beyond `ERRORS`."""
    return float(norm.isf(0.5 * RARE / n))


def assert_drawn(counts: Any, n: int, p: Any) -> None:
    """Counts among n draws are those of events of probability p: exact, for those that hardly ever happen too."""
    counts, p = np.broadcast_arrays(np.rint(counts), np.clip(p, 0.0, 1.0))
    tail = 2.0 * np.minimum(binom.cdf(counts, n, p), binom.sf(counts - 1.0, n, p))
    worst = np.unravel_index(np.argmin(tail), tail.shape)
    assert tail[worst] * tail.size >= RARE, f"{counts[worst]:g} of {n} draws at {worst}, of probability {p[worst]:g}"
