"""Topics at the means of q and of the chain that ends a fit: held-out words, and the distance from known topics.

Four fifths of the documents are fitted with both values of ``uncertainty``, the rest are scored by `score`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.topics._data import corpus
from benchmarks.truth.topics import UNCERTAINTY, nearest
from benchmarks.truth.topics import corpus as simulated

KINDS = ("StructuredLDA", "CorrelatedTopicModel")
#: Texts with their most documents, and sizes of simulated ones: documents, words of each, topics.
TEXTS = {"ap_blei": 2246, "nips_uci_min21": 1500, "newsgroups20": 4000}
SIZES = ((200, 8, 4), (200, 30, 4), (200, 300, 4), (1000, 60, 20))
SIMULATED = {f"{n} of {words} words, {topics} topics": (n, words, topics) for n, words, topics in SIZES}
#: Topics of the texts, and sets of simulated documents.
K, SETS = 20, 6


def documents(name: str, number: int, quick: bool) -> tuple[Any, Any, int]:
    """Counts of all documents in a random order, topics where they are known, and how many are asked for."""
    if name in TEXTS:
        X = corpus(name)["X"]
        rows = np.random.default_rng(0).permutation(X.shape[0])[: 200 if quick else TEXTS[name]]
        X = X[rows]
        return X[:, np.asarray((X > 0).sum(0)).ravel() >= 5], None, K
    n, words, topics = SIMULATED[name]
    X, _, truth = simulated(np.random.default_rng([number, 0]), n * 5 // 4, words, topics, 25 * topics, 0.5, 0.05)
    return X, truth, topics


def compared(name: str, kind: str, quick: bool = False) -> dict[str, float]:
    """Means over sets of what both fits score, and of how far their topics are from the truth."""
    import sksvi

    found: dict[str, list[float]] = {}
    for number in range(1 if quick or name in TEXTS else SETS):
        X, truth, topics = documents(name, number, quick)
        first = round(0.8 * X.shape[0])
        for uncertainty in UNCERTAINTY:
            model = getattr(sksvi, kind)(topics, uncertainty=uncertainty, random_state=number)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X[:first])
            found.setdefault(f"{uncertainty}: log p per word", []).append(model.score(X[first:]))
            if truth is not None:
                mine, its = nearest(model.components_, truth)
                off = np.abs(model.components_[mine] - truth[its]).sum(1).mean() / 2
                found.setdefault(f"{uncertainty}: distance", []).append(off)
    return {key: float(np.mean(values)) for key, values in found.items()}


NOTES = [
    f"log p per word: `score` of a fifth of the documents, nats; 4,000 documents of newsgroups, words of at least five "
    f"documents, {K} topics. Distance: total variation between each topic and the true one that it is nearest to in "
    f"sum; means over {SETS} sets of simulated documents, whose proportions have α = 0.5 and topics η = 0.05."
]


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    columns = [f"{uncertainty}: {what}" for what in ("log p per word", "distance") for uncertainty in UNCERTAINTY]
    for name in (*TEXTS, *SIMULATED):
        for kind in KINDS:
            found = compared(name, kind, quick)
            rows.append({"documents": name, "model": kind} | {key: found.get(key) for key in columns})
            progress(rows[-1])
            report("topics/means", "Topics at the means of q and of the chain", rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
