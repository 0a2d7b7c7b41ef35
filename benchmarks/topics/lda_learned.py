"""Priors of proportions of StructuredLDA: a fixed number, one that is learned, and one that is learned per topic.

And what is learned where the truth is known, by each local step.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.topics._data import completion, corpus, small, split

LOCAL_STEPS = ("mean-field", "cvb0", "gibbs")

#: Documents and how many topics are sought in them.
SETS = [("ap_blei", 20), ("ap_blei", 50), ("nips_uci_min21", 20), ("nips_uci_min21", 50)]
PRIORS: tuple[Any, ...] = (None, "symmetric", "auto")
SEED, PASSES = 3, 10
NOTES = [
    f"Split {SEED}, {PASSES} passes, all else at the defaults. Bound: nats per word of the fit. log p per word: "
    "completion of held-out documents. α: sum, least and largest of the topics' at the end."
]
#: Generated documents: α, topics, words of a document.
KNOWN = [(1.0, 4, 150), (0.3, 4, 80), (0.2, 10, 100), (0.1, 10, 20), (0.05, 20, 60)]
DOCUMENTS, WORDS, CORPORA, LONG = 1000, 400, 5, 40
KNOWN_NOTES = [
    f'α of all topics by `doc_topic_prior="symmetric"`, over the true one: mean of {CORPORA} generated corpora of '
    f"{DOCUMENTS} documents over {WORDS} words, topics found too, {LONG} passes over all. ±: standard deviation of "
    "one, of the local step in which it is largest."
]


def known(quick: bool = False) -> None:
    """Learned α over the true one."""
    from sksvi import StructuredLDA
    from sksvi.datasets import make_lda

    rows: list[dict[str, Any]] = []
    for alpha, K, length in KNOWN[:1] if quick else KNOWN:
        row: dict[str, Any] = {"α": alpha, "K": K, "words": length}
        spreads = []
        for local_step in LOCAL_STEPS:
            found = []
            for seed in range(1 if quick else CORPORA):
                options = {"n_components": K, "n_words": length, "doc_topic_prior": alpha}
                X = make_lda(DOCUMENTS, WORDS, **options, random_state=seed).data
                model = StructuredLDA(
                    K, doc_topic_prior="symmetric", local_step=local_step, max_iter=2 if quick else LONG, tol=0.0,
                    batch_size=None, random_state=seed, n_jobs=1, uncertainty="variational",
                )  # fmt: skip
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found.append(model.fit(X).doc_topic_prior_[0] / alpha)
            row[local_step] = float(np.mean(found))
            spreads.append(float(np.std(found)))
        rows.append({**row, "±": max(spreads)})
        progress(rows[-1])
    report("topics/lda_learned_known", "Learned priors of proportions, and the true ones", rows, KNOWN_NOTES, quick)


def main(quick: bool = False) -> None:
    from sksvi import StructuredLDA

    known(quick)
    rows: list[dict[str, Any]] = []
    for name, K in SETS[:1] if quick else SETS:
        X = corpus(name)["X"]
        found = small(split(X, SEED)) if quick else split(X, SEED)
        for prior in PRIORS:
            model = StructuredLDA(
                K,
                doc_topic_prior=prior,
                max_iter=2 if quick else PASSES,
                tol=0.0,
                random_state=SEED,
                n_jobs=1,
                uncertainty="variational",
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
