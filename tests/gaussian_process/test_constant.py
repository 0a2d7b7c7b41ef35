"""The constant part of f behind a link: where few rows are positive, or counts are rare."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sksvi import GPClassifier, SparseGPClassifier, SparseGPRegressor

CLASSIFIERS = {"full": GPClassifier, "sparse": SparseGPClassifier}


def few_positives(seed, n=150):
    """About 7 % of the labels."""
    rng = np.random.default_rng([seed, 17])
    X = rng.uniform(-2.0, 2.0, (n, 2))
    f = -3.0 + np.sin(1.5 * X[:, 0])
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-f))
    y[:3] = True
    return X, y


@pytest.mark.parametrize("name", list(CLASSIFIERS))
def test_far_from_the_rows_labels_are_as_rare_as_among_them(name, global_random_seed):
    X, y = few_positives(global_random_seed)
    model = CLASSIFIERS[name]().fit(X, y)
    beyond = model.predict_proba([[1e3, 1e3], [-1e3, 1e3]])[:, 1]
    assert np.all(beyond < 3.0 * y.mean() + 0.1)
    mean, variance = model.predict_latent([[1e3, 1e3]])
    assert mean[0] < -1.0 and variance[0] > 0.05


@pytest.mark.parametrize("name", list(CLASSIFIERS))
def test_the_default_is_a_constant_and_what_varies(name, global_random_seed):
    X, y = few_positives(global_random_seed)
    default = CLASSIFIERS[name](optimize_hyperparameters=False, hyperparameters="point", random_state=0).fit(X, y)
    varying, far = default.kernel_.k1, np.log(y.mean() / (1.0 - y.mean()))
    assert default.kernel_.k2.constant_value == pytest.approx(1.0 + far**2, rel=0.1)
    constant = ConstantKernel(default.kernel_.k2.constant_value, "fixed")
    kernel = ConstantKernel(varying.k1.constant_value) * RBF(varying.k2.length_scale) + constant
    options = {"optimize_hyperparameters": False, "hyperparameters": "point", "random_state": 0}
    same = CLASSIFIERS[name](kernel=kernel, **options).fit(X, y)
    assert default.lower_bound_ == pytest.approx(same.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(default.predict_proba(X), same.predict_proba(X), rtol=1e-6)


def test_measured_and_ordered_targets_have_no_constant_in_their_kernel(global_random_seed):
    X, _ = few_positives(global_random_seed, 40)
    for likelihood, y in (("gaussian", X[:, 0]), ("ordinal", np.digitize(X[:, 0], [-1.0, 0.5]))):
        model = SparseGPRegressor(likelihood=likelihood, hyperparameters="point").fit(X, y)
        assert isinstance(model.kernel_.k1, ConstantKernel) and isinstance(model.kernel_.k2, RBF)


def test_rates_of_rare_counts_are_as_uncertain_as_their_mean(global_random_seed):
    """Of five counts among 100 rows the log rate is known to about 0.45, by 1 over the root of their number."""
    rng = np.random.default_rng([global_random_seed, 5])
    X, y = rng.standard_normal((100, 1)), np.zeros(100)
    y[rng.choice(100, 5, replace=False)] = 1.0
    mean, variance = SparseGPRegressor(likelihood="poisson").fit(X, y).predict_latent(X)
    assert np.all(np.sqrt(variance) > 0.35)
    assert abs(np.log(0.05) - np.mean(mean)) < 4.0 * 0.45
