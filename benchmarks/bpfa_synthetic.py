"""The paper's synthetic data: K = 80 true factors, 150 given, N = 1e5, D = 40, 7.5 % of the entries held out.

Predictive log density (nats per held-out entry, of the log of the average over draws) and MSE on standardised data
against seconds; the Gibbs sampler on a tenth of the rows. Then burn-ins of 0, 1, 3, 5 and 10 sweeps (Figure 2).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.common import arguments, progress, report

#: Rows on which predictions are scored.
SCORED = 5000


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


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from sksvi import BetaProcessFA
    from sksvi.datasets import make_beta_process

    warnings.simplefilter("ignore", ConvergenceWarning)
    n = 5000 if quick else 100_000
    bunch = make_beta_process(n, 40, 80, random_state=0)
    held = np.random.default_rng(0).random(bunch.data.shape) < 0.075
    X = np.where(held, np.nan, bunch.data)
    common = {"n_components": 150, "random_state": 0, "tol": 0.0}
    runs: list[tuple[str, dict[str, Any], list[int], int]] = [
        ("Gibbs-SSVI", {}, [1, 3, 10], n),
        ("MF-SSVI", {"local_step": "mean-field"}, [1, 3], n),
        ("Gibbs sampler, a tenth of the rows", {"algorithm": "gibbs"}, [50, 200], n // 10),
    ]
    runs += [(f"Gibbs-SSVI, burn-in {k}", {"n_burn_in": k}, [3], n) for k in (0, 1, 3, 5, 10)]
    rows: list[dict[str, Any]] = []
    for name, parameters, passes, size in runs:
        for limit in passes[:1] if quick else passes:
            model = BetaProcessFA(max_iter=limit, **{**common, **parameters})
            start = time.perf_counter()
            model.fit(X[:size])
            seconds = time.perf_counter() - start
            rows.append({"method": name, "passes": limit, "rows": size, "seconds": seconds})
            rows[-1] |= scores(model, X, bunch.data) | {"factors": model.n_effective_components_}
            progress(rows[-1])
    floor = 1.0 / 100.0 / float(np.nanvar(X))
    notes = [
        "7.5 % of the entries held out, scored on the first 5,000 rows. Log density: nats per held-out entry of data "
        f"in units of their standard deviation. MSE in the same units; noise alone has {floor:.4f}. Seconds are those "
        "of whole fits that may take so many passes. Factors: effective number."
    ]
    report("bpfa_synthetic", "Synthetic data of the paper", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
