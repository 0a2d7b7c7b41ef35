"""90 % intervals of mixed models and of groups of precisions at the defaults, every hyperparameter learned.

Truths are fixed numbers, none drawn from a prior: strong effects of few binary rows to a level, beside the intervals of
the Gaussian q that the fit ends at; correlated intercepts and slopes; and two groups of columns, one of large
coefficients and one of small ones, each with a scale of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks._lib.tables import arguments, progress, report
from sksvi import BayesianGLMRegressor, GMEClassifier, GMERegressor

Frame = pd.DataFrame
STRONG, STRONG_SETS, SETS = (2.0, 3.0, 4.0), 100, 200
SDS, RHO = np.array([1.0, 0.6]), -0.5
LARGE, SMALL = 1.0, 0.1


def covered(table: Frame, truth: pd.Series) -> pd.Series:
    """Whether the interval of each row holds the truth."""
    rows = table.loc[truth.index]
    return (rows["lower"] <= truth) & (truth <= rows["upper"])


def strong(std: float, rng: Any) -> dict[str, float]:
    """60 levels of 5 binary rows: coefficients and the standard deviation between levels, and the same under q."""
    level = np.repeat(np.arange(60), 5)
    X = Frame({"x": rng.standard_normal(len(level)), "level": level.astype(str)})
    effect = std * rng.standard_normal(60)
    y = rng.random(len(level)) < expit(0.5 + X["x"] + effect[level])
    truth, name, found = pd.Series({"x": 1.0, "intercept": 0.5}), "std(level, intercept)", {}
    for end in ("", " of q"):
        alone = mock.patch("sksvi.mixed_effects._base.has_one_effect_a_level", lambda model, data: False)
        if end:
            with alone:
                fit = GMEClassifier(groups="level").fit(X, y)
        else:
            fit = GMEClassifier(groups="level").fit(X, y)
        table = fit.summary()
        found[f"coefficients{end}"] = covered(table, truth).mean()
        found[f"deviations{end}"] = covered(table, pd.Series({name: std})).mean()
        effects = fit.group_effects_.xs("level", level="group")
        at = effect[effects.index.get_level_values("level").astype(int)]
        found[f"effects{end}"] = np.mean((effects["lower"] <= at) & (at <= effects["upper"]))
    return found


def slopes(labels: bool, rng: Any) -> dict[str, float]:
    """40 levels of 8 rows (of 16 with labels) with correlated intercepts and slopes."""
    level = np.repeat(np.arange(40), 16 if labels else 8)
    X = Frame(rng.standard_normal((len(level), 2)), columns=["x", "z"]).assign(level=level.astype(str))
    cov = np.outer(SDS, SDS) * np.array([[1.0, RHO], [RHO, 1.0]])
    effect = rng.multivariate_normal(np.zeros(2), cov, 40)
    f = 0.5 + 0.7 * X["x"] - 0.3 * X["z"] + effect[level, 0] + effect[level, 1] * X["x"]
    y: Any = rng.random(len(f)) < expit(f) if labels else f + rng.standard_normal(len(f))
    model: Any = GMEClassifier if labels else GMERegressor
    fit = model(groups="level", random_slopes="x").fit(X, y)
    table, effects = fit.summary(), fit.group_effects_.xs("level", level="group")
    at = effect[
        effects.index.get_level_values("level").astype(int),
        (effects.index.get_level_values("effect") == "x").astype(int),
    ]
    deviations = pd.Series({"std(level, intercept)": SDS[0], "std(level, x)": SDS[1]})
    return {
        "coefficients": covered(table, pd.Series({"x": 0.7, "z": -0.3, "intercept": 0.5})).mean(),
        "deviations": covered(table, deviations).mean(),
        "effects": np.mean((effects["lower"] <= at) & (at <= effects["upper"])),
        "correlation": covered(table, pd.Series({"cor(level, intercept, x)": RHO})).mean(),
    }


def precisions(n: int, rng: Any) -> dict[str, float]:
    """Eight columns of large and eight of small coefficients, which stay as they are from set to set."""
    names = [f"a_{k}" for k in range(8)] + [f"b_{k}" for k in range(8)]
    truth = pd.Series(np.r_[LARGE * np.linspace(-1.5, 1.5, 8), SMALL * np.linspace(-1.5, 1.5, 8)], names)
    X = Frame(rng.standard_normal((n, 16)), columns=names)
    y = X @ truth + 2.0 * rng.standard_normal(n)
    fit = BayesianGLMRegressor(prior_precision={"a_*": "auto", "b_*": "auto"}).fit(X, y)
    own, joint = covered(fit.summary(), truth), covered(fit.summary(effects="joint"), truth)
    return {"coefficients": own.mean(), "large": joint[:8].mean(), "small": joint[8:].mean()}


def run(name: str, case: Callable[[Any], dict[str, float]], sets: int, seed: int = 0) -> dict[str, Any]:
    """The row of a case: what intervals hold, means over sets, with the largest of their standard errors."""
    found = Frame([case(np.random.default_rng([seed, number])) for number in range(sets)])
    error = (found.std(ddof=1) / np.sqrt(sets)).max()
    return {"case": name, "sets": sets, **found.mean().to_dict(), "largest se": float(error)}


def main(quick: bool = False) -> None:
    sets, few = (4, 4) if quick else (SETS, STRONG_SETS)
    rows = []
    for std in STRONG:
        rows.append(run(f"60 x 5 labels, sd {std:g}", lambda rng, std=std: strong(std, rng), few))
        progress(rows[-1])
    report("truth/group_coverage_strong", "Strong effects of levels with few binary rows", rows, quick=quick)
    rows = []
    for labels, name in ((False, "Gaussian, 40 x 8"), (True, "labels, 40 x 16")):
        rows.append(run(name, lambda rng, labels=labels: slopes(labels, rng), sets))
        progress(rows[-1])
    report("truth/group_coverage_slopes", "Correlated intercepts and slopes", rows, quick=quick)
    rows = []
    for n in (60, 200):
        rows.append(run(f"8 + 8 columns, {n} rows", lambda rng, n=n: precisions(n, rng), sets))
        progress(rows[-1])
    notes = [
        'Coefficients as `summary()` shows them; large and small ones under the joint prior (`effects="joint"`), '
        "where each is drawn towards zero by the scale of its group."
    ]
    report("truth/group_coverage_precisions", "Groups of precisions", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
