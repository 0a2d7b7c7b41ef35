"""A flat prior is maximum likelihood with a posterior around it: ``prior_precision="flat"`` beside statsmodels' GLM.

Raw columns. Largest difference over the coefficients, intercept included, of estimates and of standard errors, in
statsmodels' standard errors. A posterior mean is no mode: behind a link they differ by a skewness that falls as one
over the square root of the rows. To first order the mean lies at mode + Σ Xᵀ(t · diag(X Σ Xᵀ)) / 2, with t a row's
third derivative of log p (Tierney, Kass and Kadane 1989): the last column is our estimates' difference from that.
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


#: Third derivative of log p of a row by its expected value μ, canonical links.
THIRD: dict[str, Callable[[Array], Array]] = {
    "gaussian": np.zeros_like,
    "poisson": lambda mu: -mu,
    "logit": lambda mu: -mu * (1 - mu) * (1 - 2 * mu),
}


def row_of(name: str) -> dict[str, Any]:
    import statsmodels.api as sm

    from sksvi import BayesianGLMRegressor

    likelihood, X, y = SETS[name]()
    families = {"gaussian": sm.families.Gaussian, "poisson": sm.families.Poisson, "logit": sm.families.Binomial}
    design = np.column_stack([X, np.ones(len(X))])
    peer = sm.GLM(y, design, family=families[likelihood]()).fit()
    covariance = peer.cov_params()
    variances = np.sum((design @ covariance) * design, axis=1)
    mean = peer.params + covariance @ (design.T @ (THIRD[likelihood](peer.mu) * variances)) / 2
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
        "estimates, from its mean": float(np.max(np.abs(weights.mean - mean) / peer.bse)),
    }


def main(quick: bool = False) -> None:
    rows = []
    for name in ["diabetes"] if quick else SETS:
        rows.append(row_of(name))
        progress(rows[-1])
    agreed = sum(max(row["estimates"], row["standard errors"]) <= AGREED for row in rows)
    means = sum(max(row["estimates, from its mean"], row["standard errors"]) <= AGREED for row in rows)
    notes = [
        f"Within {AGREED:.0%} of a standard error of the maximum on {agreed} of {len(rows)} sets; of the mean of the "
        f"posterior, which a skewed one has elsewhere than its maximum, on {means}."
    ]
    report("glm/flat", "A flat prior beside statsmodels, in its standard errors", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
