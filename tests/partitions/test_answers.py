"""What is said of the rows of a collection: chunks, tables of several rows for each, and draws."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from sksvi import BayesianGLMRegressor, BetaProcessFA, GammaPoissonFactorization, GeneralizedPMF

pytest.importorskip("dask", reason="needs the extra dask")
pytest.importorskip("pyarrow", reason="needs the extra dask")
import dask
import dask.array as da
import dask.dataframe as dd

pytestmark = pytest.mark.usefixtures("local_scheduler")
CHUNKS = (0, 7, 0, 20, 13, 0)
N = sum(CHUNKS)


def cut(values, chunks=CHUNKS):
    return da.from_array(np.asarray(values), chunks=(chunks, *np.shape(values)[1:]))


def unknown(values, chunks=CHUNKS):
    """Chunks that do not know their sizes."""
    found = cut(values, chunks)
    return da.Array(found.dask, found.name, ((np.nan,) * len(chunks), *found.chunks[1:]), meta=found._meta)


def framed(values, chunks=CHUNKS):
    ends = np.cumsum([0, *chunks])
    return dd.from_map(lambda k: values.iloc[ends[k] : ends[k + 1]], range(len(chunks)), meta=values.iloc[:0])


def fitted(model, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args)


@pytest.fixture(scope="module")
def glm():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 2))
    return BayesianGLMRegressor(random_state=0).fit(X, X[:, 0] + rng.standard_normal(N)), X


@pytest.fixture(scope="module")
def purchases():
    X = np.random.default_rng(0).poisson(1.5, (N, 5)).astype(float)
    return fitted(GammaPoissonFactorization(2, max_iter=5, random_state=0), X), X


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame({"user": rng.integers(0, 9, 80), "film": rng.integers(0, 6, 80)})
    return fitted(GeneralizedPMF(2, max_iter=5, random_state=0), pairs, rng.standard_normal(80))


# ---- chunks without rows
@pytest.mark.parametrize(
    "method, options", [("predict", {}), ("predict_latent", {}), ("predict_quantiles", {"q": [0.1, 0.5, 0.9]})]
)
def test_an_answer_has_the_chunks_of_the_rows(method, options, glm):
    model, X = glm
    inside, outside = (getattr(model, method)(rows, **options) for rows in (X, cut(X)))
    for found, wanted in zip(*((outside, inside) if method == "predict_latent" else ([outside], [inside]))):
        assert found.chunks[0] == CHUNKS and found.shape == wanted.shape and found.dtype == wanted.dtype
        np.testing.assert_allclose(found.compute(), wanted, rtol=1e-12)
        for k, n in enumerate(CHUNKS):
            assert found.blocks[k].compute().shape == (n, *wanted.shape[1:])


def test_an_answer_goes_with_the_rows_chunk_by_chunk(glm):
    """What is done to answers beside their rows, and what of them is computed at all."""
    model, X = glm
    seen = []
    given = cut(X).map_blocks(lambda part: (seen.append(len(part)), part)[1], meta=np.empty((0, 2)))
    found = model.predict_interval(given)
    beside = da.map_blocks(np.subtract, cut(X), found)
    np.testing.assert_allclose(beside.compute(), X - model.predict_interval(X), rtol=1e-12)
    seen.clear()
    found.blocks[3].compute()
    assert seen == [20]


def test_sparse_answers_and_chunks_of_unknown_size(glm, purchases):
    model, X = glm
    found = model.predict(unknown(X))
    assert len(found.chunks[0]) == len(CHUNKS) and np.isnan(found.shape[0])
    np.testing.assert_allclose(found.compute(), model.predict(X), rtol=1e-12)
    model, counts = purchases
    blocks = cut(counts).map_blocks(sp.csr_matrix)
    found = model.transform(blocks)
    assert found.chunks[0] == CHUNKS
    np.testing.assert_allclose(found.compute(), model.transform(sp.csr_matrix(counts)), rtol=1e-9)


def test_a_first_partition_without_rows_beside_targets(glm):
    model, X = glm
    y = X[:, 0]
    found = model.log_predictive_density(cut(X), cut(y))
    assert found.chunks[0] == CHUNKS
    np.testing.assert_allclose(found.compute(), model.log_predictive_density(X, y), rtol=1e-12)
    with pytest.raises(ValueError, match="X has 2 partitions and no row"):
        model.log_predictive_density(cut(X[:0], (0, 0)), cut(y[:0], (0, 0)))


# ---- draws, whose rows are on the second axis
@pytest.mark.parametrize("form", ["array", "frame"])
def test_draws_of_what_rows_use_of_factors(form):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((N, 4)), columns=list("abcd"))
    X = X if form == "frame" else X.to_numpy()
    model = fitted(BetaProcessFA(3, max_iter=5, random_state=0), X)
    given = cut(X) if form == "array" else framed(X)
    found = model.transform_draws(given, n_draws=8, random_state=0)
    assert dask.is_dask_collection(found)
    if form == "array":
        assert found.chunks == ((8,), CHUNKS, (len(model.components_),))
    draws = found.compute()
    assert draws.shape == model.transform_draws(X, 8).shape
    np.testing.assert_array_equal(draws, model.transform_draws(given, n_draws=8, random_state=0).compute())
    used = draws[draws != 0]
    assert len(np.unique(used)) == used.size > 2 * N  # neither draws nor partitions repeat
    # The law is that of memory: means over draws of rows that are explained alike.
    wanted = model.transform_draws(X, 200, random_state=1)
    got = model.transform_draws(given, 200, random_state=2).compute()
    error = np.sqrt((wanted.var(0) + got.var(0)) / 200)
    assert np.mean(np.abs(got.mean(0) - wanted.mean(0)) < 4 * error + 1e-12) > 0.97


# ---- recommendations
@pytest.mark.parametrize("form", ["array", "unknown", "sparse", "frame"])
@pytest.mark.parametrize("exclude", [True, False])
def test_columns_are_recommended_to_rows_of_a_collection(form, exclude, purchases):
    model, X = purchases
    table = pd.DataFrame(X, index=[f"r{k}" for k in range(N)])
    if form == "frame":
        table.columns = list("abcde")
        model = fitted(GammaPoissonFactorization(2, max_iter=5, random_state=0), table)
    given = {
        "array": lambda: cut(X),
        "unknown": lambda: unknown(X),
        "sparse": lambda: cut(X).map_blocks(sp.csr_matrix),
        "frame": lambda: framed(table),
    }[form]()
    found = model.recommend(given, n=3, exclude_seen=exclude)
    assert isinstance(found, dd.DataFrame) and found.npartitions == len(CHUNKS)
    wanted = model.recommend(table if form == "frame" else X, n=3, exclude_seen=exclude)
    computed = found.compute().reset_index(drop=True)
    assert list(found.columns) == list(wanted.columns)
    np.testing.assert_array_equal(computed[["row", "column", "rank"]], wanted[["row", "column", "rank"]])
    np.testing.assert_allclose(computed[["mean", "std"]], wanted[["mean", "std"]], rtol=1e-9)


@pytest.mark.parametrize("strategy", ["mean", "ucb"])
@pytest.mark.parametrize("form", ["array", "series"])
def test_items_are_recommended_to_a_collection_of_users(form, strategy, ratings):
    users = np.arange(11)  # two of them without ratings
    chunks = (4, 0, 7)
    given = cut(users, chunks) if form == "array" else framed(pd.Series(users), chunks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        wanted = ratings.recommend(users, n=2, strategy=strategy)
        found = ratings.recommend(given, n=2, strategy=strategy)
        computed = found.compute().reset_index(drop=True)
    assert isinstance(found, dd.DataFrame) and found.npartitions == 3
    assert list(found.columns) == ["user", "film", "rank", "score", "mean", "std"]
    np.testing.assert_array_equal(computed[["user", "film", "rank"]], wanted[["user", "film", "rank"]])
    np.testing.assert_allclose(computed[["score", "mean", "std"]], wanted[["score", "mean", "std"]], rtol=1e-9)


def test_users_are_a_column(ratings):
    table = pd.DataFrame({"user": [0, 1], "film": [0, 1]})
    for users in (table, table.to_numpy(), framed(table, (1, 1))):
        with pytest.raises(TypeError, match=r"users is a table of shape .*: give its column of ids"):
            ratings.recommend(users)
