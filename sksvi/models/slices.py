"""Slice sampling of one hyperparameter given all else (Neal 2003)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: Width of a slice's first bracket, of a logarithm.
SLICE = 0.1
#: Steps of a slice outwards, and inwards: a density that is a number takes a few.
MOST_SLICES = 10_000


def sliced(log_density: Callable[[float], float], x: float, rng: np.random.Generator) -> float:
    """The next state of a chain with this log density, by slice sampling (Neal 2003): no rate to choose."""
    level = log_density(x) - rng.exponential()
    low = x - SLICE * rng.random()
    high = low + SLICE
    for _ in range(MOST_SLICES):
        if not log_density(low) > level:
            break
        low -= SLICE
    for _ in range(MOST_SLICES):
        if not log_density(high) > level:
            break
        high += SLICE
    for _ in range(MOST_SLICES):
        new = rng.uniform(low, high)
        if log_density(new) >= level:
            return float(new)
        low, high = (new, high) if new < x else (low, new)
    raise ValueError(f"a log density is {log_density(x)} at {x}: the chain cannot go on. Check the prior.")
