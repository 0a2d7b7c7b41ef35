"""Small fits of every estimator and algorithm; cutting them off, going on from them, and running them side by side."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions

import sksvi
from sksvi.callbacks import Checkpoint
from sksvi.estimators.base import BaseSVI
from sksvi.persistence import REGISTRY
from sksvi.persistence.writer import Encoder

Array = np.ndarray

#: What makes a fit of sixty rows small, and one of many passes.
SMALL: dict[str, dict[str, Any]] = {
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
#: Kinds of state that defaults on so few rows do not have.
MORE = [
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


class Case(NamedTuple):
    """An estimator by its name, and parameters."""

    name: str
    options: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"


def estimators() -> dict[str, Any]:
    """Every class of the registry that fits."""
    found = {name: getattr(import_module(path.split(":")[0]), path.split(":")[1]) for name, path in REGISTRY.items()}
    return {name: cls for name, cls in sorted(found.items()) if isinstance(cls, type) and issubclass(cls, BaseSVI)}


def algorithms_of(cls: Any) -> list[str]:
    """Those that an estimator takes by name."""
    rules = cls._parameter_constraints["algorithm"]
    return sorted(option for rule in rules if isinstance(rule, StrOptions) for option in rule.options)


def cases() -> list[Case]:
    """Every estimator with every algorithm, and a few kinds of state more."""
    every = [Case(name, {"algorithm": one}) for name, cls in estimators().items() for one in algorithms_of(cls)]
    return every + [Case(name, dict(options)) for name, options in MORE]


def made(case: Case, max_iter: int = 30) -> Any:
    """The estimator, unfitted."""
    cls = estimators()[case.name]
    return cls(**{"max_iter": max_iter, "tol": 0.0, "random_state": 0, **SMALL.get(case.name, {}), **case.options})


def data_of(name: str, seed: int) -> tuple[Any, Any]:
    """Sixty rows that an estimator takes."""
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
    return X, None if name in ("BetaProcessFA", "GammaFactorModel") else np.minimum(counts, 1) if name.endswith(
        "Classifier"
    ) else counts


def says(model: Any, X: Any) -> Array:
    """Its predictions."""
    return np.asarray(model.predict(X) if hasattr(model, "predict") else model.transform(X))


def bits(model: Any, X: Any) -> bytes:
    """Predictions, course and end of a fit, to the bit."""
    parts = [says(model, X), model.lower_bounds_, np.array([model.lower_bound_, model.n_iter_, model.converged_])]
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


def fingerprint(model: Any) -> str:
    """Of every attribute and array as a file would hold them: without callbacks and what is found again when asked."""
    for block in model.state_.q.values() if hasattr(model, "state_") else ():
        block.prepare()  # some keep their factor once it was asked for
    encoder = Encoder(REGISTRY)
    tree = encoder.encode(model, type(model).__name__)
    found = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for array in encoder.arrays.values():
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


@contextmanager
def quiet() -> Iterator[None]:
    """Fits that are short by intent do not say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="algorithm=.* takes one step for each chunk")
        warnings.filterwarnings("ignore", message="the components of this .* began among")
        yield


# ---- kills
def killed_and_resumed(case: Case, seed: int, rng: np.random.Generator, path: Path) -> str:
    """Kill a fit at a random moment in a process of its own and go on from its checkpoint: "" or what differs.

    "no file": the moment came before the first pass had ended.
    """
    X, y = data_of(case.name, seed)
    expected, seconds = straight(str(case), seed, path.parent)
    with quiet():
        if not (child := os.fork()):
            try:
                made(case).set_callbacks(Checkpoint(path)).fit(X, y)
            finally:
                os._exit(0)
        sleep(seconds * rng.uniform(0.05, 0.95))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if not path.exists():
            return "no file"
        resumed = sksvi.load(path)
        path.unlink()
        passes = resumed.n_iter_
        resumed.set_params(warm_start=True).fit(X, y)
    return "" if bits(resumed, X) == expected else f"other bits after pass {passes}"


@cache
def straight(name: str, seed: int, folder: Path) -> tuple[bytes, float]:
    """Bits of a case's fit with checkpoints, and the seconds that it takes once all is compiled."""
    case = next(case for case in cases() if str(case) == name)
    X, y = data_of(case.name, seed)
    with quiet():
        made(case, 2).fit(X, y)
        started = perf_counter()
        model = made(case).set_callbacks(Checkpoint(folder / "straight.sksvi")).fit(X, y)
        return bits(model, X), perf_counter() - started


# ---- interrupts
def begun(case: Case, how: str, X: Any, y: Any, path: Path) -> tuple[Any, Callable[[Any], Any]]:
    """An estimator before a call, and the call: "fresh", "resumed", "warm" or "streamed"."""
    model = made(case)
    if how == "warm":
        model.set_params(warm_start=True).fit(X, y)
    elif how == "resumed":
        end = model._most_passes() // 2
        kept = made(case).set_callbacks(Checkpoint(path), Stopped(end))
        try:
            kept.fit(X, y)
        except InterruptedError:
            model = sksvi.load(path).set_params(warm_start=True)
        path.unlink(missing_ok=True)
    elif how == "streamed":
        more = {"classes": np.unique(y)} if is_classifier(model) else {}
        model.partial_fit(X, y, **more)
        return model, lambda model: model.partial_fit(X, y)
    return model, lambda model: model.fit(X, y)


class Stopped:
    """A callback that cuts a fit off after a pass."""

    def __init__(self, after: int) -> None:
        self.after = after

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """The end of a fit, from outside."""
        if context.task_name == "pass" and context.task_id + 1 == self.after:
            raise InterruptedError

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing."""


def interrupted(
    case: Case,
    how: str,
    seed: int,
    rng: np.random.Generator,
    path: Path,
    error: type[BaseException] = KeyboardInterrupt,
) -> str:
    """What a signal's handler raises at a random moment of a call, and the call again: "" or what differs.

    "too late" where the call had ended.
    """
    X, y = data_of(case.name, seed)
    with quiet():
        model, call = begun(case, how, X, y, path)
        other, held = pickle.loads(pickle.dumps(model)), fingerprint(model)
        started = perf_counter()
        call(other)
        seconds = perf_counter() - started
        after = fingerprint(model)
        if after != held:
            return "a copy's call changed the estimator"
        if not cut_short(lambda: call(model), seconds * rng.uniform(0.02, 0.9), error):
            return "too late"
        if fingerprint(model) != held:
            # A fit that stands stands, whatever becomes of its last words.
            ended = hasattr(model, "lower_bound_") and bits(model, X) == bits(other, X)
            return "too late" if ended else "the estimator is not as it was"
        call(model)
    return "" if bits(model, X) == bits(other, X) else "other bits in the next call"


def cut_short(call: Callable[[], Any], seconds: float, error: type[BaseException] = KeyboardInterrupt) -> bool:
    """Whether a signal whose handler raises `error` after so many seconds ended the call."""

    def handler(number: int, frame: Any) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        call()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    except error:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    return False


# ---- threads
def jobs(case: Case, seed: int, folder: Path) -> dict[str, Callable[[], bytes]]:
    """A fit, and of a fitted one a prediction, a file there and back, and a chunk of a stream where it has them."""
    X, y = data_of(case.name, seed)
    with quiet():
        fitted = made(case, 8).fit(X, y)
    path, blob = folder / f"{hashlib.sha256(str(case).encode()).hexdigest()}.sksvi", pickle.dumps(fitted)
    fitted.save(path)
    found: dict[str, Callable[[], bytes]] = {
        "fit": lambda: bits(clone(fitted).fit(X, y), X),
        "predict": lambda: says(fitted, X).tobytes(),
        "load": lambda: says(sksvi.load(path), X).tobytes(),
    }
    if hasattr(fitted, "partial_fit") and case.options.get("algorithm") != "gibbs":
        found["partial_fit"] = lambda: bits(pickle.loads(blob).partial_fit(X, y), X)
    return found


def side_by_side(work: list[Callable[[], bytes]]) -> list[Any]:
    """What each of these returns, or raises, each in a thread of its own, begun together."""
    found: list[Any] = [None] * len(work)
    together = threading.Barrier(len(work))

    def one(i: int) -> None:
        together.wait()
        try:
            found[i] = work[i]()
        except BaseException as error:
            found[i] = error

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(work))]
    with quiet():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


def blas_threads() -> list[int]:
    """Of every BLAS in this process."""
    from threadpoolctl import threadpool_info

    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def in_child(work: Callable[[], bytes]) -> bytes:
    """What this returns in a forked process."""
    read, write = os.pipe()
    if not (child := os.fork()):
        status = 1
        try:
            with quiet(), os.fdopen(write, "wb") as pipe:
                pipe.write(work())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        out = pipe.read()
    os.waitpid(child, 0)
    return out
