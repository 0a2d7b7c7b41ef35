"""Every likelihood with nothing set in linear and mixed models, sparse processes and series: 150 rows.

f is known: 0.3 + 0.7 x, with effects of 15 levels of ten rows (standard deviation 0.5), a curve sin(x), or a walk whose
steps have standard deviation 0.1. The likelihood's other numbers are those of the tests, and learned. Counted are what
`predict_interval` of 90 % holds of new rows, of discrete y no less than that, and what intervals hold of f.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib.tables import arguments, progress, report
from sksvi import BayesianGLMRegressor, DynamicGLM, GMERegressor, SparseGPRegressor
from sksvi.likelihoods import Likelihood
from support.likelihood_cases import TRUTH

ROWS, SETS, Z = 150, 6, 1.644854
NAMES = [name for name, truth in TRUTH.items() if not truth.traits.classifies and truth.n_latents == 1]
NAMES = [name for name in NAMES if name != "poisson-softplus"]
FAMILIES = ("linear", "mixed", "process", "series")


def simulated(family: str, rng: np.random.Generator, n: int) -> tuple[Any, Any, np.ndarray]:
    """An estimator with nothing set, rows, and f."""
    x = rng.uniform(-2.0, 2.0, n)
    if family == "linear":
        return BayesianGLMRegressor(), pd.DataFrame({"x": x}), 0.3 + 0.7 * x
    if family == "mixed":
        level = np.arange(n) // 10 % 15
        X = pd.DataFrame({"x": x, "g": [f"level {k}" for k in level]})
        return GMERegressor(groups="g"), X, 0.3 + 0.7 * x + 0.5 * rng.standard_normal(15)[level]
    if family == "process":
        return SparseGPRegressor(random_state=0), pd.DataFrame({"x": x}), 0.3 + np.sin(2.0 * x)
    return DynamicGLM(), None, 0.3 + np.cumsum(rng.normal(0.0, 0.1, n))


def drawn(likelihood: Likelihood, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Targets of rows with these latents, of pairs with twenty trials."""
    if likelihood.traits.paired:
        return likelihood.sample_trials(f, np.full(len(f), 20), rng).astype(float)
    return np.asarray(likelihood.sample(f, rng), float)


def run(name: str, family: str, sets: int = SETS, seed: int = 0) -> dict[str, Any]:
    """The row of a likelihood in a family; new rows are other draws at the rows of the fit."""
    truth, held, latents, warned, converged, seconds = TRUTH[name], [], [], set(), [], []
    for number in range(sets):
        rng = np.random.default_rng([seed, number])
        estimator, X, f = simulated(family, rng, ROWS)
        y, new = drawn(truth, f, rng), drawn(truth, f, rng)
        start = time.process_time()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model = estimator.set_params(likelihood=name).fit(X, y)
        seconds.append(time.process_time() - start)
        warned |= {str(one.message)[:60] for one in found}
        converged.append(model.converged_)
        options = {"trials": np.full(ROWS, 20)} if truth.traits.paired else {}
        low, high = model.predict_interval(X, **options).T
        at = new[:, 0] if truth.traits.paired else new
        held.append(np.mean((low <= at) & (at <= high)))
        mean, variance = model.predict_latent(X)
        latents.append(np.mean(np.abs(mean - f) <= Z * np.sqrt(variance)))
    return {
        "likelihood": name,
        "family": family,
        "converged": f"{sum(converged)} of {sets}",
        "y": np.mean(held),
        "f": np.mean(latents),
        "se of f": np.std(latents) / np.sqrt(sets),
        "CPU ms": 1e3 * float(np.median(seconds)),
        "warned": "; ".join(sorted(warned)),
    }


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for name in NAMES[::6] if quick else NAMES:
        for family in FAMILIES:
            rows.append(run(name, family, 1 if quick else SETS))
            progress(rows[-1])
    report("truth/likelihoods", "Every likelihood in every family", rows, quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
