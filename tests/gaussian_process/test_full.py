"""The full Gaussian process: its dual block against dense algebra, exact cases, hyperparameters, the estimator."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, PairwiseKernel, WhiteKernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksvi import BayesianGLMClassifier
from sksvi.algorithms import CVI, SDSVI
from sksvi.algorithms.steps import natural_step
from sksvi.families import Gaussian, NotPositiveDefinite
from sksvi.families.gaussian.dual import SiteGaussian
from sksvi.families.gaussian.views import ChosenRows
from sksvi.gaussian_process import GPClassifier, SparseGPClassifier
from sksvi.gaussian_process._start import distinct, first_kernel, hyperparameters
from sksvi.inference.records import ROUNDING
from sksvi.likelihoods import Bernoulli, Softmax, StudentT
from sksvi.likelihoods import Gaussian as GaussianNoise
from sksvi.models.data import Table
from sksvi.models.gp.full import FullGP
from sksvi.schedules import Constant
from tests.cases import expected_log_prob, fitted, problem_for

ALGORITHMS = ["cvi", "fp", "mc-ssvi"]
KERNEL = ConstantKernel(4.0) * RBF(1.5)


def labels(seed, n=60, d=2):
    """Rows and labels of a curved boundary."""
    rng = np.random.default_rng([seed, 11])
    X = rng.standard_normal((n, d))
    f = 3.0 * np.sin(1.5 * X[:, 0]) + X[:, 1]
    return X, (rng.random(n) < 1 / (1 + np.exp(-f))).astype(float)


def fixed(**options):
    return GPClassifier(**{"kernel": KERNEL, "optimize_hyperparameters": False, "tol": 1e-10, **options})


# ---- the dual block against dense algebra
def block_and_dense(seed, n=7, rank=None):
    """A block with two silent messages, and the same Gaussian held as mean and precision."""
    rng = np.random.default_rng([seed, 12])
    half = rng.standard_normal((n, n if rank is None else rank))
    K = half @ half.T + (0.5 * np.eye(n) if rank is None else 0.0)
    linear, weights = rng.standard_normal(n), rng.uniform(0.1, 2.0, n)
    weights[:2] = 0.0, 1e-9
    q = SiteGaussian(K).replace([linear, weights])
    if rank is not None:
        return q, linear
    precision = np.linalg.inv(K) + np.diag(weights)
    return q, Gaussian(np.linalg.solve(precision, linear), precision)


def test_moments_and_divergences_are_the_dense_ones(global_random_seed):
    q, dense = block_and_dense(global_random_seed)
    np.testing.assert_allclose(q.mean, dense.mean, atol=1e-10)
    np.testing.assert_allclose(q.cov, dense.cov, atol=1e-10)
    np.testing.assert_allclose(q.variance, dense.variance, rtol=1e-8)
    np.testing.assert_allclose(q.std, dense.std, rtol=1e-8)
    prior = SiteGaussian(q.prior_cov)
    dense_prior = Gaussian(np.zeros(7), np.linalg.inv(q.prior_cov))
    assert q.kl(prior) == pytest.approx(dense.kl(dense_prior), rel=1e-8)
    other = q.replace([np.ones(7), np.full(7, 0.3)])
    dense_other = Gaussian(other.mean, np.linalg.inv(q.prior_cov) + 0.3 * np.eye(7))
    assert q.kl(other) == pytest.approx(dense.kl(dense_other), rel=1e-8)
    assert other.kl(q) == pytest.approx(dense_other.kl(dense), rel=1e-8)
    assert q.kl(q) == pytest.approx(0.0, abs=1e-12)


def test_a_natural_step_is_the_dense_one(global_random_seed):
    q, dense = block_and_dense(global_random_seed)
    rng = np.random.default_rng(global_random_seed)
    alpha, gamma = rng.standard_normal(7), -rng.uniform(0.0, 1.0, 7)
    for rate in (0.3, 1.0):
        new = natural_step(q, SiteGaussian(q.prior_cov), (alpha, gamma), rate)
        dense_prior = Gaussian(np.zeros(7), np.linalg.inv(q.prior_cov))
        wanted = natural_step(dense, dense_prior, (alpha, np.diag(gamma)), rate)
        np.testing.assert_allclose(new.mean, wanted.mean, atol=1e-9)
        np.testing.assert_allclose(new.cov, wanted.cov, atol=1e-9)


def test_messages_under_another_prior_and_their_evidence(global_random_seed):
    q, dense = block_and_dense(global_random_seed)
    linear = dense.precision @ dense.mean
    K = q.prior_cov + np.diag(np.arange(1.0, 8.0))
    moved = q.under(K)
    np.testing.assert_allclose(moved.mean, np.linalg.solve(np.linalg.inv(K) + np.diag(q.weights), linear), atol=1e-9)
    np.testing.assert_array_equal(moved.weights, q.weights)
    precision = np.linalg.inv(q.prior_cov)
    evidence = 0.5 * (linear @ dense.mean + np.linalg.slogdet(precision)[1] - np.linalg.slogdet(dense.precision)[1])
    assert q.log_evidence() == pytest.approx(evidence, rel=1e-8)
    tilt = np.random.default_rng(global_random_seed).standard_normal((7, 7))
    tilt += tilt.T
    high, low = (q.under(q.prior_cov + step * tilt).log_evidence() for step in (1e-5, -1e-5))
    assert np.sum(q.evidence_gradient() * tilt) == pytest.approx((high - low) / 2e-5, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("rank", [None, 3], ids=["regular", "singular"])
def test_draws_have_the_moments(rank, global_random_seed):
    q, _ = block_and_dense(global_random_seed, rank=rank)
    n = 40_000
    delta = q.sample(n, global_random_seed) - q.mean
    assert np.all(np.abs(delta.mean(0)) <= 4 * q.std / np.sqrt(n) + 1e-9)
    outer = np.sqrt((np.outer(q.variance, q.variance) + q.cov**2) / n)
    assert np.all(np.abs(delta.T @ delta / n - q.cov) <= 5 * outer + 1e-9)


def test_further_latents_are_conditioned_on_the_block(global_random_seed):
    """A latent that is a sum of two of the block's."""
    q, dense = block_and_dense(global_random_seed)
    row = np.zeros(7)
    row[[2, 5]] = 1.0
    m, v = q.latents((row @ q.prior_cov)[None], np.array([row @ q.prior_cov @ row]))
    np.testing.assert_allclose([m[0], v[0]], [row @ dense.mean, row @ dense.cov @ row], rtol=1e-8)
    chosen = ChosenRows(q, np.array([5, 2, 2]))
    np.testing.assert_allclose(chosen.cov, q.cov[np.ix_([5, 2, 2], [5, 2, 2])])
    assert chosen.mean.shape == chosen.std.shape == chosen.sample(1)[0].shape == (3,)


def test_variances_keep_their_digits_at_every_scale():
    """Both forms of the variance against the closed form of independent rows."""
    for size in (1e-8, 1.0, 1e8):
        for weight in (1e-12, 1e-4, 1.0, 1e4):
            q = SiteGaussian(size * np.eye(3), None, np.full(3, weight))
            np.testing.assert_allclose(q.variance, size / (1 + size * weight), rtol=1e-7)


def test_what_is_no_gaussian_is_refused():
    with pytest.raises(NotPositiveDefinite, match="the message about row 1 has the precision"):
        SiteGaussian(np.eye(2), None, np.array([1.0, -0.1]))
    with pytest.raises(NotPositiveDefinite, match="kernel matrix is indefinite at row 1"):
        SiteGaussian(np.diag([1.0, -2.0]), None, np.ones(2)).prepare()
    with pytest.raises(NotPositiveDefinite, match="kernel matrix is not finite"):
        SiteGaussian(np.diag([1.0, np.inf]), None, np.ones(2)).prepare()


# ---- exact cases
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "weight and offset"])
def test_gaussian_likelihood_is_gp_regression(algorithm, extras, global_random_seed):
    """One step gives the exact posterior, and the bound is the log evidence."""
    X, _ = labels(global_random_seed)
    rng = np.random.default_rng(global_random_seed)
    y = np.sin(X[:, 0]) + 0.5 * rng.standard_normal(60)
    weight, offset = (rng.uniform(0.5, 2.0, 60), rng.standard_normal(60)) if extras else (None, None)
    model = FullGP(GaussianNoise(variance=0.3), KERNEL, X, learned=False)
    state = fitted(problem_for(model, Table(X, y, weight, offset), algorithm), max_iter=1)
    noise = 0.3 / (np.ones(60) if weight is None else weight)
    residual = y if offset is None else y - offset
    regression = GaussianProcessRegressor(KERNEL, alpha=noise, optimizer=None).fit(X, residual)
    mean, cov = regression.predict(X, return_cov=True)
    np.testing.assert_allclose(state.q["latents"].mean, mean, atol=1e-8)
    np.testing.assert_allclose(state.q["latents"].cov, cov, atol=1e-8)
    evidence = regression.log_marginal_likelihood_value_
    if weight is not None:  # a weight counts in the normalising constant too
        evidence += 0.5 * np.sum(np.log(2 * np.pi * noise)) - 0.5 * weight.sum() * np.log(2 * np.pi * 0.3)
    assert state.bound == pytest.approx(evidence, rel=1e-9)


@pytest.mark.filterwarnings("ignore:sample_weight says how many rows")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("likelihood", ["logit", "probit"])
def test_it_is_the_glm_on_a_root_of_the_kernel(likelihood, algorithm, global_random_seed):
    X, y = labels(global_random_seed)
    weight = np.random.default_rng(global_random_seed).uniform(0.3, 2.0, 60)
    order = np.lexsort((y, X[:, 1], X[:, 0]))
    X, y, weight = X[order], y[order], weight[order]
    root = np.linalg.cholesky(KERNEL(X) + 1e-10 * np.eye(60))
    options = {"prior_precision": np.ones(60), "fit_intercept": False, "tol": 1e-13}
    linear = BayesianGLMClassifier(likelihood=likelihood, **options)
    linear.fit(root, y, weight)
    gp = fixed(likelihood=likelihood, algorithm=algorithm, tol=1e-13).fit(X, y, weight)
    assert gp.lower_bound_ == pytest.approx(linear.lower_bound_, rel=1e-8)
    latents, weights = gp.posterior_["latents"], linear.posterior_["weights"]
    np.testing.assert_allclose(latents.mean, root @ weights.mean, atol=2e-5)
    np.testing.assert_allclose(latents.cov, root @ weights.cov @ root.T, atol=2e-5)


def test_a_sparse_one_with_all_rows_inducing_is_the_full_one(global_random_seed):
    X, y = labels(global_random_seed)
    kernel = ConstantKernel(4.0) * Matern(1.0, nu=1.5)
    full = fixed(kernel=kernel).fit(X, y)
    sparse = SparseGPClassifier(kernel=kernel, optimize_hyperparameters=False, tol=1e-10, inducing=X, n_inducing=60)
    sparse.fit(X, y)
    assert sparse.lower_bound_ == pytest.approx(full.lower_bound_, rel=1e-6)
    np.testing.assert_allclose(sparse.predict_proba(X), full.predict_proba(X), atol=1e-6)


@pytest.mark.filterwarnings("ignore:sample_weight says how many rows")
def test_reported_bound_is_that_of_its_posterior(global_random_seed):
    """By dense quadrature and the dense divergence, at learned parameters."""
    X, y = labels(global_random_seed)
    weight = np.random.default_rng(global_random_seed).uniform(0.3, 2.0, 60)
    model = GPClassifier(hyperparameters="point", kernel=ConstantKernel(4.0) * Matern(1.0, nu=0.5)).fit(X, y, weight)
    q, K = model.posterior_["latents"], model.kernel_(X)
    trace, distance = np.trace(np.linalg.solve(K, q.cov)), q.mean @ np.linalg.solve(K, q.mean)
    kl = 0.5 * (trace + distance - 60 + np.linalg.slogdet(K)[1] - np.linalg.slogdet(q.cov)[1])
    value = weight @ expected_log_prob(Bernoulli(), y, q.mean, q.variance)
    assert model.lower_bound_ == pytest.approx(value - kl, rel=1e-5)


@pytest.mark.parametrize("likelihood", ["logit", "probit"])
@pytest.mark.parametrize("kernel", [KERNEL, ConstantKernel(1e5, (1e-5, 1e9)) * RBF(0.3)], ids=["usual", "wild"])
@pytest.mark.parametrize("algorithm", [*ALGORITHMS, CVI(schedule=Constant(0.3))], ids=str)
def test_bound_never_falls(algorithm, kernel, likelihood, global_random_seed):
    X, y = labels(global_random_seed)
    model = fixed(kernel=kernel, algorithm=algorithm, likelihood=likelihood, tol=1e-6).fit(X, y)
    bounds = np.append(model.lower_bounds_, model.lower_bound_)
    assert np.all(np.diff(bounds) >= -2e-10 * (np.abs(bounds[:-1]) + 1))
    assert model.converged_


def test_every_algorithm_ends_in_one_place(global_random_seed):
    X, y = labels(global_random_seed)
    fits = [fixed(algorithm=algorithm, tol=1e-12).fit(X, y) for algorithm in ALGORITHMS]
    for other in fits[1:]:
        assert other.lower_bound_ == pytest.approx(fits[0].lower_bound_, rel=1e-9)
        np.testing.assert_allclose(other.posterior_["latents"].mean, fits[0].posterior_["latents"].mean, atol=1e-4)
    learned = [GPClassifier(kernel=KERNEL, algorithm=algorithm, tol=1e-6).fit(X, y) for algorithm in ALGORITHMS]
    for other in learned[1:]:
        assert other.lower_bound_ == pytest.approx(learned[0].lower_bound_, abs=1e-3)


def test_sampled_expectations_end_near_the_exact_ones(global_random_seed):
    X, y = labels(global_random_seed)
    exact = fixed().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noisy = fixed(expectation="monte-carlo", tol=1e-4, random_state=global_random_seed).fit(X, y)
    assert exact.lower_bound_ - 0.5 < noisy.lower_bound_ <= exact.lower_bound_ + 1e-6


@pytest.mark.parametrize("algorithm", ["cvi", "fp"])
def test_a_likelihood_that_is_not_log_concave_is_fitted_too(algorithm, global_random_seed):
    """Its messages are cut where they would have negative precision.

    Where some are, they lead a little past the largest bound (1e-3 nats by CVI and 7e-5 by FP at seed 13): there steps
    are halved until the fall is what a judged step may lose to rounding.
    """
    X, _ = labels(global_random_seed)
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(global_random_seed).standard_t(2.0, 60)
    model = FullGP(StudentT(scale=0.1, df=3.0), ConstantKernel(1.0) * RBF(1.5), X, learned=False)
    state = fitted(problem_for(model, Table(X, y), algorithm), tol=1e-5)
    bounds = np.array(state.bounds)
    assert np.all(np.diff(bounds) >= -ROUNDING * (1 + np.abs(bounds[:-1]))) and state.converged
    assert np.mean(np.abs(state.q["latents"].mean - np.sin(X[:, 0]))) < 0.1


# ---- hyperparameters
def test_gradient_of_the_settled_bound(global_random_seed):
    X, y = labels(global_random_seed, n=40, d=3)
    kernel = ConstantKernel(2.0) * RBF([1.0, 2.0, 0.7]) + ConstantKernel(0.5) * DotProduct(0.3) + Matern(1.0, nu=1.5)
    data = Table(X, y, np.random.default_rng(global_random_seed).uniform(0.5, 2.0, 40))

    def settled(theta):
        model = FullGP(Bernoulli(), kernel.clone_with_theta(theta), X, learned=False)
        return model, fitted(problem_for(model, data, "fp"), tol=1e-13)

    model, state = settled(kernel.theta)
    found = model.evidence_gradient(state.q)
    for j, unit in enumerate(1e-4 * np.eye(len(found))):
        slope = (settled(kernel.theta + unit)[1].bound - settled(kernel.theta - unit)[1].bound) / 2e-4
        assert found[j] == pytest.approx(slope, rel=1e-4, abs=1e-5)


def test_learned_parameters_maximise_the_bound(global_random_seed):
    X, y = labels(global_random_seed, n=100)
    model = GPClassifier(hyperparameters="point", kernel=ConstantKernel(1.0) * RBF(0.2), tol=1e-7).fit(X, y)
    assert model.converged_ and np.all(np.diff(model.lower_bounds_) >= -1e-9)
    theta = model.kernel_.theta
    for unit in 0.1 * np.vstack([np.eye(2), -np.eye(2)]):
        there = fixed(kernel=model.kernel_.clone_with_theta(theta + unit)).fit(X, y)
        assert there.lower_bound_ <= model.lower_bound_ + 1e-6
    loose = GPClassifier(hyperparameters="point", kernel=ConstantKernel(1.0) * RBF(0.2)).fit(X, y)
    assert loose.lower_bound_ == pytest.approx(model.lower_bound_, abs=5e-4 * (1 + abs(model.lower_bound_)))


def test_fixed_parameters_and_bounds_are_kept(global_random_seed):
    X, y = labels(global_random_seed)
    kernel = ConstantKernel(2.0, "fixed") * RBF(5.0, (4.0, 6.0))
    model = GPClassifier(kernel=kernel).fit(X, y)
    assert model.kernel_.k1.constant_value == 2.0 and 4.0 <= model.kernel_.k2.length_scale <= 6.0
    assert kernel.k2.length_scale == 5.0
    nothing = GPClassifier(kernel=ConstantKernel(2.0, "fixed") * RBF(5.0, "fixed")).fit(X, y)
    assert nothing.kernel_.k2.length_scale == pytest.approx(5.0) and nothing.converged_
    outside = GPClassifier(kernel=RBF(5.0, (0.1, 1.0))).fit(X, y)
    assert 0.1 - 1e-12 <= outside.kernel_.length_scale <= 1.0 + 1e-12


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_default_kernel_does_not_care_for_units(scale, global_random_seed):
    X, y = labels(global_random_seed)
    wanted, found = GPClassifier().fit(X, y), GPClassifier().fit(scale * X, y)
    np.testing.assert_allclose(found.predict_proba(scale * X), wanted.predict_proba(X), atol=1e-3)


# ---- the estimator
CHECKED = [{}, {"algorithm": "fp", "likelihood": "probit"}, {"algorithm": "mc-ssvi", "kernel": Matern(nu=2.5)}]


@parametrize_with_checks([GPClassifier(max_iter=10), GPClassifier(optimize_hyperparameters=False)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:class_weight counts rows")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks([GPClassifier(**options, max_iter=400) for options in CHECKED])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:class_weight counts rows")
def test_scikit_learns_checks_of_long_fits(estimator, check):
    check(estimator)


def test_weights_are_repeats_to_the_same_bits(global_random_seed):
    X, y = labels(global_random_seed)
    rng = np.random.default_rng(global_random_seed)
    weight, offset = rng.integers(0, 4, 60), rng.standard_normal(60)
    repeated = rng.permutation(np.repeat(np.arange(60), weight))
    one = GPClassifier().fit(X, y, weight, offset)
    two = GPClassifier().fit(X[repeated], y[repeated], None, offset[repeated])
    assert one.lower_bound_ == two.lower_bound_
    np.testing.assert_array_equal(one.predict_proba(X, offset=0), two.predict_proba(X, offset=0))
    assert len(one.X_train_) == len(two.X_train_) == np.sum(weight > 0)
    np.testing.assert_array_equal(list(one.summary().index[-len(one.X_train_) :]), np.flatnonzero(weight > 0))


def test_units_of_features_do_not_matter(global_random_seed):
    """A length scale per feature starts at its spread; many features of one unit share one."""
    X, y = labels(global_random_seed, n=80, d=4)
    units, new = np.array([1.0, 300.0, 0.01, 20.0]), labels(global_random_seed + 1, d=4)[0]
    one, other = GPClassifier().fit(X, y), GPClassifier().fit(units * X, y)
    np.testing.assert_allclose(one.predict_proba(new), other.predict_proba(units * new), atol=1e-3)
    assert np.size(one.kernel_.k1.k2.length_scale) == 4


def test_many_features_share_a_length_where_they_are_of_one_unit(global_random_seed):
    """Or where that explains some rows better; features of a small unit that matter are not lost among others."""
    rng = np.random.default_rng([global_random_seed, 12])
    X = rng.standard_normal((150, 12))
    y = (rng.random(150) < 1 / (1 + np.exp(-4.0 * np.sin(1.3 * X[:, 0])))).astype(float)

    def lengths(X):
        return np.size(first_kernel(Bernoulli(), Table(X, y)).k1.k2.length_scale)

    assert lengths(X) == 1
    assert lengths(np.append(1e-2 * X[:, :2], X[:, 2:], axis=1)) == 12
    pixels, digit = load_digits(return_X_y=True)
    some = np.flatnonzero((digit == 3) | (digit == 8))[:150]
    kernel = first_kernel(Bernoulli(), Table(pixels[some], (digit[some] == 3).astype(float)))
    assert np.size(kernel.k1.k2.length_scale) == 1


def test_distinct_rows_remember_where_they_came_from(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.integers(0, 3, (50, 2)).astype(float), rng.integers(0, 2, 50).astype(float)
    data, where = distinct(Table(X, y))
    np.testing.assert_array_equal(data.X[where], X)
    np.testing.assert_array_equal(data.y[where], y)
    np.testing.assert_array_equal(np.bincount(where), data.weight)


def test_posterior_is_in_the_order_of_the_rows(global_random_seed):
    X, y = labels(global_random_seed)
    X, y = np.vstack([X, X[:5]]), np.append(y, y[:5])
    offset = np.random.default_rng(global_random_seed).standard_normal(65)
    offset[60:] = offset[:5]
    model = GPClassifier(hyperparameters="point", kernel=KERNEL).fit(X, y, None, offset)
    latents = model.posterior_["latents"]
    mean, variance = model.predict_latent(X, offset)
    np.testing.assert_allclose(latents.mean + offset, mean, atol=1e-8)
    np.testing.assert_allclose(latents.variance, variance, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.diagonal(latents.cov), variance, rtol=1e-6, atol=1e-9)
    assert latents.sample(3, 0).shape == (3, 65) and list(model.posterior_) == ["latents"]
    table = model.summary(coverage=0.5)
    assert list(table.columns) == ["mean", "std", "lower", "upper"]
    names, values = hyperparameters(model.kernel_)
    assert list(table.index[:-65]) == names and list(table["mean"][:-65]) == values
    np.testing.assert_allclose(table["mean"][-65:], latents.mean)
    with pytest.raises(ValueError, match="coverage must lie strictly between 0 and 1"):
        model.summary(coverage=1.0)


def test_predictions_do_not_depend_on_threads_or_on_other_rows(global_random_seed):
    X, y = labels(global_random_seed, n=200)
    model = GPClassifier(hyperparameters="point", kernel=KERNEL, n_jobs=1).fit(X, y)
    wide = np.random.default_rng(global_random_seed).standard_normal((9000, 2))
    whole = model.predict_proba(wide)
    np.testing.assert_array_equal(model.set_params(n_jobs=3).predict_proba(wide), whole)
    np.testing.assert_allclose(model.predict_proba(wide[::97]), whole[::97], atol=1e-12)
    np.testing.assert_allclose(whole.sum(1), 1.0)
    assert np.all(model.predict_latent(wide)[1] <= KERNEL.clone_with_theta(model.kernel_.theta).diag(wide) + 1e-9)


def test_tables_labels_and_single_precision(global_random_seed):
    X, y = labels(global_random_seed)
    names = np.where(y == 1, "yes", "no")
    plain = GPClassifier().fit(X, y)
    model = GPClassifier().fit(pd.DataFrame(X, columns=["a", "b"]), names)
    assert list(model.classes_) == ["no", "yes"] and list(model.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(
        model.predict(pd.DataFrame(X, columns=["a", "b"])), np.where(plain.predict(X), "yes", "no")
    )
    low = GPClassifier().fit(X.astype(np.float32), y)
    assert low.predict_proba(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(low.predict_proba(X.astype(np.float32)), plain.predict_proba(X), atol=1e-3)


def test_an_offset_shifts_the_latent(global_random_seed):
    X, y = labels(global_random_seed)
    model = fixed().fit(X, y)
    m, v = model.predict_latent(X)
    shifted, same = model.predict_latent(X, 2.0)
    np.testing.assert_allclose(shifted, m + 2.0)
    np.testing.assert_array_equal(same, v)
    assert np.all(model.predict_proba(X, offset=2.0)[:, 1] > model.predict_proba(X)[:, 1])


def test_warm_start_goes_on(global_random_seed):
    X, y = labels(global_random_seed)
    model = GPClassifier(kernel=KERNEL, warm_start=True).fit(X, y)
    theta, passes, bound = model.kernel_.theta, model.n_iter_, model.lower_bounds_[-1]
    model.fit(X, y)
    assert model.n_iter_ <= passes + 40 and model.lower_bounds_[-1] >= bound - 1e-9
    model.set_params(optimize_hyperparameters=False)
    np.testing.assert_allclose(model.kernel_.theta, theta, atol=0.5)
    learned = model.kernel_.theta
    model.fit(X[:40], y[:40])
    np.testing.assert_allclose(model.kernel_.theta, learned)
    assert model.posterior_["latents"].mean.shape == (40,)
    fresh = fixed(kernel=model.kernel_).fit(X[:40], y[:40])
    assert model.lower_bound_ == pytest.approx(fresh.lower_bound_, rel=1e-4)
    with pytest.raises(ValueError, match="likelihood was 'logit' when this model was fitted and is 'probit' now"):
        model.set_params(likelihood="probit").fit(X, y)


def test_errors_name_what_is_wrong(global_random_seed):
    X, y = labels(global_random_seed)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        GPClassifier().fit(X, np.arange(60) % 3)
    with pytest.raises(ValueError, match="has several latents: choose 'logit' or 'probit'"):
        GPClassifier(likelihood=Softmax(n_classes=2)).fit(X, y)
    with pytest.raises(ValueError, match="makes the bound noisy"):
        GPClassifier(expectation="monte-carlo").fit(X, y)
    with pytest.raises(ValueError, match="choose 'cvi', 'fp' or 'mc-ssvi'"):
        GPClassifier(algorithm=SDSVI()).fit(X, y)
    with pytest.raises(ValueError, match="WhiteKernel"):
        GPClassifier(kernel=RBF() + WhiteKernel()).fit(X, y)
    with pytest.raises(ValueError, match="'kernel' parameter of GPClassifier must be"):
        GPClassifier(kernel="rbf").fit(X, y)
    with pytest.raises(ValueError, match="3 length scales"):
        GPClassifier(kernel=RBF(np.ones(3))).fit(X, y)
    with pytest.raises(ValueError, match="is not positive semi-definite on the rows of X"):
        GPClassifier(kernel=PairwiseKernel(metric="sigmoid")).fit(X, y)
    with pytest.raises(TypeError, match="parse"):
        GPClassifier().fit(sp.csr_array(X), y)
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        GPClassifier().fit(X, y, -np.ones(60))
    assert not hasattr(GPClassifier(), "partial_fit")


def test_parameters_that_every_estimator_has(global_random_seed):
    X, y = labels(global_random_seed)
    plain = fixed().fit(X, y)
    for options in ({"batch_size": None}, {"batch_size": 60}, {"batch_size": 1000}):
        np.testing.assert_array_equal(fixed(**options).fit(X, y).predict_proba(X), plain.predict_proba(X))
    for options, message in (
        ({"covariance": "diag"}, "covariance='diag' cannot serve GPClassifier.*set covariance='full'"),
        ({"total_samples": 100}, "total_samples=100 is for partial_fit.*Set total_samples=None"),
        ({"covariance": "low-rank"}, "'covariance' parameter of GPClassifier must be"),
    ):
        with pytest.raises(ValueError, match=message):
            fixed(**options).fit(X, y)


def test_hard_data_are_fitted(global_random_seed):
    """Equal rows with both labels, a single row per class, separable labels, constant columns."""
    rng = np.random.default_rng(global_random_seed)
    X = np.repeat(rng.standard_normal((5, 2)), 8, axis=0)
    model = GPClassifier().fit(X, np.arange(40) % 2)
    np.testing.assert_allclose(model.predict_proba(X), 0.5, atol=1e-6)
    model = GPClassifier().fit([[0.0], [1.0]], ["a", "b"])
    assert model.predict_proba([[0.0]])[0, 0] > 0.5
    x = rng.standard_normal(50)
    model = GPClassifier().fit(np.column_stack([x, np.ones(50)]), x > 0)
    assert model.score(np.column_stack([x, np.ones(50)]), x > 0) > 0.95
    model = GPClassifier().fit(np.zeros((10, 1)), np.arange(10) % 2)
    np.testing.assert_allclose(model.predict_proba([[0.0]]), 0.5, atol=1e-6)


def test_a_summary_begins_with_the_kernel(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(rng.standard_normal((60, 2)), columns=["age", "dose"])
    model = GPClassifier(kernel=ConstantKernel() * RBF([1.0, 1.0]), optimize_hyperparameters=False).fit(X, X["age"] > 0)
    table = model.summary()
    kernel = ["k1__constant_value", "length_scale(age)", "length_scale(dose)"]
    assert table.index.tolist() == [*kernel, *range(60)]
    assert table.loc[7, "mean"] == model.posterior_["latents"].mean[7]
    lines = model.summary_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("quantity"))
    assert lines[begin + 2].startswith("length_scale(age)") and lines[-1].split()[0] == "59"
