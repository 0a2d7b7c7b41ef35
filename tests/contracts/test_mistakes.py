"""Every mistake of the list, by every estimator that can make it: the right error, words that help, no change."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi import GMERegressor
from sksvi.images import inpaint
from tests.contracts.mistakes import MISTAKES, NAMES, At, fingerprint

# Fits of a few passes: nothing here depends on how good they are.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
]

CASES = [pytest.param(mistake, name, id=f"{name}: {mistake.what}") for mistake in MISTAKES for name in mistake.who]


@pytest.mark.parametrize(("mistake", "name"), CASES)
def test_a_mistake_is_named_and_changes_nothing(mistake, name):
    at = At(name, mistake.fitted)
    with pytest.raises(mistake.error, match=mistake.words.format(cls=name)):
        mistake.call(at)
    assert fingerprint(at.model) == at.before


def test_there_are_many_mistakes_and_every_estimator_makes_them():
    assert len({mistake.what for mistake in MISTAKES}) >= 120
    for name in NAMES:
        assert sum(name in mistake.who for mistake in MISTAKES) >= 30


def test_a_fingerprint_sees_a_changed_array():
    at = At("BayesianGLMRegressor", True)
    at.model.coef_[0] += 1e-12
    assert fingerprint(at.model) != at.before


def test_a_shape_is_not_its_own_alternative():
    with pytest.raises(ValueError, match=r"mask.shape == \(2, 2\), expected \(8, 8\)\.$"):
        inpaint(np.zeros((8, 8)), np.zeros((2, 2), bool))


def test_a_parameter_that_is_given_to_fit_is_named_as_one():
    model = GMERegressor()
    with pytest.raises(TypeError, match="fit of GMERegressor takes no 'groups': it is a parameter of the estimator"):
        model.fit(np.zeros((4, 1)), np.zeros(4), groups=["a", "a", "b", "b"])
    assert vars(model) == vars(GMERegressor())
