"""L-BFGS within a box, on functions whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from sksvi.algorithms.lbfgs import _lowest, descend

EVERYWHERE = np.full(2, -np.inf), np.full(2, np.inf)


class Enough(Exception):
    """What a search ends with."""


def found(function, start, low, high, small=1e-6, most=500):
    """Where the projected gradient is small, the evaluations, and the values of iterations."""
    looked, ended = [], []

    def told(x):
        value, slope = function(x)
        looked.append((x, value))
        assert np.all(x >= low) and np.all(x <= high)
        if np.abs(np.clip(x - slope, low, high) - x).max() < small:
            raise Enough
        return value, slope

    def accepted(x):
        assert x is looked[-1][0], "the last point that was evaluated"
        ended.append(looked[-1][1])

    try:
        descend(told, np.asarray(start, float), low, high, accepted, 20, most)
    except Enough:
        pass
    return looked[-1][0], len(looked), ended


def rosenbrock(x):
    bent, off = x[1:] - x[:-1] ** 2, 1.0 - x[:-1]
    slope = np.zeros(len(x))
    slope[:-1] = -400.0 * x[:-1] * bent - 2.0 * off
    slope[1:] += 200.0 * bent
    return float(100.0 * bent @ bent + off @ off), slope


def test_a_bent_valley_is_followed_to_its_end():
    n = 6
    none = np.full(n, np.inf)
    x, evaluations, ended = found(rosenbrock, np.full(n, -1.0), -none, none)
    np.testing.assert_allclose(x, 1.0, atol=1e-5)
    assert np.all(np.diff(ended) <= 0.0)
    theirs = minimize(rosenbrock, np.full(n, -1.0), jac=True, method="L-BFGS-B", options={"maxcor": 20, "gtol": 1e-6})
    assert evaluations < 1.5 * theirs.nfev


def test_ends_of_the_box_hold_what_would_leave_and_let_go_what_comes_back(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    n = 8
    root = rng.standard_normal((n, n))
    bend, pull = root @ root.T + 0.1 * np.eye(n), 3.0 * rng.standard_normal(n)
    low, high = np.full(n, -0.5), np.full(n, 0.5)
    start = np.where(rng.random(n) < 0.5, low, high)

    def function(x):
        return float(0.5 * x @ bend @ x - pull @ x), bend @ x - pull

    x, evaluations, _ = found(function, start, low, high)
    theirs = minimize(function, start, jac=True, method="L-BFGS-B", bounds=list(zip(low, high, strict=True)))
    assert np.any(np.abs(x) == 0.5)
    assert function(x)[0] == pytest.approx(theirs.fun, abs=1e-4)
    assert evaluations < 200


def test_a_start_that_nothing_can_leave_ends_at_once():
    calls = []

    def function(x):
        calls.append(x)
        return float(x.sum()), np.ones(2)

    descend(function, np.zeros(2), np.zeros(2), np.ones(2), calls.append, 5, 100)
    assert len(calls) == 1


def test_no_more_evaluations_than_wanted():
    calls = []

    def function(x):
        calls.append(x)
        return rosenbrock(x)

    descend(function, np.array([-1.0, 2.0]), *EVERYWHERE, lambda x: None, 20, 7)
    assert len(calls) == 7


def test_a_cubic_is_lowest_where_its_slope_is_zero_and_bends_up():
    def cubic(x):  # slope (x - 3)(x + 1)
        return x, x**3 / 3 - x**2 - 3 * x, x**2 - 2 * x - 3

    for a, b in ((0.0, 4.0), (4.0, 0.0), (1.5, 2.0)):
        assert _lowest(cubic(a), cubic(b)) == pytest.approx(3.0)
    assert np.isnan(_lowest((0.0, 0.0, 1.0), (1.0, 2.0 / 3.0, 1.0)))
