"""Turns of two factors into each other: what they leave as it is, and how far they go."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi.families import Gamma
from sksvi.models.gamma_factor.response import free, turned

K, D = 3, 4


def test_turns_leave_the_covariance_as_it_is(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    draws, prior = rng.gamma(1.0, 1.0, (50, K, D)), Gamma(np.full((K, D), 0.5), np.full((K, D), 2.0))
    found = turned(draws, [(0, 1), (1, 2)], prior, rng)
    assert np.all(found >= 0) and np.abs(found - draws).max() > 0.05
    np.testing.assert_allclose(np.swapaxes(found, 1, 2) @ found, np.swapaxes(draws, 1, 2) @ draws, rtol=1e-9)


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0])
def test_turns_are_as_far_as_the_prior_and_signs_let_them(shape, global_random_seed):
    """Beside the posterior of the angle, one number, by quadrature; draws begin at one place."""
    draws, rate, number = np.array([[1.0, 0.3, 0.6], [0.2, 1.1, 0.5]]), 2.0, 4000
    radius, angles = np.hypot(*draws), np.arctan2(draws[1], draws[0])
    low, high = -angles.min(), 0.5 * np.pi - angles.max()
    # The ends have poles for shapes below 1: a grid in an arcsine is dense there.
    grid = low + (high - low) * np.sin(np.linspace(0.0, 0.5 * np.pi, 100_002)[1:-1]) ** 2
    moved = angles + grid[:, None]
    both = radius * np.stack([np.cos(moved), np.sin(moved)])
    log = ((shape - 1.0) * np.log(both) - rate * both).sum((0, 2)) + 0.5 * np.log((grid - low) * (high - grid))
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    mean = weight @ grid
    std = np.sqrt(weight @ np.square(grid - mean))
    prior = Gamma(np.full((2, 3), shape), np.full((2, 3), rate))
    found = turned(np.tile(draws, (number, 1, 1)), [(0, 1)], prior, np.random.default_rng(global_random_seed))
    turn = np.arctan2(found[:, 1, 0], found[:, 0, 0]) - angles[0]
    assert abs(turn.mean() - mean) < 4 * std / np.sqrt(number) + 0.02 * std  # ten sweeps forget where they began
    assert turn.std() == pytest.approx(std, rel=4 / np.sqrt(2 * number) + 0.02)


def test_factors_of_their_own_columns_do_not_turn():
    shape = np.array([[100.0, 100.0, 0.5, 0.5], [0.5, 0.5, 100.0, 100.0]])
    assert free(Gamma(shape, shape / np.array([[1.0, 1.0, 0.01, 0.01], [0.01, 0.01, 1.0, 1.0]]))) == []
    shared = Gamma(np.full((2, 2), 100.0), 100.0 / np.array([[1.0, 0.8], [0.7, 1.0]]))
    assert free(shared) == [(0, 1)]
