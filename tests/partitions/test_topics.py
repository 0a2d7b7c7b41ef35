"""Topic models of documents in partitions: words, answers, what is left of a fit, what users are told."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import sksvi
from sksvi import StructuredLDA

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")

pytestmark = [
    pytest.mark.usefixtures("local_scheduler"),
    pytest.mark.filterwarnings("ignore:.* did not converge in max_iter"),
]
WORDS = [f"w{j}" for j in range(30)]


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    found = rng.poisson(rng.gamma(0.3, 1.0, (150, 3)) @ rng.gamma(0.2, 1.0, (3, 30)) * 2.0).astype(float)
    found[:, 0] += 1.0
    return sp.csr_matrix(found)


def chunked(X, size=60):
    return da.from_array(X.toarray(), chunks=(size, X.shape[1])).map_blocks(sp.csr_matrix)


def framed(X, n=3):
    return dd.from_pandas(pd.DataFrame(X.toarray(), columns=WORDS), npartitions=n)


def lda(**options):
    return StructuredLDA(3, **{"batch_size": None, "max_iter": 4, "random_state": 0, **options})


def test_words_have_names(counts):
    """Those of a frame, or those that are given."""
    given, frame = lda(max_iter=2).fit(chunked(counts, 50), feature_names=WORDS), lda(max_iter=2).fit(framed(counts))
    assert list(given.feature_names_in_) == list(frame.feature_names_in_) == WORDS
    np.testing.assert_array_equal(given.components_, frame.components_)
    reversed_ = framed(counts)[WORDS[::-1]]
    shares = frame.transform(reversed_)
    assert list(shares.columns) == list(frame.get_feature_names_out())
    np.testing.assert_array_equal(shares.compute(), frame.transform(framed(counts).compute()))
    named = given.fit_transform(chunked(counts, 50), feature_names=WORDS)
    np.testing.assert_array_equal(named.compute(), shares.compute())
    assert given.score(chunked(counts, 50), feature_names=WORDS) == frame.score(reversed_)


def test_what_is_left_of_a_fit(counts, tmp_path):
    """No handle of what workers keep: files and fits that go on need none."""
    model = lda(max_iter=3, warm_start=True).fit(chunked(counts))
    model.save(tmp_path / "model")
    again = sksvi.load(tmp_path / "model")
    np.testing.assert_array_equal(again.topic_correlation_, model.topic_correlation_)
    assert again.set_params(max_iter=2).fit(chunked(counts)).n_iter_ > model.n_iter_
    correlation = again.fit(counts).topic_correlation_  # of documents here once more
    np.testing.assert_array_equal(correlation, sksvi.load(_saved(again, tmp_path)).topic_correlation_)
    with pytest.raises(AttributeError, match="not of a stream"):
        lda().fit(chunked(counts)).partial_fit(counts).topic_correlation_  # noqa: B018


def _saved(model, folder):
    model.save(folder / "again")
    return folder / "again"


def test_documents_without_words_are_told_of_once(counts):
    empty = counts.toarray()
    empty[[3, 120]] = 0.0
    with pytest.warns(UserWarning, match="2 of 150 documents have no words") as told:
        lda(max_iter=2).fit(chunked(sp.csr_matrix(empty)))
    assert sum("no words" in str(one.message) for one in told) == 1


def test_fractions_are_told_of_once(counts):
    with pytest.warns(UserWarning, match="no whole numbers") as told:
        lda(max_iter=1, local_step="gibbs").fit(chunked(counts * 0.5))
    assert sum("whole" in str(one.message) for one in told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lda(max_iter=20, tol=1e-1).fit(chunked(counts * 0.5))


def test_partitions_without_documents(counts):
    """Some of a filter; of all a clear error."""
    frame = framed(counts)
    some = frame[frame["w0"] > 1.0 + (frame.index > 40) * 1e3]
    assert [len(part) == 0 for part in some.partitions] == [False, True, True]
    apart, here = (lda(max_iter=2, uncertainty="variational").fit(X) for X in (some, some.compute()))
    np.testing.assert_allclose(apart.components_, here.components_, rtol=1e-9)
    assert apart.score(some) == pytest.approx(here.score(some.compute()), rel=1e-12)
    assert apart.transform(some).compute().shape == (len(some), 3)
    nothing = frame[frame["w0"] < 0.0]
    with pytest.raises(ValueError, match="no row: StructuredLDA needs one"):
        lda().fit(nothing)
    with pytest.raises(ValueError, match="no row: StructuredLDA needs one"):
        apart.score(nothing)


def test_an_error_names_partition_and_column(counts):
    bad = counts.toarray()
    bad[90, 4] = -1.0
    model = lda()
    with pytest.raises(ValueError, match=r"partition 1: .*column 4 of X has -1 in row 30"):
        model.fit(chunked(sp.csr_matrix(bad)))
    assert vars(model) == vars(lda())


@pytest.mark.costly
def test_answers_of_three_dimensions(counts):
    model = lda(max_iter=2).fit(counts)
    for rows in (chunked(counts), da.from_array(counts.toarray(), chunks=(50, 30))):
        np.testing.assert_array_equal(model.proportion_interval(rows).compute(), model.proportion_interval(counts))
    frame = framed(counts)
    model = lda(max_iter=2).fit(frame)
    assert model.proportion_interval(frame).compute().shape == (150, 3, 2)
