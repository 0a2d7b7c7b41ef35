"""Mixed models beside long NUTS runs (results/mixed/reference.json): ours and statsmodels', same data and fixed priors.

Distances are in posterior standard deviations of the run, ratios of standard deviations to those of the run.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import RESULTS, arguments, progress, report
from benchmarks.mixed._peers import statsmodels_vb, timed
from benchmarks.mixed.reference import DATA, GROUPS, INTERCEPT_PRECISION, PRIOR_PRECISION

LIKELIHOODS = {"epil": "poisson", "salamander": "logit"}
Found = dict[str, tuple[Array, Array]]


def ours(name: str, covariance: str) -> tuple[Found, float]:
    """Mean and sd of the weights, of each group's sd and of its effects; seconds."""
    from sksvi.mixed_effects import GMEClassifier, GMERegressor

    frame, y = DATA[name]()
    settings: dict[str, Any] = {"prior_precision": PRIOR_PRECISION, "intercept_precision": INTERCEPT_PRECISION}
    settings |= {"groups": GROUPS[name], "noise": False, "covariance": covariance, "tol": 1e-8, "max_iter": 1000}
    maker = GMEClassifier() if name == "salamander" else GMERegressor(likelihood=LIKELIHOODS[name])
    model, (seconds, _) = timed(lambda: maker.set_params(**settings).fit(frame, y))
    std = np.append(np.ravel(model.coef_std_), model.posterior_["weights"].std[-1])
    found = {"weights": (np.append(np.ravel(model.coef_), model.intercept_), std)}
    for group in GROUPS[name]:
        table, effects = model.group_std_.loc[[(group, "intercept")]], model.group_effects_.loc[group]
        found[f"{group}: sd"] = (table["mean"].to_numpy(), table["std"].to_numpy())
        found[f"{group}: effects"] = (effects["mean"].to_numpy(), effects["std"].to_numpy())
    return found, seconds


def theirs(name: str) -> tuple[Found, float]:
    """The same of statsmodels; the sd of a group is log-normal there."""
    frame, y = DATA[name]()
    groups = GROUPS[name]
    frame = frame.sort_values(groups)  # their levels come in the order of the rows
    y = y[frame.index]
    sd = PRIOR_PRECISION**-0.5
    _, (seconds, _), fit = statsmodels_vb(LIKELIHOODS[name], frame, y, frame[:1], y[:1], groups, sd)
    found = {"weights": (fit.fe_mean, fit.fe_sd)}
    start = 0
    for i, group in enumerate(groups):
        levels = frame[group].unique()
        part = slice(start, start + len(levels))
        order = np.argsort(levels)
        square = fit.vcp_sd[[i]] ** 2
        mean = np.exp(fit.vcp_mean[[i]] + 0.5 * square)
        found[f"{group}: sd"] = (mean, mean * np.sqrt(np.expm1(square)))
        found[f"{group}: effects"] = (fit.vc_mean[part][order], fit.vc_sd[part][order])
        start += len(levels)
    return found, seconds


def row_of(name: str, method: str, found: Found, seconds: float, runs: dict[str, Any]) -> dict[str, Any]:
    """Largest distances over coordinates, ratios of sds by their extremes."""

    def distance(part: str) -> Array:
        mean, sd = np.array(runs[part]["mean"]), np.array(runs[part]["sd"])
        return (found[part][0] - mean) / sd

    def ratio(part: str) -> Array:
        return found[part][1] / np.array(runs[part]["sd"])

    groups = GROUPS[name]
    return {
        "data": name,
        "method": method,
        "fixed effects: distance": float(np.abs(distance("weights")).max()),
        "smallest ratio of sds": float(ratio("weights").min()),
        "largest": float(ratio("weights").max()),
        "group sd: distance": float(max(np.abs(distance(f"{group}: sd")).max() for group in groups)),
        "ratio of its sds": float(min(ratio(f"{group}: sd").min() for group in groups)),
        "group effects: distance": float(max(np.abs(distance(f"{group}: effects")).max() for group in groups)),
        "mean ratio of sds": float(np.mean([ratio(f"{group}: effects").mean() for group in groups])),
        "seconds": seconds,
    }


def main(quick: bool = False) -> None:
    reference = json.loads((RESULTS / "mixed/reference.json").read_text())
    rows = []
    for name in LIKELIHOODS:
        fits = {"ours": ours(name, "full"), "ours, diagonal": ours(name, "diag"), "statsmodels": theirs(name)}
        for method, (found, seconds) in fits.items():
            rows.append(row_of(name, method, found, seconds, reference[name]))
            progress(rows[-1])
    notes = [
        "statsmodels: fit_vb with the run's prior of the fixed effects (intercept too: sd 3.2 instead of 10); its "
        "prior of a group's sd is log-normal (sd 1 on the log scale), the run's and ours half-Student-t (3, 2.5)."
    ]
    report("mixed/nuts", "Mixed models against NUTS", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
