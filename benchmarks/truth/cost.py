"""What posteriors of hyperparameters cost beside a point: CPU seconds of the same fits, tables and intervals.

Ratios of medians over data sets and repetitions in the same run: a fit with its ``summary()``, and 1,000 predicted
intervals, with nothing set over ``hyperparameters="point"``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    DynamicGLM,
    GMEClassifier,
    GMERegressor,
    GPClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
)
from sksvi.testing import simulate_glm, simulate_gp, simulate_mixed, simulate_series

SETS, NEW = 7, 1000
#: A model, rows, targets and new rows; of a series how many points ahead.
Made = tuple[Any, Any, Array, Any]


def glm(likelihood: str, n: int, d: int, seed: int) -> Made:
    data = simulate_glm(n, d, likelihood=likelihood, n_new=NEW, random_state=seed)
    model = BayesianGLMClassifier() if likelihood == "logit" else BayesianGLMRegressor(likelihood=likelihood)
    return model, data.X, data.y, data.new["new"].X


def mixed(likelihood: str, seed: int) -> Made:
    data = simulate_mixed(20, 30, likelihood=likelihood, n_new=NEW, random_state=seed)
    model = GMEClassifier() if likelihood == "logit" else GMERegressor(likelihood=likelihood)
    return model.set_params(groups=["group"]), data.X, data.y, data.new["known levels"].X


def process(model: Any, n: int, seed: int) -> Made:
    data = simulate_gp(n, 2, random_state=seed)
    y = data.y if isinstance(model, SparseGPRegressor) else (data.y > np.median(data.y)).astype(int)
    new = np.random.default_rng(seed).uniform(data.X.min(), data.X.max(), (NEW, 2))
    return model, data.X, y, new


def series(likelihood: str, n: int, seed: int) -> Made:
    data = simulate_series(n, likelihood=likelihood, random_state=seed)
    return DynamicGLM(likelihood=likelihood), data.X, data.y, NEW


CASES: dict[str, Callable[[int], Made]] = {
    "Gaussian, 50 x 5": lambda seed: glm("gaussian", 50, 5, seed),
    "Gaussian, 1,000 x 20": lambda seed: glm("gaussian", 1000, 20, seed),
    "logit, 200 x 10": lambda seed: glm("logit", 200, 10, seed),
    "Poisson, 200 x 10": lambda seed: glm("poisson", 200, 10, seed),
    "negative binomial, 200 x 10": lambda seed: glm("negative-binomial", 200, 10, seed),
    "Student-t, 200 x 10": lambda seed: glm("student-t", 200, 10, seed),
    "mixed, Gaussian, 20 x 30": lambda seed: mixed("gaussian", seed),
    "mixed, logit, 20 x 30": lambda seed: mixed("logit", seed),
    "mixed, Poisson, 20 x 30": lambda seed: mixed("poisson", seed),
    "sparse GP, 50 rows": lambda seed: process(SparseGPRegressor(random_state=0), 50, seed),
    "sparse GP, 300 rows": lambda seed: process(SparseGPRegressor(random_state=0), 300, seed),
    "sparse GP, labels, 100 rows": lambda seed: process(SparseGPClassifier(random_state=0), 100, seed),
    "GPClassifier, 100 rows": lambda seed: process(GPClassifier(), 100, seed),
    "series, Gaussian, 50 points": lambda seed: series("gaussian", 50, seed),
    "series, Poisson, 200 points": lambda seed: series("poisson", 200, seed),
}


def intervals(model: Any, new: Any) -> None:
    """Of 1,000 new observations; of labels their probabilities."""
    if isinstance(model, DynamicGLM):
        model.forecast(new)
    elif hasattr(model, "predict_proba"):
        model.predict_proba(new)
    else:
        model.predict_interval(new)


def seconds(made: Made) -> tuple[float, float]:
    """CPU seconds of fit and summary, and of the intervals."""
    model, X, y, new = made
    start = time.process_time()
    model.fit(X, y).summary()
    between = time.process_time()
    intervals(model, new)
    return between - start, time.process_time() - between


def main(quick: bool = False) -> None:
    rows = []
    for name, make in CASES.items():
        found: dict[str, list[tuple[float, float]]] = {"integrated": [], "point": []}
        for seed in range(2 if quick else SETS):
            for how, times in found.items():
                model, *data = make(seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    times.append(seconds((model.set_params(hyperparameters=how), *data)))
        ours, points = (np.median(np.array(times[not quick :]), axis=0) for times in found.values())
        rows.append({"fit": name, "fit and summary, s": float(ours[0]), "over a point's": float(ours[0] / points[0])})
        rows[-1] |= {"1,000 intervals, s": float(ours[1]), "over a point's intervals": float(ours[1] / points[1])}
        progress(rows[-1])
    notes = [f"CPU seconds, medians of {SETS - 1} data sets; labels have probabilities in the place of intervals."]
    report("truth/cost", "What posteriors of hyperparameters cost", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
