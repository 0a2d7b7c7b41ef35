"""Clusters, rows in partitions and the estimators that every study here runs; a new one is a line in `ESTIMATORS`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks._lib import Array
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor

MIB = 2.0**20
#: Rows, targets by name: what an estimator is fitted to.
Rows = tuple[Array, Array]


@contextmanager
def cluster(n_workers: int = 2, memory_limit: Any = "auto", **options: Any) -> Iterator[Any]:
    """A client of workers with one thread each, processes of their own."""
    import dask
    from distributed import Client, LocalCluster

    quiet = {"distributed.logging": {"distributed": "critical"}, **options}
    how = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "memory_limit": memory_limit}
    with dask.config.set(quiet), LocalCluster(n_workers=n_workers, **how) as started, Client(started) as client:
        client.run(_warm)
        yield client


def _warm() -> int:
    """Imports and compiled loops, which no figure is about."""
    rows = simulated("logit", 400, 3, 0)
    BayesianGLMClassifier(max_iter=300, random_state=0, n_jobs=1).fit(*rows)
    return os.getpid()


def target(likelihood: str, X: Array, rng: Any) -> Array:
    """Targets with alternating effects, of a size that no label is certain."""
    f = X @ (np.where(np.arange(X.shape[1]) % 2, -1.0, 1.0) / np.sqrt(X.shape[1]))
    if likelihood == "logit":
        return (rng.random(len(X)) < expit(f)).astype(float)
    return rng.poisson(np.exp(0.5 * f)).astype(float) if likelihood == "poisson" else f + rng.standard_normal(len(X))


def simulated(likelihood: str, n: int, d: int, seed: int) -> Rows:
    rng = np.random.default_rng([seed, 18])
    X = rng.standard_normal((n, d))
    return X, target(likelihood, X, rng)


def lazily(likelihood: str, n: int, d: int, per_part: int, seed: int = 0) -> tuple[Any, Any]:
    """The same as Dask arrays whose blocks are made, each time anew, by the task that reads them."""
    import dask.array as da
    from dask import delayed

    made, X, y = delayed(simulated, pure=False, nout=2), [], []
    for k, start in enumerate(range(0, n, per_part)):
        size = min(per_part, n - start)
        block = made(likelihood, size, d, [seed, k])
        X.append(da.from_delayed(block[0], (size, d), float))
        y.append(da.from_delayed(block[1], (size,), float))
    return da.concatenate(X), da.concatenate(y)


def chunked(rows: Rows, parts: int) -> tuple[Any, Any]:
    """Rows of this process in partitions; equal rows are not one thing."""
    import dask.array as da

    size = -(-len(rows[1]) // parts)
    return da.from_array(rows[0], (size, -1), name=False), da.from_array(rows[1], (size,), name=False)


def model(likelihood: str, **options: Any) -> Any:
    options = {"random_state": 0, "n_jobs": 1, **options}
    if likelihood == "logit":
        return BayesianGLMClassifier(**options)
    return BayesianGLMRegressor(likelihood=likelihood, **options)


#: What is compared and killed: a maker of the estimator, and one of its rows (n, d, seed) in memory.
ESTIMATORS: dict[str, tuple[Callable[[], Any], Callable[[int, int, int], Rows]]] = {
    f"GLM, {name}": (partial(model, name), partial(simulated, name))
    for name in ("logit", "poisson", "gaussian", "student-t")
}


def bits(fitted: Any) -> list[bytes]:
    """What two fits must share to the bit."""
    blocks = [
        np.ascontiguousarray(block.mean).tobytes()
        for _, block in sorted(fitted.state_.q.items())
        if hasattr(block, "mean")
    ]
    return [np.asarray(fitted.lower_bounds_).tobytes(), *blocks]


class Resident:
    """Largest resident size of processes while something runs, sampled, and how it went over time."""

    def __init__(self, pids: dict[str, int], every: float = 0.1) -> None:
        self.pids, self.every, self.seen = pids, every, {name: [] for name in pids}

    def __enter__(self) -> Resident:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        import psutil

        while not self._stop.is_set():
            for name, pid in self.pids.items():
                try:
                    self.seen[name].append(psutil.Process(pid).memory_info().rss / MIB)
                except psutil.NoSuchProcess:
                    self.seen[name].append(float("nan"))
            time.sleep(self.every)

    def peak(self, name: str) -> float:
        return float(np.nanmax(self.seen[name]))

    def third(self, name: str, k: int) -> float:
        """Median of the k-th third of the time."""
        return float(np.nanmedian(np.array_split(np.array(self.seen[name]), 3)[k]))


def pids(client: Any) -> dict[str, int]:
    """Processes by name: the client's own, and the workers'."""
    workers = {f"worker {k}": pid for k, pid in enumerate(sorted(client.run(os.getpid).values()))}
    return {"client": os.getpid(), **workers}
