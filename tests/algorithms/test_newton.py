"""Newton's steps in a box: where they end, what they look at, and what turns them back."""

import numpy as np
import pytest

from sksvi.algorithms.ascent import climb
from sksvi.families.base import NotPositiveDefinite


def climbed(function, curvature, start, low=-50.0, high=50.0, **options):
    """Points that were looked at, and the best."""
    looks = []

    def looked(x):
        value, slope = function(x)
        looks.append((value, x))
        return value, slope

    size = len(start)
    options = {"stop": lambda value, promised: False, "enough": lambda value: 1e-10, **options}
    climb(looked, curvature, start, np.full(size, low), np.full(size, high), **options)
    return looks, max(looks, key=lambda look: look[0])[1]


def scales(sums, counts):
    """Log density of several variances, of which each has a sum of squares and a count: in their logarithms."""
    return lambda x: (
        float(-0.5 * np.sum(counts * x + sums * np.exp(-x))),
        0.5 * (sums * np.exp(-x) - counts),
    )


def test_variances_are_found_in_few_looks():
    sums, counts = np.array([3.0, 2e4]), np.array([10.0, 100.0])
    curvature = lambda x, slope: np.diag(0.5 * sums * np.exp(-x))  # noqa: E731
    looks, best = climbed(scales(sums, counts), curvature, np.array([-0.8, 5.0]))
    np.testing.assert_allclose(best, np.log(sums / counts), rtol=1e-5)
    assert len(looks) <= 7


def test_where_the_curvature_is_none_or_wrong_bfgs_finds_it():
    def valley(x):
        a, b = x[1] - x[0] ** 2, 1.0 - x[0]
        return -(10.0 * a * a + b * b), np.array([40.0 * a * x[0] + 2.0 * b, -20.0 * a])

    for told in (np.eye(2), -np.eye(2), np.array([[1.0, 5.0], [5.0, 1.0]])):
        _, best = climbed(valley, lambda x, slope, told=told: told.copy(), np.array([-1.2, 1.0]))
        np.testing.assert_allclose(best, 1.0, atol=1e-3)


def test_sides_hold():
    function, curvature = scales(np.ones(2), np.ones(2)), lambda x, slope: np.eye(2)
    looks, best = climbed(function, curvature, np.array([3.0, 3.0]), low=1.0)
    assert all(np.all(x >= 1.0) for _, x in looks)
    np.testing.assert_array_equal(best, 1.0)


def test_points_without_a_value_are_stepped_back_from():
    def walled(x):
        if x[0] > 1.5:
            raise NotPositiveDefinite("a wall")
        return -((x[0] - 1.4) ** 2), np.array([-2.0 * (x[0] - 1.4)])

    _, best = climbed(walled, lambda x, slope: np.eye(1), np.zeros(1))
    assert best[0] == pytest.approx(1.4, abs=1e-4)
    with pytest.raises(NotPositiveDefinite):
        climbed(walled, lambda x, slope: np.eye(1), np.array([2.0]))


def test_who_watches_ends_it():
    told = []

    def seen(value, promised):
        told.append((value, promised))
        return len(told) == 2

    looks, _ = climbed(scales(np.ones(1), np.ones(1)), lambda x, slope: np.eye(1), np.array([2.0]), stop=seen)
    assert len(looks) == 2 and told[0][0] == looks[0][0]
