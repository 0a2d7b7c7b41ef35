"""Rows that are brought to the coordinates of a fit block by block."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.families import Gaussian
from sksvi.linear_model._columns import MOST_SHIFT
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


PRODUCTS = {
    "dot": lambda rows, q, numbers: rows.dot(q.mean),
    "dots": lambda rows, q, numbers: rows.dots(q.root),
    "spread": lambda rows, q, numbers: rows.spread(q),
    "form": lambda rows, q, numbers: rows.form(q.cov),
    "diagonal spread": lambda rows, q, numbers: rows.diagonal_spread(q.variance),
    "pull": lambda rows, q, numbers: rows.pull(numbers),
    "gram": lambda rows, q, numbers: rows.gram(numbers, True),
    "squares": lambda rows, q, numbers: rows.gram(numbers, False),
}


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("far", "rtol"), [(1.0, 1e-12), (MOST_SHIFT, 1e-10)])
def test_products_of_rows_as_they_are(product, intercept, far, rtol, global_random_seed):
    """They are those of rescaled rows, to the digits that a centre costs."""
    rng = np.random.default_rng(global_random_seed)
    centre, root = far * rng.random(5), np.tril(rng.standard_normal((5 + intercept, 5 + intercept)))
    design = Rescaled(centre + rng.standard_normal((40, 5)), centre, np.ones(5), True)
    q, numbers = Gaussian(rng.standard_normal(5 + intercept), np.linalg.inv(root.T @ root)), rng.standard_normal(40)
    wanted = product(design.made(intercept), q, numbers)
    found = product(design.rows(intercept), q, numbers)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * np.abs(wanted).max())


@pytest.mark.parametrize("far", [5.0, 3.0 * MOST_SHIFT])
def test_a_fit_far_from_zero_is_that_about_it(far, global_random_seed):
    """Rows that are taken as they are, and rows that are made."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((300, 3))
    y = rng.poisson(np.exp(0.3 * X[:, 0])).astype(float)
    fits = [BayesianGLMRegressor(likelihood="poisson").fit(rows, y) for rows in (X, X + far)]
    np.testing.assert_allclose(fits[1].coef_, fits[0].coef_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fits[1].lower_bounds_[-1], fits[0].lower_bounds_[-1], rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
@pytest.mark.parametrize("far", [3.0, 3.0 * MOST_SHIFT])
def test_bits_do_not_depend_on_the_layout_of_the_rows(dtype, covariance, likelihood, far, global_random_seed):
    """Rows that lie one after another are rescaled block by block, others at once where they are far from zero."""
    rng = np.random.default_rng(global_random_seed)
    X = (far + rng.standard_normal((9000, 3))).astype(dtype)
    y = rng.poisson(np.exp(0.3 * (X[:, 0] - far))).astype(float)
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
