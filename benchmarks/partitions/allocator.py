"""Seconds of a fit in one process under the allocator's setting that Dask gives its workers, and under the system's."""

from __future__ import annotations

from benchmarks._lib.tables import arguments, report
from benchmarks._lib.timing import fresh_process, median

FIT = """
import json, time
from benchmarks.partitions._data import model, simulated
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
    for name, env in (("the system's", {}), ("MALLOC_TRIM_THRESHOLD_=65536", {"MALLOC_TRIM_THRESHOLD_": "65536"})):
        seconds = fresh_process(FIT.format(n=n), env)["seconds"]
        rows.append({"allocator": name, "seconds": round(median(seconds), 3)})
    notes = [f"Logistic regression, {n:,} rows x 20 columns, one thread, no Dask; median of three fits after one."]
    report("partitions/allocator", "What giving memory back at once costs", rows, notes, quick)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
