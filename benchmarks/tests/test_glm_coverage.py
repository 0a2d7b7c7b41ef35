"""Small runs of ``glm.coverage``, the coverage study of every likelihood."""

from __future__ import annotations

import pytest

from benchmarks.glm.coverage import CLASSIFIERS, CONTINUOUS, LIKELIHOODS, coverage
from sksvi import likelihoods
from sksvi.testing.simulations import MEASURED

#: Data sets per likelihood; errors are estimated, so that fewer widen what is allowed by themselves.
N_SETS = [25, pytest.param(200, marks=pytest.mark.exhaustive)]
LOW, HIGH = 0.88, 0.92


@pytest.mark.costly
@pytest.mark.parametrize("n_sets", N_SETS)
@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")  # chance brings it once in 1000 sets
def test_intervals_cover_what_they_promise(name, n_sets, global_random_seed):
    found = coverage(name, n_sets, global_random_seed)
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
    # Cells of `truth.defaults` and `truth.quantiles`; trials and times of events are studied by tests of their own, and
    # a multinomial is rows of a softmax.
    studied |= {type(likelihood) for likelihood in MEASURED.values()} | {likelihoods.BetaBinomial, likelihoods.Censored}
    studied |= {likelihoods.AsymmetricLaplace, likelihoods.Multinomial}
    classes = (getattr(likelihoods, name) for name in likelihoods.__all__)
    assert studied == {
        c
        for c in classes
        if isinstance(c, type) and c is not likelihoods.Likelihood and issubclass(c, likelihoods.Likelihood)
    }
