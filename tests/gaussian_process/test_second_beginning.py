"""The search of many rows also begins where the exact process of a few of them ends."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from sksvi.gaussian_process import SparseGPRegressor
from sksvi.models.gp.inducing import spread_out


def test_points_are_those_of_most_conditional_variance(global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(40, 2))
    kernel, chosen = RBF(0.7), []
    for _ in range(8):
        K = kernel(X[chosen], X)
        left = 1.0 - (np.einsum("ij,ij->j", K, np.linalg.solve(kernel(X[chosen]), K)) if chosen else np.zeros(len(X)))
        chosen.append(int(np.argmax(left)))
    np.testing.assert_array_equal(spread_out(kernel, X, 8), chosen)


def test_equal_rows_are_chosen_once():
    X = np.repeat([[0.0], [5.0], [9.0]], 4, axis=0)
    assert sorted(X[spread_out(RBF(), X, 10), 0]) == [0.0, 5.0, 9.0]


def test_a_signal_in_few_of_many_columns_is_found():
    rng = np.random.default_rng(2)  # where the first beginning alone ends at noise
    X = rng.normal(size=(4600, 24))
    f = np.sin(2.5 * X[:, 0]) * X[:, 1]
    y = f + 0.2 * rng.normal(size=len(f))
    options = {"n_inducing": 40, "hyperparameters": "point", "tol": 1e-3, "random_state": 0}
    model = SparseGPRegressor(**options).fit(X[:4200], y[:4200])
    error = f[4200:] - model.predict(X[4200:])
    assert np.sqrt(np.mean(np.square(error))) < 0.3 * np.std(f)
