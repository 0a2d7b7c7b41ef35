"""Functions of counts that come from tables have the bits of what they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi.likelihoods.counts import LEAST_COUNTS, _constant, _digamma, _of_counts, _trigamma

MANY = 4 * LEAST_COUNTS


@pytest.mark.parametrize("function", [_constant, _digamma, _trigamma])
@pytest.mark.parametrize(
    "y",
    [
        np.arange(float(MANY)) % 40,
        np.arange(float(MANY)) % 40 + 0.25,
        np.arange(float(MANY)) * 1e6,
        np.full(MANY, float(MANY - 1)),
        np.zeros(MANY),
        np.arange(3.0),
        np.zeros(0),
        np.arange(MANY, dtype=np.float32),
    ],
    ids=["few", "fractions", "large", "largest", "zeros", "three", "none", "single precision"],
)
def test_a_table_has_the_bits_of_its_function(function, y):
    for size in (0.3, 5.0):
        np.testing.assert_array_equal(_of_counts(function, y, size), function(y, size))
