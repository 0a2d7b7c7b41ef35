"""Sets of the kind of texts: words by TF-IDF, wide tables, many classes; of the files in shared/data and simulated.

None of them is one of the 45 on which the wide classifier was tuned. Those were the docstrings of scipy/sklearn,
pandas/xarray, torch/numpy and five pairs more, groups 3/4, 1/2, 15/0 and 18/16 of the 20 newsgroups, 400 rows of
Reuters, 100 of a1a, digits, and simulated ones; the tables of arcene, colon and leukemia were among them with other
splits, and are marked so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder, load_libsvm, load_npz
from benchmarks.glm._text_corpus import texts

#: At most so many rows are predicted.
MOST_TESTED = 1500
#: Words of fewer training documents are left out.
RAREST = 3

Split = tuple[Any, Array, Any, Array]


@dataclass(frozen=True)
class TextSet:
    """Data, how their columns are made of training rows, how many of those there are (or their share), and splits."""

    name: str
    kind: str
    load: Callable[[], tuple[Any, Array]]
    prepare: Callable[[Any, Any], tuple[Any, Any]]
    train: float
    splits: int = 3
    tuned_on: bool = False

    @property
    def several(self) -> bool:
        """More than two classes, which `kind` says."""
        return "classes" in self.kind

    def drawn(self, splits: int | None = None) -> Iterator[Split]:
        """Training columns and labels, test columns and labels; labels are drawn in proportion."""
        from sklearn.model_selection import train_test_split

        X, y = self.load()
        for seed in range(self.splits if splits is None else splits):
            rows, rest = train_test_split(np.arange(len(y)), train_size=self.train, stratify=y, random_state=100 + seed)
            rest = rest[:MOST_TESTED]
            A, B = self.prepare(X[rows], X[rest])
            yield A, y[rows], B, y[rest]


# ---------------------------------------------------------------- columns


def words(texts: Array, new: Array) -> tuple[Any, Any]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(min_df=RAREST, sublinear_tf=True)
    return vectorizer.fit_transform(texts), vectorizer.transform(new)


def counts(X: Any, new: Any) -> tuple[Any, Any]:
    """TF-IDF of tables of counts."""
    from sklearn.feature_extraction.text import TfidfTransformer

    common = np.asarray((X > 0).sum(axis=0)).ravel() >= RAREST
    transformer = TfidfTransformer(sublinear_tf=True).fit(X[:, common])
    return transformer.transform(X[:, common]).tocsr(), transformer.transform(new[:, common]).tocsr()


def standardised(X: Array, new: Array) -> tuple[Array, Array]:
    """Columns at mean 0 and sd 1 in the training rows, those that do not vary there left out."""
    varies = X.std(axis=0) > 0
    mean, sd = X[:, varies].mean(axis=0), X[:, varies].std(axis=0)
    return (X[:, varies] - mean) / sd, (new[:, varies] - mean) / sd


def unchanged(X: Any, new: Any) -> tuple[Any, Any]:
    return X, new


# ---------------------------------------------------------------- texts


def docstrings(*packages: str) -> tuple[Array, Array]:
    """Docstrings, labelled by their package, or by the folder ``package:folder``."""
    found = [texts(*package.split(":")) for package in packages]
    labels = [package for package, own in zip(packages, found, strict=True) for _ in own]
    return np.array([text for own in found for text in own], dtype=object), np.array(labels)


@lru_cache(maxsize=4)
def bag(name: str) -> dict[str, Any]:
    """Counts of words ``X`` and the other arrays of ``text/<name>.npz``."""
    with np.load(data_folder() / "text" / f"{name}.npz") as z:
        X = sp.csr_matrix((z["data"].astype(float), z["indices"], z["indptr"]), shape=z["shape"])
        return {"X": X, **{key: z[key] for key in z.files if key not in ("data", "indices", "indptr", "shape")}}


def newsgroups(*groups: int) -> tuple[Any, Array]:
    found = bag("newsgroups20")
    rows = np.isin(found["label"], groups or np.unique(found["label"]))
    return found["X"][rows], found["label"][rows]


def mentions(word: str) -> tuple[Any, Array]:
    """Articles of the Associated Press by whether they have a word, which is no column."""
    found = bag("ap_blei")
    own = found["vocab"] == word
    return found["X"][:, ~own].tocsr(), np.asarray(found["X"][:, own].toarray() > 0).ravel().astype(int)


def volumes(*last: int) -> tuple[Any, Array]:
    """Papers of NIPS 1987 to 2003 by their period; ``last`` are the last years of all but the newest."""
    found = bag("nips_1987_2003")
    years = np.array([int(name[:4]) for name in found["doc"]])
    return found["X"], np.searchsorted(np.array(last), years)


def reuters() -> tuple[Any, Array]:
    X, y = load_libsvm("reuters_moneyfx", 8315)
    new, labels = load_libsvm("reuters_moneyfx.t", 8315)
    return sp.vstack([X, new]).tocsr(), (np.r_[y, labels] > 0).astype(int)


# ---------------------------------------------------------------- tables


def genes(name: str) -> dict[str, Array]:
    with np.load(data_folder() / "genomics" / f"{name}.npz") as z:
        return dict(z)


def leukemia() -> tuple[Array, Array]:
    z = genes("leukemia_golub1999")
    return z["X"].astype(float), z["y"].astype(int)


def colon() -> tuple[Array, Array]:
    X, y = load_libsvm("colon-cancer", 2000)
    return X.toarray(), (y > 0).astype(int)


def tumours() -> tuple[Array, Array]:
    """Cell lines of the tissues with at least seven."""
    z = genes("nci60")
    names, n = np.unique(z["label"], return_counts=True)
    rows = np.isin(z["label"], names[n >= 7])
    return z["X"][rows].astype(float), z["label"][rows]


def cells(label: str, *chosen: str) -> tuple[Any, Array]:
    """Log counts of genes in blood cells."""
    z = genes("pbmc_facs")
    X = sp.csr_matrix((np.log1p(z["data"].astype(float)), z["indices"], z["indptr"]), shape=z["shape"])
    rows = np.isin(z[label], chosen) if chosen else np.ones(X.shape[0], bool)
    return X[rows], z[label][rows]


def table(name: str, *chosen: int) -> tuple[Array, Array]:
    z = load_npz(name)
    if "X" not in z:
        z = {"X": np.r_[z["X_train"], z["X_test"]], "y": np.r_[z["y_train"], z["y_test"]]}
    rows = np.isin(z["y"], chosen) if chosen else np.ones(len(z["y"]), bool)
    return z["X"][rows].astype(float), z["y"][rows].astype(int)


def adults() -> tuple[Any, Array]:
    X, y = load_libsvm("a9a", 123)
    return X.tocsr(), (y > 0).astype(int)


# ---------------------------------------------------------------- simulated


def simulated(n: int, d: int, truth: str, classes: int = 2, seed: int = 0) -> Callable[[], tuple[Array, Array]]:
    """Labels of a softmax of f = Xw with standard deviation 3; ``truth`` says what X and w are.

    dense: independent columns, all weights normal. sparse: one weight in 50 is not 0. factors: columns share ten
    factors, which alone have weights.
    """

    def load() -> tuple[Array, Array]:
        rng = np.random.default_rng([2, n, d, classes, seed])
        X, own = rng.standard_normal((n, d)), 1 if classes == 2 else classes
        signal = X
        if truth == "factors":
            signal = rng.standard_normal((n, 10))
            X = X + signal @ rng.standard_normal((10, d))
        w = rng.standard_normal((signal.shape[1], own))
        if truth == "sparse":
            w *= rng.random(w.shape) < 0.02
        f = 3.0 * (signal @ w) / np.linalg.norm(w, axis=0)
        f = np.column_stack([np.zeros(n), f]) if own == 1 else f
        return X, np.argmax(f + rng.gumbel(size=f.shape), axis=1)

    return load


# ---------------------------------------------------------------- the list


#: Packages whose docstrings are told apart: two, and more (``package:folder`` is a part of one).
PAIRS = [
    ("sphinx", "docutils"), ("jax", "numpyro"), ("dask", "distributed"), ("numba", "joblib"), ("pandas", "polars"),
    ("hypothesis", "_pytest"), ("statsmodels", "arviz"), ("matplotlib", "numpy"),
]  # fmt: skip
FOLDERS = ("cluster", "linear_model", "metrics", "datasets", "utils", "ensemble", "preprocessing", "decomposition")
SEVERAL = {
    "4 packages": ("jax", "statsmodels", "sphinx", "polars"),
    "8 packages": ("jax", "statsmodels", "sphinx", "polars", "matplotlib", "hypothesis", "distributed", "sklearn"),
    "8 folders of sklearn": tuple(f"sklearn:{name}" for name in FOLDERS),
}
#: All of them.
PACKAGES = {name.split(":")[0] for names in (*PAIRS, *SEVERAL.values()) for name in names}


def of_packages() -> list[TextSet]:
    found = [TextSet("/".join(pair), "text", partial(docstrings, *pair), words, 0.5) for pair in PAIRS]
    for name, packages in SEVERAL.items():
        found.append(TextSet(name, "text, classes", partial(docstrings, *packages), words, 0.5, splits=2))
    return found


def of_files() -> list[TextSet]:
    found = []
    for a, b, n in ((7, 8, 200), (9, 10, 200), (11, 14, 100), (5, 6, 400), (12, 13, 200), (16, 17, 60)):
        found.append(TextSet(f"newsgroups {a}/{b}, {n}", "text", partial(newsgroups, a, b), counts, n))
    for word, n in (("police", 300), ("percent", 300), ("court", 1000)):
        found.append(TextSet(f"AP, {word}", "text", partial(mentions, word), counts, n))
    found += [
        TextSet("NIPS before 1996, 300", "text", partial(volumes, 1995), counts, 300),
        TextSet("Reuters 150", "text", reuters, unchanged, 150),
        TextSet("Reuters 2,000", "text", reuters, unchanged, 2000, splits=2),
        TextSet("NIPS, three periods", "text, classes", partial(volumes, 1993, 1998), counts, 400, splits=2),
        TextSet("newsgroups rec, 400", "text, classes", partial(newsgroups, 7, 8, 9, 10), counts, 400, splits=2),
        TextSet("newsgroups comp, 500", "text, classes", partial(newsgroups, 1, 2, 3, 4, 5), counts, 500, splits=2),
        TextSet("newsgroups all, 1,000", "text, classes", newsgroups, counts, 1000, splits=2),
        TextSet("cells T/NK, 100", "wide", partial(cells, "cell_type", "T cell", "NK cell"), unchanged, 100),
        TextSet("cells, 5 types, 200", "wide, classes", partial(cells, "cell_type"), unchanged, 200, splits=2),
        TextSet("tumours of 5 tissues", "wide, classes", tumours, standardised, 30, splits=6),
        TextSet("arcene", "wide", partial(table, "arcene"), standardised, 100, tuned_on=True),
        TextSet("colon", "wide", colon, standardised, 31, tuned_on=True),
        TextSet("leukemia", "wide", leukemia, standardised, 36, tuned_on=True),
        TextSet("madelon 200", "wide", partial(table, "madelon"), standardised, 200),
        TextSet("MNIST 4/9, 120", "wide", partial(table, "mnist_t10k", 4, 9), standardised, 120),
        TextSet("MNIST 10 classes, 500", "wide, classes", partial(table, "mnist_t10k"), standardised, 500, splits=2),
        TextSet("musk2, 100", "wide", partial(table, "musk2_134"), standardised, 100),
        TextSet("a9a, 2,000", "D < n", adults, unchanged, 2000),
        TextSet("USPS 3/5, 500", "D < n", partial(table, "usps", 3, 5), standardised, 500),
        TextSet("USPS 10 classes, 600", "D < n, classes", partial(table, "usps"), standardised, 600, splits=2),
    ]
    return found


def of_seeds() -> list[TextSet]:
    return [
        TextSet("dense truth, 150 x 1,500", "wide", simulated(1150, 1500, "dense"), unchanged, 150),
        TextSet("sparse truth, 150 x 1,500", "wide", simulated(1150, 1500, "sparse"), unchanged, 150),
        TextSet("factors, 100 x 2,000", "wide", simulated(1100, 2000, "factors"), unchanged, 100),
        TextSet("factors, 4 classes, 200 x 1,000", "wide, classes", simulated(1200, 1000, "factors", 4), unchanged, 200,
                splits=2),
        TextSet("dense truth, 1,000 x 50", "D < n", simulated(2500, 50, "dense"), unchanged, 1000),
    ]  # fmt: skip


def all_sets() -> list[TextSet]:
    return [*of_packages(), *of_files(), *of_seeds()]
