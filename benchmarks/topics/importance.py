"""Figures 13 to 15 of Sheth & Khardon: how test documents are scored, and whether it changes which bound is best.

Figure 13: the importance-sampling estimate of documents' likelihood (their (105)) by samples, from four proposals: the
prior, the posterior, and the posterior with 0.1 and 1 added to its variances. Figures 14 and 15: the fits of Figure 7
scored by the same four, and by completion with proportions at the posterior mean of the log odds given half of the
words, (106), without and with the log prior of that mean.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.cells import by_cells
from benchmarks._lib.tables import arguments
from benchmarks.topics._data import nips

#: What is added to the variances of a document's posterior, by proposal.
PROPOSALS = {"prior": np.inf, "posterior": 0.0, "posterior + 0.1": 0.1, "posterior + 1": 1.0}
SAMPLES, REPEATS, DOCUMENTS, TOPICS = (100, 1000, 10_000), 4, 10, 20
KINDS = {"half of the words": 1, "a tenth of them": 10}
#: The fits of Figure 7, all documents per step and points as topics; their passes.
BATCH: dict[str, Any] = {"batch_size": None, "topics": "point"}
FITS: dict[str, dict[str, Any]] = {
    "optimal, h-mc-ssvi": {"bound": "optimal", "algorithm": "h-mc-ssvi"},
    "optimal": {"bound": "optimal"},
    "mean field": {"bound": "mean-field"},
    "optimal, s-dsvi": {"bound": "optimal", "algorithm": "s-dsvi"},
    "simple": {"bound": "simple"},
}
PASSES = (16,)
#: Samples of the scores of Figure 14, and documents that are scored.
SCORED_SAMPLES, SCORED = 2000, 40


@functools.lru_cache(maxsize=1)
def fitted(name: str, passes: int, quick: bool) -> tuple[Any, Any]:
    """A model of the papers, and the split; "default" is that of Figure 13."""
    from sksvi import CorrelatedTopicModel

    found = nips(quick)
    options: dict[str, Any] = {"covariance": "full"} if name == "default" else BATCH | FITS[name]
    options = options | {"tol": 0.0, "random_state": 0, "uncertainty": "variational"}
    model = CorrelatedTopicModel(5 if quick else TOPICS, max_iter=passes, **options)
    return model.fit(found.train), found


def spread(cell: dict[str, Any], quick: bool) -> list[dict[str, Any]]:
    """Figure 13: repeats of one estimate."""
    model, found = fitted("default", 2 if quick else 10, quick)
    X = thinned(found.observed, KINDS[cell["documents"]])
    words, inflation = np.asarray(X.sum(1)).ravel(), PROPOSALS[cell["proposal"]]
    seeds = range(2 if quick else REPEATS)
    repeats = [model.importance_score(X, cell["samples"], random_state=seed, inflation=inflation) for seed in seeds]
    scores = np.array([score for score, _ in repeats]) / words
    row = {"words": float(words.mean()), "log p per word": float(scores.mean())}
    row["sd over repeats"] = float(scores.std(0, ddof=1).mean())
    return [row | {"effective samples": float(np.median([size for _, size in repeats]))}]


def thinned(X: Any, share: int) -> Any:
    """Every so manieth distinct word of the first documents."""
    X = X[:DOCUMENTS].copy()
    X.data = np.where(np.arange(X.nnz) % share == 0, X.data, 0.0)
    X.eliminate_zeros()
    return X[np.asarray(X.sum(1)).ravel() > 0]


def schemes(cell: dict[str, Any], quick: bool) -> list[dict[str, Any]]:
    """Figures 14 and 15: one fit by every scheme, negative log likelihood per word, mean over documents."""
    model, found = fitted(cell["method"], 1 if quick else cell["passes"], quick)
    X = (found.observed + found.held)[:SCORED].tocsr()
    words, samples = np.asarray(X.sum(1)).ravel(), 50 if quick else SCORED_SAMPLES
    row: dict[str, Any] = {"bound per word": float(model.lower_bound_ / found.train.sum())}
    for name, inflation in PROPOSALS.items():
        score, _ = model.importance_score(X, samples, random_state=0, inflation=inflation)
        row[name] = float(np.mean(-score / words))
    completion, prior = completed(model, found.observed[:SCORED].tocsr(), found.held[:SCORED].tocsr())
    held = np.asarray(found.held[:SCORED].sum(1)).ravel()
    row["(106)"] = float(np.mean(-completion / held))
    return [row | {"(106) + prior": float(np.mean(-(completion + prior) / held))}]


def completed(model: Any, observed: Any, held: Any) -> tuple[Array, Array]:
    """log p(held words | η) at the posterior mean of η given the others, and log p(η), of every document."""
    from sksvi.models.topics.scores import word_scores

    population = model._globals["population"]
    width = len(population.location)
    eta = model._documents(model._fitted_model, observed).local[:, :width]
    theta = np.exp(np.c_[eta, np.zeros(len(eta))])
    theta /= theta.sum(1, keepdims=True)
    white = (eta - population.location) @ population.root.T
    log_p = -0.5 * np.square(white).sum(1) - 0.5 * (population.log_det() + width * np.log(2 * np.pi))
    return word_scores(theta, model.components_, held), log_p


def main(quick: bool = False) -> None:
    warnings.simplefilter("ignore")
    cells = [
        {"documents": what, "proposal": proposal, "samples": n}
        for what in KINDS
        for proposal in PROPOSALS
        for n in ((10,) if quick else SAMPLES)
    ]
    title = "Importance-sampling score against samples (Figure 13)"
    by_cells("topics/importance", title, cells, lambda cell: spread(cell, quick), SPREAD_NOTES, quick)
    cells = [{"method": name, "passes": passes} for name in FITS for passes in (PASSES[:1] if quick else PASSES)]
    title = "Correlated topics by six schemes of evaluation (Figures 14 and 15)"
    by_cells("topics/importance_schemes", title, cells, lambda cell: schemes(cell, quick), NOTES, quick)


SPREAD_NOTES = [
    f"{DOCUMENTS} test documents of NIPS papers, K = {TOPICS}, full covariances; the proposal is the population's "
    "N(μ, Σ), or a document's posterior with what is said added to its variances. Standard deviation of a document's "
    f"score per word over {REPEATS} repeats, mean over documents; effective samples: median. The estimate rises with "
    "the samples where they are too few. The paper has 10 repeats of up to a million samples."
]
NOTES = [
    f"NIPS papers, K = {TOPICS} (the paper: 50), diagonal covariances, all documents per step; {SCORED} test "
    "documents, negative log likelihood per word in nats, mean over documents, lower is better. Columns 'prior' "
    f"to 'posterior + 1': whole documents by {SCORED_SAMPLES:,} samples (the paper: ten times a million), from the "
    "model's own posterior; too few samples make them too large, the prior's most. (106): the held half of a "
    "document's distinct words given the other half, at the posterior mean of the log odds; + prior: with the log "
    "density of that mean."
]


if __name__ == "__main__":
    main(arguments(__doc__))
