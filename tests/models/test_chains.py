"""Walks along chains: which sweeps are stored."""

from __future__ import annotations

import numpy as np

from sksvi.models.chains import ChainLength, walk


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
