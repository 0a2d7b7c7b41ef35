"""Additive models of published sets by formulas, all at their defaults, beside stored fits of mgcv by REML.

f at the points where mgcv's fit is stored: the most it is from mgcv's, in standard errors of that, and its standard
deviation over these, which count smoothing parameters as known, and over the `unconditional` ones. Of two latents
log σ too, at our posterior and at the mode of both curves under our scales. Log density and root mean square error of
held-out rows by a fit to the others, with the standard error of the density's mean. Needs the folder of the sets and
reference fits, as `truth.responses` does, and of abalone the folder of data sets.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from benchmarks._lib import Array
from benchmarks._lib.loaders import load_csv
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth.responses import Frame, folder, read, references
from sksvi import from_formula


@dataclass(frozen=True)
class Row:
    """A model of a set by its formula, and what its stored fit is called."""

    data: str
    judge: str
    formula: str
    likelihood: str = "gaussian"
    settings: dict[str, Any] = field(default_factory=dict)


#: What is known where the judge's f is.
AT_GRID = ("f off, se", "sd / se", "sd / unconditional se", "log sd off, se", "its mode off, se")
SEVEN = " + ".join(
    f"s({name})" for name in ("Length", "Diameter", "Height", "Whole_weight", "Shucked_weight", "Viscera_weight")
)
ROWS = [
    Row("mcycle", "one smooth", "accel ~ s(times)"),
    Row("mcycle", "Gaussian, smooth mean and smooth log sd", "accel ~ s(times)", settings={"scale_features": "all"}),
    Row("trees", "two smooths, Gamma log", "Volume ~ s(Height) + s(Girth)", "gamma"),
    Row("airquality", "te() of two, Gamma log", "Ozone ~ te(Wind, Temp) + s(`Solar.R`)", "gamma"),
    Row("gamsimA", "four smooths", "y ~ s(x0) + s(x1) + s(x2) + s(x3)"),
    Row("CO2", "smooth by factor + random effect",
        "uptake ~ Type * Treatment + s(conc, by=Type, k=5) + (1 | Plant)", settings={"noise": False}),
    Row("abalone", "seven smooths + factor, Gaussian", f"Rings ~ Sex + {SEVEN} + s(Shell_weight)"),
    Row("abalone", "seven smooths + factor, Gamma log", f"Rings ~ Sex + {SEVEN} + s(Shell_weight)", "gamma"),
    Row("abalone", "te() + two smooths, Gamma log",
        "Rings ~ Sex + te(Shell_weight, Shucked_weight) + s(Length) + s(Height)", "gamma"),
]  # fmt: skip


def rows_of(name: str) -> Frame:
    """The set with its column ``heldout``."""
    if name != "abalone":
        return read(name)
    X, rings = load_csv("abalone", "Rings")
    out = pd.read_csv(folder() / "abalone_heldout.csv")["row"]
    return X.assign(Rings=rings.astype(float), heldout=np.isin(np.arange(len(X)), out).astype(int))


def grid_of(judge: dict[str, Any]) -> Frame:
    """Rows at which the judge's f is stored."""
    columns = {name: pd.Series(values) for name, values in judge["grid"]["x"].items()}
    numbers = {name: pd.to_numeric(column, errors="coerce") for name, column in columns.items()}
    return Frame({name: columns[name] if numbers[name].isna().any() else numbers[name] for name in columns})


def distances(mean: Array, sd: Array, theirs: Any, error: Any, wider: Any = None) -> dict[str, float]:
    """The most that means are apart in the judge's errors, and extremes of ratios of standard deviations."""
    theirs, error = np.asarray(theirs, float), np.asarray(error, float)
    found = {"f off, se": np.max(np.abs(mean - theirs) / error), "sd / se": np.median(sd / error)}
    return found | ({} if wider is None else {"sd / unconditional se": np.median(sd / np.asarray(wider, float))})


def modes(model: Any, data: Frame, grid: Frame, target: str) -> Array:
    """log σ at the rows of a grid, at the mode of the coefficients of both latents given our scales."""
    one = [np.c_[np.ones(len(X)), model[0].transform(X)] for X in (data, grid)]
    X, y, n = one[0], data[target].to_numpy(), one[0].shape[1]
    nodes = model[-1].hyperparameter_posterior_
    best = nodes.loc[nodes["weight"].idxmax()]
    bends = [best[name] for name in nodes if name.endswith("_s*)")]  # of the mean, of log σ
    precision = np.concatenate([np.r_[0.0, 0.0, np.full(n - 2, scale**-2.0)] for scale in bends])

    def loss(w: Array) -> tuple[float, Array]:
        log_scale = X @ w[n:]
        r = (y - X @ w[:n]) * np.exp(-log_scale)
        slope = np.r_[-X.T @ (r * np.exp(-log_scale)), X.T @ (1.0 - r**2)]
        return float(0.5 * r @ r + log_scale.sum() + 0.5 * precision @ w**2), slope + precision * w

    start = np.zeros(2 * n)
    start[0], start[n] = y.mean(), np.log(y.std())
    found = minimize(loss, start, jac=True, method="BFGS", options={"maxiter": 5000, "gtol": 1e-4})
    return np.asarray(one[1] @ found.x[n:])


def at_grid(row: Row, model: Any, data: Frame, judge: dict[str, Any]) -> dict[str, Any]:
    """Distances at the points of the judge's grid."""
    if "grid" not in judge:
        return {}
    X, grid = grid_of(judge), judge["grid"]
    mean, variance = model.predict_latent(X)
    if mean.ndim == 1:
        return distances(mean, np.sqrt(variance), grid["fit"], grid["se"], grid["se_unconditional"])
    log_scale = np.log(grid["sd"])
    found = distances(mean[:, 0], np.sqrt(variance[:, 0]), grid["mean"], grid["mean_se"])
    away = mean[:, 1] - log_scale, modes(model, data, X, row.formula.split(" ~ ")[0]) - log_scale
    ends = [np.max(np.abs(one) / np.asarray(grid["logb_sd_se"])) for one in away]
    return found | {"log sd off, se": ends[0], "its mode off, se": ends[1]}


def compared(row: Row, judge: dict[str, Any]) -> dict[str, Any]:
    """Distances, held-out rows and time of one model."""
    data, target = rows_of(row.data), row.formula.split(" ~ ")[0]
    out = data["heldout"].to_numpy() == 1
    start = time.process_time()
    model = from_formula(row.formula, data, row.likelihood, **row.settings).fit(data)
    seconds = time.process_time() - start
    second = from_formula(row.formula, data[~out], row.likelihood, **row.settings).fit(data[~out])
    density = second.log_predictive_density(data[out])
    off = second.predict(data[out]) - data.loc[out, target]
    return {
        "set": row.data, "model": row.judge, **dict.fromkeys(AT_GRID), **at_grid(row, model, data, judge),
        "held out": float(density.mean()), "error": float(density.std(ddof=1) / np.sqrt(len(density))),
        "mgcv's": judge["heldout_mean_logdens"], "rmse": float(np.sqrt(np.mean(np.square(off)))),
        "its rmse": judge.get("heldout_rmse", judge.get("rmse_heldout")),
        "CPU s": seconds, "its CPU s": judge["cpu_s"],
    }  # fmt: skip


def main(quick: bool = False) -> None:
    stored, rows = references(), []
    for row in ROWS[:: 4 if quick else 1]:
        judges = (one for one in stored if one["set"] == row.data and one["model"] == row.judge)
        rows.append(compared(row, next(judges)))
        progress(rows[-1])
    notes = [
        "Held-out densities of mgcv average over the uncertainty of its f, but of two latents, where they are plug-in. "
        "Its log σ is the mode given smoothing parameters, which is that of residuals about a curve that follows them; "
        "ours is the posterior mean, which is larger where few rows bear a curve."
    ]
    report("truth/gam", "Additive models of published sets beside mgcv", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
