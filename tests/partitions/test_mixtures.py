"""Mixtures of rows in partitions: weights, categories of all partitions, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sksvi import BernoulliMixture, CategoricalMixture

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")

pytestmark = [
    pytest.mark.usefixtures("local_scheduler"),
    pytest.mark.filterwarnings("ignore:.* did not converge in max_iter"),
]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = (rng.random((240, 12)) < rng.random((3, 12))[rng.integers(0, 3, 240)]).astype(float)
    X[::7, 2] = np.nan
    return X


def chunked(values, size=90):
    return da.from_array(values, chunks=(size, *values.shape[1:]))


#: Rows in partitions have the posterior of q, which no chain corrects.
OF_Q = {"uncertainty": "variational"}


def binary(**options):
    return BernoulliMixture(8, **{**OF_Q, "batch_size": None, "max_iter": 8, "random_state": 0, **options})


def same(apart, here):
    assert apart.n_components_ == here.n_components_
    np.testing.assert_allclose(apart.lower_bounds_, here.lower_bounds_, rtol=1e-9)
    np.testing.assert_allclose(apart.lower_bound_, here.lower_bound_, rtol=1e-9)
    np.testing.assert_allclose(apart.weights_, here.weights_, rtol=1e-9)
    np.testing.assert_allclose(apart.means_, here.means_, rtol=1e-9)


@pytest.mark.costly
def test_sparse_rows_with_weights(table):
    X, weight = np.nan_to_num(table), np.arange(240) % 3 * 1.0
    here = binary().fit(sp.csr_matrix(X)[weight > 0], sample_weight=weight[weight > 0])
    apart = binary().fit(chunked(X).map_blocks(sp.csr_matrix), sample_weight=chunked(weight))
    same(apart, here)


def categories(n=120):
    rng = np.random.default_rng(1)
    often = np.where(rng.random((n, 1)) < 0.5, 0.9, 0.1)
    answers = np.where(rng.random((n, 5)) < often, "yes", np.where(rng.random((n, 5)) < 0.5, "no", "?"))
    X = pd.DataFrame(answers, columns=list("abcde"))
    X.loc[: n // 4, "a"] = None  # nothing in the first partition
    X.loc[n // 2 :, "b"] = "late"
    X["c"] = pd.Categorical(X["c"], ["yes", "no", "?", "never"])
    X["d"] = np.where(X["d"] == "yes", 3.0, np.where(X["d"] == "no", 1.0, np.nan))
    return X


def latent(**options):
    return CategoricalMixture(4, **{**OF_Q, "batch_size": None, "max_iter": 6, "random_state": 0, **options})


@pytest.mark.costly
def test_categories_are_those_of_all_partitions():
    X = categories()
    rows = dd.from_pandas(X, npartitions=4)
    here, apart = latent().fit(X), latent().fit(rows)
    assert [list(values) for values in apart.categories_] == [list(values) for values in here.categories_]
    same(apart, here)
    labels = apart.predict(rows)
    assert isinstance(labels, dd.Series)
    np.testing.assert_array_equal(labels.compute(), here.predict(X))
    np.testing.assert_array_equal(apart.score_samples(rows).compute(), apart.score_samples(X))


@pytest.mark.costly
def test_bad_input(table):
    X = categories()
    rows = dd.from_pandas(X, npartitions=4)
    model = latent().fit(rows)
    strange = X.assign(e=np.where(np.arange(len(X)) == 100, "maybe", X["e"]))
    with pytest.raises(ValueError, match=r"partition 3: column 'e' of X has 'maybe' in row 10"):
        model.predict(dd.from_pandas(strange, npartitions=4)).compute()
    with pytest.raises(ValueError, match="column 'e' of X has no value in any row"):
        latent().fit(dd.from_pandas(X.assign(e=None), npartitions=4))
    three = table.copy()
    three[100, 1] = 3.0
    before = vars(binary())
    model = binary()
    with pytest.raises(ValueError, match=r"partition 1: column 1 of X has 3 in row 10"):
        model.fit(chunked(three))
    assert vars(model) == before
    with pytest.raises(ValueError, match="algorithm='gibbs' draws for every row in turn"):
        binary(algorithm="gibbs").fit(chunked(table))
    with pytest.raises(TypeError, match="sample_weight is an ndarray"):
        binary().fit(chunked(table), sample_weight=np.ones(240))
