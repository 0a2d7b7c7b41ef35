"""The default concentration beside two others: classes that are used, over seeds, and new rows, for 2 to 15 components.

found: components used, the smallest and the largest number over seeds. density: nats a new row, averaged over seeds.
Second table: agree, the share of the rows of the first in which all seeds use the same number; behind, nats a new row
below the best of the three concentrations with these components, and below the best of any number, on average and at
worst. Third table: groups of unequal size, as many components as there are; held: share of 90 % intervals of weights
that hold the truth, where as many are found.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.mixture.small import SIMULATED, real, simulated

TITLE = "Concentration of the weights of a mixture"
NOTES = [
    "Tables of mixture.small, one split of each. Four seeds; q without the sweeps that follow it. "
    "auto: the smaller of 40 / K and 2 K, at least K / 20, the default."
]
WEIGHTS_NOTES = ["90 % intervals of weights, standard errors 0.03 to 0.06. 40 / K: the default until now."]
TABLES = ("150 x 6, 3 groups, 3 values", "200 x 10, 3 groups, 2 values", "iris", "wine", "breast cancer")
COMPONENTS = (2, 3, 4, 5, 6, 8, 10, 15)
#: Weights, rows, columns and the two probabilities of a one in a column, of which each group has one.
UNEQUAL = (
    ((0.9, 0.1), 60, 20, (0.1, 0.9)),
    ((0.97, 0.03), 300, 20, (0.1, 0.9)),
    ((0.9, 0.07, 0.03), 150, 20, (0.1, 0.9)),
    ((0.8, 0.2), 100, 6, (0.25, 0.75)),
    ((0.5, 0.5), 60, 6, (0.3, 0.7)),
    ((0.25, 0.25, 0.25, 0.25), 200, 20, (0.1, 0.9)),
)
CONCENTRATIONS: dict[str, Any] = {"auto": lambda K: "auto", "1": lambda K: 1.0, "20 / K": lambda K: 20.0 / K}


def fitted(rows: Any, new: Any, K: int, concentration: Any, seeds: int) -> tuple[list[int], float]:
    """Components that fits of several seeds use, and the mean density of new rows."""
    from sksvi import CategoricalMixture

    model, used, scores = CategoricalMixture(K, concentration=concentration, uncertainty="variational"), [], []
    for seed in range(seeds):
        model.set_params(random_state=seed).fit(rows)
        used.append(model.n_components_)
        scores.append(model.score(new))
    return used, float(np.mean(scores))


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each concentration over all tables and numbers of components."""
    best, found = {row["table"]: -np.inf for row in rows}, []
    for row in rows:
        best[row["table"]] = max(best[row["table"]], *(row[f"{name}: density"] for name in CONCENTRATIONS))
    for name in CONCENTRATIONS:
        own = np.array([row[f"{name}: density"] for row in rows])
        behind = np.array([max(row[f"{other}: density"] for other in CONCENTRATIONS) for row in rows]) - own
        all_behind = np.array([best[row["table"]] for row in rows]) - own
        agree = float(np.mean([" to " not in row[f"{name}: found"] for row in rows]))
        found.append({"concentration": name, "agree": agree, "behind": float(behind.mean())})
        found[-1] |= {"behind, at worst": float(behind.max()), "behind any number": float(all_behind.mean())}
    return found


def unequal(weights: tuple[float, ...], n: int, d: int, ones: tuple[float, float], sets: int) -> dict[str, Any]:
    """Intervals of weights, and new rows, over sets of groups of known size."""
    from sksvi import BernoulliMixture

    K, truth = len(weights), np.sort(weights)[::-1]
    found: dict[str, list[Any]] = {"auto": [], "40 / K": []}
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        group, probability = rng.choice(K, n + 1000, p=weights), rng.choice(ones, (K, d))
        X = (rng.random((n + 1000, d)) < probability[group]).astype(float)
        for name, results in found.items():
            model = BernoulliMixture(K, concentration="auto" if name == "auto" else 40.0 / K, random_state=0).fit(X[:n])
            own = model.summary().xs("weight", level=1).sort_values("mean", ascending=False)
            all_found = len(own) == K
            held = np.mean((own["lower"] <= truth) & (truth <= own["upper"])) if all_found else np.nan
            results.append((held, all_found, model.score(X[n:])))
    row: dict[str, Any] = {"weights": ", ".join(map(str, weights)), "rows": n, "columns": d, "sets": sets}
    for name, results in found.items():
        held, all_found, density = np.nanmean(np.array(results, float), axis=0)
        row |= {f"{name}: held": held, f"{name}: as many": all_found, f"{name}: density": density}
    return row


def main(quick: bool = False) -> None:
    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    rows: list[dict[str, Any]] = []
    for table in TABLES[: 1 if quick else None]:
        split = simulated(*SIMULATED[table], 0) if table in SIMULATED else real(table, 0)
        for K in COMPONENTS[:: 4 if quick else 1]:
            row: dict[str, Any] = {"table": table, "components": K}
            for name, of in CONCENTRATIONS.items():
                used, density = fitted(split.rows, split.new, K, of(K), 2 if quick else 4)
                ends = f"{min(used)} to {max(used)}" if min(used) < max(used) else str(used[0])
                row |= {f"{name}: found": ends, f"{name}: density": density}
            rows.append(row)
            progress(row)
    report("mixture/concentration", TITLE, rows, NOTES, quick)
    report("mixture/concentration_summary", f"{TITLE}: all tables and numbers", summary(rows), NOTES, quick)
    known = [unequal(*one, 2 if quick else 50) for one in UNEQUAL[: 1 if quick else None]]
    report("mixture/concentration_weights", "Weights of groups of unequal size", known, WEIGHTS_NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
