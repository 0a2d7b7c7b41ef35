"""Steps from the best of what the last q span."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from sksvi.families import Gaussian
from sksvi.families.base import Message
from sksvi.inference.passes.subspace import Iterate, highest, paired


def test_the_highest_point_of_a_parabola_leaves_directions_that_bend_up(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    A = rng.standard_normal((3, 3))
    bend, climb = A @ A.T + np.eye(3), rng.standard_normal(3)
    assert_allclose(highest(bend, climb), np.linalg.solve(bend, climb))
    assert_allclose(highest(np.diag([2.0, -1.0]), np.array([4.0, 1.0])), [2.0, 0.0])
    assert highest(np.diag([-2.0, -1.0]), np.ones(2)) is None


def test_slopes_pair_with_moments_as_the_bound_changes():
    # Of a conjugate bound the slope is what is left to say, and q one such step on is where it ends.
    prior = Gaussian(np.zeros(2), np.eye(2))
    target = Message((np.array([1.0, -2.0]), np.array([[3.0, 1.0], [1.0, 2.0]])))
    block = prior.times(target.faded(0.25))
    seen = Iterate(block, prior, block.expected_log_message(target)[0])
    assert_allclose(seen.message.parts[1], 0.25 * target.parts[1])
    assert_allclose(seen.slope.parts[0], 0.75 * target.parts[0])
    assert_allclose(seen.slope.parts[1], 0.75 * target.parts[1])
    assert_allclose(paired(seen.moments, target), block.expected_log_message(target)[1])
