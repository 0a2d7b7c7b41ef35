"""What fits of topics and of small mixtures cannot avoid: bare products of their passes beside the fits.

As `benchmarks.product.limits` has it for linear models and processes, in one thread: where a target of speed is not
reached these floors say how much of a fit is multiply-adds. Counts of visits, passes and sweeps are those of the fit
that is timed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock, median
from benchmarks.mixture.small import REAL, SIMULATED, real, simulated
from benchmarks.product.limits import calls_of, counted, spent

#: Topics of the papers, and the CPU seconds that were asked for until the mark of `benchmarks.topics.nips`.
TOPICS, ASKED = 50, 1.0


@contextmanager
def timed(parts: dict[str, tuple[Any, str]]) -> Iterator[dict[str, Clock]]:
    """CPU seconds that functions take, with all that they call, by name: of each its owner and its own name."""
    clocks = {name: Clock() for name in parts}

    def within(clock: Clock, function: Any) -> Any:
        def run(*given: Any, **named: Any) -> Any:
            with clock:
                return function(*given, **named)

        return run

    with ExitStack() as stack:
        for name, (owner, verb) in parts.items():
            stack.enter_context(patch.object(owner, verb, within(clocks[name], getattr(owner, verb))))
        yield clocks


# ---- correlated topics
def bare_visit(counts: Any, K: int, nodes: int, rounds: int) -> Callable[[], None]:
    """Products of a visit of every document, at the fewest looks that it may end at.

    Each round of mean and covariance looks before and after one Newton step: θᵀβ of its words and Σ c r of topics, at
    every node; of each its responsibilities' products, once for the step, for the covariance at every node.
    """
    rng = np.random.default_rng(0)
    topics, theta = rng.random((counts.shape[1], K)) + 0.1, rng.dirichlet(np.ones(K), nodes)

    def run() -> None:
        for i in range(counts.shape[0]):
            words = slice(counts.indptr[i], counts.indptr[i + 1])
            B, c = topics[counts.indices[words]], counts.data[words, None]
            for _ in range(rounds):
                for _ in range(2):
                    ratio = c / np.dot(B, theta.T)
                    np.dot(ratio.T, B)
                table = np.dot(ratio, theta) * B
                np.dot(table.T, table)
                for s in range(nodes):
                    table = ratio[:, s, None] * B
                    np.dot(table.T, table)

    return run


def topics(quick: bool) -> None:
    from benchmarks.topics._data import compiled, nips
    from sksvi import CorrelatedTopicModel
    from sksvi.inference.passes import stochastic
    from sksvi.models.topics import anchors, correlated
    from sksvi.topics import _correlated

    train, K = nips(quick).train, 5 if quick else TOPICS
    compiled(K, train)
    found = []
    for _ in range(1 if quick else 5):
        model = CorrelatedTopicModel(K, max_iter=1, random_state=0, uncertainty="variational", n_jobs=1)
        parts = {
            "start": (_correlated, "first_counts"),
            "pass": (stochastic, "noisy_step"),
            "last look": (stochastic.Noisy, "end"),
            "judging": (_correlated, "exact_bound"),
        }
        with timed(parts) as clocks:
            whole = spent(partial(model.fit, train))
        taken = {name: clock.cpu for name, clock in clocks.items()}
        found.append({"fit": whole, **taken})
    row: dict[str, Any] = {"documents": train.shape[0], "words": train.nnz, "topics": K, "asked": ASKED}
    row |= {f"{name}, s": median([one[name] for one in found]) for name in found[0]}
    bare = bare_visit(train, K, correlated.NODES, correlated.VISIT.rounds)
    row |= {"bare visits, s": min(spent(bare) for _ in range(3))}
    row |= {"bare products of the start, s": min(spent(bare_start(anchors, train, K)) for _ in range(3))}
    notes = [
        "CPU seconds of a fit of one pass, after which the mark of `topics.nips` is passed. start: topics from words "
        "that stand for one. pass: steps on batches, that is posteriors of all documents, compiled, and their sums. "
        "last look and judging: the bound at the end, which the mark does not wait for. bare visits: products by BLAS "
        "of the fewest looks that a visit of each document may end at, two for each of its rounds, with Hessians; no "
        "exponential, factor or sum. bare products of the start: counts times the axes of words, there and back."
    ]
    progress(row)
    report("product/limits_topics", "One pass of correlated topics and its products", [row], notes, quick)


def bare_start(anchors: Any, counts: Any, K: int) -> Callable[[], None]:
    """Products of the counts with the axes of words, there and back."""
    columns = np.random.default_rng(0).random((counts.shape[1], min(K + anchors.FURTHER, counts.shape[1])))
    across = counts.T.tocsr()

    def run() -> None:
        for _ in range(anchors.PRODUCTS + 1):
            across @ (counts @ columns)

    return run


# ---- small mixtures
def bare_pass(table: Any, K: int) -> Callable[[], None]:
    """Log probabilities of rows under K components, responsibilities, and counts by value: one pass."""
    import pandas as pd
    import scipy.sparse as sp

    cells = sp.csr_matrix(np.asarray(pd.get_dummies(table, dtype=float)))
    logs = np.log(np.random.default_rng(0).random((cells.shape[1], K)))

    def run() -> None:
        shares = cells @ logs
        shares -= shares.max(1, keepdims=True)
        np.exp(shares, out=shares)
        shares /= shares.sum(1, keepdims=True)
        cells.T @ shares

    return run


def mixtures(quick: bool) -> None:
    from sksvi import CategoricalMixture
    from sksvi.models.mixture.model import MixtureModel
    from sksvi.models.mixture.sampler import MixtureSampler

    tables = {name: simulated(*sizes, 0).rows for name, sizes in SIMULATED.items()}
    tables |= {name: real(name, 0).rows for name in list(REAL)[:2]}
    rows: list[dict[str, Any]] = []
    for name, table in list(tables.items())[: 1 if quick else None]:
        model = CategoricalMixture(random_state=0).fit(table)  # compiles

        def components(self: Any, view: Any, batch: Any, *_: Any) -> int:
            return len(view.base)

        with (
            counted(MixtureModel, "terms", components) as passes,
            counted(MixtureSampler, "sweep", lambda *_: 1) as sweeps,
        ):
            model.fit(table)
        calls, bare = calls_of(partial(model.fit, table)), bare_pass(table, int(np.median(passes)))
        seconds = median([spent(partial(model.fit, table)) for _ in range(2 if quick else 7)])
        row = {
            "table": name,
            "ours, s": seconds,
            "passes": len(passes),
            "sweeps of labels": len(sweeps),
            "calls": calls,
        }
        one = spent(lambda bare=bare: [bare() for _ in range(200)]) / 200  # type: ignore[misc]
        rows.append(
            row | {"microseconds a call": 1e6 * seconds / calls, "bare passes, s": one * (len(passes) + len(sweeps))}
        )
        progress(rows[-1])
    notes = [
        "CPU seconds of a fit at the defaults. passes: of the fit, of merged components and of other starts. sweeps: "
        "of the chain over labels. calls: of Python and of compiled functions, by cProfile, under which they are not "
        "timed. bare passes: log probabilities of all rows under the median number of components, responsibilities "
        "and counts, for each pass and each sweep."
    ]
    report("product/limits_mixtures", "Small mixtures: passes and calls of Python", rows, notes, quick)


def main(quick: bool = False) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        topics(quick)
        mixtures(quick)


if __name__ == "__main__":
    main(arguments(__doc__))
