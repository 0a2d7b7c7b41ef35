"""A CSR matrix with spare room in its buffers is the matrix without it, to the bit, for every estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import get_tags

from support.estimator_cases import NAMES, n_variants, new_estimator, valid_data
from support.invalid_arguments import csr_with_spare_capacity

pytestmark = pytest.mark.filterwarnings("ignore")
SPARSE = [
    (name, options)
    for name in NAMES
    for options in range(n_variants(name))
    if get_tags(new_estimator(name, options)).input_tags.sparse
]


def plain(X, model):
    """The numbers of a table; a grouping column is named by its position then."""
    if isinstance(X, pd.DataFrame):
        at = {name: j for j, name in enumerate(X.columns)}
        given = {key: getattr(model, key, None) for key in ("groups", "random_slopes")}
        model.set_params(**{key: [at[name] for name in names] for key, names in given.items() if names})
    return np.asarray(X, float)


@pytest.mark.parametrize(("name", "options"), SPARSE)
@pytest.mark.parametrize("index", [0, 10**6])
def test_spare_room_in_buffers_is_not_read(name, options, index):
    model, (X, y) = new_estimator(name, options), valid_data(name, options)
    X = plain(X, model)
    long, short = csr_with_spare_capacity(X, index), sp.csr_array(X)
    data, indices = long.data.copy(), long.indices.copy()
    target = () if y is None else (y,)
    more = {"classes": np.unique(y)} if name.endswith("Classifier") else {}
    pairs = [[clone(model).fit(table, *target) for table in (long, short)]]
    if hasattr(model, "partial_fit") and getattr(model, "algorithm", "") != "gibbs":
        pairs.append([clone(model).partial_fit(table, *target, **more) for table in (long, short)])
    for one, other in pairs:
        for method in ("predict", "transform", "score", "predict_latent", "predict_proba"):
            if hasattr(one, method):
                given = target if method == "score" else ()
                np.testing.assert_array_equal(getattr(one, method)(long, *given), getattr(other, method)(short, *given))
    np.testing.assert_array_equal(long.data, data)
    np.testing.assert_array_equal(long.indices, indices)


def test_flags_of_a_user_are_not_believed():
    """A matrix that says it has each entry once, and has one twice."""
    X = sp.csr_array((np.ones(4), np.array([1, 1, 0, 1]), np.array([0, 2, 4])), shape=(2, 2))
    X.has_sorted_indices = X.has_canonical_format = True
    model = new_estimator("BayesianGLMRegressor", 0)
    fits = [clone(model).fit(table, [1.0, 2.0]) for table in (X, np.array([[0.0, 2.0], [1.0, 1.0]]))]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-6)
