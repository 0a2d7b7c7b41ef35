"""One core to two: wall seconds of a fit with `n_jobs=1` and with `n_jobs=2`, a large table for each family.

Both fits run in turn in one process with one thread of BLAS; results of any number of threads have the same bits, which
is checked. Passes are few: what is asked is how work is shared, not what a whole fit takes.
"""

from __future__ import annotations

import hashlib
import pickle
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import median

#: Fits of each kind at most, and wall seconds of all after which there are no more.
REPEATS, ENOUGH = 3, 8.0
NOTES = [
    "CPU seconds of one thread. Medians of the wall seconds of fits with `n_jobs=1` and `n_jobs=2`, in turn. ratio: "
    "how many times as fast two threads are; on a machine that others use it says little. shared out: the same by CPU "
    "seconds, those of one thread over what the calling thread and half of the other threads take: what work is shared "
    "allows. same: whether both fits have the same bits. The last row is what this machine gives two threads at most."
]


def rows_of_normals(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Standard normal rows, a linear predictor of variance 1, and random numbers to go on with."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) / d**0.5, rng


def linear_cases(scale: float) -> Iterator[tuple[str, Any, Callable[[], tuple[Any, ...]]]]:
    """GLMs, mixed models and Gaussian processes: name, estimator, and its table."""
    from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor, SparseGPRegressor

    def classes() -> tuple[Any, ...]:
        X, f, rng = rows_of_normals(int(400_000 * scale), 50)
        return X, (rng.random(len(X)) < 1 / (1 + np.exp(-f))).astype(int)

    def counts() -> tuple[Any, ...]:
        X, f, rng = rows_of_normals(int(400_000 * scale), 50)
        return X, rng.poisson(np.exp(0.5 * f))

    def grouped() -> tuple[Any, ...]:
        X, f, rng = rows_of_normals(int(200_000 * scale), 10)
        groups = rng.integers(0, 500, len(X))
        y = rng.poisson(np.exp(0.5 * f + 0.3 * rng.standard_normal(500)[groups]))
        return np.column_stack([X, groups]), y

    def smooth() -> tuple[Any, ...]:
        X, f, rng = rows_of_normals(int(50_000 * scale), 5)
        return X, np.sin(2 * f) + 0.3 * rng.standard_normal(len(X))

    yield "GLM, logit", BayesianGLMClassifier(prior_precision=1.0), classes
    yield "GLM, Poisson", BayesianGLMRegressor(likelihood="poisson", prior_precision=1.0), counts
    yield "mixed effects, Poisson", GMERegressor(groups=[10], likelihood="poisson", max_iter=5), grouped
    yield "sparse GP", SparseGPRegressor(n_inducing=200, max_iter=3, optimize_hyperparameters=False), smooth


def factor_cases(scale: float) -> Iterator[tuple[str, Any, Callable[[], tuple[Any, ...]]]]:
    """Factors, topics and mixtures: name, estimator, and its table."""
    from sksvi import (
        BernoulliMixture,
        BetaProcessFA,
        CorrelatedTopicModel,
        GammaFactorModel,
        GammaPoissonFactorization,
        GeneralizedPMF,
        StructuredLDA,
    )
    from sksvi.datasets import make_beta_process, make_lda

    def bits() -> tuple[Any, ...]:
        rng = np.random.default_rng(0)
        profiles = rng.random((12, 100))
        n = int(50_000 * scale)
        return ((rng.random((n, 100)) < profiles[rng.integers(0, 12, n)]).astype(float),)

    def words() -> tuple[Any, ...]:
        return (make_lda(int(20_000 * scale), 500, n_components=20, random_state=0).data,)

    def ratings() -> tuple[Any, ...]:
        rng, n = np.random.default_rng(0), int(500_000 * scale)
        X = np.column_stack([rng.integers(0, 5000, n), rng.integers(0, 2000, n)])
        users, items = rng.standard_normal((5000, 5)), rng.standard_normal((2000, 5))
        return X, np.sum(users[X[:, 0]] * items[X[:, 1]], 1) + rng.standard_normal(n)

    def sums() -> tuple[Any, ...]:
        return (make_beta_process(int(20_000 * scale), 40, n_components=30, random_state=0).data,)

    variational = {"uncertainty": "variational", "max_iter": 5}
    yield "Bernoulli mixture", BernoulliMixture(30, max_iter=20), bits
    yield "gamma-Poisson factors", GammaPoissonFactorization(20, **variational), words
    yield "topics", StructuredLDA(20, **variational), words
    yield "correlated topics", CorrelatedTopicModel(20, **{**variational, "max_iter": 2}), words
    yield "ratings", GeneralizedPMF(10, **variational), ratings
    yield "gamma factors", GammaFactorModel(15, **variational), sums
    yield "beta process factors", BetaProcessFA(60, batch_size=None, **{**variational, "max_iter": 3}), sums


def bits_of(model: Any) -> str:
    """A digest of a fit's posterior."""
    return hashlib.sha256(pickle.dumps(model.state_.q)).hexdigest()


def measured(name: str, estimator: Any, table: tuple[Any, ...], repeats: int) -> dict[str, Any]:
    """A row of the table."""
    from sklearn.base import clone

    wall: dict[int, list[float]] = {1: [], 2: []}
    alone, shared, found = [], [], set()
    clone(estimator).set_params(random_state=0).fit(*(part[:500] for part in table))  # compiles
    for _ in range(repeats):
        for jobs, seconds in wall.items():
            model = clone(estimator).set_params(n_jobs=jobs, random_state=0)
            start = time.perf_counter(), time.process_time(), time.thread_time()
            model.fit(*table)
            spent, cpu, own = time.perf_counter() - start[0], time.process_time() - start[1], time.thread_time()
            seconds.append(spent)
            alone += [cpu] if jobs == 1 else []
            shared += [0.5 * (cpu + own - start[2])] if jobs == 2 else []
            found.add(bits_of(model))
        if sum(map(sum, wall.values())) > ENOUGH:
            break
    one, two = (median(seconds) for seconds in wall.values())
    row = {"family": name, "rows": table[0].shape[0], "CPU seconds": median(alone)}
    row |= {"n_jobs=1": one, "n_jobs=2": two, "ratio": one / two}
    return row | {"shared out": median(alone) / median(shared), "same": len(found) == 1}


def of_the_machine(repeats: int) -> dict[str, Any]:
    """What two threads gain of products of matrices, which wait for nothing."""
    A = np.random.default_rng(0).standard_normal((800, 800))

    def job(_: int) -> None:
        for _ in range(25):
            np.dot(A, A)

    wall: dict[int, list[float]] = {1: [], 2: []}
    with ThreadPoolExecutor(2) as pool:
        for _ in range(repeats):
            for jobs, seconds in wall.items():
                start = time.perf_counter()
                list((map if jobs == 1 else pool.map)(job, range(2)))
                seconds.append(time.perf_counter() - start)
    one, two = (median(seconds) for seconds in wall.values())
    return {"family": "products of matrices alone", "n_jobs=1": one, "n_jobs=2": two, "ratio": one / two}


def main(quick: bool = False) -> None:
    scale, repeats, rows = (0.01, 1, []) if quick else (1.0, REPEATS, [])
    for cases in (linear_cases(scale), factor_cases(scale)):
        for name, estimator, make in cases:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of few passes
                rows.append(measured(name, estimator, make(), repeats))
            progress(rows[-1])
    rows.append(of_the_machine(repeats))
    report("product/cores", "One core to two", rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
