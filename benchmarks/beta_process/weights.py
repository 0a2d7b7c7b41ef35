"""The precision of the weights, learned or held at its prior mean: held-out entries of small matrices.

Real and simulated rows with missing entries. ``weight_precision="auto"``, the default of `BetaProcessFA`, is 1 from 1.5
rows per column on, and learned below. ``R²`` is the share of the squares about the columns' means that is explained,
over the entries that were held out; ``bound`` the fit's ``lower_bound_``, nats per observed entry. A second table takes
40 to 200 rows of sets that the first has not, or of other columns.
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
#: Rows of the second table, and its seeds.
ROWS, ROW_SEEDS = (40, 60, 80, 120, 200), 3


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


def by_rows() -> dict[str, tuple[Array, float]]:
    """Matrices of which some rows are taken, and the share of entries that is seen."""
    from sklearn import datasets

    from benchmarks.glm.small_sets import SETS

    return {
        "iris": (standardised(datasets.load_iris().data), 0.7),
        "wine": (standardised(datasets.load_wine().data), 0.7),
        "diabetes": (datasets.load_diabetes().data, 0.7),
        "breast cancer": (standardised(datasets.load_breast_cancer().data), 0.5),
        "colon cancer, genes 100 to 119": (standardised(SETS["colon-cancer"]()[0][:, 100:120]), 0.6),
        "sonar, 20 bands": (standardised(SETS["sonar"]()[0])[:, :20], 0.6),
        "10 columns, 4 factors (simulated)": (simulated(400, 10, 4, 14)(), 0.5),
        "20 columns, 5 factors (simulated)": (simulated(400, 20, 5, 7)(), 0.6),
        "40 columns, 20 factors (simulated)": (simulated(400, 40, 20, 1)(), 0.5),
        "digits, 32 pixels": (datasets.load_digits().data[:, 16:48], 0.6),
    }


def one(X: Array, share: float, precision: float | str, seed: int) -> tuple[float, ...]:
    """R², cover, log density per held-out entry, the precision, and the bound per observed entry."""
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
    bound = model.lower_bound_ / seen.sum()
    return 1 - np.sum(error**2) / np.sum(null**2), hits.mean(), density, learned, bound


def rows_of(name: str, load: Callable[[], Array], share: float, seeds: int) -> list[dict[str, Any]]:
    X, rows = load(), []
    for precision in PRECISIONS:
        found = np.array([one(X, share, precision, seed) for seed in range(seeds)])
        row: dict[str, Any] = {"data": name, "rows": len(X), "columns": X.shape[1], "seen": share}
        row |= {"weight_precision": str(precision)}
        names = ("R²", "covered", "log density", "precision", "bound")
        rows.append(row | dict(zip(names, map(float, found.mean(axis=0)), strict=True)))
        progress(rows[-1])
    return rows


def counted(name: str, X: Array, share: float, n: int, seeds: int) -> dict[str, Any]:
    """Both choices on n rows: R² and log density where learned, and what 1 gains, with its standard error."""
    found: list[Array] = []
    for seed in range(seeds):
        rows = np.sort(np.random.default_rng(10 + seed).choice(len(X), n, replace=False))
        found.append(np.array([one(X[rows], share, precision, seed)[:3] for precision in PRECISIONS]))
    both = np.array(found)
    gain, learned = both[:, 1] - both[:, 0], both[:, 0].mean(0)
    error = gain.std(0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.full(3, np.nan)
    row: dict[str, Any] = {"data": name, "rows": n, "columns": X.shape[1], "seen": share}
    row |= {"R², learned": learned[0], "R² gained by 1": gain[:, 0].mean(), "± R²": error[0]}
    return row | {"log density, learned": learned[2], "density gained by 1": gain[:, 2].mean(), "± density": error[2]}


def counted_runs(quick: bool) -> None:
    """Few and many rows of the same matrices."""
    rows = []
    for name, (X, share) in list(by_rows().items())[: 1 if quick else None]:
        for n in ROWS[:1] if quick else ROWS:
            if 1.5 * X.shape[1] <= n <= len(X):
                rows.append(counted(name, X, share, n, 1 if quick else ROW_SEEDS))
                progress(rows[-1])
    notes = [f"Means over {ROW_SEEDS} seeds of the rows, of what is held out and of the fit; ±: standard errors."]
    report("beta_process/weights_rows", "The weights' precision by the number of rows", rows, notes, quick)


def main(quick: bool = False) -> None:
    chosen = list(sets().items())[2:6:3] if quick else list(sets().items())
    rows = [row for name, (load, share) in chosen for row in rows_of(name, load, share, 1 if quick else SEEDS)]
    notes = [f"Means over {SEEDS} seeds of what is held out and of the fit; log density in nats per held-out entry."]
    report("beta_process/weights", "The weights' precision, learned or 1", rows, notes, quick)
    counted_runs(quick)


if __name__ == "__main__":
    main(arguments(__doc__))
