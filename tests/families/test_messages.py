"""Messages between blocks, and the products of matrices that they take."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.special import polygamma

from sksvi.families import DiagonalGaussian, Gaussian, Message, Point, Simplex
from sksvi.families.gamma import excess
from sksvi.families.gaussian.dense import STILL
from sksvi.families.gaussian.structures import DENSE, DIAGONAL
from sksvi.families.implicit import LARGE_SHAPE


def precise(rng, size, full=True):
    factor = rng.standard_normal((size, size))
    return factor @ factor.T + np.eye(size) if full else rng.uniform(0.5, 3.0, size)


@pytest.mark.parametrize("kind", ["full", "diag", "point"])
def test_what_a_block_hears_it_is_told(kind, global_random_seed):
    """The gradient comes back, and the value is that of the quadratic form that has it."""
    rng = np.random.default_rng(global_random_seed)
    mean, gradient, bend = rng.standard_normal(3), rng.standard_normal(3), precise(rng, 3, kind != "diag")
    block = {"full": Gaussian, "diag": DiagonalGaussian, "point": lambda m, _: Point(m)}[kind](mean, bend)
    message = block.message_from_gradient((gradient, -bend))
    (back, curve), value = block.expected_log_message(message)
    np.testing.assert_allclose(back, gradient, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(curve, -bend, rtol=1e-12)
    linear, information = message.added()
    dense = np.diag(information) if kind == "diag" else information
    cov = (
        np.zeros((3, 3))
        if kind == "point"
        else np.diag(block.cov)
        if kind == "diag" and block.cov.ndim == 1
        else block.cov
    )
    assert value == pytest.approx(linear @ mean - 0.5 * (mean @ dense @ mean + np.trace(dense @ cov)))


@pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
def test_what_all_rows_said_after_a_sample_of_them_says_something_else(full, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    size, structure = 3, DENSE if full else DIAGONAL
    mean, prior = rng.standard_normal(size), DiagonalGaussian(np.zeros(size), rng.uniform(0.5, 2.0, size))
    block = structure.block(mean, precise(rng, size, full))
    said, old, new = (Message((rng.standard_normal(size), precise(rng, size, full))) for _ in range(3))
    across, own = precise(rng, size, full), precise(rng, size, full)
    linear, precision = block.carried(said, old, new, prior, across, own).added()

    (h, P), (h_old, P_old), (h_new, P_new) = (message.added() for message in (said, old, new))
    still = STILL * (np.diag(prior.precision) if full else prior.precision)
    missed = h - h_old - structure.dot(P - P_old, mean)
    if full:
        carry = np.real(sqrtm((still + P_new) @ np.linalg.inv(still + P_old)))
        np.testing.assert_allclose(precision, carry @ P @ carry.T, rtol=1e-6)
        missed = (across + still) @ np.linalg.solve(own + still, missed)
    wanted = missed + h_new + structure.dot(precision - P_new, mean)
    np.testing.assert_allclose(linear, wanted, rtol=1e-8)


@pytest.mark.parametrize("structure", [DENSE, DIAGONAL])
def test_the_trace_of_a_product(structure, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    P, S = (precise(rng, 4, structure.full) for _ in range(2))
    assert structure.inner(P, S) == pytest.approx(np.trace(structure.dense(P, 4) @ structure.dense(S, 4)))


def test_a_point_on_the_simplex_is_uniform_where_nothing_was_counted():
    np.testing.assert_array_equal(
        Simplex(np.array([[0.0] * 4, [1.0, 3.0, 0.0, 0.0]])).mean, [[0.25] * 4, [0.25, 0.75, 0, 0]]
    )


def test_points_are_averaged_and_keep_the_memory_of_the_later_one():
    first, second = Point(np.array([1.0, 2.0])), Point(np.array([3.0, -2.0]), np.zeros(2), np.eye(2))
    mixed = first.blended(second, 0.25)
    np.testing.assert_allclose(mixed.value, [1.5, 1.0])
    np.testing.assert_array_equal(mixed.information, np.eye(2))


def test_the_excess_of_a_gamma_shape_is_one_function_on_both_sides_of_its_series():
    """a psi'(a) - 1 is 1/(2a) + 1/(6a^2) - 1/(30a^4) + ..."""
    shape = LARGE_SHAPE * np.array([0.1, 1 - 1e-12, 1 + 1e-12, 10.0])
    wanted = 0.5 / shape * (1.0 + (1.0 / 3.0) / shape - (1.0 / 15.0) / shape**3)
    np.testing.assert_allclose(excess(shape, polygamma(1, shape)), wanted, rtol=1e-9)
