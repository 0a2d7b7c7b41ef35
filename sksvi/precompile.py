"""Compile loops ahead of time: ``python -m sksvi.precompile [--n-jobs N] [estimator ...]``, for images of containers.

Every named estimator, or every one, is fitted to a small table and predicts, so that what numba compiles for them is
in its cache (``NUMBA_CACHE_DIR``) before the first process that serves.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

#: Rows, and what makes fits of them short.
N = 24
SHORT = {"max_iter": 2, "random_state": 0, "n_inducing": 5, "n_components": 2, "n_jobs": 1}
COUNTS = ("CorrelatedTopicModel", "GammaPoissonFactorization", "GammaProcessNMF", "StructuredLDA")
PAIRS, MIXTURES = ("GeneralizedPMF", "PoissonFactorization"), ("BernoulliMixture", "CategoricalMixture")


def estimators() -> list[str]:
    """Names of all estimators."""
    import sksvi

    return [name for name in sksvi.__all__ if hasattr(getattr(sksvi, name), "fit")]


def small_table(name: str) -> tuple[Any, ...]:
    """Small training data, (X,) or (X, y), for the estimator of this name."""
    rng = np.random.default_rng(0)
    f = rng.standard_normal(N)
    counts = rng.poisson(np.exp(f))
    if name in COUNTS:
        return (rng.poisson(2.0, (N, 5)),)
    if name in PAIRS:
        return np.column_stack([np.arange(N) % 6, rng.integers(0, 5, N)]), counts
    X = np.column_stack([f, rng.standard_normal(N), np.arange(N) % 4])
    if name in MIXTURES:
        return ((X > 0).astype(float),)
    if name in ("BetaProcessFA", "GammaFactorModel"):
        return (X,)
    return X, (f > 0).astype(int) if name.endswith("Classifier") else counts if name == "DynamicGLM" else f


def small_fit(name: str) -> tuple[Any, tuple[Any, ...]]:
    """An estimator of this name, unfitted, whose fits are short, and its `small_table`."""
    import sksvi

    cls = getattr(sksvi, name)
    own: dict[str, Any] = {key: value for key, value in SHORT.items() if key in cls().get_params()}
    own |= {"groups": [2]} if name.startswith("GME") else {}
    return cls(**own), small_table(name)


def compile_loops(name: str) -> float:
    """Fit an estimator and let it predict, so that its loops are compiled; the CPU seconds that it took."""
    started = time.process_time()
    model, table = small_fit(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of short fits
        model.fit(*table)
        for method in ("predict", "transform", "score"):
            if hasattr(model, method):
                getattr(model, method)(*(table if method == "score" else table[:1]))
        if hasattr(model, "partial_fit"):
            clone(model).partial_fit(*table, **({"classes": [0, 1]} if name.endswith("Classifier") else {}))
    return time.process_time() - started


def main(arguments: list[str]) -> int:
    """Compile what these estimators, or all of them, need."""
    parser = argparse.ArgumentParser(prog="python -m sksvi.precompile", description=__doc__)
    parser.add_argument("estimators", nargs="*", metavar="estimator")
    parser.add_argument("--n-jobs", type=int, default=1, help="processes that compile at once; -1: one a core")
    parsed, available = parser.parse_args(arguments), estimators()
    unknown = [name for name in parsed.estimators if name not in available]
    if unknown:
        print(f"{', '.join(unknown)}: no estimator of sksvi. There are {', '.join(available)}.", file=sys.stderr)
        return 2
    names = parsed.estimators or available[::-1]  # topics, which take longest, first
    seconds = Parallel(parsed.n_jobs, return_as="generator")(delayed(compile_loops)(name) for name in names)
    for name, spent in zip(names, seconds, strict=True):
        print(f"{name}: {spent:.1f} CPU s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
