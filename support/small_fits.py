"""Small fits of every estimator with every algorithm, and comparisons of fits to the last bit."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions

from sksvi.estimators.base import BaseSVI
from sksvi.persistence import REGISTRY
from sksvi.persistence.writer import Encoder

Array = np.ndarray

#: Parameters by which a fit of sixty rows is small, and has many passes.
SMALL_OPTIONS: dict[str, dict[str, Any]] = {
    "BayesianGLMRegressor": {"likelihood": "poisson"},
    "BernoulliMixture": {"n_components": 4},
    "BetaProcessFA": {"n_components": 4},
    "CategoricalMixture": {"n_components": 4},
    "CorrelatedTopicModel": {"n_components": 3},
    "GMEClassifier": {"groups": "g"},
    "GMERegressor": {"groups": "g", "likelihood": "poisson", "noise": False},
    "GammaFactorModel": {"n_components": 2},
    "GammaPoissonFactorization": {"n_components": 3},
    "GammaProcessNMF": {"n_components": 3, "search_passes": 3},
    "GeneralizedPMF": {"n_components": 2},
    "PoissonFactorization": {"n_components": 3},
    "SparseGPClassifier": {"n_inducing": 8},
    "StructuredLDA": {"n_components": 3},
    "SparseGPRegressor": {"n_inducing": 8, "likelihood": "poisson"},
}
#: Estimators and parameters whose fits have kinds of state that defaults on so few rows lack.
EXTRA_CASES = [
    ("BayesianGLMRegressor", {"algorithm": "cvi", "batch_size": 20}),
    ("BayesianGLMClassifier", {"algorithm": "mc-ssvi", "batch_size": 20}),
    ("GMERegressor", {"algorithm": "cvi", "batch_size": 20}),
    ("SparseGPRegressor", {"algorithm": "cvi", "batch_size": 20, "optimize_hyperparameters": False}),
    ("CorrelatedTopicModel", {"algorithm": "cvi", "batch_size": 20}),
    ("StructuredLDA", {"algorithm": "ssvi", "local_step": "gibbs", "doc_topic_prior": "auto", "batch_size": 20}),
    ("GeneralizedPMF", {"algorithm": "mc-ssvi", "batch_size": 5}),
    ("SparseGPRegressor", {"likelihood": "gaussian", "tol": 1e-3}),
    ("GPClassifier", {"tol": 1e-3}),
]


class FitCase(NamedTuple):
    """An estimator by the name of its class, and parameters."""

    name: str
    options: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"


def estimator_classes() -> dict[str, Any]:
    """Classes of all estimators by name, in alphabetical order."""
    found = {name: getattr(import_module(path.split(":")[0]), path.split(":")[1]) for name, path in REGISTRY.items()}
    return {name: cls for name, cls in sorted(found.items()) if isinstance(cls, type) and issubclass(cls, BaseSVI)}


def algorithm_names(cls: Any) -> list[str]:
    """Algorithms that an estimator takes by name.

    Parameters
    ----------
    cls : class
        Class of an estimator.

    Returns
    -------
    names : list of str
        Values of its parameter ``algorithm``, in alphabetical order.
    """
    rules = cls._parameter_constraints["algorithm"]
    return sorted(option for rule in rules if isinstance(rule, StrOptions) for option in rule.options)


def fit_cases() -> list[FitCase]:
    """Every estimator with every algorithm, then the further cases of `EXTRA_CASES`."""
    every = [
        FitCase(name, {"algorithm": one}) for name, cls in estimator_classes().items() for one in algorithm_names(cls)
    ]
    return every + [FitCase(name, dict(options)) for name, options in EXTRA_CASES]


def make_estimator(case: FitCase, max_iter: int = 30) -> Any:
    """Make the estimator of a case, unfitted.

    Parameters
    ----------
    case : FitCase
        Estimator and parameters.
    max_iter : int, default=30
        Passes; ``tol`` is 0 where the case has none, so that all of them are made.

    Returns
    -------
    estimator : estimator
        With ``random_state=0``.
    """
    cls = estimator_classes()[case.name]
    options = {**SMALL_OPTIONS.get(case.name, {}), **case.options}
    return cls(**{"max_iter": max_iter, "tol": 0.0, "random_state": 0, **options})


def make_data(name: str, seed: int) -> tuple[Any, Any]:
    """Draw sixty rows (of topics and factorizations forty) that an estimator takes.

    Parameters
    ----------
    name : str
        Name of the class.
    seed : int
        Seed of the data.

    Returns
    -------
    X, y : array or DataFrame, and array or None
        Rows and targets; None for an estimator without targets.
    """
    import pandas as pd

    rng = np.random.default_rng([seed, 12])
    X = rng.standard_normal((60, 3))
    counts = rng.poisson(np.exp(0.5 * X[:, 0]))
    if name == "PoissonFactorization":
        return np.column_stack([rng.integers(0, 9, 60), rng.integers(0, 7, 60)]), counts
    if name == "GeneralizedPMF":
        return np.column_stack([rng.integers(0, 9, 60), rng.integers(0, 7, 60)]), X[:, 0]
    if name in ("CorrelatedTopicModel", "GammaPoissonFactorization", "GammaProcessNMF", "StructuredLDA"):
        return rng.poisson(0.7, (40, 12)) + np.eye(40, 12, dtype=int), None
    if name.startswith("GME"):
        X = pd.DataFrame(X, columns=list("abc")).assign(g=rng.integers(0, 5, 60))
    if name.endswith("Mixture"):
        return (X > 0).astype(float), None
    if name in ("BetaProcessFA", "GammaFactorModel"):
        return X, None
    return X, np.minimum(counts, 1) if name.endswith("Classifier") else counts


def predictions(estimator: Any, X: Any) -> Array:
    """Predictions of a fitted estimator, or its transformed rows."""
    return np.asarray(estimator.predict(X) if hasattr(estimator, "predict") else estimator.transform(X))


def fit_bytes(estimator: Any, X: Any) -> bytes:
    """Bytes by which two fits agree to the last bit.

    Parameters
    ----------
    estimator : estimator
        Fitted.
    X : array or DataFrame
        Rows whose predictions are among the bytes.

    Returns
    -------
    content : bytes
        Predictions, lower bounds by pass, and how the fit ended.
    """
    end = np.array([estimator.lower_bound_, estimator.n_iter_, estimator.converged_])
    parts = [predictions(estimator, X), estimator.lower_bounds_, end]
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


def fingerprint(estimator: Any) -> str:
    """Hash of every attribute and array as a file would hold them, without callbacks and caches."""
    for block in estimator.state_.q.values() if hasattr(estimator, "state_") else ():
        block.prepare()  # some cache their factor on first use
    encoder = Encoder(REGISTRY)
    tree = encoder.encode(estimator, type(estimator).__name__)
    found = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for array in encoder.arrays.values():
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


@contextmanager
def ignore_convergence_warnings() -> Iterator[None]:
    """Ignore the warnings of fits that are short by intent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="algorithm=.* takes one step for each chunk")
        warnings.filterwarnings("ignore", message="the components of this .* began among")
        yield
