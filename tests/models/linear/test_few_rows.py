"""Modes in the space of few rows: against refits and closed forms, with weights and offsets."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from sksvi.likelihoods import Binomial, Gaussian, NegativeBinomial, Poisson
from sksvi.models.linear.few_rows import row_mode
from sksvi.models.linear.wide_rows import WideRows

LIKELIHOODS = {
    "gaussian": Gaussian(variance=0.5),
    "poisson": Poisson(),
    "poisson-softplus": Poisson(rate="softplus"),
    "negative-binomial": NegativeBinomial(dispersion=0.4),
    "binomial": Binomial(),
}
#: Rows, columns, precision of the prior, and that of the intercept.
N, D, DELTA, INTERCEPT = 25, 60, 0.7, 0.01


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 43])


def target(name, f, rng):
    if name == "gaussian":
        return f + np.sqrt(0.5) * rng.standard_normal(len(f))
    if name == "binomial":
        successes = rng.binomial(6, 1 / (1 + np.exp(-f)))
        return np.column_stack([successes, 6 - successes]).astype(float)
    return rng.poisson(np.exp(f)).astype(float)


def rows(name, rng):
    """Rows with weights and offsets, some rows counted more than once."""
    X = rng.standard_normal((N, D)) / np.sqrt(D)
    offset, weight = 0.3 * rng.standard_normal(N), rng.integers(1, 4, N) * 1.0
    return X, target(name, X @ rng.standard_normal(D) + 0.5 + offset, rng), weight, offset


def fitted(name, X, y, weight, offset, start=None):
    likelihood = LIKELIHOODS[name]
    prior = X @ X.T / DELTA + 1 / INTERCEPT
    start = offset if start is None else start
    return row_mode(lambda f: likelihood.derivatives(y, f), prior, offset, weight, start, 1e-12)


def refitted(name, X, y, weight, offset):
    """Weights and intercept at the mode, and their covariance there."""
    A, likelihood = np.column_stack([X, np.ones(len(X))]), LIKELIHOODS[name]
    prior = np.append(np.full(D, DELTA), INTERCEPT)

    def loss(w):
        value, slope, _ = likelihood.derivatives(y, A @ w + offset)
        return -weight @ value + 0.5 * prior @ w**2, -A.T @ (weight * slope) + prior * w

    options = {"maxiter": 5000, "maxfun": 10**5, "ftol": 1e-15, "gtol": 1e-10}
    w = minimize(loss, np.zeros(D + 1), jac=True, method="L-BFGS-B", options=options).x
    curve = -likelihood.derivatives(y, A @ w + offset)[2]
    return w, np.linalg.inv(np.diag(prior) + (A * (weight * curve)[:, None]).T @ A)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_mode_is_that_of_weights(name, rng):
    X, y, weight, offset = rows(name, rng)
    found = fitted(name, X, y, weight, offset)
    w, _ = refitted(name, X, y, weight, offset)
    assert found.settled
    np.testing.assert_allclose(X.T @ found.pull / DELTA, w[:-1], atol=1e-5)
    np.testing.assert_allclose(found.pull.sum() / INTERCEPT, w[-1], atol=1e-4)
    np.testing.assert_allclose(found.latents, X @ w[:-1] + w[-1] + offset, atol=1e-5)
    np.testing.assert_allclose(found.pull, weight * LIKELIHOODS[name].derivatives(y, found.latents)[1], atol=1e-5)


def test_leave_one_out_of_gaussian_rows_is_exact(rng):
    """Mean and variance of each latent by a refit without its row, all copies of it."""
    X, y, weight, offset = rows("gaussian", rng)
    found = fitted("gaussian", X, y, weight, offset)
    mean = found.latents - found.variance * weight * (y - found.latents) / 0.5
    A = np.column_stack([X, np.ones(N)])
    prior = np.diag(np.append(np.full(D, DELTA), INTERCEPT))
    for i in range(N):
        others = weight * (np.arange(N) != i)
        S = np.linalg.inv(prior + (A * (others / 0.5)[:, None]).T @ A)
        w = S @ A.T @ (others / 0.5 * (y - offset))
        np.testing.assert_allclose(mean[i], A[i] @ w + offset[i], rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(found.variance[i], A[i] @ S @ A[i], rtol=1e-7)


@pytest.mark.parametrize("name", ["poisson", "poisson-softplus", "negative-binomial", "binomial"])
def test_leave_one_out_of_other_rows_is_that_of_refits(name, rng):
    X, y, weight, offset = rows(name, rng)
    found, likelihood = fitted(name, X, y, weight, offset), LIKELIHOODS[name]
    mean = found.latents - found.variance * weight * likelihood.derivatives(y, found.latents)[1]
    exact = np.empty(N)
    for i in range(N):
        w, _ = refitted(name, X, y, weight * (np.arange(N) != i), offset)
        exact[i] = X[i] @ w[:-1] + w[-1] + offset[i]
    losses, exact_losses = -likelihood.log_prob(y, mean), -likelihood.log_prob(y, exact)
    np.testing.assert_allclose(losses.mean(), exact_losses.mean(), rtol=0.06)
    assert np.corrcoef(mean, exact)[0, 1] > 0.99


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_variances_are_those_of_the_laplace_approximation(name, rng):
    X, y, weight, offset = rows(name, rng)
    found = fitted(name, X, y, weight, offset)
    _, S = refitted(name, X, y, weight, offset)
    A = np.column_stack([X, np.ones(N)])
    whole = np.einsum("ij,jk,ik->i", A, S, A)
    curve = -LIKELIHOODS[name].derivatives(y, found.latents)[2]
    np.testing.assert_allclose(found.variance, whole / (1 - weight * curve * whole), rtol=1e-3)


@pytest.mark.parametrize("start", [-30.0, 30.0])
def test_it_ends_from_anywhere(start, rng):
    X, y, weight, offset = rows("poisson", rng)
    here = fitted("poisson", X, y, weight, offset)
    there = fitted("poisson", X, y, weight, offset, np.full(N, start))
    assert there.settled
    np.testing.assert_allclose(there.latents, here.latents, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_the_gram_matrix_is_in_double_precision(kind, dtype, rng):
    X = rng.standard_normal((7, 5000)).astype(dtype)
    found = WideRows(kind(X)).gram()
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, X.astype(float) @ X.T.astype(float), rtol=1e-12)
