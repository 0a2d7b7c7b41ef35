"""Figure 13 of Sheth & Khardon: spread of the importance-sampling score of test documents against samples.

Fifty documents of NIPS papers, K = 20: per word the mean over documents of the estimate, its standard deviation over
repeats, and the effective sample size; beside it the bound of the same documents.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.topics._data import nips

SAMPLES, REPEATS, DOCUMENTS = (10, 100, 1000, 10_000), 8, 30


def main(quick: bool = False) -> None:
    from sksvi import CorrelatedTopicModel

    found = nips(quick)
    K = 5 if quick else 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CorrelatedTopicModel(K, covariance="full", max_iter=2 if quick else 10, random_state=0)
        model.fit(found.train)
    rows: list[dict[str, Any]] = []
    for what, X in (
        ("half of the words", found.observed[:DOCUMENTS]),
        ("a tenth of them", thinned(found.observed, 10)),
    ):
        words = np.asarray(X.sum(1)).ravel()
        for n in SAMPLES[:2] if quick else SAMPLES:
            repeats = [model.importance_score(X, n, random_state=seed) for seed in range(2 if quick else REPEATS)]
            scores = np.array([score for score, _ in repeats]) / words
            rows.append(
                {
                    "documents": what,
                    "words": float(words.mean()),
                    "samples": n,
                    "log p per word": float(scores.mean()),
                    "sd over repeats": float(scores.std(0, ddof=1).mean()),
                    "effective samples": float(np.median([size for _, size in repeats])),
                }
            )
            progress(rows[-1])
            report("topics/importance", TITLE, rows, NOTES, quick)


def thinned(X: Any, share: int) -> Any:
    """Every so manieth distinct word of the first documents."""
    X = X[:DOCUMENTS].copy()
    X.data = np.where(np.arange(X.nnz) % share == 0, X.data, 0.0)
    X.eliminate_zeros()
    return X[np.asarray(X.sum(1)).ravel() > 0]


TITLE = "Importance-sampling score against samples (Figure 13)"
NOTES = [
    f"{DOCUMENTS} test documents of NIPS papers, K = 20, full covariances; proposal: q(η) with 0.1 added to the "
    f"variances. Standard deviation of a document's score per word over {REPEATS} repeats, mean over documents; "
    "effective samples: median. The estimate rises with the samples where they are too few."
]


if __name__ == "__main__":
    main(arguments(__doc__))
