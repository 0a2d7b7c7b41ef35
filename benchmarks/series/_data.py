"""Real series, each with the columns and the season that its models share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder

#: Share of a series that variances are learned from.
FIRST = 0.7


@dataclass(frozen=True)
class Series:
    """Counts in time, columns that are known ahead, a log exposure, and what the structural models are given.

    lag: the season of a naive forecast. dynamic: parameters of ours. structural: the same for statsmodels.
    """

    y: Array
    X: Array | None = None
    offset: Array | None = None
    lag: int = 1
    dynamic: dict[str, Any] = field(default_factory=dict)
    structural: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def first(self) -> int:
        """How many points variances are learned from."""
        return int(FIRST * len(self))

    def columns(self, rows: slice) -> Array | None:
        """Columns of some points."""
        return None if self.X is None else self.X[rows]

    def shift(self, rows: slice) -> Array | None:
        """Log exposure of some points."""
        return None if self.offset is None else self.offset[rows]


def table(name: str) -> Any:
    """`series/<name>.csv`."""
    import pandas as pd

    return pd.read_csv(data_folder() / "series" / f"{name}.csv")


#: A season of twelve that does not move, as ours and statsmodels take it.
MONTHS: dict[str, Any] = {
    "lag": 12,
    "dynamic": {"seasonal": 12, "seasonal_variance": 0.0},
    "structural": {"seasonal": 12, "stochastic_seasonal": False},
}


def vans() -> Series:
    """Van drivers killed per month in Great Britain 1969-1984."""
    return Series(table("seatbelts")["VanKilled"].to_numpy(float), **MONTHS)


def belted() -> Series:
    """The same with the law of February 1983 that made them wear belts."""
    frame = table("seatbelts")
    return Series(frame["VanKilled"].to_numpy(float), frame[["law"]].to_numpy(float), **MONTHS)


def asthma() -> Series:
    """Presentations per day 1990-1993: Sundays, Mondays and a yearly wave (Davis, Dunsmuir and Streett 2003)."""
    frame = table("asthma")
    X = frame[["Sunday", "Monday", "CosAnnual", "SinAnnual"]].to_numpy(float)
    return Series(frame["Count"].to_numpy(float), X, lag=7)


def discoveries() -> Series:
    """Great inventions per year 1860-1959."""
    return Series(table("discoveries")["value"].to_numpy(float))


def coal() -> Series:
    """Days per calendar year 1851-1962 with a disaster in British coal mines."""
    dates = table("coal").iloc[:, -1].to_numpy(float)
    return Series(np.histogram(dates, np.arange(1851, 1964))[0].astype(float))


def drivers() -> Series:
    """Drivers who died at night per month in Utah 1980-1986, by population."""
    frame = table("driverdeaths")
    return Series(frame["Deaths"].to_numpy(float), offset=np.log(frame["Population"].to_numpy(float)), **MONTHS)


COUNTS = {
    "VanKilled": vans,
    "VanKilled, law": belted,
    "asthma": asthma,
    "discoveries": discoveries,
    "coal": coal,
    "driver deaths, Utah": drivers,
}
