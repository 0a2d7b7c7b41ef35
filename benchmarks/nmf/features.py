"""PoissonFactorization with columns of users and items, and without: users, items and both that have no counts.

Simulated counts whose factors follow kinds, ages and genres (`support.cold_starts`). gain: log probability of all pairs
of a user beyond that of the fit without columns, nats. NDCG@10 is of recommendations to users without counts.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib.tables import arguments, progress, report
from sksvi.metrics import ndcg_score
from support.cold_starts import ColdStarts, K

SEEDS = 6
OLD_USERS, NEW_USERS, OLD_ITEMS, NEW_ITEMS = np.arange(200), np.arange(200, 300), np.arange(60), np.arange(60, 80)
#: Who has no counts.
COLD = {
    "users": (NEW_USERS, OLD_ITEMS),
    "items": (OLD_USERS, NEW_ITEMS),
    "both": (NEW_USERS, NEW_ITEMS),
}
NOTES = [
    f"Means over {SEEDS} simulated sets and their standard errors; all else at the defaults, but for the shapes of the "
    "factors' priors. noise: four columns of users that say nothing."
]


def measured(truth: ColdStarts, shape: float) -> dict[str, dict[str, float]]:
    """NDCG@10 and gains of the fits of one set, by the columns that they have."""
    from sksvi import PoissonFactorization

    tables: dict[str, dict[str, Any]] = {
        "none": {},
        "both": {"user_features": truth.users, "item_features": truth.items},
        "noise": {"user_features": truth.noise},
    }
    options = {"component_shape": shape, "activation_shape": shape, "random_state": 0, "on_unseen": "ignore"}
    fits = {name: PoissonFactorization(K, **options, **given).fit(truth.X, truth.y) for name, given in tables.items()}
    pairs, y = truth.pairs(*COLD["users"])
    held, found = pairs[y > 0], {}
    for name, fit in fits.items():
        found[name] = {"NDCG@10": ndcg_score(held, fit.recommend(pd.unique(held["user"]), 10), k=10)}
        for cold, ids in COLD.items():
            asked, counts = truth.pairs(*ids)
            gain = fit.log_predictive_density(asked, counts) - fits["none"].log_predictive_density(asked, counts)
            found[name][f"gain, new {cold}"] = float(gain.sum() / len(ids[0]))
        found[name]["bound above none"] = fit.lower_bound_ - fits["none"].lower_bound_
    return found


def main(quick: bool = False) -> None:
    rows = []
    for shape in (0.3, 1.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sets = [measured(ColdStarts(seed), shape) for seed in range(2 if quick else SEEDS)]
        for columns in sets[0]:
            row: dict[str, Any] = {"shapes": shape, "columns of": columns}
            for name in sets[0][columns]:
                values = np.array([one[columns][name] for one in sets])
                row |= {name: values.mean(), f"{name}, se": values.std(ddof=1) / np.sqrt(len(values))}
            rows.append(row)
            progress(row)
    report("nmf/features", "Counts with columns of users and items", rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
