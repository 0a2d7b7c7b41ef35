"""Seconds of two workers against one process with two threads, and weak scaling from one worker to two."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks._lib.tables import arguments, report
from benchmarks._lib.timing import installed, interleave, median
from benchmarks.partitions._data import chunked, cluster, model, simulated

#: Rows of one worker's share.
ROWS = 2_000_000


def persisted(client: Any, rows: Any, parts: int, **options: Any) -> Any:
    """Rows in partitions that lie on the workers before the clock runs."""
    from distributed import wait

    held = client.persist(chunked(rows, parts), **options)
    wait(held)
    return held


def fits(likelihood: str, given: Any, n_jobs: int = 1) -> Any:
    return model(likelihood, n_jobs=n_jobs, batch_size=None).fit(*given)


def main(quick: bool = False) -> int:
    import dask

    n, repeats, rows = (40_000 if quick else ROWS), (1 if quick else 3), []
    for likelihood in ("logit", "poisson"):
        both, half = simulated(likelihood, 2 * n, 20, 0), simulated(likelihood, n, 20, 1)
        with cluster(2) as client:
            first = sorted(client.scheduler_info(n_workers=-1)["workers"])[:1]
            there, alone = persisted(client, both, 8), persisted(client, half, 4, workers=first)

            def on_one(given: Any = alone, where: Any = first, of: str = likelihood) -> Any:
                with dask.annotate(workers=where):
                    return fits(of, given)

            jobs = {
                "one process, two threads": partial(fits, likelihood, both, 2),
                "two workers": partial(fits, likelihood, there),
                "half the rows, one worker": on_one,
            }
            if installed("dask_ml") and likelihood == "logit":
                from dask_ml.linear_model import LogisticRegression

                jobs["dask_ml, two workers"] = partial(LogisticRegression(solver="lbfgs").fit, *there)
            seconds = {name: median(values) for name, values in interleave(jobs, repeats).items()}
        for name, spent in seconds.items():
            rows.append(
                {
                    "likelihood": likelihood,
                    "run": name,
                    "seconds": round(spent, 2),
                    "of one process": round(spent / seconds["one process, two threads"], 3),
                    "of half the rows": round(spent / seconds["half the rows, one worker"], 3),
                }
            )
    notes = [
        f"{2 * n:,} rows, 20 columns, 8 partitions that lie on the workers; medians of {repeats} runs in turn, one "
        "before that does not count. Weak scaling is ideal where two workers take as long as one takes for half.",
    ]
    report("partitions/cost", "Two workers against one process with two threads", rows, notes, quick)
    return 0 if quick else sum(row["of one process"] > 1.15 for row in rows if row["run"] == "two workers")


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
