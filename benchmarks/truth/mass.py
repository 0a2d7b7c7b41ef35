"""How much of a long NUTS run's posterior 90 % intervals hold, of small sets whose hyperparameters are hardly known.

The runs (results/truth/mass_reference_quantiles.json, by `truth.mass_reference`) are of the same model, all scales
sampled: a mass of 0.90 is right. Coefficients by ``summary(effects="joint")``, which is the model's own posterior.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np

from benchmarks._lib.tables import RESULTS, arguments, progress, report
from benchmarks.truth._mass import CASES, GRID

KINDS = {"std(group, intercept)": "std between levels", "std(residual)": "noise", "scale": "noise"}

#: Rows that are called what they are.
ALONE = ("intercept", "df", "dispersion")


def masses(name: str, run: dict[str, Any]) -> dict[str, list[float]]:
    """Kind of row to the mass of the run inside its 90 % interval."""
    estimator, X, y = CASES[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = estimator.fit(X, y).summary(effects="joint")
    found: dict[str, list[float]] = {}
    for row, values in run.items():
        ends = np.interp(table.loc[row, ["lower", "upper"]].to_numpy(float), values, GRID, left=0.0, right=1.0)
        kind = KINDS.get(row, row if row in ALONE else "coefficients")
        found.setdefault(kind, []).append(float(ends[1] - ends[0]))
    return found


def main(quick: bool = False) -> None:
    runs = json.loads((RESULTS / "truth/mass_reference_quantiles.json").read_text())
    rows = []
    for name in list(CASES)[: 1 if quick else None]:
        for kind, held in masses(name, runs[name]).items():
            rows.append({"set": name, "intervals of": kind, "mass, mean": float(np.mean(held)), "lowest": min(held)})
            progress(rows[-1])
    notes = [
        "The share of the posterior of a long NUTS run, hyperparameters sampled, that lies in 90 % intervals: of "
        '`summary(effects="joint")`, the posterior of the same model, with nothing set but likelihood and groups.'
    ]
    report("truth/mass", "Mass of a long run inside 90 % intervals", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
