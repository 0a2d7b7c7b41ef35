"""A small coverage study of every likelihood; `python -m benchmarks coverage` runs the large one."""

from __future__ import annotations

import pytest

from benchmarks.coverage import CLASSIFIERS, CONTINUOUS, LIKELIHOODS, coverage
from sksvi import likelihoods

N_SETS = 200
LOW, HIGH = 0.88, 0.92


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_intervals_cover_what_they_promise(name, global_random_seed):
    found = coverage(name, N_SETS, global_random_seed)
    slack = 4 * found["coefficients: error"]
    assert LOW - slack <= found["coefficients"] <= HIGH + slack
    if name in CLASSIFIERS:
        return
    slack = 4 * found["prediction: error"]
    assert found["prediction"] >= LOW - slack
    if name in CONTINUOUS:
        assert found["prediction"] <= HIGH + slack


def test_every_likelihood_has_a_coverage_study():
    studied = {type(likelihoods.resolve(name, 3)) for name in LIKELIHOODS}
    classes = (getattr(likelihoods, name) for name in likelihoods.__all__)
    assert studied == {
        c
        for c in classes
        if isinstance(c, type) and c is not likelihoods.Likelihood and issubclass(c, likelihoods.Likelihood)
    }
