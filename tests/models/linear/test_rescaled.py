"""Rows that are brought to the coordinates of a fit block by block."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.models.linear.rows import DenseRows, Rescaled


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("rows", [slice(2, 9), slice(0, 40, 3), np.array([3, 1, 1, 30]), slice(0, 0)])
def test_a_block_is_that_of_rescaled_rows(dtype, intercept, rows, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, centre, scale = rng.standard_normal((40, 5)).astype(dtype), rng.standard_normal(5), rng.random(5) + 0.5
    wanted = ((X - centre) * (1.0 / scale)).astype(dtype)  # as it is made: roundings from the quotient
    found = Rescaled(X, centre, scale)
    assert len(found) == 40 and found.shape == X.shape and found.dtype == dtype
    np.testing.assert_array_equal(np.asarray(found), wanted)
    np.testing.assert_array_max_ulp(wanted, ((X - centre) / scale).astype(dtype), 2)
    block = found[rows].rows(intercept).dense()
    assert block.dtype == dtype and block.flags.c_contiguous
    np.testing.assert_array_equal(block, DenseRows(wanted[rows], intercept).dense())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_bits_do_not_depend_on_the_layout_of_the_rows(dtype, covariance, likelihood, global_random_seed):
    """Rows of one after another are rescaled block by block, others at once."""
    rng = np.random.default_rng(global_random_seed)
    X = (3.0 + rng.standard_normal((9000, 3))).astype(dtype)
    y = rng.poisson(np.exp(0.3 * X[:, 0])).astype(float)
    options = {"likelihood": likelihood, "covariance": covariance, "random_state": 0}
    one, other = (BayesianGLMRegressor(**options).fit(given, y) for given in (X, np.asfortranarray(X)))
    np.testing.assert_array_equal(one.lower_bounds_, other.lower_bounds_)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.coef_std_, other.coef_std_)


def test_a_fit_holds_no_second_copy_of_its_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((200_000, 20))
    y = rng.random(len(X)) < 0.5
    BayesianGLMClassifier().fit(X[:100], y[:100])
    tracemalloc.start()
    try:
        BayesianGLMClassifier(batch_size=None, max_iter=3, tol=1.0, n_jobs=1).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.7 * X.nbytes
