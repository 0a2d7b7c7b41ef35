"""What the guards of compiled loops cost: their share of the CPU time of a short fit of every family."""

from __future__ import annotations

import time
import timeit
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import scipy.sparse as sp

from benchmarks._lib.tables import arguments, progress, report
from sksvi import (
    BayesianGLMClassifier,
    BernoulliMixture,
    BetaProcessFA,
    CorrelatedTopicModel,
    DynamicGLM,
    GammaFactorModel,
    GammaPoissonFactorization,
    GammaProcessNMF,
    GeneralizedPMF,
    GMERegressor,
    SparseGPClassifier,
    StructuredLDA,
)
from sksvi._runtime.compiled import Guard
from sksvi.datasets import make_beta_process, make_ctm, make_lda, make_pmf, make_spectra

REPEATS, LOOPS, SEED = 5, 500, 0
#: Of a fit's CPU time.
MOST = 0.01


def glm(share: float) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(SEED)
    X = sp.random_array((int(20_000 * share), 300), density=0.02, format="csr", rng=rng)
    return BayesianGLMClassifier(), X, (X @ rng.standard_normal(300) > 0).astype(int)


def gme(share: float) -> tuple[Any, Any, Any]:
    rng, n = np.random.default_rng(SEED), int(20_000 * share)
    X = pd.DataFrame({"x": rng.standard_normal(n), "user": rng.integers(0, n // 10, n), "item": rng.integers(0, 50, n)})
    f = X["x"] + rng.standard_normal(n // 10)[X["user"]] + rng.standard_normal(50)[X["item"]]
    return GMERegressor(groups=["user", "item"], random_slopes={"user": "x"}), X, f + rng.standard_normal(n)


def gp(share: float) -> tuple[Any, Any, Any]:
    X = np.random.default_rng(SEED).standard_normal((int(2_000 * share), 4))
    return (
        SparseGPClassifier(n_inducing=50, max_iter=20, random_state=0),
        X,
        (np.sin(2 * X[:, 0]) > X[:, 1]).astype(int),
    )


def pmf(share: float) -> tuple[Any, Any, Any]:
    users, items = int(1_000 * share), int(600 * share)
    ratings = make_pmf(users, items, 5, observed=0.1, random_state=SEED)
    return GeneralizedPMF(n_components=5, max_iter=20, random_state=0), ratings.data, ratings.target


def topics(share: float) -> tuple[Any, Any, Any]:
    X = make_ctm(n_samples=int(1_000 * share), random_state=SEED).data
    return CorrelatedTopicModel(n_components=8, max_iter=10, random_state=0), X, None


def beta_process(share: float) -> tuple[Any, Any, Any]:
    X = make_beta_process(n_samples=int(1_000 * share), n_components=20, random_state=SEED).data
    return BetaProcessFA(n_components=20, max_iter=10, random_state=0), X, None


def lda(share: float) -> tuple[Any, Any, Any]:
    X = make_lda(n_samples=int(1_000 * share), random_state=SEED).data
    return StructuredLDA(n_components=20, random_state=0), X, None


def mixture(share: float) -> tuple[Any, Any, Any]:
    rng, n = np.random.default_rng(SEED), int(2_000 * share)
    X = rng.random((n, 50)) < rng.random((10, 50))[rng.integers(10, size=n)]
    return BernoulliMixture(n_components=20, random_state=0), X.astype(float), None


def frames(share: float) -> tuple[Any, Any, Any]:
    X = make_spectra(n_samples=int(1_000 * share), random_state=SEED).data
    return GammaProcessNMF(n_components=20, random_state=0), X, None


def counts(share: float) -> tuple[Any, Any, Any]:
    X = make_spectra(n_samples=int(1_000 * share), random_state=SEED).data
    return GammaPoissonFactorization(n_components=20, random_state=0), X, None


def factors(share: float) -> tuple[Any, Any, Any]:
    rng, n = np.random.default_rng(SEED), int(2_000 * share)
    X = rng.standard_normal((n, 5)) @ rng.gamma(1.0, size=(5, 20)) + rng.standard_normal((n, 20))
    return GammaFactorModel(n_components=10, random_state=0), X, None


def series(share: float) -> tuple[Any, Any, Any]:
    n = int(2_000 * share)
    rng = np.random.default_rng(SEED)
    return DynamicGLM(), None, rng.poisson(np.exp(1.0 + 0.05 * np.cumsum(rng.standard_normal(n))))


#: Sizes at which a fit takes seconds.
FITS: dict[str, Callable[[float], tuple[Any, Any, Any]]] = {
    "GLM, sparse columns": glm,
    "GME, two groups and slopes": gme,
    "sparse GP": gp,
    "factorization": pmf,
    "correlated topics": topics,
    "beta process": beta_process,
    "LDA": lda,
    "mixture": mixture,
    "gamma process NMF": frames,
    "gamma Poisson factors": counts,
    "gamma factors": factors,
    "series of counts": series,
}


def seconds(model: Any, X: Any, y: Any) -> float:
    """CPU seconds of a fit."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X) if y is None else model.fit(X, y)
    return time.process_time() - started


def entries(given: Any) -> int:
    """Entries of the arrays that a loop is given, those of its records among them."""
    if isinstance(given, tuple):
        return sum(map(entries, given))
    return given.size if isinstance(given, np.ndarray) else 0


def checks(model: Any, X: Any, y: Any) -> tuple[int, float]:
    """How often the guards of a fit are asked, and the seconds of all that, each timed on arguments of its size."""
    counts: Counter[tuple[Guard, int]] = Counter()
    kept: dict[tuple[Guard, int], tuple[Any, ...]] = {}
    check = Guard.__call__

    def counted(guard: Guard, given: tuple[Any, ...]) -> None:
        check(guard, given)
        bits = entries(given).bit_length()
        counts[guard, bits] += 1
        kept[guard, bits] = given

    with mock.patch.object(Guard, "__call__", counted):
        seconds(model, X, y)
    spent = 0.0
    for key, given in kept.items():
        guard = key[0]
        each = min(timeit.repeat(lambda guard=guard, given=given: guard(given), number=LOOPS, repeat=REPEATS)) / LOOPS
        spent += counts[key] * each
    return counts.total(), spent


def main(quick: bool = False) -> int:
    rows = []
    for name, of in FITS.items():
        given = of(0.2 if quick else 1.0)
        given[0].set_params(n_jobs=1)
        seconds(*given)  # compiles
        cpu = min(seconds(*given) for _ in range(1 if quick else REPEATS))
        calls, spent = checks(*given)
        each = 1e6 * spent / calls if calls else None
        rows.append({"fit": name, "CPU s": cpu, "checks": calls, "µs each": each, "share, %": 100 * spent / cpu})
        progress(rows[-1])
    notes = [
        f"A fit in one thread each, the least CPU seconds of {REPEATS}; its checks counted, and each guard timed on "
        "arguments that it met, for every doubling of their size. Fits without checks enter no compiled loop.",
    ]
    report("hostile/guards", "What guards cost", rows, notes, quick)
    return sum(row["share, %"] > 100 * MOST for row in rows)


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
