"""Intervals of the standard deviations of groups, and of a level's variance in time, where these are next to none.

Simulated sets with known deviations, fitted with nothing set. Of Gaussian rows the posterior of the deviation is found
on a grid with that of the noise, coefficients integrated, under the priors of the fit: how much of it lies below and
above the interval, of which a twentieth should.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from support.group_posterior import posterior_below

SETS, STEPS = 100, 60
#: Likelihood, levels, rows of each; "series" has steps.
CASES = [("gaussian", 10, 10), ("gaussian", 40, 5), ("logit", 10, 20), ("poisson", 10, 10), ("series", 0, STEPS)]
STDS = (0.05, 0.1, 0.4, 1.0)


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
