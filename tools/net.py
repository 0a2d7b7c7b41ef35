"""A net under changes that must not change any bits: many small fits, one hash for all that each of them says.

    python tools/net.py --write FILE.json     # fit all, store {name: hash}
    python tools/net.py --check FILE.json     # fit all again, print what differs; exits with 1 if anything does
    python tools/net.py --against COMMIT      # store the hashes of that commit, from a checkout, then check here
    python tools/net.py --parts --only NAME   # one hash for every part of what fits say: which part differs?

``--only SUBSTRING`` takes the fits whose names have it. A hash is over the posterior, the public fitted attributes, the
bounds and the predictions of a fit, on fixed seeds, without seconds. Public names alone are used, so that private ones
may change between two runs. Files that are compared come from one machine with one set of library versions.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sksvi
from sksvi import algorithms, datasets, images, inspection, likelihoods, network, schedules, testing
from sksvi.callbacks import Checkpoint

ROOT = Path(__file__).resolve().parents[1]
#: What a fit says, by name.
Parts = dict[str, Any]
Cases = dict[str, Callable[[], Parts]]


# ---- one hash of anything
def digest(value: Any) -> str:
    """The first 16 hex digits of SHA-256 over every bit of a value."""
    found = hashlib.sha256()
    _feed(found, value)
    return found.hexdigest()[:16]


def _feed(found: Any, value: Any) -> None:
    """Add a value to a hash, with what kind of thing it is."""
    if isinstance(value, str | bytes | None):
        found.update(repr(value).encode())
    elif isinstance(value, Mapping):
        _feed(found, [(str(key), value[key]) for key in sorted(value, key=str)])
    elif isinstance(value, list | tuple | set):
        found.update(f"{len(value)} of".encode())
        for item in sorted(value) if isinstance(value, set) else value:
            _feed(found, item)
    elif isinstance(value, pd.DataFrame):
        _feed(found, [list(value.columns), value.index, *(value.iloc[:, j] for j in range(value.shape[1]))])
    elif isinstance(value, pd.Series):
        _feed(found, [str(value.name), value.index, value.to_numpy()])
    elif isinstance(value, pd.Index):
        _feed(found, [*map(str, value.names), *map(str, value)])
    elif sp.issparse(value):
        rows = value.tocsr()
        _feed(found, [rows.shape, rows.indptr, rows.indices, rows.data])
    elif hasattr(value, "posterior_"):
        _feed(found, fitted(value))
    elif hasattr(value, "get_params"):
        _feed(found, [type(value).__name__, value.get_params(deep=False)])
    elif dataclasses.is_dataclass(value):
        _feed(found, {field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    else:
        _feed_numbers(found, np.asarray(value))


def _feed_numbers(found: Any, values: np.ndarray) -> None:
    if values.dtype.kind in "OUST":
        if values.ndim == 0:
            raise TypeError(f"no hash is known of a {type(values.item()).__name__}")
        _feed(found, [values.shape, values.ravel().tolist()])
        return
    found.update(f"{values.dtype.str}{values.shape}".encode())
    found.update(np.ascontiguousarray(values).tobytes())


# ---- what fits say
#: Fitted attributes that are told in another way, or hold what no user is promised.
APART = {"history_", "posterior_", "state_"}


def attempt(call: Callable[[], Any]) -> Any:
    """The value of a call, or the type of its error: that an answer is refused must not change either."""
    try:
        return call()
    except Exception as error:
        return f"raises {type(error).__name__}"


def fitted(model: Any) -> Parts:
    """Posterior, bounds and public fitted attributes."""
    parts: Parts = {}
    for name, block in model.posterior_.items():
        for moment in ("mean", "std", "cov"):
            parts[f"posterior_.{name}.{moment}"] = attempt(partial(getattr, block, moment))
        parts[f"posterior_.{name}.sample"] = attempt(partial(block.sample, 2, 0))
    if hasattr(model, "history_"):
        parts["history_"] = model.history_.drop(columns="seconds")
    for name in sorted(dir(model)):
        if name.endswith("_") and not name.startswith("_") and name not in APART and hasattr(model, name):
            parts[name] = getattr(model, name)
    return parts


def answers(model: Any, X: Any, y: Any = None, held: Any = None) -> Parts:
    """What every public method that the model has says of rows; `held` are cells to score beside X."""
    other = [value for value in (y, held) if value is not None]
    asked = {
        "predict": (X,),
        "predict_proba": (X,),
        "predict_log_proba": (X,),
        "predict_latent": (X,),
        "predict_interval": (X,),
        "predict_quantiles": (X, [0.1, 0.5, 0.9]),
        "decision_function": (X,),
        "sample_y": (X, 2, 0),
        "transform": (X,),
        "transform_draws": (X, 2, 0),
        "reconstruct": (X,),
        "impute": (X,),
        "score_samples": (X,),
        "sample": (3, 0),
        "get_covariance": (),
        "effective_components": (),
        "perplexity": (X,),
        "proportion_interval": (X,),
        "top_words": (None, 3),
        "log_predictive_density": (X, *other),
        "score": (X,) if y is None else (X, y),
        "summary": (),
    }
    return {name: attempt(partial(getattr(model, name), *how)) for name, how in asked.items() if hasattr(model, name)}


def series_answers(model: Any, ahead: Any = None, following: Any = None) -> Parts:
    """What a time series says of its own points, and of those that come."""
    return {
        "predict": model.predict(return_std=True),
        "predict_latent": model.predict_latent(),
        "log_predictive_density": model.log_predictive_density(),
        "forecast": model.forecast(3, ahead),
        "forecast_latent": model.forecast_latent(3, ahead),
        "filter": model.filter(),
        "residuals": model.residuals(random_state=0),
        "simulate": model.simulate(3, 2, ahead, random_state=0),
        "log_evidence": attempt(partial(model.log_evidence, 20, 0)),
        "following": attempt(partial(model.predict_interval, following)),
        "summary": model.summary(),
    }


# ---- small problems
class Problem(NamedTuple):
    """Options of an estimator, rows that it takes, and cells that are scored beside them."""

    options: dict[str, Any]
    X: Any
    y: Any = None
    held: Any = None

    def rows(self, part: slice = slice(None)) -> tuple[Any, ...]:
        """What `fit` is given of some rows."""
        X, y = (values.iloc if hasattr(values, "iloc") else values for values in (self.X, self.y))
        return (X[part],) if y is None else (X[part], y[part])

    def said(self, model: Any) -> Parts:
        """All that a fitted model says."""
        if isinstance(model, sksvi.DynamicGLM):
            ahead = self.X[:3] + 0.1
            return {**fitted(model), **series_answers(model, ahead, self.X)}
        few = slice(0, 25)
        held = None if self.held is None else self.held[few]
        return {**fitted(model), **answers(model, *self.rows(few), held=held)}


def rng(seed: int) -> np.random.Generator:
    """Draws of a problem's own."""
    return np.random.default_rng([seed, 2024])


def targets(likelihood: str, f: np.ndarray, seed: int) -> np.ndarray:
    """What may be observed of latents, every level among them."""
    draws = rng(seed)
    if likelihood in ("logit", "probit"):
        return (f + draws.logistic(size=len(f)) > 0).astype(float)
    if likelihood == "softmax":
        return np.array(["no", "maybe", "yes"])[np.digitize(f + draws.logistic(size=len(f)), [-0.7, 0.7])]
    if likelihood == "ordinal":
        return np.digitize(f + draws.logistic(size=len(f)), [-0.7, 0.7]).astype(float)
    if likelihood == "binomial":
        trials = draws.integers(1, 6, len(f))
        successes = draws.binomial(trials, 1 / (1 + np.exp(-f)))
        return np.column_stack([successes, trials - successes]).astype(float)
    if likelihood in ("gaussian", "student-t"):
        return f + 0.4 * draws.standard_normal(len(f))
    rates = np.exp(0.5 + f) * (draws.gamma(2.0, 0.5, len(f)) if likelihood == "negative-binomial" else 1.0)
    return draws.poisson(rates).astype(float)


def table(n: int = 60, seed: int = 1, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Columns of numbers and a latent."""
    X = rng(seed).standard_normal((n, d))
    return X, X @ np.linspace(-0.8, 0.8, d) + 0.3


def linear(likelihood: str) -> Problem:
    """Rows of a generalized linear model."""
    X, f = table()
    return Problem({"max_iter": 12, "likelihood": likelihood, "random_state": 0}, X, targets(likelihood, f, 2))


def curved(likelihood: str) -> Problem:
    """Rows of a Gaussian process."""
    X = rng(3).uniform(-2.0, 2.0, (40, 2))
    y = targets(likelihood, 1.5 * np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1], 4)
    return Problem({"max_iter": 15, "likelihood": likelihood, "random_state": 0}, X, y)


def sparse_curved(likelihood: str) -> Problem:
    """The same with few inducing points."""
    problem = curved(likelihood)
    return problem._replace(options={**problem.options, "n_inducing": 6})


def grouped(likelihood: str) -> Problem:
    """Rows of two grouping columns, one of them text."""
    draws = rng(5)
    g, h = draws.integers(0, 5, 80), draws.integers(0, 4, 80)
    X = pd.DataFrame(draws.standard_normal((80, 2)), columns=["a", "b"])
    X["g"] = pd.Categorical.from_codes(g, [f"group {k}" for k in range(5)])
    X["h"] = pd.Categorical(h + 10, categories=range(10, 15))
    f = 0.6 * X["a"].to_numpy() + draws.standard_normal(5)[g] + 0.5 * draws.standard_normal(4)[h]
    options = {"max_iter": 10, "likelihood": likelihood, "groups": ["g", "h"], "random_state": 0}
    y = targets(likelihood, f, 6)
    return Problem(options, X, y if y.ndim == 2 else pd.Series(y))


def series(likelihood: str) -> Problem:
    """Points of a series with one column."""
    draws = rng(7)
    x = draws.standard_normal((60, 1))
    f = 0.4 * np.cumsum(0.5 * draws.standard_normal(60)) + 0.3 * x[:, 0]
    options = {"max_iter": 60, "likelihood": likelihood, "level": "walk", "random_state": 0}
    return Problem(options, x, targets(likelihood, f, 8))


def counts(n: int = 50, d: int = 12, seed: int = 9) -> np.ndarray:
    """Counts of three components."""
    draws = rng(seed)
    found = draws.poisson(6.0 * draws.gamma(0.4, 1.0, (n, 3)) @ draws.gamma(0.3, 1.0, (3, d))).astype(float)
    found[:, 0] += 1.0
    return found


def factors(**options: Any) -> Problem:
    """Rows of counts, and some of their cells."""
    X, cells = counts(), counts(seed=10)
    X[::6, 4] = np.nan
    held = np.where(np.isnan(X), cells, np.nan)
    return Problem({"n_components": 4, "max_iter": 8, "random_state": 0, **options}, X, held=held)


def documents(**options: Any) -> Problem:
    """Counts of words, and of others of the same documents."""
    held = counts(seed=10)
    return Problem({"n_components": 3, "max_iter": 6, "random_state": 0, **options}, counts(), held=held)


def measured(**options: Any) -> Problem:
    """Rows of numbers that few factors explain, some of them missing."""
    draws = rng(11)
    X = draws.standard_normal((60, 2)) @ draws.gamma(0.5, 1.0, (2, 6)) + 0.3 * draws.standard_normal((60, 6))
    held = np.where(draws.random(X.shape) < 0.05, X, np.nan)
    X = np.where(np.isnan(held) | ("fit_mean" in options), X, np.nan)
    options = {"n_components": 4, "max_iter": 6, "random_state": 0, **options}
    return Problem(options, X, held=None if "fit_mean" in options else held)


def binary(**options: Any) -> Problem:
    """Rows of zeros and ones of three kinds."""
    draws = rng(12)
    X = (draws.random((70, 6)) < draws.random((3, 6))[draws.integers(0, 3, 70)]).astype(float)
    X[::9, 2] = np.nan
    fixed = {"n_components": 5, "concentration": 1.0, "max_iter": 14, "random_state": 0}
    return Problem({**fixed, **options}, X)


def pairs(likelihood: str | None = None) -> Problem:
    """Users and items by name, and what users said of items."""
    draws = rng(13)
    users, items = draws.integers(0, 15, 150), draws.integers(0, 10, 150)
    f = np.sum(draws.standard_normal((15, 2))[users] * draws.standard_normal((10, 2))[items], axis=1)
    X = pd.DataFrame({"user": [f"u{k}" for k in users], "item": [f"i{k}" for k in items]})
    options = {"n_components": 2, "max_iter": 8, "random_state": 0}
    if likelihood is None:
        return Problem(options, X, pd.Series(targets("poisson", 0.5 * f, 14)))
    return Problem({**options, "likelihood": likelihood}, X, pd.Series(targets(likelihood, f, 14)))


#: Of each estimator: its problem and the algorithms that it takes.
VARIATIONAL = ("cvi", "fp", "h-mc-ssvi", "mc-ssvi", "s-dsvi")
MIXTURE = ("cvi", "gibbs", "map", "mc-ssvi", "ssvi", "ssvi-a", "svi")
COUNTED = ("cvi", "mc-ssvi", "ssvi-a", "svi")
ESTIMATORS: dict[str, tuple[Callable[[], Problem], tuple[str, ...]]] = {
    "BayesianGLMClassifier": (partial(linear, "logit"), VARIATIONAL),
    "BayesianGLMRegressor": (partial(linear, "gaussian"), VARIATIONAL),
    "BernoulliMixture": (binary, MIXTURE),
    "BetaProcessFA": (measured, ("cvi", "gibbs", "h-mc-ssvi", "mc-ssvi", "s-dsvi")),
    "CategoricalMixture": (binary, MIXTURE),
    "CorrelatedTopicModel": (documents, ("cvi", "h-mc-ssvi", "mc-ssvi", "s-dsvi")),
    "DynamicGLM": (partial(series, "poisson"), ("cvi", "fp", "mc-ssvi")),
    "GMEClassifier": (partial(grouped, "logit"), ("auto", *VARIATIONAL)),
    "GMERegressor": (partial(grouped, "poisson"), ("auto", *VARIATIONAL)),
    "GPClassifier": (partial(curved, "logit"), ("cvi", "fp", "mc-ssvi")),
    "GammaFactorModel": (partial(measured, fit_mean="auto"), ("cvi", "mc-ssvi", "s-dsvi")),
    "GammaPoissonFactorization": (factors, COUNTED),
    "GammaProcessNMF": (factors, COUNTED),
    "GeneralizedPMF": (partial(pairs, "gaussian"), ("cvi", "h-mc-ssvi", "mc-ssvi", "s-dsvi")),
    "PoissonFactorization": (pairs, COUNTED),
    "SparseGPClassifier": (partial(sparse_curved, "logit"), VARIATIONAL),
    "SparseGPRegressor": (partial(sparse_curved, "gaussian"), VARIATIONAL),
    "StructuredLDA": (documents, ("cvi", "h-mc-ssvi", "map", "mc-ssvi", "s-dsvi", "ssvi", "ssvi-a", "svi")),
}


def problem_of(name: str, likelihood: str | None = None) -> Problem:
    """An estimator's problem, with targets of that likelihood."""
    make = ESTIMATORS[name][0]
    return make() if likelihood is None else make.func(likelihood)  # type: ignore[attr-defined]


def model_of(name: str, problem: Problem, **options: Any) -> Any:
    """An unfitted estimator with a problem's options, and more."""
    return getattr(sksvi, name)(**{**problem.options, **options})


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for files of one fit."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


# ---- the same fit in every way that there is
def plain(name: str, likelihood: str | None = None, given: Mapping[str, Any] | None = None, **options: Any) -> Parts:
    """A fit to rows in memory, with further arguments of `fit`."""
    problem = problem_of(name, likelihood)
    return problem.said(model_of(name, problem, **options).fit(*problem.rows(), **(given or {})))


def streamed(name: str, **options: Any) -> Parts:
    """Three calls of `partial_fit`."""
    problem = problem_of(name)
    model = model_of(name, problem, **options)
    classes = {"classes": np.unique(problem.y)} if is_classifier(model) else {}
    for part in (slice(0, 20), slice(20, 35), slice(35, None)):
        model.partial_fit(*problem.rows(part), **classes)
        classes = {}
    return problem.said(model)


def warm(name: str) -> Parts:
    """A short fit that goes on."""
    problem = problem_of(name)
    model = model_of(name, problem, max_iter=2, warm_start=True).fit(*problem.rows())
    return problem.said(model.set_params(max_iter=3).fit(*problem.rows()))


def resumed(name: str) -> Parts:
    """A fit that goes on from a checkpoint on its way."""
    problem = problem_of(name)
    with folder() as path:
        model = model_of(name, problem, max_iter=5, tol=0.0)
        model.set_callbacks(Checkpoint(path / "model.sksvi", every=2)).fit(*problem.rows())
        again = sksvi.load(path / "model.sksvi").set_params(warm_start=True)
    return problem.said(again.fit(*problem.rows()))


def loaded(name: str) -> Parts:
    """A fit that was in a file, and the same in one without training rows."""
    problem = problem_of(name)
    model = model_of(name, problem).fit(*problem.rows())
    with folder() as path:
        model.save(path / "model.sksvi")
        parts = problem.said(sksvi.load(path / "model.sksvi"))
        if isinstance(model, sksvi.GPClassifier):
            return parts
        model.save(path / "bare.sksvi", training_rows=False)
        bare = sksvi.load(path / "bare.sksvi")
    if isinstance(model, sksvi.DynamicGLM):
        return {**parts, "bare": bare.forecast(2, problem.X[:2])}
    return {**parts, "bare": answers(bare, *problem.rows(slice(0, 25)))}


def collected(name: str) -> Parts:
    """A fit to a Dask collection of three partitions, which predicts for one too."""
    import dask

    problem = problem_of(name)
    apart = [in_partitions(values) for values in problem.rows()]
    with dask.config.set(scheduler="synchronous"):
        model = model_of(name, problem).fit(*apart)
        parts = problem.said(model)
        method = model.predict if hasattr(model, "predict") else model.transform
        return {**parts, "lazy": method(apart[0]).compute(), "score": model.score(*apart)}


def in_partitions(values: Any) -> Any:
    """A collection of about three partitions."""
    if hasattr(values, "iloc"):
        import dask.dataframe as dd

        return dd.from_pandas(values, npartitions=3)
    import dask.array as da

    return da.from_array(values, chunks=(len(values) // 3 + 1, *values.shape[1:]))


def in_memory() -> Cases:
    """Every estimator by each of its algorithms."""
    return {
        f"{name}/{algorithm}": partial(plain, name, algorithm=algorithm)
        for name, (_, known) in ESTIMATORS.items()
        for algorithm in known
    }


#: Estimators that take no collection, no chunks, or no batches.
WHOLE = {"DynamicGLM", "GPClassifier", "PoissonFactorization"}
NO_STREAM = {"GPClassifier"}
NO_BATCHES = {"DynamicGLM", "GPClassifier", "GammaFactorModel"}


def ways() -> Cases:
    """Every estimator in partitions, in chunks, in batches, going on, from a checkpoint, from a file."""
    cases: Cases = {}
    for name in ESTIMATORS:
        cases[f"{name}/warm_start"] = partial(warm, name)
        cases[f"{name}/checkpoint"] = partial(resumed, name)
        cases[f"{name}/file"] = partial(loaded, name)
        if name not in WHOLE:
            cases[f"{name}/dask"] = partial(collected, name)
        if name not in NO_STREAM:
            cases[f"{name}/stream"] = partial(streamed, name)
        if name not in NO_BATCHES:
            how = {"algorithm": "mc-ssvi"} if name == "GeneralizedPMF" else {}
            cases[f"{name}/batches"] = partial(plain, name, batch_size=16, **how)
    return cases


# ---- likelihoods and options
LIKELIHOODS = {
    "BayesianGLMClassifier": ("probit", "softmax"),
    "BayesianGLMRegressor": (
        "binomial",
        "logit",
        "negative-binomial",
        "ordinal",
        "poisson",
        "poisson-softplus",
        "probit",
        "student-t",
    ),
    "DynamicGLM": ("binomial", "gaussian", "logit", "negative-binomial", "ordinal", "probit", "student-t"),
    "GMEClassifier": ("probit",),
    "GMERegressor": ("binomial", "gaussian", "negative-binomial", "ordinal", "student-t"),
    "GPClassifier": ("probit",),
    "GeneralizedPMF": ("logit", "negative-binomial", "ordinal", "poisson", "probit", "student-t"),
    "SparseGPClassifier": ("probit", "softmax"),
    "SparseGPRegressor": ("binomial", "negative-binomial", "ordinal", "poisson", "student-t"),
}
#: Further fits in memory: estimator, then options by the name of the case.
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "BayesianGLMClassifier": {
        "diagonal": {"covariance": "diag"},
        "balanced": {"class_weight": "balanced"},
        "gauss-hermite": {"expectation": "gauss-hermite"},
        "monte-carlo": {"expectation": "monte-carlo"},
        "schedule": {"algorithm": algorithms.MCSSVI(schedule=schedules.RobbinsMonro(kappa=0.75))},
        "AdaDelta": {"algorithm": algorithms.SDSVI(adagrad=schedules.AdaGrad(rate=0.3))},
    },
    "BayesianGLMRegressor": {
        "point": {"hyperparameters": "point"},
        "ard": {"prior_precision": "ard"},
        "flat": {"prior_precision": "flat", "fit_intercept": False},
        "precisions": {"prior_precision": [0.5, 1.0, 2.0], "intercept_precision": 0.1},
        "fixed noise": {"likelihood": likelihoods.Gaussian(variance=0.2)},
    },
    "BernoulliMixture": {"all moves": {"moves": "all"}, "no moves": {"moves": "none", "probability_prior": 1.0}},
    "BetaProcessFA": {
        "mean-field": {"local_step": "mean-field", "algorithm": "cvi"},
        "spike-slab": {"local_step": "spike-slab", "noise": "columns"},
        "data": {"init": "data", "prune": True, "weight_precision": "learned"},
    },
    "CorrelatedTopicModel": {
        "simple": {"bound": "simple", "covariance": "full"},
        "mean-field": {"bound": "mean-field"},
        "points": {"topics": "point", "prior_words": {0: [1, 2]}},
        "sampled": {"topics": "sampled", "expectation": "monte-carlo"},
        "adagrad": {"topics": "adagrad"},
    },
    "GMEClassifier": {"slopes": {"groups": "g", "random_slopes": ["b"]}, "noise": {"noise": True}},
    "GMERegressor": {
        "simple": {"bound": "simple"},
        "mean-field": {"bound": "mean-field", "algorithm": "cvi"},
        "no noise": {"noise": False},
        "slopes": {"random_slopes": {"g": ["a", "b"]}, "covariance": "diag"},
        "point": {"hyperparameters": "point", "prior_precision": 1.0},
    },
    "GPClassifier": {
        "point": {"hyperparameters": "point", "kernel": ConstantKernel(2.0) * Matern(1.0, nu=1.5)},
        "fixed": {"optimize_hyperparameters": False, "kernel": RBF(0.8)},
    },
    "GammaFactorModel": {
        "per feature": {"noise_variance": "per-feature"},
        "random": {"init": "random", "expectation": "monte-carlo", "noise_variance": "auto"},
    },
    "GammaPoissonFactorization": {"tight": {"bound": "tight", "max_iter": 4}, "rows": {"init": "rows"}},
    "GammaProcessNMF": {"search": {"search_passes": 3, "prune": False}, "random": {"init": "random"}},
    "GeneralizedPMF": {
        "diagonal": {"covariance": "diag", "biases": False},
        "spherical": {"prior_covariance": "spherical", "expectation": "quadrature"},
    },
    "SparseGPRegressor": {
        "optimal": {"bound": "optimal"},
        "v1": {"bound": "v1"},
        "v2": {"bound": "v2", "hyperparameters": "point"},
        "fixed": {"optimize_hyperparameters": False, "inducing": "random", "batch_size": 10, "noise_variance": 0.1},
        "diagonal": {"covariance": "diag", "optimize_inducing": False},
    },
    "StructuredLDA": {
        "cvb0": {"local_step": "cvb0"},
        "gibbs": {"local_step": "gibbs", "algorithm": "ssvi-a"},
        "learned": {"doc_topic_prior": "auto", "topic_word_prior": "auto", "algorithm": "svi"},
        "words": {"prior_words": {1: {3: 20.0}}},
    },
}
#: Streams with options.
STREAMS: dict[str, dict[str, dict[str, Any]]] = {
    "BayesianGLMClassifier": {"small sample": {"stream_sample": 8}, "s-dsvi": {"algorithm": "s-dsvi"}},
    "BayesianGLMRegressor": {"half-life": {"half_life": 20.0}, "no sample": {"stream_sample": 0}},
    "CorrelatedTopicModel": {"population": {"total_samples": 500.0}},
    "GMERegressor": {"forgetting": {"forgetting": 0.8}},
    "GeneralizedPMF": {"forgetting": {"forgetting": 0.8, "covariance": "diag"}},
    "SparseGPRegressor": {"mc-ssvi": {"algorithm": "mc-ssvi"}},
    "StructuredLDA": {"half-life": {"half_life": 20.0, "algorithm": "svi"}},
}


def with_options() -> Cases:
    """Every likelihood of every estimator, and options of fits and streams."""
    cases: Cases = {}
    for name, known in LIKELIHOODS.items():
        cases |= {f"{name}/{likelihood}": partial(plain, name, likelihood) for likelihood in known}
    for name, options in OPTIONS.items():
        cases |= {f"{name}/{label}": partial(plain, name, **how) for label, how in options.items()}
    for name, options in STREAMS.items():
        cases |= {f"{name}/stream, {label}": partial(streamed, name, **how) for label, how in options.items()}
    return cases


# ---- rows of other kinds
def weighted(name: str, likelihood: str | None, *which: str) -> Parts:
    """A fit with weights, an offset or an exposure."""
    problem = problem_of(name, likelihood)
    given = {
        "sample_weight": rng(15).uniform(0.5, 2.0, len(problem.X)),
        "offset": 0.3 * rng(16).standard_normal(len(problem.X)),
        "exposure": rng(17).uniform(0.5, 2.0, len(problem.X)),
    }
    return plain(name, likelihood, {key: given[key] for key in which})


def linear_sparse() -> Parts:
    """Sparse columns."""
    X = sp.random(80, 20, 0.1, format="csr", random_state=0)
    y = targets("logit", X @ np.linspace(-2.0, 2.0, 20), 18)
    return Problem({}, X, y).said(sksvi.BayesianGLMClassifier(max_iter=12, random_state=0).fit(X, y))


def factors_sparse(name: str) -> Parts:
    """Sparse counts."""
    X = sp.csr_matrix(counts())
    problem = documents()
    return {**problem.said(model_of(name, problem).fit(X)), "sparse": answers(model_of(name, problem).fit(X), X)}


def linear_frame() -> Parts:
    """Columns of text, of categories and of numbers; an effect of each on the scale of y, and a check of q."""
    numbers, f = table()
    X = pd.DataFrame(numbers[:, :2], columns=["size", "price"])
    X["colour"] = np.array(["red", "green", "blue"])[rng(19).integers(0, 3, 60)]
    X["kind"] = pd.Categorical.from_codes(rng(20).integers(0, 2, 60), ["new", "old"])
    y = pd.Series(targets("poisson", 0.6 * f, 21), name="sold")
    model = sksvi.BayesianGLMRegressor(likelihood="poisson", max_iter=12, random_state=0).fit(X, y)
    effects = inspection.marginal_effects(model, X, n_draws=20)
    check = inspection.check_posterior(model, X, y, n_draws=50)
    return {**Problem({}, X, y).said(model), "effects": effects, "check": check}


def categories_frame() -> Parts:
    """A mixture of columns of text."""
    draws = rng(22)
    X = pd.DataFrame({name: np.array(list("xyz"))[draws.integers(0, 3, 60)] for name in ("first", "second", "third")})
    model = sksvi.CategoricalMixture(4, concentration=1.0, max_iter=14, random_state=0)
    return Problem({}, X).said(model.fit(X, sample_weight=draws.uniform(0.5, 2.0, 60)))


def pipeline() -> Parts:
    """The functions that take an estimator inside a pipeline."""
    X, y = linear("gaussian").rows()
    model = make_pipeline(StandardScaler(), sksvi.BayesianGLMRegressor(max_iter=12, random_state=0)).fit(X, y)
    return {
        "std": sksvi.predict_std(model, X),
        "interval": sksvi.predict_interval(model, X),
        "quantiles": sksvi.predict_quantiles(model, X, [0.2, 0.7]),
        "draws": sksvi.sample_y(model, X, 2, 0),
        "density": sksvi.log_predictive_density(model, X, y),
        "summary": sksvi.summary(model),
    }


def many_levels() -> Parts:
    """More levels than a dense precision is made for, and levels that are new or missing."""
    draws = rng(23)
    X = pd.DataFrame({"a": draws.standard_normal(320), "g": np.arange(320) % 270, "h": draws.integers(0, 4, 320)})
    y = targets("gaussian", X["a"].to_numpy() + 0.3 * draws.standard_normal(4)[X["h"]], 24)
    model = sksvi.GMERegressor(groups=["g", "h"], max_iter=5, on_unseen="ignore", random_state=0).fit(X, y)
    new = X.iloc[:6].astype({"g": object})
    new.iloc[1, 1], new.iloc[2, 1] = 1001, None
    parts = Problem({}, X, y).said(model)
    return {**parts, "new": [model.predict_latent(new), model.predict_interval(new)]}


def to_sparse() -> Parts:
    """A Gaussian process that becomes one of inducing points."""
    problem = curved("logit")
    model = model_of("GPClassifier", problem).fit(*problem.rows())
    return problem.said(model.to_sparse(5, random_state=0))


def given_points() -> Parts:
    """Inducing points and a kernel of one's own."""
    points = rng(25).uniform(-2.0, 2.0, (5, 2))
    return plain("SparseGPRegressor", inducing=points, kernel=ConstantKernel() * Matern([1.0, 1.0], nu=2.5))


def three_classes(name: str, streams: bool = False, **options: Any) -> Parts:
    """Rows of three classes: integrals of the softmax by a fixed rule."""
    problem = problem_of(name)
    draws = rng(40)
    y = np.where(draws.random(len(problem.X)) < 0.3, 2, np.asarray(problem.y))
    problem = problem._replace(y=y)
    model = model_of(name, problem, **{"tol": 1e-12, **options})
    if not streams:
        return problem.said(model.fit(*problem.rows()))
    for part in (slice(0, 20), slice(20, 35), slice(35, None)):
        model.partial_fit(*problem.rows(part), classes=np.unique(y))
    return problem.said(model)


def rows_of_other_kinds() -> Cases:
    """Weights, offsets, sparse columns, frames, pipelines, levels."""
    cases: Cases = {
        "BayesianGLMClassifier/sparse": linear_sparse,
        "BayesianGLMRegressor/frame": linear_frame,
        "BayesianGLMRegressor/pipeline": pipeline,
        "CategoricalMixture/frame": categories_frame,
        "GMERegressor/many levels": many_levels,
        "GPClassifier/to_sparse": to_sparse,
        "SparseGPRegressor/points": given_points,
        "BayesianGLMClassifier/weights": partial(weighted, "BayesianGLMClassifier", None, "sample_weight", "offset"),
        "BayesianGLMRegressor/weights": partial(weighted, "BayesianGLMRegressor", None, "sample_weight"),
        "BayesianGLMRegressor/exposure": partial(weighted, "BayesianGLMRegressor", "poisson", "exposure"),
        "DynamicGLM/weights": partial(weighted, "DynamicGLM", "gaussian", "sample_weight", "offset"),
        "GMERegressor/weights": partial(weighted, "GMERegressor", None, "sample_weight", "offset"),
        "SparseGPRegressor/weights": partial(weighted, "SparseGPRegressor", "poisson", "sample_weight", "exposure"),
        "GeneralizedPMF/weights": partial(weighted, "GeneralizedPMF", None, "sample_weight"),
        "PoissonFactorization/weights": partial(weighted, "PoissonFactorization", None, "sample_weight"),
        "BernoulliMixture/weights": partial(weighted, "BernoulliMixture", None, "sample_weight"),
    }
    for name in ("BayesianGLMClassifier", "SparseGPClassifier"):
        cases[f"{name}/three classes"] = partial(three_classes, name)
        cases[f"{name}/three classes, cvi"] = partial(three_classes, name, algorithm="cvi")
        cases[f"{name}/three classes, stream"] = partial(three_classes, name, streams=True)
        cases[f"{name}/three classes, batches"] = partial(three_classes, name, batch_size=16)
    cases["BayesianGLMClassifier/three classes, diag"] = partial(
        three_classes, "BayesianGLMClassifier", covariance="diag"
    )
    sparse = ("CorrelatedTopicModel", "GammaPoissonFactorization", "GammaProcessNMF", "StructuredLDA")
    return cases | {f"{name}/sparse": partial(factors_sparse, name) for name in sparse}


# ---- recommendations
def advice(name: str) -> Parts:
    """Users who are folded in, and what is recommended to them and to others."""
    problem = problem_of(name)
    model = model_of(name, problem).fit(*problem.rows())
    guests = pd.DataFrame({"user": ["guest", "guest", "other"], "item": ["i1", "i3", "i2"]})
    later = model.fold_in(guests, np.array([2.0, 1.0, 3.0]))
    return {
        "moments": [later.mean, later.std],
        "predict": model.predict(later),
        "transform": model.transform(later),
        "interval": model.predict_interval(later),
        "pairs": model.predict(later.pairs(guests)),
        "recommended": [model.recommend(later, 3), model.recommend(["u1", "u2"], 3)],
    }


def drawn_advice() -> Parts:
    """What is recommended by draws."""
    problem = problem_of("GeneralizedPMF")
    model = model_of("GeneralizedPMF", problem).fit(*problem.rows())
    return {"thompson": model.recommend(["u1", "u2"], 3, strategy="thompson", random_state=0)}


def cell_advice() -> Parts:
    """What is recommended to rows of counts."""
    X = np.nan_to_num(factors().X)
    return {"recommended": model_of("GammaPoissonFactorization", factors()).fit(X).recommend(X[:5], 3)}


def featured() -> Parts:
    """Users and items with features of their own."""
    draws = rng(26)
    users = pd.DataFrame(draws.standard_normal((16, 2)), index=[f"u{k}" for k in range(16)], columns=["age", "size"])
    items = pd.DataFrame({"price": draws.random(11)}, index=[f"i{k}" for k in range(11)])
    return plain("GeneralizedPMF", user_features=users, item_features=items)


def recommendations() -> Cases:
    """Whatever factors say of users."""
    return {
        "GeneralizedPMF/advice": partial(advice, "GeneralizedPMF"),
        "GeneralizedPMF/drawn advice": drawn_advice,
        "GeneralizedPMF/features": featured,
        "GammaPoissonFactorization/advice": cell_advice,
        "PoissonFactorization/advice": partial(advice, "PoissonFactorization"),
    }


# ---- time series
def dated(n: int = 60, gaps: bool = True) -> pd.Series:
    """Counts by day, with a week's season, and a gap."""
    draws = rng(27)
    f = 1.2 + np.cumsum(0.1 * draws.standard_normal(n)) + 0.4 * np.sin(2 * np.pi * np.arange(n) / 7)
    y = pd.Series(draws.poisson(np.exp(f)).astype(float), pd.date_range("2024-01-01", periods=n, freq="D"), name="y")
    if gaps:
        y.iloc[20:24] = np.nan
    return y


def of_days(**options: Any) -> Parts:
    """A series without columns."""
    fixed = {"likelihood": "poisson", "level": "walk", "max_iter": 60, "random_state": 0}
    model = sksvi.DynamicGLM(**{**fixed, **options}).fit(None, dated())
    return {**fitted(model), **series_answers(model)}


def panel(**options: Any) -> Parts:
    """Three series in one table."""
    parts = [
        pd.DataFrame({"shop": name, "price": rng(k).random(40), "y": dated(40).to_numpy()[::-1]}, dated(40).index)
        for k, name in enumerate(["north", "south", "east"])
    ]
    frame = pd.concat(parts)
    fixed = {"likelihood": "poisson", "level": "walk", "groups": "shop", "n_jobs": 2, "max_iter": 40}
    model = sksvi.DynamicGLM(**{**fixed, **options}).fit(frame[["shop", "price"]], frame["y"])
    ahead = pd.DataFrame({"shop": ["north", "north", "south", "south"], "price": 0.5})
    parts = {"predict": model.predict(return_std=True), "filter": model.filter(), "summary": model.summary()}
    members = {f"series_.{name}": fitted(member) for name, member in sorted(model.series_.items())}
    return {**members, **parts, "forecast": model.forecast(2, ahead)}


def one_by_one() -> Parts:
    """Points that are taken by a filter, then smoothed."""
    y = dated()
    model = sksvi.DynamicGLM(likelihood="poisson", seasonal=7, level="walk", max_iter=60).fit(None, y[:50])
    stream = model.online()
    said = [[one.mean, one.variance, one.bound] for one in map(stream.observe, y[50:])]
    model = stream.update()
    before = {f"before.{name}": part for name, part in fitted(model).items()}
    return {"said": said, **before, **fitted(model.smooth()), **series_answers(model)}


def time_series() -> Cases:
    """Parts of series, panels, and points one by one."""
    options: dict[str, dict[str, Any]] = {
        "season": {"seasonal": 7},
        "waves": {"seasonal": [7, 11.5], "seasonal_type": "trigonometric", "seasonal_variance": 0.001},
        "trend": {"trend": True, "hyperparameters": "point"},
        "damped": {"autoregressive": True, "level": "auto"},
        "cycle": {"cycle": 9.0, "level": "constant"},
        "no level": {"cycle": True, "level": False},
        "chosen": {"likelihood": "auto", "level": "auto"},
        "fixed": {"level_variance": 0.01, "likelihood": "gaussian", "initial_variance": 10.0},
    }
    cases: Cases = {f"DynamicGLM/{label}": partial(of_days, **how) for label, how in options.items()}
    return cases | {
        "DynamicGLM/coefficients": partial(plain, "DynamicGLM", coefficient_variance="auto"),
        "DynamicGLM/panel": panel,
        "DynamicGLM/panel, shared": partial(panel, share_variances=True),
        "DynamicGLM/one by one": one_by_one,
    }


# ---- networks, images, data
def said_by(model: network.Network, *nodes: str) -> Parts:
    """Posterior, bounds and messages of a network."""
    messages = {node: {of: one.parts for of, one in model.messages(node).items()} for node in nodes}
    return {**fitted(model), "messages": messages, "summary": model.summary()}


def waiting(**options: Any) -> Parts:
    """Groups of Gamma numbers."""
    group = np.repeat(np.arange(6), 8)
    times = rng(28).gamma(rng(29).gamma(3.0, 1.0, 6)[group], 0.6)
    nodes = {
        "rate": network.Gamma(2.0, 1.0),
        "shapes": network.Gamma(2.0, 0.5, size=6),
        "times": network.Gamma(network.Link("shapes", index=group), "rate"),
    }
    return said_by(network.Network(nodes).fit({"times": times}, max_iter=15, **options), "rate", "shapes")


def conjugate(**options: Any) -> Parts:
    """Counts, codes and measurements behind a design, all of whose nodes are conjugate."""
    X, f = table(40)
    nodes = {
        "a": network.Gamma(2.0, 1.0),
        "p": network.Dirichlet([0.5, 1.0, 2.0]),
        "b": network.Beta(1.0, 2.0),
        "w": network.Gaussian(0.0, 1.5, size=3, covariance="full"),
        "t": network.Gamma(1.0, 1.0),
        "y": network.Poisson("a"),
        "codes": network.Categorical("p"),
        "hits": network.Binomial("b", np.full(40, 5)),
        "z": network.Gaussian(network.Link("w", design=X), "t"),
    }
    draws = rng(30)
    data = {"y": draws.poisson(3.0, 40), "codes": draws.integers(0, 3, 40), "hits": draws.integers(0, 6, 40)}
    data["z"] = targets("gaussian", f, 31)
    return said_by(network.Network(nodes).fit(data, max_iter=15, random_state=0, **options), "w", "t")


def log_rates() -> Parts:
    """Counts whose logarithms vary about an unknown centre."""
    nodes = {
        "centre": network.Gaussian(0.0, 0.01),
        "precision": network.Gamma(1.0, 1.0),
        "log_rate": network.Gaussian("centre", "precision", size=20),
        "y": network.Likelihood("poisson", "log_rate"),
    }
    y = rng(32).poisson(np.exp(rng(33).normal(1.0, 0.7, 20)))
    return said_by(network.Network(nodes).fit({"y": y}, max_iter=15), "centre", "log_rate")


def own_factor() -> Parts:
    """A factor in two numbers per row."""

    def log_density(share: Any, right: Any, y: Any, n: Any) -> Any:
        p = share * right + (1.0 - share) * (1.0 - right)
        return y * np.log(p) + (n - y) * np.log1p(-p)

    factor = network.Function(["share", "right"], log_density, data=[[14, 31], [120, 150]])
    nodes = {"share": network.Beta(1.0, 3.0, size=2), "right": network.Beta(18.0, 2.0)}
    return said_by(network.Network(nodes, {"tests": factor}).fit(max_iter=15), "share")


def sampled_factor() -> Parts:
    """A factor of whole vectors, by draws."""
    seen = np.array([20.0, 12.0, 5.0])
    factor = network.SampledFunction(["p"], lambda p: np.log(p) @ seen, lambda p: [seen / p], 20)
    nodes = {"p": network.Dirichlet([1.0, 1.0, 1.0])}
    return said_by(network.Network(nodes, [factor]).fit(max_iter=30, tol=1e-6, random_state=0))


def picture() -> tuple[np.ndarray, np.ndarray]:
    """A small image, and which of its pixels are missing."""
    image = np.add.outer(np.sin(np.arange(16.0)), np.cos(0.5 * np.arange(16.0)))
    return image + 0.05 * rng(34).standard_normal(image.shape), rng(35).random(image.shape) < 0.2


def inpainted() -> Parts:
    """Missing pixels, by the default dictionary and by one of few factors."""
    image, mask = picture()
    own = sksvi.BetaProcessFA(8, max_iter=3, random_state=0)
    return {
        "default": images.inpaint(image, mask, max_iter=2, return_std=True, random_state=0),
        "own": images.inpaint(image, mask, estimator=own, random_state=0),
    }


def denoised() -> Parts:
    """Noise that is known, or learned; colours."""
    image, _ = picture()
    own = sksvi.BetaProcessFA(8, max_iter=3, random_state=0)
    coloured = np.stack([image, image[::-1]], -1)
    return {
        "known": images.denoise(image, sigma=0.1, max_iter=2, return_std=True, random_state=0),
        "own": images.denoise(coloured, estimator=own, random_state=0),
        "patches": images.reconstruct(images.extract_patches(image, 5), image.shape),
    }


def simulated() -> Parts:
    """Every simulator, and small data sets."""
    small = {"n_samples": 12, "n_features": 5, "random_state": 0}
    return {
        "beta process": datasets.make_beta_process(**small, n_components=3),
        "ctm": datasets.make_ctm(**small, n_components=3),
        "glm": datasets.make_glm(**small, likelihood="negative-binomial"),
        "gme": datasets.make_gme(**small),
        "lda": datasets.make_lda(**small, n_components=3),
        "pmf": datasets.make_pmf(6, 5, 2, random_state=0),
        "spectra": datasets.make_spectra(**small, n_components=3),
        "wide": datasets.make_wide_logistic(**small),
        "epilepsy": datasets.load_epilepsy(return_X_y=True),
        "linear": testing.simulate_glm(30, 3, random_state=0),
        "mixed": testing.simulate_mixed(4, 5, random_state=0),
        "process": testing.simulate_gp(20, random_state=0),
        "series": testing.simulate_series(30, random_state=0),
        "intermittent": testing.simulate_intermittent(40, random_state=0),
    }


def others() -> Cases:
    """Networks, images and data."""
    return {
        "Network/in turn": waiting,
        "Network/parallel": partial(waiting, order="parallel", rate=0.5),
        "Network/conjugate": conjugate,
        "Network/batches": partial(conjugate, batch_size=10),
        "Network/likelihood": log_rates,
        "Network/function": own_factor,
        "Network/sampled": sampled_factor,
        "images/inpaint": inpainted,
        "images/denoise": denoised,
        "data": simulated,
    }


# ---- the net
CASES: Cases = (
    in_memory() | ways() | with_options() | rows_of_other_kinds() | recommendations() | time_series() | others()
)


def outcome(name: str) -> tuple[str, str]:
    """The hash of a fit, or that it raised; and what it raised."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return digest(CASES[name]()), ""
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        return f"error: {type(error).__name__}", first


def write(path: Path, names: list[str]) -> int:
    """Fit all, print their hashes with seconds, and store them."""
    found, began = {}, time.perf_counter()
    for name in names:
        start = time.perf_counter()
        found[name], raised = outcome(name)
        print(f"{found[name]}  {time.perf_counter() - start:5.2f} s  {name}  {raised}".rstrip(), flush=True)
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    failed = sum(value.startswith("error") for value in found.values())
    print(f"{len(found)} fits in {time.perf_counter() - began:.0f} s, {failed} of them errors: {path}")
    return 0


def check(path: Path, names: list[str], only: str) -> int:
    """Fit all again and print what differs from the file."""
    stored = {name: value for name, value in json.loads(path.read_text(encoding="utf-8")).items() if only in name}
    differing = 0
    for name in sorted({*names, *stored}):
        found, raised = outcome(name) if name in CASES else ("not in this net", "")
        before = stored.get(name, "not in the file")
        if found != before:
            differing += 1
            print(f"{name}: {before} -> {found} {raised}".rstrip(), flush=True)
    print(f"{differing} of {len({*names, *stored})} fits differ")
    return int(differing > 0)


def against(commit: str, names: list[str], only: str) -> int:
    """Store what a checkout of a commit says, with this script, then check here."""
    with tempfile.TemporaryDirectory() as place:
        tree, stored = Path(place) / "tree", Path(place) / "net.json"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", tree, commit], check=True)
        try:
            command = [sys.executable, __file__, "--write", stored, "--root", tree, "--only", only]
            subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tree)}, check=True)
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)
        return check(stored, names, only)


def show_parts(names: list[str]) -> int:
    """Print a hash for every part of what fits say."""
    for name in names:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            parts = CASES[name]()
        for part, value in parts.items():
            refused = value if isinstance(value, str) else ""
            print(f"{digest(value)}  {name}  {part}  {refused}".rstrip(), flush=True)
    return 0


def main() -> int:
    """Read the command line and do what it asks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FILE", help="store the hash of every fit")
    what.add_argument("--check", type=Path, metavar="FILE", help="fit again, and print what differs from a file")
    what.add_argument("--against", metavar="COMMIT", help="print what differs from a checkout of a commit")
    what.add_argument("--parts", action="store_true", help="print a hash for every part of what fits say")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="the fits whose names have it")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout that sksvi must come from")
    given = parser.parse_args()
    if not Path(sksvi.__file__).is_relative_to(given.root.resolve()):
        parser.error(f"sksvi is that of {sksvi.__file__}, not of {given.root}: set PYTHONPATH to the checkout.")
    names = [name for name in CASES if given.only in name]
    if given.write:
        return write(given.write, names)
    if given.check:
        return check(given.check, names, given.only)
    return against(given.against, names, given.only) if given.against else show_parts(names)


if __name__ == "__main__":
    sys.exit(main())
