"""What the start and the forming passes of the correlated topic model are good for: without either, the same fits.

NIPS papers, K = 50, on a split of their own (the one that the choices were made on), and simulated corpora of
`topics.recovery`.
"""

from __future__ import annotations

import warnings
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.topics._data import compiled, completion, corpus, small, split, whole_fit
from benchmarks.topics.recovery import matched

#: What is set otherwise: module, name, value.
VARIANTS: dict[str, tuple[str, str, Any] | None] = {
    "default": None,
    "random start": ("topics.anchors", "RANDOM", 1.0),
    "exp(E log β) from the first pass": ("topics.correlated", "FORMING_PASSES", 0),
}
CORPORA = 5


def main(quick: bool = False) -> None:
    papers = split(corpus("nips_uci_min21")["X"], 1)
    rows: list[dict[str, Any]] = []
    for name, change in VARIANTS.items():
        if change is None:
            rows.append({"variant": name, **measured(small(papers) if quick else papers, quick)})
        else:
            module, constant, value = change
            with patch(f"sksvi.models.{module}.{constant}", value):
                rows.append({"variant": name, **measured(small(papers) if quick else papers, quick)})
        progress(rows[-1])
        report("topics/start", TITLE, rows, NOTES, quick)


def measured(papers: Any, quick: bool) -> dict[str, Any]:
    """Scores of fits to the papers and to simulated corpora."""
    from sksvi import CorrelatedTopicModel
    from sksvi.datasets import make_ctm

    K, limit = 5 if quick else 50, {"uncertainty": "variational"} | ({"max_iter": 2} if quick else {})
    compiled(K, papers.train)
    model = CorrelatedTopicModel(K, random_state=0, **limit)
    row = whole_fit(model, papers.train) | {"log p per word": completion(model, papers)}
    found = []
    for seed in range(1 if quick else CORPORA):
        truth = make_ctm(300 if quick else 2000, 500, n_words=200, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(matched(truth, CorrelatedTopicModel(8, random_state=seed, **limit).fit(truth.data)))
    values = {key: np.array([one[key] for one in found]) for key in found[0]}
    row["simulated: mean cosine"] = float(values["mean cosine"].mean())
    row["of the worst corpus"] = float(values["mean cosine"].min())
    row["mean |error| of correlations"] = float(values["mean |error| of correlations"].mean())
    return row


TITLE = "Start and forming passes of the correlated topic model"
NOTES = [
    "NIPS papers, K = 50, document completion on another split than that of the other tables; "
    f"{CORPORA} simulated corpora of eight topics, each fitted once. Random start: each word's total in random shares; "
    "the default starts at anchor words. From the first pass: what documents otherwise see after twelve passes."
]


if __name__ == "__main__":
    main(arguments(__doc__))
