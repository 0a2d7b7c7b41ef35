"""Products that let other threads run: the same numbers as NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi._runtime.parallel import times_triangle
from sksvi.models.gp.bounds import inverse_triangle


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(0, 3), (1, 1), (7, 1), (5, 4), (300, 33)])
def test_times_triangle(dtype, n, d, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    A, root = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((d, d))
    for given in (A, np.asfortranarray(A), np.repeat(A, 2, axis=0)[::2]):
        for C in (root, np.asfortranarray(root)):
            before = given.copy()
            found = times_triangle(given, C)
            assert found.dtype == dtype and found.flags.c_contiguous
            np.testing.assert_allclose(
                found, A @ np.tril(C).astype(dtype).T, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-5
            )
            np.testing.assert_array_equal(given, before)


@pytest.mark.parametrize("d", [1, 5, 33])
def test_rows_over_a_triangle_are_rows_times_its_inverse(d, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    A, factor = rng.standard_normal((40, d)), rng.standard_normal((d, d)) / d + 2.0 * np.eye(d)
    found = times_triangle(times_triangle(A, factor), inverse_triangle(np.asfortranarray(np.tril(factor))))
    np.testing.assert_allclose(found, A, rtol=1e-10, atol=1e-12)
