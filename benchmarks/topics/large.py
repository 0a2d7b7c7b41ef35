"""AP and 20 newsgroups at K = 100, diagonal: seconds of a pass of mini-batches, memory, labels from proportions.

Each fit has a process of its own. The linear probe is a logistic regression on the log proportions of four fifths of
the documents, scored on the rest; for LDA likewise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import fresh_process

FIT = """
import json
from benchmarks.topics.large import measured
print(json.dumps(measured({corpus!r}, {method!r}, {K}, {passes}, {limit})))
"""
#: A fit without the chain at its end, on two threads.
TWO = "CTM, two threads, variational"
#: Corpora and methods with their passes.
RUNS = tuple(
    (corpus, method, passes)
    for corpus, passes in (("newsgroups20", 2), ("ap_blei", 5))
    for method in ("CTM", TWO, "LDA")
)


def probe(theta: Any, labels: Any) -> float:
    """Accuracy on a fifth of the documents."""
    from sklearn.linear_model import LogisticRegression

    logs = np.log(np.maximum(theta, 1e-12))
    order = np.random.default_rng(0).permutation(len(labels))
    n = round(0.8 * len(order))  # the documents that the topics were fitted to
    fitted = LogisticRegression(C=0.1, max_iter=200).fit(logs[order[:n]], labels[order[:n]])
    return float(fitted.score(logs[order[n:]], labels[order[n:]]))


def measured(name: str, method: str, K: int, passes: int, limit: int | None) -> dict[str, Any]:
    """Seconds per pass, memory above what was resident before, scores."""
    import warnings

    from benchmarks._lib.timing import Clock, peak_memory, reset_peak
    from benchmarks.topics._data import compiled, completion, corpus, split
    from sksvi import CorrelatedTopicModel

    warnings.simplefilter("ignore")
    found = corpus(name)
    kept = np.random.default_rng(1).permutation(found["X"].shape[0])[:limit]
    X = found["X"][kept]
    part = split(X)
    if method != "LDA":
        compiled(K, part.train)
        beside = {"n_jobs": 2, "uncertainty": "variational"} if method == TWO else {"n_jobs": 1}
        model: Any = CorrelatedTopicModel(K, max_iter=passes, random_state=0, **beside)
    else:
        from sklearn.decomposition import LatentDirichletAllocation

        model = LatentDirichletAllocation(
            K,
            learning_method="online",
            batch_size=1024,
            max_iter=passes,
            random_state=0,
            total_samples=part.train.shape[0],
        )
    reset_peak()
    before = peak_memory()
    with Clock() as clock:
        model.fit(part.train)
    row = {
        "documents": part.train.shape[0],
        "words": part.train.shape[1],
        "passes": passes,
        "fit, seconds": clock.seconds,
        "fit, CPU seconds": clock.cpu,
        "seconds per pass": (float(model.history_["seconds"].iloc[-1]) if method != "LDA" else clock.seconds) / passes,
        "added memory, MiB": peak_memory() - before,
        "log p per word": completion(model, part),
    }
    if "label" in found and method != TWO:
        with Clock() as clock:
            theta = model.transform(X[:, part.columns].tocsr())
        row |= {"transform, CPU seconds": clock.cpu, "probe": probe(theta, found["label"][kept])}
    return row


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for corpus, method, passes in RUNS:
        K, limit = (5, 200) if quick else (100, None)
        code = FIT.format(corpus=corpus, method=method, K=K, passes=1 if quick else passes, limit=limit)
        rows.append({"corpus": corpus, "method": method, "K": K, **fresh_process(code)})
        progress(rows[-1])
        report("topics/large", TITLE, rows, NOTES, quick)


TITLE = "AP and 20 newsgroups, a hundred topics"
NOTES = [
    "CTM: default settings (mini-batches, diagonal covariances), whose fit ends with the exact bound and a chain of "
    "the joint posterior; a pass is without these, and with its share of the start. LDA: scikit-learn's, online, "
    "batches of 1,024. Memory: above what was resident before the fit. Probe: accuracy of the 20 labels by a logistic "
    "regression on log proportions, on the fifth of the documents that neither it nor the topics have seen. One thread "
    "but where it says two."
]


if __name__ == "__main__":
    main(arguments(__doc__))
