"""Do 90 % intervals of a mixture's weights hold the true ones where many rows are of groups that overlap?

A chain of labels moves there by little in a sweep, so that draws of neighbouring sweeps know too little of the spread.
Shares of weights in `summary`: of q, of draws one sweep apart, and of the default, whose sweeps between two draws are
doubled until the draws are worth enough independent ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks._lib.measures import LEVEL, fitted
from benchmarks._lib.tables import arguments, progress, report

#: Rows and columns, data sets, and weights of the groups.
TABLES, SETS, WEIGHTS = ((300, 8), (2000, 20), (20_000, 20), (20_000, 40)), 25, np.array([0.5, 0.3, 0.2])
TITLE = "Cover of the weights of groups that overlap"
NOTES = [
    "Three groups of 50, 30 and 20 % of the rows, probabilities uniform in [0.25, 0.75]: 90 % intervals of the three "
    f"weights on {SETS} data sets, with the standard error, and their mean width; components are matched with groups "
    "by their probabilities. CPU seconds of a fit, the mean. One sweep: as draws were before sweeps between them were "
    "doubled."
]


@contextmanager
def most_sweeps(number: int) -> Iterator[None]:
    """Chains of mixtures that double the sweeps between two draws up to so many in all."""
    from sksvi.mixture import _joint

    usual, _joint.SWEEPS = _joint.SWEEPS, number
    try:
        yield
    finally:
        _joint.SWEEPS = usual


def measured(rng: np.random.Generator, n: int, columns: int, uncertainty: str) -> tuple[float, float, float]:
    """Share of the weights that intervals cover, their width, and the CPU seconds of the fit."""
    from scipy.optimize import linear_sum_assignment

    from sksvi import BernoulliMixture

    chances = rng.uniform(0.25, 0.75, (len(WEIGHTS), columns))
    X = (rng.random((n, columns)) < chances[rng.choice(len(WEIGHTS), n, p=WEIGHTS)]).astype(float)
    start = time.process_time()
    model = fitted(BernoulliMixture(len(WEIGHTS), uncertainty=uncertainty, random_state=0), X)
    seconds = time.process_time() - start
    table = model.summary(coverage=LEVEL).xs("weight", level="column")
    low, high = (table[end].to_numpy() for end in ("lower", "upper"))
    # Components are the groups that they are nearest to; a group without one has no interval.
    nearest, group = linear_sum_assignment(np.abs(model.means_[: len(low), None] - chances).sum(-1))
    held = np.zeros(len(WEIGHTS))
    held[group] = (low[nearest] <= WEIGHTS[group]) & (WEIGHTS[group] <= high[nearest])
    return float(held.mean()), float(np.mean(high - low)), seconds


def main(quick: bool = False) -> None:
    from sksvi.mixture._joint import SWEEPS

    rows: list[dict[str, Any]] = []
    for n, columns in TABLES[:1] if quick else TABLES:
        for method, uncertainty, most in (
            ("q", "variational", SWEEPS),
            ("draws, one sweep", "corrected", 0),
            ("draws, default", "corrected", SWEEPS),
        ):
            with most_sweeps(most):
                sets = range(2 if quick else SETS)
                found = [measured(np.random.default_rng([n, columns, i]), n, columns, uncertainty) for i in sets]
            held, widths, seconds = map(np.array, zip(*found, strict=True))
            row = {"rows": n, "columns": columns, "method": method, "covered": float(held.mean())}
            row |= {"error": float(held.std(ddof=1) / len(held) ** 0.5), "width": float(widths.mean())}
            rows.append(row | {"CPU seconds": float(seconds.mean())})
            progress(rows[-1])
    report("mixture/overlap", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
