"""90 % intervals of new rows of ten real sets: ours with nothing set beside MAPIE's conformal ones and a bootstrap.

Needs MAPIE (``pip install sksvi[bench]``); without it the other methods are measured, and the notes say so.
"""

from __future__ import annotations

import time
import warnings
import zlib
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth._interval_methods import OURS, Method, methods, missing
from benchmarks.truth._real_sets import RealSet, sets
from sksvi.metrics import interval_score

NAMES = ("diabetes", "wine alcohol", "engel", "credit cards", "yacht", "Boston housing", "red wine")
NAMES += ("articles", "crabs", "visits to doctors")
#: At most that many rows are fitted (two thirds, where a set has fewer than 600) and held out.
N_FITTED, N_HELD_OUT = 400, 1000
SPLITS = 6
COVERAGE = 0.9


def split(chosen: RealSet, n: int, number: int) -> tuple[Array, Array]:
    """Rows to fit and rows held out."""
    order = np.random.default_rng([zlib.crc32(chosen.name.encode()), number]).permutation(n)
    fitted = min(N_FITTED, 2 * n // 3)
    return order[:fitted], order[fitted : fitted + N_HELD_OUT]


def measured(method: Method, data: tuple[Array, Array], rows: tuple[Array, Array], kind: str, seed: int) -> Any:
    """Share covered, mean width and interval score in standard deviations of y, and CPU seconds of fit and answer."""
    (X, y), (train, test) = data, rows
    began = time.process_time()
    low, high = method(X[train], y[train], X[test], seed).T
    seconds = time.process_time() - began
    if kind == "counts":  # as a user would cut them, who has counts
        low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    low, high = np.minimum(low, high), np.maximum(low, high)  # quantiles of trees may cross
    scale, target = y.std(), y[test]
    return {
        "covered": float(np.mean((low <= target) & (target <= high))),
        "width": float(np.mean(high - low) / scale),
        "score": interval_score(target, low, high, coverage=COVERAGE) / scale,
        "CPU s": seconds,
    }


def rows_of(chosen: RealSet, splits: int) -> list[dict[str, Any]]:
    """A row of each method: means over splits, and how far they spread; score less that of ours, paired."""
    X, y = chosen.load()
    y = np.asarray(y, float)
    rows, ours = [], np.zeros(splits)
    for name, method in methods(chosen.kind, len(split(chosen, len(y), 0)[0])).items():
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in range(splits):
                cut = split(chosen, len(y), number)
                found.append(measured(method, (X, y), cut, chosen.kind, number))
        means, spread = pd.DataFrame(found).mean(), pd.DataFrame(found).std(ddof=1)
        score = np.array([one["score"] for one in found])
        ours = score if name == OURS else ours
        row = {"kind": chosen.kind, "set": chosen.name, "fitted": len(cut[0]), "columns": X.shape[1], "method": name}
        row |= {"covered": round(means["covered"], 3), "sd": round(spread["covered"], 3)}
        row |= {"width": round(means["width"], 3), "score": round(means["score"], 3)}
        row |= {"score - ours": round(float((score - ours).mean()), 3)}
        row |= {"error": round(float((score - ours).std(ddof=1) / np.sqrt(splits)), 3)}
        rows.append({**row, "CPU s": round(means["CPU s"], 3)})
    return rows


def summed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each kind and method: means over sets, and on how many it is better or worse than ours."""
    found = []
    for (kind, method), part in pd.DataFrame(rows).groupby(["kind", "method"], sort=False):
        clear = np.abs(part["score - ours"]) > 2 * part["error"]
        row = {"kind": kind, "method": method, "sets": len(part), "covered": round(float(part["covered"].mean()), 3)}
        row |= {"lowest": float(part["covered"].min()), "width": round(float(part["width"].mean()), 3)}
        row |= {"score": round(float(part["score"].mean()), 3)}
        row |= {"better": int((clear & (part["score - ours"] < 0)).sum())}
        row |= {"worse": int((clear & (part["score - ours"] > 0)).sum())}
        found.append({**row, "CPU s": round(float(part["CPU s"].median()), 3)})
    return found


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    splits = 2 if quick else SPLITS
    notes = [
        f"Means over {splits} random splits, with standard deviations over splits; at most {N_FITTED} rows fitted and "
        f"{N_HELD_OUT} held out. Width and interval score (width plus what is missed, times 20; less is better) are in "
        "standard deviations of y. Error: of the paired difference, over splits, whose rows overlap. Intervals of "
        "counts are cut at zero for all. Conformal quantiles need more rows than the credit cards have. "
        "Of counts ours are negative binomial, and Poisson in the row that says so.",
        *filter(None, [missing()]),
    ]
    found = {one.name: one for one in sets()}
    for name in ("credit cards", "articles") if quick else NAMES:
        try:
            rows += rows_of(found[name], splits)
        except FileNotFoundError as absent:
            notes.append(f"{name} was left out: {absent}")
            continue
        progress(rows[-1])
    title = "90 % intervals of held-out rows of real sets"
    report("truth/intervals", title, rows, notes, quick)
    report(
        "truth/intervals_summary",
        title + ", means over sets",
        summed(rows),
        ["Better, worse: sets whose interval score differs from ours by more than two of its errors.", *notes],
        quick,
    )


if __name__ == "__main__":
    main(arguments(__doc__))
