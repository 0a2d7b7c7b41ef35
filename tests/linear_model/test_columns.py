"""What rows say of the spread of their columns."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from sksvi.linear_model._columns import ColumnStats


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 64, 65, 127, 8193])
@pytest.mark.parametrize("layout", [partial(np.asarray, order="C"), partial(np.asarray, order="F"), sp.csr_array])
def test_extremes_and_columns_of_two_values(n, layout, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = np.column_stack([rng.standard_normal(n), rng.integers(0, 2, n), np.full(n, 3.0), rng.integers(-1, 2, n)])
    known = ColumnStats.of(layout(X), None, np.zeros(4))
    np.testing.assert_array_equal(known.low, X.min(axis=0))
    np.testing.assert_array_equal(known.high, X.max(axis=0))
    np.testing.assert_array_equal(known.two, [len(np.unique(column)) <= 2 for column in X.T])


@pytest.mark.parametrize("layout", [partial(np.asarray, order="C"), partial(np.asarray, order="F"), sp.csr_array])
def test_moments_of_rows_with_weights(layout, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, weight = rng.standard_normal((9000, 40)) * rng.integers(0, 2, (9000, 40)), rng.integers(0, 3, 9000).astype(float)
    known, centre = ColumnStats.of(layout(X), weight, np.linspace(-1.0, 1.0, 40)), np.linspace(-1.0, 1.0, 40)
    np.testing.assert_allclose(known.mean, np.average(X - centre, axis=0, weights=weight), atol=1e-12)
    np.testing.assert_allclose(known.square, np.average((X - centre) ** 2, axis=0, weights=weight), rtol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
def test_moments_where_the_first_rows_are_far_from_the_others(order, global_random_seed):
    """Squares about the mean of the first rows would have no digit of the deviation."""
    X = np.random.default_rng(global_random_seed).standard_normal((30_000, 50))
    X[10_000:, 0] += 1e9
    X[10_000:, 1] = 1e9 + np.arange(20_000) % 2
    X[:10_000, 1] = 1e9
    known = ColumnStats.about_means(np.asarray(X, order=order), None, True)
    np.testing.assert_allclose(known.centre, X.mean(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.sqrt(known.square - np.square(known.mean)), X.std(axis=0), rtol=1e-7)
