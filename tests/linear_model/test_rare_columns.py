"""Columns that three of many rows hold: the first covariance and the first steps see none of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from sksvi import BayesianGLMRegressor

#: More rows than the first covariance takes, and more than the first steps do.
N = 10_000


def rare_columns(seed, twin=False):
    """Two ordinary columns, and a standardised one that three rows hold, or a twin of the second but in these rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 2))
    rare = np.zeros(N)
    rare[rng.choice(N, 3, replace=False)] = 1.0
    last = X[:, 1] + 50.0 * rare if twin else (rare - rare.mean()) / rare.std()
    return np.c_[X, last], rng.poisson(np.exp(1.0 + 0.3 * X[:, 0])).astype(float)


def fitted(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore:prior_precision=.* the data contradict it:UserWarning")
@pytest.mark.parametrize(
    "prior", ["auto", 1.0, 1e-6, *(pytest.param(p, marks=pytest.mark.exhaustive) for p in (1e3, 1e-3))]
)
@pytest.mark.parametrize("likelihood", ["poisson", "poisson-softplus", "negative-binomial", "gaussian"])
def test_every_likelihood_and_prior(likelihood, prior, global_random_seed):
    """Dense and sparse, ordinary and twin: the optimum is that of a fit whose first covariance sees all."""
    for twin in (False, True):
        X, y = rare_columns(global_random_seed, twin)
        for rows in (X, sp.csr_array(X)):
            options = {"likelihood": likelihood, "prior_precision": prior, "random_state": global_random_seed}
            model = fitted(BayesianGLMRegressor(**options, max_iter=30), rows, y)
            assert np.isfinite(model.lower_bound_)
            assert np.all(np.abs(model.coef_[1:]) < 5 * model.coef_std_[1:] + 1e-6)
            deviation = model.predict(rows) - np.exp(1.0 + 0.3 * X[:, 0])
            assert np.median(np.abs(deviation)) < 0.5


@pytest.mark.parametrize("prior", ["auto", 1.0, 1e-3])
def test_batches_and_streams(prior, global_random_seed):
    """A batch, or a portion, brings what those before it did not hold."""
    X, y = rare_columns(global_random_seed)
    options = {"likelihood": "poisson", "prior_precision": prior, "random_state": global_random_seed}
    model = fitted(BayesianGLMRegressor(**options, batch_size=1000, max_iter=3), X, y)
    assert np.isfinite(model.lower_bound_) and abs(model.coef_[0] - 0.3) < 0.1
    stream = BayesianGLMRegressor(**options)
    for rows in np.array_split(np.arange(N), 5):
        stream.partial_fit(X[rows], y[rows])
    assert np.isfinite(stream.lower_bound_) and abs(stream.coef_[0] - 0.3) < 0.1
