"""Hostile calls over every estimator: drawn at random, made, judged. Shared by the tests and the benchmark."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import inspect
import io
import pickle
import re
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError

import sksvi
from benchmarks.hostile._values import PARTITIONED, ROW_VALUES, SCALARS, TABLES
from sksvi.partitions.collections import is_collection
from sksvi.persistence.writer import saved_state

Array = np.ndarray

N = 24
#: CPU seconds that no call on so few rows may take (the first compiles).
SLOW = 5.0
NAMES = [name for name in sksvi.__all__ if hasattr(getattr(sksvi, name), "fit")]
CHEAP = {"max_iter": 2, "random_state": 0, "n_inducing": 5, "n_components": 2, "n_jobs": 1}
REGRESSED = ("gaussian", "student-t", "poisson", "negative-binomial", "ordinal", "logit")
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "BayesianGLMRegressor": [{"likelihood": name} for name in REGRESSED] + [{"covariance": "diag"}],
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
ROWS, ASKED = ("fit", "partial_fit", "fold_in"), ("transform_draws", "sample_y", "importance_score")
SKIPPED = {
    "get_params",
    "get_metadata_routing",
    "get_feature_names_out",
    "save",
    "to_arviz",
    "fit_transform",
    "fit_predict",
}
#: Parameters whose large values are long fits by right, or that other attacks take.
LONG = {"max_iter", "verbose", "n_burn_in", "n_local_samples", "keep_interrupted"}
#: What a message may name in the place of an argument.
WORDS = {
    "X": r"\bX\b|[Ff]eature|column|row|id\b|ids\b|words?\b|level|block",
    "y": r"\by\b|label|level|class|likelihood|block|counts?\b",
    "held_out": r"held_out|\bX\b",
    "feature_names": r"feature_names|words?\b|names",
}


class Call(NamedTuple):
    """Who is asked what, with what in the place of one argument."""

    name: str
    options: int
    fitted: bool
    method: str
    argument: str
    what: str
    seed: int

    def __str__(self) -> str:
        state = "fitted" if self.fitted else "new"
        variant = VARIANTS.get(self.name, [{}])[self.options]
        return f"{state} {self.name}({variant}).{self.method}({self.argument}={self.what}) seed {self.seed}"


class Verdict(NamedTuple):
    """What came of a call: "answered", "refused", "vague" or "mishandled", and why."""

    kind: str
    why: str
    seconds: float


def data(name: str, likelihood: str = "") -> tuple[Any, Any]:
    """X and y that the estimator takes; y None for those that have none."""
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


def fresh(name: str, options: int) -> Any:
    known = getattr(sksvi, name)().get_params()
    own = VARIANTS.get(name, [{}])[options]
    return getattr(sksvi, name)(**{key: value for key, value in CHEAP.items() if key in known} | own)


def right(name: str, options: int) -> tuple[Any, Any]:
    own = VARIANTS.get(name, [{}])[options]
    X, y = data(name, own.get("likelihood", "poisson" if name == "DynamicGLM" else ""))
    return (pd.DataFrame({"dose": X[:, 0], "site": np.arange(N) % 2}) if own.get("groups") == "site" else X), y


@lru_cache
def fitted(name: str, options: int) -> Any:
    """A fit of a few passes that has predicted once, so that what it keeps for predictions is there."""
    X, y = right(name, options)
    with quiet():
        model = fresh(name, options).fit(X) if y is None else fresh(name, options).fit(X, y)
        for method in ("predict", "transform", "score", "impute", "log_predictive_density"):
            if hasattr(model, method):
                getattr(model, method)(*arguments_of(name, options, model, method).values())
    return model


def fingerprint(model: Any) -> str:
    """Of every attribute, arrays and all that hangs on them, but for what is found again."""
    state = saved_state(model)
    # A collection as a parameter: what Dask remembers of one is no change.
    state = {name: id(value) if is_collection(value) else value for name, value in state.items()}
    return hashlib.sha256(pickle.dumps(state)).hexdigest()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Warnings for users are no matter; those of numbers that went wrong are errors."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        yield


def parameters_of(method: Any) -> list[str]:
    code = inspect.unwrap(method).__code__
    return [name for name in code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount] if name != "self"]


def arguments_of(name: str, options: int, model: Any, method: str) -> dict[str, Any]:
    """The right arguments of a method that need to be given."""
    X, y = right(name, options)
    factors = ("BetaProcessFA", "GammaFactorModel", "GammaPoissonFactorization", "GammaProcessNMF")
    if name in factors and method == "inverse_transform":
        return {"X": np.ones((3, len(model.components_)))}
    if method == "recommend" and name in ("GeneralizedPMF", "PoissonFactorization"):
        return {"users": [1, 2]}
    wanted = parameters_of(getattr(type(model), method))
    if method.startswith(("forecast", "simulate")):
        X = X[:1]
    given = {"X": X, "y": y, "held_out": X, "q": [0.1, 0.9], "classes": [0, 1]}
    return {key: value for key, value in given.items() if key in wanted and value is not None}


@lru_cache
def doors(name: str, options: int) -> list[tuple[bool, str, str]]:
    """(fitted, method, argument) of every door of an estimator; parameters are doors of `fit`."""
    new, model, found = fresh(name, options), fitted(name, options), []
    for method in dir(model):
        if method.startswith(("_", "set_")) or method in SKIPPED or not callable(getattr(type(model), method, None)):
            continue
        if not hasattr(model, method):
            continue
        arguments = parameters_of(getattr(type(model), method))
        unused = {"y"} if right(name, options)[1] is None else set()
        found += [(True, method, argument) for argument in arguments if argument not in unused]
        if method in ("fit", "partial_fit"):
            found += [(False, method, argument) for argument in arguments if argument not in unused]
    found += [(False, "fit", f"set {key}") for key in new.get_params() if key not in LONG]
    return found


def drawn(n: int, seed: int) -> Iterator[Call]:
    """n calls, estimators in turn, the rest at random."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        name = NAMES[i % len(NAMES)]
        options = int(rng.integers(len(VARIANTS.get(name, [{}]))))
        places = doors(name, options)
        is_fitted, method, argument = places[int(rng.integers(len(places)))]
        names = sorted(values_for(argument))
        what = names[int(rng.integers(len(names)))]
        yield Call(name, options, is_fitted, method, argument, what, int(rng.integers(2**31)))


def values_for(argument: str) -> dict[str, Any]:
    """What may stand in the place of an argument."""
    if argument in ("X", "held_out"):
        return TABLES
    if argument in ("y", "sample_weight", "offset", "users"):
        return ROW_VALUES
    scalars = {f"{value!r:.30}": (lambda right, rng, value=value: value) for value in SCALARS}
    if argument in ("set prior_precision", "set inducing", "q", "classes", "feature_names", "set prior_words"):
        return scalars | ROW_VALUES
    return scalars


def wrong(call: Call, model: Any) -> tuple[Any, dict[str, Any], Any]:
    """The estimator, the arguments of the call, and the wrong one among them."""
    rng = np.random.default_rng(call.seed)
    arguments = arguments_of(call.name, call.options, model, call.method)
    key = call.argument.removeprefix("set ")
    base = arguments.get(key)
    if base is None:
        base = np.ones(N) if key != "users" else np.array([1, 2])
    with warnings.catch_warnings():  # of the making
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            value = values_for(call.argument)[call.what](base, rng)
    if call.argument.startswith("set "):
        model.set_params(**{key: value})
    else:
        arguments[key] = value
    if key == "X" and call.what in PARTITIONED:  # the rows of all that comes with them, too
        along = {"y", "sample_weight", "offset", "held_out"} & arguments.keys()
        arguments |= {name: PARTITIONED[call.what](arguments[name], rng) for name in along}
    return model, arguments, value


def at_hand(found: Any) -> Any:
    """An answer with what it was to compute later."""
    if isinstance(found, tuple | list) and any(map(is_collection, found)):
        return type(found)(map(at_hand, found))
    return found.compute(scheduler="synchronous") if is_collection(found) else found


def judged(call: Call) -> Verdict:
    """Make a call on a copy, and say what came of it."""
    model = copy.deepcopy(fitted(call.name, call.options)) if call.fitted else fresh(call.name, call.options)
    try:
        model, arguments, value = wrong(call, model)
    except Exception as error:  # the mistake itself cannot be made of this data
        return Verdict("unmade", repr(error), 0.0)
    before, bytes_before = fingerprint_or(model), content(value)
    started = time.process_time()
    try:
        with quiet():
            found = at_hand(getattr(model, call.method)(**arguments))
    except Exception as error:
        seconds = time.process_time() - started
        return Verdict(*of_error(call, error, before == fingerprint_or(model)), seconds)
    seconds = time.process_time() - started
    why = of_answer(call, model, found, before, seconds)
    if not why and content(value) != bytes_before:
        why = f"{call.argument} was changed"
    return Verdict("mishandled" if why else "answered", why, seconds)


def fingerprint_or(model: Any) -> str:
    """A fingerprint, or of one that holds what cannot be pickled, nothing."""
    try:
        return fingerprint(model)
    except (pickle.PicklingError, AttributeError, TypeError):
        return ""


def content(value: Any) -> bytes:
    parts = [getattr(value, name) for name in ("data", "indices", "indptr") if hasattr(value, "indptr")]
    try:
        return b"".join(part.tobytes() for part in parts) or (value.tobytes() if isinstance(value, Array) else b"")
    except AttributeError:
        return b""


def of_error(call: Call, error: Exception, same: bool) -> tuple[str, str]:
    """Whether an error has the right type, names the argument and has changed nothing."""
    text = f"{type(error).__name__}: {error}"
    if not isinstance(error, ValueError | TypeError | NotFittedError):
        return "mishandled", text
    if not same:
        return "mishandled", f"the estimator changed, then {text}"
    key = call.argument.removeprefix("set ")
    if re.search(WORDS.get(key, rf"\b{re.escape(key)}\b"), str(error)):
        return "refused", text
    return "vague", text


def of_answer(call: Call, model: Any, found: Any, before: str, seconds: float) -> str:
    """What is wrong with an answer, or nothing."""
    if seconds > SLOW:
        return f"took {seconds:.1f} s"
    if call.method in ("fit", "partial_fit"):
        return usable(call, model)
    if before != fingerprint_or(model):
        return "a question changed the estimator"
    return not_finite(found, call.method)


def usable(call: Call, model: Any) -> str:
    """What is wrong with an estimator after a fit: it must answer ordinary questions with numbers."""
    if call.argument == "X" or call.argument == "feature_names":
        return "" if all_finite(getattr(model, "lower_bound_", 0.0)) else "lower_bound_ is not finite"
    method = "predict" if hasattr(model, "predict") else "transform"
    try:
        with quiet():
            found = getattr(model, method)(right(call.name, call.options)[0])
            if hasattr(model, "summary"):
                found = [found, known(model.summary())]
    except Exception as error:
        return f"after {call.method} {method} fails: {type(error).__name__}: {error}"
    return "" if all_finite(found) else f"after {call.method} {method} is not finite"


def known(summary: Any) -> Any:
    """A summary without what is blank: spread and interval of points that were estimated, sign and ratio of others."""
    points = summary["std"].isna()
    if "direction" in summary:
        summary = summary.copy()
        ratios = [name for name in summary if str(name).startswith("exp(")]
        summary.loc[summary["direction"].isna(), ratios] = summary.loc[summary["direction"].isna(), ratios].fillna(1.0)
    blank = [name for name in ("std", "lower", "upper") if name in summary]
    summary = summary.mask(np.asarray(points)[:, None] & summary.columns.isin(blank), 0.0)
    return summary.fillna({"direction": 0.5}) if "direction" in summary else summary


def not_finite(found: Any, method: str) -> str:
    if method == "summary" and "std" in found:
        found = known(found)
    if method in ("log_predictive_density", "predict_log_proba", "decision_function", "score"):  # -inf is an answer
        values = np.asarray(found, float)
        return "" if not np.any(np.isnan(values)) else f"{method} is NaN"
    return "" if all_finite(found) else f"{method} is not finite"


def all_finite(found: Any) -> bool:
    """Whether every number of an answer is one; words and tables of them are none."""
    if isinstance(found, tuple | list):
        return all(map(all_finite, found))
    if isinstance(found, pd.DataFrame | pd.Series):
        return all_finite([np.asarray(column) for _, column in pd.DataFrame(found).items()])
    values = np.asarray(found)
    return values.dtype.kind != "f" or bool(np.all(np.isfinite(values)))
