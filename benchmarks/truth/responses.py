"""Positive, share, zero-inflated and censored responses beside R's glmmTMB, survreg, lm and glm, on published sets.

Coefficients under `prior_precision="flat"` with their posterior standard deviations, beside stored estimates and
standard errors of maximum likelihood; log density of the held-out fifth, of a second fit to the others. Needs the
folder of the sets and reference fits, SKSVI_PEERS or ``../shared/cases/peers`` beside the repository.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib import HERE
from benchmarks._lib.tables import arguments, report
from sksvi import BayesianGLMRegressor, GMERegressor

Frame = pd.DataFrame


def folder() -> Path:
    """Folder of the sets."""
    found = Path(os.environ.get("SKSVI_PEERS", HERE.parent.parent / "shared" / "cases" / "peers"))
    if not found.is_dir():
        raise FileNotFoundError(f"no reference fits at {found}; set SKSVI_PEERS to the folder that has reference.jsonl")
    return found


def read(name: str) -> Frame:
    """A set as its reference fits had it."""
    return pd.read_csv(folder() / f"{name}.csv.xz", keep_default_na=False, na_values=["NA", ""])


def references() -> list[dict[str, Any]]:
    """The stored fits."""
    return [json.loads(line) for line in (folder() / "reference.jsonl").read_text().splitlines()]


def columns(data: Frame, terms: str, base: dict[str, Any] | None = None) -> Frame:
    """Design of R's formula: names, `log(name)`, `name:name`; a text column, or `factor(name)`, by its levels."""
    out: dict[str, Any] = {}
    for term in terms.split(" + "):
        parts: list[dict[str, Any]] = []
        for name in term.split(":"):
            inner = name[name.find("(") + 1 : -1] if name.endswith(")") else name
            values = np.log(data[inner]) if name.startswith("log(") else data[inner]
            if values.dtype.kind in "fi" and not name.startswith("factor("):
                parts.append({name: values.astype(float)})
                continue
            levels = sorted(values.unique())
            first = (base or {}).get(inner, levels[0])
            parts.append({f"{name}{level}": (values == level).astype(float) for level in levels if level != first})
        found = parts[0]
        for other in parts[1:]:
            found = {f"{a}:{b}": x * z for a, x in found.items() for b, z in other.items()}
        out |= found
    return Frame(out)


@dataclass(frozen=True)
class Fit:
    """A model of a set, by the name of its reference fit and the design of R's formula."""

    data: str
    model: str
    likelihood: str
    terms: str
    target: Callable[[Frame], Any]
    groups: str | None = None
    offset: str | None = None
    base: tuple[tuple[str, Any], ...] = ()


AIR = "Solar.R + Wind + Temp"
HOUSES = "log(lotsize) + bedrooms + bathrooms + stories + driveway + recreation + fullbase + gasheat + aircon + garage"
COSTS = "lc + idp + lpi + fmde + physlim + ndisease + health + linc + lfam + educdec + age + sex + child + black"
OWLS = "FoodTreatment + ArrivalTime + SexParent + FoodTreatment:SexParent + ArrivalTime:SexParent"
#: Our names of likelihoods by what the reference fits call them.
POSITIVE = {"gamma": "Gamma, log link", "inverse-gaussian": "inverse Gaussian", "log-normal": "log-normal"}
ZEROS = {"zero-inflated-poisson": "ZIP, zi ~ 1", "zero-inflated-negative-binomial": "ZINB2, zi ~ 1"}
TIMES = {"weibull": "weibull", "log-normal": "lognormal", "log-logistic": "loglogistic", "exponential": "exponential"}


def _events(event: Callable[[Frame], Any]) -> Callable[[Frame], Frame]:
    return lambda data: Frame({"time": data["time"].astype(float), "event": event(data)})


def _trials(successes: str, trials: str) -> Callable[[Frame], Any]:
    return lambda data: np.c_[data[successes], data[trials] - data[successes]]


def fits() -> list[Fit]:
    """All models that one latent with a learned scale is."""
    found = []
    for name, kind in POSITIVE.items():
        found.append(Fit("airquality", kind, name, AIR, lambda d: d["Ozone"].astype(float)))
        found.append(Fit("HousePrices", kind, name, f"{HOUSES} + prefer", lambda d: d["price"]))
    found.append(Fit("MedExp", "Tweedie, log link", "tweedie", COSTS, lambda d: d["med"].astype(float)))
    fuel = {"terms": "factor(batch) + temp", "target": lambda d: d["yield"], "base": (("batch", 10),)}
    found.append(Fit("GasolineYield", "betareg vignette", "beta", **fuel))
    found.append(Fit("lirat", "beta-binomial", "beta-binomial", "factor(grp) + hb", _trials("R", "N")))
    found.append(Fit("orob2", "beta-binomial", "beta-binomial", "seed + root + seed:root", _trials("y", "n")))
    for name, kind in ZEROS.items():
        found.append(Fit("Owls", kind, name, OWLS, lambda d: d["SiblingNegotiation"], "Nest", "logBroodSize"))
    counts = {"terms": "spp + mined", "target": lambda d: d["count"], "groups": "site"}
    found.append(Fit("Salamanders", "NB, no zero part", "negative-binomial", **counts))
    for name, kind in TIMES.items():
        seen = _events(lambda d: d["status"])
        died = _events(lambda d: d["status"] == 2)
        found.append(Fit("lung", f"AFT {kind} right", name, "age + sex + ph.ecog", died))
        found.append(Fit("veteran", f"AFT {kind} right", name, "factor(trt) + celltype + karno + age", seen))
        found.append(Fit("bcdeter", f"AFT {kind} interval", name, "factor(treat)", lambda d: d[["lower", "upper"]]))
        if name != "exponential":
            found.append(Fit("kidney", f"AFT {kind} normal", name, "age + sex", seen, "id"))
    return found


def reference(fit: Fit, stored: list[dict[str, Any]]) -> dict[str, Any]:
    """The stored fit with standard errors of this model."""
    return next(one for one in stored if one["set"] == fit.data and fit.model in one["model"] and "se" in one)


def fitted(fit: Fit, X: Frame, y: Any, data: Frame) -> Any:
    """Our fit, its prior flat."""
    settings: dict[str, Any] = {"likelihood": fit.likelihood, "prior_precision": "flat"}
    offset = None if fit.offset is None else data[fit.offset].to_numpy()
    if fit.groups is None:
        return BayesianGLMRegressor(**settings).fit(X, y, offset=offset)
    return GMERegressor(groups=fit.groups, noise=False, **settings).fit(X, y, offset=offset)


def _plain(name: str) -> str:
    """A column's name as all fits have it."""
    return name.replace("factor(", "").replace(")", "").replace("log(", "")


def distances(
    table: Frame, theirs: dict[str, float], errors: dict[str, float], names: dict[str, str]
) -> dict[str, float]:
    """How far rows of a summary are in a peer's standard errors, and ratios of spreads; names are ours to theirs."""
    ours = table.loc[list(names)]
    means, spreads = (np.array([of[name] for name in names.values()]) for of in (theirs, errors))
    ratio = ours["std"].to_numpy() / spreads
    away = np.abs(ours["mean"].to_numpy() - means) / spreads
    return {"most distance, se": float(away.max()), "sd / se, least": float(ratio.min()), "most": float(ratio.max())}


def compared(fit: Fit, peer: dict[str, Any]) -> dict[str, Any]:
    """Distances in the peer's standard errors, ratios of standard deviations, held-out log densities."""
    data = read(fit.data)
    X = columns(data, fit.terms, dict(fit.base))
    if fit.data == "lung":
        data = data[X.notna().all(axis=1)]
        X = X.loc[data.index]
    names = list(X)
    X = X if fit.groups is None else X.assign(**{fit.groups: data[fit.groups].astype(str)})
    y = fit.target(data)
    start = time.process_time()
    model = fitted(fit, X, y, data)
    seconds = time.process_time() - start
    table = model.summary(effects="joint")
    theirs, errors = ({_plain(name): value for name, value in peer[what].items()} for what in ("est", "se"))
    shared = {name: _plain(name) for name in names if _plain(name) in theirs}
    out = data["heldout"].to_numpy() == 1
    take = (lambda rows: y[rows]) if isinstance(y, np.ndarray) else (lambda rows: y.loc[rows])
    second = fitted(fit, X.loc[~out], take(~out), data[~out])
    offset = None if fit.offset is None else data.loc[out, fit.offset].to_numpy()
    density = second.log_predictive_density(X.loc[out], take(out), offset=offset)
    held_out = peer.get("heldout_mean_logdens", np.nan)
    return {
        "set": fit.data, "model": peer["model"], "peer": peer["peer"], "coefficients": len(shared),
        **distances(table, theirs, errors, shared),
        "held out, ours": float(density.mean()), "peer's": held_out, "difference": float(density.mean() - held_out),
        "error": float(density.std(ddof=1) / np.sqrt(len(density))), "CPU ms": 1e3 * seconds,
    }  # fmt: skip


def main(quick: bool = False) -> None:
    stored = references()
    rows = []
    for fit in fits()[:: 6 if quick else 1]:
        rows.append(compared(fit, reference(fit, stored)))
    report("truth/responses", "Responses beside R's packages, under a flat prior", rows, quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
