"""Shared by the benchmarks of mixed effects: data sets with their groups, splits, GLMs, statsmodels.

The data sets are those of R packages (``tabular/counts`` of the data folder). Numbers are standardised on the training
part, text becomes dummies against its first level, groups stay columns of their own.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.common import Array, data_folder


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
    from benchmarks.mixed_reference import epil_data

    X, y = epil_data()
    return Mixed("epil", with_groups(X, X, {"subject": "subject"}), y, groups=["subject"])


def salamander() -> Mixed:
    """Matings of 60 female and 60 male salamanders."""
    from benchmarks.mixed_reference import salamander_data

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

#: Test NLL of each row; seconds by the clock and of the processor; the fit.
Result = tuple[Array, tuple[float, float], Any]


def timed(make: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """What ``make`` gives; its seconds by the clock and those of the processor, which other programs hardly change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start, used = time.perf_counter(), time.process_time()
        model = make()
        return model, (time.perf_counter() - start, time.process_time() - used)


def linear_model(likelihood: str, train: Any, y: Array, test: Any, y_test: Array, groups: list[str]) -> Result:
    """Our Bayesian GLM of the fixed effects alone, prior precision learned."""
    from sksvi.linear_model import BayesianGLMRegressor

    A, B = train.drop(columns=groups).to_numpy(), test.drop(columns=groups).to_numpy()
    model, seconds = timed(lambda: BayesianGLMRegressor(likelihood=likelihood).fit(A, y))
    return -model.log_predictive_density(B, y_test), seconds, model


def statsmodels_vb(
    likelihood: str, train: Any, y: Array, test: Any, y_test: Array, groups: list[str], fixed_prior_sd: float = 2.0
) -> Result:
    """``PoissonBayesMixedGLM`` or ``BinomialBayesMixedGLM``, ``fit_vb``, their default priors.

    Their ``predict`` has the fixed effects alone, at their means; here f of a row is Gaussian by their (factorised) q
    of fixed and group effects, an unseen level has variance exp(2 E log sd), and the likelihood is integrated over f.
    """
    import scipy.sparse as sp
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM, PoissonBayesMixedGLM

    kind = PoissonBayesMixedGLM if likelihood == "poisson" else BinomialBayesMixedGLM
    designs, identity, unseen = [], [], []
    for i, group in enumerate(groups):
        levels = {level: j for j, level in enumerate(train[group].unique())}
        identity += [i] * len(levels)
        known = [np.array([levels.get(level, -1) for level in part[group]]) for part in (train, test)]
        designs.append([indicators(codes, len(levels)) for codes in known])
        unseen.append(known[1] < 0)
    fixed = [np.column_stack([p.drop(columns=groups).to_numpy(float), np.ones(len(p))]) for p in (train, test)]
    Z, Z_test = (sp.hstack([pair[k] for pair in designs]).tocsr() for k in (0, 1))
    model = kind(y, fixed[0], Z, np.array(identity), fe_p=fixed_prior_sd)
    result, seconds = timed(lambda: model.fit_vb(rng=np.random.default_rng(0)))
    mean = fixed[1] @ result.fe_mean + Z_test @ result.vc_mean
    variance = fixed[1] ** 2 @ result.fe_sd**2 + Z_test.power(2) @ result.vc_sd**2
    variance += sum(np.where(new, np.exp(2 * v), 0.0) for new, v in zip(unseen, result.vcp_mean, strict=True))
    return -integrated(likelihood, y_test, mean, variance), seconds, result


def indicators(codes: Array, n_levels: int) -> Any:
    """Sparse 0/1 matrix of levels; code -1 is a row of zeros."""
    import scipy.sparse as sp

    rows = np.flatnonzero(codes >= 0)
    return sp.csr_matrix((np.ones(len(rows)), (rows, codes[rows])), shape=(len(codes), n_levels))


def integrated(likelihood: str, y: Array, mean: Array, variance: Array, n_nodes: int = 801) -> Array:
    """log of E p(y | f) over f ~ N(mean, variance), by a trapezoidal rule."""
    from scipy.special import gammaln, log_expit, logsumexp

    z = np.linspace(-9.0, 9.0, n_nodes)
    weights = -0.5 * z**2 - np.log(np.sum(np.exp(-0.5 * z**2)))
    found = []
    for rows in np.array_split(np.arange(len(y)), max(1, len(y) // 2000)):
        f, counts = mean[rows, None] + np.sqrt(variance)[rows, None] * z, y[rows, None]
        if likelihood == "poisson":
            values = counts * f - np.exp(f) - gammaln(counts + 1.0)
        elif likelihood == "poisson-softplus":
            rate = np.logaddexp(0.0, f)
            log_rate = np.where(f < -30.0, f, np.log(np.maximum(rate, 1e-14)))
            values = counts * log_rate - rate - gammaln(counts + 1.0)
        else:
            values = log_expit(np.where(counts == 1, f, -f))
        found.append(logsumexp(values + weights, axis=1))
    return np.concatenate(found)


def mean_error(values: Array) -> tuple[float, float | None]:
    """Mean and its standard error over splits; none for one split."""
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
