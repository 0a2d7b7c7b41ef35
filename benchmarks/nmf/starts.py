"""How much start and seed of Gamma-Poisson factorization matter: tables whose rates are known, several seeds."""

from __future__ import annotations

from contextlib import nullcontext
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.nmf._data import timed
from sksvi.models.nmf import poisson
from sksvi.models.nmf.density import log_poisson

#: Rows, columns, bases, components that are fitted, shape and scale of activations and of cells of bases.
TABLES: dict[str, tuple[int, int, int, int, tuple[float, float], tuple[float, float]]] = {
    "300 x 200, 8 bases": (300, 200, 8, 8, (0.5, 2.0), (0.3, 1.0)),
    "300 x 100, 5 bases": (300, 100, 5, 5, (0.5, 2.0), (0.3, 1.0)),
    "500 x 300, 10 bases, sparse": (500, 300, 10, 10, (0.3, 1.0), (0.2, 0.6)),
    "200 x 64, 6 bases, dense": (200, 64, 6, 6, (1.0, 3.0), (0.5, 2.0)),
    "1000 x 300, 20 bases": (1000, 300, 20, 20, (0.3, 1.0), (0.3, 1.0)),
    "60 x 40, 4 bases": (60, 40, 4, 4, (0.5, 2.0), (0.3, 1.0)),
    "300 x 150, 12 bases, K = 8": (300, 150, 12, 8, (0.5, 2.0), (0.3, 1.0)),
    "300 x 150, 5 bases, K = 10": (300, 150, 5, 10, (0.5, 2.0), (0.3, 1.0)),
}
#: Changes of the defaults; without components to spare the start is that of groups as they are.
METHODS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "tol=1e-6": {"tol": 1e-6, "max_iter": 2000},
    "none to spare": {},
    'init="rows"': {"init": "rows"},
    'init="random"': {"init": "random"},
}
DRAWN, SEEDS, LIKE = 2, 4, 0.9
TITLE = "Starts of Gamma-Poisson factorization"
NOTES = [
    f"Poisson counts at rates of Gamma activations and bases, {DRAWN} tables of each kind, {SEEDS} seeds. found: share "
    f"of the bases that a component is correlated with above {LIKE}. below the best: nats per cell that the bound is "
    "below the largest of any fit to the table, mean and worst. new counts: log probability per cell of counts that "
    "are drawn anew at the same rates, a Poisson at the expected count; spread: between the best and the worst seed of "
    "a table. none to spare: a start from as many groups as there are components. CPU seconds of one thread."
]


def drawn(name: str, seed: int) -> tuple[Array, Array, Array]:
    """Counts, others at the same rates, and the bases."""
    n, F, bases, _, row_prior, of_bases = TABLES[name]
    rng = np.random.default_rng([seed, list(TABLES).index(name)])
    W = rng.gamma(*of_bases, (bases, F))
    rates = rng.gamma(*row_prior, (n, bases)) @ W
    return rng.poisson(rates).astype(float), rng.poisson(rates), W


def fitted(name: str, number: int, method: str, seed: int) -> dict[str, float]:
    """One fit."""
    from sksvi import GammaPoissonFactorization

    X, again, W = drawn(name, number)
    model = GammaPoissonFactorization(
        TABLES[name][3], uncertainty="variational", random_state=seed, n_jobs=1, **METHODS[method]
    )
    with patch.object(poisson, "SURPLUS", 1.0) if method == "none to spare" else nullcontext():
        seconds = timed(model, X)
    like = np.corrcoef(model.components_, W)[: len(model.components_), len(model.components_) :].max(0)
    score = float(log_poisson(again, model.reconstruct(X)).mean())
    return {"bound": model.lower_bound_ / X.size, "found": float(np.mean(like > LIKE)), "new": score, "s": seconds}


def summary(name: str, method: str, fits: list[list[dict[str, float]]], best: list[float]) -> dict[str, Any]:
    """Of the fits of each table."""
    every = [fit for of_table in fits for fit in of_table]
    below = [top - fit["bound"] for of_table, top in zip(fits, best, strict=True) for fit in of_table]
    spread = [max(fit["new"] for fit in of_table) - min(fit["new"] for fit in of_table) for of_table in fits]
    return {
        "table": name,
        "method": method,
        "found": fmean(fit["found"] for fit in every),
        "below the best": fmean(below),
        "worst": max(below),
        "new counts": fmean(fit["new"] for fit in every),
        "spread": fmean(spread),
        "CPU seconds": fmean(fit["s"] for fit in every),
    }


def main(quick: bool = False) -> None:
    from sksvi import GammaPoissonFactorization

    rows: list[dict[str, Any]] = []
    numbers, seeds = (range(1), range(2)) if quick else (range(DRAWN), range(SEEDS))
    timed(GammaPoissonFactorization(3, max_iter=2, n_jobs=1), drawn("60 x 40, 4 bases", 0)[0])
    for name in list(TABLES)[-3:-2] if quick else TABLES:
        fits = {how: [[fitted(name, number, how, seed) for seed in seeds] for number in numbers] for how in METHODS}
        best = [max(fit["bound"] for of_tables in fits.values() for fit in of_tables[number]) for number in numbers]
        for how, of_tables in fits.items():
            rows.append(summary(name, how, of_tables, best))
            progress(rows[-1])
        report("nmf/starts", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
