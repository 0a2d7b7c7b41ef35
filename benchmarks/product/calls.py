"""Whole calls of `fit` at the defaults beside scikit-learn and statsmodels, and where their time goes.

CPU milliseconds of one thread, small tables and long ones. Shares are of a call under a profiler, which makes calls of
Python dearer than they are: reading and scaling rows, passes, nodes of hyperparameters, the score of the fit.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import median, shares

#: Rows, columns, repeats.
SIZES = ((400, 10, 15), (50_000, 50, 5))
#: Share -> file and function whose time, with all it calls, is meant.
PARTS = {
    "rows": ("estimators/base.py", "_encoded"),
    "passes": ("estimators/base.py", "_run"),
    "nodes": ("linear/hyperposterior.py", "nodes"),
    "score": ("estimators/base.py", "_training_score"),
}


def simulated(n: int, d: int, kind: str) -> tuple[Array, Array]:
    """Rows and targets of a linear latent with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    f = X @ rng.standard_normal(d) / np.sqrt(d)
    if kind == "gaussian":
        return X, f + rng.standard_normal(n)
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-f))) * 1 if kind == "logit" else rng.poisson(np.exp(0.7 * f + 0.5))


def fits(kind: str, n: int) -> dict[str, Any]:
    """Ours, and scikit-learn's."""
    from sklearn.linear_model import BayesianRidge, LogisticRegression, PoissonRegressor

    from sksvi import BayesianGLMClassifier, BayesianGLMRegressor

    if kind == "gaussian":
        return {"ours": BayesianGLMRegressor(random_state=0), "scikit-learn": BayesianRidge()}
    if kind == "logit":
        peer: Any = LogisticRegression(solver="newton-cholesky")
        return {"ours": BayesianGLMClassifier(random_state=0), "scikit-learn": peer}
    ours = BayesianGLMRegressor(likelihood="poisson", random_state=0)
    return {"ours": ours, "scikit-learn": PoissonRegressor(solver="newton-cholesky", alpha=1.0 / n)}


def statsmodels_fit(kind: str, X: Array, y: Array) -> Callable[[], Any]:
    """statsmodels' GLM with a constant."""
    import statsmodels.api as sm

    family = {"gaussian": sm.families.Gaussian, "logit": sm.families.Binomial, "poisson": sm.families.Poisson}[kind]
    return lambda: sm.GLM(y, sm.add_constant(X), family=family()).fit()


def milliseconds(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """CPU milliseconds of each job, medians of runs in turn after one that does not count."""
    spent: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            start = time.process_time()
            job()
            if turn:
                spent[name].append(1e3 * (time.process_time() - start))
    return {name: median(values) for name, values in spent.items()}


def main(quick: bool = False) -> None:
    rows = []
    for n, d, repeats in SIZES[: 1 if quick else None]:
        for kind in ("gaussian", "logit", "poisson"):
            X, y = simulated(n, d, kind)
            models = fits(kind, n)
            jobs = {name: lambda m=m, X=X, y=y: m.fit(X, y) for name, m in models.items()}
            jobs["statsmodels"] = statsmodels_fit(kind, X, y)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                spent = milliseconds(jobs, 2 if quick else repeats)
                row = {"rows": n, "columns": d, "likelihood": kind, **{f"{name}, ms": ms for name, ms in spent.items()}}
                row["ours over scikit-learn"] = spent["ours"] / spent["scikit-learn"]
                rows.append({**row, "our passes": models["ours"].n_iter_, **shares(jobs["ours"], PARTS)})
            progress(rows[-1])
    notes = ["Ours learns the scale of the prior and gives a posterior; BayesianRidge too, the others a point."]
    report("product/calls", "Whole calls at the defaults", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
