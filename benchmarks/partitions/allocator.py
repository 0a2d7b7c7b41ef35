"""Seconds of a fit in one process under the allocator's setting that Dask gives its workers, and under the system's.

A fit keeps freed memory while it works (`_machine.parallel.working`); a row shows what it would take if it did not.
"""

from __future__ import annotations

from benchmarks._lib.tables import arguments, report
from benchmarks._lib.timing import fresh_process, median

FIT = """
import json, time
from benchmarks.partitions._data import model, simulated
from sksvi._runtime import memory
if not {keeps}:
    memory.keep_freed = lambda: None
rows = simulated("logit", {n}, 20, 0)
model("logit", batch_size=None).fit(rows[0][:1000], rows[1][:1000])
seconds = []
for _ in range(4):
    start = time.perf_counter()
    model("logit", n_jobs=1, batch_size=None).fit(*rows)
    seconds.append(time.perf_counter() - start)
print(json.dumps(dict(seconds=seconds[1:])))
"""


def main(quick: bool = False) -> int:
    n, rows = (50_000 if quick else 1_000_000), []
    as_workers = {"MALLOC_TRIM_THRESHOLD_": "65536"}
    cases = [
        ("the system's", {}, True),
        ("Dask's", as_workers, True),
        ("Dask's, freed memory not kept", as_workers, False),
    ]
    for name, env, keeps in cases:
        seconds = fresh_process(FIT.format(n=n, keeps=keeps), env)["seconds"]
        rows.append({"allocator": name, "seconds": round(median(seconds), 3)})
    notes = [
        f"Logistic regression, {n:,} rows x 20 columns, one thread, no Dask; median of three fits after one. Dask's: "
        "`MALLOC_TRIM_THRESHOLD_=65536`."
    ]
    report("partitions/allocator", "What giving memory back at once costs", rows, notes, quick)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
