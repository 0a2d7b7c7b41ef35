"""Rows in C and in Fortran order are the same rows, to the bit, for every estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sksvi.persistence import REGISTRY
from sksvi.persistence.writer import Encoder
from support.estimator_cases import NAMES, n_variants, new_estimator, valid_data
from support.small_fits import fit_cases, make_data, make_estimator

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


@pytest.mark.parametrize("case", fit_cases(), ids=str)
def test_a_file_holds_every_array_in_the_order_that_it_has(case, global_random_seed):
    """C or Fortran order: of any other, sums would be rounded otherwise after a file."""
    X, y = make_data(case.name, global_random_seed)
    encoder = Encoder(REGISTRY)
    encoder.encode(make_estimator(case, 2).fit(X, y), case.name)
    assert encoder.arrays
    for array in encoder.arrays.values():
        assert array.flags.c_contiguous or array.flags.f_contiguous, (array.shape, array.strides)
