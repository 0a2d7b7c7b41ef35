"""A worker killed (SIGKILL) at random moments of fits: each ends with the bits of the fit that nobody disturbed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.partitions._data import bits, cluster, model, simulated
from sksvi import GMERegressor, StructuredLDA


def labels(share: float) -> tuple[Any, Array, Array]:
    return model("logit"), *simulated("logit", int(600_000 * share), 20, 0)


def groups(share: float) -> tuple[Any, Array, Array]:
    X, y = simulated("poisson", int(200_000 * share), 10, 0)
    grouped = np.column_stack([X, np.arange(len(X)) % 60])
    return GMERegressor(likelihood="poisson", groups=[10], random_state=0, n_jobs=1), grouped, y


def documents(share: float) -> tuple[Any, Array, None]:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(300, 0.1), 5)
    X = rng.poisson(60.0 * rng.dirichlet(np.full(5, 0.3), int(6_000 * share)) @ topics).astype(float)
    return StructuredLDA(n_components=5, max_iter=30, random_state=0, n_jobs=1), X, None


#: Estimators with their rows, and moments of each; what a document keeps lies beside its partition.
CASES: dict[str, tuple[Callable[[float], Any], int]] = {
    "GLM, logit": (labels, 7),
    "GME, poisson": (groups, 7),
    "StructuredLDA": (documents, 6),
}
PARTS = 12


def rows_in_parts(X: Array, y: Array | None) -> list[Any]:
    import dask.array as da

    size = -(-len(X) // PARTS)
    found = [da.from_array(X, chunks=(size, -1))]
    return found if y is None else [*found, da.from_array(y, chunks=size)]


def disturbed(estimator: Any, given: list[Any], client: Any, wait: float, which: int) -> dict[str, Any]:
    """A fit during which a worker is killed after `wait` seconds."""
    client.wait_for_workers(2, timeout=60)
    victims, hit = sorted(client.run(os.getpid).values()), []

    def kill() -> None:
        hit.append(victims[which])
        os.kill(victims[which], signal.SIGKILL)

    timer = threading.Timer(wait, kill)
    start = time.perf_counter()
    timer.start()
    fitted = clone(estimator).fit(*given)
    spent = time.perf_counter() - start
    timer.cancel()
    timer.join()
    return {"fitted": fitted, "seconds": spent, "in time": bool(hit)}


def main(quick: bool = False) -> int:
    rng, found = np.random.default_rng(18), []
    for name, (made, most) in CASES.items():
        estimator, *rows = made(0.1 if quick else 1.0)
        given, moments = rows_in_parts(*rows), 1 if quick else most
        with cluster(2):
            for _ in range(2):
                start = time.perf_counter()
                calm = clone(estimator).fit(*given)
                calm_seconds = time.perf_counter() - start
        for _ in range(moments):
            share, which = float(rng.random()), int(rng.integers(2))
            with cluster(2) as client:  # a new one: a nanny may give up on a worker that is killed twice
                again = disturbed(estimator, given, client, share * calm_seconds, which)
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
    notes = [f"{same} of {len(found)} fits ended with the bits of the undisturbed one; {PARTS} parts."]
    report("partitions/faults", "A worker killed at random moments of a fit", found, notes, quick)
    return len(found) - same


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
