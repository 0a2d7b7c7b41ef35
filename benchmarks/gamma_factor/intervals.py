"""Intervals of loadings, each given all others, beside those that know how loadings trade off."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtri

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from sksvi import GammaFactorModel
from sksvi.models.gamma_factor.density import log_density

NOISE, COVERAGE, STEP = 1.0, 0.9, 1e-4
TITLE = "Intervals of loadings, and of all loadings at once"
NOTES = [
    "Six columns, loadings and rows drawn from the model (noise variance 1 and prior Gamma(1, 1) known, no mean), "
    "factors matched: share of loadings in their 90 % intervals. q: those of `summary`. Laplace, each alone and all at "
    "once: Gaussians in log Λ about q's mean, with the curvature of one loading given the others, and of all. se: "
    "standard error over data sets. Sets where the curvature of all is not positive definite are counted and left out."
]


def slope(logs: Array, model: GammaFactorModel) -> Array:
    """Gradient of log p(Y, Λ) in log Λ, of (K D,) numbers."""
    loadings = np.exp(logs).reshape(model.components_.shape)
    slope = log_density(loadings, np.full(loadings.shape[1], NOISE), model._scatter).in_loadings
    return ((slope - 1.0) * loadings + 1.0).ravel()  # the prior's shape and rate are 1, and dΛ = Λ d log Λ


def covers(rng: np.random.Generator, n: int, k: int) -> tuple[float, float, float] | None:
    """Shares of loadings in their intervals: of q, of Laplace each alone, and of all at once."""
    truth = rng.gamma(1.0, 1.0, (k, 6))
    X = rng.standard_normal((n, k)) @ truth + np.sqrt(NOISE) * rng.standard_normal((n, 6))
    model = GammaFactorModel(k, noise_variance=NOISE, prior_shape=1.0, fit_mean=False, random_state=0, n_jobs=1).fit(X)
    order = linear_sum_assignment(np.square(model.components_[:, None] - truth).sum(-1).T)[1]
    at, table = np.log(model.components_).ravel(), model.summary(COVERAGE)
    steps = STEP * np.eye(len(at))
    curvature = -np.stack([slope(at + s, model) - slope(at - s, model) for s in steps]) / (2.0 * STEP)
    curvature = 0.5 * (curvature + curvature.T)
    if np.linalg.eigvalsh(curvature)[0] <= 0:
        return None
    both = [table[name].to_numpy() for name in ("lower", "upper")]
    reach = ndtri(0.5 + 0.5 * COVERAGE)
    ends = [both]
    for std in (1.0 / np.sqrt(np.diag(curvature)), np.sqrt(np.diag(np.linalg.inv(curvature)))):
        ends.append([np.exp(at - reach * std), np.exp(at + reach * std)])
    found = []
    for low, high in ends:
        low, high = (end.reshape(k, 6)[order] for end in (low, high))
        found.append(float(np.mean((low <= truth) & (truth <= high))))
    return found[0], found[1], found[2]


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for k in (1, 3):
        for n in (30, 100, 1000):
            rng, sets = np.random.default_rng([n, k]), 5 if quick else 100
            found = [covers(rng, n, k) for _ in range(sets)]
            kept = np.array([one for one in found if one is not None])
            own = dict(zip(("q", "Laplace, each alone", "Laplace, all at once"), kept.mean(0), strict=True))
            se = float(kept[:, 0].std(ddof=1) / np.sqrt(len(kept)))
            rows.append(
                {"factors": k, "rows": n, **own, "se of q": se, "sets": len(kept), "left out": sets - len(kept)}
            )
            progress(rows[-1])
    report("gamma_factor/intervals", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
