"""Resident memory of client and workers: 100 million rows made lazily, and a folder five times the memory allowed."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.partitions._data import MIB, Resident, cluster, lazily, model, pids, simulated

#: Most resident memory of each process, MiB.
MOST = 1024.0
#: Memory allowed to each worker that reads a folder, MiB. Dask pauses a worker at 80 % of it; libraries and what the
#: allocators keep are up to 420 MiB, so that workers of 512 MiB pause and, with nothing left to free, stay so.
FOLDER = 640.0


def watched(client: Any, fit: Any) -> tuple[Any, Resident, float, bool]:
    """What a fit leaves, memory while it ran, seconds, and whether the workers are those that began."""
    before, start = pids(client), time.perf_counter()
    with Resident(before) as memory:
        fitted = fit()
    return fitted, memory, time.perf_counter() - start, pids(client) == before


def row_of(what: str, n: int, found: tuple[Any, Resident, float, bool]) -> dict[str, Any]:
    fitted, memory, seconds, alive = found
    row = {"data": what, "rows": n, "passes": fitted.n_iter_, "seconds": round(seconds, 1)}
    for name in memory.pids:
        row[f"{name}, peak MiB"] = round(memory.peak(name))
        row[f"{name}, last/first third"] = round(memory.third(name, 2) / memory.third(name, 0), 2)
    row["no worker lost"] = alive
    progress(row)
    return row


def lazy(quick: bool) -> list[dict[str, Any]]:
    n, size = (1_000_000, 50_000) if quick else (100_000_000, 250_000)
    rows = []
    with cluster(2, memory_limit="1GiB") as client:
        for likelihood in ("logit", "poisson"):
            X, y = lazily(likelihood, n, 20, size)
            rows.append(
                row_of(
                    f"made lazily, {likelihood}",
                    n,
                    watched(client, partial(model(likelihood, batch_size=None).fit, X, y)),
                )
            )
    return rows


def written(folder: Path, bytes_wanted: float, per_part: int, d: int) -> int:
    """Parquet files of columns x0.. and y; rows that were written."""
    import pandas as pd

    n = 0
    for k in range(int(np.ceil(bytes_wanted / (8.0 * per_part * (d + 1))))):
        X, y = simulated("logit", per_part, d, k)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)]).assign(y=y)
        frame.to_parquet(folder / f"part{k:04d}.parquet", compression=None)
        n += len(frame)
    return n


def folder(quick: bool) -> list[dict[str, Any]]:
    import dask.dataframe as dd

    limit, d, per_part = FOLDER * MIB, 20, 50_000
    with tempfile.TemporaryDirectory() as place, cluster(2, memory_limit=int(limit)) as client:
        n = written(Path(place), (0.2 if quick else 5.0) * 2 * limit, per_part, d)
        frame = dd.read_parquet(place)
        X, y = frame[[f"x{j}" for j in range(d)]], frame["y"]
        found = watched(client, partial(model("logit", batch_size=None).fit, X, y))
        return [row_of(f"Parquet, {8.0 * n * (d + 1) / (2 * limit):.1f} x the memory of 2 workers", n, found)]


def told(name: str, title: str, rows: list[dict[str, Any]], notes: list[str], quick: bool) -> int:
    """How many peaks are too high, and fits lost a worker."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    report(f"partitions/{name}", title, [{name: row.get(name) for name in columns} for row in rows], notes, quick)
    peaks = [value for row in rows for name, value in row.items() if name.endswith("peak MiB")]
    return sum(peak > MOST for peak in peaks) + sum(not row["no worker lost"] for row in rows)


def main(quick: bool = False) -> int:
    sampled = "Resident sizes, sampled every 0.1 s; libraries are about 250 MiB of each."
    third = "`last/first third`: median of the last third of the time over that of the first: what a leak would raise."
    notes = [f"{sampled} Workers may hold 1 GiB each; partitions of 250,000 rows.", third]
    wrong = told("memory", "Memory of client and workers", lazy(quick), notes, quick)
    notes = [f"{sampled} Workers may hold {FOLDER:g} MiB each; partitions of 50,000 rows.", third]
    return wrong + told("memory_folder", "A folder larger than memory", folder(quick), notes, quick)


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
