"""What models with one message per latent share: Newton steps that are halved where they overshoot."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi.algorithms.line_search import MAX_HALVINGS
from sksvi.models.per_latent import NEWTON_STEPS, MeanTrial, PerLatent, newton


def at(x):
    return MeanTrial(x, -float(np.sqrt(1.0 + x * x)), None)


def test_steps_that_overshoot_are_halved():
    """-√(1 + x²) has Newton steps to -x³: from 3 a full one lands at -27 and the iteration diverges."""
    tried = []

    def propose(here):
        x = here.point
        slope, step = -x / np.sqrt(1 + x * x), -x * (1 + x * x)

        def over(share):
            tried.append((here.point, share))
            return at(x + step * share)

        return slope * step, over

    assert newton(at(3.0), propose).point == pytest.approx(0.0, abs=1e-5)
    assert min(share for x, share in tried if x == 3.0) < 1.0


def test_where_no_share_of_a_step_helps_the_best_point_stands():
    tried = []

    def propose(here):
        return 1.0, lambda share: tried.append(share) or at(here.point + share)  # away from the top

    assert newton(at(0.5), propose).point == 0.5
    assert tried == [0.5**k for k in range(MAX_HALVINGS)]


def test_steps_end_after_so_many():
    looks = []

    def propose(here):
        looks.append(here.point)
        return 1.0, lambda share: MeanTrial(here.point + 1, here.value + 1, None)

    newton(MeanTrial(0, 0.0, None), propose)
    assert looks == list(range(NEWTON_STEPS))


def test_every_part_of_the_rows_is_asked_once_and_others_stay_zero():
    class Halves(PerLatent):
        likelihood = prior = begin = hyper = stepped = with_mean = pull_back = None

        def parts(self, n):
            return [slice(0, 2), np.array([3])]

    Halves.__abstractmethods__ = frozenset()
    data = type("Rows", (), {"y": np.arange(5.0), "offset": np.full(5, 0.5), "weight": None})

    def expect(likelihood, y, mean, variance, rng):
        return y, mean, variance

    found = Halves().terms_at({}, np.arange(5.0), np.arange(5.0) + 10.0, data, expect, None)
    np.testing.assert_array_equal(found.value, [1, 3])
    np.testing.assert_array_equal(found.alpha, [0.5, 1.5, 0, 3.5, 0])
    np.testing.assert_array_equal(found.gamma, [10, 11, 0, 13, 0])
