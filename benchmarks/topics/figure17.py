"""Figure 17 of Sheth & Khardon: the bound against seconds on mail, optimal bound and mean field, ten topics.

Theirs is a part of Enron: 4,000 mails, 22,505 words, 617,666 words in all. Enron is not at hand; the stand-in are as
many postings of 20 newsgroups, without the words that more than a quarter of them have (Enron is without stop words),
and of the others the 22,505 most frequent. Test NLL, which the paper does not show, is by document completion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.cells import Row, by_cells
from benchmarks._lib.tables import arguments
from benchmarks.topics._data import Split, compiled, corpus, draw_paths, path, small, split

BATCH: dict[str, Any] = {"batch_size": None, "topics": "point"}
METHODS: dict[str, dict[str, Any]] = {
    "optimal, h-mc-ssvi": BATCH | {"bound": "optimal", "algorithm": "h-mc-ssvi"},
    "optimal": BATCH | {"bound": "optimal"},
    "mean field": BATCH | {"bound": "mean-field"},
}
DOCUMENTS, WORDS, COMMON, TOPICS = 5000, 22_505, 1 / 4, 10
#: Passes at which a fit is scored, and the CPU seconds after which it goes no further.
PASSES, LIMIT = (1, 2, 4, 8, 16, 32, 64, 128), 20.0


def postings(quick: bool) -> Split:
    """4,000 postings to fit and 1,000 to test."""
    X = corpus("newsgroups20")["X"]
    X = X[np.sort(np.random.default_rng(0).permutation(X.shape[0])[:DOCUMENTS])]
    kept = np.flatnonzero(np.asarray((X > 0).sum(0)).ravel() <= COMMON * DOCUMENTS)
    totals = np.asarray(X.sum(0)).ravel()[kept]
    X = X[:, np.sort(kept[np.argsort(-totals, kind="stable")[:WORDS]])]
    found = split(X[np.asarray((X > 0).sum(1)).ravel() > 1])
    return small(found) if quick else found


def main(quick: bool = False) -> None:
    from sksvi import CorrelatedTopicModel

    found = postings(quick)

    def run(cell: Row) -> list[Row]:
        compiled(TOPICS, found.train, **METHODS[cell["method"]])
        model = CorrelatedTopicModel(TOPICS, random_state=0, uncertainty="variational", **METHODS[cell["method"]])
        rows = path(model, found, PASSES[:2] if quick else PASSES, LIMIT)
        return [{"test NLL": -row.pop("log p per word"), **row} for row in rows]

    notes = [
        f"Stand-in for Enron: {found.train.shape[0]:,} postings of 20 newsgroups to fit, {found.train.shape[1]:,} "
        f"words, {found.train.sum():,.0f} words in all (the paper: 4,000, 22,505 and 617,666). K = {TOPICS}, diagonal "
        "covariances, all documents per step, topics are points with the same start. Bound (with the log prior of the "
        "topics) and test NLL by completion in nats per word; CPU seconds of the fits, one thread; a method ends after "
        f"{LIMIT:g} s. Figure: results/topics/figure17.png."
    ]
    cells = [{"method": name} for name in METHODS]
    title = "CTM on postings: optimal bound and mean field (Figure 17)"
    rows = by_cells("topics/figure17", title, cells, run, notes, quick)
    if not quick:
        draw_paths("figure17", rows, METHODS)


if __name__ == "__main__":
    main(arguments(__doc__))
