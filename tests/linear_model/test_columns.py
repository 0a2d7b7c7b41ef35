"""What rows say of the spread of their columns."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi.linear_model._columns import ColumnStats


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 64, 65, 127, 8193])
@pytest.mark.parametrize("order", ["C", "F"])
def test_extremes_and_columns_of_two_values(n, order, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = np.column_stack([rng.standard_normal(n), rng.integers(0, 2, n), np.full(n, 3.0), rng.integers(0, 3, n)])
    X = np.asarray(X, order=order)
    known = ColumnStats.of(X, None, np.zeros(4))
    np.testing.assert_array_equal(known.low, X.min(axis=0))
    np.testing.assert_array_equal(known.high, X.max(axis=0))
    np.testing.assert_array_equal(known.two, [len(np.unique(column)) <= 2 for column in X.T])


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
