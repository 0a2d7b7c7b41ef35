"""The bits of many small fits, against a stored table: a refactoring must not change one of them.

    python -m tests.bits                    compare every fit with tests/bits.json; exit code 1 if one differs
    python -m tests.bits --only topics      those whose name has "topics" in it
    python -m tests.bits --write            store what comes out now (with --only: those fits alone)

A case is a name and a function that fits something and says what came out, in stages such as "fit" or "resumed". What
is compared are SHA-256 digests of the arrays as float64: blocks of the posterior, bounds, predictions, attributes.
Sums stand beside every digest, so that a difference can be sized. Only public names are used: where the code lives and
how it is cut may change. Estimators are given what they have different defaults for (likelihood, noise, algorithm).

The table belongs to one kind of processor and one set of versions, which its head names: elsewhere, write one before a
change and compare after it. A change that is meant to move numbers writes the rows that it moves anew.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern
from sklearn.utils import _safe_indexing

import sksvi
from sksvi.algorithms import CVI, MCSSVI, SDSVI, FixedPoint, HybridMCSSVI
from sksvi.callbacks import Checkpoint
from sksvi.decomposition import BetaProcessFA, GeneralizedPMF
from sksvi.expectations import GaussHermite, MonteCarlo, Quadrature
from sksvi.gaussian_process import GPClassifier, SparseGPClassifier, SparseGPRegressor
from sksvi.likelihoods import Gaussian, NegativeBinomial, StudentT
from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.mixed_effects import GMEClassifier, GMERegressor
from sksvi.schedules import AdaGrad, Constant, RobbinsMonro
from sksvi.topics import CorrelatedTopicModel

Array = np.ndarray
#: stage -> part (one of PARTS) -> name -> array
Stages = dict[str, dict[str, dict[str, Array]]]

TABLE = Path(__file__).with_name("bits.json")
PARTS = ("posterior", "lower_bounds", "predictions", "attributes")

#: Fitted attributes that are numbers; each estimator has some of them.
ATTRIBUTES = (
    *("coef_", "coef_std_", "intercept_", "prior_precision_", "noise_", "levels_"),
    *("noise_scale_", "noise_variance_", "group_effects_", "group_std_"),
    *("inducing_points_", "X_train_"),
    *("user_factors_", "item_factors_", "user_covariance_", "item_covariance_"),
    *("user_biases_", "item_biases_", "global_bias_"),
    *("components_", "topic_covariance_", "topic_correlation_", "topic_log_odds_"),
    *("feature_probability_", "mean_", "scale_", "noise_precision_", "n_effective_components_"),
    *("n_iter_", "n_steps_", "n_samples_seen_", "converged_"),
)


# ---- what a fit says


def number(value: Any) -> Array | None:
    """A number, array or table as float64; None if it is none of them."""
    value = value.to_numpy() if isinstance(value, pd.DataFrame) else np.asarray(value)
    return value.astype(np.float64) if value.dtype.kind in "fiub" else None


def posterior(model: Any) -> dict[str, Array]:
    """Mean and standard deviation of every block."""
    blocks = model.posterior_.items()
    return {f"{name} {what}": number(getattr(block, what)) for name, block in blocks for what in ("mean", "std")}


def lower_bounds(model: Any) -> dict[str, Array]:
    """Per pass, and at the end."""
    return {name: number(getattr(model, name)) for name in ("lower_bounds_", "lower_bound_")}


def attributes(model: Any) -> dict[str, Array]:
    """Numbers among the fitted attributes, of likelihood and kernel too, and the history without its seconds."""
    found = {name: number(getattr(model, name)) for name in ATTRIBUTES if hasattr(model, name)}
    if hasattr(model, "likelihood_"):
        scales = model.likelihood_.get_params(deep=False).items()
        found |= {f"likelihood {name}": number(value) for name, value in scales}
    if hasattr(model, "kernel_"):
        found["kernel"] = number(model.kernel_.theta)
    history = model.history_[["pass", "step", "rows", "exact", "rate", "repairs"]]
    found["history"] = history.to_numpy(dtype=float)
    return {name: value for name, value in found.items() if value is not None}


def predictions(model: Any, X: Any, offset: Array | None) -> dict[str, Array]:
    """Everything that the model says of rows, or documents, or pairs."""
    more, said = {} if offset is None else {"offset": offset}, {}
    if isinstance(model, CorrelatedTopicModel):
        said["proportions"], said["proportions std"] = model.transform(X, return_std=True)
        said["score"] = number(model.score(X))
        return said
    if isinstance(model, BetaProcessFA):
        said["codes"] = model.transform(X)
        said["imputed"], said["imputed std"] = model.impute(X, return_std=True)
        said["density"] = model.log_predictive_density(X, np.where(np.isnan(X), 0.0, np.nan))
        return {name: number(value) for name, value in said.items()}
    said["latent mean"], said["latent variance"] = model.predict_latent(X, **more)
    if hasattr(model, "predict_proba"):
        said["probabilities"] = model.predict_proba(X, **more)
    if hasattr(model, "predict_interval"):
        said["mean"], said["std"] = model.predict(X, return_std=True, **more)
        said["interval"] = model.predict_interval(X, **more)
        said["draws"] = model.sample_y(X, 2, random_state=0, **more)
    if isinstance(model, GeneralizedPMF):
        said["factors"] = model.transform(X)
    return {name: number(value) for name, value in said.items()}


class Problem(NamedTuple):
    """Rows to fit, rows to predict, and what else `fit` takes, row by row."""

    X: Any
    y: Any
    new: Any
    more: dict[str, Array] = {}
    new_offset: Array | None = None

    def part(self, rows: Any) -> tuple[tuple[Any, ...], dict[str, Array]]:
        """Arguments of `fit` for some of the rows."""
        X = self.X if rows is None else _safe_indexing(self.X, rows)
        if self.y is None:
            return (X,), {}
        rows = slice(None) if rows is None else rows
        return (X, self.y[rows]), {name: value[rows] for name, value in self.more.items()}

    def chunks(self, count: int) -> list[Array]:
        """Consecutive rows."""
        return np.array_split(np.arange(self.X.shape[0]), count)


def fit(model: Any, data: Problem, rows: Any = None) -> Any:
    """The model, fitted."""
    arguments, more = data.part(rows)
    return model.fit(*arguments, **more)


def chunk(model: Any, data: Problem, rows: Any, first: bool = False) -> Any:
    """The model, with a chunk taken in; the first one names the classes."""
    arguments, more = data.part(rows)
    if first and "classes" in inspect.signature(model.partial_fit).parameters:
        more["classes"] = np.unique(data.y)
    return model.partial_fit(*arguments, **more)


def says(model: Any, data: Problem) -> dict[str, dict[str, Array]]:
    """All parts of one stage."""
    said = predictions(model, data.new, data.new_offset)
    if data.y is not None:
        (X, y), more = data.part(np.arange(12))
        said["density"] = number(
            model.log_predictive_density(X, y, **({"offset": more["offset"]} if "offset" in more else {}))
        )
    return dict(zip(PARTS, (posterior(model), lower_bounds(model), said, attributes(model)), strict=True))


# ---- the ways to come to a fit


def once(model: Any, data: Problem) -> Stages:
    """A fit."""
    return {"fit": says(fit(model, data), data)}


def life(model: Any, data: Problem) -> Stages:
    """Three passes, three more by a warm start, a file, and, where the estimator streams, a chunk after it."""
    model.set_params(max_iter=3, warm_start=True)
    stages = {"fit": says(fit(model, data), data), "resumed": says(fit(model, data), data)}
    loaded = reloaded(model)
    stages["loaded"] = says(loaded, data)
    if hasattr(model, "partial_fit"):
        stages["chunk after the file"] = says(chunk(loaded, data, data.chunks(3)[0]), data)
    return stages


def reloaded(model: Any) -> Any:
    """The model by way of a file."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.sksvi")
        return sksvi.load(Path(folder) / "model.sksvi")


def stream(model: Any, data: Problem) -> Stages:
    """Three chunks; between the second and the third one the model goes through a file."""
    first, second, third = data.chunks(3)
    stages = {"first chunk": says(chunk(model, data, first, first=True), data)}
    model = reloaded(chunk(model, data, second))
    return {**stages, "third chunk": says(chunk(model, data, third), data)}


class StopAfter:
    """Callback that ends a fit after some passes: in order, or by a crash."""

    def __init__(self, passes: int, crash: bool = False) -> None:
        self.passes, self.crash = passes, crash

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to do."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to do."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """End the fit."""
        ends = context.task_name == "pass" and context.task_id + 1 == self.passes
        if ends and self.crash:
            raise KeyboardInterrupt
        return ends

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to do."""


def crash(model: Any, data: Problem) -> Stages:
    """A fit that breaks off after its fifth pass, goes on from the file of the fourth, and ends as the whole one."""
    model.set_params(max_iter=7, tol=0.0)
    stages = {"whole": says(fit(clone(model), data), data)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.sksvi"
        try:
            fit(clone(model).set_callbacks(Checkpoint(path, every=2), StopAfter(5, crash=True)), data)
        except KeyboardInterrupt:
            loaded = sksvi.load(path)
        stages["checkpoint"] = says(loaded, data)
    return {**stages, "went on": says(fit(loaded.set_params(warm_start=True), data), data)}


def stopped(model: Any, data: Problem) -> Stages:
    """A fit that a callback stops after two passes, and a warm start from there."""
    model.set_params(max_iter=4, tol=0.0, warm_start=True).set_callbacks(StopAfter(2))
    stages = {"stopped": says(fit(model, data), data)}
    return {**stages, "went on": says(fit(model.set_callbacks(), data), data)}


def other_rows(model: Any, data: Problem) -> Stages:
    """A warm start on some of the rows."""
    fit(model.set_params(warm_start=True), data)
    return {"on some rows": says(fit(model, data, data.chunks(2)[1]), data)}


def other_algorithm(model: Any, data: Problem, algorithm: Any) -> Stages:
    """A warm start with another algorithm, then a chunk with it."""
    fit(model, data)
    stages = {"fit": says(fit(model.set_params(warm_start=True, algorithm=algorithm), data), data)}
    return {**stages, "chunk": says(chunk(model, data, data.chunks(3)[0]), data)}


def threads(model: Any, data: Problem) -> Stages:
    """One and two threads, which must say the same."""
    one = once(clone(model).set_params(n_jobs=1), data)
    two = once(clone(model).set_params(n_jobs=2), data)
    if digests(one) != digests(two):
        raise AssertionError("n_jobs=2 and n_jobs=1 differ")
    return one


# ---- data


def generator(*key: int) -> np.random.Generator:
    return np.random.default_rng([2024, *key])


def linear(kind: str, n: int = 120, d: int = 4) -> Problem:
    """Rows and targets of a GLM."""
    rng = generator(1, n, d)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d) / np.sqrt(d)
    return Problem(X, target(kind, X @ w, X, rng), rng.standard_normal((15, d)))


def target(kind: str, f: Array, X: Array, rng: np.random.Generator) -> Array:
    """Something to observe of latents f."""
    if kind == "binary":
        return np.where(f + rng.logistic(size=len(f)) > 0, "yes", "no")
    if kind == "labels":  # 0 and 1
        return (f + rng.logistic(size=len(f)) > 0).astype(float)
    if kind == "three":
        y = np.digitize(f + 0.3 * X[:, 0] ** 2 + 0.5 * rng.standard_normal(len(f)), [-0.4, 0.6])
        y[:3] = 0, 1, 2
        return y
    if kind == "levels":
        y = np.digitize(f + rng.logistic(size=len(f)), [-1.0, 0.0, 1.2]) + 1
        y[:4] = 1, 2, 3, 4
        return y
    if kind == "counts":
        return rng.poisson(np.exp(0.7 + 0.6 * f)).astype(float)
    if kind == "trials":
        n = rng.integers(1, 6, len(f))
        successes = rng.binomial(n, 1 / (1 + np.exp(-f)))
        return np.column_stack([successes, n - successes]).astype(float)
    if kind == "heavy":
        return f + 0.4 * rng.standard_t(3.0, len(f))
    return f + 0.5 * rng.standard_normal(len(f))


def weighted(data: Problem, offset: bool = True) -> Problem:
    """The same rows with weights, a few of them zero, and offsets."""
    rng, n = generator(2), data.X.shape[0]
    weight = rng.uniform(0.3, 2.0, n)
    weight[::17] = 0.0
    more = {"sample_weight": weight, **({"offset": 0.3 * rng.standard_normal(n)} if offset else {})}
    return data._replace(more=more, new_offset=np.linspace(-0.5, 0.5, len(data.new)) if offset else None)


def sparse(data: Problem) -> Problem:
    """Most entries zero, as CSR."""
    mask = generator(3).random(data.X.shape) < 0.4
    return data._replace(X=sp.csr_matrix(data.X * mask), new=sp.csr_matrix(data.new))


def single(data: Problem) -> Problem:
    """In float32."""
    return data._replace(X=data.X.astype(np.float32), new=data.new.astype(np.float32))


def grouped(kind: str, n: int = 160, levels: tuple[int, int] = (9, 6)) -> Problem:
    """Two columns of numbers, two of levels; predictions for a level that the fit has not seen, too."""
    rng = generator(4, n, *levels)
    numbers = rng.standard_normal((n, 2))
    site, rater = (rng.integers(0, size, n) for size in levels)
    f = numbers @ [0.8, -0.5] + 0.7 * rng.standard_normal(levels[0])[site] + 0.4 * rng.standard_normal(levels[1])[rater]
    y = target(kind, f, numbers, rng)
    X = pd.DataFrame({"a": numbers[:, 0], "site": [f"s{i}" for i in site], "b": numbers[:, 1], "rater": rater})
    new = X.iloc[:12].assign(a=np.linspace(-1, 1, 12))
    new.loc[0, "site"] = "nowhere"
    # Chunks may name old levels only: the first one has them all.
    order = np.argsort([min(i, j) for i, j in zip(X.groupby("site").cumcount(), X.groupby("rater").cumcount())])
    return Problem(X.iloc[order].reset_index(drop=True), y[order], new)


def smooth(kind: str, n: int = 90, d: int = 2) -> Problem:
    """Targets of a wavy function."""
    rng = generator(5, n, d)
    X = rng.uniform(-2, 2, (n, d))
    f = np.sin(1.7 * X[:, 0]) + (0.5 * np.cos(X[:, 1]) if d > 1 else 0.0)
    return Problem(X, target(kind, 1.5 * f, X, rng), rng.uniform(-2.5, 2.5, (12, d)))


def pairs(kind: str, n_users: int = 20, n_items: int = 12) -> Problem:
    """Ratings of users of films, in no order; predictions for a user that has none, too."""
    rng = generator(6)
    u, v = rng.standard_normal((n_users, 2)), rng.standard_normal((n_items, 2))
    cells = rng.permutation(n_users * n_items)[: int(0.6 * n_users * n_items)]
    i, j = np.divmod(cells, n_items)
    f = 0.8 * np.einsum("nk,nk->n", u[i], v[j]) + 0.3 * rng.standard_normal(n_items)[j]
    X = pd.DataFrame({"user": [f"u{a:02}" for a in i], "film": j})
    new = pd.DataFrame({"user": [*X["user"][:10], "nobody"], "film": [*X["film"][5:15], 3]})
    return Problem(X, target(kind, f, u[i], rng), new)


def tables(n_users: int = 20, n_items: int = 12) -> dict[str, Any]:
    """What is known of users and films."""
    rng = generator(7)
    users = pd.DataFrame(rng.standard_normal((n_users, 2)), index=[f"u{a:02}" for a in range(n_users)])
    users.iloc[3, 1] = np.nan
    return {"user_features": users, "item_features": pd.DataFrame({"year": rng.uniform(0, 9, n_items)})}


def corpus(n: int = 90, n_words: int = 36, k: int = 3) -> Problem:
    """Counts of words of documents of three topics."""
    rng = generator(8, n)
    topics = rng.dirichlet(np.full(n_words, 0.1), k)
    shares = np.exp(rng.standard_normal((n, k)))
    shares /= shares.sum(1, keepdims=True)
    counts = np.stack([rng.multinomial(30, p) for p in shares @ topics]).astype(float)
    return Problem(sp.csr_matrix(counts), None, sp.csr_matrix(counts[:12] + counts[20:32]))


def factors(n: int = 150, d: int = 8, k: int = 4, missing: float = 0.1) -> Problem:
    """Sums of a few factors, some entries missing."""
    rng = generator(9, n)
    used = rng.random((n, k)) < 0.4
    X = 2.0 + (used * rng.standard_normal((n, k))) @ rng.standard_normal((k, d)) + 0.1 * rng.standard_normal((n, d))
    X[rng.random(X.shape) < missing] = np.nan
    return Problem(X, None, X[:15].copy())


# ---- estimators with what every case shares


def classifier(**options: Any) -> Any:
    return BayesianGLMClassifier(**{"likelihood": "logit", "max_iter": 12, "random_state": 0, **options})


def regressor(likelihood: Any, **options: Any) -> Any:
    return BayesianGLMRegressor(**{"likelihood": likelihood, "max_iter": 12, "random_state": 0, **options})


BOTH = {"groups": ["site", "rater"], "noise": False}
NOISY = {"groups": ["site", "rater"], "noise": True}
NO_GROUPS = {"groups": None, "noise": True}


def mixed_classifier(**options: Any) -> Any:
    return GMEClassifier(**{"likelihood": "logit", "algorithm": "mc-ssvi", "max_iter": 8, "random_state": 0, **options})


def mixed_regressor(likelihood: Any, **options: Any) -> Any:
    shared = {"algorithm": "mc-ssvi", "max_iter": 8, "random_state": 0}
    return GMERegressor(**{"likelihood": likelihood, **shared, **options})


def numbers_only(data: Problem) -> Problem:
    """Without the columns of levels."""
    return data._replace(X=data.X[["a", "b"]], new=data.new[["a", "b"]])


FIXED = {"optimize_hyperparameters": False, "optimize_inducing": False}


def gp(likelihood: Any = "gaussian", **options: Any) -> Any:
    shared = {"algorithm": "cvi", "n_inducing": 8, "max_iter": 40, "random_state": 0}
    return SparseGPRegressor(**{"likelihood": likelihood, **shared, **options})


def gp_classifier(**options: Any) -> Any:
    shared = {"likelihood": "logit", "algorithm": "cvi", "n_inducing": 8, "max_iter": 25, "random_state": 0}
    return SparseGPClassifier(**{**shared, **options})


def full_gp(**options: Any) -> Any:
    return GPClassifier(**{"likelihood": "logit", "algorithm": "cvi", "max_iter": 30, "random_state": 0, **options})


def pmf(likelihood: Any, **options: Any) -> Any:
    shared = {"algorithm": "cvi", "n_components": 2, "max_iter": 6, "random_state": 0}
    return GeneralizedPMF(**{"likelihood": likelihood, **shared, **options})


def topic_model(**options: Any) -> Any:
    shared = {"n_components": 3, "algorithm": "mc-ssvi", "max_iter": 5, "random_state": 0}
    return CorrelatedTopicModel(**{**shared, **options})


def bpfa(**options: Any) -> Any:
    return BetaProcessFA(**{"n_components": 6, "algorithm": "mc-ssvi", "max_iter": 5, "random_state": 0, **options})


def recommended(model: Any, data: Problem) -> Stages:
    """What follows a factorization's fit: rankings, and users folded in."""
    fit(model, data)
    users = ["u01", "u05", "nobody"]
    ranked = {s: model.recommend(users, 4, strategy=s, random_state=0) for s in ("mean", "ucb", "thompson")}
    said = {f"ranked by {s}": table[["film", "rank", "score", "mean", "std"]] for s, table in ranked.items()}
    folded = model.fold_in(pd.DataFrame({"user": ["x", "x", "u01", "y"], "film": [1, 4, 2, 7]}), data.y[:4])
    said |= {"folded mean": folded.mean, "folded std": folded.std}
    return {"fit": {"predictions": {name: number(value) for name, value in said.items()}}}


def new_users(model: Any, data: Problem) -> Stages:
    """Chunks that bring users whom the first one did not have."""
    late = np.isin(data.X["user"], ["u02", "u11", "u19"])
    model = chunk(chunk(model, data, np.flatnonzero(~late)), data, np.flatnonzero(late))
    return {"with new users": says(model, data)}


def new_words(model: Any, data: Problem) -> Stages:
    """Chunks that bring words which the first one did not have."""
    first, rest = data.chunks(2)
    model.partial_fit(data.X[first][:, :30]).partial_fit(data.X[rest])
    return {"with new words": says(model, data)}


def iterated(model: Any, data: Problem) -> Stages:
    """A fit to an iterator of chunks."""
    return {"fit": says(model.fit(iter([data.X[rows] for rows in data.chunks(3)])), data)}


# ---- the table

CASES: dict[str, Callable[[], Stages]] = {
    # generalized linear models: algorithms, covariances, batches
    "glm logit cvi full": lambda: once(classifier(algorithm="cvi"), linear("binary")),
    "glm logit cvi diag": lambda: once(classifier(algorithm="cvi", covariance="diag"), linear("binary")),
    "glm logit cvi batches": lambda: once(classifier(algorithm="cvi", batch_size=32), linear("binary")),
    "glm logit cvi diag batches": lambda: once(
        classifier(algorithm="cvi", covariance="diag", batch_size=32), linear("binary")
    ),
    "glm logit mc-ssvi full": lambda: once(classifier(algorithm="mc-ssvi"), linear("binary")),
    "glm logit mc-ssvi batches": lambda: once(classifier(algorithm="mc-ssvi", batch_size=32), linear("binary")),
    "glm logit mc-ssvi diag batches": lambda: once(
        classifier(algorithm=MCSSVI(RobbinsMonro(kappa=0.7)), covariance="diag", batch_size=32), linear("binary")
    ),
    "glm logit h-mc-ssvi full": lambda: once(classifier(algorithm="h-mc-ssvi", batch_size=None), linear("binary")),
    "glm logit h-mc-ssvi diag batches": lambda: once(
        classifier(algorithm=HybridMCSSVI(adagrad=AdaGrad(0.5)), covariance="diag", batch_size=32), linear("binary")
    ),
    "glm logit s-dsvi full": lambda: once(classifier(algorithm="s-dsvi", batch_size=None), linear("binary")),
    "glm logit s-dsvi batches": lambda: once(classifier(algorithm="s-dsvi", batch_size=32), linear("binary", 200)),
    "glm logit s-dsvi diag batches": lambda: once(
        classifier(algorithm=SDSVI(adagrad=AdaGrad(0.5)), covariance="diag", batch_size=32), linear("binary")
    ),
    "glm logit fp full": lambda: once(classifier(algorithm="fp"), linear("binary")),
    "glm probit fp diag": lambda: once(
        classifier(likelihood="probit", algorithm=FixedPoint(), covariance="diag"), linear("binary")
    ),
    "glm softmax cvi full": lambda: once(classifier(algorithm="cvi"), linear("three")),
    "glm softmax cvi diag": lambda: once(classifier(algorithm="cvi", covariance="diag"), linear("three")),
    "glm softmax mc-ssvi batches": lambda: once(classifier(algorithm="mc-ssvi", batch_size=32), linear("three")),
    "glm softmax s-dsvi diag": lambda: once(
        classifier(algorithm="s-dsvi", covariance="diag", batch_size=None), linear("three")
    ),
    "glm softmax monte-carlo": lambda: once(
        classifier(algorithm="mc-ssvi", expectation=MonteCarlo(n=8), batch_size=32), linear("three")
    ),
    # likelihoods, priors, expectations, kinds of rows
    "glm gaussian ard": lambda: once(regressor("gaussian", prior_precision="ard"), linear("real")),
    "glm gaussian ard wide": lambda: once(regressor("gaussian", prior_precision="ard"), linear("real", 25, 40)),
    "glm gaussian mc-ssvi fixed prior": lambda: once(
        regressor(Gaussian(variance=0.3), algorithm="mc-ssvi", prior_precision=[0.5, 1.0, 2.0, 4.0]), linear("real")
    ),
    "glm negative-binomial cvi": lambda: once(regressor("negative-binomial"), linear("counts")),
    "glm negative-binomial mc-ssvi batches": lambda: once(
        regressor(NegativeBinomial(), algorithm="mc-ssvi", batch_size=32), linear("counts")
    ),
    "glm student-t cvi": lambda: once(regressor(StudentT()), linear("heavy")),
    "glm student-t h-mc-ssvi": lambda: once(regressor("student-t", algorithm="h-mc-ssvi"), linear("heavy", 200)),
    "glm ordinal cvi": lambda: once(regressor("ordinal"), linear("levels")),
    "glm ordinal s-dsvi batches": lambda: once(
        regressor("ordinal", algorithm="s-dsvi", batch_size=32), linear("levels")
    ),
    "glm binomial mc-ssvi": lambda: once(regressor("binomial", algorithm="mc-ssvi"), linear("trials")),
    "glm poisson weights offset": lambda: once(regressor("poisson"), weighted(linear("counts"))),
    "glm poisson-softplus fp": lambda: once(regressor("poisson-softplus", algorithm="fp"), linear("counts")),
    "glm logit weights offset batches": lambda: once(
        classifier(algorithm="mc-ssvi", batch_size=32), weighted(linear("binary"))
    ),
    "glm softmax weights": lambda: once(classifier(), weighted(linear("three"), offset=False)),
    "glm logit monte-carlo batches": lambda: once(
        classifier(algorithm="mc-ssvi", expectation="monte-carlo", batch_size=32), linear("binary")
    ),
    "glm poisson-softplus monte-carlo cvi": lambda: once(
        regressor("poisson-softplus", algorithm=CVI(Constant(0.5)), expectation=MonteCarlo(n=5)), linear("counts")
    ),
    "glm logit gauss-hermite": lambda: once(classifier(expectation=GaussHermite(12)), linear("binary")),
    "glm gaussian quadrature no intercept": lambda: once(
        regressor("gaussian", expectation=Quadrature(), fit_intercept=False), linear("real")
    ),
    "glm sparse logit cvi": lambda: once(classifier(), sparse(linear("binary", 150, 10))),
    "glm sparse poisson mc-ssvi diag batches": lambda: once(
        regressor("poisson", algorithm="mc-ssvi", covariance="diag", batch_size=32), sparse(linear("counts", 150, 10))
    ),
    "glm float32 student-t": lambda: once(regressor("student-t"), single(linear("heavy"))),
    "glm wide gaussian auto": lambda: once(regressor("gaussian"), linear("real", 30, 50)),
    "glm wide gaussian fixed": lambda: once(
        regressor("gaussian", prior_precision=np.linspace(0.5, 2.0, 50)), linear("real", 30, 50)
    ),
    "glm wide logit mc-ssvi batches": lambda: once(
        classifier(algorithm="mc-ssvi", batch_size=32), linear("binary", 70, 90)
    ),
    "glm wide softmax sparse": lambda: once(classifier(prior_precision=1.0), sparse(linear("three", 30, 50))),
    "glm wide other rows": lambda: other_rows(regressor("gaussian"), linear("real", 40, 60)),
    "glm rough start": lambda: threads(classifier(algorithm="cvi", max_iter=4), linear("binary", 9000, 3)),
    "glm rough start poisson mc-ssvi": lambda: threads(
        regressor("poisson", algorithm="mc-ssvi", max_iter=4), linear("counts", 9000, 3)
    ),
    "glm threads batches": lambda: threads(
        classifier(algorithm="mc-ssvi", batch_size=8500, max_iter=2), linear("binary", 17000, 3)
    ),
    # generalized linear models that go on
    "glm life logit cvi": lambda: life(classifier(algorithm="cvi"), linear("binary")),
    "glm life softmax mc-ssvi batches": lambda: life(classifier(algorithm="mc-ssvi", batch_size=32), linear("three")),
    "glm life student-t h-mc-ssvi batches": lambda: life(
        regressor("student-t", algorithm="h-mc-ssvi", batch_size=32), linear("heavy")
    ),
    "glm life gaussian s-dsvi": lambda: life(
        regressor("gaussian", algorithm="s-dsvi", batch_size=None), linear("real")
    ),
    "glm life logit fp": lambda: life(classifier(algorithm="fp"), linear("binary")),
    "glm life wide gaussian cvi": lambda: life(regressor("gaussian"), linear("real", 30, 50)),
    "glm stream logit cvi": lambda: stream(classifier(algorithm="cvi"), linear("binary")),
    "glm stream gaussian cvi diag": lambda: stream(
        regressor("gaussian", algorithm="cvi", covariance="diag"), weighted(linear("real"))
    ),
    "glm stream negative-binomial mc-ssvi": lambda: stream(
        regressor("negative-binomial", algorithm="mc-ssvi", total_samples=500), linear("counts")
    ),
    "glm stream softmax s-dsvi": lambda: stream(classifier(algorithm="s-dsvi"), linear("three")),
    "glm crash logit cvi batches": lambda: crash(classifier(algorithm="cvi", batch_size=40), linear("binary")),
    "glm crash poisson s-dsvi batches": lambda: crash(
        regressor("poisson", algorithm="s-dsvi", batch_size=40), linear("counts")
    ),
    "glm crash gaussian mc-ssvi": lambda: crash(regressor("gaussian", algorithm="mc-ssvi"), linear("real")),
    "glm stopped ordinal cvi": lambda: stopped(regressor("ordinal"), linear("levels")),
    "glm cvi then s-dsvi": lambda: other_algorithm(
        classifier(algorithm="cvi", batch_size=None), linear("binary"), "s-dsvi"
    ),
    "glm h-mc-ssvi then cvi": lambda: other_algorithm(
        regressor("poisson", algorithm="h-mc-ssvi", batch_size=32), linear("counts"), "cvi"
    ),
    # mixed effects
    "mixed logit groups mc-ssvi optimal": lambda: once(mixed_classifier(bound="optimal", **BOTH), grouped("binary")),
    "mixed logit groups cvi mean-field": lambda: once(
        mixed_classifier(bound="mean-field", algorithm="cvi", **BOTH), grouped("binary")
    ),
    "mixed logit groups diag batches": lambda: once(
        mixed_classifier(bound="optimal", covariance="diag", batch_size=32, **BOTH), grouped("binary")
    ),
    "mixed logit groups s-dsvi": lambda: once(mixed_classifier(algorithm="s-dsvi", **BOTH), grouped("binary")),
    "mixed logit groups h-mc-ssvi": lambda: once(mixed_classifier(algorithm="h-mc-ssvi", **BOTH), grouped("binary")),
    "mixed logit arrow mc-ssvi": lambda: once(
        mixed_classifier(max_iter=4, **BOTH), grouped("binary", 400, levels=(270, 5))
    ),
    "mixed poisson arrow cvi slopes": lambda: once(
        mixed_regressor("poisson", algorithm="cvi", bound="mean-field", max_iter=4, random_slopes="a", **BOTH),
        grouped("counts", 400, levels=(150, 5)),
    ),
    "mixed probit noise optimal": lambda: once(
        mixed_classifier(likelihood="probit", bound="optimal", **NO_GROUPS), numbers_only(grouped("binary"))
    ),
    "mixed logit noise simple": lambda: once(
        mixed_classifier(bound="simple", **NO_GROUPS), numbers_only(grouped("binary"))
    ),
    "mixed logit noise mean-field cvi": lambda: once(
        mixed_classifier(bound="mean-field", algorithm="cvi", **NO_GROUPS), numbers_only(grouped("binary"))
    ),
    "mixed poisson-softplus noise groups optimal": lambda: once(
        mixed_regressor("poisson-softplus", bound="optimal", **NOISY), grouped("counts")
    ),
    "mixed poisson noise groups simple batches": lambda: once(
        mixed_regressor("poisson", bound="simple", batch_size=32, **NOISY), grouped("counts")
    ),
    "mixed poisson noise groups mean-field": lambda: once(
        mixed_regressor("poisson", bound="mean-field", **NOISY), grouped("counts")
    ),
    "mixed poisson-softplus noise monte-carlo": lambda: once(
        mixed_regressor(
            "poisson-softplus", bound="optimal", expectation=MonteCarlo(5, 20), batch_size=32, max_iter=3, **NO_GROUPS
        ),
        numbers_only(grouped("counts")),
    ),
    "mixed poisson-softplus noise s-dsvi": lambda: once(
        mixed_regressor("poisson-softplus", bound="simple", algorithm="s-dsvi", **NO_GROUPS),
        numbers_only(grouped("counts")),
    ),
    "mixed poisson noise h-mc-ssvi": lambda: once(
        mixed_regressor("poisson", bound="optimal", algorithm="h-mc-ssvi", max_iter=4, **NOISY), grouped("counts")
    ),
    "mixed gaussian groups cvi": lambda: once(
        mixed_regressor("gaussian", algorithm="cvi", max_iter=30, **BOTH), grouped("real")
    ),
    "mixed gaussian slopes ard weights": lambda: once(
        mixed_regressor("gaussian", random_slopes={"site": ["a"]}, prior_precision="ard", **BOTH),
        weighted(grouped("real")),
    ),
    "mixed ordinal groups": lambda: once(mixed_regressor("ordinal", **BOTH), grouped("levels")),
    "mixed student-t noise optimal": lambda: once(
        mixed_regressor("student-t", bound="optimal", max_iter=3, **NO_GROUPS), numbers_only(grouped("heavy", 60))
    ),
    "mixed negative-binomial noise simple": lambda: once(
        mixed_regressor("negative-binomial", bound="simple", max_iter=3, **NO_GROUPS), numbers_only(grouped("counts"))
    ),
    "mixed ordinal noise mean-field": lambda: once(
        mixed_regressor("ordinal", bound="mean-field", max_iter=3, **NO_GROUPS), numbers_only(grouped("levels"))
    ),
    "mixed student-t noise simple monte-carlo": lambda: once(
        mixed_regressor("student-t", bound="simple", expectation=MonteCarlo(4, 10), max_iter=3, **NO_GROUPS),
        numbers_only(grouped("heavy")),
    ),
    "mixed poisson arrow crossed": lambda: once(
        mixed_regressor("poisson", max_iter=3, **BOTH), grouped("counts", 500, levels=(220, 120))
    ),
    "mixed logit noise fp": lambda: once(
        mixed_classifier(algorithm="fp", bound="simple", **NO_GROUPS), numbers_only(grouped("binary"))
    ),
    "mixed life logit mc-ssvi": lambda: life(mixed_classifier(**NOISY), grouped("binary")),
    "mixed life poisson cvi": lambda: life(
        mixed_regressor("poisson", algorithm="cvi", bound="mean-field", **BOTH), grouped("counts")
    ),
    "mixed stream poisson cvi": lambda: stream(
        mixed_regressor("poisson", algorithm="cvi", bound="mean-field", **BOTH), grouped("counts")
    ),
    "mixed stream logit mc-ssvi": lambda: stream(mixed_classifier(**BOTH), grouped("binary")),
    "mixed crash poisson-softplus batches": lambda: crash(
        mixed_regressor("poisson-softplus", bound="optimal", batch_size=40, **NOISY), grouped("counts")
    ),
    # sparse Gaussian processes
    "gp gaussian simple": lambda: once(gp(bound="simple"), smooth("real")),
    "gp gaussian v1": lambda: once(gp(bound="v1"), smooth("real")),
    "gp gaussian v2": lambda: once(gp(bound="v2"), smooth("real")),
    "gp gaussian optimal": lambda: once(gp(bound="optimal"), smooth("real")),
    "gp gaussian mc-ssvi batches": lambda: once(
        gp(bound="simple", algorithm="mc-ssvi", batch_size=32, max_iter=8), smooth("real")
    ),
    "gp gaussian v1 batches": lambda: once(
        gp(bound="v1", algorithm="mc-ssvi", batch_size=32, max_iter=8), smooth("real")
    ),
    "gp gaussian s-dsvi": lambda: once(gp(algorithm="s-dsvi", batch_size=32, max_iter=8), smooth("real")),
    "gp gaussian h-mc-ssvi diag": lambda: once(
        gp(algorithm="h-mc-ssvi", covariance="diag", batch_size=32, max_iter=8), smooth("real")
    ),
    "gp gaussian fp weights": lambda: once(
        gp(algorithm="fp", noise_variance=0.2, inducing="random"), weighted(smooth("real"))
    ),
    "gp gaussian sum of kernels": lambda: once(
        gp(kernel=ConstantKernel(1.3) * RBF([0.8, 1.5]) + ConstantKernel(0.2) * Matern(1.0, nu=1.5)), smooth("real")
    ),
    "gp poisson cvi": lambda: once(gp("poisson"), weighted(smooth("counts"))),
    "gp poisson cvi batches fixed kernel": lambda: once(
        gp("poisson", kernel=RBF(1.0) + DotProduct(), batch_size=32, max_iter=6, **FIXED), smooth("counts")
    ),
    "gp student-t mc-ssvi diag": lambda: once(
        gp("student-t", algorithm="mc-ssvi", covariance="diag", inducing=np.linspace(-2, 2, 6)[:, None]),
        smooth("heavy", 60, 1),
    ),
    "gp logit cvi": lambda: once(gp_classifier(), smooth("binary")),
    "gp logit mc-ssvi batches": lambda: once(
        gp_classifier(algorithm="mc-ssvi", batch_size=32, max_iter=6), smooth("binary")
    ),
    "gp logit s-dsvi monte-carlo": lambda: once(
        gp_classifier(algorithm="s-dsvi", expectation="monte-carlo", batch_size=32, max_iter=6), smooth("binary")
    ),
    "gp softmax cvi": lambda: once(gp_classifier(max_iter=12), smooth("three")),
    "gp softmax mc-ssvi batches": lambda: once(
        gp_classifier(algorithm="mc-ssvi", batch_size=32, max_iter=5), smooth("three")
    ),
    "gp softmax s-dsvi diag": lambda: once(
        gp_classifier(algorithm="s-dsvi", covariance="diag", batch_size=32, max_iter=5), smooth("three")
    ),
    "gp life gaussian cvi": lambda: life(gp(), smooth("real")),
    "gp life poisson mc-ssvi batches": lambda: life(
        gp("poisson", algorithm="mc-ssvi", batch_size=32), smooth("counts")
    ),
    "gp life softmax cvi": lambda: life(gp_classifier(), smooth("three")),
    "gp stream gaussian cvi": lambda: stream(gp(), smooth("real")),
    "gp stream logit mc-ssvi": lambda: stream(gp_classifier(algorithm="mc-ssvi"), smooth("binary")),
    "gp stream gaussian s-dsvi": lambda: stream(gp(algorithm="s-dsvi"), smooth("real")),
    "gp crash logit batches": lambda: crash(gp_classifier(algorithm="mc-ssvi", batch_size=40), smooth("binary")),
    "gp stopped poisson cvi": lambda: stopped(gp("poisson", **FIXED), smooth("counts")),
    # full Gaussian processes
    "full gp logit cvi": lambda: once(full_gp(), smooth("binary", 60)),
    "full gp probit weights": lambda: once(
        full_gp(likelihood="probit", kernel=ConstantKernel(2.0) * Matern([1.0, 1.0], nu=2.5)),
        weighted(smooth("binary", 60)),
    ),
    "full gp logit fp fixed": lambda: once(
        full_gp(algorithm="fp", kernel=RBF(1.0), optimize_hyperparameters=False), smooth("binary", 60)
    ),
    "full gp logit mc-ssvi monte-carlo": lambda: once(
        full_gp(algorithm="mc-ssvi", kernel=RBF(1.0), expectation="monte-carlo", optimize_hyperparameters=False),
        smooth("binary", 60),
    ),
    "full gp life": lambda: life(full_gp(), smooth("binary", 60)),
    "full gp crash": lambda: crash(full_gp(optimize_hyperparameters=False), smooth("binary", 60)),
    # factorization
    "pmf gaussian cvi": lambda: once(pmf("gaussian"), pairs("real")),
    "pmf gaussian cvi diag": lambda: once(pmf("gaussian", covariance="diag"), pairs("real")),
    "pmf gaussian mc-ssvi batches": lambda: once(pmf("gaussian", algorithm="mc-ssvi", batch_size=4), pairs("real")),
    "pmf gaussian h-mc-ssvi batches": lambda: once(pmf("gaussian", algorithm="h-mc-ssvi", batch_size=4), pairs("real")),
    "pmf gaussian spherical no biases": lambda: once(
        pmf("gaussian", prior_covariance="spherical", biases=False), pairs("real")
    ),
    "pmf gaussian features": lambda: once(pmf("gaussian", **tables()), pairs("real")),
    "pmf gaussian threads": lambda: threads(
        pmf("gaussian", max_iter=3, covariance="diag"), pairs("real", n_users=300, n_items=40)
    ),
    "pmf ordinal mc-ssvi": lambda: once(pmf("ordinal", algorithm="mc-ssvi"), pairs("levels")),
    "pmf ordinal s-dsvi diag": lambda: once(pmf("ordinal", algorithm="s-dsvi", covariance="diag"), pairs("levels")),
    "pmf logit h-mc-ssvi": lambda: once(pmf("logit", algorithm="h-mc-ssvi"), pairs("labels")),
    "pmf probit quadrature": lambda: once(pmf("probit", expectation="quadrature"), pairs("labels")),
    "pmf logit monte-carlo batches": lambda: once(
        pmf("logit", algorithm="mc-ssvi", expectation=MonteCarlo(5), batch_size=4), pairs("labels")
    ),
    "pmf poisson s-dsvi batches": lambda: once(pmf("poisson", algorithm="s-dsvi", batch_size=4), pairs("counts")),
    "pmf poisson h-mc-ssvi diag batches": lambda: once(
        pmf("poisson", algorithm="h-mc-ssvi", covariance="diag", batch_size=4), pairs("counts")
    ),
    "pmf negative-binomial weights": lambda: once(pmf("negative-binomial"), weighted(pairs("counts"), offset=False)),
    "pmf student-t mc-ssvi features": lambda: once(pmf("student-t", algorithm="mc-ssvi", **tables()), pairs("heavy")),
    "pmf recommended": lambda: recommended(pmf("gaussian"), pairs("real")),
    "pmf life gaussian cvi": lambda: life(pmf("gaussian"), pairs("real")),
    "pmf life poisson mc-ssvi batches": lambda: life(
        pmf("poisson", algorithm="mc-ssvi", batch_size=4), pairs("counts")
    ),
    "pmf life logit s-dsvi": lambda: life(pmf("logit", algorithm="s-dsvi"), pairs("labels")),
    "pmf stream gaussian cvi": lambda: stream(pmf("gaussian"), pairs("real")),
    "pmf stream ordinal h-mc-ssvi": lambda: stream(pmf("ordinal", algorithm="h-mc-ssvi"), pairs("levels")),
    "pmf stream gaussian mc-ssvi": lambda: stream(
        pmf("gaussian", algorithm="mc-ssvi", covariance="diag", total_samples=300), pairs("real")
    ),
    "pmf stream new users": lambda: new_users(pmf("poisson"), pairs("counts")),
    "pmf crash gaussian cvi": lambda: crash(pmf("gaussian"), pairs("real")),
    "pmf crash poisson mc-ssvi batches": lambda: crash(
        pmf("poisson", algorithm="mc-ssvi", batch_size=4), pairs("counts")
    ),
    "pmf stopped": lambda: stopped(pmf("logit", algorithm="mc-ssvi"), pairs("labels")),
    # topics
    "topics mc-ssvi optimal dirichlet": lambda: once(topic_model(bound="optimal", topics="dirichlet"), corpus()),
    "topics mc-ssvi optimal full batches": lambda: once(
        topic_model(bound="optimal", covariance="full", batch_size=20), corpus()
    ),
    "topics mc-ssvi simple point": lambda: once(topic_model(bound="simple", topics="point"), corpus()),
    "topics mc-ssvi mean-field": lambda: once(topic_model(bound="mean-field"), corpus()),
    "topics mc-ssvi sampled batches": lambda: once(
        topic_model(bound="optimal", topics="sampled", batch_size=20), corpus()
    ),
    "topics mc-ssvi adagrad batches": lambda: once(
        topic_model(bound="optimal", topics="adagrad", batch_size=20), corpus()
    ),
    "topics mc-ssvi point monte-carlo batches": lambda: once(
        topic_model(bound="optimal", topics="point", expectation="monte-carlo", batch_size=20), corpus()
    ),
    "topics h-mc-ssvi optimal batches": lambda: once(
        topic_model(algorithm="h-mc-ssvi", bound="optimal", batch_size=20), corpus()
    ),
    "topics h-mc-ssvi mean-field full": lambda: once(
        topic_model(algorithm="h-mc-ssvi", bound="mean-field", covariance="full", batch_size=None), corpus()
    ),
    "topics s-dsvi simple batches": lambda: once(
        topic_model(algorithm="s-dsvi", bound="simple", batch_size=20), corpus()
    ),
    "topics s-dsvi optimal full adagrad": lambda: once(
        topic_model(algorithm="s-dsvi", bound="optimal", covariance="full", topics="adagrad"), corpus()
    ),
    "topics cvi mean-field": lambda: once(topic_model(algorithm="cvi", bound="mean-field"), corpus()),
    "topics cvi optimal full batches": lambda: once(
        topic_model(algorithm="cvi", bound="optimal", covariance="full", batch_size=20), corpus()
    ),
    "topics cvi simple point": lambda: once(topic_model(algorithm="cvi", bound="simple", topics="point"), corpus()),
    "topics seed words": lambda: once(
        topic_model(bound="optimal", prior_words={0: [1, 2], 2: {5: 20.0}}, covariance_prior=3.0), corpus()
    ),
    "topics auto batches threads": lambda: threads(topic_model(bound="optimal", max_iter=2), corpus(260)),
    "topics life mc-ssvi": lambda: life(topic_model(bound="optimal"), corpus()),
    "topics life cvi batches": lambda: life(topic_model(algorithm="cvi", bound="mean-field", batch_size=20), corpus()),
    "topics life s-dsvi adagrad": lambda: life(
        topic_model(algorithm="s-dsvi", bound="optimal", topics="adagrad"), corpus()
    ),
    "topics stream mc-ssvi": lambda: stream(topic_model(bound="optimal", total_samples=300), corpus()),
    "topics stream cvi": lambda: stream(topic_model(algorithm="cvi", bound="mean-field"), corpus()),
    "topics stream h-mc-ssvi sampled": lambda: stream(
        topic_model(algorithm="h-mc-ssvi", bound="optimal", topics="sampled"), corpus()
    ),
    "topics stream new words": lambda: new_words(topic_model(bound="optimal"), corpus()),
    "topics iterator": lambda: iterated(topic_model(bound="optimal", topics="adagrad"), corpus()),
    "topics crash mc-ssvi batches": lambda: crash(topic_model(bound="optimal", batch_size=20), corpus()),
    "topics crash cvi": lambda: crash(topic_model(algorithm="cvi", bound="mean-field"), corpus()),
    "topics stopped": lambda: stopped(topic_model(bound="mean-field", batch_size=20), corpus()),
    # beta process factor analysis
    "bpfa mc-ssvi gibbs": lambda: once(bpfa(local_step="gibbs", batch_size=None), factors()),
    "bpfa mc-ssvi gibbs batches": lambda: once(bpfa(local_step="gibbs", batch_size=50), factors()),
    "bpfa mc-ssvi mean-field batches": lambda: once(bpfa(local_step="mean-field", batch_size=50), factors()),
    "bpfa mc-ssvi spike-slab": lambda: once(bpfa(local_step="spike-slab", batch_size=None), factors()),
    "bpfa h-mc-ssvi gibbs batches": lambda: once(
        bpfa(algorithm="h-mc-ssvi", local_step="gibbs", batch_size=50), factors()
    ),
    "bpfa s-dsvi spike-slab batches": lambda: once(
        bpfa(algorithm="s-dsvi", local_step="spike-slab", batch_size=50), factors()
    ),
    "bpfa cvi mean-field": lambda: once(bpfa(algorithm="cvi", local_step="mean-field", batch_size=None), factors()),
    "bpfa cvi gibbs batches": lambda: once(bpfa(algorithm="cvi", local_step="gibbs", batch_size=50), factors()),
    "bpfa gibbs sampler": lambda: once(bpfa(algorithm="gibbs", max_iter=8), factors()),
    "bpfa noise by column": lambda: once(bpfa(noise="columns", init="data", prune=True, batch_size=50), factors()),
    "bpfa known scales": lambda: once(
        bpfa(noise=0.1, weight_precision=1.0, init="gibbs", n_burn_in=1, n_local_samples=2, batch_size=50), factors()
    ),
    "bpfa float32 complete threads": lambda: threads(bpfa(max_iter=2), single(factors(600, missing=0.0))),
    "bpfa life mc-ssvi batches": lambda: life(bpfa(batch_size=50), factors()),
    "bpfa life cvi": lambda: life(bpfa(algorithm="cvi", local_step="mean-field", batch_size=None), factors()),
    "bpfa stream mc-ssvi": lambda: stream(bpfa(total_samples=400), factors()),
    "bpfa stream cvi": lambda: stream(bpfa(algorithm="cvi", local_step="spike-slab"), factors()),
    "bpfa stream s-dsvi": lambda: stream(bpfa(algorithm="s-dsvi", local_step="mean-field"), factors()),
    "bpfa crash batches": lambda: crash(bpfa(batch_size=50), factors()),
}


# ---- digests


def digest(values: Array) -> list[Any]:
    """SHA-256 of the bytes (16 hex digits), shape, and what sizes a difference: the number, or Σx, Σ|x|, Σ ramp x."""
    values = np.ascontiguousarray(values, dtype=np.float64).reshape(np.shape(values))
    flat = values.ravel()
    sums = (flat.sum(), np.abs(flat).sum(), flat @ np.linspace(0.0, 1.0, len(flat))) if values.ndim else (flat[0],)
    return [hashlib.sha256(values.tobytes()).hexdigest()[:16], list(values.shape), *[float(f"{s:.12g}") for s in sums]]


def digests(stages: Stages) -> dict[str, Any]:
    """What the table holds of a case; of every stage also the last bound, to be read."""
    table: dict[str, Any] = {}
    for stage, parts in stages.items():
        table[stage] = {part: {name: digest(array) for name, array in arrays.items()} for part, arrays in parts.items()}
        bounds = parts.get("lower_bounds", {}).get("lower_bounds_")
        table[stage]["bound"] = None if bounds is None or not len(bounds) else float(bounds[-1])
    return table


def difference(old: list[Any], new: list[Any]) -> float:
    """Largest difference of the sums relative to Σ|x|; infinite where the shape changed."""
    if old[1] != new[1]:
        return np.inf
    gap = max(abs(a - b) for a, b in zip(old[2:], new[2:], strict=True))
    size = [abs(said[3] if said[1] else said[2]) for said in (old, new)]
    return gap / max(size) if gap else 0.0


def compare(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """A line per stage that differs, and one per part of it that does."""
    for stage in dict.fromkeys([*old, *new]):
        if stage not in old or stage not in new:
            yield f"  {stage}: {'new' if stage in new else 'gone'}"
            continue
        lines = []
        for part in PARTS:
            was, now = old[stage].get(part, {}), new[stage].get(part, {})
            if lost := [f"-{name}" for name in was if name not in now] + [
                f"+{name}" for name in now if name not in was
            ]:
                lines.append(f"    {part}: {', '.join(lost)}")
            gaps = {n: difference(was[n], now[n]) for n in was if n in now and was[n][:2] != now[n][:2]}
            if gaps:
                worst = max(gaps, key=lambda name: np.nan_to_num(gaps[name], nan=np.inf))
                size = f"{gaps[worst]:.1e} ({worst})" if gaps[worst] else "below 1e-12"
                lines.append(f"    {part}: {len(gaps)} of {len(was)} differ, by up to {size}: {', '.join(gaps)}")
        if lines:
            yield f"  {stage}: last bound {old[stage]['bound']!r} -> {new[stage]['bound']!r}"
            yield from lines


# ---- the file and the command


def surroundings() -> dict[str, str]:
    """What the bits depend on beside this package."""
    import llvmlite.binding
    import numba
    import scipy
    import sklearn

    modules = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn, "numba": numba, "pandas": pd}
    versions = {name: module.__version__ for name, module in modules.items()}
    processor = f"{platform.machine()} {llvmlite.binding.get_host_cpu_name()}"
    return {"python": platform.python_version(), **versions, "processor": processor}


def write(table: dict[str, Any]) -> None:
    """The table as JSON with a line per part, so that changes can be read."""
    lines = ["{", f'"made with": {json.dumps(table["made with"])},', '"cases": {']
    for name, stages in sorted(table["cases"].items()):
        lines.append(f" {json.dumps(name)}: {{")
        for stage, parts in stages.items():
            lines.append(f"  {json.dumps(stage)}: {{")
            lines += [f"   {json.dumps(part)}: {json.dumps(said)}," for part, said in parts.items()]
            lines[-1] = lines[-1][:-1]
            lines.append("  },")
        lines[-1] = lines[-1][:-1]
        lines.append(" },")
    lines[-1] = lines[-1][:-1]
    TABLE.write_text("\n".join([*lines, "}", "}"]) + "\n")


def run(name: str) -> dict[str, Any]:
    """A case's digests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # advice
        return digests(CASES[name]())


def main(arguments: list[str] | None = None) -> int:
    """Compare, or write; the exit code."""
    import threadpoolctl

    parser = argparse.ArgumentParser(description="Compare the bits of many small fits with a stored table.")
    parser.add_argument("--write", action="store_true", help="store what comes out now")
    parser.add_argument("--only", default="", metavar="SUBSTR", help="cases whose name contains this")
    parser.add_argument("--times", action="store_true", help="print what each case takes")
    options = parser.parse_args(arguments)
    names = [name for name in CASES if options.only in name]
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {"made with": surroundings(), "cases": {}}
    if not options.write and table["made with"] != surroundings():
        print(
            f"The table was made with {table['made with']}; here is {surroundings()}: bits may differ for that alone."
        )
    if options.write and not options.only:
        table = {"made with": surroundings(), "cases": {}}
    failed, began = [], time.perf_counter()
    with threadpoolctl.threadpool_limits(1):
        for name in names:
            start = time.perf_counter()
            try:
                new = run(name)
            except Exception as error:
                lines = [f"  {type(error).__name__}: {error}"]
            else:
                stored = table["cases"].get(name)
                if options.write:
                    table["cases"][name] = new
                    lines = []
                else:
                    lines = ["  is not in the table"] if stored is None else list(compare(stored, new))
            if options.times:
                print(f"{time.perf_counter() - start:6.2f} s  {name}", flush=True)
            if lines:
                failed.append(name)
                print("\n".join([name, *lines]), flush=True)
    if options.write:
        table["cases"] = {name: said for name, said in table["cases"].items() if name in CASES}
        write(table)
    elif not options.only:
        gone = [name for name in table["cases"] if name not in CASES]
        failed += gone
        print("".join(f"{name}\n  is in the table alone\n" for name in gone), end="")
    seconds = time.perf_counter() - began
    print(f"{len(names)} fits in {seconds:.0f} s: {len(failed)} {'failed' if options.write else 'differ'}.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
