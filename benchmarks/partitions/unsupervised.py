"""Topics, mixtures and factors of real data: rows in 16 partitions against the same rows in memory.

Full batches, the same number of passes, one thread: what differs is how sums are rounded, and the cost of tasks.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone

import sksvi
from benchmarks._lib.loaders import data_folder
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.topics._data import corpus

PARTITIONS, PASSES = 16, 10


def cases(quick: bool) -> Iterator[tuple[str, Any, Any]]:
    """Data, their rows, and a model of them."""
    n, K = (300, 4) if quick else (10_000, 20)
    options = {"batch_size": None, "max_iter": PASSES, "tol": 0.0, "random_state": 0, "n_jobs": 1}
    texts = corpus("ap_blei")["X"][:n]
    if quick:
        texts = texts[:, np.argsort(-np.asarray(texts.sum(0)).ravel())[:400]].tocsr()
    of_q = options | {"uncertainty": "variational"}
    yield "Associated Press", texts, sksvi.StructuredLDA(K, **of_q)
    yield "Associated Press", texts, sksvi.StructuredLDA(K, algorithm="svi", doc_topic_prior="auto", **of_q)
    yield "Associated Press", texts, sksvi.CorrelatedTopicModel(K // 2, **of_q)
    with np.load(data_folder() / "tabular" / "mnist_t10k.npz") as archive:
        images = next(archive[name] for name in archive.files if archive[name].ndim > 1)
    images = images.reshape(len(images), -1)[:n].astype(np.float64)
    images = images if images.max() > 1 else 255.0 * images
    yield "MNIST (test)", images, sksvi.GammaProcessNMF(K, uncertainty="variational", **options)
    yield "MNIST (test)", images, sksvi.GammaPoissonFactorization(K, uncertainty="variational", **options)
    factors = {**options, "algorithm": "cvi", "local_step": "mean-field", "weight_precision": "learned"}
    yield "MNIST (test)", images, sksvi.BetaProcessFA(K, **factors)
    yield "MNIST (test), binary", (images > 127).astype(float), sksvi.BernoulliMixture(2 * K, **options)
    yield "MNIST (test), binary", sp.csr_matrix(images > 127, dtype=float), sksvi.BernoulliMixture(2 * K, **options)
    yield "MNIST (test), columns", *scattered(images)
    visits = pd.read_csv(data_folder() / "tabular" / "solar_flare.csv.xz").astype(str)
    yield "solar flares", visits.iloc[:n, :10], sksvi.CategoricalMixture(K, **options)


def scattered(images: Any) -> tuple[Any, Any]:
    """Every fourth of the columns that vary, and a model of their scatter."""
    columns = images[:, images.std(0) > 40.0][:, ::4]
    return columns, sksvi.GammaFactorModel(4, noise_variance="auto", random_state=0, n_jobs=1)


def apart_by(a: Any, b: Any) -> float:
    """Relative difference of bounds."""
    return abs(a.lower_bound_ / b.lower_bound_ - 1.0)


def collection(X: Any) -> Any:
    """Rows in partitions."""
    import dask.array as da
    import dask.dataframe as dd

    if hasattr(X, "iloc"):
        return dd.from_pandas(X, npartitions=PARTITIONS)
    size = -(-X.shape[0] // PARTITIONS)
    if not sp.issparse(X):
        return da.from_array(X, chunks=(size, X.shape[1]))
    meta = sp.csr_matrix((0, X.shape[1]))
    parts = [da.from_array(X[i : i + size], chunks=-1, asarray=False) for i in range(0, X.shape[0], size)]
    return da.concatenate([part.map_blocks(lambda block: block, meta=meta) for part in parts])


def fitted(model: Any, X: Any) -> tuple[Any, float]:
    """The fit, and its seconds."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = clone(model).fit(X)
    return found, time.perf_counter() - started


def first(model: Any) -> Any:
    """The numbers that say most."""
    return np.asarray(model.components_ if hasattr(model, "components_") else model.means_)


def main(quick: bool) -> None:
    """A row per model."""
    import dask

    rows = []
    for name, X, model in cases(quick):
        here, seconds = fitted(model, X)
        with dask.config.set(scheduler="synchronous"):
            apart, theirs = fitted(model, collection(X))
        means, others = first(here), first(apart)
        rows.append(
            {
                "data": name,
                "model": repr(model).split("(")[0],
                "rows": X.shape[0],
                "columns": X.shape[1],
                "bound, relative": apart_by(apart, here),
                "means, of the largest": float(np.abs(others - means).max() / np.abs(means).max()),
                "seconds": seconds,
                "in partitions": theirs,
                "ratio": theirs / seconds,
            }
        )
        progress(rows[-1])
        if isinstance(model, sksvi.GammaFactorModel):
            reverse = apart_by(fitted(model, X[::-1])[0], here)
    notes = (
        "GammaFactorModel's fit is a search over loadings that ends where it gains little, a little elsewhere wherever "
        f"the scatter is rounded otherwise: in memory the same rows in reverse order change its bound by {reverse:.1e}."
    )
    report("partitions/unsupervised", "Rows in partitions and in memory", rows, [notes], quick)


if __name__ == "__main__":
    main(arguments(__doc__))
