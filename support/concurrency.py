"""Fits, predictions and files in threads side by side and in forked processes, compared by their bytes."""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.base import clone

from sksvi.persistence import load
from support.small_fits import (
    FitCase,
    fit_bytes,
    ignore_convergence_warnings,
    make_data,
    make_estimator,
    predictions,
)


def concurrent_tasks(case: FitCase, seed: int, folder: Path) -> dict[str, Callable[[], bytes]]:
    """Tasks of a case by name, for threads that run side by side.

    Parameters
    ----------
    case : FitCase
        Estimator and parameters.
    seed : int
        Seed of the data.
    folder : Path
        Folder for a saved model.

    Returns
    -------
    tasks : dict of str to callable
        "fit", "predict", "load" and, for an estimator that takes chunks, "partial_fit"; each returns bytes.
    """
    X, y = make_data(case.name, seed)
    with ignore_convergence_warnings():
        fitted = make_estimator(case, 8).fit(X, y)
    path, blob = folder / f"{hashlib.sha256(str(case).encode()).hexdigest()}.sksvi", pickle.dumps(fitted)
    fitted.save(path)
    found: dict[str, Callable[[], bytes]] = {
        "fit": lambda: fit_bytes(clone(fitted).fit(X, y), X),
        "predict": lambda: predictions(fitted, X).tobytes(),
        "load": lambda: predictions(load(path), X).tobytes(),
    }
    if hasattr(fitted, "partial_fit") and case.options.get("algorithm") != "gibbs":
        found["partial_fit"] = lambda: fit_bytes(pickle.loads(blob).partial_fit(X, y), X)
    return found


def run_in_threads(tasks: list[Callable[[], bytes]]) -> list[Any]:
    """Run tasks in a thread each, begun together.

    Parameters
    ----------
    tasks : list of callable
        Called without arguments.

    Returns
    -------
    results : list
        What each task returned, or the error that it raised.
    """
    results: list[Any] = [None] * len(tasks)
    together = threading.Barrier(len(tasks))

    def run(i: int) -> None:
        together.wait()
        try:
            results[i] = tasks[i]()
        except BaseException as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(tasks))]
    with ignore_convergence_warnings():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


def blas_threads() -> list[int]:
    """Number of threads of every BLAS in this process."""
    from threadpoolctl import threadpool_info

    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def run_in_fork(task: Callable[[], bytes]) -> bytes:
    """Run a task in a forked process, and return its bytes."""
    read, write = os.pipe()
    if not (child := os.fork()):
        status = 1
        try:
            with ignore_convergence_warnings(), os.fdopen(write, "wb") as pipe:
                pipe.write(task())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        out = pipe.read()
    os.waitpid(child, 0)
    return out
