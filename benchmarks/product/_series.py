"""Calibration of `DynamicGLM`: level and season as the prior of the fit has them, counts, and what comes after them."""

from __future__ import annotations

import numpy as np

from benchmarks._lib.measures import fitted, inside

#: Points of a series, and steps that are forecast.
LENGTH, AHEAD = 120, 12
VARIANCES = {"level": 0.01, "seasonal": 0.001}


def series(rng: np.random.Generator, learned: bool) -> dict[str, float]:
    """Level, season of four and f at every point, and counts ahead; variances known or learned."""
    from sksvi import DynamicGLM

    n = LENGTH + AHEAD
    level = 1.0 + rng.standard_normal() + np.cumsum(np.sqrt(VARIANCES["level"]) * rng.standard_normal(n))
    season = list(0.5 * rng.standard_normal(3))
    while len(season) < n:
        season.append(-sum(season[-3:]) + np.sqrt(VARIANCES["seasonal"]) * rng.standard_normal())
    f = level + np.array(season)
    y = rng.poisson(np.exp(f)).astype(float)
    known = {} if learned else {f"{name}_variance": value for name, value in VARIANCES.items()}
    model = fitted(DynamicGLM(seasonal=4, **known), None, y[:LENGTH])
    parts, (mean, variance) = model.components_, model.predict_latent()
    truth = {"level": level[:LENGTH], "seasonal": np.array(season)[:LENGTH]}
    found = {name: inside(truth[name] - parts[name, "mean"], parts[name, "std"]) for name in truth}
    table, came = model.forecast(AHEAD), y[LENGTH:]
    return {
        **found,
        "f": inside(f[:LENGTH] - mean, np.sqrt(variance)),
        f"y, {AHEAD} steps": float(np.mean((table["lower"] <= came) & (came <= table["upper"]))),
    }


STUDIES = {
    "DynamicGLM: poisson, level and season, variances known": lambda rng: series(rng, False),
    "DynamicGLM: poisson, level and season, variances learned": lambda rng: series(rng, True),
}
