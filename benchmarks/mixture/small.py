"""Survey-sized tables: groups found by default, by fewer components, without moves and in a stream, and new rows.

found: components used, the smallest and the largest number over tables and seeds. behind: nats a new row behind the
best method of that kind of table. moves gain: by how much moves, steps on all rows and other starts raise the bound,
as a share of it.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report

TITLE = "Mixtures of survey-sized tables"
NOTES = [
    "Simulated: weights Dir(5), probabilities Dir(0.5) in each column, 1,000 new rows, six tables. Real: measured "
    "columns cut into quartiles, images of 8 x 8 pixels cut at 7; two thirds of the rows of two splits are fitted. "
    "Two seeds each. Medians of CPU seconds. Streams: chunks of 50."
]
#: Name -> rows, columns, groups, values.
SIMULATED = {
    "300 x 5, 2 groups, 3 values": (300, 5, 2, 3),
    "150 x 6, 3 groups, 3 values": (150, 6, 3, 3),
    "300 x 6, 3 groups, 2 values": (300, 6, 3, 2),
    "400 x 6, 3 groups, 3 values": (400, 6, 3, 3),
    "200 x 10, 3 groups, 2 values": (200, 10, 3, 2),
}
REAL = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "q, no chain": {"uncertainty": "variational"},
    "20 components": {"n_components": 20},
    "one component": {"n_components": 1},
    "moves none": {"moves": "none"},
    "stream": {},
    "stream, moves none": {"moves": "none"},
}


class Split(NamedTuple):
    """Rows to fit, and new ones."""

    rows: pd.DataFrame
    new: pd.DataFrame


def coded(codes: Array, values: int) -> pd.DataFrame:
    """Columns that declare their values."""
    columns = {f"q{d}": pd.Categorical.from_codes(column, range(values)) for d, column in enumerate(codes.T)}
    return pd.DataFrame(columns)


def simulated(n: int, D: int, K: int, values: int, seed: int) -> Split:
    """Rows of K groups."""
    rng = np.random.default_rng([seed, n, D, K, values])
    weights, probability = rng.dirichlet(np.full(K, 5.0)), rng.dirichlet(np.full(values, 0.5), (K, D))
    labels = rng.choice(K, n + 1000, p=weights)
    above = rng.random((n + 1000, D, 1)) > probability[labels].cumsum(-1)
    table = coded(np.minimum(above.sum(-1), values - 1), values)
    return Split(table.iloc[:n], table.iloc[n:])


def real(name: str, seed: int) -> Split:
    """Two thirds of a data set, and the rest."""
    X = REAL[name]().data
    values = 2 if name == "digits" else 4
    codes = (X > 7).astype(int) if name == "digits" else (X.argsort(0).argsort(0) * values) // len(X)
    order = np.random.default_rng(seed).permutation(len(X))
    table, cut = coded(codes, values).iloc[order], 2 * len(X) // 3
    return Split(table.iloc[:cut], table.iloc[cut:])


def fitted(method: str, split: Split, seed: int) -> tuple[Any, float]:
    """A model, and CPU seconds."""
    from sksvi import CategoricalMixture

    model = CategoricalMixture(random_state=seed, **METHODS[method])
    start = time.process_time()
    if method.startswith("stream"):
        for first in range(0, len(split.rows), 50):
            model.partial_fit(split.rows.iloc[first : first + 50])
    else:
        model.fit(split.rows)
    return model, time.process_time() - start


def main(quick: bool = False) -> None:
    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    kinds = {name: [simulated(*sizes, seed) for seed in range(1 if quick else 6)] for name, sizes in SIMULATED.items()}
    kinds |= {name: [real(name, seed) for seed in range(1 if quick else 2)] for name in REAL}
    rows: list[dict[str, Any]] = []
    for name, splits in list(kinds.items())[: 1 if quick else None]:
        runs = {m: [fitted(m, split, seed) for split in splits for seed in (0, 1)] for m in METHODS}
        new = [split.new for split in splits for _ in (0, 1)]
        score = {m: np.mean([model.score(t) for (model, _), t in zip(runs[m], new, strict=True)]) for m in METHODS}
        bound = {m: np.array([model.lower_bound_ for model, _ in runs[m]]) for m in METHODS}
        gain = float(np.mean((bound["default"] - bound["moves none"]) / np.abs(bound["moves none"])))
        for m in METHODS:
            used = [model.n_components_ for model, _ in runs[m]]
            row = {"table": name, "method": m, "found": f"{min(used)} to {max(used)}", "log density": float(score[m])}
            row |= {"behind": float(max(score.values()) - score[m]), "moves gain": gain if m == "default" else None}
            rows.append(row | {"CPU seconds": float(np.median([seconds for _, seconds in runs[m]]))})
            progress(rows[-1])
    report("mixture/small", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
