"""Leave-future-out from one fit of a series beside fits to the points before each."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth.loo import seconds
from sksvi import DynamicGLM
from sksvi.inspection import leave_future_out

#: Points of a series.
POINTS = 60


def cases() -> dict[str, tuple[DynamicGLM, pd.Series]]:
    """Name to a model and a simulated series."""
    rng = np.random.default_rng(1)
    level, season = np.cumsum(0.3 * rng.normal(size=POINTS)), np.tile([0.0, 1.0, 2.0, 0.5], POINTS // 4)
    counts = rng.poisson(np.exp(1.0 + 0.5 * level))
    return {
        "measured, walk": (
            DynamicGLM(likelihood="gaussian", level="walk"),
            pd.Series(level + 0.5 * rng.normal(size=POINTS)),
        ),
        "counts, walk": (DynamicGLM(likelihood="poisson", level="walk"), pd.Series(counts)),
        "counts, level and likelihood chosen": (DynamicGLM(), pd.Series(counts)),
        "counts, season of 4": (
            DynamicGLM(likelihood="poisson", level="walk", seasonal=4),
            pd.Series(rng.poisson(np.exp(1.0 + 0.3 * level + 0.5 * season))),
        ),
        "overdispersed counts, no trend": (
            DynamicGLM(likelihood="negative-binomial", level="walk"),
            pd.Series(rng.negative_binomial(2, 0.3, POINTS)),
        ),
    }


def measured(model: DynamicGLM, y: pd.Series, step: int = 1) -> dict[str, Any]:
    """The estimate, and what fits to the points before each (every `step`-th) say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_fit, fitted = seconds(lambda: model.fit(None, y), 2)
        found = leave_future_out(fitted)
        at, own = found.pointwise.index[::step], found.pointwise["elpd"].to_numpy()[::step]
        exact = np.array([model.fit(None, y[:t]).log_predictive_density(y=y[t : t + 1])[0] for t in at])
    se = float(np.sqrt(len(exact)) * exact.std(ddof=1))
    return {
        "points": len(exact),
        "elpd": float(own.sum()),
        "elpd, refits": float(exact.sum()),
        "se": se,
        "off, in se": float((own - exact).sum()) / se,
        "of the first ten": float((own - exact)[:10].sum()),
        "worst point": float(np.abs(own - exact).max()),
        "fit, ms": 1e3 * of_fit,
    }


def main(quick: bool = False) -> None:
    rows = []
    for name, (model, y) in list(cases().items())[: 1 if quick else None]:
        rows.append({"series": name, **measured(model, y, 10 if quick else 1)})
        progress(rows[-1])
    notes = [
        f"Simulated series of {POINTS} points, one each: log densities of every point from the states' number plus ten "
        "on, given those before it, by `leave_future_out` and by fits to these alone (their variances too); the "
        "difference in standard errors, and how much of it, nats, is of the first ten of these points."
    ]
    report("truth/loo_series", "Leave-future-out beside refits", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
