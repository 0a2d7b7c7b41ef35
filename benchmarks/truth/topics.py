"""90 % intervals of topics' proportions and mixtures' weights, of simulated truths, with nothing set but K of topics.

Each data set is fitted with both values of ``uncertainty``; truths are those of the topic or component that is nearest.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

import sksvi
from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report

#: Correlations of the log proportions of the four topics of a correlated corpus, and their standard deviation.
CORRELATION = np.array([[1, 0.6, 0, 0], [0.6, 1, 0, 0], [0, 0, 1, -0.5], [0, 0, -0.5, 1]])
SPREAD = 1.5
UNCERTAINTY = ("variational", "corrected")


@dataclass(frozen=True)
class Case:
    """Simulated data of one kind: ``simulate`` gives X, truths, and what names topics or components."""

    name: str
    simulate: Callable[[np.random.Generator], tuple[Array, Array, Array]]
    estimator: Callable[[str], Any]
    of_set: Callable[[Any, Array, Array, Array], tuple[Array, Array]]
    sets: int


@dataclass
class Found:
    """Of all sets: share covered, mean width, CPU seconds of fit and answer, share of k-hats above 0.7."""

    covered: list[float] = field(default_factory=list)
    width: list[float] = field(default_factory=list)
    fit: list[float] = field(default_factory=list)
    answer: list[float] = field(default_factory=list)
    bad: list[float] = field(default_factory=list)


def nearest(found: Array, truth: Array) -> tuple[Array, Array]:
    """Positions of the pairs of a fitted and a true row that are nearest in sum."""
    rows, of_truth = linear_sum_assignment(np.abs(found[:, None] - truth[None]).sum(-1))
    return np.asarray(rows), np.asarray(of_truth)


# ---------------------------------------------------------------- topics
def corpus(rng: np.random.Generator, n: int, words: float, K: int, V: int, alpha: float, eta: float) -> Any:
    """Counts, proportions and topics; no alpha: correlated topics."""
    topics = rng.dirichlet(np.full(V, eta), K)
    if alpha:
        shares = rng.dirichlet(np.full(K, alpha), n)
    else:
        shares = np.exp(SPREAD * rng.standard_normal((n, K)) @ np.linalg.cholesky(CORRELATION).T)
        shares /= shares.sum(1, keepdims=True)
    sizes, each = np.maximum(rng.poisson(words, n), 2), shares @ topics
    return np.stack([rng.multinomial(m, p / p.sum()) for m, p in zip(sizes, each, strict=True)]), shares, topics


def of_documents(model: Any, X: Array, truth: Array, names: Array) -> tuple[Array, Array]:
    """Intervals (n, K, 2) of proportions, and the truths in the same order."""
    rows, of_truth = nearest(model.components_, names)
    return model.proportion_interval(X)[:, rows], truth[:, of_truth]


def documents(
    kind: str, n: int, words: int, sets: int, *, K: int = 4, V: int = 300, alpha: float = 0.0, eta: float = 0.05
) -> Case:
    """A case of documents."""
    law = f"α = {alpha:g}, η = {eta:g}" if alpha else "correlated"
    name = f"{kind}, {n} documents of {words} words, {K} topics, {law}"
    return Case(
        name,
        lambda rng: corpus(rng, n, words, K, V, alpha, eta),
        lambda uncertainty: getattr(sksvi, kind)(K, random_state=0, uncertainty=uncertainty),
        of_documents,
        sets,
    )


# ---------------------------------------------------------------- mixtures
def rows_of(rng: np.random.Generator, n: int, D: int, K: int, values: int) -> Any:
    """Rows of a mixture, its weights, and the probabilities of each component's values."""
    chances = rng.dirichlet(np.full(values, 0.7), (K, D))
    weights = rng.dirichlet(np.full(K, 4.0))
    ends = np.cumsum(chances[rng.choice(K, n, p=weights)], axis=-1)
    found = (rng.random((n, D, 1)) > ends[..., :-1]).sum(-1)
    if values == 2:
        return 1.0 - found, weights, chances[..., 0]
    declared = pd.CategoricalDtype(range(values))  # a rare value may be in no row
    return pd.DataFrame(found).astype(declared), weights, chances.reshape(K, -1)


def of_components(model: Any, X: Array, truth: Array, names: Array) -> tuple[Array, Array]:
    """Intervals (K, 2) of the weights of the components in use, and the truths of as many."""
    used = model.n_components_
    rows, of_truth = nearest(np.asarray(model.means_)[:used], names)
    table = model.summary().xs("weight", level="column")[["lower", "upper"]].to_numpy()
    return table[rows], truth[of_truth]


def mixture(kind: str, n: int, D: int, K: int, sets: int, values: int = 2) -> Case:
    """A case of a mixture whose groups overlap."""
    return Case(
        f"{kind}, weights, {n} rows of {D} columns, {K} components",
        lambda rng: rows_of(rng, n, D, K, values),
        lambda uncertainty: getattr(sksvi, kind)(random_state=0, uncertainty=uncertainty),
        of_components,
        sets,
    )


def cases() -> list[Case]:
    lda, ctm, bits = "StructuredLDA", "CorrelatedTopicModel", "BernoulliMixture"
    found = [documents(lda, 200, words, 20, alpha=0.5) for words in (8, 30, 300)]
    found += [documents(lda, 200, words, 12, alpha=0.1, eta=0.1) for words in (8, 30, 300)]
    found += [documents(lda, 200, 30, 12, alpha=0.5, eta=0.5)]
    found += [documents(lda, 2000, 30, 3, alpha=0.5), documents(lda, 1000, 60, 3, K=20, V=1000, alpha=0.2)]
    found += [documents(ctm, 200, words, 20) for words in (8, 30, 300)] + [documents(ctm, 2000, 30, 3)]
    found += [mixture(bits, 200, 10, 3, 60), mixture(bits, 2000, 10, 3, 16), mixture(bits, 2000, 30, 5, 6)]
    return [*found, mixture("CategoricalMixture", 200, 10, 3, 24, values=3)]


# ---------------------------------------------------------------- the table
def measured(case: Case, uncertainty: str, data: tuple[Array, Array, Array], found: Found) -> None:
    """Fit and ask, and count."""
    X, truth, names = data
    model, began = case.estimator(uncertainty), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    fitted = time.process_time()
    intervals, truths = case.of_set(model, X, truth, names)
    found.fit.append(fitted - began)
    found.answer.append(time.process_time() - fitted)
    low, high = np.moveaxis(intervals, -1, 0)
    found.covered.append(float(np.mean((low <= truths) & (truths <= high))))
    found.width.append(float(np.mean(high - low)))
    if uncertainty == "variational" and hasattr(model, "proportion_k_hat"):
        found.bad.append(float(np.mean(model.proportion_k_hat(X[:50]) > 0.7)))


def run(case: Case, sets: int, seed: int = 0) -> dict[str, Any]:
    """The row of a case: both values of ``uncertainty`` on the same sets."""
    found = {uncertainty: Found() for uncertainty in UNCERTAINTY}
    for number in range(-1, sets):  # the first compiles
        for uncertainty, own in found.items():
            data = case.simulate(np.random.default_rng([seed, max(number, 0)]))
            measured(case, uncertainty, data, Found() if number < 0 else own)
    row: dict[str, Any] = {"data": case.name, "sets": sets}
    for uncertainty, own in found.items():
        row[f"{uncertainty}: covers"] = round(float(np.mean(own.covered)), 3)
        row[f"{uncertainty}: se"] = round(float(np.std(own.covered, ddof=1) / np.sqrt(sets)), 3)
        row[f"{uncertainty}: width"] = round(float(np.mean(own.width)), 3)
    plain, corrected = found.values()
    row["k-hat > 0.7"] = round(float(np.mean(plain.bad)), 2) if plain.bad else None
    row["fit, CPU s"] = round(float(np.median(plain.fit)), 3)
    row["times the fit"] = round(float(np.median(corrected.fit) / np.median(plain.fit)), 2)
    row["times the answer"] = round(float(np.median(corrected.answer) / np.median(plain.answer)), 2)
    return row


def main(quick: bool = False) -> None:
    rows = []
    for case in cases()[:: 6 if quick else 1]:
        rows.append(run(case, 2 if quick else case.sets))
        progress(rows[-1])
    notes = [
        "Shares of 90 % intervals that hold the simulated truth, with standard errors over sets (their sizes differ); "
        "topics or components are learned from the same data. k-hat: of the first 50 documents of each set, q of "
        "proportions given the mean of the topics. The last two columns: CPU time of both against the former default."
    ]
    report("truth/topics", "Intervals of proportions and weights with nothing set", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
