"""Ratings that need not fit in memory: peak of a factorization's own memory, files and seconds, by their number.

The table is made partition by partition, 100 ratings a user. A process of its own fits it; its memory is sampled every
50 ms: what is its own (anonymous pages), not what the system caches of files, which it gives back when asked.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report

SIZES, QUICK = (5_000_000, 20_000_000, 80_000_000), (200_000, 400_000)
EACH, ITEMS, COMPONENTS, PASSES, PARTITION = 100, 20_000, 10, 3, 1_000_000
MACHINE = 24 * 2**30


def part(start: int, stop: int) -> Any:
    """Some ratings: users come in any order."""
    import pandas as pd

    rng = np.random.default_rng([7, start])
    n = stop - start
    users, items = rng.integers(0, n_users(), n, dtype=np.int32), rng.integers(0, ITEMS, n, dtype=np.int32)
    y = np.clip(np.round(3.0 + np.sin(users % 97) * np.cos(items % 89) + 0.5 * rng.standard_normal(n)), 1.0, 5.0)
    return pd.DataFrame({"user": users, "item": items, "rating": y})


def n_users() -> int:
    return int(sys.argv[2]) // EACH


def own_memory() -> int:
    """Bytes of this process that are no cache of a file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise OSError("/proc/self/status has no RssAnon")


def one(n: int) -> dict[str, Any]:
    """A fit of n ratings, in this process."""
    import dask.dataframe as dd

    from sksvi import GeneralizedPMF

    starts = list(range(0, n, PARTITION))
    table = dd.from_map(part, starts, [min(n, start + PARTITION) for start in starts])
    folder = Path(tempfile.mkdtemp())
    tempfile.tempdir = str(folder)
    peak, disk, over = [own_memory()], [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            peak[0] = max(peak[0], own_memory())
            disk[0] = max(disk[0], sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))

    before, watcher = peak[0], threading.Thread(target=watch)
    watcher.start()
    try:
        started = time.perf_counter()
        model = GeneralizedPMF(n_components=COMPONENTS, covariance="diag", max_iter=PASSES, tol=0.0, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(table[["user", "item"]], table["rating"])
        seconds = time.perf_counter() - started
    finally:
        over.set()
        watcher.join()
        shutil.rmtree(folder, ignore_errors=True)
    passes = np.diff(model.history_["seconds"])
    return {
        "ratings": n,
        "own memory, GiB": (peak[0] - before) / 2**30,
        "files, GiB": disk[0] / 2**30,
        "seconds": seconds,
        "of a pass": float(np.median(passes)),
    }


def main(quick: bool) -> None:
    """A row per number of ratings, and how many 24 GiB hold by the last two."""
    rows = []
    for n in QUICK if quick else SIZES:
        found = subprocess.run(
            [sys.executable, "-m", "benchmarks.partitions.ratings", "--one", str(n)], capture_output=True, check=True
        )
        rows.append(json.loads(found.stdout.decode().splitlines()[-1]))
        progress(rows[-1])
    (n0, a), (n1, b) = ((row["ratings"], row["own memory, GiB"] * 2**30) for row in rows[-2:])
    each = (b - a) / (n1 - n0)
    limit = n1 + (MACHINE - b) / each
    notes = (
        f"{each:.1f} bytes of memory a rating, of users and items with {EACH} ratings a user too: 24 GiB hold "
        f"{limit / 1e6:,.0f} million ratings (K = {COMPONENTS}, covariance='diag')."
    )
    report("partitions/ratings", "Ratings in files", rows, [notes], quick)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(int(sys.argv[2]))))
    else:
        main(arguments(__doc__))
