"""A flat prior is maximum likelihood with a posterior around it: ``prior_precision="flat"`` beside statsmodels' GLM.

Raw columns. Largest difference over the coefficients, intercept included, of estimates and of standard errors, in
statsmodels' standard errors. A posterior mean is no mode: behind a link they differ by a skewness that falls as one
over the square root of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import load_csv, load_npz
from benchmarks._lib.tables import arguments, progress, report

#: Largest difference that counts as agreement, in standard errors.
AGREED = 0.01


def _diabetes() -> tuple[str, Array, Array]:
    from sklearn.datasets import load_diabetes

    return "gaussian", *load_diabetes(return_X_y=True, scaled=False)


def _abalone() -> tuple[str, Array, Array]:
    X, y = load_csv("abalone", "Rings", drop=["Sex"])
    return "gaussian", X.to_numpy(float), y.astype(float)


def _cpu() -> tuple[str, Array, Array]:
    X, y = load_csv("cpu_act", "usr")
    return "gaussian", X.to_numpy(float), y.astype(float)


def _bikes() -> tuple[str, Array, Array]:
    X, y = load_csv("bike_hour", "cnt")
    return "poisson", X[["yr", "hr", "holiday", "workingday", "temp", "hum", "windspeed"]].to_numpy(float), y * 1.0


def _skin() -> tuple[str, Array, Array]:
    arrays = load_npz("skin_segmentation")
    return "logit", arrays["X"].astype(float), (arrays["y"] == arrays["y"].max()) * 1.0


SETS: dict[str, Callable[[], tuple[str, Array, Array]]] = {
    "diabetes": _diabetes,
    "abalone": _abalone,
    "cpu_act": _cpu,
    "bike_hour": _bikes,
    "skin_segmentation": _skin,
}


def row_of(name: str) -> dict[str, Any]:
    import statsmodels.api as sm

    from sksvi import BayesianGLMRegressor

    likelihood, X, y = SETS[name]()
    families = {"gaussian": sm.families.Gaussian, "poisson": sm.families.Poisson, "logit": sm.families.Binomial}
    peer = sm.GLM(y, np.column_stack([X, np.ones(len(X))]), family=families[likelihood]()).fit()
    ours = BayesianGLMRegressor(likelihood=likelihood, prior_precision="flat", tol=1e-8).fit(X, y)
    weights = ours.posterior_["weights"]
    return {
        "data": name,
        "likelihood": likelihood,
        "rows": len(y),
        "columns": X.shape[1],
        "spreads up to": float(X.std(axis=0).max() / X.std(axis=0).min()),
        "estimates": float(np.max(np.abs(weights.mean - peer.params) / peer.bse)),
        "standard errors": float(np.max(np.abs(weights.std - peer.bse) / peer.bse)),
    }


def main(quick: bool = False) -> None:
    rows = []
    for name in ["diabetes"] if quick else SETS:
        rows.append(row_of(name))
        progress(rows[-1])
    agreed = sum(max(row["estimates"], row["standard errors"]) <= AGREED for row in rows)
    notes = [f"Within {AGREED:.0%} of a standard error on {agreed} of {len(rows)} sets."]
    report("glm/flat", "A flat prior beside statsmodels, in its standard errors", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
