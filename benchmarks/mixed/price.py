"""The price of an assumption: nats that the mean-field and the simple bound lose to the optimal one at the same q.

Counts with noise per row, under the paper's Rayleigh(5), and groups, each fitted by every bound;
`sksvi.inspection.bound_report` then has the terms of all rows under all three at that q. "like grouseticks": simulated
with the shape of the data set of lme4 (ticks on 403 grouse chicks of 118 broods in 63 places, three years, altitude;
variances 0.29 between chicks, 0.56 between broods, 0.28 between places), which is not among the data here. "epil":
seizures of 59 patients in four periods. "missing": log evidence less the optimal bound at its own fit, by importance
sampling (`check_posterior`).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.mixed._data import Mixed, epil

#: Simulated sets, and the variance of their noise per row.
SETS, NOISE = 10, 0.29
BOUNDS = ("optimal", "mean-field", "simple")
#: Counts of a line of the second table: from the first to below the second.
COUNTS = ((0, 1), (1, 3), (3, 10), (10, 30), (30, np.inf))


def grouse(seed: int) -> Mixed:
    """403 chicks of 118 broods in 63 places, with the effects that lme4 reports for the real ones."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    place_of = np.concatenate([np.arange(63), rng.integers(63, size=55)])
    brood = np.concatenate([np.arange(118), rng.integers(118, size=403 - 118)])
    year, height = rng.integers(3, size=118), rng.normal(462.0, 36.0, 63)
    place = place_of[brood]
    X = pd.DataFrame({"height": (height[place] - 462.0) / 36.0})
    X["year 96"], X["year 97"] = (year[brood] == 1).astype(float), (year[brood] == 2).astype(float)
    X["brood"], X["place"] = brood, place
    f = 0.37 - 0.86 * X["height"] + 1.18 * X["year 96"] - 0.98 * X["year 97"]
    f += np.sqrt(0.56) * rng.standard_normal(118)[brood] + np.sqrt(0.28) * rng.standard_normal(63)[place]
    f += np.sqrt(NOISE) * rng.standard_normal(403)
    return Mixed("like grouseticks", X, rng.poisson(np.exp(f)).astype(float), groups=["brood", "place"])


def fitted_reports(data: Mixed) -> dict[str, tuple[Any, Any]]:
    """Fit and report by bound."""
    from sksvi import GMERegressor
    from sksvi.inspection import bound_report

    found = {}
    for bound in BOUNDS:
        model = GMERegressor(likelihood="poisson", noise=True, noise_prior_scale=5.0, groups=data.groups, bound=bound)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about noise that "simple" cannot see
            model.fit(data.X, data.y)
        found[bound] = model, bound_report(model, data.X, data.y)
    return found


def rows_of(name: str, sets: list[dict[str, tuple[Any, Any]]], missing: list[float]) -> list[dict[str, Any]]:
    """A line per bound that q was fitted by: means over the sets, with the standard deviation between them."""
    rows = []
    for fit_by in BOUNDS:
        tables = [found[fit_by][1].totals["bound"] for found in sets]
        own = {"data": name, "sets": len(sets), "q fitted by": fit_by}
        own["optimal bound"] = float(np.mean([table["optimal"] for table in tables]))
        for other in BOUNDS[1:]:
            lost = [table["optimal"] - table[other] for table in tables]
            own[f"{other} loses"] = float(np.mean(lost))
            own[f"sd of {other}"] = float(np.std(lost, ddof=1)) if len(lost) > 1 else None
        own["E noise variance"] = float(np.mean([found[fit_by][0].noise_variance_ for found in sets]))
        own["missing"] = float(np.mean(missing)) if fit_by == "optimal" else None
        rows.append(own)
        progress(own)
    return rows


def rows_by_count(name: str, data: list[Mixed], sets: list[dict[str, tuple[Any, Any]]]) -> list[dict[str, Any]]:
    """Mean price of a row at the q of the optimal bound, by its count."""
    import pandas as pd

    y = np.concatenate([one.y for one in data])
    terms = pd.concat([found["optimal"][1].rows for found in sets])
    rows = []
    for low, high in COUNTS:
        chosen = (y >= low) & (y < high)
        if not chosen.any():
            continue
        price, loses = terms[chosen], "optimal - {}".format
        label = f"{low}" if high == low + 1 else f"{low} and more" if np.isinf(high) else f"{low} to {high - 1}"
        own = {"data": name, "count": label, "rows": int(chosen.sum()), "optimal term": float(price["optimal"].mean())}
        for other in BOUNDS[1:]:
            own[f"{other} loses"] = float(price[loses(other)].mean())
            own[f"largest, {other}"] = float(price[loses(other)].max())
        rows.append(own)
    return rows


def main(quick: bool = False) -> None:
    from sksvi.inspection import check_posterior

    totals, counts = [], []
    cases = {"like grouseticks": [grouse(seed) for seed in range(2 if quick else SETS)], "epil": [epil()]}
    for name, data in cases.items():
        sets = [fitted_reports(one) for one in data]
        missing = []
        for one, found in zip(data, sets, strict=True):
            check = check_posterior(found["optimal"][0], one.X, one.y, n_draws=100 if quick else 4000)
            missing.append(check.log_evidence - check.lower_bound)
        totals += rows_of(name, sets, missing)
        counts += rows_by_count(name, data, sets)
    notes = [
        "One q in each line, nats in all; E noise variance: of the latent, under that fit. Simulated sets have a "
        f"noise variance of {NOISE} and differ by seed: means, and standard deviations between sets."
    ]
    report("mixed/price", "The price of the mean-field and of the simple bound at one q", totals, notes, quick)
    title = "The price of a row by its count, at the q of the optimal bound"
    report("mixed/price_rows", title, counts, ["Nats per row; largest: of one row."], quick)


if __name__ == "__main__":
    main(arguments(__doc__))
