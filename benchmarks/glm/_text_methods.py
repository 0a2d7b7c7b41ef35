"""What classifies texts: ours, and what scikit-learn has for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib import Array
from benchmarks._lib.timing import Clock, cpu_limit

Makers = Mapping[str, Callable[[], Any]]

#: Parameters of ours by the name that the tables give them; the first is judged.
OURS: dict[str, dict[str, str]] = {"low-rank": {"covariance": "low-rank"}, "full": {"covariance": "full"}}
#: CPU seconds that one fit may take, and one with cross-validation, which fits fifty times.
LIMIT, CV_LIMIT = 10.0, 120.0
CV, LR = "LogisticRegressionCV", "LogisticRegression"
#: Log probabilities below this one count as it: a method that is certain of what is wrong has a finite loss.
FLOOR = 1e-12


def ours() -> Makers:
    from sksvi import BayesianGLMClassifier

    def maker(options: dict[str, str]) -> Callable[[], Any]:
        return lambda: BayesianGLMClassifier(**options)  # type: ignore[arg-type]

    return {name: maker(options) for name, options in OURS.items()}


def peers() -> Makers:
    """scikit-learn's own, LogisticRegressionCV with ten values of C from 1e-4 to 1e4 by the log loss of five folds."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
    from sklearn.naive_bayes import MultinomialNB

    # From scikit-learn 1.8 on the old attributes are to be declined by name.
    newer = {"l1_ratios": (0,), "use_legacy_attributes": False}
    newer = {
        name: value for name, value in newer.items() if "use_legacy_attributes" in LogisticRegressionCV().get_params()
    }
    return {
        CV: lambda: LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=1000, **newer),
        LR: lambda: LogisticRegression(max_iter=1000),
        f"{LR}, C=30": lambda: LogisticRegression(C=30.0, max_iter=1000),
        f"calibrated {LR}": lambda: CalibratedClassifierCV(LogisticRegression(max_iter=1000), cv=5),
        "MultinomialNB": MultinomialNB,
        "SGDClassifier": lambda: SGDClassifier(loss="log_loss", random_state=0),
    }


@dataclass(frozen=True)
class Score:
    """Mean of -log p of the test labels (nats), expected calibration error, CPU seconds of the fit; or why none."""

    loss: float = np.nan
    calibration: float = np.nan
    cpu: float = np.nan
    fails: str = ""


def losses(p: Array, at: Array) -> Array:
    """-log p of the labels, given as columns of p; a label without a column has the floor's."""
    own = np.where(at >= 0, p[np.arange(len(p)), at], 0.0)
    return -np.log(np.maximum(own, FLOOR))


def top_calibration_error(p: Array, at: Array, n_bins: int = 10) -> float:
    """Mean over rows of |share right - mean probability| of the likeliest label, in ten equal bins of it."""
    top, right = p.max(axis=1), p.argmax(axis=1) == at
    bins = np.minimum((top * n_bins).astype(int), n_bins - 1)
    gaps = [abs(right[bins == b].mean() - top[bins == b].mean()) * np.sum(bins == b) for b in np.unique(bins)]
    return float(np.sum(gaps) / len(p))


def columns_of(classes: Array, y: Array) -> Array:
    """Where the labels are among the classes, -1 for one that is not."""
    place = {label: j for j, label in enumerate(classes)}
    return np.array([place.get(label, -1) for label in y])


def scored(make: Callable[[], Any], A: Any, ya: Array, B: Any, yb: Array, limit: float = LIMIT) -> Score:
    """One fit and its predictions; a fit that is refused, or takes longer than the limit, has a reason."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), Clock() as clock, cpu_limit(limit):
            warnings.simplefilter("ignore")
            model = make().fit(A, ya)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            p, at = np.asarray(model.predict_proba(B)), columns_of(model.classes_, yb)
    except (MemoryError, TimeoutError, ValueError) as error:
        return Score(fails=f"{type(error).__name__}: {' '.join(str(error).split())[:90]}")
    return Score(float(losses(p, at).mean()), top_calibration_error(p, at), clock.cpu)


def warm_up(makers: Makers) -> None:
    """A small fit of two and of three classes by each: compiled loops, thread pools."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.random((60, 80)) * (rng.random((60, 80)) < 0.2))
    for make in makers.values():
        for classes in (2, 3):
            y = np.arange(60) % classes
            scored(make, X, y, X[:9], y[:9])
