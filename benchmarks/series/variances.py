"""Variances that a fit learns beside published values and statsmodels, and seconds of both fits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock, median
from benchmarks.series import _data

TITLE = "Learned variances beside published values and statsmodels"
NOTES = [
    "Published: maximum likelihood of the Nile (Durbin and Koopman 2012); of the van drivers by importance sampling. "
    "UnobservedComponents: its own defaults. First states of ours have a variance of 100 times that of y.",
    "CPU seconds of one fit on one thread, the median of runs in turn, where each finds the caches as the other left "
    "them; ratio: theirs to ours. In a row: the same ratio where fits of one kind follow each other.",
]
#: Series -> quantity -> published value.
PUBLISHED: dict[str, dict[str, float]] = {
    "Nile": {"level variance": 1469.1, "noise variance": 15098.5},
    "VanKilled": {"level sd": 0.0245, "law": -0.279},
}


def nile() -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A level that walks at random."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    from sksvi import DynamicGLM

    y = _data.table("nile")["value"].to_numpy(float)
    return (
        lambda: DynamicGLM(likelihood="gaussian").fit(None, y),
        lambda: UnobservedComponents(y, "llevel").fit(disp=0),
    )


def passengers() -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Level, slope and a season of 12, all of which move."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    from sksvi import DynamicGLM

    y = np.log(_data.table("airpassengers")["value"].to_numpy(float))
    return (
        lambda: DynamicGLM(likelihood="gaussian", trend=True, seasonal=12).fit(None, y),
        lambda: UnobservedComponents(y, "lltrend", seasonal=12).fit(disp=0),
    )


def vans() -> tuple[Callable[[], Any], None]:
    """A level that walks at random, a season that does not, and the law, under a Poisson likelihood."""
    from sksvi import DynamicGLM

    series = _data.belted()
    return lambda: DynamicGLM(**series.dynamic).fit(series.X, series.y), None


SERIES = {"Nile": nile, "log air passengers": passengers, "VanKilled": vans}
#: statsmodels' names -> those of the table.
THEIRS = {
    "sigma2.level": "level variance",
    "sigma2.trend": "trend variance",
    "sigma2.seasonal": "seasonal variance",
    "sigma2.irregular": "noise variance",
}


def learned(model: Any) -> dict[str, float]:
    """What a fit of ours learned."""
    if model.n_features_in_:
        return {"level sd": model.level_variance_**0.5, "law": float(model.coef_[0])}
    found = {name: getattr(model, f"{name.replace(' ', '_')}_", None) for name in THEIRS.values()}
    found["noise variance"] = model.noise_
    return {name: float(value) for name, value in found.items() if value is not None}


def in_turn(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """CPU seconds of each job, in turn, after one round that is not measured."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for repeat in range(1 + repeats):
        for name, job in jobs.items():
            with Clock() as clock:
                job()
            if repeat:
                seconds[name].append(clock.cpu)
    return seconds


def in_a_row(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median of the CPU seconds of each job, one job after the other."""
    return {name: median(in_turn({name: job}, repeats)[name]) for name, job in jobs.items()}


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for name, make in SERIES.items():
        ours, theirs = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jobs = {"ours": ours} if theirs is None else {"ours": ours, "theirs": theirs}
            seconds, row_of = in_turn(jobs, 1 if quick else 25), in_a_row(jobs, 1 if quick else 25)
            results = {} if theirs is None else theirs()
        params = {} if theirs is None else dict(zip(results.model.param_names, results.params, strict=True))
        values = learned(ours())
        for quantity, value in values.items():
            other = next((float(params[key]) for key, own in THEIRS.items() if own == quantity and key in params), None)
            row = {"series": name, "quantity": quantity, "ours": value}
            row |= {"published": PUBLISHED.get(name, {}).get(quantity), "UnobservedComponents": other}
            if quantity == next(iter(values)):
                row |= {"ours, CPU s": median(seconds["ours"])}
                if theirs is not None:
                    pairs = zip(seconds["theirs"], seconds["ours"], strict=True)
                    row |= {"its fit, CPU s": median(seconds["theirs"]), "ratio": median([a / b for a, b in pairs])}
                    row |= {"ratio in a row": row_of["theirs"] / row_of["ours"]}
            rows.append({column: row.get(column) for column in COLUMNS})
            progress(rows[-1])
    report("series/variances", TITLE, rows, NOTES, quick)


COLUMNS = [
    "series", "quantity", "ours", "published", "UnobservedComponents", "ours, CPU s", "its fit, CPU s", "ratio",
    "ratio in a row",
]  # fmt: skip


if __name__ == "__main__":
    main(arguments(__doc__))
