"""90 % intervals of all pairs of a factor's levels, one by one and all together, of simulated data, with nothing set.

Beside the factor two columns of numbers, one of which has an effect; of mixed models groups of five rows besides.
"""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from benchmarks._lib import Array
from benchmarks._lib.cells import by_cells
from benchmarks._lib.tables import arguments, report
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor
from sksvi.inspection import contrasts

NAME = "truth/contrasts"
#: Sets of each kind, by how many levels: three levels take 0.1 CPU seconds a set, six 0.3. Mixed models, which take
#: up to twice as long, have half as many.
SETS = {3: 80, 6: 24}
ROWS = (40, 120, 600)
ROWS_OF_GROUP = 5
SLOPE, BETWEEN = 0.5, 0.7
#: Effects of L levels on f.
EFFECTS: dict[str, Callable[[int], Array]] = {
    "none": np.zeros,
    "moderate": lambda levels: np.linspace(-0.4, 0.4, levels),
    "one strong": lambda levels: 1.5 * (np.arange(levels) == levels - 1),
}
#: Shares of the rows by level; a strong effect is that of the rarest.
UNBALANCED = {3: (0.7, 0.2, 0.1), 6: (0.4, 0.3, 0.1, 0.1, 0.05, 0.05)}
MODELS: dict[str, Callable[[], Any]] = {
    "Gaussian": BayesianGLMRegressor,
    "Poisson": lambda: BayesianGLMRegressor(likelihood="poisson"),
    "logit": BayesianGLMClassifier,
    "mixed, Gaussian": lambda: GMERegressor(groups="group"),
}


@dataclass(frozen=True)
class Case:
    """A kind of data."""

    model: str
    levels: int
    rows: int
    balance: str
    effects: str


def cases() -> list[Case]:
    found = product(MODELS, SETS, ROWS, ("balanced", "unbalanced"), EFFECTS)
    return [Case(*values) for values in found]


def sets_of(case: Case) -> int:
    return SETS[case.levels] // (2 if case.model.startswith("mixed") else 1)


def simulated(case: Case, rng: np.random.Generator) -> tuple[pd.DataFrame, Array, Array]:
    """Rows, target and the effects of the levels."""
    shares = UNBALANCED[case.levels] if case.balance == "unbalanced" else (1 / case.levels,) * case.levels
    ends = np.round(case.rows * np.cumsum([0.0, *shares])).astype(int)
    level = rng.permutation(np.repeat(np.arange(case.levels), np.diff(ends)))
    truth = EFFECTS[case.effects](case.levels)
    X = pd.DataFrame({"plan": np.array(list("ABCDEF"))[level], "x1": rng.normal(size=case.rows)})
    X["x2"] = rng.normal(size=case.rows)
    f = truth[level] + SLOPE * X["x1"].to_numpy()
    if case.model.startswith("mixed"):
        group = rng.permutation(np.arange(case.rows) // ROWS_OF_GROUP)
        X["group"] = group.astype(str)
        f = f + rng.normal(0.0, BETWEEN, group.max() + 1)[group]
    if case.model == "Poisson":
        return X, rng.poisson(np.exp(0.5 + f)), truth
    if case.model == "logit":
        return X, (rng.random(case.rows) < 1 / (1 + np.exp(-f))).astype(int), truth
    return X, f + rng.normal(size=case.rows), truth


def measured(case: Case, number: int, seed: int = 0) -> dict[str, float]:
    """Share of the pairs that are covered one by one, whether all are together, and what intervals are like."""
    X, y, truth = simulated(case, np.random.default_rng([seed, number, zlib.crc32(repr(case).encode())]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MODELS[case.model]().fit(X, y)
    began = time.process_time()
    table = contrasts(model, "plan").table
    seconds = time.process_time() - began
    differences = np.array([truth[i] - truth[j] for i, j in combinations(range(case.levels), 2)])
    one = table[["lower", "upper"]].to_numpy()
    together = table[["simultaneous_lower", "simultaneous_upper"]].to_numpy()
    return {
        "one by one": float(np.mean(inside(one, differences))),
        "together": float(np.all(inside(together, differences))),
        "times as wide": float(np.mean(np.diff(together)) / np.mean(np.diff(one))),
        "CPU s": seconds,
    }


def inside(ends: Array, truth: Array) -> Array:
    return np.asarray((ends[:, 0] <= truth) & (truth <= ends[:, 1]))


def row_of(case: Case, sets: int, n_jobs: int = 2) -> dict[str, Any]:
    """Means over sets, with standard errors of the covers."""
    found = pd.DataFrame(Parallel(n_jobs)(delayed(measured)(case, number) for number in range(sets)))
    row: dict[str, Any] = {"sets": sets}
    for name in ("one by one", "together"):
        row[name] = float(found[name].mean())
        row[f"{name}, se"] = float(found[name].std(ddof=1) / np.sqrt(sets))
    return {**row, "times as wide": float(found["times as wide"].mean()), "CPU s": float(found["CPU s"].median())}


def pooled(rows: Sequence[dict[str, Any]], by: tuple[str, ...]) -> list[dict[str, Any]]:
    """Means of the kinds of data that share the values of ``by``, and the lowest of them."""
    found = []
    for values, part in pd.DataFrame(rows).groupby(list(by), sort=False):
        row = {**dict(zip(by, values, strict=True)), "sets": int(part["sets"].sum())}
        for name in ("one by one", "together"):
            cover, error = part[name], part[f"{name}, se"]
            row[name] = round(float(cover.mean()), 3)
            row[f"{name}, se"] = round(float(np.sqrt(np.sum(error**2)) / len(part)), 3)
            row[f"{name}, lowest"] = round(float(cover.min()), 3)
        found.append({**row, "times as wide": round(float(part["times as wide"].mean()), 2)})
    return found


def main(quick: bool = False) -> None:
    chosen = cases()[:: 41 if quick else 1]
    notes = [
        "Shares of 90 % intervals of `contrasts(model, 'plan')` that hold the simulated difference: of pairs one by "
        "one (mean over pairs), and of sets in which all pairs are inside their simultaneous intervals. Standard "
        "errors over sets; the lowest of six kinds of data is lower than their mean by chance too. Times as wide: "
        "simultaneous intervals beside those of one pair."
    ]
    title = "Intervals of all pairs of levels with nothing set"
    rows = by_cells(
        NAME,
        title,
        [asdict(case) for case in chosen],
        lambda cell: [row_of(Case(**cell), 2 if quick else sets_of(Case(**cell)))],
        notes,
        quick,
    )
    report(f"{NAME}_sizes", f"{title}, by size", pooled(rows, ("model", "levels", "rows")), notes, quick)
    report(f"{NAME}_effects", f"{title}, by effects", pooled(rows, ("model", "balance", "effects")), notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
