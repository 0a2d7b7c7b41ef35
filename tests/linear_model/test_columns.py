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
