"""Intervals of loadings by draws, each given all others, and by Laplace's approximation."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtri
from sklearn.base import clone

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from sksvi import GammaFactorModel
from sksvi.models.gamma_factor.density import log_density

NOISE, COVERAGE, STEP = 1.0, 0.9, 1e-4
TITLE = "Intervals of loadings"
NOTES = [
    "Six columns, loadings and rows drawn from the model (noise variance 1 and prior Gamma(1, 1) known, no mean), "
    "factors matched: share of loadings in their 90 % intervals. summary: a chain that begins at q; q: the same with "
    "uncertainty='variational'. Laplace, each alone and all at once: Gaussians in log Λ about q's mean, with the "
    "curvature of one loading given the others, and of all; their shares are of the sets where that of all is positive "
    "definite, the others are counted as left out. se: standard error over data sets of the first."
]


def slope(logs: Array, model: GammaFactorModel) -> Array:
    """Gradient of log p(Y, Λ) in log Λ, of (K D,) numbers."""
    loadings = np.exp(logs).reshape(model.components_.shape)
    slope = log_density(loadings, np.full(loadings.shape[1], NOISE), model._encoding.scatter).in_loadings
    return ((slope - 1.0) * loadings + 1.0).ravel()  # the prior's shape and rate are 1, and dΛ = Λ d log Λ


def covers(rng: np.random.Generator, n: int, k: int) -> list[float]:
    """Shares of loadings in their intervals: of `summary`, of q, of Laplace each alone and all at once (NaN: none)."""
    truth = rng.gamma(1.0, 1.0, (k, 6))
    X = rng.standard_normal((n, k)) @ truth + np.sqrt(NOISE) * rng.standard_normal((n, 6))
    model = GammaFactorModel(k, noise_variance=NOISE, prior_shape=1.0, fit_mean=False, random_state=0, n_jobs=1).fit(X)
    plain = clone(model).set_params(uncertainty="variational").fit(X)
    order = linear_sum_assignment(np.square(model.components_[:, None] - truth).sum(-1).T)[1]
    tables = [each.summary(COVERAGE) for each in (model, plain)]
    ends = [[table[name].to_numpy() for name in ("lower", "upper")] for table in tables]
    at = np.log(model.components_).ravel()
    steps = STEP * np.eye(len(at))
    curvature = -np.stack([slope(at + s, model) - slope(at - s, model) for s in steps]) / (2.0 * STEP)
    curvature = 0.5 * (curvature + curvature.T)
    if np.linalg.eigvalsh(curvature)[0] > 0:
        reach = ndtri(0.5 + 0.5 * COVERAGE)
        for std in (1.0 / np.sqrt(np.diag(curvature)), np.sqrt(np.diag(np.linalg.inv(curvature)))):
            ends.append([np.exp(at - reach * std), np.exp(at + reach * std)])
    found = [np.nan] * 4
    for number, both in enumerate(ends):
        low, high = (end.reshape(k, 6)[order] for end in both)
        found[number] = float(np.mean((low <= truth) & (truth <= high)))
    return found


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for k in (1, 3):
        for n in (30, 100, 1000):
            rng, sets = np.random.default_rng([n, k]), 5 if quick else 100
            found = np.array([covers(rng, n, k) for _ in range(sets)])
            names = ("summary", "q", "Laplace, each alone", "Laplace, all at once")
            own = dict(zip(names, np.nanmean(found, 0).tolist(), strict=True))
            se, left = float(found[:, 0].std(ddof=1) / np.sqrt(sets)), int(np.isnan(found[:, 3]).sum())
            rows.append({"factors": k, "rows": n, **own, "se of summary": se, "sets": sets, "left out": left})
            progress(rows[-1])
    report("gamma_factor/intervals", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
