"""Steps under a prior that has just moved: what data said stays, and what they said less than nothing of is borne."""

import numpy as np
import pytest

from sksvi.algorithms.steps import natural_step
from sksvi.families import DiagonalGaussian, Gaussian, NotPositiveDefinite


def blocks(said):
    """q, its prior before and now, and a gradient of no data: precisions are 10, then 0.1, and what data said."""
    left, now = (DiagonalGaussian(np.zeros(2), np.full(2, p)) for p in (10.0, 0.1))
    q = Gaussian(np.array([1.0, -1.0]), np.diag(10.0 + np.asarray(said, float)))
    return q, left, now, (np.zeros(2), np.zeros((2, 2)))


def test_a_part_of_the_old_prior_does_not_stay_in_q():
    q, left, now, gradient = blocks([4.0, 2.0])
    half = natural_step(q, now, gradient, 0.5, left)
    np.testing.assert_allclose(np.diag(half.precision), 0.1 + 0.5 * np.array([4.0, 2.0]))


def test_what_only_the_old_prior_bears_is_stepped_from_where_it_is():
    q, left, now, gradient = blocks([4.0, -3.0])
    with pytest.raises(NotPositiveDefinite):
        q.replace((np.zeros(2), q.precision - np.diag([9.9, 9.9])))
    half = natural_step(q, now, gradient, 0.5, left)
    np.testing.assert_allclose(np.diag(half.precision), 0.5 * np.array([14.0, 7.0]) + 0.05)
