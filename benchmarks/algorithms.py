"""Every algorithm x full/diagonal covariance x quadrature/Monte Carlo, mini-batches of 100, defaults, small real sets.

The gap is the relative distance of the exact bound of the returned q to the optimum for that covariance; both are
computed without sksvi. A negative gap would mean a bound above its optimum.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import Array, arguments, load_csv, load_libsvm, report, standardised
from benchmarks.exact import bound, optimum, posterior_of, precisions, with_constant

ALGORITHMS = ("mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi")


def _libsvm(name: str, columns: int) -> tuple[Array, Array]:
    X, y = load_libsvm(name, columns)
    return X.toarray(), (y == y.max()).astype(int)


def _badhealth() -> tuple[Array, Array]:
    X, y = load_csv("counts/COUNT_badhealth", "numvisit", drop=["rownames"])
    return standardised(X), y


SETS: dict[str, tuple[str, Callable[[], tuple[Array, Array]]]] = {
    "australian": ("logit", lambda: _libsvm("australian_scale", 14)),
    "breast-cancer": ("logit", lambda: _libsvm("breast-cancer_scale", 10)),
    "heart": ("logit", lambda: _libsvm("heart_scale", 13)),
    "diabetes": ("logit", lambda: _libsvm("diabetes_scale", 8)),
    "badhealth": ("poisson", _badhealth),
}


def rows_of(name: str) -> list[dict[str, Any]]:
    from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor

    kind, load = SETS[name]
    X, y = load()
    X1, precision = with_constant(X), precisions(X.shape[1], 1.0)
    rows = []
    for covariance in ("full", "diag"):
        best = optimum(X1, y.astype(float), precision, kind, covariance)[0]
        for algorithm in ALGORITHMS:
            for expectation in ("quadrature", "monte-carlo"):
                estimator = BayesianGLMClassifier if kind == "logit" else BayesianGLMRegressor
                model = estimator(
                    likelihood=kind,
                    prior_precision=1.0,
                    algorithm=algorithm,
                    covariance=covariance,
                    expectation=expectation,
                    batch_size=100,
                    random_state=0,
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(X, y)
                exact = bound(X1, y.astype(float), *posterior_of(model), precision, kind)
                rows.append(
                    {
                        "data": name,
                        "algorithm": algorithm,
                        "covariance": covariance,
                        "expectation": expectation,
                        "optimum": best,
                        "lower_bound_": model.lower_bound_,
                        "gap %": 100 * (best - exact) / abs(best),
                        "lower_bound_ - exact": model.lower_bound_ - exact,
                        "passes": model.n_iter_,
                        "converged": model.converged_,
                        "repairs": int(model.history_["repairs"].sum()),
                        "seconds": float(model.history_["seconds"].iloc[-1]),
                    }
                )
    return rows


def main(quick: bool = False) -> None:
    names = ["heart", "badhealth"] if quick else list(SETS)
    rows = [row for name in names for row in rows_of(name)]
    report("algorithms", "Algorithms on small real sets, mini-batches of 100", rows, quick=quick)
    worst = []
    for covariance in ("full", "diag"):
        for algorithm in ALGORITHMS:
            for expectation in ("quadrature", "monte-carlo"):
                key = {"algorithm": algorithm, "covariance": covariance, "expectation": expectation}
                mine = [row for row in rows if all(row[k] == v for k, v in key.items())]
                gaps = [row["gap %"] for row in mine]
                worst.append(
                    {
                        **key,
                        "largest gap %": max(gaps),
                        "smallest gap %": min(gaps),
                        "most passes": max(row["passes"] for row in mine),
                        "allowed %": 5.0 if (covariance, expectation) == ("diag", "monte-carlo") else 1.0,
                        "all converged": all(row["converged"] for row in mine),
                        "median seconds": float(np.median([row["seconds"] for row in mine])),
                    }
                )
    report("algorithms_worst", "Worst of the sets", worst, quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
