"""Learned scales of noise and the least that they may be."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi.likelihoods import Gaussian, StudentT


@pytest.mark.parametrize("likelihood", [Gaussian(), StudentT()], ids=["Gaussian", "StudentT"])
@pytest.mark.parametrize("far", [-60.0, -800.0])
def test_a_step_far_below_the_least_scale_has_a_logarithm(likelihood, far):
    """Its excess was lost in rounding, and the next step began at minus infinity."""
    start = likelihood.start(np.array([1.0, 2.0, 4.0]))
    there = start.replace(np.full(len(start.unconstrained), far))
    assert np.all(np.isfinite(there.unconstrained))
