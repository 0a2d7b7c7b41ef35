"""Ratings of a collection: two sorted copies on disk, and the same bits as a table in memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sksvi import GeneralizedPMF
from sksvi.models.factorization import ratings

pytestmark = pytest.mark.filterwarnings("ignore:.* did not converge in max_iter")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")


def table(seed, n=3000):
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 120, n), (60 * rng.beta(1, 3, n)).astype(int)
    X = pd.DataFrame({"user": [f"u{k}" for k in users], "item": items.astype(float)})
    X.loc[::500, "item"] = np.nan
    signal = np.sum(rng.standard_normal((120, 2))[users] * rng.standard_normal((60, 2))[items], axis=1)
    return X, pd.Series(np.clip(np.round(3.0 + signal + 0.3 * rng.standard_normal(n)), 1.0, 5.0))


def parts(values, n=4):
    return dd.from_pandas(values, npartitions=n)


@pytest.mark.costly
@pytest.mark.parametrize("likelihood", ["gaussian", "ordinal"])
@pytest.mark.parametrize("weighted", [False, True])
def test_same_bits(likelihood, weighted, global_random_seed, monkeypatch, tmp_path):
    monkeypatch.setattr(ratings, "BUCKET", 500)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X, y = table(global_random_seed)
    weight = pd.Series(np.arange(len(y)) % 3 + 1.0) if weighted else None
    model = GeneralizedPMF(likelihood=likelihood, n_components=2, max_iter=4, tol=0.0, random_state=0)
    model.fit(X, y, sample_weight=weight)
    apart = GeneralizedPMF(likelihood=likelihood, n_components=2, max_iter=4, tol=0.0, random_state=0)
    apart.fit(parts(X), parts(y), sample_weight=None if weight is None else parts(weight))
    # What targets fix is a sum over their distinct values: a measured sample has the same bits, levels nearly.
    error = 1e-9 if likelihood == "ordinal" else 0.0
    np.testing.assert_allclose(apart.lower_bounds_, model.lower_bounds_, rtol=error)
    np.testing.assert_allclose(apart.predict(parts(X)).compute(), model.predict(X), rtol=error)
    for found, wanted in zip(apart.seen_, model.seen_, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert list(apart.feature_names_in_) == ["user", "item"]
    assert not list(Path(tmp_path).iterdir())  # files go with the data


def test_a_process_that_is_killed_leaves_no_files(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    entries = np.array([0, 1]), np.array([1, 0]), np.array([2.0, 3.0])
    starts = np.array([0, 1, 2])
    data = ratings.ratings_on_disk(iter([entries]), {"users": starts, "items": starts}, False, None)
    if os.name == "posix":  # elsewhere a file in use keeps its name
        assert not list(Path(tmp_path).iterdir())
    np.testing.assert_array_equal(data.sides["items"].y, [3.0, 2.0])
    del data
    assert not list(Path(tmp_path).iterdir())


@pytest.mark.costly
def test_goes_on_with_more(global_random_seed):
    X, y = table(global_random_seed)
    few = X["user"] != "u7"
    options = {"n_components": 2, "max_iter": 5, "tol": 0.0, "random_state": 0, "warm_start": True}
    model = GeneralizedPMF(**options).fit(X[few], y[few]).fit(X, y)
    apart = GeneralizedPMF(**options).fit(parts(X[few]), parts(y[few])).fit(parts(X, 3), parts(y, 3))
    assert apart.lower_bound_ == model.lower_bound_


def test_an_error_names_the_partition(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X, y = table(0)
    y[1600] = np.nan
    model = GeneralizedPMF()
    with pytest.raises(ValueError, match=r"partition 2: .*NaN"):
        model.fit(parts(X), parts(y))
    assert not hasattr(model, "users_") and not list(Path(tmp_path).iterdir())
