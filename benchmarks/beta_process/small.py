"""Structured against mean-field steps on small data: bounds and held-out entries, and one judged where the other ends.

Given the globals' posterior the structured bound, the mean over draws of the globals of each row's best bound, is at
least the mean-field bound, the best of the mean over draws (Jensen): ``mc-ssvi`` should end no lower than ``cvi``. The
rows "from cvi" go on from where ``cvi`` ends: one pass says what the structured bound is there (the globals have hardly
moved), many where its steps lead.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.cells import by_cells
from benchmarks._lib.tables import arguments, report
from benchmarks.beta_process._methods import METHODS

#: Draws of simulated data, passes of noisy steps, and passes of those that go on.
SEEDS, PASSES, ON = 5, 300, (1, 300)
#: Factors that are given.
FACTORS = 12


def simulated(seed: int) -> Array:
    """400 x 20: six factors, each used by 35 % of the rows, noise of standard deviation 0.1."""
    rng = np.random.default_rng(seed)
    z, w = rng.random((400, 6)) < 0.35, rng.standard_normal((400, 6))
    return (z * w) @ rng.standard_normal((6, 20)) + 0.1 * rng.standard_normal((400, 20))


def rows_of(name: str, seed: int) -> Array:
    """Simulated rows, or the real ones of a set: every seed takes other rows, and holds out other entries."""
    from sklearn import datasets

    if name == "simulated":
        return simulated(seed)
    X = {"digits": datasets.load_digits, "breast cancer": datasets.load_breast_cancer}[name]().data
    X = X[np.random.default_rng(seed).permutation(len(X))[:300]]
    spread = X.std(axis=0)
    return (X[:, spread > 0] - X.mean(axis=0)[spread > 0]) / spread[spread > 0]


def scores(model: Any, X: Array, asked: Array, passes: int) -> dict[str, Any]:
    known, truth = np.where(asked, np.nan, X), np.where(asked, X, np.nan)
    error = (X - model.impute(known))[asked]
    density = model.log_predictive_density(known, truth).sum() / asked.sum()
    row = {"passes": passes, "bound": float(model.lower_bound_), "held-out rmse": float(np.sqrt(np.mean(error**2)))}
    return row | {"log density": float(density), "used": float(model.feature_probability_.sum())}


def run(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One fit and, of the mean-field ones by expectations, where draws lead from its end."""
    from sksvi import BetaProcessFA

    X = rows_of(cell["data"], cell["seed"])
    asked = np.random.default_rng(100 + cell["seed"]).random(X.shape) < 0.1
    algorithm, local_step = METHODS[cell["method"].removesuffix(", from cvi")]
    options: dict[str, Any] = {"local_step": local_step, "random_state": cell["seed"], "weight_precision": "learned"}
    begins = "cvi" if "from" in cell["method"] else algorithm
    model = BetaProcessFA(FACTORS, algorithm=begins, max_iter=PASSES, **options)
    noisy = begins == "mc-ssvi" or local_step == "gibbs"
    model.set_params(tol=0.0 if noisy else 1e-6)
    model.fit(np.where(asked, np.nan, X))
    if begins == algorithm:
        yield scores(model, X, asked, model.n_iter_)
        return
    model.set_params(algorithm=algorithm, warm_start=True, tol=0.0)
    for passes in ON:
        model.set_params(max_iter=passes).fit(np.where(asked, np.nan, X))
        yield scores(model, X, asked, passes)


def summary(rows: list[dict[str, Any]], quick: bool) -> None:
    """Means over seeds, and what a method is ahead of mean field by expectations, with the standard error."""
    table = []
    for name, method, passes in dict.fromkeys((row["data"], row["method"], which(row)) for row in rows):
        mine = {r["seed"]: r for r in rows if (r["data"], r["method"], which(r)) == (name, method, passes)}
        base = {r["seed"]: r for r in rows if (r["data"], r["method"]) == (name, "MF-SVI")}
        row: dict[str, Any] = {"data": name, "method": method, "passes": passes, "seeds": len(mine)}
        for what in ("bound", "held-out rmse", "log density"):
            ahead = np.array([mine[seed][what] - base[seed][what] for seed in mine if seed in base])
            row[what] = float(np.mean([r[what] for r in mine.values()]))
            row[f"{what} ahead"] = float(ahead.mean()) if len(ahead) else None
            row[f"± {what}"] = float(ahead.std(ddof=1) / np.sqrt(len(ahead))) if len(ahead) > 1 else None
        table.append(row)
    report("beta_process/small_summary", "Structured and mean-field steps on small data, means", table, NOTES, quick)


def which(row: dict[str, Any]) -> str:
    return str(row["passes"]) if "from" in row["method"] else "all"


NOTES = [
    f"Three sets, {SEEDS} seeds of rows, of the tenth of entries that is held out and of the fit; {FACTORS} factors, "
    f"precision of the weights learned, all rows in every step, {PASSES} passes or where `cvi` ends by itself. bound: "
    "`lower_bound_`, nats, of each method; that of draws (Gibbs) is an estimate of a lower bound of it. log density: "
    "nats per held-out entry. From cvi: begun where the same local step by `cvi` ends; after one pass the globals are "
    "hardly elsewhere. ahead: of MF-SVI on the same rows, ±: its standard error over the seeds."
]


def main(quick: bool = False) -> None:
    warnings.simplefilter("ignore")
    methods = [*METHODS, "Titsias-SSVI, from cvi", "MF-SSVI, from cvi"]
    sets = ("simulated", "digits", "breast cancer")
    cells = [{"data": name, "seed": seed, "method": m} for name in sets for seed in range(SEEDS) for m in methods]
    title = "Structured and mean-field steps on small data"
    rows = by_cells("beta_process/small", title, cells[4:5] if quick else cells, run, NOTES, quick)
    summary(rows, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
