"""The gamma factor model where the truth is known: few rows and many, beside factor analysis, and 300,000 x 40.

How sure q is of little data is what tells on new rows; with many rows the time is that of one product.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.gamma_factor._data import NOISE, gaussian_nll, synthetic

ROWS = (30, 100, 1000, 10_000)
TITLE = "Gamma factor model of data with known loadings"
NOTES = [
    "Loadings uniform on [0, 1], a fifth of them not 0, noise variance 0.1; D = 50, K = 10, and D = K = 40 with "
    "300,000 rows. NLL per row of 5,000 new rows; truth: at the true covariance; mean learned: "
    "about the mean of the rows, of 1 + 1/N times that covariance. apart: mean of "
    "1 - |cosine| of true and fitted factors, matched. Fits: fit_mean=False but where told; CPU seconds of one thread, "
    "compilation apart. FactorAnalysis: as many factors, its own noise per column."
]


def apart(found: Array, truth: Array) -> float:
    """Mean of 1 - |cosine| of matched columns, (K, D) and (D, K)."""
    norms = np.linalg.norm(found, axis=1)[:, None] * np.linalg.norm(truth, axis=0)
    cosine = np.abs(found @ truth) / np.maximum(norms, np.finfo(float).tiny)
    return float(1.0 - cosine[linear_sum_assignment(-cosine)].mean())


def timed(model: Any, X: Array) -> float:
    """CPU seconds of a fit."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    return time.process_time() - start


def compared(data: tuple[Array, Array, Array], seed: int, peer: bool) -> list[dict[str, Any]]:
    """Rows of one data set."""
    from sklearn.decomposition import FactorAnalysis

    from sksvi import GammaFactorModel

    X, new, loadings = data
    d, k = loadings.shape
    start = {"rows": len(X), "seed": seed}
    covariance, none = loadings @ loadings.T + NOISE * np.eye(d), dict.fromkeys(("plug-in", "apart", "CPU seconds"))
    truth = float(gaussian_nll(new, covariance).mean())
    rows = [start | {"method": "truth", "NLL": truth, **none, "passes": None}]
    # Of all densities that follow a shift of the columns, the best at a known covariance.
    shifted = float(gaussian_nll(new - X.mean(0), covariance * (1.0 + 1.0 / len(X))).mean())
    rows.append(start | {"method": "truth, mean learned", "NLL": shifted})
    for noise, mean in ((NOISE, False), ("auto", False), ("per-feature", False), (NOISE, True)):
        model = GammaFactorModel(k, noise_variance=noise, fit_mean=mean, random_state=seed, n_jobs=1)
        seconds = timed(model, X)
        method = f"noise_variance={noise!r}" + (", fit_mean=True" if mean else "")
        rows.append(start | {"method": method, "NLL": -model.score(new)})
        rows[-1]["plug-in"] = -float(model.score_samples(new, plug_in=True).mean())
        rows[-1] |= {"apart": apart(model.components_, loadings), "CPU seconds": seconds, "passes": model.n_iter_}
    if peer:
        other = FactorAnalysis(k)
        seconds = timed(other, X)
        rows.append(start | {"method": "FactorAnalysis", "NLL": -float(other.score(new))})
        rows[-1] |= {"apart": apart(other.components_, loadings), "CPU seconds": seconds}
    return rows


def main(quick: bool = False) -> None:
    from sksvi import GammaFactorModel
    from sksvi._parallel import working

    timed(GammaFactorModel(2), np.random.default_rng(0).standard_normal((20, 3)))
    rows: list[dict[str, Any]] = []
    with working():
        for n in ROWS[:2] if quick else ROWS:
            for seed in range(1 if quick else 3):
                rows += compared(synthetic(n, seed), seed, True)
                progress(rows[-2])
        rows += compared(synthetic(20_000 if quick else 300_000, 0, d=40, k=40), 0, False)
    report("gamma_factor/synthetic", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
