"""Whether `lower_bound_` ranks models as the density of new rows does: priors of coefficients, and numbers of groups.

Of each pair of models that were fitted to the same rows, those count whose densities of new rows differ by more than
two standard errors, and of them the share in which `lower_bound_` prefers the same. "point" is the same with
``hyperparameters="point"``, whose bound has no price of what was learned.
"""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMEClassifier, GMERegressor
from sksvi.testing import simulate_glm

TRUTHS = ("null", "one", "few", "dense", "heavy")
SIZES = ((40, 8), (100, 15), (100, 30), (300, 30))
REPLICAS, NEW, LEVELS, ROWS = 10, 1000, 12, 120
#: Standard deviations between the levels of each of two groups.
BETWEEN = {"none": (0.0, 0.0), "one": (0.7, 0.0), "two": (0.7, 0.7)}
Answer = tuple[float, Array]
Fitted = dict[str, Answer]


def answer(model: Any, X: Any, y: Array, new: Any, y_new: Array) -> Answer:
    """Bound, and log density of each new row."""
    model.fit(X, y)
    return model.lower_bound_, model.log_predictive_density(new, y_new)


def of_priors(likelihood: str, truth: str, n: int, d: int, seed: int, hyperparameters: str) -> Fitted:
    """Fits under each prior; without the flat one where the data do not determine a coefficient."""
    data = simulate_glm(n, d, likelihood=likelihood, effects=truth, n_new=NEW, random_state=seed)
    kind = BayesianGLMRegressor if likelihood == "gaussian" else BayesianGLMClassifier
    new, found = data.new["new"], {}
    for prior in ("auto", "ard", "flat"):
        try:
            model = kind(prior_precision=prior, hyperparameters=hyperparameters)
            found[prior] = answer(model, data.X, data.y, new.X, new.y)
        except ValueError as error:
            if prior != "flat" or "do not determine" not in str(error):
                raise
    return found


def of_groups(likelihood: str, between: tuple[float, float], seed: int, hyperparameters: str) -> Fitted:
    """Fits without groups, with the first of two, and with both."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, LEVELS, (ROWS + NEW, 2))
    f = rng.standard_normal(ROWS + NEW)
    X = pd.DataFrame({"x": f, "site": levels[:, 0].astype(str), "rater": levels[:, 1].astype(str)})
    for column, std in enumerate(between):
        f = f + std * rng.standard_normal(LEVELS)[levels[:, column]]
    measured = likelihood == "gaussian"
    y = f + rng.standard_normal(len(f)) if measured else (rng.random(len(f)) < expit(f)).astype(int)
    known = np.all([np.isin(X[name], X[name][:ROWS]) for name in ("site", "rater")], axis=0)
    rows, new = slice(0, ROWS), np.flatnonzero(known)[ROWS:]
    options: dict[str, Any] = {"hyperparameters": hyperparameters}
    alone, grouped = (BayesianGLMRegressor, GMERegressor) if measured else (BayesianGLMClassifier, GMEClassifier)
    found = {"no group": answer(alone(**options), X[["x"]][rows], y[rows], X[["x"]].iloc[new], y[new])}
    for groups in (["site"], ["site", "rater"]):
        model, table = grouped(groups=groups, **options), X[["x", *groups]]
        found[" and ".join(groups)] = answer(model, table[rows], y[rows], table.iloc[new], y[new])
    return found


def cases(replicas: int) -> Iterator[tuple[str, str, str, Callable[[str], Fitted]]]:
    """Question, likelihood, truth and the fits."""
    for likelihood, seed in itertools.product(("gaussian", "logit"), range(replicas)):
        for truth, (n, d) in itertools.product(TRUTHS, SIZES):
            yield "prior", likelihood, truth, partial(of_priors, likelihood, truth, n, d, seed)
        for truth, between in BETWEEN.items():
            yield "groups", likelihood, truth, partial(of_groups, likelihood, between, seed)


def agreements(fits: Fitted) -> dict[str, bool]:
    """Of pairs whose densities differ by more than two standard errors, whether bounds say the same."""
    found = {}
    for one, other in itertools.combinations(fits, 2):
        gain = fits[one][1] - fits[other][1]
        if abs(gain.mean()) > 2.0 * gain.std() / np.sqrt(len(gain)):
            found[f"{one} or {other}"] = bool((fits[one][0] > fits[other][0]) == (gain.mean() > 0))
    return found


def main(quick: bool = False) -> None:
    right: dict[tuple[str, ...], dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for question, likelihood, truth, fitted in cases(1 if quick else REPLICAS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for hyperparameters in ("integrated", "point"):
                for pair, same in agreements(fitted(hyperparameters)).items():
                    for key in ((likelihood, pair), ("both", "any")):
                        right[question, truth, *key][hyperparameters].append(same)
    rows = []
    for key, of in sorted(right.items()):
        sets = {"sets": len(of["integrated"])}
        shares = {name: float(np.mean(of[name])) if of[name] else np.nan for name in ("integrated", "point")}
        rows.append(dict(zip(("question", "truth", "likelihood", "pair"), key, strict=True)) | sets | shares)
        progress(rows[-1])
    notes = [
        f"Sets: pairs of fits whose densities of {NEW} new rows differ by more than two standard errors; the share of "
        'them in which `lower_bound_` prefers the same, by default and with `hyperparameters="point"`. Priors: '
        f"{', '.join(f'{n} x {d}' for n, d in SIZES)} rows x columns; groups: {ROWS} rows, {LEVELS} levels of each."
    ]
    report("glm/ranks", "Does the bound rank models as new rows do?", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
