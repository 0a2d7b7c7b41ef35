"""How many factors a row uses at first: images with missing pixels, the synthetic data and gene expression.

What the defaults of `init_factors` were chosen by: none of these splits is that of another table.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.beta_process._data import image, observed_mask, psnr
from benchmarks.beta_process._methods import image_of, model_of
from benchmarks.beta_process.genomics import load
from benchmarks.beta_process.synthetic import ROWS, scores

SEED, FACTORS = 5, (1.0, 5.0, 50.0)


def of_image(factors: float, quick: bool) -> dict[str, Any]:
    """House with 80 % of its pixels missing."""
    from sksvi.images import extract_patches

    truth = image("house")
    missing = ~observed_mask(truth.shape, seed=SEED)
    patches = extract_patches(np.where(missing, np.nan, truth), 8, mask=missing)
    start = time.process_time()
    model = model_of("Gibbs-SSVI", 1 if quick else 8, init_factors=factors).fit(patches)
    row = {"data": "house", "K": 250, "CPU seconds": time.process_time() - start}
    estimate = np.where(missing, image_of(model, patches, truth.shape), truth)
    return row | {"PSNR": psnr(estimate, truth), "used": float(model.feature_probability_.sum())}


def judged_rows(name: str, factors: float, quick: bool) -> dict[str, Any]:
    """Held-out entries of the synthetic data (a = 10) or of NCI60."""
    from sksvi import BetaProcessFA
    from sksvi.datasets import make_beta_process

    if name == "synthetic":
        X, share, K = make_beta_process(ROWS, 40, 80, a=10.0, random_state=SEED).data, 0.075, 150
    else:
        X, share, K = load("nci60")[0], 0.1, 500
        X = X[np.random.default_rng(SEED).permutation(len(X))]
    known = np.where(np.random.default_rng(SEED + 1).random(X.shape) < share, np.nan, X)
    start = time.process_time()
    options = {"max_iter": 1 if quick else 8, "tol": 0.0, "random_state": 1, "weight_precision": "learned"}
    model = BetaProcessFA(K, init_factors=factors, **options).fit(known)
    row = {"data": name, "K": K, "CPU seconds": time.process_time() - start}
    return row | scores(model, known, X) | {"used": float(model.feature_probability_.sum())}


def main(quick: bool = False) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    notes = [
        "Gibbs-SSVI, 8 passes. House: 80 % of the pixels missing, mask of seed 5, PSNR in dB over the whole image. The "
        "others: log density in nats per held-out entry and MSE, of data in units of their standard deviation; splits "
        "of their own. init_factors counts to a fifth of K at most. used: expected factors per row at the end."
    ]
    columns = ("data", "K", "init_factors", "CPU seconds", "PSNR", "log density", "MSE", "used")
    rows: list[dict[str, Any]] = []
    for name in ("synthetic",) if quick else ("house", "synthetic", "nci60"):
        for factors in FACTORS[-1:] if quick else FACTORS:
            row = of_image(factors, quick) if name == "house" else judged_rows(name, factors, quick)
            rows.append(row | {"init_factors": factors})
            progress(rows[-1])
            table = [{key: row.get(key) for key in columns} for row in rows]
            report("beta_process/start", "Factors that a row uses at first", table, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
