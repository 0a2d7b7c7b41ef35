"""Mixed models of published sets beside NUTS where there is a run, else beside lme4's restricted maximum likelihood.

Coefficients and intercept under `prior_precision="flat"`, their distance in the judge's standard deviations and the
ratio of standard deviations; standard deviations between levels and of noise, posterior means beside those of NUTS,
best values (``hyperparameters="point"``) beside REML's; the distance of correlations. Needs the folder of the sets and
reference fits, as `truth.responses` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, report
from benchmarks.truth.responses import Frame, columns, read, references
from sksvi import GMEClassifier, GMERegressor


@dataclass(frozen=True)
class Grouped:
    """A model of a set, the judge by its name, and what the judge calls our rows of `summary`."""

    data: str
    judge: str
    design: Callable[[Frame], Frame]
    target: str
    groups: Any
    coefficients: dict[str, str]
    scales: dict[str, str]
    labels: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    correlations: dict[str, str] = field(default_factory=dict)

    @property
    def by_mode(self) -> bool:
        """Whether the judge has best values of the standard deviations, and no posterior."""
        return "REML" in self.judge


def _contraception(data: Frame) -> Frame:
    age = data["age"] / 10.0
    found = columns(data, "urban + livch").assign(age=age, age2=age**2, district=data["district"].astype(str))
    return found.rename(columns={"urbanY": "urban"})


def _toenail(data: Frame) -> Frame:
    return columns(data, "treatment + time + treatment:time").assign(patient=data["patientID"])


def _answers(data: Frame) -> Frame:
    anger = (data["Anger"] - data["Anger"].mean()) / 10.0
    return columns(data, "Gender + btype + situ").assign(Anger=anger, id=data["id"], item=data["item"])


def _matings(data: Frame) -> Frame:
    crosses = {name: (data["Cross"] == name).astype(float) for name in ("RR", "RW", "WR", "WW")}
    return Frame(crosses).assign(female=data["Female"], male=data["Male"])


LME4 = {"intercept": "(Intercept)"}
MACHINES = {"Machine_B": "MachineB", "Machine_C": "MachineC"}
WORKERS = {
    f"std(Worker, {ours})": f"Worker:{theirs}" for ours, theirs in {"intercept": "(Intercept)", **MACHINES}.items()
}
PAIRS = {
    "cor(Worker, intercept, Machine_B)": "Worker:(Intercept)~MachineB",
    "cor(Worker, intercept, Machine_C)": "Worker:(Intercept)~MachineC",
    "cor(Worker, Machine_B, Machine_C)": "Worker:MachineB~MachineC",
}
WITHIN = {f"std({name}, intercept)": f"{name}:(Intercept)" for name in ("batch", "plate", "sample", "Worker")}
NOISE = {"std(residual)": "Residual:NA"}


def some(names: dict[str, str], *wanted: str) -> dict[str, str]:
    """Those of the names."""
    return {f"std({name}, intercept)": names[f"std({name}, intercept)"] for name in wanted}


def models() -> list[Grouped]:
    """All of them."""
    slopes = {"groups": "Subject", "target": "Reaction", "settings": {"random_slopes": "Days"}}
    machines = {"target": "score", "coefficients": LME4 | MACHINES}
    return [
        Grouped(
            "sleepstudy", "correlated slopes", lambda d: d[["Days", "Subject"]], **slopes,
            coefficients=LME4 | {"Days": "Days"},
            scales={"std(Subject, intercept)": "sd_Subject:(Intercept)", "std(Subject, Days)": "sd_Subject:Days",
                    "std(residual)": "sigma"},
            correlations={"cor(Subject, intercept, Days)": "cor_Subject:Days~(Intercept)"},
        ),
        Grouped(
            "sleepstudy", "correlated slope, REML", lambda d: d[["Days", "Subject"]], **slopes,
            coefficients=LME4 | {"Days": "Days"},
            scales={"std(Subject, intercept)": "Subject:(Intercept)", "std(Subject, Days)": "Subject:Days", **NOISE},
            correlations={"cor(Subject, intercept, Days)": "Subject:(Intercept)~Days"},
        ),
        Grouped(
            "Machines", "correlated slopes of a factor, REML", lambda d: d[["Machine", "Worker"]], groups="Worker",
            settings={"random_slopes": "Machine"}, scales=WORKERS | NOISE, correlations=PAIRS, **machines,
        ),
        Grouped(
            "Machines", "nested intercepts, REML", lambda d: d[["Machine", "Worker"]].assign(on=d["Machine"]),
            groups="Worker/on", **machines,
            scales=some(WITHIN, "Worker") | {"std(Worker:on, intercept)": "Machine:Worker:(Intercept)"} | NOISE,
        ),
        Grouped(
            "Pastes", "nested, REML", lambda d: d[["batch", "cask"]], "strength", "batch/cask", LME4,
            some(WITHIN, "batch") | {"std(batch:cask, intercept)": "cask:batch:(Intercept)"} | NOISE,
        ),
        Grouped(
            "Penicillin", "crossed, REML", lambda d: d[["plate", "sample"]], "diameter", ["plate", "sample"], LME4,
            some(WITHIN, "plate", "sample") | NOISE,
        ),
        Grouped(
            "toenail", "(1|patientID), NUTS judge", _toenail, "outcome", "patient",
            {"intercept": "Intercept", "treatmentterbinafine": "treatment_terbinafine", "time": "time",
             "treatmentterbinafine:time": "txt"}, {"std(patient, intercept)": "sd0"}, labels=True,
        ),
        Grouped(
            "salamander_mating", "crossed (1|Female)+(1|Male), NUTS judge", _matings, "Mate", ["female", "male"],
            {name: name for name in ("RR", "RW", "WR", "WW")},
            {"std(female, intercept)": "sd0", "std(male, intercept)": "sd1"}, labels=True,
            settings={"fit_intercept": False},
        ),
        Grouped(
            "Contraception", "correlated slope (urban|district), NUTS judge", _contraception, "use", "district",
            {"intercept": "Intercept", "urban": "urban_Y", "livch1": "livch_1", "livch2": "livch_2",
             "livch3plus": "livch_3plus", "age": "age", "age2": "age2"},
            {"std(district, intercept)": "sd0[0]", "std(district, urban)": "sd0[1]"}, labels=True,
            settings={"random_slopes": "urban"}, correlations={"cor(district, intercept, urban)": "cor0"},
        ),
        Grouped(
            "VerbAgg", "crossed (1|id)+(1|item), NUTS judge", _answers, "r2", ["id", "item"],
            {"intercept": "Intercept", "GenderM": "Gender_M", "btypescold": "btype_scold",
             "btypeshout": "btype_shout", "situself": "situ_self", "Anger": "Anger"},
            {"std(id, intercept)": "sd0", "std(item, intercept)": "sd1"}, labels=True,
        ),
    ]  # fmt: skip


def fitted(model: Grouped, X: Frame, y: Any, **settings: Any) -> Any:
    """Our fit, its prior of coefficients flat."""
    own = {"prior_precision": "flat", "noise": False, "groups": model.groups, **model.settings, **settings}
    return (GMEClassifier if model.labels else GMERegressor)(**own).fit(X, y)


def compared(model: Grouped, judge: dict[str, Any]) -> dict[str, Any]:
    """Distances and ratios of one model."""
    data = read(model.data)
    X, y = model.design(data), data[model.target]
    start = time.process_time()
    table = fitted(model, X, y).summary(effects="joint")
    seconds = time.process_time() - start
    means, errors = judge["est"], judge.get("se", judge.get("posterior_sd"))
    scales = judge["sd"] if model.by_mode else means
    best = fitted(model, X, y, hyperparameters="point").summary() if model.by_mode else table
    away = [abs(table.loc[a, "mean"] - means[b]) / errors[b] for a, b in model.coefficients.items()]
    width = [table.loc[a, "std"] / errors[b] for a, b in model.coefficients.items()]
    ratio = [best.loc[a, "mean"] / scales[b] for a, b in model.scales.items()]
    off = [abs(best.loc[a, "mean"] - scales[b]) for a, b in model.correlations.items()]
    return {
        "set": model.data, "model": judge["model"].replace("|", " by "), "judge": judge["peer"],
        "coefficients": len(away),
        "most distance, sd": float(max(away)), "sd / sd, least": float(min(width)), "most": float(max(width)),
        "group sd / judge's, least": float(min(ratio)), "most of these": float(max(ratio)),
        "correlation off by": float(max(off, default=np.nan)), "CPU s": seconds,
    }  # fmt: skip


def main(quick: bool = False) -> None:
    stored, rows = references(), []
    for model in models()[:: 4 if quick else 1]:
        judge = next(one for one in stored if one["set"] == model.data and one["model"] == model.judge)
        rows.append(compared(model, judge))
    report("truth/groups", "Mixed models beside NUTS or REML, under a flat prior", rows, quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
