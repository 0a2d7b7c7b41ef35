"""One verdict over a fit: every estimator has one, and rows that are not those of the fit are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sksvi import BayesianGLMRegressor
from sksvi.inspection import diagnose
from tests.contracts.test_registry import ESTIMATORS, small


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_estimator_has_a_diagnosis(cls):
    model, X, y = small(cls)
    model.fit(X) if y is None else model.fit(X, y)
    found = diagnose(model) if cls.__name__ == "DynamicGLM" else diagnose(model, X, y)
    assert set(found.parts["state"]) <= {"alarm", "fine", "not applicable"} and len(found.parts) == 8
    absent = found.parts[found.parts["state"] == "not applicable"]
    assert absent["found"].str.fullmatch(r"not applicable: .{10,}", flags=re.DOTALL).all()


def test_other_rows_are_refused():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = BayesianGLMRegressor().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="rows"):
        diagnose(model, X[:20], X[:20, 0])
