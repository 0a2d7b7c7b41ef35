"""Intervals of the standard deviations of groups, and of a level's variance in time, where these are next to none.

Simulated sets with known deviations, fitted with nothing set. Of Gaussian rows the posterior of the deviation is found
on a grid with that of the noise, coefficients integrated, under the priors of the fit: how much of it lies below and
above the interval, of which a twentieth should.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report

SETS, STEPS = 100, 60
#: Likelihood, levels, rows of each; "series" has steps.
CASES = [("gaussian", 10, 10), ("gaussian", 40, 5), ("logit", 10, 20), ("poisson", 10, 10), ("series", 0, STEPS)]
STDS = (0.05, 0.1, 0.4, 1.0)


def posterior_below(ends: Array, x: Array, y: Array, levels: int) -> Array:
    """Posterior probability that the deviation of levels with equally many Gaussian rows each is below some ends."""
    n, unit = len(y), np.std(y)
    columns = np.column_stack([np.ones(n), x, y])
    means = np.repeat(columns.reshape(levels, -1, 3).mean(axis=1), n // levels, axis=0)
    log_std = np.linspace(np.log(1e-4 * unit), np.log(20.0 * unit), 500)
    log_noise = np.log(unit) + np.linspace(-1.2, 0.8, 120)
    noise = np.exp(2.0 * log_noise)
    level = noise + n / levels * np.exp(2.0 * log_std[:, None])
    sums = means.T @ means / level[..., None, None]
    sums = sums + (columns - means).T @ (columns - means) / noise[:, None, None]
    A, b = sums[..., :2, :2] + 1e-4 * np.eye(2), sums[..., :2, 2]
    left = sums[..., 2, 2] - np.einsum("...i,...i", b, np.linalg.solve(A, b[..., None])[..., 0])
    log = -0.5 * (levels * np.log(level) + (n - levels) * np.log(noise) + np.linalg.slogdet(A)[1] + left)
    log += (log_std - 2.0 * np.log1p(np.exp(2.0 * log_std) / (2.5 * unit) ** 2 / 3.0))[:, None]
    log += log_noise - np.log1p(noise / unit**2)
    share = np.cumsum(np.exp(log - log.max()).sum(axis=1))
    return np.asarray(np.interp(np.log(ends), log_std, share / share[-1]))


def judged(seed: int, kind: str, levels: int, rows: int, std: float) -> list[float]:
    """Whether the interval holds the deviation, its ends, and of Gaussian rows the posterior below and above it."""
    import pandas as pd

    from sksvi import DynamicGLM, GMEClassifier, GMERegressor

    rng = np.random.default_rng(seed)
    if kind == "series":
        y = np.cumsum(rng.normal(0.0, std, rows)) + rng.standard_normal(rows)
        table = DynamicGLM(likelihood="gaussian", level="walk").fit(None, y).summary()
        ends = np.sqrt(table.loc["level_variance", ["lower", "upper"]].to_numpy(float))
        return [float(ends[0] <= std <= ends[1]), *ends, np.nan, np.nan]
    x, group = rng.standard_normal(levels * rows), np.repeat(np.arange(levels), rows)
    f = 0.5 * x + rng.normal(0.0, std, levels)[group]
    X = pd.DataFrame({"x": x, "g": group.astype(str)})
    model: Any = GMEClassifier(groups="g") if kind == "logit" else GMERegressor(likelihood=kind, groups="g")
    drawn = {
        "gaussian": lambda: f + rng.standard_normal(len(x)),
        "poisson": lambda: rng.poisson(np.exp(f)),
        "logit": lambda: (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-f))).astype(int),
    }
    y = drawn[kind]()
    ends = model.fit(X, y).summary().loc["std(g, intercept)", ["lower", "upper"]].to_numpy(float)
    below = posterior_below(ends, x, y, levels) if kind == "gaussian" else np.full(2, np.nan)
    return [float(ends[0] <= std <= ends[1]), *ends, below[0], 1.0 - below[1]]


def main(quick: bool = False) -> None:
    lines = []
    for kind, levels, rows in CASES:
        for std in STDS[:: 3 if quick else 1]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of counts that vary more than their likelihood lets them
                found = np.array([judged(seed, kind, levels, rows, std) for seed in range(4 if quick else SETS)])
            middle, mean = np.median(found, axis=0), found.mean(axis=0)
            lines.append(
                {
                    "data": kind,
                    "rows": f"{levels} x {rows}" if levels else f"{rows} steps",
                    "true deviation": std,
                    "held": f"{mean[0]:.2f}",
                    "lower": middle[1],
                    "upper": middle[2],
                    "posterior below": "" if np.isnan(mean[3]) else f"{mean[3]:.3f}",
                    "posterior above": "" if np.isnan(mean[4]) else f"{mean[4]:.3f}",
                }
            )
            progress(lines[-1])
    notes = [f"{SETS} sets each; ends are medians; intervals are of 90 %."]
    report("mixed/near_none", "Deviations next to none", lines, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
