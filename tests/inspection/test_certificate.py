"""The certificate of natural steps against the Jacobian in closed form, and against what steps of given rates do."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, DynamicGLM, GammaProcessNMF, GPClassifier
from sksvi.inspection import fixed_point_certificate


def counts(seed, n=40, columns=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, columns))
    return X, rng.poisson(np.exp(0.5 * X.sum(1)))


def poisson(X, y, **options):
    options = {"prior_precision": 1.0, "fit_intercept": False, "tol": 1e-12, "max_iter": 500, **options}
    return BayesianGLMRegressor(likelihood="poisson", **options).fit(X, y)


def closed(model, X):
    """Least eigenvalues of the Jacobians with the mean fixed, and with it free: g = exp(m + v / 2), g_v = g / 2."""
    weights = model.posterior_["weights"]
    K = X @ np.asarray(weights.cov) @ X.T
    g = np.exp(X @ np.ravel(weights.mean) + 0.5 * np.diag(K))[:, None]
    fixed, zero = -0.5 * g * K**2, np.zeros_like(K)
    free = np.block([[zero, 0.5 * g * K**2], [g * K, fixed]])
    return {name: np.linalg.eigvals(J).real.min() for name, J in (("fixed", fixed), ("free", free))}


@pytest.mark.parametrize("mean", ["free", "fixed"])
@pytest.mark.parametrize("columns", [1, 4])
def test_it_is_the_least_eigenvalue_of_the_jacobian(columns, mean, global_random_seed):
    X, y = counts(global_random_seed, columns=columns)
    model = poisson(X, y)
    found = fixed_point_certificate(model, X, y, mean=mean)
    assert found.overshoot == pytest.approx(-closed(model, X)[mean], abs=0.005)
    assert found.largest_rate == pytest.approx(2 / (1 + found.overshoot))
    assert found.best_rate == pytest.approx(min(1, 2 / (2 + found.overshoot)))


def test_a_free_mean_overshoots_at_least_as_far(global_random_seed):
    X, y = counts(global_random_seed, columns=3)
    model = poisson(X, y)
    free, fixed = (fixed_point_certificate(model, X, y, mean=mean).overshoot for mean in ("free", "fixed"))
    assert free >= fixed - 0.005


def test_steps_of_a_conjugate_model_end_where_they_begin():
    X, _ = counts(0, columns=3)
    y = X.sum(1) + np.random.default_rng(1).standard_normal(len(X))
    model = BayesianGLMRegressor(prior_precision=1.0, hyperparameters="point").fit(X, y)
    assert fixed_point_certificate(model, X, y).overshoot == pytest.approx(0.0, abs=0.01)


def test_rows_of_weight_two_are_rows_that_come_twice(global_random_seed):
    X, y = counts(global_random_seed, columns=2)
    once = fixed_point_certificate(poisson(np.r_[X, X], np.r_[y, y]), np.r_[X, X], np.r_[y, y])
    weight = np.full(len(y), 2.0)
    options = {"prior_precision": 1.0, "fit_intercept": False, "tol": 1e-12, "max_iter": 500}
    model = BayesianGLMRegressor(likelihood="poisson", **options).fit(X, y, sample_weight=weight)
    weighted = fixed_point_certificate(model, X, y, sample_weight=weight)
    assert weighted.overshoot == pytest.approx(once.overshoot, abs=1e-4)


def test_other_blocks_have_one_too():
    X, y = counts(0, columns=2)
    process = GPClassifier(optimize_hyperparameters=False).fit(X, y > 1)
    series = DynamicGLM(likelihood="poisson").fit(None, y)
    diagonal = poisson(X, y, covariance="diag")
    for found in (
        fixed_point_certificate(process, X, y > 1),
        fixed_point_certificate(series),
        fixed_point_certificate(diagonal, X, y),
        fixed_point_certificate(diagonal, X, y, mean="fixed"),
    ):
        assert -1.0 < found.overshoot < 20.0
        assert found.n_products < 200


def test_gradient_steps_leave_the_same_certificate():
    X, y = counts(0, n=60, columns=2)
    labels = (y > 0).astype(int)
    one, two = (
        BayesianGLMClassifier(prior_precision=1.0, algorithm=name, max_iter=2000, tol=1e-5).fit(X, labels)
        for name in ("cvi", "s-dsvi")
    )
    found = [fixed_point_certificate(model, X, labels).overshoot for model in (one, two)]
    assert found[0] == pytest.approx(found[1], abs=0.05)


def test_it_refuses_what_it_cannot_say():
    X, y = counts(0)
    with pytest.raises(ValueError, match="mean"):
        fixed_point_certificate(poisson(X, y), X, y, mean="solved")
    with pytest.raises(TypeError, match="GammaProcessNMF has no natural steps on one block"):
        fixed_point_certificate(GammaProcessNMF(), X, y)
