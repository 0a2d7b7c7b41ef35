"""Every algorithm x full/diagonal covariance x quadrature/Monte Carlo, mini-batches of 100, defaults, small real sets.

The gap is the relative distance of the exact bound of the returned q to the optimum for that covariance; both are
computed without sksvi. A negative gap would mean a bound above its optimum.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.exact import bound, optimum, posterior_of, precisions, with_constant
from benchmarks._lib.loaders import load_csv, load_libsvm, standardised
from benchmarks._lib.tables import arguments, report

EXPECTATIONS = ("quadrature", "monte-carlo")
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


def row_of(kind: str, X: Array, y: Array, best: float, settings: dict[str, Any]) -> dict[str, Any]:
    """One fit: its gap, passes and whether it ended by the stopping rule; a fit that raises is a row without a gap."""
    from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor

    estimator = BayesianGLMClassifier if kind == "logit" else BayesianGLMRegressor
    model = estimator(likelihood=kind, prior_precision=1.0, batch_size=100, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y)
        except ValueError as error:
            return {"optimum": best, "gap %": np.inf, "passes": None, "converged": False, "error": str(error)[:120]}
    precision = precisions(X.shape[1], 1.0)
    exact = bound(with_constant(X), y.astype(float), *posterior_of(model), precision, kind)
    return {
        "optimum": best,
        "gap %": 100 * (best - exact) / abs(best),
        "lower_bound_ - exact": model.lower_bound_ - exact,
        "passes": model.n_iter_,
        "converged": model.converged_,
        "repairs": int(model.history_["repairs"].sum()),
        "seconds": float(model.history_["seconds"].iloc[-1]),
        "error": "",
    }


def rows_of(name: str) -> list[dict[str, Any]]:
    kind, load = SETS[name]
    X, y = load()
    rows = []
    for covariance in ("full", "diag"):
        best = optimum(with_constant(X), y.astype(float), precisions(X.shape[1], 1.0), kind, covariance)[0]
        for algorithm, expectation in product(ALGORITHMS, EXPECTATIONS):
            settings = {"algorithm": algorithm, "covariance": covariance, "expectation": expectation}
            rows.append({"data": name, **settings, **row_of(kind, X, y, best, settings)})
    return rows


def worst_of(rows: list[dict[str, Any]], settings: dict[str, str]) -> dict[str, Any]:
    """Worst of the sets for one algorithm, covariance and kind of expectation."""
    mine = [row for row in rows if all(row[key] == value for key, value in settings.items())]
    allowed = 5.0 if settings["covariance"] == "diag" and settings["expectation"] == "monte-carlo" else 1.0
    gaps = [row["gap %"] for row in mine]
    return {
        **settings,
        "largest gap %": max(gaps),
        "smallest gap %": min(gaps),
        "allowed %": allowed,
        "within": max(gaps) <= allowed and min(gaps) > -1e-4,
        "most passes": max(row["passes"] or 0 for row in mine),
        "converged": f"{sum(row['converged'] for row in mine)} of {len(mine)}",
        "errors": sum(bool(row["error"]) for row in mine),
    }


def main(quick: bool = False) -> None:
    names = ["heart", "badhealth"] if quick else list(SETS)
    rows = [row for name in names for row in rows_of(name)]
    columns = ["data", "algorithm", "covariance", "expectation", "optimum", "gap %", "lower_bound_ - exact", "passes"]
    columns += ["converged", "repairs", "seconds", "error"]
    rows = [{column: row.get(column) for column in columns} for row in rows]
    report("product/algorithms", "Algorithms on small real sets, mini-batches of 100", rows, quick=quick)
    settings = product(("full", "diag"), ALGORITHMS, EXPECTATIONS)
    keys = ("covariance", "algorithm", "expectation")
    worst = [worst_of(rows, dict(zip(keys, values, strict=True))) for values in settings]
    report("product/algorithms_worst", "Algorithms: worst of the sets", worst, quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
