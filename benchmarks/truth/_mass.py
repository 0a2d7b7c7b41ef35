"""Small sets whose hyperparameters are hardly known, and the model that `nothing set` is of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib import Array
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor
from sksvi.testing import simulate_mixed

#: Probabilities whose quantiles are stored of a run.
GRID = np.linspace(0.0025, 0.9975, 400)
Fit = tuple[Any, Any, Array]


def stackloss() -> Fit:
    from statsmodels.datasets import stackloss as loss

    data = loss.load_pandas()
    return BayesianGLMRegressor(likelihood="student-t"), data.exog, data.endog.to_numpy()


def outliers(seed: int) -> Fit:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((21, 3))
    return BayesianGLMRegressor(likelihood="student-t"), X, X[:, 0] + rng.standard_t(3.0, 21)


def separated(seed: int) -> Fit:
    """Labels that the sign of the first column gives."""
    X = np.random.default_rng(seed).standard_normal((20, 2))
    return BayesianGLMClassifier(), X, (X[:, 0] > 0).astype(int)


def three_groups(seed: int) -> Fit:
    data = simulate_mixed(3, 10, between=None, within=(0.3,), random_state=seed)
    return GMERegressor(groups=["group"]), data.X, data.y


def grouped_counts(seed: int) -> Fit:
    """Overdispersed counts of twelve levels."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"w0": rng.standard_normal(96), "group": np.repeat(list("abcdefghijkl"), 8)})
    rate = np.exp(1.0 + 0.3 * X["w0"] + 0.5 * np.repeat(rng.standard_normal(12), 8))
    y = rng.poisson(rate * rng.gamma(2.0, 0.5, 96))
    return GMERegressor(likelihood="negative-binomial", groups=["group"]), X, y


CASES: dict[str, Callable[[], Fit]] = {
    "Student-t, 21 rows, stackloss": stackloss,
    "Student-t, 21 rows, first": lambda: outliers(1),
    "Student-t, 21 rows, second": lambda: outliers(2),
    "separated labels, first": lambda: separated(1),
    "separated labels, second": lambda: separated(2),
    "separated labels, third": lambda: separated(3),
    "three groups, first": lambda: three_groups(1),
    "three groups, second": lambda: three_groups(2),
    "three groups, third": lambda: three_groups(3),
    "counts in groups, first": lambda: grouped_counts(1),
    "counts in groups, second": lambda: grouped_counts(2),
}
