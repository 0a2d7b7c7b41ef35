"""Walks along chains: which sweeps are stored, and how many independent draws they are worth."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi.models.chains import ChainLength, effective_draws, walk


class Counter:
    """A chain whose point is the number of its sweeps."""

    def begin(self, rng):
        return 0

    def sweep(self, point, rng, number):
        assert number == point
        return point + 1


def test_of_every_thin_sweeps_after_the_burn_in_the_last_is_stored():
    length, found = ChainLength(5, 3, 4), []
    walk(Counter(), length, np.random.default_rng(0), lambda number, point: found.append((number, point)))
    assert found == [(0, 9), (1, 13), (2, 17)] and length.sweeps == 17


def test_without_burn_in_every_sweep_is_stored():
    found = []
    walk(Counter(), ChainLength(0, 3), np.random.default_rng(0), lambda number, point: found.append(point))
    assert found == [1, 2, 3]


def test_a_walk_goes_on_from_the_point_where_another_ended():
    class Distance(Counter):
        def sweep(self, point, rng, number):
            return point + 1

    found, rng = [], np.random.default_rng(0)
    end = walk(Distance(), ChainLength(2, 3), rng, lambda number, point: found.append(point))
    end = walk(Distance(), ChainLength(0, 2, 2), rng, lambda number, point: found.append(point), end)
    assert found == [3, 4, 5, 7, 9] and end == 9


def autoregression(rng, n, share, noise=0.0):
    """Draws (n, 2) of variance 1 whose slow part has this correlation of neighbours; `noise`: variance of the rest."""
    x, steps = np.empty((n, 2)), rng.standard_normal((n, 2))
    x[0] = steps[0]
    for i in range(1, n):
        x[i] = share * x[i - 1] + np.sqrt(1 - share**2) * steps[i]
    return np.sqrt(1 - noise) * x + np.sqrt(noise) * rng.standard_normal((n, 2))


@pytest.mark.costly
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_effective_draws_of_an_autoregression(share, noise, global_random_seed):
    """Their number is n / (1 + 2 (1 - noise) share / (1 - share)): of 20 chains the mean is four errors near."""
    n, expected = 8000, 1 + 2 * (1 - noise) * share / (1 - share)
    seeds = np.random.SeedSequence([global_random_seed, 1]).spawn(20)
    found = [n / effective_draws(autoregression(np.random.default_rng(seed), n, share, noise)) for seed in seeds]
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - expected) < 4 * error + 0.02 * expected  # the sum ends: a hundredth is cut off


def test_effective_draws_of_what_stays_or_alternates_are_all_of_them():
    assert effective_draws(np.full((10, 3), 0.5)) == 10
    assert effective_draws(np.resize([0.0, 1.0], (9, 1))) == 9
