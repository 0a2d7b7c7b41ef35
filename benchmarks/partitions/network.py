"""Bytes of a pass: what workers hand to each other by their own logs, and q as it is sent, against the formula."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.partitions._data import chunked, cluster, model, simulated


def q_bytes(d: int) -> float:
    """Mean and one matrix (precision and root are its triangles), of D columns and an intercept."""
    return 8.0 * ((d + 1) ** 2 + 2 * (d + 1))


def gradient_bytes(d: int) -> float:
    """In mean and covariance."""
    return 8.0 * ((d + 1) ** 2 + (d + 1))


def _handed(dask_worker: Any = None) -> tuple[int, float]:
    log = dask_worker.transfer_incoming_log
    return len(log), float(sum(entry["total"] for entry in log))


def measured(client: Any, d: int, n: int, parts: int) -> dict[str, Any]:
    """A look at all rows, whose q and gradient are those of a fit."""
    from unittest.mock import patch

    from distributed import wait

    from sksvi.partitions.data import _evaluated
    from sksvi.partitions.executor import Executor

    rows = simulated("logit", n, d, 0)
    held = client.persist(chunked(rows, parts))
    wait(held)
    looks: list[tuple[int, float, float]] = []
    round_of = Executor.round

    def counted(self: Any, function: Any, tasks: Any, combine: Any = None) -> Any:
        before = sum(total for _, total in client.run(_handed).values())
        start = time.perf_counter()
        found = round_of(self, function, tasks, combine)
        seconds = time.perf_counter() - start
        handed = sum(total for _, total in client.run(_handed).values()) - before
        if getattr(function, "func", None) is _evaluated:
            looks.append((self._bytes_sent, handed, seconds))
        return found

    with patch.object(Executor, "round", counted):
        model("logit", batch_size=None, tol=1e-8).fit(*held)
    sent, handed, seconds = (float(np.median(values)) for values in zip(*looks, strict=True))
    row = {
        "D": d,
        "partitions": parts,
        "looks": len(looks),
        "q sent, bytes": sent,
        "formula": q_bytes(d),
        "ratio": round(sent / q_bytes(d), 3),
        "between workers, bytes": handed,
        "q once and answers that move": q_bytes(d) + parts / 2 * gradient_bytes(d),
        "seconds of a look": round(seconds, 3),
    }
    progress(row)
    return row


def latency(client: Any, parts: int) -> dict[str, Any]:
    """A round of tasks that do nothing."""
    from dask import delayed

    from sksvi.partitions.executor import Executor

    executor, seconds = Executor(), []
    tasks = [(delayed(int, pure=False)(k),) for k in range(parts)]
    for _ in range(5):
        start = time.perf_counter()
        executor.round(float, tasks)
        seconds.append(time.perf_counter() - start)
    return {"partitions": parts, "seconds of an empty round": round(float(np.median(seconds)), 4)}


def formula() -> list[dict[str, Any]]:
    """Bytes of a pass at most, on as many workers as partitions, up to 100."""
    return [
        {
            "D": d,
            **{f"P = {parts}": min(parts, 100) * q_bytes(d) + parts * gradient_bytes(d) for parts in (1, 100, 10_000)},
        }
        for d in (100, 1_000, 10_000)
    ]


def arithmetic(d: int, n: int) -> float:
    """rows · D² that one thread looks at in a second, in memory."""
    rows = simulated("logit", n, d, 0)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        fitted = model("logit", batch_size=None, tol=1e-8).fit(*rows)
        seconds.append((time.perf_counter() - start) / max(fitted.n_iter_, 1))
    return n * float(d) ** 2 / min(seconds)


def predicted(rate: dict[int, float], empty: list[dict[str, Any]], link: float = 1.25e9) -> list[dict[str, Any]]:
    """Seconds of a pass over 10⁹ rows: compute / W + r P + l log₈ P + D² / B, with P = 4 W partitions."""
    t = {row["partitions"]: row["seconds of an empty round"] for row in empty}
    few, many = sorted(t)[-2:]
    each, level = (t[many] - t[few]) / (many - few), t[min(t)]
    found = []
    for d, speed in rate.items():
        for workers in (10, 100, 1_000):
            parts = 4 * workers
            compute, tasks = 1e9 * d**2 / speed / workers, each * parts + level * np.log(parts) / np.log(8.0)
            moved = (np.log2(workers) * q_bytes(d) + 2.0 * np.log2(parts) * gradient_bytes(d)) / link
            found.append(
                {
                    "D": d,
                    "workers": workers,
                    "partitions": parts,
                    "compute, s": round(compute, 3),
                    "tasks, s": round(float(tasks), 3),
                    "network, s": round(float(moved), 3),
                    "pass, s": round(float(compute + tasks + moved), 2),
                }
            )
    return found


def main(quick: bool = False) -> int:
    found, empty = [], []
    with cluster(2) as client:
        for d, n in ((20, 2_000),) if quick else ((100, 40_000), (1_000, 40_000)):
            for parts in (2, 8) if quick else (2, 8, 32):
                found.append(measured(client, d, n, parts))
        for parts in (2, 8) if quick else (2, 8, 100, 1_000):
            empty.append(latency(client, parts))
            progress(empty[-1])
    notes = [
        "`q sent`: what the client hands to the scheduler, which hands it to one worker; the others have it from each "
        "other. `between workers`: their own logs of what came in. `formula`: 8 ((D+1)² + 2 (D+1)) bytes.",
        "`q once and answers that move`: one worker's q to the other, and at most half of the partitions' answers, "
        "8 ((D+1)² + (D+1)) bytes each, to the worker that joins them.",
    ]
    report("partitions/network", "Bytes of a pass", found, notes, quick)
    report("partitions/network_latency", "Rounds of tasks that do nothing", empty, ["Two workers."], quick)
    report("partitions/network_formula", "Bytes of a pass by the formula", formula(), [], quick)
    rate = {20: arithmetic(20, 40_000)} if quick else {100: arithmetic(100, 200_000), 1_000: arithmetic(1_000, 20_000)}
    speed = "; ".join(f"D = {d}: {value:.3g}" for d, value in rate.items())
    about = [f"10⁹ rows; rows · D² that a thread looks at in a second, {speed}; links of 10 Gbit/s, not measured."]
    report(
        "partitions/network_cluster",
        "Seconds of a pass on a cluster, by the model",
        predicted(rate, empty),
        about,
        quick,
    )
    return sum(row["ratio"] > 1.2 for row in found if not quick)


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
