"""A click that was left out, as `nmf.clicks`: GeneralizedPMF with a zero for every pair, beside ALS as chosen there."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.nmf.clicks import TOP, implicit, splits
from sksvi.metrics import catalogue_coverage, ndcg_score, recall_score

#: Another package beside it: only its own name runs it.
STORED = True
TITLE = "A click that was left out, by zeros of all pairs"
PASSES = 5
NOTES = [
    "MovieLens 1M as in `nmf/clicks`, and chosen as there, by NDCG@10 of one held-out click of every user: "
    f"GeneralizedPMF(zero_weight=..., biases=False), y = 1, {PASSES} passes, full covariances. implicit, ALS: where "
    "installed, with the parameters that were chosen in `nmf/clicks`. CPU seconds of one thread, of the fit to all but "
    "the last click."
]
GRID = [(32, 0.1), (32, 0.2), (32, 0.4), (48, 0.2)]
ALS = {"factors": 64, "regularization": 10.0, "alpha": 5.0}


def zeros(train: Any, n_components: int, zero_weight: float) -> Callable[[Any], Any]:
    """A fit of ours, as a function of users to a table of recommended items."""
    from sklearn.exceptions import ConvergenceWarning

    from sksvi import GeneralizedPMF

    options = {"uncertainty": "variational", "random_state": 0, "n_jobs": 1, "max_iter": PASSES, "biases": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the budget is a number of passes
        model = GeneralizedPMF(n_components, zero_weight=zero_weight, **options).fit(train, np.ones(len(train)))
    return lambda users: model.recommend(users, n=TOP)


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    """A row of the table for each method."""
    import pandas as pd

    train, held, test = splits(quick)
    both = pd.concat([train, held])
    zeros(train[train["user"] < 60], 2, 0.3)  # compiles
    scores = []
    for choice in GRID[:2] if quick else GRID:
        scores.append(ndcg_score(held, zeros(train, *choice)(held["user"].to_numpy()), k=10))
        progress({"n_components": choice[0], "zero_weight": choice[1], "validation NDCG@10": scores[-1]})
    size, weight = GRID[int(np.argmax(scores))]
    ours = f"n_components {size}, zero_weight {weight:g}"
    yield measured("GeneralizedPMF", ours, lambda: zeros(both, size, weight), both, test)
    try:
        als = ", ".join(f"{name} {value:g}" for name, value in ALS.items())
        yield measured("implicit, ALS", als, lambda: implicit("implicit, ALS", both, **ALS), both, test)
    except ImportError:
        pass


def measured(method: str, chosen: str, fit: Callable[[], Any], both: Any, test: Any) -> dict[str, Any]:
    """One fit, timed, and what it recommends."""
    started = time.process_time()
    recommend = fit()
    seconds = time.process_time() - started
    table = recommend(test["user"].to_numpy())
    return {
        "method": method,
        "chosen": chosen,
        "NDCG@10": ndcg_score(test, table, k=10),
        f"recall@{TOP}": recall_score(test, table, k=TOP),
        "films shown": catalogue_coverage(np.unique(both["item"]), table, k=TOP),
        "CPU seconds": seconds,
    }


def main(quick: bool = False) -> None:
    found: list[dict[str, Any]] = []
    for row in rows(quick):
        found.append(row)
        progress(row)
        report("nmf/clicks_zeros", TITLE, found, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
