"""Hourly demand a week ahead: profiles of the hours of a week beside waves of statsmodels and what came a week ago."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock

DAY, WEEK = 24, 168
#: Points that are learned from, series of each length; statsmodels is fitted to the short ones.
LENGTHS = {8 * WEEK: 4, 20_000: 1}
METHODS: dict[str, dict[str, Any]] = {
    "two profiles": {"seasonal": {DAY: "full", WEEK: 40}},
    "hours of a week": {"seasonal": {WEEK: "full"}},
    "two profiles, walk": {"seasonal": {DAY: "full", WEEK: 40}, "level": "walk"},
}
TITLE = "Hourly demand, a week ahead"
NOTES = [
    "A load of hours by kind of day, a level that returns (0.97 an hour, innovations of 0.012) and noise of 0.003; "
    "means over series of the mean absolute error, of the share of hours in the 90 % interval and of its width.",
    "UnobservedComponents: a constant, AR(1), eight harmonics of a day and of a week. Naive: the week before.",
]


def demand(n: int, seed: int) -> tuple[Array, Array]:
    """Load of n hours, and its profile without level and noise."""
    rng = np.random.default_rng([seed, 44])
    hour, workday = np.arange(n) % DAY, np.arange(n) // DAY % 7 < 5
    bump = lambda at, width: np.exp(-np.square((hour - at) / width))  # noqa: E731
    work = 0.55 + 0.12 * bump(8.5, 2.0) + 0.15 * bump(18.5, 2.5) - 0.15 * bump(3.5, 3.0)
    rest = 0.5 + 0.08 * bump(12.0, 4.0) + 0.1 * bump(19.0, 2.5) - 0.12 * bump(4.5, 3.0)
    profile, level, step = np.where(workday, work, rest), np.zeros(n), 0.012 * rng.standard_normal(n)
    for t in range(1, n):
        level[t] = 0.97 * level[t - 1] + step[t]
    return profile + level + 0.003 * rng.standard_normal(n), profile


def ours(y: Array, **parameters: Any) -> tuple[Array, Array, Array]:
    """Mean and ends of the 90 % interval of a week ahead."""
    from sksvi import DynamicGLM

    found = DynamicGLM(likelihood="gaussian", **parameters).fit(None, y).forecast(WEEK)
    return tuple(found[name].to_numpy() for name in ("mean", "lower", "upper"))


def theirs(y: Array) -> tuple[Array, Array, Array]:
    """Mean and ends of the interval of statsmodels."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    seasons = [{"period": DAY, "harmonics": 8}, {"period": WEEK, "harmonics": 8}]
    still = {"freq_seasonal": seasons, "stochastic_freq_seasonal": [False, False]}
    model = UnobservedComponents(y, level="fixed intercept", autoregressive=1, **still)
    ends = model.fit(disp=0).get_forecast(WEEK)
    lower, upper = np.asarray(ends.conf_int(alpha=0.1)).T
    return np.asarray(ends.predicted_mean), lower, upper


def measured(name: str, method: Any, n: int, sets: int) -> dict[str, Any]:
    """Means over series of errors, intervals and CPU seconds."""
    found, clock = [], Clock()
    for seed in range(sets):
        y, _ = demand(n + WEEK, seed)
        with warnings.catch_warnings(), clock:
            warnings.simplefilter("ignore")
            mean, lower, upper = method(y[:n])
        ahead = y[n:]
        found.append([np.abs(mean - ahead).mean(), np.mean((lower < ahead) & (ahead < upper)), np.mean(upper - lower)])
    error, held, width = np.mean(found, axis=0)
    row = {"hours": n, "method": name, "series": sets, "mean absolute error": error}
    return row | {"in 90 %": held, "width": width, "CPU s": clock.cpu / sets}


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for n, sets in LENGTHS.items():
        if quick and n > 8 * WEEK:
            continue
        methods: dict[str, Any] = {name: lambda y, own=own: ours(y, **own) for name, own in METHODS.items()}
        methods["naive"] = lambda y: (y[-WEEK:], np.full(WEEK, np.nan), np.full(WEEK, np.nan))
        if n < 20_000:
            methods["UnobservedComponents"] = theirs
        for name, method in methods.items():
            rows.append(measured(name, method, n, 1 if quick else sets))
            progress(rows[-1])
    report("series/hours", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
