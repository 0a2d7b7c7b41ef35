"""Measured whole numbers under likelihoods of counts: do intervals hold, and is the user told?"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.series import _data

LENGTH, STEPS = 100, (1, 5, 10)
#: What series are drawn from: those of the Nile (Durbin and Koopman 2012).
LEVEL, NOISE, FIRST = 1469.1, 15098.5, 900.0
#: Means and variances of steps of the logarithm, of counts that a warning would be wrong for.
COUNTS = [(mean, variance) for mean in (0.5, 3.0, 30.0, 1000.0) for variance in (1e-4, 0.01, 0.1)]
TITLE = f"Whole numbers that were measured, {LENGTH} points"
NOTES = [
    f"Drawn as a level that walks at random (variances {LEVEL:g} and {NOISE:g}, from {FIRST:g}), rounded. Shares of "
    "series whose observation 1, 5 and 10 steps ahead lies in the 90 % interval, and the median of its width. Told: "
    "share of the series whose fit warns. Nile: whether that of the Nile itself does.",
    "Counts: series of Poisson counts of a rate whose logarithm walks at random, of means 0.5 to 1,000.",
]


def measured(seed: int) -> Array:
    """Points, those ahead included."""
    rng, n = np.random.default_rng([seed, 21]), LENGTH + max(STEPS)
    level = FIRST + np.cumsum(np.sqrt(LEVEL) * rng.standard_normal(n))
    return np.maximum(np.round(level + np.sqrt(NOISE) * rng.standard_normal(n)), 0.0)


def counted(mean: float, variance: float, seed: int) -> Array:
    """Counts of a rate that walks at random."""
    rng = np.random.default_rng([seed, 22])
    level = np.log(mean) + np.cumsum(np.sqrt(variance) * rng.standard_normal(LENGTH))
    return rng.poisson(np.exp(level)).astype(float)


def fitted(likelihood: str, y: Array) -> tuple[Any, bool]:
    """Its forecasts, and whether the fit said that y varies more than it lets it."""
    from sksvi import DynamicGLM

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ahead = DynamicGLM(likelihood=likelihood, n_jobs=1).fit(None, y).forecast(max(STEPS), coverage=0.9)
    return ahead, any("y varies more" in str(one.message) for one in found)


def main(quick: bool = False) -> None:
    n, rows = 20 if quick else 300, list[dict[str, Any]]()
    for likelihood in ("poisson", "negative-binomial", "gaussian"):
        held, widths, told = [], [], []
        for seed in range(n):
            y = measured(seed)
            ahead, said = fitted(likelihood, y[:LENGTH])
            at = np.array(STEPS) - 1
            low, high = ahead["lower"].to_numpy()[at], ahead["upper"].to_numpy()[at]
            held.append((low <= y[LENGTH + at]) & (y[LENGTH + at] <= high))
            widths.append(high - low)
            told.append(said)
        row: dict[str, Any] = {"series": "measured", "likelihood": likelihood, "n": n}
        row |= {f"90 %, {k}": float(value) for k, value in zip(STEPS, np.mean(held, axis=0), strict=True)}
        row |= {f"width, {k}": float(value) for k, value in zip(STEPS, np.median(widths, axis=0), strict=True)}
        nile = fitted(likelihood, _data.table("nile")["value"].to_numpy(float))[1]
        rows.append({**row, "told": float(np.mean(told)), "Nile": nile})
        progress(rows[-1])
    series = [counted(mean, variance, seed) for mean, variance in COUNTS for seed in range(n)]
    series = [y for y in series if y.any()]
    told = [fitted("poisson", y)[1] for y in series]
    rows.append({**dict.fromkeys(rows[0]), "series": "counts", "likelihood": "poisson", "n": len(series)})
    rows[-1]["told"] = float(np.mean(told))
    progress(rows[-1])
    report("series/mistaken", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
