"""What the benchmarks of topic models share: corpora, the split of document completion, measures, runs.

Every fifth of the documents is held out; half of the distinct words of each gives its proportions, the other half is
scored: mean log probability per word in nats, topics and proportions floored at 1e-12 (for all methods alike). Seconds
are wall-clock of fits alone, compilation apart; CPU seconds are of all threads.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder
from benchmarks._lib.looks import looked
from benchmarks._lib.tables import store_figure
from benchmarks._lib.timing import Clock

#: Probabilities are at least this, before rows are divided by their sums.
FLOOR = 1e-12


# ---------------------------------------------------------------- data


def corpus(name: str) -> dict[str, Any]:
    """Arrays of ``text/<name>.npz`` with the counts as a CSR matrix ``X``."""
    with np.load(data_folder() / "text" / f"{name}.npz") as archive:
        found = dict(archive)
    X = sp.csr_matrix((found["data"], found["indices"], found["indptr"]), shape=found["shape"])
    return found | {"X": X.astype(np.float64)}


@dataclass
class Split:
    """Training counts, and the two halves of the words of the other documents; columns are words seen in training."""

    train: Any
    observed: Any
    held: Any
    columns: Array


def split(X: Any, seed: int = 0) -> Split:
    """Four fifths of the documents to fit, of the rest half of the distinct words of each observed, half held out."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(X.shape[0])
    n = round(0.8 * X.shape[0])
    train, test = X[np.sort(order[:n])], X[np.sort(order[n:])]
    seen = np.asarray(train.sum(0)).ravel() > 0
    train, test = train[:, seen].tocsr(), test[:, seen].tocsr()
    keep = np.zeros(test.nnz, bool)
    for a, b in zip(test.indptr[:-1], test.indptr[1:], strict=True):
        keep[a + rng.permutation(b - a)[: (b - a) // 2]] = True
    observed, held = test.copy(), test.copy()
    observed.data, held.data = np.where(keep, test.data, 0), np.where(keep, 0, test.data)
    observed.eliminate_zeros()
    held.eliminate_zeros()
    return Split(train, observed, held, np.flatnonzero(seen))


def small(found: Split, documents: int = 120, words: int = 600) -> Split:
    """The most frequent words of a few documents, for quick runs."""
    kept = np.sort(np.argsort(-np.asarray(found.train.sum(0)).ravel(), kind="stable")[:words])
    few = found.observed[: documents // 4][:, kept], found.held[: documents // 4][:, kept]
    return Split(found.train[:documents][:, kept], *few, found.columns[kept])


def nips(quick: bool = False) -> Split:
    """The NIPS papers: 1,200 to fit, 300 to test."""
    found = split(corpus("nips_uci_min21")["X"])
    return small(found) if quick else found


# ---------------------------------------------------------------- measures


def per_word(topics: Array, proportions: Array, held: Any) -> float:
    """Mean log p(word) over the held-out words; topics (K, V), proportions (D, K)."""

    def norm(a: Any) -> Array:
        a = np.maximum(np.asarray(a, float), FLOOR)
        return a / a.sum(1, keepdims=True)

    topics, proportions = norm(topics), norm(proportions)
    total = 0.0
    for d, (a, b) in enumerate(zip(held.indptr[:-1], held.indptr[1:], strict=True)):
        total += held.data[a:b] @ np.log(proportions[d] @ topics[:, held.indices[a:b]])
    return float(total / held.sum())


def completion(model: Any, found: Split) -> float:
    """The score of anything with ``components_`` and ``transform``."""
    return per_word(model.components_, model.transform(found.observed), found.held)


def unigram(found: Split) -> float:
    """The score of the words' shares in the training documents."""
    return per_word(np.asarray(found.train.sum(0), float), np.ones((found.held.shape[0], 1)), found.held)


# ---------------------------------------------------------------- runs


def compiled(n_components: int, X: Any, **parameters: Any) -> None:
    """Compile (or load) the loops that a fit with these parameters needs, so that it is not timed."""
    from sksvi import CorrelatedTopicModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = CorrelatedTopicModel(min(n_components, 5), **{**parameters, "max_iter": 1}).fit(X[:30])
        few.transform(X[:3])


def whole_fit(model: Any, X: Any) -> dict[str, Any]:
    """Seconds of a fit that ends by itself and its passes."""
    with warnings.catch_warnings(), Clock() as clock:
        warnings.simplefilter("ignore")
        model.fit(X)
    return {"passes": int(model.n_iter_), **clock.spent}


def path(
    model: Any, found: Split, passes: Sequence[int], limit: float = np.inf, mark: float = np.inf
) -> list[dict[str, Any]]:
    """Bound and score after so many passes of one fit; it ends after the CPU seconds or the score that are given."""

    def score(fitted: Any) -> dict[str, Any]:
        value = completion(fitted, found)
        bound = float(fitted.lower_bounds_[-1] / found.train.sum())
        return {"bound per word": bound, "log p per word": value, "ends": value >= mark}

    return looked(model, (found.train,), score, passes, limit)


# ---------------------------------------------------------------- peers


def draw_paths(name: str, rows: Sequence[Mapping[str, Any]], methods: Iterable[str]) -> None:
    """Store bound and test NLL per word of each method against its CPU seconds as ``results/topics/<name>.png``."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for ax, what in zip(axes, ("bound per word", "test NLL"), strict=True):
        for method in methods:
            mine = [row for row in rows if row["method"] == method]
            ax.plot([row["CPU seconds"] for row in mine], [row[what] for row in mine], marker=".", label=method)
        ax.set(xscale="log", xlabel="CPU seconds", ylabel=what)
    axes[0].legend(fontsize=8)
    store_figure(f"topics/{name}", figure)
