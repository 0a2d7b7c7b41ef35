"""Priors of proportions of StructuredLDA: a fixed number, one that is learned, and one that is learned per topic."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.topics._data import completion, corpus, small, split

#: Documents and how many topics are sought in them.
SETS = [("ap_blei", 20), ("ap_blei", 50), ("nips_uci_min21", 20), ("nips_uci_min21", 50)]
PRIORS: tuple[Any, ...] = (None, "symmetric", "auto")
SEED, PASSES = 3, 10
NOTES = [
    f"Split {SEED}, {PASSES} passes, all else at the defaults. Bound: nats per word of the fit. log p per word: "
    "completion of held-out documents. α: sum, least and largest of the topics' at the end."
]


def main(quick: bool = False) -> None:
    from sksvi import StructuredLDA

    rows: list[dict[str, Any]] = []
    for name, K in SETS[:1] if quick else SETS:
        X = corpus(name)["X"]
        found = small(split(X, SEED)) if quick else split(X, SEED)
        for prior in PRIORS:
            model = StructuredLDA(
                K, doc_topic_prior=prior, max_iter=2 if quick else PASSES, tol=0.0, random_state=SEED, n_jobs=1
            )
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(found.train)
            seconds, alpha = time.process_time() - began, np.broadcast_to(model.doc_topic_prior_, K)
            rows.append({"documents": name, "K": K, "doc_topic_prior": str(prior)})
            rows[-1] |= {"log p per word": completion(model, found)}
            rows[-1] |= {"bound per word": float(model.lower_bound_ / found.train.sum())}
            rows[-1] |= {"α, sum": float(alpha.sum()), "least": float(alpha.min()), "largest": float(alpha.max())}
            rows[-1] |= {"CPU seconds": seconds}
            progress(rows[-1])
    report("topics/lda_learned", "Learned priors of proportions", rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
