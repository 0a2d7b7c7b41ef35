"""Lip cancer in Scotland by the effects of `Neighbours` and of districts, beside NUTS and mgcv; simulated maps.

Relative risks, coefficients, densities of rows that are held out and left out beside those of stored reference fits
(needs their folder, as `truth.responses` does); 90 % intervals of log relative risks on boards drawn from the model of
Besag, York and Mollié, by share of its variance that the map has.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth.responses import Frame, read, references
from sksvi import GMERegressor
from sksvi.inspection import kfold, loo
from sksvi.preprocessing import Neighbours

SIDE, SETS, Z, SD = 8, 100, 1.644854, 0.5
#: Shares of the map in the variance of log relative risks.
SHARES = (0.1, 0.5, 0.9)
#: Coefficients of ``10 aff`` and the intercept of the judge, whose priors are N(0, 1).
NAMES = {"intercept": "beta0", "x": "beta1"}


def model(adjacency: Any, areas: Any, given: dict[str, float]) -> Pipeline:
    """A fit of structured and unstructured effects of areas, both with a learned scale, and x."""
    columns = make_column_transformer(
        (Neighbours(adjacency, areas), ["area"]), ("passthrough", ["area", *given]), verbose_feature_names_out=False
    )
    prior = {"area_*": "auto", **given}
    effects = GMERegressor(likelihood="poisson", groups="area", on_unseen="ignore", noise=False, prior_precision=prior)
    return make_pipeline(columns.set_output(transform="pandas"), effects)


def scales(fit: GMERegressor) -> dict[str, float]:
    """Posterior means of the standard deviation of both effects together, and of the map's share of the variance."""
    nodes = fit.hyperparameter_posterior_
    whole = np.square(nodes["scale(area_*)"]) + np.square(nodes["std(area, intercept)"])
    return {
        "sigma": float(nodes["weight"] @ np.sqrt(whole)),
        "rho": float(nodes["weight"] @ (np.square(nodes["scale(area_*)"]) / whole)),
    }


def scotland() -> list[dict[str, Any]]:
    """Our fit and those of the judges."""
    data, edges = read("scotland"), read("scotland_edges")
    areas = data["area"].to_numpy()
    touching = Frame(0.0, areas, areas)
    for a, b in edges.to_numpy():
        touching.loc[a, b] = touching.loc[b, a] = 1.0
    X = Frame({"area": areas, "x": 10.0 * data["aff"]})
    y, expected, train = data["cases"], data["expected"], (data["heldout"] == 0).to_numpy()
    start = time.process_time()
    whole = model(touching, None, {"x": 1.0}).fit(X, y, gmeregressor__exposure=expected)
    seconds = time.process_time() - start
    part = model(touching, None, {"x": 1.0}).fit(X[train], y[train], gmeregressor__exposure=expected[train])
    fit, design = whole[-1], whole[:-1].transform(X)
    table = fit.summary(effects="joint")
    density = part[-1].log_predictive_density(part[:-1].transform(X[~train]), y[~train], exposure=expected[~train])
    mean, variance = fit.predict_latent(design, offset=np.zeros(len(y)))
    risks = np.exp(mean + 0.5 * variance)
    found = {"fit": "Neighbours and groups", "CPU s": seconds, **scales(fit)}
    found |= {name: table.loc[name, "mean"] for name in NAMES}
    found |= {f"sd of {name}": table.loc[name, "std"] for name in NAMES}
    found |= {"held-out density": float(np.mean(density))}
    found |= {"elpd": float(loo(fit, design, y, exposure=expected).elpd_loo)}
    found |= {"elpd, 56 fits": float(kfold(fit, design, y, exposure=expected, cv=len(y)).elpd_loo)}
    judge = next(one for one in references() if one["set"] == "scotland" and one["model"].startswith("BYM2"))
    smooth = next(one for one in references() if one["set"] == "scotland" and one["model"].startswith("Poisson ICAR"))
    theirs = {"fit": f"BYM2, {judge['peer']}", "CPU s": judge["cpu_s"]}
    theirs |= {name: judge["est"][name] for name in ("sigma", "rho")}
    theirs |= {name: judge["est"][other] for name, other in NAMES.items()}
    theirs |= {f"sd of {name}": judge["posterior_sd"][other] for name, other in NAMES.items()}
    theirs |= {"held-out density": judge["heldout_mean_logdens"], "elpd": judge["loo"]["elpd_loo"]}
    first, spread = judge["relative_risk_mean_first5"], judge["relative_risk_sd_first5"]
    deviation = risks * np.sqrt(np.expm1(variance))
    found["risks, most off in sd"] = float(np.max(np.abs(risks[:5] - first) / spread))
    found["sd of risks / judge's, least"] = float(np.min(deviation[:5] / spread))
    found["most"] = float(np.max(deviation[:5] / spread))
    third = {"fit": f"mrf of rank 30, {smooth['peer']}", "CPU s": smooth["cpu_s"]}
    third |= {"intercept": smooth["est"]["(Intercept)"], "x": smooth["est"]["aff"] / 10.0}
    third |= {"sd of intercept": smooth["se"]["(Intercept)"], "sd of x": smooth["se"]["aff"] / 10.0}
    third |= {"held-out density": smooth["heldout_mean_logdens"]}
    return [found, theirs, third]


def board() -> tuple[Frame, Array]:
    """Weights of a board and the scaled covariance of its effects, by dense algebra."""
    line = np.eye(SIDE, k=1) + np.eye(SIDE, k=-1)
    weights = np.kron(line, np.eye(SIDE)) + np.kron(np.eye(SIDE), line)
    covariance = np.linalg.pinv(np.diag(weights.sum(0)) - weights)
    areas = [f"area {k}" for k in range(SIDE**2)]
    return Frame(weights, areas, areas), covariance / np.exp(np.mean(np.log(np.diag(covariance))))


def simulated(share: float, sets: int, seed: int = 0) -> dict[str, Any]:
    """Cover of 90 % intervals of log relative risks, a count for each area, means over sets."""
    weights, covariance = board()
    values, vectors = np.linalg.eigh(share * covariance + (1.0 - share) * np.eye(SIDE**2))
    found = []
    for number in range(sets):
        rng = np.random.default_rng([seed, int(100 * share), number])
        f = SD * vectors @ (np.sqrt(values) * rng.standard_normal(len(values)))
        expected = rng.uniform(2.0, 20.0, len(f))
        X = Frame({"area": weights.index})
        start = time.process_time()
        fit = model(weights, None, {}).fit(X, rng.poisson(expected * np.exp(f)), gmeregressor__exposure=expected)
        seconds = time.process_time() - start
        mean, variance = fit[-1].predict_latent(fit[:-1].transform(X), offset=np.zeros(len(f)))
        covers = np.mean(np.abs(mean - f) <= Z * np.sqrt(variance))
        rmse = np.sqrt(np.mean(np.square(mean - f)))
        found.append({"covers": covers, "rmse": rmse, "CPU s": seconds, **scales(fit[-1])})
    table = pd.DataFrame(found)
    return {
        "share of the map": share, "sets": sets, "covers": table["covers"].mean(),
        "se": table["covers"].std(ddof=1) / np.sqrt(sets), "rmse": table["rmse"].mean(),
        "sigma, truth": SD, "sigma": table["sigma"].mean(), "rho": table["rho"].mean(),
        "CPU s": table["CPU s"].median(),
    }  # fmt: skip


def main(quick: bool = False) -> None:
    notes = [
        "Means and standard deviations of intercept, coefficient of 10 aff and risks. Our elpd is `loo`, beside "
        "that of 56 fits; the judge's is by importance sampling with k-hat up to 1.05, where it is not to be trusted."
    ]
    report("truth/areas", "Lip cancer in Scotland, 56 districts", scotland(), notes, quick)
    rows: list[dict[str, Any]] = []
    for share in SHARES:
        rows.append(simulated(share, 4 if quick else SETS))
        progress(rows[-1])
    notes = [
        f"Counts of {SIDE**2} areas with 2 to 20 expected cases; 90 % intervals of log relative risks, means over sets "
        "with their standard error; posterior means of the standard deviation sigma and of the map's share rho."
    ]
    report("truth/areas_simulated", "Intervals of risks on simulated maps", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
