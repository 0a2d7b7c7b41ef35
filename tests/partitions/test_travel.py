"""What travels to workers: as little as says it, and the same bits."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from sksvi.families import Gaussian
from sksvi.inference.messages import Sites
from sksvi.likelihoods import Softmax
from sksvi.models.data import Table
from sksvi.models.linear.glm import LinearModel
from sksvi.models.linear.rows import Rescaled
from sksvi.models.mixture.moves import Shares


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_gaussian_travels_as_one_matrix(order):
    d = 80
    A = np.random.default_rng(0).standard_normal((d, d))
    q = Gaussian(A[0], np.array(A @ A.T + np.eye(d), order=order))
    q.prepare()
    there = pickle.loads(pickle.dumps(q))
    for part in ("mean", "precision", "root"):
        one, other = getattr(q, part), getattr(there, part)
        assert np.array_equal(one, other) and one.flags.c_contiguous == other.flags.c_contiguous
    assert len(pickle.dumps(q)) < 8 * (d * d + 2 * d) + 1000


@pytest.mark.parametrize("precision", [np.array([[2.0, 0.5], [0.4, 1.0]]), np.array([[2.0, np.nan], [np.nan, 1.0]])])
def test_a_precision_that_is_not_symmetric_travels_as_it_is(precision):
    q = Gaussian(np.zeros(2), precision, np.eye(2))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(q)).precision, precision)


def test_a_gaussian_without_a_root_travels_without_one():
    q = pickle.loads(pickle.dumps(Gaussian(np.zeros(2), np.eye(2))))
    assert q._root is None
    np.testing.assert_array_equal(q.root, np.eye(2))


def test_what_a_model_finds_again_stays_here():
    k, d = 3, 30
    model = LinearModel(
        Softmax(n_classes=k), prior_precision=1.0, intercept_precision=1.0, n_features=d, fit_intercept=True, full=True
    )
    data = Table(np.random.default_rng(0).standard_normal((50, d)), np.arange(50) % k)
    before, q = len(pickle.dumps(model)), model.begin(data, None)
    variance = model.latent_variance(q, model.batch(data, slice(0, 50)))
    assert model._class_moments is not None
    assert len(pickle.dumps(model)) < before + 200
    there = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(there.latent_variance(q, there.batch(data, slice(0, 50))), variance)


@pytest.mark.parametrize("kind", ["dense", "csr", "rescaled", "weighted"])
def test_rows_say_what_they_weigh(kind):
    sizeof = pytest.importorskip("dask.sizeof").sizeof
    X, y, weight = np.ones((500, 20)), np.ones(500), None
    n = X.nbytes + y.nbytes
    if kind == "csr":
        X = sp.csr_matrix(X)
        n = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes
    elif kind == "rescaled":
        X = Rescaled(X, np.zeros(20), np.ones(20))
    elif kind == "weighted":
        weight, n = np.ones(500), n + 8 * 500
    assert n <= sizeof(Table(X, y, weight)) <= n + 500
    assert n <= sizeof((Table(X, y, weight), 1.0))


def test_sites_and_responsibilities_say_what_they_weigh():
    sizeof = pytest.importorskip("dask.sizeof").sizeof
    sites = Sites(np.ones(100), np.ones(100), np.ones(100))
    assert 2400 <= sizeof(sites) <= 3000
    shares = sp.random(100, 5, 0.5, format="csc", random_state=0)
    assert 800 + shares.data.nbytes <= sizeof(Shares(shares, np.ones(100)))
