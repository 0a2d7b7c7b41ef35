"""The paper's synthetic data (K = 80 true factors, 150 given, D = 40, 7.5 % held out), 10,000 rows and its 100,000.

Predictive log density (nats per held-out entry, of the log of the average over draws) and MSE on standardised data
against seconds. Then burn-ins of 0, 1, 3, 5, 10 and 25 sweeps (Figure 2). Rows that are stored are not run again.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np

from benchmarks._lib.cells import by_cells
from benchmarks._lib.tables import arguments

#: Rows on which predictions are scored.
SCORED = 2000


def scores(model: Any, X: Any, truth: Any) -> dict[str, float]:
    """Of the held-out entries of the first rows."""
    X, truth = X[:SCORED], truth[:SCORED]
    held = np.isnan(X)
    filled = model.impute(X)
    density = model.log_predictive_density(X, np.where(held, truth, np.nan)).sum() / held.sum()
    return {
        "log density": float(density + np.log(model.scale_)),
        "MSE": float(np.mean((filled - truth)[held] ** 2) / model.scale_**2),
    }


#: Sets by name: rows, and a of the data with b = 10 (a row uses about a / b factors).
ROWS = 10_000
LARGE = "a = 40, 100,000 rows"
SETS = {"a = 10": (ROWS, 10.0), "a = 40": (ROWS, 40.0), LARGE: (100_000, 40.0)}
#: Methods, their parameters, and their passes on 10,000 and on 100,000 rows.
METHODS: dict[str, tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = {
    "Gibbs-SSVI": ({}, (3, 10, 40), (1, 4)),
    "MF-SSVI": ({"local_step": "mean-field"}, (3, 20), (1, 3)),
    "Gibbs sampler": ({"algorithm": "gibbs"}, (30, 150), (30,)),
    **{f"Gibbs-SSVI, burn-in {k}": ({"n_burn_in": k}, (5, 40), ()) for k in (0, 1, 3, 5, 10, 25)},
}


@functools.lru_cache(maxsize=1)
def rows_of(name: str, n: int) -> tuple[Any, Any]:
    """Rows with entries held out, and whole."""
    from sksvi.datasets import make_beta_process

    truth = make_beta_process(n, 40, 80, a=SETS[name][1], random_state=0).data
    held = np.random.default_rng(0).random(truth.shape) < 0.075
    return np.where(held, np.nan, truth), truth


def run(cell: dict[str, Any], quick: bool) -> list[dict[str, Any]]:
    """One fit."""
    from sksvi import BetaProcessFA

    X, truth = rows_of(cell["data"], 1000 if quick else SETS[cell["data"]][0])
    shared = {"max_iter": cell["passes"], "random_state": 0, "tol": 0.0, "weight_precision": "learned"}
    model = BetaProcessFA(150, **shared, **METHODS[cell["method"]][0])
    start = time.process_time()
    model.fit(X)
    row = {"CPU seconds": time.process_time() - start}
    row |= scores(model, X, truth) | {"floor": 0.01 / float(np.nanvar(X))}
    return [row | {"factors": model.n_effective_components_, "used": float(model.feature_probability_.sum())}]


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    notes = [
        "80 true factors, 150 given, 40 columns. 7.5 % of the entries held out, scored on the first "
        f"{SCORED:,} rows of {ROWS:,}, or of the paper's 100,000. a: of the prior that the data are drawn from (b = "
        "10); the paper does not say its own. Log density: nats per held-out entry of data in units of their standard "
        "deviation; MSE in the same units, 'floor' that of the noise alone. Factors: effective number, 'used' the "
        "expected number per row. CPU seconds are those of whole fits."
    ]
    cells = [
        {"data": name, "method": method, "passes": limit}
        for name in SETS
        for method, (_, few, many) in METHODS.items()
        for limit in (many if name == LARGE else few)
    ]
    if quick:
        cells = [{"data": "a = 10", "method": method, "passes": 2} for method in METHODS]
    title = "Synthetic data of the paper"
    by_cells("beta_process/synthetic", title, cells, lambda cell: run(cell, quick), notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
