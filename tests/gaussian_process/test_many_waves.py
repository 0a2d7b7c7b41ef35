"""A signal of many waves is found by the default kernel, whose first lengths are as short as some rows ask for."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sksvi.estimators.encoding import WHOLE, GivenRows
from sksvi.gaussian_process import GPClassifier, SparseGPClassifier, SparseGPRegressor
from sksvi.gaussian_process._start import as_measured, shortened
from sksvi.likelihoods import Bernoulli, Gaussian, StudentT
from sksvi.models.data import Table
from sksvi.models.gp.kernels import scaled_rbf


def share_covered(model, X, f):
    """Share of f in its 90 % intervals."""
    mean, variance = model.predict_latent(X)
    return np.mean(np.abs(np.ravel(mean) - f) < 1.645 * np.sqrt(np.ravel(variance)))


def seasons(seed, n=300, period=30.0, trend=0.0):
    """Rows in the order of time, f of many seasons, and f with noise of variance 4."""
    t = np.arange(n, dtype=float)
    f = 10.0 + 8.0 * np.sin(2.0 * np.pi * t / period) + trend * t
    return t[:, None], f, f + 2.0 * np.random.default_rng([seed, 5]).standard_normal(n)


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t"])
def test_a_season_is_no_noise(likelihood, global_random_seed):
    X, f, y = seasons(global_random_seed)
    model = SparseGPRegressor(likelihood=likelihood, random_state=0).fit(X, y)
    assert share_covered(model, X, f) > 0.65
    assert np.sqrt(np.mean(np.square(model.predict_latent(X)[0] - f))) < 1.5
    if likelihood == "gaussian":
        assert 2.8 < model.noise_variance_ < 5.6


def test_a_season_beside_a_trend_is_no_noise(global_random_seed):
    X, f, y = seasons(global_random_seed, n=120, period=12.0, trend=0.5)
    model = SparseGPRegressor(random_state=0).fit(X, y)
    assert share_covered(model, X, f) > 0.6 and 2.0 < model.noise_variance_ < 8.0


def test_a_surface_of_many_waves_is_no_noise(global_random_seed):
    rng = np.random.default_rng([global_random_seed, 6])
    X = rng.uniform(size=(400, 2))
    f = np.sin(15.0 * X[:, 0]) * np.cos(15.0 * X[:, 1])
    model = SparseGPRegressor(random_state=0, hyperparameters="point").fit(X, f + 0.3 * rng.standard_normal(400))
    assert np.sqrt(np.mean(np.square(model.predict(X) - f))) < 0.2 and 0.06 < model.noise_variance_ < 0.13


def test_counts_of_many_seasons_are_more_than_poisson_noise(global_random_seed):
    X = np.arange(300.0)[:, None]
    f = 1.0 + 0.8 * np.sin(2.0 * np.pi * X[:, 0] / 20.0)
    y = np.random.default_rng([global_random_seed, 7]).poisson(np.exp(f))
    model = SparseGPRegressor(likelihood="poisson", random_state=0).fit(X, y)
    assert share_covered(model, X, f) > 0.65 and np.corrcoef(model.predict_latent(X)[0], f)[0, 1] > 0.85


@pytest.mark.parametrize("model", [GPClassifier(), SparseGPClassifier(random_state=0)], ids=["full", "sparse"])
def test_labels_of_many_waves_are_no_noise(model, global_random_seed):
    rng = np.random.default_rng([global_random_seed, 8])
    X = rng.uniform(0.0, 10.0, (400, 1))
    f = 3.0 * np.sin(6.0 * X[:, 0])
    model.fit(X, rng.random(400) < 1.0 / (1.0 + np.exp(-f)))
    assert share_covered(model, X, f) > 0.6 and np.corrcoef(np.ravel(model.predict_latent(X)[0]), f)[0, 1] > 0.8


def test_the_first_chunk_of_a_stream_has_short_lengths(global_random_seed):
    X, f, y = seasons(global_random_seed)
    model = SparseGPRegressor(random_state=0).partial_fit(X, y)
    assert share_covered(model, X, f) > 0.65 and model.noise_variance_ < 6.0


def started(likelihood, X, y, weight=None):
    """By what factor the lengths are shortened with which a default kernel would begin."""
    kernel = scaled_rbf(1.0, np.full(X.shape[1], np.sqrt(X.shape[1])) * X.std(axis=0))
    found = shortened(kernel, likelihood, Table(X, y, weight))
    assert found.theta[0] == kernel.theta[0]
    return np.exp(found.theta - kernel.theta)[1:]


@pytest.mark.parametrize("columns", [1, 2, 8, 20])
def test_smooth_data_and_noise_begin_as_they_did(columns, global_random_seed):
    rng = np.random.default_rng([global_random_seed, columns])
    X = rng.uniform(size=(250, columns))
    f, noise = np.sin(3.0 * X[:, 0]) + X.sum(axis=1), rng.standard_normal(250)
    for y in (f + 0.3 * noise, np.zeros(250)):
        np.testing.assert_array_equal(started(Gaussian(variance=1.0), X, y - y.mean()), np.ones(columns))


def test_waves_along_some_columns_beside_one_that_says_nothing(global_random_seed):
    """No length of all columns explains such labels: each is found from a third of all."""
    rng = np.random.default_rng([global_random_seed, 11])
    X = rng.standard_normal((600, 3))
    f = 3.0 * np.sin(4.0 * X[:, 0]) * np.cos(2.0 * X[:, 1])
    y = (rng.random(600) < 1.0 / (1.0 + np.exp(-f))).astype(float)
    factors = started(Bernoulli(), X, y)
    assert factors[0] < 0.35 and factors[1] < 0.7 and factors[2] > factors[0]


def test_lengths_of_constant_columns_stay(global_random_seed):
    X, _, y = seasons(global_random_seed)
    X = np.column_stack([X, np.ones(300)])
    kernel = scaled_rbf(1.0, np.array([86.0, 1.0]))
    factors = np.exp(shortened(kernel, Gaussian(variance=36.0), Table(X, y - 10.0)).theta - kernel.theta)
    assert factors[1] < 0.3 and factors[2] == 1.0


@pytest.mark.parametrize("likelihood", [Gaussian(variance=9.0), StudentT(df=4.0, scale=2.0)], ids=["gaussian", "t"])
def test_weights_are_relative_and_outliers_do_not_decide(likelihood, global_random_seed):
    X, _, y = seasons(global_random_seed, n=150)
    choose = partial(started, likelihood, X)
    plain = choose(y - 10.0)
    assert plain[0] < 0.3
    np.testing.assert_allclose(choose(y - 10.0, np.full(150, 1e6)), plain, rtol=1e-8)
    y = np.where(np.arange(150) == 70, 1e3, y) if not likelihood.traits.by_moments else y
    np.testing.assert_allclose(choose(y - 10.0), plain, rtol=0.5)


def test_rows_without_a_spread_say_nothing():
    X = np.arange(10.0)[:, None]
    assert as_measured(Gaussian(variance=1.0), Table(X, np.zeros(10))) == []
    (table,) = as_measured(Gaussian(variance=7.0), Table(X, X[:, 0], offset=np.ones(10)))
    np.testing.assert_allclose(table.y, (X[:, 0] - 4.5) / X.std())


def first_kernel(model, X, y):
    """The kernel with which a fit to these rows begins."""
    model._encoded(GivenRows(X, y, None, None), True, WHOLE)
    return model.kernel_


def test_three_classes_of_many_waves_begin_at_short_lengths(global_random_seed):
    X = np.random.default_rng([global_random_seed, 9]).uniform(0.0, 10.0, (300, 1))
    kernel = first_kernel(SparseGPClassifier(), X, np.digitize(np.sin(5.0 * X[:, 0]), [-0.5, 0.5]))
    assert kernel.k1.k2.length_scale < 0.3 * X.std()


@pytest.mark.parametrize("options", [{"kernel": ConstantKernel(36.0) * RBF(86.0)}, {"optimize_hyperparameters": False}])
def test_kernels_of_users_and_fixed_ones_begin_where_they_are(options, global_random_seed):
    X, _, y = seasons(global_random_seed)
    kernel = first_kernel(SparseGPRegressor(**options), X, y - 10.0)
    assert kernel.theta[1] == pytest.approx(np.log(86.0), abs=0.02)


def test_threads_and_repeats_begin_at_the_same_lengths(global_random_seed):
    X, _, y = seasons(global_random_seed, n=250)
    model, twin = SparseGPRegressor(random_state=0, n_jobs=1), SparseGPRegressor(random_state=1, n_jobs=2)
    once, again = first_kernel(model, X, y), first_kernel(twin, X, y)
    np.testing.assert_array_equal(once.theta, again.theta)
    repeated = first_kernel(twin, np.repeat(X, 2, axis=0), np.repeat(y, 2))
    np.testing.assert_allclose(repeated.theta, once.theta, rtol=1e-10)
