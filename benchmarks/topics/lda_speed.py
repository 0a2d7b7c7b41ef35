"""Speed of the compiled local steps of latent Dirichlet allocation, one thread and two; draws and V of topics.

Tokens: distinct words of documents times sweeps for coordinate ascent; words times sweeps for Gibbs sampling.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, report
from benchmarks.topics._data import nips

K, SWEEPS, REPEATS = 50, 10, 7
#: Seconds that one measurement takes at least: threads start and end within it.
LEAST = 0.25


def least(call: Callable[[], Any]) -> tuple[float, float]:
    """Fewest CPU seconds and seconds of a call, of several rounds after one that compiles."""
    call()
    spent, calls = [], 1
    while len(spent) < REPEATS:
        start = time.process_time(), time.perf_counter()
        for _ in range(calls):
            call()
        cpu, seconds = time.process_time() - start[0], time.perf_counter() - start[1]
        if cpu < LEAST:
            calls *= 2
            continue
        spent.append((cpu / calls, seconds / calls))
    cpu, seconds = np.min(spent, 0)
    return float(cpu), float(seconds)


def local_steps(X: Any, topics: Array) -> list[dict[str, Any]]:
    """Millions of tokens a second of CPU, and how much faster two threads are by the clock."""
    from sksvi.families import Dirichlet
    from sksvi.models.data import Table
    from sksvi.models.topics.lda import LOCAL_STEPS, DocumentVisit, LatentDirichlet, local_step

    q, rows = {"topics": Dirichlet(topics)}, []
    effort, shape = DocumentVisit(SWEEPS, 0.0, SWEEPS // 2, SWEEPS // 2), topics.shape
    for name in LOCAL_STEPS:
        for dtype in ("float64", "float32"):
            options = {"alpha": np.full(shape[0], 0.1), "eta": np.full(shape, 0.1), "local_step": name, "dtype": dtype}
            model = LatentDirichlet(*shape, **options)
            view, table = model.view(q, None), Table(X, np.zeros(X.shape[0]))
            halves = [model.batch(table, part) for part in np.array_split(np.arange(X.shape[0]), 2)]
            assert view.rest.size  # found before two threads ask for it
            start = [halves_start(model, view, half, effort) for half in halves]

            def one(half: int, name: str = name, view: Any = view, halves: Any = halves, start: Any = start) -> None:
                counts = np.zeros((shape[1], shape[0]))
                squares = np.zeros((0, shape[0]))
                local_step(name)(view, halves[half], effort, 1, start[half].copy(), squares, counts)

            cpu, alone = least(lambda one=one: [one(0), one(1)])
            with ThreadPoolExecutor(2) as pool:
                both, together = least(lambda one=one, pool=pool: list(pool.map(one, (0, 1))))
            tokens = SWEEPS * (X.data.sum() if name == "gibbs" else X.nnz)
            row = {
                "what": name,
                "type": dtype,
                "millions a second": tokens / cpu / 1e6,
                "two threads": alone / together,
                "their CPU": both / cpu,
            }
            rows.append(row)
    return rows


def halves_start(model: Any, view: Any, half: Any, effort: Any) -> Array:
    """Where a second visit starts."""
    return np.asarray(model.settled(view, half, effort, 1, sums=False).local)


def draws(topics: Array) -> list[dict[str, Any]]:
    """Nanoseconds of CPU per entry."""
    from sksvi.families import Dirichlet

    q, rng = Dirichlet(topics), np.random.default_rng(0)
    draw, counts = q.drawn(rng), (rng.gamma(1.0, 1.0, topics.shape),)
    calls = {"Dirichlet draw": lambda: q.drawn(rng), "V": lambda: q.corrected(draw, counts)}
    calls["exp(E log β)"] = lambda: np.exp(Dirichlet(topics).moments)
    return [{"what": name, "ns an entry": 1e9 * least(call)[0] / topics.size} for name, call in calls.items()]


def main(quick: bool = False) -> None:
    from benchmarks.topics.lda_grid import fitted
    from sksvi import StructuredLDA

    X = nips(quick).train
    X = X[: min(400, X.shape[0])]
    topics = fitted(
        StructuredLDA(K, max_iter=2 if quick else 8, tol=0.0, uncertainty="variational", random_state=0), X
    ).posterior_["topics"]
    notes = [
        f"400 NIPS papers, K = {K}, {SWEEPS} sweeps from where a first visit ended; fewest CPU seconds of {REPEATS} "
        "runs. two threads: how much faster they are by the clock, halves of the documents each; a busy machine gives "
        "them less than two cores. their CPU: CPU seconds of both over those of one; above 1 they are in each other's "
        "way."
    ]
    report(
        "topics/lda_speed",
        "Local steps of latent Dirichlet allocation",
        local_steps(X, topics.concentration),
        notes,
        quick,
    )
    report("topics/lda_speed_draws", "Draws of topics", draws(topics.concentration), quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
