"""The precision of the weights, learned or held at its prior mean: held-out entries of small matrices.

Real and simulated rows with missing entries. ``weight_precision="auto"``, the default of `BetaProcessFA`, is 1 from 1.5
rows per column on, and learned below. ``R²`` is the share of the squares about the columns' means that is explained,
over the entries that were held out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.measures import LEVEL
from benchmarks._lib.tables import arguments, progress, report

SEEDS = 2
PRECISIONS: tuple[float | str, ...] = ("learned", 1.0)


def standardised(X: Any) -> Array:
    X = np.asarray(X, float)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def simulated(rows: int, columns: int, factors: int, seed: int) -> Callable[[], Array]:
    from sksvi.datasets import make_beta_process

    return lambda: np.asarray(make_beta_process(rows, columns, n_components=factors, random_state=seed).data)


def sets() -> dict[str, tuple[Callable[[], Array], float]]:
    """Rows by name, and the share of entries that is seen."""
    from sklearn import datasets

    from benchmarks.glm.small_sets import SETS

    return {
        "digits (every 9th)": (lambda: datasets.load_digits().data[::9], 0.4),
        "digits (every 15th)": (lambda: datasets.load_digits().data[::15], 0.5),
        "digits (64)": (lambda: datasets.load_digits().data[:64], 0.5),
        "100 columns, 6 factors (simulated)": (simulated(100, 100, 6, 2), 0.6),
        "sonar (every 4th)": (lambda: standardised(SETS["sonar"]()[0])[::4], 0.6),
        "breast cancer": (lambda: standardised(datasets.load_breast_cancer().data)[:300], 0.5),
        "wine": (lambda: standardised(datasets.load_wine().data), 0.7),
        "sonar": (lambda: standardised(SETS["sonar"]()[0]), 0.6),
        "diabetes": (lambda: datasets.load_diabetes().data, 0.7),
        "10 columns, 4 factors (simulated)": (simulated(200, 10, 4, 14), 0.5),
        "40 columns, 20 factors (simulated)": (simulated(300, 40, 20, 1), 0.5),
        "wine (every 5th)": (lambda: standardised(datasets.load_wine().data[::5]), 0.7),
        "colon cancer, 31 genes": (lambda: standardised(SETS["colon-cancer"]()[0][:, :31]), 0.6),
        "400 columns, 4 factors (simulated)": (simulated(100, 400, 4, 3), 0.7),
        "colon cancer, 500 genes": (lambda: standardised(SETS["colon-cancer"]()[0][:, :500]), 0.6),
    }


def one(X: Array, share: float, precision: float | str, seed: int) -> tuple[float, ...]:
    """R², cover, log density per held-out entry, and the precision."""
    from scipy.special import ndtri

    from sksvi import BetaProcessFA

    seen = np.random.default_rng(seed).random(X.shape) < share
    known, asked = np.where(seen, X, np.nan), ~seen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BetaProcessFA(weight_precision=precision, random_state=seed).fit(known)
    mean, std = model.impute(known, return_std=True)
    error, null = (X - mean)[asked], (X - np.nanmean(known, axis=0))[asked]
    hits = np.abs(error) <= ndtri(0.5 + LEVEL / 2) * std[asked]
    density = model.log_predictive_density(known, np.where(asked, X, np.nan)).sum() / asked.sum()
    learned = float(model.posterior_["weight_precision"].mean[0])
    return 1 - np.sum(error**2) / np.sum(null**2), hits.mean(), density, learned


def rows_of(name: str, load: Callable[[], Array], share: float, seeds: int) -> list[dict[str, Any]]:
    X, rows = load(), []
    for precision in PRECISIONS:
        found = np.array([one(X, share, precision, seed) for seed in range(seeds)])
        row: dict[str, Any] = {"data": name, "rows": len(X), "columns": X.shape[1], "seen": share}
        row |= {"weight_precision": str(precision)}
        names = ("R²", "covered", "log density", "precision")
        rows.append(row | dict(zip(names, map(float, found.mean(axis=0)), strict=True)))
        progress(rows[-1])
    return rows


def main(quick: bool = False) -> None:
    chosen = list(sets().items())[2:6:3] if quick else list(sets().items())
    rows = [row for name, (load, share) in chosen for row in rows_of(name, load, share, 1 if quick else SEEDS)]
    notes = [f"Means over {SEEDS} seeds of what is held out and of the fit; log density in nats per held-out entry."]
    report("beta_process/weights", "The weights' precision, learned or 1", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
