"""Figures 4 to 6 of Sheth & Khardon at their full size, a few fits as far as minutes take them.

The data, scores and settings are those of ``factorization.figures``; all entries of a column in every step, the
estimator's own expectation and rates, and an ordinal whose cut points are learned. One thread, CPU seconds.
"""

from __future__ import annotations

from typing import Any

from benchmarks._lib.tables import arguments, report
from benchmarks.factorization.figures import ALGORITHMS, COLUMNS, DATA, data, one

#: Passes at which a fit is scored; CPU seconds after which it goes no further.
PASSES, LIMIT = (1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 25, 30, 40), 300.0


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for kind in DATA:
        found = data(kind, (60, 50, 5) if quick else (1000, 1000, 100))
        setting = "learned ordinal" if kind == "ordinal" else "default"
        for name in ALGORITHMS:
            rows += one(kind, name, None, setting, found, PASSES[:2] if quick else PASSES, LIMIT)
            notes = [
                "1000 x 1000, K = 100, variances 1, 80 % of all entries for training; ordinal: cut points learned. "
                "error: zero-one (binary), relative where the count is positive (count), absolute (ordinal). Coverage: "
                "of the test entries' true latents by central 90 % intervals; below 0.9 covariances are too narrow."
            ]
            trimmed = [{key: row.get(key) for key in COLUMNS if key not in ("setting", "batch")} for row in rows]
            report(
                "factorization/figures_end", "PMF on artificial matrices at full size, further", trimmed, notes, quick
            )


if __name__ == "__main__":
    main(arguments(__doc__))
