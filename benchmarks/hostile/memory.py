"""What a fit is said to need, and what it takes: the estimate of each `_check_memory` against the peak of the fit.

The peak is that of Python's and NumPy's allocations from the estimate to the end of the fit, beyond what there was.
"""

from __future__ import annotations

from typing import Any

from benchmarks._lib.tables import arguments, progress, report
from support.memory_cases import CASES, MAX_RATIO, PASSES, estimate_and_peak


def main(quick: bool = False) -> int:
    rows: list[dict[str, Any]] = []
    met: set[type] = set()
    for name, case in list(CASES.items())[: 1 if quick else None]:
        given = case()
        if type(given[0]) not in met:  # imports and compiles
            estimate_and_peak(*case())
            met.add(type(given[0]))
        asked, took = estimate_and_peak(*given)
        rows.append({"fit": name, "estimate, MB": asked / 1e6, "peak, MB": took / 1e6, "peak / estimate": took / asked})
        progress(rows[-1])
    notes = [
        f"Fits of {PASSES} passes in one thread. Peak: the most that Python and NumPy held from the estimate on, "
        "beyond what they held then (tracemalloc); what compiled loops take inside is small and not seen."
    ]
    report("hostile/memory", "What a fit is said to need, and what it takes", rows, notes, quick)
    return sum(not 1 / MAX_RATIO <= row["peak / estimate"] <= MAX_RATIO for row in rows)


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
