"""Draws of a whole posterior: sweeps of conditional draws that begin at q.

A q that factorizes takes what its blocks share for certain: users are as sure as if items were given, and the
hyperparameters of their priors are points. Each block's conditional distribution given the others is exact or nearly
so, and a sweep of draws from them leaves the joint posterior as it is. A chain that begins at q, whose centre is about
right, has little way to go: what is asked of it are spreads, not the place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

Array = np.ndarray
Point = TypeVar("Point")

#: What an estimator's parameter `uncertainty` may be: spreads by such draws, or those of q.
UNCERTAINTY = ("corrected", "variational")


@dataclass(frozen=True)
class ChainLength:
    """Sweeps of a chain: `burn_in` that are dropped, then `draws` that are stored, one of every `thin`."""

    burn_in: int
    draws: int
    thin: int = 1

    @property
    def sweeps(self) -> int:
        """Sweeps in all."""
        return self.burn_in + self.draws * self.thin


class ConditionalDraws(Protocol, Generic[Point]):
    """Conditional draws of a model's posterior."""

    def begin(self, rng: np.random.Generator) -> Point:
        """Where the chain begins: a draw from q."""
        ...

    def sweep(self, point: Point, rng: np.random.Generator, number: int) -> Point:
        """The point after a draw of every block given the others; `number` counts the sweeps from 0."""
        ...


def walk(
    chain: ConditionalDraws[Point],
    length: ChainLength,
    rng: np.random.Generator,
    store: Callable[[int, Point], None],
    point: Point | None = None,
) -> Point:
    """Walk along the chain, from `point` (None: from its beginning), and give `store` each draw with its number.

    Returns where the walk ends.
    """
    point = chain.begin(rng) if point is None else point
    for number in range(length.sweeps):
        point = chain.sweep(point, rng, number)
        draw, rest = divmod(number - length.burn_in, length.thin)
        if draw >= 0 and rest == length.thin - 1:
            store(draw, point)
    return point


def effective_draws(draws: Array) -> float:
    """How many independent draws have a mean as sure as that of draws (n, P) along a chain, n at most.

    By the autocorrelations of all numbers together, each weighed by its variance: sums of two neighbouring ones are
    positive along a reversible chain and fall, and count up to the first that is not (Geyer 1992).
    """
    off, n = draws - draws.mean(0), len(draws)
    products = np.array([np.sum(off[k:] * off[: n - k]) for k in range(n - n % 2)])
    if not products[0] > 0.0:
        return float(n)
    pairs = products.reshape(-1, 2).sum(1) / products[0]
    positive = np.logical_and.accumulate(pairs > 0.0)
    return float(n / max(2.0 * np.minimum.accumulate(pairs[positive]).sum() - 1.0, 1.0))


# ---- one hyperparameter given all else
#: Width of a slice's first bracket, of a logarithm.
SLICE = 0.1
#: Steps of a slice outwards, and inwards: a density that is a number takes a few.
MOST_SLICES = 10_000


def sliced(log_density: Callable[[float], float], x: float, rng: np.random.Generator, width: float = SLICE) -> float:
    """The next state of a chain with this log density, by slice sampling (Neal 2003).

    ``width`` : of the first bracket; far from the density's own it takes more evaluations, and is as right.
    """
    level = log_density(x) - rng.exponential()
    low = x - width * rng.random()
    high = low + width
    for _ in range(MOST_SLICES):
        if not log_density(low) > level:
            break
        low -= width
    for _ in range(MOST_SLICES):
        if not log_density(high) > level:
            break
        high += width
    for _ in range(MOST_SLICES):
        new = rng.uniform(low, high)
        if log_density(new) >= level:
            return float(new)
        low, high = (new, high) if new < x else (low, new)
    raise ValueError(f"a log density is {log_density(x)} at {x}: the chain cannot go on. Check the prior.")
