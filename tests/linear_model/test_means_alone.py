"""`predict` of an identity link: means from the mean coefficients are those of the predictive distribution."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sksvi import BayesianGLMRegressor, GMERegressor

CASES = {
    "nodes": {},
    "student-t": {"likelihood": "student-t"},
    "point": {"hyperparameters": "point", "covariance": "diag"},
    "two latents": {"scale_features": "all"},
    "low rank": {"covariance": "low-rank"},
}


@pytest.mark.parametrize("options", CASES.values(), ids=list(CASES))
def test_they_agree(options, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, offset = 2.0 + rng.standard_normal((60, 4)), rng.standard_normal(60)
    model = BayesianGLMRegressor(**options).fit(X, offset + X[:, 0] + rng.standard_normal(60), offset=offset)
    found, wanted = model.predict(X, offset=offset), model._predictive(X, offset).mean()
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X, return_std=True, offset=offset)[0], found)


def test_of_many_columns_and_of_sparse_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((30, 80)) * (rng.random((30, 80)) < 0.3)
    for rows in (X, sparse.csr_array(X)):
        model = BayesianGLMRegressor().fit(rows, X[:, 0] + rng.standard_normal(30))
        np.testing.assert_allclose(model.predict(rows), model._predictive(rows, None).mean(), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("noise", [False, True])
def test_of_groups_unseen_levels_too(noise, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"x": rng.standard_normal(60), "g": rng.choice(list("abcdef"), 60)})
    model = GMERegressor(groups="g", noise=noise, likelihood="gaussian").fit(X, X["x"] + rng.standard_normal(60))
    new = pd.concat([X, pd.DataFrame({"x": [1.0], "g": ["z"]})])
    found, wanted = model.predict(new), model._predictive(new, None).mean()
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
