"""Mixtures of rows in partitions: the same fit, moves included, as of the same rows in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sksvi import BernoulliMixture, CategoricalMixture
from sksvi.models.mixture import model as mixture

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


def binary(**options):
    return BernoulliMixture(8, **{"batch_size": None, "max_iter": 8, "random_state": 0, **options})


def same(apart, here):
    assert apart.n_components_ == here.n_components_
    np.testing.assert_allclose(apart.lower_bounds_, here.lower_bounds_, rtol=1e-9)
    np.testing.assert_allclose(apart.lower_bound_, here.lower_bound_, rtol=1e-9)
    np.testing.assert_allclose(apart.weights_, here.weights_, rtol=1e-9)
    np.testing.assert_allclose(apart.means_, here.means_, rtol=1e-9)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("algorithm", "moves"),
    [("map", "none"), pytest.param("svi", "merge", marks=pytest.mark.exhaustive), ("svi", "all")],
)
def test_same_fit(table, algorithm, moves):
    model = binary(moves=moves, algorithm=algorithm, concentration=5.0)
    here, apart = clone(model).fit(table), clone(model).fit(chunked(table))
    same(apart, here)
    assert apart.score(chunked(table)) == pytest.approx(here.score(table), rel=1e-12)
    np.testing.assert_array_equal(apart.predict(chunked(table)).compute(), here.predict(table))
    np.testing.assert_allclose(apart.predict_proba(chunked(table)).compute(), here.predict_proba(table), atol=1e-9)
    np.testing.assert_array_equal(clone(model).fit_predict(chunked(table)).compute(), here.predict(table))


def test_sparse_rows_with_weights(table):
    X, weight = np.nan_to_num(table), np.arange(240) % 3 * 1.0
    here = binary().fit(sp.csr_matrix(X)[weight > 0], sample_weight=weight[weight > 0])
    apart = binary().fit(chunked(X).map_blocks(sp.csr_matrix), sample_weight=chunked(weight))
    same(apart, here)


def test_centres_are_among_the_same_few_rows(table, monkeypatch):
    monkeypatch.setattr(mixture, "CENTRES_AMONG", 50)
    same(binary(max_iter=3).fit(chunked(table)), binary(max_iter=3).fit(table))


@pytest.mark.costly
@pytest.mark.parametrize("batch_size", [None, 40])
def test_draws_are_the_same_bits_for_any_scheduler(table, batch_size):
    model = binary(algorithm="ssvi", batch_size=batch_size, max_iter=2)
    one = model.fit(chunked(table)).means_
    with dask.config.set(scheduler="threads", num_workers=2):
        np.testing.assert_array_equal(model.fit(chunked(table)).means_, one)


def test_partitions_are_a_stream(table):
    apart, here = binary(), binary()
    apart.partial_fit(chunked(table, 120))
    here.partial_fit(table[:120]).partial_fit(table[120:])
    np.testing.assert_array_equal(apart.means_, here.means_)


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
    return CategoricalMixture(4, **{"batch_size": None, "max_iter": 6, "random_state": 0, **options})


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
