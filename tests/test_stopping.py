"""When a noisy fit is done: neither too early on a slow climb nor never because of noise."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi.stopping import MIN_PASSES, REMAINING, extrapolated_change, settled

BEST = -1000.0


def first_stop(bounds, tol):
    """Passes after which the fit would stop, or None."""
    return next((t for t in range(1, len(bounds) + 1) if settled(list(bounds[:t]), tol)), None)


def climb(kind, size, passes):
    t = np.arange(1, passes + 1)
    if kind == "1/t":
        return BEST - size / t
    if kind == "exponential":
        return BEST - size * np.exp(-t / 8.0)
    if kind == "1/sqrt(t)":
        return BEST - size / np.sqrt(t)
    return BEST - size / (1.0 + t / 20.0) ** 2


@pytest.mark.parametrize("size", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("kind", ["1/t", "exponential", "1/t²"])
@pytest.mark.parametrize("tol", [1e-3, 1e-4])
def test_no_false_stop_on_a_slow_climb(kind, size, tol):
    """What is left when the rule says stop is no more than it promises."""
    bounds = climb(kind, size, 5000)
    stop = first_stop(bounds, tol)
    assert stop is not None
    assert BEST - bounds[stop - 1] <= REMAINING * tol * (abs(BEST) + 1)


@pytest.mark.parametrize("tol", [1e-3, 1e-4])
def test_a_climb_slower_than_assumed_stops_within_twice_the_promise(tol):
    """An error C/sqrt(t) leaves twice what C/t would: 2 s t instead of s t."""
    bounds = climb("1/sqrt(t)", 30.0, 3000)
    stop = first_stop(bounds, tol)
    left = BEST - bounds[stop - 1] if stop else 0.0
    assert left <= 2.5 * REMAINING * tol * (abs(BEST) + 1)


@pytest.mark.parametrize("sd", [0.01, 0.3, 3.0])
def test_noise_does_not_stop_a_climb(sd, global_random_seed):
    """False stops on noisy climbs over many sequences: what is left stays within the promise."""
    tol, false = 1e-4, 0
    promise = REMAINING * tol * (abs(BEST) + 1)
    for i in range(50):
        rng = np.random.default_rng([global_random_seed, i])
        clean = climb("1/t", 300.0, 600)
        stop = first_stop(clean + sd * rng.standard_normal(600), tol)
        false += stop is not None and BEST - clean[stop - 1] > 1.5 * promise
    assert false <= 2


@pytest.mark.parametrize("sd", [0.0, 0.01, 0.3])
def test_a_flat_noisy_bound_stops(sd, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    assert first_stop(BEST + sd * rng.standard_normal(400), 1e-4) is not None


def test_noise_as_large_as_the_question_waits(global_random_seed):
    """Slope and error of a window of ten: an sd of 10 nats cannot say that less than 2 nats are left."""
    rng = np.random.default_rng(global_random_seed)
    assert not settled(list(BEST + 10.0 * rng.standard_normal(20)), 1e-4)


def test_needs_some_passes():
    assert not settled([BEST] * (MIN_PASSES - 1), 1e-4)
    assert settled([BEST] * MIN_PASSES, 1e-4)
    assert not settled([], 1e-4)


def test_tolerance_zero_never_stops():
    assert not settled([BEST] * 100, 0.0)


def test_a_falling_bound_is_no_convergence():
    assert not settled(list(BEST - 10.0 * np.arange(40)), 1e-4)


def test_bounds_near_zero_have_an_absolute_tolerance():
    assert settled(list(1e-9 * np.sin(np.arange(40.0))), 1e-4)
    assert not settled(list(-1.0 / np.arange(1, 20)), 1e-6)


def test_extrapolation_is_right_for_one_over_t():
    bounds = list(climb("1/t", 100.0, 2000))
    change, error = extrapolated_change(bounds)
    # The window's slope is that of its middle, 0.75 t: between 1 and 2 times the true remainder.
    assert 1.0 <= change / (100.0 / 2000) <= 2.1
    assert error < change


def test_the_standard_error_is_right(global_random_seed):
    """Pure noise: the extrapolated change is zero within four of its errors, and varies as they say."""
    rng = np.random.default_rng(global_random_seed)
    pairs = np.array([extrapolated_change(list(rng.standard_normal(60))) for _ in range(400)])
    ratio = pairs[:, 0] / pairs[:, 1]
    assert abs(ratio.mean()) <= 4 * ratio.std() / 20
    assert ratio.std() == pytest.approx(1.0, abs=0.2)
