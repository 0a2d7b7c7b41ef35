"""CPU milliseconds of partial_fit by rows of a chunk, beside scikit-learn's SGDClassifier in the same run."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import median, shares

#: Rows and columns, and the rows that each stream begins with; the chunks that are timed.
SIZES, D, FIRST, CHUNKS = (1, 10, 100, 1000), 20, 2000, 40
GROUPS = 20
#: Rows of the chunks whose time is shared out, and share -> file and function that it is of.
PROFILED = 10
PARTS = {
    "rows": ("estimators/base.py", "_encoded"),
    "passes": ("inference/stream.py", "settled_on"),
    "sample": ("inference/stream_state.py", "sampled"),
    "rare rows": ("inference/stream.py", "with_certain_rows"),
}


def rows(n: int) -> tuple[Array, Array, Array]:
    """A table whose last column is a group, a number that it tells, and a label."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D))
    X[:, -1] = rng.integers(0, GROUPS, n)
    f = X[:, :-1] @ (0.3 * rng.standard_normal(D - 1)) + 0.5 * rng.standard_normal(GROUPS)[X[:, -1].astype(int)]
    return X, f + rng.standard_normal(n), (rng.logistic(size=n) < f).astype(int)


def streams() -> dict[str, tuple[Any, bool]]:
    """Estimators, and whether y is a label."""
    from sklearn.linear_model import SGDClassifier

    from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMEClassifier, GMERegressor

    return {
        "BayesianGLMRegressor": (BayesianGLMRegressor, False),
        "BayesianGLMClassifier": (BayesianGLMClassifier, True),
        "GMERegressor": (lambda: GMERegressor(groups=[D - 1]), False),
        "GMEClassifier": (lambda: GMEClassifier(groups=[D - 1]), True),
        "SGDClassifier": (lambda: SGDClassifier(loss="log_loss", random_state=0), True),
    }


def stream(make: Any, label: bool, size: int, chunks: int, asked: bool = False) -> list[float]:
    """CPU milliseconds of chunks of `size` rows; `asked`: of each and of the coefficients after it."""
    X, number, labels = rows(FIRST + chunks * size)
    y, more = (labels, {"classes": [0, 1]}) if label else (number, {})
    model, found = make().partial_fit(X[:FIRST], y[:FIRST], **more), []
    for first in range(FIRST, len(y), size):
        part, started = slice(first, first + size), time.process_time()
        model.partial_fit(X[part], y[part])
        if asked:
            np.sum(model.coef_)
        found.append(1e3 * (time.process_time() - started))
    return found


def main(quick: bool = False) -> None:
    table = []
    for name, case in streams().items():
        chunks = 5 if quick else CHUNKS
        times = {f"{size} rows": round(median(stream(*case, size, chunks)), 2) for size in SIZES}
        times[f"{PROFILED} rows, coef_"] = round(median(stream(*case, PROFILED, chunks, asked=True)), 2)
        table.append({"stream": name} | times | shares(partial(stream, *case, PROFILED, chunks), PARTS))
        progress(table[-1])
    notes = [
        f"Median CPU milliseconds of {CHUNKS} chunks after a first one of {FIRST:,} rows, {D} columns; the last one "
        f"is a group of {GROUPS} levels in mixed models and a number elsewhere. One thread. With coef_: what is "
        "shown of a chunk is found when it is asked for. Shares are of a stream of chunks of "
        f"{PROFILED} rows and its first one under a profiler, in which calls of Python are dearer."
    ]
    report("glm/chunks", "Milliseconds of partial_fit by rows of a chunk", table, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
