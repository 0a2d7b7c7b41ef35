"""Do 90 % intervals of documents' topic proportions hold the true ones? By covariance, and by how known topics are.

With diagonal covariances the log odds of a document are independent in q, and topics are taken as known when its
proportions are inferred: both make intervals narrow. More documents make topics known; full covariances end the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.measures import fitted, inside
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.topics.recovery import order

#: Documents that topics are learned from, documents whose proportions are looked at, and corpora.
DOCUMENTS, LOOKED_AT, CORPORA = (300, 3000), 300, 10


def main(quick: bool = False) -> None:
    from sksvi import CorrelatedTopicModel
    from sksvi.datasets import make_ctm

    rows: list[dict[str, Any]] = []
    for documents in DOCUMENTS[:1] if quick else DOCUMENTS:
        for covariance in ("diag", "full"):
            shares, errors, widths = [], [], []
            for seed in range(2 if quick else CORPORA):
                corpus = make_ctm(documents, 200, n_components=4, n_words=150, random_state=seed)
                model = fitted(
                    CorrelatedTopicModel(4, covariance=covariance, uncertainty="variational", random_state=seed),
                    corpus.data,
                )
                mean, std = model.transform(corpus.data[:LOOKED_AT], return_std=True)
                columns, truth = order(corpus, model)[0], corpus.proportions[:LOOKED_AT]
                shares.append(inside(truth - mean[:, columns], std[:, columns]))
                errors.append(float(np.sqrt(np.mean(np.square(truth - mean[:, columns])))))
                widths.append(float(np.sqrt(np.mean(np.square(std)))))
            rows.append({"documents": documents, "covariance": covariance, "cover of 90 %": float(np.mean(shares))})
            rows[-1]["standard error"] = float(np.std(shares, ddof=1) / np.sqrt(len(shares)))
            rows[-1] |= {"error": float(np.mean(errors)), "standard deviation": float(np.mean(widths))}
            progress(rows[-1])
            report("topics/coverage", TITLE, rows, NOTES, quick)


TITLE = "Cover of the intervals of documents' proportions"
NOTES = [
    f"Four topics, 200 words, about 150 words a document; intervals of mean ± 1.645 standard deviations, {CORPORA} "
    "corpora. Error: root mean square of true less posterior mean; standard deviation: root mean square of the "
    "posterior's."
]


if __name__ == "__main__":
    main(arguments(__doc__))
