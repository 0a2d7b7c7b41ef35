"""Small sets with the models that `truth.loo` leaves rows out of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks._lib import Array
from benchmarks._lib.loaders import RANDHIE, STORED_DATA, standardised
from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    GMEClassifier,
    GMERegressor,
    GPClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
)


class Case(NamedTuple):
    """A model and its rows; `groups`: the column whose levels leave with all of their rows, None: rows leave alone."""

    model: Any
    X: Any
    y: Array
    groups: str | None = None


def _statsmodels(name: str) -> tuple[Array, Array]:
    from statsmodels import datasets

    data = getattr(datasets, name).load_pandas()
    return data.exog.to_numpy(float), data.endog.to_numpy()


def spector(model: Any) -> Case:
    X, y = _statsmodels("spector")
    return Case(model, X, y.astype(int))


def cpunish(model: Any) -> Case:
    X, y = _statsmodels("cpunish")
    return Case(model, standardised(X), y.astype(int))


def stackloss(model: Any) -> Case:
    X, y = _statsmodels("stackloss")
    return Case(model, standardised(X), y)


def simulated_labels(n: int, d: int, model: Any) -> Case:
    rng = np.random.default_rng([n, d])
    X = rng.normal(size=(n, d))
    return Case(model, X, (rng.random(n) < expit(2.0 * X[:, 0] - X[:, 1])).astype(int))


def leverage(model: Any) -> Case:
    rng = np.random.default_rng(1)
    X = rng.standard_t(2, size=(50, 4))
    return Case(model, X, rng.poisson(np.exp(np.clip(0.4 * X[:, 0] + 1.0, None, 6.0))))


def outlier(model: Any) -> Case:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + rng.normal(size=300)
    y[0] = X[0, 0] + 6.0
    return Case(model, X, y)


def diabetes(model: Any) -> Case:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return Case(model, X[:120], y[:120])


def wide(model: Any) -> Case:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 60))
    return Case(model, X, X[:, :3].sum(axis=1) + 0.5 * rng.normal(size=30))


def iris(model: Any) -> Case:
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return Case(model, X[::2, :2], y[::2])


def doctor_visits(model: Any) -> Case:
    table = pd.read_csv(RANDHIE).iloc[:100]
    return Case(model, table.drop(columns="mdvis"), table["mdvis"].to_numpy())


def levels(model: Any) -> Case:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3))
    f = X[:, 0] - 0.5 * X[:, 1] + rng.logistic(size=60)
    return Case(model, X, np.digitize(f, [-1.0, 0.5, 1.5]))


def seizures(groups: str | None, model: Any) -> Case:
    table = pd.read_csv(STORED_DATA / "epil.csv")
    table = table[table["subject"] <= 25].astype({"subject": str})
    return Case(model, table.drop(columns="y"), table["y"].to_numpy(), groups)


def schools(groups: str | None, model: Any) -> Case:
    rng = np.random.default_rng(3)
    codes, x = np.arange(60) % 10, rng.normal(size=60)
    y = 0.5 * x + rng.normal(size=10)[codes] + 0.7 * rng.normal(size=60)
    return Case(model, pd.DataFrame({"x": x, "school": [f"s{c}" for c in codes]}), y, groups)


def salamanders(model: Any) -> Case:
    table = pd.read_csv(STORED_DATA / "salamander.csv").iloc[:120].astype({"female": str, "male": str})
    return Case(model, table[["cross", "female", "male"]], table["mate"].to_numpy())


def surface(kind: str, model: Any) -> Case:
    rng = np.random.default_rng(4)
    X = rng.uniform(-3, 3, (50, 2))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1]
    y = {
        "measured": f + 0.3 * rng.normal(size=50),
        "counts": rng.poisson(np.exp(f)),
        "labels": rng.random(50) < expit(2 * f),
    }
    return Case(model, X, y[kind].astype(int) if kind == "labels" else y[kind])


#: Name to likelihood and a function that makes the case: priors as given first, then nothing set but what the data are.
CASES: dict[str, tuple[str, Callable[[], Case]]] = {
    "spector 32 × 3, prior given": ("logit", lambda: spector(BayesianGLMClassifier(prior_precision=0.1))),
    "labels 60 × 10, prior given": (
        "logit",
        lambda: simulated_labels(60, 10, BayesianGLMClassifier(prior_precision=0.2)),
    ),
    "labels 40 × 30, prior given": (
        "logit",
        lambda: simulated_labels(40, 30, BayesianGLMClassifier(prior_precision=0.5)),
    ),
    "cpunish 17 × 6 (Texas), prior given": (
        "poisson",
        lambda: cpunish(BayesianGLMRegressor(likelihood="poisson", prior_precision=0.2)),
    ),
    "leverage 50 × 4, prior given": (
        "poisson",
        lambda: leverage(BayesianGLMRegressor(likelihood="poisson", prior_precision=0.2)),
    ),
    "spector 32 × 3": ("logit", lambda: spector(BayesianGLMClassifier())),
    "labels 40 × 30": ("logit", lambda: simulated_labels(40, 30, BayesianGLMClassifier())),
    "cpunish 17 × 6 (Texas)": ("poisson", lambda: cpunish(BayesianGLMRegressor(likelihood="poisson"))),
    "stackloss 21 × 3": ("gaussian", lambda: stackloss(BayesianGLMRegressor())),
    "stackloss 21 × 3, heavy tails": ("student-t", lambda: stackloss(BayesianGLMRegressor(likelihood="student-t"))),
    "300 × 2, a row six noises off": ("gaussian", lambda: outlier(BayesianGLMRegressor())),
    "diabetes 120 × 10": ("gaussian", lambda: diabetes(BayesianGLMRegressor())),
    "diabetes 120 × 10, a precision a column": (
        "gaussian",
        lambda: diabetes(BayesianGLMRegressor(prior_precision="ard")),
    ),
    "wide 30 × 60": ("gaussian", lambda: wide(BayesianGLMRegressor(covariance="full"))),
    "iris 75 × 2": ("softmax", lambda: iris(BayesianGLMClassifier())),
    "doctor visits 100 × 9": (
        "negative-binomial",
        lambda: doctor_visits(BayesianGLMRegressor(likelihood="negative-binomial")),
    ),
    "levels 60 × 3": ("ordinal", lambda: levels(BayesianGLMRegressor(likelihood="ordinal"))),
    "seizures 100 rows, 25 subjects": (
        "poisson",
        lambda: seizures(None, GMERegressor(likelihood="poisson", groups="subject", noise=False)),
    ),
    "seizures, subject by subject": (
        "poisson",
        lambda: seizures("subject", GMERegressor(likelihood="poisson", groups="subject", noise=False)),
    ),
    "schools 60 rows": ("gaussian", lambda: schools(None, GMERegressor(groups="school"))),
    "schools, one by one": ("gaussian", lambda: schools("school", GMERegressor(groups="school"))),
    "salamanders 120 rows, 2 groups": ("logit", lambda: salamanders(GMEClassifier(groups=["female", "male"]))),
    "surface 50 × 2, sparse process": (
        "gaussian",
        lambda: surface("measured", SparseGPRegressor(n_inducing=20, random_state=0)),
    ),
    "counts 50 × 2, sparse process": (
        "poisson",
        lambda: surface("counts", SparseGPRegressor(likelihood="poisson", n_inducing=20, random_state=0)),
    ),
    "labels 50 × 2, full process": ("logit", lambda: surface("labels", GPClassifier())),
    "labels 50 × 2, sparse process": (
        "logit",
        lambda: surface("labels", SparseGPClassifier(n_inducing=20, random_state=0)),
    ),
}
