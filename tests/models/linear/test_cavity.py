"""Latents without their row by matrices of rows, beside inverses of the whole precision without the row."""

import numpy as np
import pytest
from scipy.special import softmax

from sksvi.models.linear.row_matrices import MOST_CUBED, affordable, shifts, variances

#: Rows, classes.
N, K = 12, 4


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 43])


@pytest.fixture
def gram(rng):
    half = rng.standard_normal((N, 2 * N))
    return half @ half.T


def without(gram, curvature, i, one):
    """Covariance (K, K) of the latents of row i under the curvatures (n, K, K) of all, less `one` of this row."""
    n, k = curvature.shape[:2]
    precision = np.kron(np.linalg.inv(gram), np.eye(k))
    for j in range(n):
        precision[j * k : (j + 1) * k, j * k : (j + 1) * k] += curvature[j] - (one if j == i else 0.0)
    return np.linalg.inv(precision)[i * k : (i + 1) * k, i * k : (i + 1) * k]


@pytest.mark.parametrize("weighted", [False, True])
def test_variances_are_those_of_the_others(weighted, gram, rng):
    gamma, copies = rng.random(N), 1.0 + weighted * 3.0 * rng.random(N)
    gamma[0] = 0.0
    whole = (copies * gamma)[:, None, None]
    exact = [without(gram, whole, i, gamma[i])[0, 0] for i in range(N)]
    np.testing.assert_allclose(variances(gram, gamma, copies)[1:], exact[1:], rtol=1e-8)
    assert variances(gram, gamma, copies)[0] == pytest.approx(exact[0], rel=1e-3)  # where nothing is removed


@pytest.mark.parametrize("weighted", [False, True])
def test_shifts_are_those_of_the_joint_curvature(weighted, gram, rng):
    p, slope = softmax(2.0 * rng.standard_normal((N, K)), axis=1), rng.standard_normal((N, K))
    share, copies = np.ones(N), np.ones(N)
    if weighted:
        share[:4], copies[4:8] = 0.3, 2.5
    one = share[:, None, None] * (p[:, :, None] * np.eye(K) - p[:, :, None] * p[:, None, :])
    whole = copies[:, None, None] * one
    exact = [without(gram, whole, i, one[i]) @ (share[i] * slope[i]) for i in range(N)]
    np.testing.assert_allclose(shifts(gram, p, slope, share, copies), exact, rtol=1e-7, atol=1e-9)


def test_a_class_that_no_row_can_be_of_moves_nothing_else(gram, rng):
    p = softmax(rng.standard_normal((N, 3)), axis=1)
    slope = np.eye(3)[rng.integers(0, 3, N)] - p
    one = np.ones(N)
    more = np.column_stack([p, np.zeros(N)])
    found = shifts(gram, more, np.column_stack([slope, np.zeros(N)]), one, one)
    few = shifts(gram, p, slope, one, one)
    np.testing.assert_allclose(found[:, :3] - found[:, :1], few - few[:, :1], rtol=1e-6, atol=1e-8)


def test_what_is_no_covariance_raises(gram):
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        variances(-gram, np.ones(N), np.ones(N))


def test_few_rows_are_affordable():
    assert affordable(500, 2) and not affordable(500, 100) and affordable(MOST_CUBED ** (1 / 3) - 1, 1)
    assert not affordable(MOST_CUBED ** (1 / 3) + 1, 1)
