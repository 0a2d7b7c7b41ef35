"""The two gradient algorithms as printed: ten steps against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sksvi import BayesianGLMRegressor, CorrelatedTopicModel, GeneralizedPMF, GMERegressor, SparseGPRegressor
from sksvi.algorithms import SDSVI, HybridMCSSVI
from sksvi.schedules import AdaGrad, RobbinsMonro

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
STEPS = 10


def printed(algorithm, rows, derivatives, batches):
    """Mean and covariance after steps on these batches, from m = 0 and S = 10 I under the prior N(0, I).

    ``derivatives``: of E log p(y | f) in mean and variance of f, from both and the rows' numbers.
    """
    n, p = rows.shape
    m, S, C = np.zeros(p), 10.0 * np.eye(p), np.sqrt(10.0) * np.eye(p)
    mean_sums, root_sums = np.zeros(p), np.zeros((p, p))
    for t, batch in enumerate(batches, 1):
        A = rows[batch]
        alpha, gamma = derivatives(A @ m, np.einsum("ij,jk,ik->i", A, S, A), batch)
        g, H = n / len(batch) * A.T @ alpha, n / len(batch) * (A.T * gamma) @ A
        in_mean = -m + g
        mean_sums += in_mean**2
        if algorithm == "h-mc-ssvi":
            S = np.linalg.inv((1 - 1 / t) * np.linalg.inv(S) + 1 / t * (np.eye(p) - 2 * H))
        else:
            in_root = np.triu(np.diag(1 / np.diag(C)) - C + 2 * C @ H)
            root_sums += in_root**2
            C = C + in_root / np.sqrt(root_sums + 1e-12)
            S = C.T @ C
        m = m + in_mean / np.sqrt(mean_sums + 1e-12)
    return m, S


def instance(name):
    return {"h-mc-ssvi": HybridMCSSVI, "s-dsvi": SDSVI}[name](literal=True)


@pytest.mark.parametrize("algorithm", ["h-mc-ssvi", "s-dsvi"])
def test_steps_of_a_linear_model_are_those_printed(algorithm, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = 0.3 * rng.standard_normal((40, 3))
    y = rng.poisson(np.exp(X @ np.ones(3))).astype(float)

    def derivatives(mean, variance, batch):
        rate = np.exp(mean + variance / 2)
        return y[batch] - rate, -rate / 2

    model = BayesianGLMRegressor(
        likelihood="poisson", prior_precision=1.0, fit_intercept=False, algorithm=instance(algorithm),
        batch_size=None, max_iter=STEPS, tol=0.0, random_state=0,
    ).fit(X, y)  # fmt: skip
    mean, cov = printed(algorithm, X, derivatives, [np.arange(40)] * STEPS)
    np.testing.assert_allclose(model.posterior_["weights"].mean, mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.posterior_["weights"].cov, cov, rtol=0, atol=1e-10)


@pytest.mark.parametrize("algorithm", ["h-mc-ssvi", "s-dsvi"])
def test_steps_of_a_sparse_process_are_those_printed_in_white_coordinates(algorithm, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, kernel, noise = rng.standard_normal((30, 2)), ConstantKernel(1.0) * RBF(1.5), 0.1
    y, Z = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(30), X[:4]
    rows = np.linalg.solve(np.linalg.cholesky(kernel(Z)), kernel(Z, X)).T
    model = SparseGPRegressor(
        kernel=kernel, inducing=Z, noise_variance=noise, optimize_hyperparameters=False, optimize_inducing=False,
        algorithm=instance(algorithm), batch_size=None, max_iter=STEPS, tol=0.0, random_state=0,
    ).fit(X, y)  # fmt: skip

    def derivatives(mean, variance, batch):
        return (y[batch] - mean) / noise, np.full(len(batch), -0.5 / noise)

    mean, cov = printed(algorithm, rows, derivatives, [np.arange(30)] * STEPS)
    block = model.state_.q["inducing"]
    np.testing.assert_allclose(block.mean, mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(block.cov, cov, rtol=0, atol=1e-10)


@pytest.mark.parametrize("algorithm", ["h-mc-ssvi", "s-dsvi"])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_plates_take_printed_steps_too(algorithm, covariance, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    pairs = np.argwhere(rng.random((30, 20)) < 0.6)
    y = (rng.random(len(pairs)) < 0.5).astype(int)
    model = GeneralizedPMF(
        2, likelihood="logit", covariance=covariance, algorithm=instance(algorithm), max_iter=20, tol=0.0,
        random_state=0,
    ).fit(pairs, y)  # fmt: skip
    assert model.lower_bound_ > model.lower_bounds_[0]


def test_rates_of_ones_own_are_taken():
    harmonic = HybridMCSSVI(literal=True, schedule=RobbinsMonro(delay=1.0, kappa=1.0))
    assert harmonic.rate(0, True) == 0.5
    assert HybridMCSSVI(literal=True).rate(0, True) == 1.0
    assert HybridMCSSVI().rate(5, True) == 1.0


@pytest.mark.parametrize("algorithm", [HybridMCSSVI(literal=True), SDSVI(literal=True, adagrad=AdaGrad(rate=0.5))])
def test_blocks_that_are_not_gaussian_have_no_printed_steps(algorithm):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"literal=True.*Gaussian blocks, and this model has a block.*leave literal="):
        CorrelatedTopicModel(2, algorithm=algorithm).fit(rng.poisson(2.0, (20, 5)))
    with pytest.raises(ValueError, match=r"literal=True.*family Rayleigh"):
        GMERegressor(algorithm=algorithm, noise=True).fit(rng.standard_normal((20, 2)), rng.standard_normal(20))
