"""The search over hyperparameters, on functions whose maximum is known."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi.algorithms.ascent import MOST_LOOKS, WINDOW, StopAscent, _Ascent, ascend
from sksvi.families import NotPositiveDefinite

FREE = [(None, None)] * 2


def quadratic(x):
    away = x - np.array([1.0, -2.0])
    return 3.0 - away @ away, -2.0 * away


def never(value):
    return False


def ascent(function=quadratic, tick=never, enough=1e-9):
    return _Ascent(function, tick, lambda value: enough)


def test_the_maximum_is_found():
    best, value = ascend(quadratic, np.zeros(2), FREE, never, lambda value: 1e-12, 50)
    np.testing.assert_allclose(best, [1.0, -2.0], atol=1e-6)
    assert value == pytest.approx(3.0)


@pytest.mark.parametrize("beyond", [np.nan, np.inf, None], ids=["nan", "infinite", "not definite"])
def test_points_without_a_value_are_stepped_back_from(beyond):
    """2 log(1 - x) + 30 x is highest just before 1, beyond which there is none."""
    refused = []

    def function(x):
        if x[0] >= 1.0:
            refused.append(x[0])
            if beyond is None:
                raise NotPositiveDefinite("beyond")
            return beyond, np.array([1.0])
        return 2.0 * np.log1p(-x[0]) + 30.0 * x[0], np.array([30.0 - 2.0 / (1.0 - x[0])])

    best, _ = ascend(function, np.array([0.5]), [(None, None)], never, lambda value: 1e-12, 200)
    assert refused
    np.testing.assert_allclose(best, 14.0 / 15.0, rtol=1e-5)


def test_a_point_without_a_value_is_on_a_parabola_uphill_of_where_the_step_began():
    """Negated: the mean of the slopes at both ends is the rise between them, and the far end rises."""
    search = ascent(lambda x: quadratic(x) if x[0] < 0.5 else (np.nan, x))
    start, step = np.zeros(2), np.array([0.7, 0.1])
    value, slope = search(start)
    far, far_slope = search(start + step)
    assert slope @ step < 0 < far_slope @ step
    assert far - value == pytest.approx(0.5 * (slope + far_slope) @ step)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_start_without_a_value_is_refused(value):
    with pytest.raises(ValueError, match="not finite where the search begins"):
        ascend(lambda x: (value, x), np.zeros(2), FREE, never, lambda value: 1e-9, 50)
    with pytest.raises(ValueError, match="not finite where the search begins"):
        ascend(lambda x: (0.0, x * value), np.ones(2), FREE, never, lambda value: 1e-9, 50)

    def refuse(x):
        raise NotPositiveDefinite("here")

    with pytest.raises(NotPositiveDefinite, match="here"):
        ascend(refuse, np.zeros(2), FREE, never, lambda value: 1e-9, 50)


def test_the_first_step_is_of_length_one_however_steep_the_start():
    looked = []

    def steep(x):
        looked.append(x)
        return -1e4 * (x @ x), -2e4 * x

    ascend(steep, np.array([30.0, 40.0]), FREE, never, lambda value: 1e-9, 3)
    assert np.linalg.norm(looked[1] - looked[0]) == pytest.approx(1.0)
    looked.clear()
    ascend(lambda x: (looked.append(x), quadratic(0.01 * x))[1], np.zeros(2), FREE, never, lambda value: 1e-9, 3)
    assert len(looked) > 1


def test_the_best_point_is_told_and_returned():
    told, values = [], iter([1.0, 5.0, 2.0])
    search = ascent(lambda x: (next(values), np.ones(2)), tick=lambda value: told.append(value))
    points = [np.zeros(2), np.ones(2), 2.0 * np.ones(2)]
    for x in points:
        search(x)
    assert told == [1.0, 5.0, 5.0]
    np.testing.assert_array_equal(search.best[0], points[1])
    best, value = ascend(quadratic, np.array([0.9, -2.0]), FREE, lambda value: True, lambda value: 1e-9, 50)
    assert list(best) == [0.9, -2.0] and value == pytest.approx(2.99)


def test_an_objective_may_stop_the_search():
    def stop(x):
        raise StopAscent

    best, value = ascend(stop, np.array([4.0, 5.0]), FREE, never, lambda value: 1e-9, 50)
    assert list(best) == [4.0, 5.0] and value == -np.inf


def test_iterations_that_gain_too_little_together_end_the_search():
    """`enough` is 1 for `WINDOW` iterations: 0.3 each are fine, 0.1 each are not, once they are that many."""
    gains = [0.3] * 4 + [0.1] * 20
    values = iter(np.cumsum([0.0, *gains]))
    search, asked, accepted = ascent(lambda x: (next(values), 100.0 * np.ones(2))), [], 0
    search.enough = lambda value: (asked.append(value), 1.0)[1]
    search(np.zeros(2))
    with pytest.raises(StopAscent):
        for k in range(1, len(gains)):
            search(np.full(2, float(k)))
            search.accepted(np.full(2, float(k)))
            accepted += 1
    kept = search.values
    assert kept[-1] - kept[-1 - WINDOW] < 1.0
    assert all(kept[k] - kept[k - WINDOW] >= 1.0 for k in range(WINDOW, len(kept) - 1))
    assert accepted == len(kept) - 1 >= WINDOW
    assert asked == kept[WINDOW:], "what is enough depends on the last value"


def test_a_line_search_that_comes_back_too_near_ends_the_search():
    looked = []

    def function(x):
        looked.append(x[0])
        return x[0], np.array([1.0, 0.0])

    search = ascent(function, enough=0.1)
    near, far = np.array([0.09 / WINDOW, 0.0]), np.array([0.11 / WINDOW, 0.0])
    search(np.zeros(2))
    search(near)  # the first look of an iteration is always taken
    search(far)  # promises enough
    with pytest.raises(StopAscent):
        search(near)
    assert looked == [0.0, near[0], far[0]]
    search.accepted(near)
    search(search.base[0] + near)


def test_a_line_search_that_finds_no_end_ends_the_search():
    """A bound that jumps along the line is bisected there, each look a fit of q: 17 of them, of forty irises."""
    looked = []

    def function(x):
        looked.append(x[0])
        return -float(x[0] > 0.4), np.array([1.0, 0.0])

    search = ascent(function, enough=1e-9)
    search(np.zeros(2))
    for look in range(MOST_LOOKS):
        search(np.array([0.4 + (-0.5) ** (look + 2), 0.0]))
    with pytest.raises(StopAscent):
        search(np.array([0.4, 0.0]))
    assert len(looked) == MOST_LOOKS + 1
    search.accepted(np.array([0.4, 0.0]))
    search(np.array([0.41, 0.0]))  # those of another line count anew


def banana(x):
    return -np.square(1.0 - x[0]) - 100.0 * np.square(x[1] - x[0] ** 2), np.array(
        [2.0 * (1.0 - x[0]) + 400.0 * x[0] * (x[1] - x[0] ** 2), -200.0 * (x[1] - x[0] ** 2)]
    )


def test_the_maximum_is_found_in_units_of_each_coordinate():
    best, value = ascend(banana, np.array([-1.2, 1.0]), FREE, never, lambda value: 1e-14, 500, 60, lambda: np.ones(2))
    np.testing.assert_allclose(best, 1.0, atol=1e-5)
    assert value == pytest.approx(0.0, abs=1e-10)


def test_an_end_of_the_box_is_the_maximum_in_units_too():
    box = [(None, 0.5), (-4.0, None)]
    best, _ = ascend(banana, np.array([-1.2, 1.0]), box, never, lambda value: 1e-14, 500, 60, lambda: np.ones(2))
    np.testing.assert_allclose(best, [0.5, 0.25], atol=1e-5)


def test_units_stand_for_the_curvature():
    """Where they are its inverse roots the second step is the whole way, whatever the units; else it takes more."""
    looked, curvature = [], np.geomspace(1.0, 1e4, 30)

    def function(x):
        looked.append(x)
        return -0.5 * curvature @ np.square(x - 1.0), -curvature * (x - 1.0)

    def looks(units):
        looked.clear()
        ascend(function, np.zeros(30), [(None, None)] * 30, never, lambda value: 1e-8, 500, 60, lambda: units)
        return len(looked)

    assert looks(1e-3 / np.sqrt(curvature)) < 10 < looks(np.ones(30))


def test_points_without_a_value_are_stepped_back_from_in_units_too():
    def function(x):
        if x[0] >= 1.0:
            raise NotPositiveDefinite("beyond")
        return 2.0 * np.log1p(-x[0]) + 30.0 * x[0], np.array([30.0 - 2.0 / (1.0 - x[0])])

    best, _ = ascend(function, np.array([0.5]), [(None, None)], never, lambda value: 1e-12, 200, 60, lambda: np.ones(1))
    np.testing.assert_allclose(best, 14.0 / 15.0, rtol=1e-5)
