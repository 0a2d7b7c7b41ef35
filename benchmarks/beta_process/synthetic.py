"""The paper's synthetic data (K = 80 true factors, 150 given, D = 40, 7.5 % held out), with fewer rows than its 1e5.

Predictive log density (nats per held-out entry, of the log of the average over draws) and MSE on standardised data
against seconds. Then burn-ins of 0, 1, 3, 5 and 10 sweeps (Figure 2).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report

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


#: Rows, and a of the data with b = 10: a row uses about a / b factors.
ROWS = 10_000
DENSITIES = {"a = 10": 10.0, "a = 40": 40.0}
#: Methods, their parameters and their passes.
RUNS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("Gibbs-SSVI", {}, (3, 10, 40)),
    ("MF-SSVI", {"local_step": "mean-field"}, (3, 20)),
    ("Gibbs sampler", {"algorithm": "gibbs"}, (30, 150)),
    *((f"Gibbs-SSVI, burn-in {k}", {"n_burn_in": k}, (5, 40)) for k in (0, 1, 3, 5, 10)),
]


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from sksvi import BetaProcessFA
    from sksvi.datasets import make_beta_process

    warnings.simplefilter("ignore", ConvergenceWarning)
    rows: list[dict[str, Any]] = []
    notes = [
        "80 true factors, 150 given, 40 columns. 7.5 % of the entries held out, scored on the first "
        f"{SCORED:,} rows of {ROWS:,} (the paper has 100,000). a: of the prior that the data are drawn from (b = 10); "
        "the paper does not say its own. Log density: nats per held-out entry of data in units of their standard "
        "deviation; MSE in the same units, 'floor' that of the noise alone. Factors: effective number, 'used' the "
        "expected number per row. CPU seconds are those of whole fits."
    ]
    for label, a in DENSITIES.items():
        bunch = make_beta_process(1000 if quick else ROWS, 40, 80, a=a, random_state=0)
        held = np.random.default_rng(0).random(bunch.data.shape) < 0.075
        X = np.where(held, np.nan, bunch.data)
        for name, parameters, passes in RUNS:
            for limit in passes[:1] if quick else passes:
                shared = {"max_iter": limit, "random_state": 0, "tol": 0.0, "weight_precision": "learned"}
                model = BetaProcessFA(150, **shared, **parameters)
                start = time.process_time()
                model.fit(X)
                spent = time.process_time() - start
                rows.append({"data": label, "method": name, "passes": limit, "CPU seconds": spent})
                rows[-1] |= scores(model, X, bunch.data) | {"floor": 0.01 / float(np.nanvar(X))}
                rows[-1] |= {"factors": model.n_effective_components_, "used": float(model.feature_probability_.sum())}
                progress(rows[-1])
                report("beta_process/synthetic", "Synthetic data of the paper", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
