"""2,000 simulated documents of a correlated topic model, K = 8: are topics and their correlations found again?

Topics are matched by cosine; one fit of each corpus, from its first start. "best possible" is what the correlations of
the documents' true log proportions give.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock
from benchmarks.topics._data import compiled

#: Mean number of words of a document, corpora, and settings.
WORDS, CORPORA = (200, 400), 10
SETTINGS: dict[str, dict[str, Any]] = {"default": {}, "full covariance": {"covariance": "full"}}


def order(truth: Any, model: Any) -> tuple[Array, Array]:
    """Topics of the model in the order of the true ones that they match, and all cosines."""
    from scipy.optimize import linear_sum_assignment

    def unit(a: Array) -> Array:
        return a / np.linalg.norm(a, axis=1, keepdims=True)

    cosine = unit(truth.components) @ unit(model.components_).T
    return linear_sum_assignment(-cosine)[1], cosine


def matched(truth: Any, model: Any) -> dict[str, float]:
    """Cosines of matched topics, and distances of their correlations from the true ones."""
    columns, cosine = order(truth, model)
    matches = cosine[np.arange(len(columns)), columns]
    found = model.topic_correlation_[np.ix_(columns, columns)]
    off = ~np.eye(len(found), dtype=bool)
    return {
        "mean cosine": float(matches.mean()),
        "least cosine": float(matches.min()),
        "mean |error| of correlations": float(np.abs(found - truth.topic_correlation)[off].mean()),
    }


def best(truth: Any) -> float:
    """The error of correlations of the true log proportions."""
    logs = np.log(truth.proportions)
    found = np.corrcoef((logs - logs.mean(1, keepdims=True)).T)
    return float(np.abs(found - truth.topic_correlation)[~np.eye(len(found), dtype=bool)].mean())


def main(quick: bool = False) -> None:
    from sksvi import CorrelatedTopicModel
    from sksvi.datasets import make_ctm

    rows: list[dict[str, Any]] = []
    for n_words in WORDS[:1] if quick else WORDS:
        size, seeds = (200, 1) if quick else (2000, CORPORA)
        truths = [make_ctm(size, 500, n_words=n_words, random_state=seed) for seed in range(seeds)]
        for name, setting in SETTINGS.items():
            compiled(8, truths[0].data, **setting)
            found, clock, passes = [], Clock(), 0
            for seed, truth in enumerate(truths):
                model = CorrelatedTopicModel(8, random_state=seed, uncertainty="variational", **setting)
                if quick:
                    model.set_params(max_iter=2)
                with warnings.catch_warnings(), clock:
                    warnings.simplefilter("ignore")
                    model.fit(truth.data)
                passes += model.n_iter_
                found.append(matched(truth, model))
            rows.append({"words": n_words, "setting": name} | summary(found))
            rows[-1]["best possible"] = float(np.mean([best(truth) for truth in truths]))
            rows[-1] |= {"passes": passes / len(truths), "CPU seconds": clock.cpu / len(truths)}
            progress(rows[-1])
            report("topics/recovery", TITLE, rows, NOTES, quick)


def summary(found: list[dict[str, float]]) -> dict[str, float]:
    """Means over the corpora, and the worst of them."""
    cosine, least, error = (np.array([one[key] for one in found]) for key in found[0])
    return {
        "mean cosine": float(cosine.mean()),
        "of the worst corpus": float(cosine.min()),
        "least cosine": float(least.min()),
        "mean |error| of correlations": float(error.mean()),
        "of the worst": float(error.max()),
    }


TITLE = "Recovery of eight topics from 2,000 simulated documents"
NOTES = [
    "Vocabulary of 500, topics from a Dirichlet of concentration 0.05, log odds of standard deviation 1.5 and "
    f"correlation 0.7 in pairs; {CORPORA} corpora, each fitted once. Issue: mean cosine at least 0.95, error of "
    "correlations at most 0.1. Least cosine: of any topic of any corpus. Best possible: the error that the sample "
    "correlations of the true log proportions have."
]


if __name__ == "__main__":
    main(arguments(__doc__))
