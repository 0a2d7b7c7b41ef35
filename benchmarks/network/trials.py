"""Logit-normal numbers of successes: local nodes with ten labels each, integrated out or with a q of their own.

Element k has f_k ~ N(centre, 1/precision) and ten labels of probability 1 / (1 + exp(-f_k)), as in
`benchmarks.network.structured` otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, report
from benchmarks.network.structured import ROWS, drawn, exact, fits_of, notes, rows_of, short

SETS, TRIALS = 100, 10


class Successes:
    """Log likelihood of numbers of successes, in the order that they came."""

    def log_prob(self, y: np.ndarray, f: np.ndarray) -> Any:
        """Log of p^y (1 - p)^(trials - y)."""
        return y * f - TRIALS * np.logaddexp(0.0, f)


def fits(seed: int) -> dict[bool, dict[str, Any]]:
    """Fits of a data set."""
    from sksvi.network import Likelihood, Link

    truth, f, rng = drawn(seed)
    index = np.repeat(np.arange(ROWS), TRIALS)
    y = (rng.random(len(index)) < 1.0 / (1.0 + np.exp(-f[index]))).astype(float)
    child = Likelihood("logit", Link("f", index="element"))
    successes = y.reshape(ROWS, TRIALS).sum(1)
    return fits_of(child, {"y": y, "element": index}, truth, lambda q: exact(Successes(), successes))


def main(quick: bool = False) -> int:
    """How many rows fall short: an integrated bound beneath mean field, or above the evidence."""
    sets = 2 if quick else SETS
    rows = rows_of(f"{TRIALS} labels each", [fits(seed) for seed in range(sets)])
    report("network/trials", "Local nodes with several rows, integrated out", rows, notes(sets), quick)
    return short(rows)


if __name__ == "__main__":
    main(arguments(__doc__))
