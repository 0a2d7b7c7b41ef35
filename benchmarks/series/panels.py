"""Panels of short series whose variances differ: each by itself, one set for all, and a population of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock

SETS, SERIES, NEW, AHEAD = 12, 40, 10, 12
LIKELIHOODS = ("gaussian", "poisson")
TITLE = "Panels of series with variances of their own"
NOTES = [
    f"{SETS} panels of {SERIES} series of 30 to 60 points and {AHEAD} held-out ones: levels that walk, first values "
    "with a standard deviation of 1 (Poisson 0.5) between series, step variances log-normal about 0.05 (Gaussian) or "
    "0.01 (Poisson, means about 8), with a standard deviation of 1 in the log, noise variances about 1 with 0.7.",
    "Log density: mean over held-out points of each given those before it, and of the twelfth given the fit, nats; "
    "difference: from the population, with the standard error over panels. Coverage: of 90 % intervals of y 1 and 12 "
    f"steps ahead. Not fitted: {NEW} more series of each panel, forecast without a point of their own.",
]


def panel(likelihood: str, seed: int) -> pd.DataFrame:
    """Rows of all series of a panel, in time; `ahead`: which are held out."""
    rng, counts, parts = np.random.default_rng([seed, 404]), likelihood == "poisson", []
    for k in range(SERIES + NEW):
        n = int(rng.integers(30, 61))
        step, noise = rng.lognormal(np.log(0.01 if counts else 0.05), 1.0), rng.lognormal(0.0, 0.7)
        f = 2.0 + rng.standard_normal() * (0.5 if counts else 1.0)
        f = f + np.cumsum(np.sqrt(step) * rng.standard_normal(n + AHEAD))
        y = rng.poisson(np.exp(f)).astype(float) if counts else f + np.sqrt(noise) * rng.standard_normal(n + AHEAD)
        days = pd.date_range(end="2024-06-30", periods=n + AHEAD)
        parts.append(pd.DataFrame({"series": k, "y": y, "ahead": np.arange(n + AHEAD) >= n}, days))
    return pd.concat(parts)


def scores(model: Any, later: pd.DataFrame) -> dict[str, float]:
    """Log densities and coverage of held-out points."""
    X, last = later[["series"]], np.arange(len(later)) % AHEAD == AHEAD - 1
    found = model.forecast(AHEAD, X)
    held: Array = ((found["lower"].to_numpy() <= later["y"]) & (later["y"] <= found["upper"].to_numpy())).to_numpy()
    far = model.log_predictive_density(X, later["y"].where(last))
    return {
        "log density, 1": float(np.mean(model.log_predictive_density(X, later["y"]))),
        "log density, 12": float(np.nanmean(far)),
        "coverage, 1": held[::AHEAD].mean(),
        "coverage, 12": held[last].mean(),
    }


def main(quick: bool = False) -> None:
    from sksvi import DynamicGLM

    rows: list[dict[str, Any]] = []
    for likelihood in LIKELIHOODS:
        found: dict[str, list[Any]] = {}
        clocks = {share: Clock() for share in (False, True, "partial")}
        for seed in range(1 if quick else SETS):
            table = panel(likelihood, seed)
            fitted, later = table[~table["ahead"] & (table["series"] < SERIES)], table[table["ahead"]]
            for share, clock in clocks.items():
                own = {"likelihood": likelihood, "level": "walk", "groups": "series", "share_variances": share}
                with clock:
                    model = DynamicGLM(**own).fit(fitted[["series"]], fitted["y"])
                name = f"share_variances={share!r}"
                found.setdefault(name, []).append(scores(model, later[later["series"] < SERIES]))
            found.setdefault("not fitted", []).append(scores(model, later[later["series"] >= SERIES]))
        best = pd.DataFrame(found["share_variances='partial'"])
        for (name, each), clock in zip(found.items(), [*clocks.values(), None], strict=True):
            here = pd.DataFrame(each)
            row: dict[str, Any] = {"likelihood": likelihood, "variances": name, **here.mean()}
            for steps in (1, 12):
                off = here[f"log density, {steps}"] - best[f"log density, {steps}"]
                row[f"difference, {steps}"] = off.mean()
                row[f"error, {steps}"] = off.std() / np.sqrt(len(off))
            rows.append(row | {"CPU s": None if clock is None else clock.cpu / len(each)})
            progress(rows[-1])
    report("series/panels", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
