"""A Gaussian with a diagonal off a few directions: every question against its covariance as an array."""

import numpy as np
import pytest
import scipy.sparse as sp

from sksvi.families.gaussian.low_rank import LowRankGaussian
from sksvi.models.linear.rows import DenseRows, SparseRows

D, R = 7, 2


def made(rng, classes=None, extra=1, r=R):
    """A block with a random basis, of one plate or several."""
    lead = () if classes is None else (classes,)
    basis = np.linalg.qr(rng.standard_normal((D, r)))[0]
    half = rng.standard_normal((*lead, r + extra, r + extra))
    inner = half @ np.swapaxes(half, -1, -2) + 0.1 * np.eye(r + extra)
    return LowRankGaussian(rng.standard_normal((*lead, D + extra)), rng.random((*lead, D)) + 0.1, basis, inner)


def covariance(q):
    """S of one plate, from its definition."""
    d, r = q.basis.shape
    extra, s = len(q.mean) - d, np.diag(q.diagonal)
    W = s @ q.basis @ np.linalg.inv(q.basis.T @ s @ q.basis)
    lift = np.block([[W, np.zeros((d, extra))], [np.zeros((extra, r)), np.eye(extra)]])
    S = lift @ q.inner @ lift.T
    S[:d, :d] += (np.eye(d) - W @ q.basis.T) @ s @ (np.eye(d) - W @ q.basis.T).T
    return S


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 41])


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("r", [0, R])
def test_moments_are_those_of_the_covariance(rng, extra, r):
    q = made(rng, extra=extra, r=r)
    S = covariance(q)
    np.testing.assert_allclose(q.cov, S, atol=1e-12)
    np.testing.assert_allclose(q.variance, np.diag(S), atol=1e-12)
    np.testing.assert_allclose(q.root.T @ q.root, S, atol=1e-12)
    rows = rng.standard_normal((5, D + extra))
    np.testing.assert_allclose(q.spread(rows), np.einsum("ij,jk,ik->i", rows, S, rows), atol=1e-12)
    np.testing.assert_allclose(q.crossed(rows)[0, :, 0], rows @ S @ rows.T, atol=1e-12)
    np.testing.assert_allclose(q.basis.T @ S[:D, :D] @ q.basis, q.inner[:r, :r], atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_ask_for_products_alone(rng, sparse):
    q = made(rng)
    X = rng.standard_normal((6, D)) * (rng.random((6, D)) < 0.5)
    rows = SparseRows(sp.csr_matrix(X), True) if sparse else DenseRows(X, True)
    A = np.column_stack([X, np.ones(6)])
    np.testing.assert_allclose(q.spread_of(rows), np.einsum("ij,jk,ik->i", A, covariance(q), A), atol=1e-12)
    np.testing.assert_array_equal(q.tempered(0.0).spread_of(rows), np.zeros(6))
    np.testing.assert_allclose(q.tempered(0.3).spread_of(rows), 0.3 * q.spread_of(rows))
    assert q.tempered(1.0) is q


def test_plates_are_independent(rng):
    q = made(rng, classes=3)
    assert q.cov.shape == (3, D + 1, D + 1) and q.independent
    np.testing.assert_allclose(q.variance[1], q[1].variance)
    np.testing.assert_allclose(q.contrast(2, 0).cov, q[2].cov + q[0].cov, atol=1e-12)
    rows = rng.standard_normal((2, D + 1))
    crossed = q.crossed(rows)
    np.testing.assert_allclose(crossed[1, :, 1], rows @ q[1].cov @ rows.T, atol=1e-12)
    assert not crossed[0, :, 1].any()


@pytest.mark.parametrize("classes", [None, 2])
def test_draws_have_the_moments(rng, classes):
    n = 40_000
    q = made(rng, classes)
    draws = q.sample(n, random_state=3).reshape(n, -1, D + 1)
    means, covariances = q.mean.reshape(-1, D + 1), q.cov.reshape(-1, D + 1, D + 1)
    for k, (mean, S) in enumerate(zip(means, covariances, strict=True)):
        error = np.sqrt(np.diag(S) / n)
        assert np.all(np.abs(draws[:, k].mean(0) - mean) < 4.5 * error)  # four, of sixteen numbers
        spread = np.sqrt((np.outer(np.diag(S), np.diag(S)) + S**2) / n)
        assert np.all(np.abs(np.cov(draws[:, k].T) - S) < 5.0 * spread)  # of 128
