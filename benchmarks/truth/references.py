"""Generalised and mixed models of published sets beside NUTS, under a flat prior: what no other table of peers has.

Coefficients, their distance in the judge's standard deviations and ratios of standard deviations; standard deviations
between levels beside the judge's; log density of the held-out fifth, of a second fit to the others, with the standard
error of its mean; CPU beside the stored time of the judge. Judges are rstanarm's or NumPyro's runs with their default
priors, which are weak. Needs the folder of the sets and reference fits, as `truth.responses` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth.responses import Frame, columns, distances, read, references
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMEClassifier, GMERegressor


@dataclass(frozen=True)
class Row:
    """A model of a set, and what its judge calls itself and its standard deviation between levels.

    ``likelihood`` : None of labels.
    """

    data: str
    judge: str
    likelihood: str | None
    terms: str
    target: Callable[[Frame], Any]
    group: str | None = None
    scale: str = ""
    made: Callable[[Frame], dict[str, Any]] = lambda data: {}
    base: tuple[tuple[str, Any], ...] = ()
    offset: Callable[[Frame], Any] = lambda data: np.zeros(len(data))


#: Our name of a coefficient to the judge's, where these differ by more than R's `factor()`.
OTHER = {"intercept": ("(Intercept)", "Intercept")}
#: Batches of GasolineYield.
BATCH = {f"factor(batch){k}": f"batch_{k}" for k in range(1, 10)}


def models() -> list[Row]:
    """All of them."""
    roaches = {"made": lambda d: {"roach1": d["roach1"] / 100.0}, "offset": lambda d: np.log(d["exposure2"])}
    roaches |= {"terms": "roach1 + treatment + senior", "target": lambda d: d["y"]}
    return [
        Row("kidiq", "Gaussian", "gaussian", "mom_hs + mom_iq", lambda d: d["kid_score"].astype(float)),
        Row("wells", "logistic", None, "dist100 + arsenic + assoc + educ", lambda d: d["switch"],
            made=lambda d: {"dist100": d["dist"] / 100.0}),
        Row("roaches", "NB, defaults", "negative-binomial", **roaches),
        Row("cbpp", "binomial mixed", "binomial", "factor(period)",
            lambda d: np.c_[d["incidence"], d["size"] - d["incidence"]], "herd", "sd_herd:(Intercept)"),
        Row("bacteria", "binary mixed", None, "trt + late", lambda d: d["y"], "ID", "sd_ID:(Intercept)",
            made=lambda d: {"late": (d["week"] > 2).astype(float)}, base=(("trt", "placebo"),)),
        Row("epil", "Poisson mixed", "poisson", "lbase + trt + lage + V4 + lbase:trt", lambda d: d["y"], "subject",
            "sd_subject:(Intercept)", base=(("trt", "placebo"),)),
        Row("kidney", "Weibull AFT, normal frailty, brms-style default priors", "weibull", "age + sex",
            lambda d: Frame({"time": d["time"].astype(float), "event": d["status"]}), "id", "sd0"),
        Row("GasolineYield", "beta, brms-style default priors", "beta", "factor(batch) + temp", lambda d: d["yield"],
            base=(("batch", 10),)),
        Row("airquality", "Gamma, log link, brms-style default priors", "gamma", "Solar.R + Wind + Temp",
            lambda d: d["Ozone"].astype(float)),
    ]  # fmt: skip


def fitted(row: Row, X: Frame, y: Any, offset: Any) -> Any:
    """Our fit, its prior of coefficients flat."""
    own = {"prior_precision": "flat"} | ({} if row.likelihood is None else {"likelihood": row.likelihood})
    if row.group is None:
        kind: Any = BayesianGLMClassifier if row.likelihood is None else BayesianGLMRegressor
    else:
        kind = GMEClassifier if row.likelihood is None else GMERegressor
        own |= {"groups": row.group, "noise": False, "on_unseen": "ignore"}
    return kind(**own).fit(X, y, offset=offset)


def named(table: Frame, judge: dict[str, float]) -> dict[str, str]:
    """Our names of coefficients to those that the judge has."""
    found = {}
    for name in table.index:
        plain = name.replace("factor(", "").replace(")", "")
        theirs = [one for one in (*OTHER.get(name, ()), BATCH.get(name), plain) if one in judge]
        found |= {name: theirs[0]} if theirs and not name.startswith("std(") else {}
    return found


def compared(row: Row, judge: dict[str, Any]) -> dict[str, Any]:
    """Distances and ratios, densities of held-out rows, time."""
    data = read(row.data)
    data = data.assign(**row.made(data))
    X = columns(data, row.terms, dict(row.base))
    X = X if row.group is None else X.assign(**{row.group: data[row.group].astype(str)})
    y, offset, out = row.target(data), np.asarray(row.offset(data), float), data["heldout"].to_numpy() == 1
    start = time.process_time()
    table = fitted(row, X, y, offset).summary(effects="joint")
    seconds = time.process_time() - start
    take = (lambda rows: y[rows]) if isinstance(y, np.ndarray) else (lambda rows: y.loc[rows])
    second = fitted(row, X.loc[~out], take(~out), offset[~out])
    density = second.log_predictive_density(X.loc[out], take(out), offset=offset[out])
    names = named(table, judge["est"])
    found: dict[str, Any] = {"set": row.data, "model": judge["model"].replace("|", " by ")}
    found |= {"judge": judge["peer"].split(" ")[0], "coefficients": len(names)}
    found |= distances(table, judge["est"], judge["posterior_sd"], names)
    ours, theirs = (f"std({row.group}, intercept)", row.scale) if row.group else (None, None)
    group = (np.nan,) * 4 if ours is None else (
        *table.loc[ours, ["mean", "std"]], judge["est"][theirs], judge["posterior_sd"][theirs]
    )  # fmt: skip
    return found | {
        "group sd": group[0], "its sd": group[1], "judge's": group[2], "sd of that": group[3],
        "held out less judge's": float(density.mean() - judge["heldout_mean_logdens"]),
        "error": float(density.std(ddof=1) / np.sqrt(len(density))), "CPU s": seconds, "judge's CPU s": judge["cpu_s"],
    }  # fmt: skip


def main(quick: bool = False) -> None:
    stored, rows = references(), []
    for row in models()[:: 4 if quick else 1]:
        own = (one for one in stored if one["set"] == row.data and one["model"] == row.judge)
        rows.append(compared(row, next(one for one in own if "posterior_sd" in one)))
        progress(rows[-1])
    notes = [
        "Priors of the judges are weak and not flat; posterior means and standard deviations of theirs and ours. Those "
        "of rstanarm's standard deviations between levels are exponential with mean 1, where ours have heavy tails: "
        "with 50 levels of few binary rows (bacteria) that moves them, and coefficients behind the link with them."
    ]
    report("truth/references", "Models of published sets beside NUTS, under a flat prior", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
