"""The search for a full process's kernel: its curvature, where it ends, and its start on a part of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sksvi import GPClassifier
from sksvi.models.gp import kernels
from sksvi.models.gp.full import FullGP
from sksvi.models.gp.full_search import average_information

KERNEL = ConstantKernel(1.0) * RBF(1.0)


def labels(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * np.sin(2.0 * X[:, 0]) - X[:, 1]))).astype(int)


def test_average_information_is_half_of_a_quadratic_form(global_random_seed):
    """½ aᵀ K_i A K_j a by dense matrices, A = (K + W⁻¹)⁻¹ and K_i by central differences."""
    X, y = labels(30, global_random_seed)
    fit = GPClassifier(kernel=KERNEL, hyperparameters="point").fit(X, y)
    q, model = fit.state_.q, FullGP(fit.likelihood_, fit.kernel_, fit.X_train_)
    theta, block = fit.kernel_.theta, q["latents"]
    moved = [
        (
            kernels.gram(fit.kernel_.clone_with_theta(theta + unit), model.X)
            - kernels.gram(fit.kernel_.clone_with_theta(theta - unit), model.X)
        )
        @ block.dual
        / 2e-5
        for unit in 1e-5 * np.eye(2)
    ]
    A = np.linalg.inv(block.prior_cov + np.diag(1.0 / block.weights))
    expected = 0.5 * np.array([[a @ A @ b for b in moved] for a in moved])
    np.testing.assert_allclose(average_information(model, q), expected, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("start", [ConstantKernel(1e-2) * RBF(20.0), ConstantKernel(50.0) * RBF(0.3)], ids=str)
def test_searches_end_where_others_do(start, global_random_seed):
    X, y = labels(150, global_random_seed)
    point = {"hyperparameters": "point", "tol": 1e-6}
    usual, other = (GPClassifier(kernel=kernel, **point).fit(X, y) for kernel in (KERNEL, start))
    assert other.lower_bound_ == pytest.approx(usual.lower_bound_, abs=2e-2)


def test_a_start_on_a_part_of_the_rows_saves_passes(monkeypatch, global_random_seed):
    X, y = labels(400, global_random_seed)
    found = GPClassifier().fit(X, y)
    monkeypatch.setattr("sksvi.gaussian_process._part.MANY", 401)
    whole = GPClassifier().fit(X, y)
    assert found.lower_bounds_[-1] == pytest.approx(whole.lower_bounds_[-1], abs=5e-2)
    assert found.n_iter_ <= whole.n_iter_ <= 30
    np.testing.assert_allclose(found.predict_proba(X), whole.predict_proba(X), atol=2e-2)
