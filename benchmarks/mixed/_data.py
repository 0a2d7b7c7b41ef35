"""Data sets with their groups, and splits, of the benchmarks of mixed effects.

The data sets are those of R packages (``tabular/counts`` of the data folder). Numbers are standardised on the training
part, text becomes dummies against its first level, groups stay columns of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import STORED_DATA, data_folder, epil_data


@dataclass(frozen=True)
class Mixed:
    """A frame of numbers and of the columns ``groups``, its target and its likelihood."""

    name: str
    X: Any
    y: Array
    likelihood: str = "poisson"
    groups: list[str] = field(default_factory=list)


def table(name: str) -> Any:
    import pandas as pd

    return pd.read_csv(data_folder() / "tabular" / "counts" / f"{name}.csv.xz").drop(columns="rownames")


def dummies(frame: Any) -> Any:
    """Text and truth as columns of 0 and 1, numbers as they are."""
    import pandas as pd

    return pd.get_dummies(frame, drop_first=True).astype(float)


def with_groups(frame: Any, raw: Any, groups: dict[str, str]) -> Any:
    """Columns of levels as text; ``groups``: name here: name in the source."""
    for name, source in groups.items():
        frame[name] = raw[source].astype(str).astype("category")
    return frame


def rwm5yr() -> Mixed:
    """Visits to doctors in Germany, 1984 to 1988."""
    raw = table("COUNT_rwm5yr")
    X = raw[["age", "outwork", "female", "married", "kids", "hhninc", "educ", "self"]].astype(float)
    X["age^2"] = X["age"] ** 2
    for year in range(1985, 1989):
        X[f"year {year}"] = (raw["year"] == year).astype(float)
    return Mixed("rwm5yr", X, raw["docvis"].to_numpy())


def rwm5yr_persons() -> Mixed:
    """The same with the person as group."""
    plain = rwm5yr()
    X = with_groups(plain.X, table("COUNT_rwm5yr"), {"person": "id"})
    return Mixed("rwm5yr, persons", X, plain.y, groups=["person"])


def doctor_contacts() -> Mixed:
    """Outpatient visits in the RAND health insurance experiment."""
    raw = table("Ecdat_DoctorContacts")
    X = dummies(raw.drop(columns="mdu"))
    X["age^2"] = X["age"] ** 2
    return Mixed("DoctorContacts", X, raw["mdu"].to_numpy())


def nmes1988() -> Mixed:
    """Physicians' office visits of the elderly in the USA (Deb and Trivedi); other kinds of visits left out."""
    raw = table("AER_NMES1988")
    other = ["visits", "nvisits", "ovisits", "novisits", "emergency"]
    return Mixed("NMES1988", dummies(raw.drop(columns=other)), raw["visits"].to_numpy())


def azpro() -> Mixed:
    """Days in hospital after a heart procedure, Arizona 1991; the (coarse) hospital code as dummies."""
    raw = table("COUNT_azpro")
    raw["hospital"] = raw["hospital"].round(1).astype(str)
    return Mixed("azpro", dummies(raw.drop(columns="los")), raw["los"].to_numpy())


def medpar() -> Mixed:
    """Days in hospital, Medicare 1991, hospitals as groups."""
    raw = table("COUNT_medpar")
    X = raw[["hmo", "white", "died", "age80", "type2", "type3"]].astype(float)
    return Mixed("medpar", with_groups(X, raw, {"hospital": "provnum"}), raw["los"].to_numpy(), groups=["hospital"])


def epil() -> Mixed:
    """Seizures of 59 patients in four periods."""
    X, y = epil_data()
    return Mixed("epil", with_groups(X, X, {"subject": "subject"}), y, groups=["subject"])


def salamander() -> Mixed:
    """Matings of 60 female and 60 male salamanders."""
    X, y = salamander_data()
    return Mixed("salamander", with_groups(X, X, {"female": "female", "male": "male"}), y, "logit", ["female", "male"])


def verb_agg() -> Mixed:
    """Verbal aggression: yes or no of 316 persons to 24 items."""
    raw = table("lme4_VerbAgg")
    X = dummies(raw[["Anger", "Gender", "btype", "situ", "mode"]])
    X = with_groups(X, raw, {"person": "id", "item": "item"})
    return Mixed("VerbAgg", X, (raw["r2"] == "Y").to_numpy(int), "logit", ["person", "item"])


def inst_eval() -> Mixed:
    """Lectures at ETH Zurich rated 1 to 5 by 2972 students; 1128 lecturers, 14 departments."""
    raw = table("lme4_InstEval")
    X = dummies(raw[["studage", "lectage", "service"]].astype({"studage": str, "lectage": str}))
    X = with_groups(X, raw, {"student": "s", "lecturer": "d", "department": "dept"})
    return Mixed("InstEval", X, raw["y"].to_numpy(), "gaussian", ["student", "lecturer", "department"])


#: Counts, then binary targets; splits: the small ones are repeated.
SETS: dict[str, Callable[[], Mixed]] = {
    "rwm5yr": rwm5yr,
    "rwm5yr, persons": rwm5yr_persons,
    "DoctorContacts": doctor_contacts,
    "NMES1988": nmes1988,
    "azpro": azpro,
    "medpar": medpar,
    "epil": epil,
    "salamander": salamander,
    "VerbAgg": verb_agg,
    "InstEval": inst_eval,
}


def split(data: Mixed, seed: int) -> tuple[Any, Array, Any, Array]:
    """Training and test part, 80 and 20 %, by rows; numbers standardised by the first, constant ones dropped."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    n = round(0.8 * len(order))
    train, test = data.X.iloc[order[:n]].copy(), data.X.iloc[order[n:]].copy()
    for name in data.X.columns.drop(data.groups):
        mean, sd = train[name].mean(), train[name].std(ddof=0)
        for part in (train, test):
            part[name] = (part[name] - mean) / (sd or 1.0)
        if not sd:
            train, test = train.drop(columns=name), test.drop(columns=name)
    return train, data.y[order[:n]], test, data.y[order[n:]]


# ---------------------------------------------------------------- models


def salamander_data() -> tuple[Any, Array]:
    """Matings of 60 female and 60 male salamanders (McCullagh and Nelder 1989, 14.5): cells of the cross against RR."""
    import pandas as pd

    raw = pd.read_csv(STORED_DATA / "salamander.csv")
    frame = pd.DataFrame({cross: (raw["cross"] == cross).astype(float) for cross in ("RW", "WR", "WW")})
    frame["female"], frame["male"] = raw["female"], raw["male"]
    return frame, raw["mate"].to_numpy()
