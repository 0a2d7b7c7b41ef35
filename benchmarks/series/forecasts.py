"""Log scores of real counts one step ahead and far ahead, beside structural models, static GLMs and naive forecasts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock
from benchmarks.series import _data
from benchmarks.series._methods import Dynamic, Method, Naive, Static, Structural

HORIZONS = (1, 12, 24, 36, 48, 60)
#: Fewest forecasts of which a mean is shown.
FEWEST = 10
METHODS: dict[str, Callable[[], Method]] = {
    "DynamicGLM": Dynamic,
    "DynamicGLM, negative binomial": lambda: Dynamic(likelihood="negative-binomial"),
    "DynamicGLM, damped level": lambda: Dynamic(autoregressive=True),
    "DynamicGLM, damped level, negative binomial": lambda: Dynamic(autoregressive=True, likelihood="negative-binomial"),
    "DynamicGLM, line": lambda: Dynamic(trend=True, trend_variance=0.0),
    "DynamicGLM, damped level around a line": lambda: Dynamic(autoregressive=True, trend=True, trend_variance=0.0),
    "UnobservedComponents of log(1 + y)": Structural,
    "UnobservedComponents of log(1 + y), damped": lambda: Structural("fixed intercept", autoregressive=1),
    "UnobservedComponents of log(1 + y), line": lambda: Structural("lldtrend"),
    "static GLM, Poisson": lambda: Static("poisson"),
    "static GLM, negative binomial": lambda: Static("negative-binomial"),
    "static GLM, negative binomial, line in time": lambda: Static("negative-binomial", line=True),
    "naive negative binomial": Naive,
}
TITLE = "Log scores of counts ahead"
NOTES = [
    "Nats per observation, each forecast's own marginal probability of the count that came. The first 70 % of a series "
    "to learn variances, dispersions and dampings from, which then stay; the rest one after the other (`partial_fit`; "
    "static GLMs are fitted anew to all before). At h steps ahead: the mean over all points that have so many before "
    f"them after the first 70 %, where they are {FEWEST} or more.",
    "VanKilled: season of 12 that does not move; law: with the law as column, which comes in the last fifth (in the "
    "first 70 % the column is 0). asthma: Sunday, Monday and a yearly wave. coal: disasters per calendar year. driver "
    "deaths: log population as offset, season of 12. Naive: a multiple of the count a season ago (VanKilled, driver "
    "deaths 12, asthma 7, else 1).",
    "line: a slope that does not move beside the level that does.",
    "CPU seconds: of the first fit, and of all updates and forecasts of one row.",
]


def scored(method: Method, series: _data.Series) -> dict[str, Any]:
    """Mean log score by steps ahead, and seconds."""
    n, first = len(series), series.first
    scores: dict[int, list[float]] = {h: [] for h in HORIZONS}
    fit, rest = Clock(), Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fit:
            method.fit(series)
        with rest:
            for t in range(first, n):
                found = method.ahead(t, min(n - t, max(HORIZONS)))
                for h in HORIZONS:
                    if h <= len(found):
                        scores[h].append(float(found[h - 1]))
    row: dict[str, Any] = {
        f"{h} ahead": float(np.mean(values)) if len(values) >= FEWEST else None for h, values in scores.items()
    }
    return row | {"fit, CPU s": fit.cpu, "online, CPU s": rest.cpu}


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for name, load in _data.COUNTS.items():
        if quick and name not in ("discoveries", "coal"):
            continue
        for method, make in METHODS.items():
            rows.append({"series": name, "method": method, **scored(make(), load())})
            progress(rows[-1])
    report("series/forecasts", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
