"""One click of every user that was left out: by PoissonFactorization and by implicit, tuned on another one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib.loaders import data_folder
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.nmf.recommend import LIKED
from sksvi.metrics import catalogue_coverage, ndcg_score, recall_score

#: Long runs of another package: only its own name runs it.
STORED = True
TOP, FEWEST = 20, 5
TITLE = "A click that was left out"
NOTES = [
    "MovieLens 1M: ratings of 4 and 5 as clicks, users with at least 5. The data have no times: of every user one "
    "click, at random, is to be found among all films without the user's others (test), and another one chooses the "
    "parameters, by NDCG@10 (validation); the chosen fit is repeated with it. CPU seconds of one thread, of that fit. "
    "implicit: alternating least squares (ALS) and Bayesian personalised ranking (BPR), where installed."
]
GRIDS: dict[str, dict[str, list[Any]]] = {
    "PoissonFactorization": {"n_components": [20, 40, 80, 120], "activation_shape": [0.3, 1.0]},
    "implicit, ALS": {"factors": [32, 64, 128], "regularization": [0.01, 1.0, 10.0], "alpha": [1.0, 5.0, 20.0]},
    "implicit, BPR": {"factors": [32, 64, 128], "learning_rate": [0.01, 0.05], "regularization": [0.01, 0.1]},
}


def splits(quick: bool) -> tuple[Any, Any, Any]:
    """Frames of clicks to fit, to choose parameters by, and to find."""
    import pandas as pd

    with np.load(data_folder() / "ratings" / "movielens_1m.npz") as z:
        liked = z["rating"] >= LIKED
        frame = pd.DataFrame({"user": z["user"][liked], "item": z["item"][liked]})
    frame = frame[frame.groupby("user")["item"].transform("size") >= FEWEST]
    if quick:
        frame = frame[frame["user"].rank(method="dense") <= 300]
    frame = frame.sample(frac=1.0, random_state=0)
    last = frame.groupby("user").cumcount()
    return frame[last > 1], frame[last == 1], frame[last == 0]


def poisson(train: Any, n_components: int, activation_shape: float) -> Callable[[Any], Any]:
    """A fit of ours, as a function of users to a table of recommended items."""
    from sksvi import PoissonFactorization

    options = {"uncertainty": "variational", "random_state": 0, "n_jobs": 1}
    model = PoissonFactorization(n_components, activation_shape=activation_shape, **options).fit(train)
    return lambda users: model.recommend(users, n=TOP)


def implicit(kind: str, train: Any, **options: Any) -> Callable[[Any], Any]:
    """A fit of implicit's, as a function of users to a table of recommended items."""
    import pandas as pd
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    made = {"implicit, ALS": AlternatingLeastSquares, "implicit, BPR": BayesianPersonalizedRanking}[kind]
    users, items = np.unique(train["user"]), np.unique(train["item"])
    entries = users.searchsorted(train["user"]), items.searchsorted(train["item"])
    clicks = sp.csr_matrix((np.ones(len(train), np.float32), entries), shape=(len(users), len(items)))
    model = made(num_threads=1, random_state=0, **options)
    model.fit(clicks, show_progress=False)

    def recommend(wanted: Any) -> Any:
        where = users.searchsorted(wanted)
        ids, _ = model.recommend(where, clicks[where], N=TOP, filter_already_liked_items=True)
        table = {"user": np.repeat(wanted, TOP), "item": items[ids.ravel()]}
        return pd.DataFrame(table).assign(rank=np.tile(np.arange(1, TOP + 1), len(wanted)))

    return recommend


def fitted(name: str, train: Any, options: dict[str, Any]) -> tuple[Callable[[Any], Any], float]:
    """A fit by name and parameters, and its CPU seconds."""
    started = time.process_time()
    found = poisson(train, **options) if name == "PoissonFactorization" else implicit(name, train, **options)
    return found, time.process_time() - started


def chosen(name: str, train: Any, held: Any, quick: bool) -> dict[str, Any]:
    """The parameters of a grid with the largest NDCG@10 on held-out clicks."""
    grid = GRIDS[name]
    options = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    scores = []
    for one in options[:2] if quick else options:
        recommend, seconds = fitted(name, train, one)
        scores.append(ndcg_score(held, recommend(held["user"].to_numpy()), k=10))
        progress({"method": name, **one, "validation NDCG@10": scores[-1], "CPU seconds": seconds})
    return options[int(np.argmax(scores))]


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    """A row of the table for each method."""
    import pandas as pd

    train, held, test = splits(quick)
    both = pd.concat([train, held])
    users, items = test["user"].to_numpy(), np.unique(both["item"])
    poisson(train[train["user"] < 60], 2, 0.3)  # compiles
    for name in GRIDS:
        try:
            best = chosen(name, train, held, quick)
        except ImportError:
            continue
        recommend, seconds = fitted(name, both, best)
        table = recommend(users)
        yield {
            "method": name,
            "chosen": ", ".join(f"{key} {value:g}" for key, value in best.items()),
            "NDCG@10": ndcg_score(test, table, k=10),
            f"recall@{TOP}": recall_score(test, table, k=TOP),
            "films shown": catalogue_coverage(items, table, k=TOP),
            "CPU seconds": seconds,
        }


def main(quick: bool = False) -> None:
    found: list[dict[str, Any]] = []
    for row in rows(quick):
        found.append(row)
        progress(row)
        report("nmf/clicks", TITLE, found, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
