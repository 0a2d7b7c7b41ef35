"""Every estimator with nothing set, on data whose truth is known: what its 90 % intervals cover, and its log density.

Counted are the rows of ``summary()`` by kind (an effect of 2.5 standard errors and more is strong), the linear
predictor f and y of new rows, and the mean log density of new y beside the peer's. A point is a data set: standard
errors are over independent ones. `SKSVI_CELLS="Mixed;Series"` runs only the cells whose names begin so, the others'
rows stay as they are stored.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from typing import Any

import numpy as np

from benchmarks._lib.cells import AGAIN, stored_rows
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth._cells import Cell, cells
from benchmarks.truth._measures import Measured, enough, measure

#: A quick run has so many data sets of every so manyth cell.
QUICK_SETS, QUICK_EVERY = 4, 4


def run(cell: Cell, repetitions: int | None = None, seed: int = 0) -> list[Measured]:
    """The cell's data sets; one with nothing to fit (one class alone) is left out, an error is a note."""
    found = []
    for i in range(repetitions or cell.repetitions):
        simulated = cell.simulate(np.random.default_rng([seed, zlib.crc32(cell.name.encode()), i]))
        if not enough(simulated):
            continue
        try:
            found.append(measure(simulated, cell.estimator(), cell.peer))
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            found.append(Measured(warned=(f"{type(error).__name__}: {str(error)[:80]}",)))
    return found


def _mean(values: list[float]) -> tuple[float | None, float | None]:
    """Mean over data sets, and its standard error."""
    kept = np.array([value for value in values if np.isfinite(value)])
    if not len(kept):
        return None, None
    return float(kept.mean()), float(kept.std(ddof=1) / np.sqrt(len(kept))) if len(kept) > 1 else None


def covered(cell: Cell, found: list[Measured]) -> list[dict[str, Any]]:
    """A row for each quantity: what its intervals cover, and the median over data sets of estimate over truth."""
    names = list(dict.fromkeys(name for one in found for name in one.covered))
    rows = []
    for name in names:
        share, error = _mean([float(np.mean(one.covered[name])) for one in found if one.covered.get(name)])
        ratios = [float(np.mean(one.ratio[name])) for one in found if one.ratio.get(name)]
        count = sum(bool(one.covered.get(name)) for one in found)
        row = {"family": cell.family, "cell": cell.name, "quantity": name, "data sets": count, "covered": share}
        rows.append({**row, "error": error, "estimate / truth": float(np.mean(ratios)) if ratios else None})
    return rows


def densities(cell: Cell, found: list[Measured]) -> list[dict[str, Any]]:
    """A row for each part of the new rows: log density less the peer's, in nats a row."""
    rows = []
    for part in dict.fromkeys(name for one in found for name in one.density):
        pairs = [one.density[part] for one in found if part in one.density]
        ahead, error = _mean([ours - theirs for ours, theirs in pairs])
        row = {"family": cell.family, "cell": cell.name, "rows": part, "peer": cell.peer, "data sets": len(pairs)}
        rows.append({**row, "ours": _mean([a for a, _ in pairs])[0], "ours - peer": ahead, "error": error})
    return rows


def costs(cell: Cell, found: list[Measured]) -> dict[str, Any]:
    """CPU milliseconds (medians), failures and warnings."""
    fits = [one.seconds for one in found if np.isfinite(one.seconds)]
    after = [one.seconds_after for one in found if np.isfinite(one.seconds_after)]
    warned = Counter(name for one in found for name in one.warned)
    return {
        "family": cell.family,
        "cell": cell.name,
        "data sets": len(found),
        "failed": sum(not np.isfinite(one.seconds_after) for one in found),
        "fit, CPU ms": 1e3 * float(np.median(fits)) if fits else None,
        "summary and predictions, CPU ms": 1e3 * float(np.median(after)) if after else None,
        "warnings": "; ".join(f"{name} {count}" for name, count in warned.most_common(3)),
    }


def numbers(cell: Cell, found: list[Measured]) -> list[dict[str, Any]]:
    """Other numbers that were asked of a cell."""
    rows = []
    for name in dict.fromkeys(name for one in found for name in one.numbers):
        values = [one.numbers[name] for one in found if name in one.numbers]
        mean, error = _mean(values)
        row = {"cell": cell.name, "number": name, "data sets": len(values), "mean": mean, "error": error}
        rows.append({**row, "median": float(np.median(values))})
    return rows


def tables(chosen: list[Cell], repetitions: int | None = None, seed: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Rows of the four tables."""
    out: dict[str, list[dict[str, Any]]] = {"covered": [], "density": [], "numbers": [], "cost": []}
    for cell in chosen:
        start = time.perf_counter()
        found = run(cell, repetitions, seed)
        rows = covered(cell, found)
        out["covered"] += rows
        out["density"] += densities(cell, found)
        out["numbers"] += numbers(cell, found)
        out["cost"].append(costs(cell, found))
        shares = {row["quantity"]: None if row["covered"] is None else round(row["covered"], 2) for row in rows}
        progress({"cell": cell.name, "s": round(time.perf_counter() - start, 1), **shares})
    return out


TITLES = {
    "covered": "What 90 % intervals cover with nothing set",
    "density": "Mean log density of new rows beside the peer's, nats a row",
    "numbers": "Other numbers with nothing set",
    "cost": "CPU milliseconds, failures and warnings with nothing set",
}


def main(quick: bool = False) -> None:
    grid = cells()
    chosen = [cell for cell in grid if not AGAIN or cell.name.startswith(AGAIN)]
    out = tables(chosen[::QUICK_EVERY] if quick else chosen, QUICK_SETS if quick else None)
    place = {cell.name: i for i, cell in enumerate(grid)}
    for what, rows in out.items():
        if not rows:
            continue
        if AGAIN and not quick:
            rows += [
                row for row in stored_rows(f"truth/defaults_{what}") if row["cell"] not in {c.name for c in chosen}
            ]
            rows = sorted((row for row in rows if row["cell"] in place), key=lambda row: place[row["cell"]])
        report(f"truth/defaults_{what}", TITLES[what], rows, quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
