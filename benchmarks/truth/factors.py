"""What 90 % intervals of factorizations cover, with what corrects them and without, on data whose truth is known.

f of left-out cells, expected counts, loadings, missing entries. Truths are of no prior of the library's. A point is a
data set: standard errors are over independent ones. BetaProcessFA has draws of rows and globals at any rate.

    SKSVI_CELLS="GammaFactorModel;BetaProcessFA" python -m benchmarks truth.factors

runs the settings of estimators again whose names begin so; the rows of others stay as they are stored.
"""

from __future__ import annotations

import json
import time
import warnings
import zlib
from typing import Any

import numpy as np

from benchmarks._lib.cells import AGAIN
from benchmarks._lib.tables import RESULTS, arguments, progress, report
from benchmarks.factorization._data import archive
from benchmarks.truth._factors import Setting, settings
from sksvi import GeneralizedPMF

#: Sets of a quick run, of every so manyth setting.
QUICK_SETS, QUICK_EVERY = 2, 6


def measured(setting: Setting, sets: int, seed: int = 0) -> dict[str, Any]:
    """By uncertainty: lists of what was covered, of error over spread, and of CPU seconds of fits and answers."""
    out: dict[str, Any] = {}
    names = ("variational", "corrected") if setting.corrected else ("corrected",)
    for number in range(sets):
        data = setting.data(np.random.default_rng([seed, zlib.crc32(setting.name.encode()), number]))
        for uncertainty in names:
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ask = setting.fit(data, uncertainty)
                fitted = time.process_time()
                answers = list(ask())
            own = out.setdefault(uncertainty, {"fit": [], "answer": [], "covered": {}, "ratio": {}})
            own["fit"].append(fitted - start)
            own["answer"].append(time.process_time() - fitted)
            for name, asked in answers:
                own["covered"].setdefault(name, []).append(asked.covered)
                own["ratio"].setdefault(name, []).append(asked.ratio)
    return out


def rows_of(setting: Setting, found: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for every quantity."""
    rows = []
    plain, corrected = found.get("variational"), found["corrected"]
    for name, hits in corrected["covered"].items():
        row = {"estimator": setting.estimator, "setting": setting.name, "90 % intervals of": name, "sets": len(hits)}
        for label, own in (("variational", plain), ("corrected", corrected)):
            covered = None if own is None else own["covered"][name]
            row[label] = None if covered is None else round(float(np.mean(covered)), 3)
            row[f"{label}, error"] = None if covered is None else round(standard_error(covered), 3)
            row[f"{label}, error / spread"] = None if own is None else round(float(np.mean(own["ratio"][name])), 2)
        rows.append(row)
    return rows


def standard_error(values: list[float]) -> float:
    """Of the mean of independent values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def costs(setting: Setting, found: dict[str, Any]) -> dict[str, Any]:
    """Medians of CPU milliseconds, and how many times those without correction they are."""
    row: dict[str, Any] = {"estimator": setting.estimator, "setting": setting.name}
    for part in ("fit", "answer"):
        times = [1e3 * float(np.median(found[name][part])) for name in ("variational", "corrected")]
        row |= {f"{part}, variational": round(times[0], 1), f"{part}, corrected": round(times[1], 1)}
        row[f"{part}, times"] = round(times[1] / times[0], 1)
    return row


def tables(chosen: list[Setting], sets: int | None = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Coverage and costs; a first set of each setting is not counted, as loops may have to be compiled."""
    rows, cost = [], []
    for setting in chosen:
        if AGAIN and sets is None and not setting.estimator.startswith(AGAIN):
            rows, cost = rows + stored("factors", setting), cost + stored("factors_cost", setting)
            continue
        measured(setting, 1, seed=1)
        found = measured(setting, sets or setting.sets)
        rows += rows_of(setting, found)
        if setting.corrected:
            cost.append(costs(setting, found))
        progress({**rows[-1], **(cost[-1] if setting.corrected else {})})
    return rows, cost


def stored(name: str, setting: Setting) -> list[dict[str, Any]]:
    """Rows of a setting in a table of an earlier run."""
    rows: list[dict[str, Any]] = json.loads((RESULTS / f"truth/{name}.json").read_text())["rows"]
    return [row for row in rows if (row["estimator"], row["setting"]) == (setting.estimator, setting.name)]


#: Users of MovieLens that are fitted, and share of their ratings that is held out.
USERS, HELD_OUT = 1500, 0.1


def real(n_users: int) -> list[dict[str, Any]]:
    """Ratings of some users of MovieLens 1M: held-out ones inside 90 % intervals, log density, CPU seconds."""
    split = archive("movielens_1m")
    rng = np.random.default_rng(0)
    chosen = rng.permutation(np.unique(split["user"]))[:n_users]
    own = np.isin(split["user"], chosen)
    pairs, y = np.column_stack([split["user"], split["item"]])[own], split["rating"][own].astype(float)
    test = rng.random(len(y)) < HELD_OUT
    rows = []
    for uncertainty in ("variational", "corrected"):
        model = GeneralizedPMF(20, uncertainty=uncertainty, on_unseen="ignore", random_state=0)
        start = time.process_time()
        model.fit(pairs[~test], y[~test])
        fitted = time.process_time()
        low, high = model.predict_interval(pairs[test]).T
        row = {"uncertainty": uncertainty, "ratings": int(np.sum(~test)), "fit, CPU s": round(fitted - start, 1)}
        row["answers, CPU s"] = round(time.process_time() - fitted, 2)
        row["90 % intervals hold"] = round(float(np.mean((low <= y[test]) & (y[test] <= high))), 4)
        density = model.log_predictive_density(pairs[test], y[test])
        row |= {"log density": round(float(np.mean(density)), 4), "error": round(standard_error(density), 4)}
        rows.append(row)
        progress(rows[-1])
    return rows


def main(quick: bool = False) -> None:
    chosen = settings()
    rows, cost = tables(chosen[::QUICK_EVERY] if quick else chosen, QUICK_SETS if quick else None)
    notes = [
        "Expected counts by a gamma distribution of their mean and standard deviation, as predictions take them; "
        "loadings by `summary`, covariances that factors explain by draws of `posterior_`; others by mean and standard "
        'deviation. Variational: `uncertainty="variational"`. Error / spread: root mean square error over root mean '
        "variance."
    ]
    report("truth/factors", "What 90 % intervals of factorizations cover", rows, notes, quick=quick)
    report("truth/factors_cost", "CPU milliseconds of fits and of their answers", cost, quick=quick)
    if quick or not AGAIN or "GeneralizedPMF".startswith(AGAIN):
        ratings = real(60 if quick else USERS)
        report("truth/factors_real", "Held-out ratings of MovieLens 1M, 20 factors", ratings, quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
