"""Seconds of two workers against one process with two threads, weak scaling against the machine's own, and dask_ml."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, xlogy

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import installed, interleave, median
from benchmarks.partitions._data import chunked, cluster, model, simulated

#: Rows of one worker's share.
ROWS = 2_000_000
WHOLE, TWO, ALONE, APART = (
    "one process, two threads",
    "two workers",
    "half the rows, one worker",
    "half the rows, in each of two processes by themselves",
)


def persisted(client: Any, rows: Any, parts: int, workers: list[str]) -> Any:
    """Rows in partitions that lie on the workers, as many on each, before the clock runs."""
    import dask.array as da
    from distributed import wait

    shares = zip(*(np.array_split(column, len(workers)) for column in rows))
    held = [
        client.persist(chunked(share, parts // len(workers)), workers=[worker])
        for worker, share in zip(workers, shares, strict=True)
    ]
    wait(held)
    whole = client.persist([da.concatenate(columns) for columns in zip(*held)])
    wait(whole)
    return whole


def fits(likelihood: str, given: Any, n_jobs: int = 1) -> Any:
    return model(likelihood, n_jobs=n_jobs, batch_size=None).fit(*given)


def passes(likelihood: str, n: int, seed: int) -> int:
    """Makes its own rows where it runs, keeps them, and fits them: a process by itself."""
    kept = passes.__dict__.setdefault("kept", {})
    key = likelihood, n, seed
    if key not in kept:
        kept[key] = simulated(likelihood, n, 20, seed)
    return int(fits(likelihood, kept[key]).n_iter_)


def by_themselves(client: Any, likelihood: str, n: int, workers: list[str]) -> None:
    """Each worker fits rows of its own, at once, with no word between them: as fast as the machine does it."""
    client.gather(
        [client.submit(passes, likelihood, n, 1, workers=[worker], pure=False, key=None) for worker in workers]
    )


def jobs_of(client: Any, likelihood: str, both: Any, there: Any, alone: Any, workers: list[str]) -> dict[str, Any]:
    import dask

    def on_one() -> Any:
        with dask.annotate(workers=workers[:1]):
            return fits(likelihood, alone)

    return {
        WHOLE: partial(fits, likelihood, both, 2),
        TWO: partial(fits, likelihood, there),
        ALONE: on_one,
        "half the rows, one process by itself": partial(
            by_themselves, client, likelihood, len(both[1]) // 2, workers[:1]
        ),
        APART: partial(by_themselves, client, likelihood, len(both[1]) // 2, workers),
    }


def measured(likelihood: str, n: int, repeats: int) -> list[dict[str, Any]]:
    """`n` rows for each worker, both halves alike, so that the passes are as many."""
    half = simulated(likelihood, n, 20, 1)
    both = tuple(np.concatenate([a, a]) for a in half)
    with cluster(2) as client:
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        there = persisted(client, both, 8, workers)
        alone = persisted(client, half, 4, workers[:1])
        jobs = jobs_of(client, likelihood, both, there, alone, workers)
        seconds = {name: median(values) for name, values in interleave(jobs, repeats, each_twice=True).items()}
    single = "half the rows, one process by itself"
    return [
        {
            "likelihood": likelihood,
            "run": name,
            "seconds": round(spent, 2),
            "of one process, two threads": round(spent / seconds[WHOLE], 3),
            "weak scaling": round(seconds[base] / spent, 3)
            if (base := {TWO: ALONE, APART: single}.get(name))
            else None,
        }
        for name, spent in seconds.items()
    ]


def log_loss(y: Any, z: Any) -> float:
    """Nats a row."""
    p = np.clip(expit(z), 1e-300, 1.0)
    return float(-np.mean(xlogy(y, p) + xlogy(1.0 - y, 1.0 - p)))


def against_dask_ml(n: int, repeats: int) -> list[dict[str, Any]]:
    """The same partitions, on the same workers: seconds and the log loss of these rows at the point estimate."""
    from dask_ml.linear_model import LogisticRegression

    rows, fitted = simulated("logit", 2 * n, 20, 0), {}
    with cluster(2) as client:
        there = persisted(client, rows, 8, sorted(client.scheduler_info(n_workers=-1)["workers"]))

        def ours() -> None:
            fitted["sksvi"] = fits("logit", there)

        def theirs(solver: str) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted[f"dask_ml, {solver}"] = LogisticRegression(solver=solver, C=1e6).fit(*there)

        jobs = {"sksvi": ours, **{f"dask_ml, {solver}": partial(theirs, solver) for solver in ("lbfgs", "newton")}}
        seconds = {name: median(values) for name, values in interleave(jobs, repeats, each_twice=True).items()}
    X, y = rows
    found = []
    for name, spent in seconds.items():
        z = X @ np.ravel(fitted[name].coef_) + np.ravel(fitted[name].intercept_)[0]
        found.append({"package": name, "seconds": round(spent, 2), "log loss": log_loss(y, z)})
        progress(found[-1])
    return found


def main(quick: bool = False) -> int:
    n, repeats, rows = (40_000 if quick else ROWS), (1 if quick else 5), []
    for likelihood in ("logit", "poisson"):
        rows += measured(likelihood, n, repeats)
    notes = [
        f"{2 * n:,} rows, 20 columns, 8 partitions that lie on the workers; medians of {repeats} runs in turn, each "
        "after one of its own that does not count (a virtual machine takes back memory that lies idle). Weak scaling: "
        "seconds of half the rows on one, over seconds of all on two, 1 is ideal; that of processes by themselves, "
        "which say no word to each other, is what the machine itself allows.",
    ]
    report("partitions/cost", "Two workers against one process with two threads", rows, notes, quick)
    if installed("dask_ml"):
        notes = [
            f"{2 * n:,} rows, 20 columns, 8 partitions that lie on two workers. Log loss at the mean, or point, in "
            "nats a row."
        ]
        report("partitions/cost_peer", "Logistic regression beside dask_ml", against_dask_ml(n, repeats), notes, quick)
    return 0 if quick else sum(row["of one process, two threads"] > 1.15 for row in rows if row["run"] == TWO)


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
