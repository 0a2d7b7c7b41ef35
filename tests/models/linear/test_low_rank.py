"""Fits at the mode: slopes by finite differences, leave-one-out by refits, deviations by the exact Laplace matrix."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from sksvi.likelihoods import Bernoulli, Softmax
from sksvi.models.data import Table
from sksvi.models.linear.cavity import cavities, sketched
from sksvi.models.linear.climb import Climb
from sksvi.models.linear.loo import points_of
from sksvi.models.linear.low_rank import LowRankModel, WideFit
from sksvi.models.linear.row_matrices import variances
from sksvi.models.linear.wide_rows import WideRows

LIKELIHOODS = {"logit": Bernoulli(), "probit": Bernoulli(link="probit"), "softmax": Softmax(n_classes=4)}
#: Relative error of the mean leave-one-out loss, by matrices of rows and without these.
EXACT = {"logit": 0.01, "probit": 0.02, "softmax": 0.02}
LOO = {"logit": 0.02, "probit": 0.05, "softmax": 0.05}
#: Of deviations beside those of all classes together: the median, and a quantile.
MEDIAN, WORST, QUANTILE = 0.03, 0.10, 0.95


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 41])


def documents(rng, n, d, classes):
    """Rows of unit length with words of a topic of their class, and words of all."""
    own, common = rng.dirichlet(np.full(d, 0.05), classes), rng.dirichlet(np.full(d, 0.3))
    y = rng.permutation(np.arange(n) % classes)
    X = np.log1p([rng.multinomial(30, 0.3 * own[c] + 0.7 * common) for c in y])
    return X / np.sqrt(np.square(X).sum(1, keepdims=True)), y


def model_of(name, d, intercept=True):
    return LowRankModel(
        LIKELIHOODS[name],
        prior_precision="auto",
        intercept_precision=0.01,
        n_features=d,
        fit_intercept=intercept,
        full=False,
    )


def fit_of(name, rng, n=50, d=200, sparse=True, weight=None, offset=None, intercept=True):
    """Rows of documents, ready for a fit."""
    X, y = documents(rng, n, d, 4 if name == "softmax" else 2)
    y = y if name == "softmax" else y.astype(float)
    data = Table(sp.csr_matrix(X) if sparse else X, y, weight, offset)
    return WideFit.of(model_of(name, d, intercept), data)


def settled(fit, precision, steps=2000):
    start, likelihood = fit.model.begin(fit.data, None)["weights"].mean, fit.model.likelihood
    width = fit.mean_square / (precision * fit.unit_of(likelihood))
    return fit.at(width, start, likelihood.unconstrained, steps, 1e-12)


# ---- the mode
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_slopes_are_those_of_the_density(name, intercept, sparse, rng):
    weight = rng.integers(1, 4, 30) * 1.0
    offset = None if name == "softmax" else rng.normal(size=30)
    fit = fit_of(name, rng, 30, 12, sparse=sparse, weight=weight, offset=offset, intercept=intercept)
    climb = Climb.of(
        fit, fit.model.likelihood, 0.3, 0.3 * rng.standard_normal((fit.model.likelihood.n_latents, fit.model.width))
    )
    flat, step = rng.standard_normal(climb.start.size), 1e-5
    slope = climb(flat)[1]
    found = [(climb(flat + e)[0] - climb(flat - e)[0]) / (2 * step) for e in step * np.eye(len(flat))]
    np.testing.assert_allclose(slope, found, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(climb.weights(climb.coordinates(climb.start)), climb.start, atol=1e-12)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_mode_has_no_slope(name, rng):
    fit = fit_of(name, rng)
    point = settled(fit, 0.03)
    W = np.atleast_2d(point.block.mean).T
    slope = fit._terms(fit.model.likelihood, fit.latents(W))[1]
    np.testing.assert_allclose(fit.rows.pull(slope), 0.03 * W[:-1], atol=1e-5)
    np.testing.assert_allclose(slope.sum(0), 0.01 * W[-1], atol=1e-5)


def test_directions_lead(rng):
    """Orthonormal, and those of the largest squares: a planted one is found."""
    planted = rng.standard_normal(80)
    planted /= np.linalg.norm(planted)
    X = rng.standard_normal((100, 80)) + 30.0 * rng.standard_normal((100, 1)) * planted
    found = sketched(WideRows(X), np.ones(100))
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(4), atol=1e-10)
    assert abs(found.basis[:, 0] @ planted) > 0.99
    np.testing.assert_allclose(found.along, X @ found.basis)
    assert sketched(WideRows(np.zeros((60, 5))), np.ones(60)).basis.shape == (5, 0)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(kind, dtype, rng):
    X = (rng.standard_normal((30, 9)) * (rng.random((30, 9)) < 0.4)).astype(dtype)
    rows, W, R = WideRows(kind(X)), rng.standard_normal((9, 3)), rng.standard_normal((30, 3))
    close = {"rtol": 1e-4 if dtype == np.float32 else 1e-12, "atol": 1e-5 if dtype == np.float32 else 1e-12}
    np.testing.assert_allclose(rows.dot(W), X @ W, **close)
    np.testing.assert_allclose(rows.pull(R), X.T @ R, **close)
    np.testing.assert_allclose(rows.dot_squares(W), X**2 @ W, **close)
    np.testing.assert_allclose(rows.pull_squares(R), (X**2).T @ R, **close)
    np.testing.assert_allclose(rows.dot_fourths(W[:, 0]), X**4 @ W[:, 0] ** 2, **close)
    F = R @ R.T
    np.testing.assert_allclose(rows.gram(), X @ X.T, **close)
    np.testing.assert_allclose(rows.forms(F), np.diag(X.T @ F @ X), **close)


# ---- leave-one-out
def refitted(fit, precision, point):
    """Loss of each row at the mode of the others."""
    A = np.column_stack([fit.data.X.toarray(), np.ones(len(fit.data))])
    prior, y, likelihood = np.append(np.full(A.shape[1] - 1, precision), 0.01), fit.data.y, fit.model.likelihood
    start = np.atleast_2d(point.block.mean).T
    losses = []
    for i in range(len(y)):
        others = np.arange(len(y)) != i

        def loss(flat, others=others):
            W = flat.reshape(start.shape)
            f = A[others] @ W
            value, slope, _ = likelihood.derivatives(y[others], f if f.shape[1] > 1 else f[:, 0])
            g = -A[others].T @ slope.reshape(f.shape) + prior[:, None] * W
            return -value.sum() + 0.5 * np.sum(prior[:, None] * W**2), g.ravel()

        W = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-12}).x
        f = A[i : i + 1] @ W.reshape(start.shape)
        losses.append(-likelihood.log_prob(y[i : i + 1], f if f.shape[1] > 1 else f[:, 0])[0])
    return np.array(losses)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_leave_one_out_is_that_of_refits(name, rng):
    fit = fit_of(name, rng, n=60, d=250)
    for precision in (1.0, 0.2):
        point = settled(fit, precision)
        exact = refitted(fit, precision, point)
        assert point.losses.mean() == pytest.approx(exact.mean(), rel=EXACT[name])
        assert np.corrcoef(point.losses, exact)[0, 1] > 0.998
        approximate = settled(replace(fit, gram=None), precision).losses
        assert approximate.mean() == pytest.approx(exact.mean(), rel=LOO[name])
        assert np.corrcoef(approximate, exact)[0, 1] > 0.99


@pytest.mark.parametrize(("density", "close"), [(0.01, 0.04), (0.03, 0.08), (0.1, 0.08)])
def test_a_row_of_few_entries_is_taken_out_of_their_variances(density, close, rng):
    """Variances without the row beside matrices of rows; columns of rows of six entries have three rows each."""
    n, copies = 300, np.ones(300)
    X = sp.random(n, 600, density, format="csr", random_state=rng)
    rows, gamma, delta = WideRows(X), rng.uniform(0.01, 0.25, (n, 2)), 0.1 * 600 * density / 10
    found = cavities(rows, sketched(rows, copies, few=False), gamma, copies, delta, np.array([0.01])).variance
    gram = (X @ X.T).toarray() / delta + 100.0
    exact = np.column_stack([variances(gram, own, copies) for own in gamma.T])
    ratio = found / exact
    assert abs(np.average(ratio, weights=exact) - 1.0) < close
    assert np.quantile(np.abs(ratio - 1.0), 0.9) < 0.25


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_leave_one_out_of_a_wide_prior_is_that_of_refits(name, rng):
    """Where the fit is all but perfect, and variances without the row are many times those with it."""
    fit = fit_of(name, rng, n=40, d=150)
    point = settled(fit, 0.003)
    exact = refitted(fit, 0.003, point)
    assert point.losses.mean() == pytest.approx(exact.mean(), rel=0.15)
    assert np.corrcoef(point.losses, exact)[0, 1] > 0.99


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_deviations_are_those_of_laplace(name, weighted, rng):
    """With few rows all but to the end of their iteration, of each class given the others; and nearly in any case."""
    weight = rng.uniform(0.3, 3.0, 80) if weighted else np.ones(80)
    fit, precision = fit_of(name, rng, n=80, d=150, weight=weight), 0.03
    point = settled(fit, precision)
    A, k = np.column_stack([fit.data.X.toarray(), np.ones(80)]), fit.model.likelihood.n_latents
    f, prior = A @ np.atleast_2d(point.block.mean).T, np.diag(np.append(np.full(150, precision), 0.01))
    own = -fit._terms(fit.model.likelihood, f)[2]
    if k == 1:
        curves = own[:, :, None]
    else:
        p = fit.model.likelihood.mean(f)
        curves = p[:, :, None] * np.eye(k) - p[:, :, None] * p[:, None, :]
    sharpened = fit.sharpened(point).block
    S = np.linalg.inv(np.einsum("na,ni,nj->aij", weight[:, None] * own, A, A, optimize=True) + prior)
    np.testing.assert_allclose(np.atleast_2d(sharpened.std), np.sqrt(np.diagonal(S, axis1=1, axis2=2)), rtol=1e-3)
    Z = np.zeros((151, len(sharpened.basis.T) + 1))
    Z[:150, :-1], Z[150, -1] = sharpened.basis, 1.0
    np.testing.assert_allclose(sharpened.inner.reshape(k, *Z.T.shape[:1] * 2), Z.T @ S @ Z, rtol=1e-6, atol=1e-8)
    hessian = np.einsum("nab,ni,nj->aibj", weight[:, None, None] * curves, A, A, optimize=True).reshape(k * 151, -1)
    exact = np.sqrt(np.diag(np.linalg.inv(hessian + np.kron(np.eye(k), prior)))).reshape(k, -1)
    for block in (point.block, sharpened):
        ratio = np.atleast_2d(block.std)[:, :-1] / exact[:, :-1]
        assert abs(np.median(ratio) - 1.0) < MEDIAN
        assert np.quantile(np.abs(ratio - 1.0), QUANTILE) < WORST
    rough = replace(fit, gram=None)
    assert rough.sharpened(point) is point


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_rows_of_weight_two_are_two_rows(name, rng):
    fit = fit_of(name, rng, n=40, weight=np.full(40, 2.0))
    twice = np.repeat(np.arange(40), 2)
    other = WideFit.of(fit.model, replace(fit.data.take(twice), weight=None))
    here, there = settled(fit, 0.1), settled(other, 0.1)
    np.testing.assert_allclose(there.block.mean, here.block.mean, atol=1e-4)
    np.testing.assert_allclose(there.losses, here.losses[twice], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(there.block.std, here.block.std, rtol=1e-3)
    np.testing.assert_allclose(other.sharpened(there).block.std, fit.sharpened(here).block.std, rtol=1e-3)


# ---- tempered predictions
@pytest.mark.parametrize("k", [1, 5])
def test_points_are_standard(k):
    points, weights = points_of(k)
    np.testing.assert_allclose(weights @ points, 0.0, atol=1e-12)
    np.testing.assert_allclose(weights @ points**2, 1.0, rtol=1e-10)
    np.testing.assert_array_equal(points_of(k)[0], points)


def test_a_temperature_moves_from_the_mode_to_the_average(rng):
    fit = fit_of("logit", rng)
    point = settled(fit, 0.1)
    np.testing.assert_array_equal(fit.tempered_losses(point, 0.0), point.losses)
    small = fit.tempered_losses(point, 1e-8)
    np.testing.assert_allclose(small, point.losses, atol=1e-6)
    z = np.random.default_rng(0).standard_normal(100_000)
    i = 3
    f = point.mean[i, 0] + np.sqrt(point.variance[i, 0]) * z
    p = np.exp(fit.model.likelihood.log_prob(np.full(len(z), fit.data.y[i]), f))
    assert np.exp(-fit.tempered_losses(point, 1.0)[i]) == pytest.approx(
        p.mean(), abs=4 * p.std() / len(z) ** 0.5 + 1e-3
    )
