"""Rows in C and in Fortran order are the same rows, to the bit, for every estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from support.estimator_cases import NAMES, n_variants, new_estimator, valid_data

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("name", "options"), [(name, k) for name in NAMES for k in range(n_variants(name))])
def test_fits_and_answers_are_the_same(name, options):
    X, y = valid_data(name, options)
    if isinstance(X, pd.DataFrame):
        pytest.skip("a frame keeps its columns in an order of its own")
    answers = []
    for rows in (np.ascontiguousarray(X), np.asfortranarray(X)):
        model = new_estimator(name, options)
        model.fit(rows) if y is None else model.fit(rows, y)
        found = [model.lower_bounds_]
        found += [np.asarray(getattr(model, of)(rows)) for of in ("predict", "transform") if hasattr(model, of)]
        answers.append(found)
    for one, other in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, other)
