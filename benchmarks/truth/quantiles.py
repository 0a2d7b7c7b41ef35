"""90 % intervals of coefficients of quantiles, by AsymmetricLaplace with nothing else set.

The spread of y grows with the first column, so that its coefficient differs from quantile to quantile: rows are
normal or Student-t with 3 degrees of freedom about 1 + x1 - x2 / 2, with scale 1 + x1 / 2 and x1 uniform on (-1, 1).
Then Engel's food expenditure under a flat prior, beside stored fits of R's quantreg: this needs their folder, as
`truth.responses` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth.responses import distances, read, references
from sksvi import BayesianGLMRegressor
from sksvi.likelihoods import AsymmetricLaplace

NOISE = {"normal": stats.norm(), "Student-t, 3 df": stats.t(3)}
SIZES, QUANTILES, SETS, Z = (60, 200, 1000), (0.1, 0.5, 0.9), 200, 1.644854


def run(noise: str, quantile: float, n: int, sets: int, seed: int = 0) -> dict[str, Any]:
    """The row of a quantile of rows with some noise: what intervals hold, and those without the correction."""
    shift = float(NOISE[noise].ppf(quantile))
    truth = pd.Series({"x1": 1.0 + 0.5 * shift, "x2": -0.5, "x3": 0.0})
    held, rows = [], []
    for number in range(sets):
        rng = np.random.default_rng([seed, n, number])
        X = pd.DataFrame(rng.standard_normal((n, 3)), columns=list(truth.index))
        X["x1"] = rng.uniform(-1.0, 1.0, n)
        y = 1.0 + X["x1"] - 0.5 * X["x2"] + (1.0 + 0.5 * X["x1"]) * NOISE[noise].rvs(size=n, random_state=rng)
        model = BayesianGLMRegressor(likelihood=AsymmetricLaplace(quantile)).fit(X, y)
        table = model.summary().loc[truth.index]
        held.append((table["lower"] <= truth) & (truth <= table["upper"]))
        working = np.sqrt(np.diag(np.linalg.inv(model.state_.shown["weights"].precision)))[:3]
        rows.append(np.abs(model.coef_ - truth) <= Z * working / model._encoding.columns.scale)
    share = np.mean(held)
    return {
        "noise": noise,
        "quantile": quantile,
        "rows": n,
        "sets": sets,
        "covers": share,
        "se": np.std(np.mean(held, axis=1)) / np.sqrt(sets),
        "without the correction": np.mean(rows),
    }


def engel() -> list[dict[str, Any]]:
    """Our fits beside those of quantreg, with its sandwich standard errors and those of its bootstrap."""
    data, rows = read("engel"), []
    for peer in references():
        if peer["set"] != "engel" or "foodexp ~ income" not in peer["call"] or "se_boot2000" not in peer:
            continue
        quantile = float(peer["call"].split("tau=")[1].rstrip(")"))
        model = BayesianGLMRegressor(likelihood=AsymmetricLaplace(quantile), prior_precision="flat")
        table = model.fit(data[["income"]], data["foodexp"]).summary()
        for errors in ("se", "se_boot2000"):
            found = distances(table, peer["est"], peer[errors], {"intercept": "(Intercept)", "income": "income"})
            rows.append({"quantile": quantile, "errors of": "nid" if errors == "se" else "bootstrap", **found})
    return rows


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for noise in NOISE:
        for quantile in QUANTILES:
            for n in SIZES:
                rows.append(run(noise, quantile, n, 4 if quick else SETS))
                progress(rows[-1])
    notes = ["Shares of the coefficients of three columns whose 90 % interval in `summary()` holds the truth."]
    report("truth/quantiles", "Intervals of quantiles", rows, notes, quick)
    if not quick:
        report("truth/quantiles_engel", "Engel's food expenditure beside quantreg", engel())


if __name__ == "__main__":
    main(arguments(__doc__))
