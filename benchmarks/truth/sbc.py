"""Simulation-based calibration of every estimator that has draws of a proper prior, or of a simulation of its model.

    python -m benchmarks truth.sbc             # all rows; those that are stored already are read
    SKSVI_SBC=1000 python -m benchmarks truth.sbc

Each row is one estimator on small data: parameters from its prior, data from these, a fit at the defaults but for what
the row's name says, and ranks of true values among 99 draws. Ranks of finished rows lie in
``results/truth/sbc_ranks/``, so that a run that was cut off goes on; remove a file to run its row anew.

Linear and mixed models have ``intercept_precision=1.0`` in all rows: under the default, a standard deviation of ten
units, many draws have labels of one class, which have no fit, or counts of millions.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib.tables import RESULTS, arguments, progress, report, store_figure
from benchmarks.truth._sbc_cases import Case, cases
from sksvi.inspection import RankResult, sbc
from sksvi.linear_model import _prior

#: A long run, done anew when it is named.
STORED = True
#: Simulations of a row, and draws of each fit.
SIMULATIONS, DRAWS = int(os.environ.get("SKSVI_SBC", "400")), 99
RANKS = RESULTS / "truth" / "sbc_ranks"
#: Rows whose ranks are drawn.
DRAWN = ("GLM gaussian", "GLM gaussian, units held", "GeneralizedPMF gaussian", "GeneralizedPMF gaussian, variational")


@contextmanager
def units_of_the_prior(held: bool, X: Any) -> Iterator[None]:
    """Context in which fits have the units that parameters were drawn in, whatever their own data say."""
    if not held:
        yield
        return
    fit, first = _prior.LinearPrior.fit, {}

    def same(estimator: Any, likelihood: Any, targets: Any) -> Any:
        if "prior" not in first:  # the first one is that of the simulation
            first["prior"] = fit(estimator, likelihood, targets)
        return first["prior"]

    _prior.LinearPrior.fit = same  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        _prior.LinearPrior.fit = fit  # type: ignore[method-assign]


def ranks(name: str, case: Case, n: int) -> tuple[RankResult, float]:
    """Ranks of a row, and seconds a simulation."""
    start = time.perf_counter()
    with units_of_the_prior(case.held, case.X):
        found = sbc(
            case.estimator, case.simulate, n, X=case.X, n_draws=DRAWS, quantities=case.quantities, random_state=0
        )
    return found, (time.perf_counter() - start) / n


def path(name: str) -> Any:
    """Where the ranks of a row lie."""
    return RANKS / f"{re.sub('[^a-z0-9]+', '_', name.lower())}.csv"


def stored(name: str, case: Case, n: int, quick: bool) -> tuple[RankResult, float]:
    """Ranks of a row, of a stored run if there is one."""
    if not quick and path(name).exists():
        table = pd.read_csv(path(name), comment="#")
        first = path(name).read_text().split("\n", 1)[0]
        failures, seconds = first.removeprefix("#").split(",")
        return RankResult(table, DRAWS, [""] * int(failures)), float(seconds)
    found, seconds = ranks(name, case, n)
    if not quick:
        RANKS.mkdir(parents=True, exist_ok=True)
        text = f"#{len(found.failures)},{seconds:.4f}\n{found.ranks.to_csv(index=False)}"
        path(name).write_text(text)
    return found, seconds


def kind(quantity: str) -> str:
    """What a quantity is one of: entries of a variable count together."""
    return quantity.split("[")[0]


def rows_of(name: str, case: Case, found: RankResult, seconds: float) -> list[dict[str, Any]]:
    """A line per variable of a row."""
    table = found.table
    kinds = np.array([kind(str(quantity)) for quantity in table.index])
    out = []
    for one in dict.fromkeys(kinds):
        part = table[kinds == one]
        worst = part.loc[part["p_value"].idxmin()]
        out.append(
            {
                "row": name,
                "simulations": len(found.ranks),
                "quantity": one,
                "entries": len(part),
                "90 % interval": round(float(part["covered"].mean()), 3),
                "error": round(float(np.sqrt(0.09 / len(found.ranks))), 3),
                "bias": round(float(part["bias"].abs().max()), 1),
                "spread": round(float(part.loc[part["spread"].abs().idxmax(), "spread"]), 1),
                "p": float(f"{max(worst['p_value'], 0.0):.2g}"),
                "verdict": "calibrated" if (part["verdict"] == "calibrated").all() else worst["verdict"],
                "ms a simulation": round(1000 * seconds, 1),
                "without a fit": len(found.failures),
                "note": case.note,
            }
        )
    return out


def summaries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line per row: what its intervals hold, and what is not calibrated."""
    out = []
    for name in dict.fromkeys(row["row"] for row in rows):
        part = [row for row in rows if row["row"] == name]
        shares = [row["90 % interval"] for row in part]
        bad = [f"{row['quantity']}: {row['verdict']}" for row in part if row["verdict"] != "calibrated"]
        out.append(
            {
                "model": name,
                "simulations": part[0]["simulations"],
                "quantities": sum(row["entries"] for row in part),
                "90 % interval, lowest": min(shares),
                "highest": max(shares),
                "not calibrated": "; ".join(bad) or "nothing",
            }
        )
    return out


def picture(results: dict[str, RankResult]) -> None:
    """Distribution functions of ranks of some rows beside their band."""
    import matplotlib.pyplot as plt

    from sksvi.displays import RankDisplay

    names = [name for name in DRAWN if name in results]
    figure, axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.6), squeeze=False, layout="constrained")
    for ax, name in zip(axes[0], names, strict=True):
        RankDisplay.from_result(results[name], ax=ax)
        ax.set_title(name, fontsize=10)
    store_figure("truth/sbc", figure)


def main(quick: bool = False) -> None:
    rows, results = [], {}
    for name, case in list(cases().items())[:: 8 if quick else 1]:
        found, seconds = stored(name, case, 12 if quick else SIMULATIONS, quick)
        results[name] = found
        for row in rows_of(name, case, found, seconds):
            rows.append(row)
            progress(row)
    notes = [
        f"Ranks of true values among {DRAWS} draws. `90 % interval`: share of true values inside the central 90 % of "
        "the draws, mean over entries, `error` the standard error of one. `bias`: largest |mean rank - 1/2|, `spread`: "
        "largest excess of squared distances from the middle, in standard errors (above 0: posterior too narrow). `p`: "
        "smallest p-value of uniform ranks over the entries; verdicts are Holm-corrected over the quantities of a row.",
        "Data of 30 to 300 rows with standard normal columns; priors in units of the data are drawn in a unit of 1. "
        "Fits of `units held`, and of mixed models, have that unit too and the same limits of their scales; the others "
        "find the unit of their own data.",
    ]
    report("truth/sbc", "Simulation-based calibration", rows, notes, quick)
    report("truth/sbc_summary", "Simulation-based calibration, model by model", summaries(rows), notes, quick)
    if not quick:
        picture(results)


if __name__ == "__main__":
    main(arguments(__doc__))
