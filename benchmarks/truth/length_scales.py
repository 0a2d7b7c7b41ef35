"""90 % intervals of curves of short, medium and long length scale by HilbertGPTransformer, beside the exact process.

Curves are draws of a Matérn 3/2 process of variance 1 on (0, 1), with noise of standard deviation 0.5. The exact
process is scikit-learn's, with length scale, variance and noise at their largest marginal likelihood.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from sksvi import BayesianGLMRegressor
from sksvi.preprocessing import HilbertGPTransformer

NOISE, SETS, NEW, Z = 0.5, 60, 100, 1.644854
SIZES, SCALES = (100, 400), (0.05, 0.2, 1.0)
#: Fits of rows that the exact process makes, which cost the cube of their number.
EXACT = {100: 60, 400: 10}


def columns(X: pd.DataFrame, y: Array, n: int, scale: Any) -> tuple[Array, Array, Array]:
    """Mean and variance of f at all rows, log densities of those that are held out."""
    process = HilbertGPTransformer(length_scale=scale, beyond=4.0).set_output(transform="pandas")
    model = make_pipeline(process, BayesianGLMRegressor(prior_precision={"x_gp*": "auto"})).fit(X[:n], y[:n])
    design = model[:-1].transform(X)
    return *model[-1].predict_latent(design), model[-1].log_predictive_density(design[n:], y[n:])


def exact(X: pd.DataFrame, y: Array, n: int) -> tuple[Array, Array, Array]:
    """The same of the exact process."""
    kernel = ConstantKernel(1.0) * Matern(0.3, nu=1.5) + WhiteKernel(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianProcessRegressor(kernel).fit(X[:n], y[:n])
    mean, spread = model.predict(X, return_std=True)
    variance = np.maximum(np.square(spread) - model.kernel_.k2.noise_level, 0.0)
    return mean, variance, norm.logpdf(y[n:], mean[n:], spread[n:])


def run(n: int, length: float, method: str, sets: int, seed: int = 0) -> dict[str, Any]:
    """The row of one method: means over sets, and the standard error of the cover."""
    found = []
    for number in range(sets):
        rng = np.random.default_rng([seed, n, int(100 * length), number])
        X = pd.DataFrame({"x": rng.random(n + NEW)})
        root = np.linalg.cholesky(Matern(length, nu=1.5)(X) + 1e-9 * np.eye(n + NEW))
        f = root @ rng.standard_normal(n + NEW)
        y = f + NOISE * rng.standard_normal(n + NEW)
        began = time.process_time()
        fixed = 0.2 if method == "a fifth of the range" else "auto"
        mean, variance, density = exact(X, y, n) if method == "exact" else columns(X, y, n, fixed)
        covers = np.abs(mean - f)[:n] <= Z * np.sqrt(variance[:n])
        found.append(
            (covers.mean(), np.sqrt(np.mean(np.square(mean - f)[:n])), density.mean(), time.process_time() - began)
        )
    covers, rmse, density, seconds = np.transpose(found)
    return {
        "rows": n, "length scale": length, "fit": method, "sets": sets, "covers": covers.mean(),
        "se": covers.std(ddof=1) / np.sqrt(sets), "rmse of f": rmse.mean(), "held-out log density": density.mean(),
        "CPU s": np.median(seconds),
    }  # fmt: skip


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for n in SIZES:
        for length in SCALES:
            for method in ("auto", "a fifth of the range", "exact"):
                rows.append(run(n, length, method, 3 if quick else EXACT[n] if method == "exact" else SETS))
                progress(rows[-1])
    notes = ["Intervals at the rows of the fit; fewer sets of the exact process have 400 rows, the first ones."]
    report("truth/length_scales", "Intervals of curves by length scale", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
