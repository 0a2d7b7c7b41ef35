"""Long series: parameters begin where a fit to the first points ends, and end where those of any fit do."""

import tracemalloc

import numpy as np
import pytest

from sksvi import DynamicGLM
from sksvi.models.time_series.components import Dynamics
from sksvi.models.time_series.model import TOGETHER
from sksvi.time_series import _dynamic
from sksvi.time_series._level import LONG, PARTS

T = LONG


def counts(seed, variances):
    """Counts around a level that walks by these variances a step, pulled back to 1."""
    rng = np.random.default_rng(seed)
    steps, f = np.sqrt(variances) * rng.standard_normal(len(variances)), np.empty(len(variances))
    at = 1.0
    for t, step in enumerate(steps):
        at = f[t] = 1.0 + 0.99 * (at - 1.0) + step
    return rng.poisson(np.exp(f)).astype(float)


def both(monkeypatch, y, **parameters):
    """A fit, and one that learns nothing from a part."""
    own = DynamicGLM(**parameters).fit(None, y)
    monkeypatch.setattr(_dynamic, "first_part", lambda *rows: None)
    return own, DynamicGLM(**parameters).fit(None, y)


@pytest.mark.costly
@pytest.mark.parametrize("still", [False, True], ids=["moves", "first_points_still"])
def test_ends_where_any_fit_does(monkeypatch, global_random_seed, still):
    variances = np.full(T, 0.02)
    if still:
        variances[: T // PARTS] = 0.0
    own, other = both(monkeypatch, counts(global_random_seed, variances), level="walk")
    assert own.converged_ and other.converged_
    assert own.lower_bound_ == pytest.approx(other.lower_bound_, abs=2e-6 * abs(other.lower_bound_))
    assert own.level_variance_ == pytest.approx(other.level_variance_, rel=0.01)
    assert still or own.n_iter_ < other.n_iter_  # passes over all points


def test_a_part_that_says_nothing_is_left_aside(monkeypatch, global_random_seed):
    y = counts(global_random_seed, np.full(T, 0.02))
    y[: T // PARTS - 5] = np.nan
    own, other = both(monkeypatch, y)
    assert own.n_iter_ == other.n_iter_ and own.lower_bound_ == other.lower_bound_


def test_what_a_search_would_not_leave_begins_anew():
    dynamics = Dynamics(2.0)
    dynamics.add_level("auto", True, "auto", 100.0)
    start = dynamics.start
    none = np.log(1e-9) + 2.0 * np.log(2.0)
    assert np.array_equal(dynamics.moving(np.array([none + 0.5, start[1] + 3.0])), [start[0], start[1] + 3.0])
    high = dynamics.parameters[1].high
    assert np.array_equal(dynamics.moving(np.array([none + 1.5, high - 0.5])), [none + 1.5, start[1]])


def test_a_long_series_is_held_in_ten_numbers_a_point_and_one_a_state():
    """At its highest, beside the series: two blocks of messages and moments, and the gradient at one of them."""
    y = counts(0, np.full(20 * TOGETHER, 0.02))
    DynamicGLM(level_variance=0.02).fit(None, y[:100])
    tracemalloc.start()
    try:
        DynamicGLM(level_variance=0.02, n_jobs=1).fit(None, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8.0 * (10.0 + 1.0) * len(y)
