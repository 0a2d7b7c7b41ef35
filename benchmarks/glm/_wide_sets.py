"""Sets of regression with more columns than rows: texts beside a number or a count, wide tables, simulated truths.

None of them was looked at when the fit was made: that was done on other words of the Associated Press, other genes of
the same tables, other groups of the newsgroups, and other seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks.glm._text_sets import bag, cells, counts, genes, newsgroups, reuters, table, unchanged

#: At most so many rows are predicted.
MOST_TESTED = 1500
Split = tuple[Any, Array, Any, Array]


@dataclass(frozen=True)
class WideSet:
    """Data of a regression, how columns are made of the training rows, how many of these there are, and splits."""

    name: str
    kind: str
    load: Callable[[], tuple[Any, Array]]
    prepare: Callable[[Any, Any], tuple[Any, Any]]
    train: int
    splits: int = 3

    @property
    def counted(self) -> bool:
        """Whether the target is a count, which `kind` says."""
        return "count" in self.kind

    def drawn(self, splits: int | None = None) -> Iterator[Split]:
        """Training columns and targets, test columns and targets."""
        X, y = self.load()
        for seed in range(self.splits if splits is None else splits):
            order = np.random.default_rng([100, seed]).permutation(len(y))
            rows, rest = order[: self.train], order[self.train :][:MOST_TESTED]
            A, B = self.prepare(X[rows], X[rest])
            yield A, y[rows], B, y[rest]


def standardised(X: Array, new: Array) -> tuple[Array, Array]:
    """Columns at mean 0 and sd 1 in the training rows, those that do not vary there, to rounding, left out."""
    mean, sd = X.mean(axis=0), X.std(axis=0)
    varies = sd > 1e-9 * np.abs(X).max(axis=0)
    return (X[:, varies] - mean[varies]) / sd[varies], (new[:, varies] - mean[varies]) / sd[varies]


# ---------------------------------------------------------------- targets that the data have


def years() -> tuple[Any, Array]:
    """Papers of NIPS by their year."""
    found = bag("nips_1987_2003")
    return found["X"], np.array([float(name[:4]) for name in found["doc"]])


def frequency(name: str, word: str) -> tuple[Any, Array]:
    """Texts, and how often each has a word, which is no column."""
    found = bag(name)
    own = found["vocab"] == word
    return found["X"][:, ~own].tocsr(), np.asarray(found["X"][:, own].toarray(), float).ravel()


def log_frequency(name: str, word: str) -> tuple[Any, Array]:
    X, y = frequency(name, word)
    return X, np.log1p(y)


def label_numbers(*groups: int) -> tuple[Any, Array]:
    """Newsgroups, numbered in the order of their names: a number behind which there are topics."""
    X, y = newsgroups(*groups)
    return X, y.astype(float)


def digits(name: str) -> tuple[Array, Array]:
    X, y = table(name)
    return X, y.astype(float)


def gene(name: str, rank: int) -> tuple[Array, Array]:
    """The gene of the given rank by its variance on the scale of logarithms, beside all others."""
    X = np.nan_to_num(genes(name)["X"].astype(float))  # a log ratio that is missing is that of the reference
    X = np.log(np.maximum(X, 20.0)) if name.startswith("leukemia") else X
    own = int(np.argsort(-X.var(axis=0))[rank])
    return np.delete(X, own, axis=1), X[:, own]


def expression(rank: int) -> tuple[Any, Array]:
    """Counts of a gene in blood cells, the rank its number of reads has, and log counts of the others."""
    X = cells("cell_type")[0]
    own = int(np.argsort(-np.asarray(X.sum(axis=0)).ravel())[rank])
    rest = np.arange(X.shape[1]) != own
    return X[:, rest].tocsr(), np.expm1(X[:, [own]].toarray().ravel()).round()


def voices() -> tuple[Array, Array]:
    """Recordings of voices: an overtone's energy beside the other measures but those of energy."""
    from benchmarks._lib.loaders import load_csv

    X, y = load_csv("parkinson_speech", "locPctJitter", drop=("class",))
    jitter = [name for name in X.columns if "Jitter" in name]
    return X.drop(columns=jitter).to_numpy(float), np.log(np.maximum(y, 1e-6))


# ---------------------------------------------------------------- targets that are simulated


def on_documents(
    load: Callable[[], tuple[Any, Array]], share: float, seed: int, count: bool = False
) -> tuple[Any, Array]:
    """Rows of texts with f = Xw of standard deviation 1 for weights of which a share is not 0, noise of deviation 1."""
    X = counts(load()[0], load()[0][:1])[0]
    rng = np.random.default_rng([3, seed])
    w = rng.standard_normal(X.shape[1]) * (rng.random(X.shape[1]) < share)
    f = X @ w
    f = (f - f.mean()) / f.std()
    return X, rng.poisson(2.0 * np.exp(f)).astype(float) if count else f + rng.standard_normal(len(f))


def simulated(n: int, d: int, truth: str, seed: int, noise: float = 1.0, count: bool = False) -> tuple[Array, Array]:
    """Rows with f = Xw of standard deviation 1; ``truth`` says what X and w are, as in ``glm.text``."""
    rng = np.random.default_rng([4, n, d, seed])
    X = signal = rng.standard_normal((n, d))
    if truth == "factors":
        signal = rng.standard_normal((n, 10))
        X = X + signal @ rng.standard_normal((10, d))
    w = rng.standard_normal(signal.shape[1])
    if truth == "sparse":
        w *= rng.random(len(w)) < 0.02
    f = signal @ w / np.linalg.norm(w)
    return X, rng.poisson(2.0 * np.exp(f)).astype(float) if count else f + noise * rng.standard_normal(n)


# ---------------------------------------------------------------- the list


def measured() -> list[WideSet]:
    ap = partial(log_frequency, "ap_blei")
    return [
        WideSet("NIPS, year, 300", "text", years, counts, 300),
        WideSet("NIPS, year, 1,500", "text", years, counts, 1500, splits=2),
        WideSet("AP, log of percent, 400", "text", partial(ap, "percent"), counts, 400),
        WideSet("AP, log of soviet, 1,200", "text", partial(ap, "soviet"), counts, 1200, splits=2),
        WideSet("newsgroups comp by number, 400", "text", partial(label_numbers, 1, 2, 3, 4, 5), counts, 400),
        WideSet("newsgroups all by number, 4,000", "text", label_numbers, counts, 4000, splits=1),
        WideSet("Reuters, simulated f, 500", "text", partial(on_documents, reuters, 0.1, 1), unchanged, 500),
        WideSet("MNIST by number, 200", "wide", partial(digits, "mnist_t10k"), standardised, 200),
        WideSet("USPS by number, 150", "wide", partial(digits, "usps"), standardised, 150),
        WideSet("leukemia, gene 1", "wide", partial(gene, "leukemia_golub1999", 0), standardised, 48, splits=6),
        WideSet("tumours, gene 1", "wide", partial(gene, "nci60", 0), standardised, 42, splits=6),
        WideSet("voices, 250", "wide", voices, standardised, 250),
        WideSet("dense truth, 150 x 1,500", "wide", partial(simulated, 1150, 1500, "dense", 1), unchanged, 150),
        WideSet("sparse truth, 150 x 1,500", "wide", partial(simulated, 1150, 1500, "sparse", 1), unchanged, 150),
        WideSet("factors, 100 x 2,000", "wide", partial(simulated, 1100, 2000, "factors", 1), unchanged, 100),
        WideSet("factors, little noise", "wide", partial(simulated, 1100, 2000, "factors", 2, 0.1), unchanged, 100),
    ]


def counted() -> list[WideSet]:
    return [
        WideSet("AP, police, 400", "text, count", partial(frequency, "ap_blei", "police"), counts, 400),
        WideSet("AP, million, 1,200", "text, count", partial(frequency, "ap_blei", "million"), counts, 1200, splits=2),
        WideSet("NIPS, network, 300", "text, count", partial(frequency, "nips_1987_2003", "network"), counts, 300),
        WideSet("newsgroups, god, 1,000", "text, count", partial(frequency, "newsgroups20", "god"), counts, 1000,
                splits=2),
        WideSet("Reuters, simulated f, 500", "text, count", partial(on_documents, reuters, 0.1, 2, True), unchanged,
                500),
        WideSet("cells, gene 12, 150", "wide, count", partial(expression, 11), unchanged, 150),
        WideSet("cells, gene 60, 400", "wide, count", partial(expression, 59), unchanged, 400, splits=2),
        WideSet("dense truth, 150 x 1,000", "wide, count", partial(simulated, 1150, 1000, "dense", 3, count=True),
                unchanged, 150),
        WideSet("factors, 100 x 1,000", "wide, count", partial(simulated, 1100, 1000, "factors", 3, count=True),
                unchanged, 100),
    ]  # fmt: skip
