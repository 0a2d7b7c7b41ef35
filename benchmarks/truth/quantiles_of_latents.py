"""90 % intervals of quantiles by mixed models, processes and series, with AsymmetricLaplace and nothing else set.

The true quantile at each row of the fit is known: f, plus that of normal noise whose spread is one or, where it grows,
goes from 0.5 to 1.5. Mixed: 30 levels of 10 rows, or of 5, with standard deviation 1 and a column. Process: 2 sin(x) at
150 places of (0, 10). Series: 150 steps of a walk, each with standard deviation 0.2, learned or given. Beside
them the same fits at the scale that is likeliest under the working likelihood, the mean loss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from benchmarks._lib.tables import arguments, progress, report
from sksvi import DynamicGLM, GMERegressor, SparseGPRegressor
from sksvi.likelihoods import AsymmetricLaplace

QUANTILES, SETS = (0.5, 0.9), 20
SPREADS = {"one": 0.0, "grows": 0.5}


class Case(NamedTuple):
    """An estimator without its likelihood, rows, the centre of y there, and what its spread grows with, in (-1, 1)."""

    estimator: Any
    X: Any
    centre: np.ndarray
    along: np.ndarray


def mixed(rng: np.random.Generator, rows: int = 10) -> Case:
    levels = np.repeat(np.arange(30), rows)
    X = pd.DataFrame({"x": rng.uniform(-1.0, 1.0, len(levels)), "g": [f"level {k}" for k in levels]})
    return Case(GMERegressor(groups="g"), X, X["x"].to_numpy() + rng.standard_normal(30)[levels], X["x"].to_numpy())


def few_rows(rng: np.random.Generator) -> Case:
    return mixed(rng, 5)


def process(rng: np.random.Generator) -> Case:
    x = rng.uniform(0.0, 10.0, 150)
    return Case(SparseGPRegressor(random_state=0), x[:, None], 2.0 * np.sin(x), x / 5.0 - 1.0)


def series(rng: np.random.Generator) -> Case:
    walk = np.cumsum(rng.normal(0.0, 0.2, 150))
    return Case(DynamicGLM(), None, walk, np.linspace(-1.0, 1.0, 150))


def series_given(rng: np.random.Generator) -> Case:
    return series(rng)._replace(estimator=DynamicGLM(level_variance=0.04))


CASES = {"mixed, 10 rows a level": mixed, "mixed, 5 rows a level": few_rows, "process": process, "series": series}
CASES["series, variance of steps given"] = series_given


def run(case: str, spread: str, quantile: float, sets: int, seed: int = 0) -> dict[str, Any]:
    """The row of a case: shares of true quantiles that intervals hold, and how far off they are."""
    held, likeliest, squares, variances = [], [], [], []
    for number in range(sets):
        rng = np.random.default_rng([seed, number])
        estimator, X, centre, along = CASES[case](rng)
        deviation = 1.0 + SPREADS[spread] * along
        y, truth = centre + deviation * rng.standard_normal(len(centre)), centre + deviation * ndtri(quantile)
        model = estimator.set_params(likelihood=AsymmetricLaplace(quantile)).fit(X, y)
        held.append(share(model, X, truth))
        mean, std = model.predict(X, return_std=True)
        squares.append(np.mean(np.square(mean - truth)))
        variances.append(np.mean(np.square(std)))
        scale = float(np.mean(model.likelihood_.loss(y, mean)))
        other = estimator.set_params(likelihood=AsymmetricLaplace(quantile, scale=scale)).fit(X, y)
        likeliest.append(share(other, X, truth))
    return {
        "fit": case,
        "spread": spread,
        "quantile": quantile,
        "sets": sets,
        "covers": np.mean(held),
        "se": np.std(held) / np.sqrt(sets),
        "error": np.sqrt(np.mean(squares)),
        "its std": np.sqrt(np.mean(variances)),
        "at the likeliest scale": np.mean(likeliest),
    }


def share(model: Any, X: Any, truth: np.ndarray) -> float:
    """Share of rows whose true quantile is inside of its interval."""
    low, high = model.predict_interval(X).T
    return float(np.mean((low <= truth) & (truth <= high)))


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for case in CASES:
        for spread in SPREADS:
            for quantile in QUANTILES:
                rows.append(run(case, spread, quantile, 2 if quick else SETS))
                progress(rows[-1])
    notes = ["Shares of the rows of a fit whose true quantile is in its 90 % interval; root mean squares of errors."]
    report("truth/quantiles_of_latents", "Intervals of quantiles of latents", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
