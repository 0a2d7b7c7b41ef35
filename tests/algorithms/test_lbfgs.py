"""L-BFGS on convex functions: beside SciPy's, exact on few numbers, and how it ends."""

import numpy as np
import pytest
from scipy.optimize import minimize

from sksvi.algorithms.ascent import minimise


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 44])


def logistic(rng, n=60, d=30):
    """Minus a log posterior of a logistic regression with a standard normal prior."""
    A, sign = rng.standard_normal((n, d)), rng.choice([-1.0, 1.0], n)

    def function(x):
        f = sign * (A @ x)
        return np.logaddexp(0.0, -f).sum() + 0.5 * x @ x, x - A.T @ (sign / (1.0 + np.exp(f)))

    return function, d


def test_minimum_is_that_of_scipy(rng):
    function, d = logistic(rng)
    x, settled = minimise(function, np.zeros(d), 500, 0.0, 1e-7)
    exact = minimize(function, np.zeros(d), jac=True, method="BFGS", options={"gtol": 1e-9})
    assert settled
    np.testing.assert_allclose(x, exact.x, atol=1e-6)


@pytest.mark.parametrize("memory", [1, 3, 5])
def test_values_never_rise(memory, rng):
    function, d = logistic(rng)
    values = [function(minimise(function, np.zeros(d), most, 0.0, 0.0, memory)[0])[0] for most in range(15)]
    assert np.all(np.diff(values) <= 0.0) and values[-1] < values[0]


def test_directions_are_those_of_the_recursion(rng):
    """Steps of the form -H g for the inverse Hessian that the stored pairs define, formed as a matrix."""
    function, d = logistic(rng, 40, 6)
    points = [np.zeros(d)]
    for most in range(1, 5):
        points.append(minimise(function, np.zeros(d), most, 0.0, 0.0)[0])
    slopes = [function(x)[1] for x in points]
    H, pairs = np.eye(d), [(b - a, s - r) for a, b, r, s in zip(points, points[1:], slopes, slopes[1:], strict=False)]
    pairs = pairs[:-1]
    step, change = pairs[-1]
    H *= (step @ change) / (change @ change)
    for step, change in pairs:
        left = np.eye(d) - np.outer(step, change) / (step @ change)
        H = left @ H @ left.T + np.outer(step, step) / (step @ change)
    direction, taken = -H @ slopes[-2], points[-1] - points[-2]
    share = (taken @ direction) / (direction @ direction)
    assert share == pytest.approx(2.0 ** round(np.log2(share)), rel=1e-6)
    np.testing.assert_allclose(taken, share * direction, rtol=1e-5, atol=1e-9)


def test_it_says_whether_it_has_ended(rng):
    function, d = logistic(rng)
    assert not minimise(function, np.zeros(d), 2, 0.0, 0.0)[1]
    x, settled = minimise(function, np.zeros(d), 500, 1e-3, 0.0)
    assert settled and np.abs(function(x)[1]).max() > 1e-6
    x, settled = minimise(function, np.zeros(d), 500, 0.0, 1.0)
    assert settled and np.abs(function(x)[1]).max() <= 1.0
    at = minimise(function, np.zeros(d), 500, 0.0, 1e-9)[0]
    there, settled = minimise(function, at, 500, 0.0, 1e-5)
    assert settled
    np.testing.assert_array_equal(there, at)
