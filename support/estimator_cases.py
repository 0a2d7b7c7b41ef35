"""A small fit of every estimator in its main variants: parameters, valid data, and valid arguments of every method."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import pickle
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

import sksvi
from sksvi.partitions.collections import is_collection
from sksvi.persistence.writer import saved_state

#: Rows.
N = 24
#: Names of all estimators.
NAMES = [name for name in sksvi.__all__ if hasattr(getattr(sksvi, name), "fit")]
#: Parameters by which a fit is fast, of the estimators that have them.
FAST_OPTIONS = {"max_iter": 2, "random_state": 0, "n_inducing": 5, "n_components": 2, "n_jobs": 1}
REGRESSION_LIKELIHOODS = ("gaussian", "student-t", "poisson", "negative-binomial", "ordinal", "logit")
#: Parameters of the variants of an estimator; one without an entry has the variant {}.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "BayesianGLMRegressor": [{"likelihood": name} for name in REGRESSION_LIKELIHOODS] + [{"covariance": "diag"}],
    "GMERegressor": [{"groups": ["site"], "likelihood": name} for name in ("gaussian", "poisson", "ordinal")]
    + [{"groups": ["site"], "random_slopes": ["dose"], "noise": True, "likelihood": "poisson"}, {"noise": True}],
    "GMEClassifier": [{"groups": ["site"]}, {"groups": ["site"], "noise": True, "bound": "simple"}],
    "SparseGPRegressor": [{}, {"likelihood": "poisson"}],
    "DynamicGLM": [{"likelihood": name} for name in ("poisson", "gaussian", "logit")] + [{"groups": "site"}],
    "GeneralizedPMF": [{"likelihood": name} for name in ("gaussian", "poisson", "ordinal")],
    "CorrelatedTopicModel": [{}, {"topics": "point"}],
    "StructuredLDA": [{}, {"local_step": "gibbs", "algorithm": "ssvi"}, {"doc_topic_prior": "auto"}],
    "GammaFactorModel": [{}, {"noise_variance": "auto"}, {"noise_variance": "per-feature"}],
    "GammaPoissonFactorization": [{}, {"algorithm": "mc-ssvi"}],
    "PoissonFactorization": [{}, {"algorithm": "mc-ssvi"}],
    "GammaProcessNMF": [{}, {"algorithm": "ssvi-a"}, {"search_passes": 1}],
    "BernoulliMixture": [{}, {"algorithm": "gibbs"}],
    "BetaProcessFA": [{}, {"local_step": "mean-field"}, {"algorithm": "gibbs"}],
}


def _data(name: str, likelihood: str = "") -> tuple[Any, Any]:
    """X and y that an estimator takes; y is None for an estimator without targets."""
    rng = np.random.default_rng(1)
    if name in ("CorrelatedTopicModel", "GammaPoissonFactorization", "GammaProcessNMF", "StructuredLDA"):
        return rng.poisson(2.0, (N, 5)), None
    counts = {"poisson", "negative-binomial"}
    f = rng.standard_normal(N)
    y = rng.poisson(np.exp(f)) if likelihood in counts else f + 0.5 * rng.standard_normal(N)
    if likelihood == "ordinal":
        y = np.digitize(y, [-0.5, 0.5])
    if likelihood == "logit" or name.endswith("Classifier"):
        y = (y > 0).astype(int)
    if name == "PoissonFactorization":
        y = rng.poisson(np.exp(f))
    if name in ("GeneralizedPMF", "PoissonFactorization"):
        return np.column_stack([np.arange(N) % 6, rng.integers(0, 5, N)]), y
    X = np.column_stack([f, rng.standard_normal(N)])
    if name.startswith("GME"):
        return pd.DataFrame({"dose": X[:, 0], "age": X[:, 1], "site": np.arange(N) % 4}), y
    if name.endswith("Mixture"):
        return (X > 0).astype(float), None
    return X, None if name == "BetaProcessFA" else y


def n_variants(name: str) -> int:
    """Number of variants of an estimator."""
    return len(VARIANTS.get(name, [{}]))


def new_estimator(name: str, variant: int) -> Any:
    """Make an unfitted estimator of few passes.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    variant : int
        Index into its `VARIANTS`.

    Returns
    -------
    estimator : estimator
        Unfitted.
    """
    available = getattr(sksvi, name)().get_params()
    own = VARIANTS.get(name, [{}])[variant]
    return getattr(sksvi, name)(**{key: value for key, value in FAST_OPTIONS.items() if key in available} | own)


def valid_data(name: str, variant: int) -> tuple[Any, Any]:
    """Draw 24 rows that an estimator takes, always the same.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    variant : int
        Index into its `VARIANTS`.

    Returns
    -------
    X, y : array or DataFrame, and array or None
        Rows and targets; None for an estimator without targets.
    """
    own = VARIANTS.get(name, [{}])[variant]
    X, y = _data(name, own.get("likelihood", "poisson" if name == "DynamicGLM" else ""))
    return (pd.DataFrame({"dose": X[:, 0], "site": np.arange(N) % 2}) if own.get("groups") == "site" else X), y


@lru_cache
def fitted_estimator(name: str, variant: int) -> Any:
    """Fit an estimator for a few passes and predict once, so that everything predictions cache exists.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    variant : int
        Index into its `VARIANTS`.

    Returns
    -------
    estimator : estimator
        Fitted; the same object at each call.
    """
    X, y = valid_data(name, variant)
    with only_numeric_warnings():
        model = new_estimator(name, variant)
        model = model.fit(X) if y is None else model.fit(X, y)
        for method in ("predict", "transform", "score", "impute", "log_predictive_density"):
            if hasattr(model, method):
                getattr(model, method)(*valid_arguments(name, variant, model, method).values())
    return model


def parameter_names(method: Any) -> list[str]:
    """Names of a method's parameters, without ``self``."""
    code = inspect.unwrap(method).__code__
    return [name for name in code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount] if name != "self"]


def valid_arguments(name: str, variant: int, estimator: Any, method: str) -> dict[str, Any]:
    """Valid values of the arguments that a method requires.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    variant : int
        Index into its `VARIANTS`.
    estimator : estimator
        Fitted.
    method : str
        Name of the method.

    Returns
    -------
    arguments : dict
        Values by name.
    """
    X, y = valid_data(name, variant)
    factors = ("BetaProcessFA", "GammaFactorModel", "GammaPoissonFactorization", "GammaProcessNMF")
    if name in factors and method == "inverse_transform":
        return {"X": np.ones((3, len(estimator.components_)))}
    if method == "recommend" and name in ("GeneralizedPMF", "PoissonFactorization"):
        return {"users": [1, 2]}
    wanted = parameter_names(getattr(type(estimator), method))
    if method.startswith(("forecast", "simulate")):
        X = X[:1]
    given = {"X": X, "y": y, "held_out": X, "q": [0.1, 0.9], "classes": [0, 1]}
    return {key: value for key, value in given.items() if key in wanted and value is not None}


def state_hash(estimator: Any) -> str:
    """Hash of every attribute of an estimator, without caches."""
    state = saved_state(estimator)
    # A Dask collection as a parameter: what Dask caches in it is no change.
    state = {name: id(value) if is_collection(value) else value for name, value in state.items()}
    return hashlib.sha256(pickle.dumps(state)).hexdigest()


@contextlib.contextmanager
def only_numeric_warnings() -> Iterator[None]:
    """Ignore printed text and warnings for users; warnings of invalid numbers are errors."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        yield
