"""The Gamma shape model: a one-dimensional posterior that is not conjugate, with an exact answer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma

from sksvi.algorithms import resolve
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.testing import check_model
from tests.models.shape import GammaShape, Numbers

STARTS = [(2.0, 1.0), (0.1, 0.1), (100.0, 1.0)]
DATA = Numbers(np.array([3.2]))


def fitted(begins, data=DATA, algorithm="cvi"):
    ready = plan.problem(GammaShape(2.0, 1.0, begins), data, resolve(algorithm))
    return plan.run(ready, first_state(ready, 0), 100, 1e-9)


@pytest.mark.parametrize("begins", STARTS)
def test_exact_answer(begins):
    """y = 3.2, a0 = 2, b0 = 1: steps of rate 1 reach the optimum from near and far in at most 18 of them."""
    state = fitted(begins)
    q = state.q["shape"]
    assert state.converged and state.passes <= 18
    np.testing.assert_allclose([q.shape[0], q.rate[0]], [4.95962, 1.82547], atol=2e-5)
    assert state.bound == pytest.approx(-2.25002, abs=1e-5)
    assert np.all(np.diff(state.bounds) >= -1e-10)


def test_bound_and_evidence_by_quadrature():
    """What the fit reports is the bound of its q, and lies below the log evidence, -2.24554."""

    def log_joint(z):
        return gamma.logpdf(3.2, z) + gamma.logpdf(z, 2.0)

    q = fitted(STARTS[0]).q["shape"]
    own = gamma(q.shape[0], scale=1.0 / q.rate[0])
    bound = quad(lambda z: own.pdf(z) * (log_joint(z) - own.logpdf(z)), 0, 60, epsabs=1e-12)[0]
    evidence = np.log(quad(lambda z: np.exp(log_joint(z)), 0, 60, epsabs=1e-14)[0])
    assert fitted(STARTS[0]).bound == pytest.approx(bound, abs=1e-9)
    assert evidence == pytest.approx(-2.24554, abs=1e-5)
    assert bound == pytest.approx(-2.25002, abs=1e-5)


@pytest.mark.parametrize("algorithm", ["mc-ssvi", "h-mc-ssvi"])
def test_other_algorithms_end_there_too(algorithm, global_random_seed):
    y = np.random.default_rng(global_random_seed).gamma(3.0, 1.0, 40)
    there, wanted = (fitted((2.0, 1.0), Numbers(y), name) for name in (algorithm, "cvi"))
    assert there.bound == pytest.approx(wanted.bound, abs=1e-3)
    assert abs(wanted.q["shape"].mean[0] - 3.0) < 4 * wanted.q["shape"].std[0]


def test_check_model(global_random_seed):
    y = np.random.default_rng(global_random_seed).gamma(3.0, 1.0, 40)
    check_model(GammaShape(2.0, 1.0, (2.0, 1.0)), Numbers(y), seed=global_random_seed)
