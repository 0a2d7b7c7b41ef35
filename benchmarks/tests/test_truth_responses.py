"""The design of R's formulas, and one model beside its reference fit where the folder of these is there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.truth import responses


def test_columns_are_those_of_the_formula():
    data = pd.DataFrame({"a": [1.0, 2.0, 4.0], "g": ["u", "v", "v"], "n": [1, 2, 3]})
    found = responses.columns(data, "log(a) + g + factor(n) + a:g", {"n": 3})
    assert list(found) == ["log(a)", "gv", "factor(n)1", "factor(n)2", "a:gv"]
    np.testing.assert_allclose(found["a:gv"], [0.0, 2.0, 4.0])
    np.testing.assert_allclose(found["log(a)"], np.log([1.0, 2.0, 4.0]))


def test_a_fit_is_near_its_reference():
    try:
        stored = responses.references()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    fit = next(one for one in responses.fits() if one.data == "airquality" and one.likelihood == "gamma")
    row = responses.compared(fit, responses.reference(fit, stored))
    assert row["coefficients"] == 3 and row["most distance, se"] < 0.25
    assert 0.9 < row["sd / se, least"] <= row["most"] < 1.1
