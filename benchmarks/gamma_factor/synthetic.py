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
    "1 - |cosine| of true and fitted factors, matched. CPU seconds of one thread, compilation apart. "
    "FactorAnalysis: as many factors, its own noise per column."
]
MEANS_TITLE = "Gamma factor model of data with and without means"
MEANS_NOTES = [
    "The same data, D = 50, K = 10, seeds 5 to 14, noise variance 0.1 known, with true means: none; of every column, "
    "normal with a standard deviation of so many of the column's; or of one column, so many of its standard "
    "deviations. Mean NLL per row of 5,000 new rows; best: of the better one of True and False in every set; learned: "
    'sets in which "auto" learned means, of 10.'
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
    for noise, mean in ((NOISE, "auto"), ("auto", "auto"), ("per-feature", "auto"), (NOISE, False), (NOISE, True)):
        model = GammaFactorModel(k, noise_variance=noise, fit_mean=mean, random_state=seed, n_jobs=1)
        seconds = timed(model, X)
        method = f"noise_variance={noise!r}" + ("" if mean == "auto" else f", fit_mean={mean}")
        rows.append(start | {"method": method, "NLL": -model.score(new)})
        rows[-1]["plug-in"] = -float(model.score_samples(new, plug_in=True).mean())
        rows[-1] |= {"apart": apart(model.components_, loadings), "CPU seconds": seconds, "passes": model.n_iter_}
    if peer:
        other = FactorAnalysis(k)
        seconds = timed(other, X)
        rows.append(start | {"method": "FactorAnalysis", "NLL": -float(other.score(new))})
        rows[-1] |= {"apart": apart(other.components_, loadings), "CPU seconds": seconds}
    return rows


def true_means(kind: str, size: float, loadings: Array, rng: np.random.Generator) -> Array:
    """Means (D,), in standard deviations of the columns."""
    std = np.sqrt(np.square(loadings).sum(1) + NOISE)
    return size * std * (np.arange(len(std)) == rng.integers(len(std)) if kind == "one" else rng.standard_normal(50))


def with_means(n: int, kind: str, size: float, seeds: range) -> dict[str, Any]:
    """The scores of fits that learn means, do not, and find out."""
    from sksvi import GammaFactorModel

    scores, learned = [], 0
    for seed in seeds:
        X, new, loadings = synthetic(n, seed)
        mean = true_means(kind, size, loadings, np.random.default_rng(1000 + seed))
        fits = [GammaFactorModel(10, fit_mean=own, random_state=seed, n_jobs=1) for own in ("auto", True, False)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores.append([-fit.fit(X + mean).score(new + mean) for fit in fits])
        learned += fits[0].fit_mean_
    auto, yes, no = np.mean(scores, axis=0).tolist()
    best = float(np.min(np.array(scores)[:, 1:], axis=1).mean())
    told = {"none": "none", "all": f"all, {size:g}", "one": f"one, {size:g}"}[kind]
    own = {"auto": auto, "True": yes, "False": no, "best": best}
    return {"rows": n, "true means": told, **own, "learned": learned}


def main(quick: bool = False) -> None:
    from sksvi import GammaFactorModel
    from sksvi._runtime.parallel import working

    timed(GammaFactorModel(2), np.random.default_rng(0).standard_normal((20, 3)))
    rows: list[dict[str, Any]] = []
    with working():
        for n in ROWS[:2] if quick else ROWS:
            for seed in range(1 if quick else 3):
                rows += compared(synthetic(n, seed), seed, True)
                progress(rows[-2])
        rows += compared(synthetic(20_000 if quick else 300_000, 0, d=40, k=40), 0, False)
        seeds, found = range(5, 6 if quick else 15), []
        kinds = [("none", 0.0), ("all", 0.1), ("all", 0.3), ("one", 0.5), ("one", 2.0)]
        for n in ROWS[:1] if quick else ROWS[:3]:
            for kind, size in kinds:
                found.append(with_means(n, kind, size, seeds))
                progress(found[-1])
    report("gamma_factor/synthetic", TITLE, rows, NOTES, quick)
    report("gamma_factor/synthetic_means", MEANS_TITLE, found, MEANS_NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
