"""Pareto-smoothed importance ratios: beside ArviZ, tails that are known, and tails that are none."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import genpareto

from sksvi.integrals.pareto import smoothed


@pytest.mark.parametrize("n", [25, 400, 4000])
@pytest.mark.parametrize("spread", [0.01, 0.6, 1.5, 5.0])
def test_shape_and_smoothed_ratios_are_those_of_arviz(n, spread, global_random_seed):
    arviz = pytest.importorskip("arviz")
    if not hasattr(arviz, "psislw"):
        pytest.skip("this major of ArviZ keeps psislw elsewhere")
    x = spread * np.random.default_rng(global_random_seed).standard_t(8, n)
    theirs, shape = arviz.psislw(x.copy())
    ours, k = smoothed(x)
    assert k == pytest.approx(float(shape), abs=1e-6)
    np.testing.assert_allclose(ours - logsumexp(ours), theirs, atol=1e-6)


@pytest.mark.parametrize("k", [-0.2, 0.3, 0.7, 1.2])
def test_the_shape_of_a_known_tail_is_found(k, global_random_seed):
    n = 20_000
    found = smoothed(np.log(genpareto.rvs(k, size=n, random_state=global_random_seed)))[1]
    tail = 3 * np.sqrt(n)
    assert abs(found - (tail * k + 5) / (tail + 10)) < 4 * (1 + max(k, 0)) / np.sqrt(tail)


def test_a_tail_of_nothing_and_one_that_has_all_the_weight():
    same, k = smoothed(np.full(100, 3.0))
    assert k == -np.inf and np.all(same == 3.0)
    lonely = np.full(100, -2000.0)
    lonely[:3] = [0.0, -1.0, -2.0]
    assert smoothed(lonely)[1] == np.inf
