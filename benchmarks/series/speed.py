"""Seconds of a sweep, of long fits, of learning and of points that come later."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock, median

TITLE = "Seconds of time series"
NOTES = [
    "CPU seconds of one thread, the median of runs, compilation left out. Sweep: seconds of a fit with known variances "
    "over its sweeps and its points (checks, start and all else included). Learned: variance, and dispersion where "
    "there is one. Online: `partial_fit` in chunks of so many points after 1,000, per point; one by one: `observe` of "
    "`online()`, 2,000 points.",
]
#: Name -> likelihood, other parameters.
SWEEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "Poisson, level": ("poisson", {}),
    "Bernoulli, level": ("logit", {}),
    "negative binomial, level": ("negative-binomial", {}),
    "Gaussian, level": ("gaussian", {}),
    "Poisson, level and 12 seasons": ("poisson", {"seasonal": 12, "seasonal_variance": 0.0001}),
}


def drawn(likelihood: str, n: int) -> Array:
    """Observations around a level that stays within a few units of 1."""
    rng = np.random.default_rng(n)
    steps = 0.1 * rng.standard_normal(n)
    f = np.empty(n)
    f[0] = 1.0
    for t in range(1, n):
        f[t] = 1.0 + 0.999 * (f[t - 1] - 1.0) + steps[t]
    if likelihood == "logit":
        return (rng.random(n) < 1.0 / (1.0 + np.exp(-f))).astype(float)
    if likelihood == "gaussian":
        return f + rng.standard_normal(n)
    mean = np.exp(f) * (rng.gamma(5.0, 0.2, n) if likelihood == "negative-binomial" else 1.0)
    return rng.poisson(mean).astype(float)


def fitted(repeats: int, y: Array, **parameters: Any) -> tuple[float, Any]:
    """Median of the CPU seconds of a fit, and the last."""
    from sksvi import DynamicGLM

    seconds = []
    for _ in range(repeats):
        with Clock() as clock:
            model = DynamicGLM(n_jobs=1, **parameters).fit(None, y)
        seconds.append(clock.cpu)
    return median(seconds), model


def online(repeats: int, likelihood: str, chunk: int) -> float:
    """Seconds per point of `partial_fit`."""
    from sksvi import DynamicGLM
    from sksvi.likelihoods import NegativeBinomial

    total = chunk * (200 if chunk == 1 else 1)
    y, found = drawn(likelihood, 1000 + total), []
    law = NegativeBinomial(dispersion=0.2) if likelihood == "negative-binomial" else likelihood
    for _ in range(repeats):
        model = DynamicGLM(likelihood=law, level_variance=0.01, n_jobs=1).fit(None, y[:1000])
        with Clock() as clock:
            for start in range(1000, 1000 + total, chunk):
                model.partial_fit(None, y[start : start + chunk])
        found.append(clock.cpu / total)
    return median(found)


def one_by_one(repeats: int, likelihood: str) -> float:
    """Seconds per point of a filter that takes them one by one."""
    from sksvi import DynamicGLM
    from sksvi.likelihoods import NegativeBinomial

    y, found = drawn(likelihood, 3000), []
    law = NegativeBinomial(dispersion=0.2) if likelihood == "negative-binomial" else likelihood
    model = DynamicGLM(likelihood=law, level_variance=0.01, n_jobs=1).fit(None, y[:1000])
    later = y[1000:].tolist()
    for _ in range(repeats):
        stream = model.online()
        with Clock() as clock:
            for value in later:
                stream.observe(value)
        found.append(clock.cpu / len(later))
    return median(found)


def many(repeats: int, n_series: int, share: bool) -> float:
    """Median of the CPU seconds of a fit to so many series of 120 points."""
    import pandas as pd

    from sksvi import DynamicGLM

    days = pd.date_range("2024-01-01", periods=120, freq="D")
    index = pd.MultiIndex.from_product([range(n_series), days], names=["series", "day"])
    y = pd.Series(drawn("poisson", 120 * n_series), index)
    seconds = []
    for _ in range(repeats):
        with Clock() as clock:
            DynamicGLM(groups="series", share_variances=share, n_jobs=1).fit(None, y)
        seconds.append(clock.cpu)
    return median(seconds)


def main(quick: bool = False) -> None:
    from sksvi.likelihoods import Gaussian, NegativeBinomial

    rows: list[dict[str, Any]] = []
    repeats, long = (1, 10_000) if quick else (5, 100_000)

    def note(what: str, value: float, unit: str, sweeps: int | None = None) -> None:
        rows.append({"what": what, "value": value, "unit": unit, "sweeps": sweeps})
        progress(rows[-1])

    laws: dict[str, Any] = {"negative-binomial": NegativeBinomial(dispersion=0.2), "gaussian": Gaussian(variance=1.0)}
    warnings.simplefilter("ignore")
    for name, (likelihood, own) in SWEEPS.items():
        y = drawn(likelihood, long)
        own = {"likelihood": laws.get(likelihood, likelihood), "level_variance": 0.01, **own}
        fitted(1, y[:100], **own)
        seconds, model = fitted(repeats, y, **own)
        note(f"sweep: {name}", 1e6 * seconds / (model.n_iter_ * long), "µs per point", model.n_iter_)
    for name, (likelihood, own) in SWEEPS.items():
        free = {key: value for key, value in own.items() if key != "seasonal_variance"}
        seconds, model = fitted(max(1, repeats - 2), drawn(likelihood, long), likelihood=likelihood, **free)
        note(f"learned, {long:,} points: {name}", seconds, "s", model.n_iter_)
    seconds, model = fitted(max(1, repeats - 2), drawn("poisson", 10 * long), level_variance=0.01)
    note(f"{10 * long:,} points: Poisson, level", seconds, "s", model.n_iter_)
    for likelihood in ("poisson", "negative-binomial", "logit"):
        for chunk in (1, 100, 10_000):
            note(f"online: {likelihood}, chunks of {chunk:,}", 1e6 * online(repeats, likelihood, chunk), "µs per point")
        note(f"online: {likelihood}, one by one", 1e6 * one_by_one(repeats, likelihood), "µs per point")
    n_series = 30 if quick else 300
    for share in (False, True):
        what = "shared variances" if share else "variances of their own"
        note(f"{n_series} series of 120 points, {what}", many(max(1, repeats - 2), n_series, share), "s")
    report("series/speed", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
