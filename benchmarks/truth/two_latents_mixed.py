"""Mixed models of two latents: zeros and dispersions with columns of their own beside R's glmmTMB and NUTS.

Salamanders of 23 sites and owlets of 27 nests. First beside glmmTMB by maximum likelihood under a flat prior where the
data determine every coefficient (else under N(0, 2.5²) for the columns as given), with the log density of the held-out
fifth; then, under the same priors, beside stored NUTS runs (`truth.two_latents_mixed_reference`), which judge where
posterior and maximum differ. Needs the folder of the sets, as `truth.responses` does. Last, at the defaults, what 90 %
intervals hold of simulated zero-inflated counts of 20 sites.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib.tables import RESULTS, arguments, progress, report
from benchmarks.truth.responses import OWLS, Frame, columns, distances, read, references
from sksvi import GMERegressor

SPECIES = "spp + mined"
#: Precision of N(0, 2.5²), where a flat prior has no posterior.
WEAK = 0.16
#: The file of the NUTS runs.
RUNS = RESULTS / "truth/two_latents_mixed_reference.json"


@dataclass(frozen=True)
class Case:
    """A model of a set, by the name of its reference fit, the designs of both latents and what the second predicts."""

    data: str
    model: str
    likelihood: str
    terms: str
    second: str | None
    latent: str = "zero"
    prior: Any = "flat"
    by_nuts: bool = True

    @property
    def groups(self) -> str:
        """Column of the levels."""
        return "Nest" if self.data == "Owls" else "site"

    def rows(self) -> tuple[Frame, Frame, Any, Any]:
        """The set, its columns, its counts and its offsets."""
        data = read(self.data)
        # A column of the second latent is one of the first: DOY alone is not in glmmTMB's mean.
        terms = f"{self.terms} + DOY" if "DOY" in (self.second or "") else self.terms
        X = columns(data, terms).assign(**{self.groups: data[self.groups].astype(str)})
        owls = self.data == "Owls"
        y = data["SiblingNegotiation" if owls else "count"].astype(float)
        return data, X, y, data["logBroodSize"].to_numpy() if owls else np.zeros(len(data))

    def fitted(self, X: Frame, y: Any, offset: Any, **further: Any) -> Any:
        """Our fit."""
        second = [] if self.second is None else list(columns(read(self.data), self.second))
        settings = {"prior_precision": self.prior, f"{self.latent}_features": second, **further}
        return GMERegressor(likelihood=self.likelihood, groups=self.groups, **settings).fit(X, y, offset=offset)


def cases() -> list[Case]:
    """All of them; a hurdle's zeros have no part in its groups, so that it has no run."""
    zip_, zinb, every = "zero-inflated-poisson", "zero-inflated-negative-binomial", f"{SPECIES} + spp:mined"
    owls = "ZINB2, zi ~ FoodTreatment + ArrivalTime"
    return [
        Case("Salamanders", "ZIP", zip_, SPECIES, "mined"),
        Case("Salamanders", "ZIP, covariates on the zero part", zip_, every, every, prior=WEAK),
        Case("Salamanders", "ZINB, zero part ~ mined", zinb, SPECIES, "mined", prior=WEAK),
        Case("Salamanders", "hurdle Poisson", "hurdle-poisson", SPECIES, SPECIES, by_nuts=False),
        Case("Salamanders", "hurdle NB", "hurdle-negative-binomial", SPECIES, SPECIES, by_nuts=False),
        Case("Salamanders", "NB2, log theta ~ mined + DOY", "negative-binomial", SPECIES, "mined + DOY", "scale"),
        Case("Owls", "ZIP, zi ~ 1 (vignette)", zip_, OWLS, None),
        Case("Owls", owls, zinb, OWLS, "FoodTreatment + ArrivalTime"),
    ]


def named(case: Case, names: Any) -> dict[str, str]:
    """Our rows of `summary` to the names of glmmTMB."""
    prefix, found = {"zero": "zi_", "scale": "disp_"}[case.latent], {}
    for name in names:
        ours = name.replace("(Intercept)", "intercept")
        found[f"{case.latent}:{ours.removeprefix(prefix)}" if ours.startswith(prefix) else ours] = name
    return found


def beside(case: Case, peer: dict[str, Any]) -> dict[str, Any]:
    """Distances to glmmTMB in its standard errors, deviations between levels, held-out log density, CPU seconds."""
    data, X, y, offset = case.rows()
    start = time.process_time()
    model = case.fitted(X, y, offset)
    seconds = time.process_time() - start
    table, names = model.summary(effects="joint"), named(case, peer["est"])
    names = {ours: theirs for ours, theirs in names.items() if ours in table.index}
    of_mean = {ours: theirs for ours, theirs in names.items() if not ours.startswith(f"{case.latent}:")}
    second = {ours: theirs for ours, theirs in names.items() if ours not in of_mean}
    best = case.fitted(X, y, offset, hyperparameters="point").group_std_["mean"]
    out = data["heldout"].to_numpy() == 1
    density = case.fitted(X[~out], y[~out], offset[~out]).log_predictive_density(X[out], y[out], offset=offset[out])
    parts = {name: distances(table, peer["est"], peer["se"], own) for name, own in (("f", of_mean), ("g", second))}
    sd = next(iter(peer["sd"].values()))
    return {
        "set": case.data, "model": case.model, "prior": "flat" if case.prior == "flat" else "N(0, 2.5²)",
        **{f"{name}: most distance, se": part["most distance, se"] for name, part in parts.items()},
        "group sd": float(table.loc[f"std({case.groups}, intercept)", "mean"]), "best value": float(best.iloc[0]),
        "glmmTMB": sd, "held out, ours": float(density.mean()), "glmmTMB's": peer["heldout_mean_logdens"],
        "error": float(density.std(ddof=1) / np.sqrt(len(density))), "CPU s": seconds, "glmmTMB, CPU s": peer["cpu_s"],
    }  # fmt: skip


def judged(case: Case, run: dict[str, Any]) -> dict[str, Any]:
    """Distances to a NUTS run in its standard deviations, ratios of standard deviations."""
    _, X, y, offset = case.rows()
    table, std = case.fitted(X, y, offset).summary(effects="joint"), f"std({case.groups}, intercept)"
    rows = [name for name in run["mean"] if name not in (std, "dispersion")]
    second = [name for name in rows if name.startswith(f"{case.latent}:")]
    parts = {"f": [name for name in rows if name not in second], "g": second}
    found = {key: distances(table, run["mean"], run["sd"], {name: name for name in own}) for key, own in parts.items()}
    row = {"set": case.data, "model": case.model, "prior": "flat" if case.prior == "flat" else "N(0, 2.5²)"}
    for key, part in found.items():
        row[f"{key}: most distance, sd"] = part["most distance, se"]
        row |= {f"{key}: sd / sd, least": part["sd / se, least"], f"{key}: most": part["most"]}
    for name, key in ((std, "group sd"), ("dispersion", "dispersion")):
        has = name in run["mean"] and name in table.index
        row |= {key: table.loc[name, "mean"] if has else None, f"{key}, NUTS": run["mean"][name] if has else None}
    return row


# ---- coverage at the defaults
SETS, LEVELS, EACH = 150, 20, 15
F, G, STD = pd.Series({"x1": 0.4, "x2": -0.2, "x3": 0.0}), pd.Series({"x1": 0.6, "x2": 0.0}), 0.5


def simulated(rng: Any) -> tuple[Frame, Any]:
    """Counts of sites: standard normal columns, the first of which is one number in each site."""
    site = np.repeat(np.arange(LEVELS), EACH)
    X = Frame(rng.standard_normal((len(site), 3)), columns=list(F.index))
    X["x3"] = rng.standard_normal(LEVELS)[site]
    f = 1.0 + X.to_numpy() @ F.to_numpy() + STD * rng.standard_normal(LEVELS)[site]
    zero = rng.random(len(f)) < 1.0 / (1.0 + np.exp(1.0 - X[G.index].to_numpy() @ G.to_numpy()))
    counts = np.where(zero, 0.0, rng.poisson(np.exp(f)))
    return X.assign(site=site.astype(str)), counts


def coverage(sets: int, seed: int = 0) -> list[dict[str, Any]]:
    """Shares of 90 % intervals of `summary` that hold the truth, and mean estimates."""
    std = "std(site, intercept)"
    truth = {**F, "intercept": 1.0, **{f"zero:{name}": value for name, value in G.items()}, "zero:intercept": -1.0}
    truth |= {std: STD}
    held, means = [], []
    for number in range(sets):
        X, y = simulated(np.random.default_rng([seed, number]))
        model = GMERegressor(likelihood="zero-inflated-poisson", groups="site", zero_features=list(G.index))
        table = model.fit(X, y).summary().loc[list(truth)]
        held.append((table["lower"] <= list(truth.values())) & (table["upper"] >= list(truth.values())))
        means.append(table["mean"])
    shares, average = np.mean(held, axis=0), np.mean(means, axis=0)
    error = np.sqrt(0.09 / sets)
    rows = zip(truth.items(), shares, average, strict=True)
    return [
        {"row": name, "truth": value, "mean estimate": float(mean), "90 % intervals hold": float(share), "se": error}
        for (name, value), share, mean in rows
    ]


def main(quick: bool = False) -> None:
    stored, runs = references(), json.loads(RUNS.read_text()) if RUNS.exists() else {}
    rows, by_nuts = [], []
    for case in cases()[:: 6 if quick else 1]:
        peer = next(one for one in stored if (one["set"], one["model"]) == (case.data, case.model) and "se" in one)
        rows.append(beside(case, peer))
        progress(rows[-1])
        if case.by_nuts and f"{case.data}, {case.model}" in runs:
            by_nuts.append(judged(case, runs[f"{case.data}, {case.model}"]))
            progress(by_nuts[-1])
    report("truth/two_latents_mixed", "Mixed models of two latents beside glmmTMB", rows, quick=quick)
    report("truth/two_latents_mixed_nuts", "Mixed models of two latents beside NUTS", by_nuts, quick=quick)
    notes = [f"{SETS} sets of {LEVELS} sites with {EACH} counts each, nothing set but the columns."]
    rows = coverage(3 if quick else SETS)
    report("truth/two_latents_mixed_coverage", "Intervals of zero-inflated sites", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
