"""Fits whose estimated memory is compared with their peak: an estimator and data of many rows, columns or levels each.

The peak is that of Python's and NumPy's allocations from the estimate to the end of the fit, beyond what there was.
"""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import scipy.sparse as sp

from sksvi._runtime import memory
from sksvi.decomposition import (
    BetaProcessFA,
    GammaFactorModel,
    GammaPoissonFactorization,
    GammaProcessNMF,
    GeneralizedPMF,
    PoissonFactorization,
)
from sksvi.gaussian_process import GPClassifier, SparseGPClassifier, SparseGPRegressor
from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.mixed_effects import GMERegressor
from sksvi.mixture import BernoulliMixture
from sksvi.time_series import DynamicGLM
from sksvi.topics import CorrelatedTopicModel, StructuredLDA

#: Seed of the data; passes of a fit, enough that the search for a kernel, where there is one, is under way.
SEED, PASSES = 0, 20
#: Factor between peak and estimate that an estimate may be wrong by.
MAX_RATIO = 1.3
#: Estimator, X and y.
Fit = tuple[Any, Any, Any]


def glm(n: int, d: int, classes: int = 0, **options: Any) -> Fit:
    """Linear model of real targets, or of labels where there are classes."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, d))
    if classes:
        return BayesianGLMClassifier(**options), X, rng.integers(0, classes, n)
    return BayesianGLMRegressor(**options), X, X[:, 0] + rng.standard_normal(n)


def gme(n: int, users: int, items: int) -> Fit:
    """Mixed model of two crossed groups."""
    rng = np.random.default_rng(SEED)
    X = pd.DataFrame({"x": rng.standard_normal(n), "user": np.arange(n) % users, "item": rng.integers(0, items, n)})
    return GMERegressor(groups=["user", "item"]), X, rng.standard_normal(n)


def gp(model: Any, n: int, classes: int = 0) -> Fit:
    """Gaussian process of three columns, with labels where there are classes."""
    X = np.random.default_rng(SEED).standard_normal((n, 3))
    return model, X, np.digitize(X[:, 0], [-0.5, 0.5][: classes - 1]) if classes else np.sin(X[:, 0])


def with_fixed_kernel(model: Any) -> Any:
    """Gaussian process that learns neither its kernel nor inducing points."""
    names = [name for name in model.get_params() if name.startswith("optimize_")]
    return model.set_params(**dict.fromkeys(names, False))


def pmf(covariance: str, users: int) -> Fit:
    """Factorization of two ratings per user."""
    rng, n = np.random.default_rng(SEED), 2 * users
    pairs = np.column_stack([np.arange(n) % users, rng.integers(0, 500, n)])
    return GeneralizedPMF(n_components=30, covariance=covariance, random_state=0), pairs, rng.standard_normal(n)


def topics(n: int, words: int, **options: Any) -> Fit:
    """Correlated topics of sparse documents of about thirty words."""
    X = sp.random_array((n, words), density=30 / words, format="csr", rng=np.random.default_rng(SEED))
    X.data = np.ceil(3 * X.data)
    return CorrelatedTopicModel(n_components=40, random_state=0, **options), X, None


def beta_process(n: int, d: int, **options: Any) -> Fit:
    """Factor analysis with a beta process."""
    X = np.random.default_rng(SEED).standard_normal((n, d))
    return BetaProcessFA(n_components=150, random_state=0, **options), X, None


def sparse_glm(n: int, d: int) -> Fit:
    """Linear model of labels of sparse rows with twenty entries each."""
    rng = np.random.default_rng(SEED)
    cells = np.repeat(np.arange(n), 20), rng.integers(0, d, 20 * n)
    return BayesianGLMClassifier(), sp.csr_array((np.ones(20 * n), cells), shape=(n, d)), rng.integers(0, 2, n)


def counts(model: Any, n: int, d: int, most: float = np.inf) -> Fit:
    """Decomposition or mixture of a table of Poisson counts, at most ``most`` each."""
    return model, np.minimum(np.random.default_rng(SEED).poisson(1.0, (n, d)), most).astype(float), None


def pairs_of_counts(users: int) -> Fit:
    """Poisson factorization of two counts per user."""
    _, pairs, _ = pmf("full", users)
    rng = np.random.default_rng(SEED)
    return PoissonFactorization(n_components=30, random_state=0), pairs, rng.poisson(2.0, len(pairs))


def series(n: int, **options: Any) -> Fit:
    """Time series of Poisson counts."""
    return DynamicGLM(**options), None, np.random.default_rng(SEED).poisson(3.0, n)


#: Fits by name.
CASES: dict[str, Callable[[], Fit]] = {
    "GLM, 700 columns": lambda: glm(800, 700),
    "GLM, labels": lambda: glm(800, 700, 2),
    "GLM, 4 classes": lambda: glm(600, 200, 4),
    "GLM, 2,000 columns of 600 rows": lambda: glm(600, 2000),
    "GLM, labels, 20,000 sparse columns of 800 rows": lambda: sparse_glm(800, 20_000),
    "GLM, s-dsvi": lambda: glm(800, 700, 2, algorithm="s-dsvi", random_state=0),
    "GME, an arrow": lambda: gme(6_000, 3_000, 300),
    "sparse GP": lambda: gp(SparseGPRegressor(n_inducing=400, random_state=0), 500),
    "sparse GP, a given kernel": lambda: gp(with_fixed_kernel(SparseGPRegressor(n_inducing=400, random_state=0)), 500),
    "sparse GP, many rows": lambda: gp(SparseGPRegressor(n_inducing=200, random_state=0), 10_000),
    "sparse GP, rows not kept": lambda: gp(SparseGPRegressor(n_inducing=400, random_state=0), 25_000),
    "sparse GP, optimal bound": lambda: gp(SparseGPRegressor(n_inducing=50, bound="optimal", random_state=0), 1_500),
    "sparse GP, labels": lambda: gp(SparseGPClassifier(n_inducing=400, random_state=0), 500, 2),
    "sparse GP, labels, diagonal": lambda: gp(
        SparseGPClassifier(n_inducing=400, covariance="diag", random_state=0), 500, 2
    ),
    "sparse GP, 3 classes": lambda: gp(SparseGPClassifier(n_inducing=300, random_state=0), 400, 3),
    "full GP": lambda: gp(GPClassifier(), 600, 2),
    "full GP, a given kernel": lambda: gp(with_fixed_kernel(GPClassifier()), 600, 2),
    "factorization": lambda: pmf("full", 5_000),
    "factorization, diagonal": lambda: pmf("diag", 20_000),
    "topics": lambda: topics(1_000, 10_000),
    "topics, diagonal": lambda: topics(1_000, 10_000, covariance="diag"),
    "beta process": lambda: beta_process(1_000, 500),
    "beta process, Gibbs": lambda: beta_process(1_000, 500, algorithm="gibbs"),
    "topics of one prior each": lambda: counts(StructuredLDA(40, random_state=0), 200, 2_000),
    "mixture": lambda: counts(BernoulliMixture(300, random_state=0), 500, 1_000, 1),
    "counts": lambda: counts(GammaPoissonFactorization(40, random_state=0), 500, 1_000),
    "gamma process": lambda: counts(GammaProcessNMF(40, random_state=0), 500, 1_000),
    "pairs of counts": lambda: pairs_of_counts(20_000),
    "gamma factors": lambda: counts(GammaFactorModel(20, random_state=0), 200, 200),
    "counts, few components": lambda: counts(GammaPoissonFactorization(10, random_state=0), 300, 3_000),
    "series": lambda: series(4_000, seasonal=24),
    "series, a level that walks": lambda: series(4_000, level="walk"),
    "series, a cycle": lambda: series(4_000, trend=True, cycle=True),
    "series of measurements": lambda: series(4_000, likelihood="gaussian", seasonal=12),
}


def estimate_and_peak(model: Any, X: Any, y: Any) -> tuple[float, float]:
    """Fit an estimator, and compare the memory that it estimates with the memory that it takes.

    Parameters
    ----------
    model : estimator
        Its ``max_iter`` is set to `PASSES`, its ``n_jobs`` to 1.
    X, y : array, DataFrame or None
        Data.

    Returns
    -------
    estimate, peak : float
        Bytes: the largest estimate, and the peak after the first one.
    """
    estimates: list[float] = []
    before: list[int] = []

    def record(size: float, what: str, remedy: str) -> None:
        if not estimates:
            tracemalloc.reset_peak()
            before.append(tracemalloc.get_traced_memory()[0])
        estimates.append(size)

    model.set_params(max_iter=PASSES, n_jobs=1)
    with warnings.catch_warnings(), mock.patch.object(memory, "need", record):
        warnings.simplefilter("ignore")
        tracemalloc.start()
        try:
            model.fit(X) if y is None else model.fit(X, y)
            return max(estimates), tracemalloc.get_traced_memory()[1] - before[0]
        finally:
            tracemalloc.stop()
