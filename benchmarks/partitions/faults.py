"""A worker killed (SIGKILL) at random moments of fits: each ends with the bits of the fit that nobody disturbed."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.partitions._data import ESTIMATORS, bits, chunked, cluster

#: Estimators and moments of each.
NAMES, MOMENTS = ("GLM, logit", "GLM, poisson", "GLM, student-t"), (7, 7, 6)


def disturbed(name: str, given: Any, client: Any, wait: float, which: int) -> dict[str, Any]:
    """A fit during which a worker is killed after `wait` seconds."""
    client.wait_for_workers(2, timeout=60)
    victims, hit = sorted(client.run(os.getpid).values()), []

    def kill() -> None:
        hit.append(victims[which])
        os.kill(victims[which], signal.SIGKILL)

    timer = threading.Timer(wait, kill)
    start = time.perf_counter()
    timer.start()
    fitted = ESTIMATORS[name][0]().fit(*given)
    spent = time.perf_counter() - start
    timer.cancel()
    timer.join()
    return {"fitted": fitted, "seconds": spent, "in time": bool(hit)}


def main(quick: bool = False) -> int:
    rng, found = np.random.default_rng(18), []
    n, most = (60_000, (1, 1, 0)) if quick else (600_000, MOMENTS)
    for name, moments in zip(NAMES, most, strict=True):
        given = chunked(ESTIMATORS[name][1](n, 20, 0), 12)
        with cluster(2):
            for _ in range(2):
                start = time.perf_counter()
                calm = ESTIMATORS[name][0]().fit(*given)
                calm_seconds = time.perf_counter() - start
        for _ in range(moments):
            share, which = float(rng.random()), int(rng.integers(2))
            with cluster(2) as client:  # a new one: a nanny may give up on a worker that is killed twice
                again = disturbed(name, given, client, share * calm_seconds, which)
            row = {
                "estimator": name,
                "killed after, share of the fit": round(share, 3),
                "worker": which,
                "in time": again["in time"],
                "seconds": round(again["seconds"], 2),
                "seconds undisturbed": round(calm_seconds, 2),
                "same bits": bits(again["fitted"]) == bits(calm),
            }
            found.append(row)
            progress(row)
    same = sum(row["same bits"] for row in found)
    notes = [f"{same} of {len(found)} fits ended with the bits of the undisturbed one; {n} rows, 20 columns, 12 parts."]
    report("partitions/faults", "A worker killed at random moments of a fit", found, notes, quick)
    return len(found) - same


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
