"""scikit-learn's checks: all but those for which a row must not depend on its place, which is its time."""

from __future__ import annotations

import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksvi import DynamicGLM

#: The checks' targets are drawn from a normal distribution, or labels one after the other: no counts, as a fit says.
pytestmark = [
    pytest.mark.filterwarnings("ignore:y has fractions in:UserWarning"),
    pytest.mark.filterwarnings("ignore:y varies far less than counts do:UserWarning"),
]

PLACE = "a row is a point in time: what is known of it depends on its place, which an array's order says"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "rows are points in time: a row that is repeated is a later point, while a weight of k says that k "
        "observations were made at that one, and a row without weight is a gap"
    ),
    "check_methods_sample_order_invariance": PLACE,
    "check_methods_subset_invariance": PLACE,
}


def expected(estimator):
    """The reasons, of every model: a level that may walk says of a point what its neighbours do."""
    return EXPECTED


@parametrize_with_checks([DynamicGLM(level_variance=0.1)], expected_failed_checks=expected)
def test_counts(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:partial_fit began with")  # the checks' few points
@parametrize_with_checks(
    [DynamicGLM(), DynamicGLM(likelihood="gaussian", seasonal=4), DynamicGLM(autoregressive=True, algorithm="fp")],
    expected_failed_checks=expected,
)
def test_what_is_learned(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "name", ["check_dataframe_column_names_consistency", "check_param_validation", "check_inplace_ensure_writeable"]
)
def test_checks_that_are_not_yielded(name):
    estimator = DynamicGLM()
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))
