"""Predictive: moments, quantiles, intervals, probabilities; the free functions through scikit-learn's wrappers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksvi.likelihoods import (
    Bernoulli,
    Binomial,
    Gaussian,
    InverseGaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Softmax,
    StudentT,
)
from sksvi.predictive import Predictive, predict_interval, predict_std
from tests.chance import errors_allowed

LIKELIHOODS = {
    "logit": Bernoulli(),
    "probit": Bernoulli(link="probit"),
    "binomial": Binomial(),
    "poisson": Poisson(),
    "softplus": Poisson(rate="softplus"),
    "negative-binomial": NegativeBinomial(dispersion=0.4),
    "gaussian": Gaussian(variance=0.3),
    "student": StudentT(scale=0.5, df=5.0),
    "ordinal": Ordinal(cut_points=[-1.0, 0.0, 2.0]),
    "softmax": Softmax(n_classes=3),
}


def predictive(name, m, v):
    if name == "softmax":
        m, v = np.stack([m, -m, 0.0 * m], axis=1), np.stack([v, 0.5 * v, v], axis=1)
    return Predictive(LIKELIHOODS[name], m, v)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_moments_against_samples(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    n = 50_000
    of_y = predictive(name, np.array([-1.0, 0.5, 1.5]), np.array([0.0, 0.3, 0.6]))
    draws = of_y.sample(n, rng)
    assert draws.shape == (3, n)
    if name == "softmax":
        draws = np.moveaxis(draws[..., None] == np.arange(3), 1, -1).astype(float)
    allowed = errors_allowed(6) / np.sqrt(n)  # two moments in three places
    assert np.all(np.abs(draws.mean(axis=-1) - of_y.mean()) <= allowed * draws.std(axis=-1))
    squares = (draws - of_y.mean()[..., None]) ** 2
    assert np.all(np.abs(squares.mean(axis=-1) - of_y.variance()) <= allowed * squares.std(axis=-1) + 1e-9)
    np.testing.assert_allclose(of_y.std() ** 2, of_y.variance())


@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if name != "softmax"])
def test_intervals_cover(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    n = 20_000
    of_y = predictive(name, np.array([0.0, 3.0]), np.array([0.2, 2.0]))
    draws, interval = of_y.sample(n, rng), of_y.interval(0.8)
    inside = ((draws >= interval[:, :1]) & (draws <= interval[:, 1:])).mean(axis=1)
    error = 4 * np.sqrt(0.8 * 0.2 / n)
    assert np.all(inside >= 0.8 - error)
    if not LIKELIHOODS[name].traits.discrete:
        assert np.all(inside <= 0.8 + error)


@pytest.mark.parametrize("name", ["poisson", "softplus", "negative-binomial"])
def test_count_quantile_is_the_smallest_that_reaches(name):
    m, v = np.array([-30.0, -1.0, 0.5, 3.0, 8.0, 12.0]), np.array([1.0, 0.0, 5.0, 0.01, 0.5, 1e-6])
    of_y = predictive(name, m, v)
    for level in (0.001, 0.05, 0.5, 0.95, 0.999):
        y = of_y.quantile(level)[:, 0]
        assert np.all(y == np.floor(y))
        assert np.all(of_y.cdf(y) >= level)
        assert np.all(np.where(y > 0, of_y.cdf(np.maximum(y - 1.0, 0.0)), 0.0) < level)


def test_cdf_of_counts_is_the_sum_of_the_masses():
    counts = np.arange(400.0)
    for name in ("poisson", "negative-binomial"):
        likelihood = LIKELIHOODS[name]
        m, v = np.full(400, 3.0), np.full(400, 0.3)
        of_y = Predictive(likelihood, m, v)
        np.testing.assert_allclose(of_y.cdf(counts), np.cumsum(np.exp(of_y.log_prob(counts))), atol=2e-6)


def test_quantiles_at_the_edge_of_floats():
    m, v = np.array([-1e4, -50.0, 20.0, 36.0, 690.0, 1e4, 0.0]), np.array([1.0, 0.0, 1e-3, 1e-2, 3.0, 1.0, 1e4])
    for name in ("poisson", "softplus", "negative-binomial"):
        of_y = predictive(name, m, v)
        for part in (of_y.mean(), of_y.std(), of_y.quantile([0.05, 0.95]), of_y.log_prob(np.ones(7))):
            assert np.all(np.isfinite(part))


def test_quantiles_of_student_t():
    of_y = predictive("student", np.array([0.0, 2.0, -1.0]), np.array([0.0, 4.0, 1e-6]))
    for level in (0.01, 0.3, 0.5, 0.975):
        np.testing.assert_allclose(of_y.cdf(of_y.quantile(level)[:, 0]), level, atol=1e-7)
    wanted = LIKELIHOODS["student"].ppf(0.975, 0.0)
    np.testing.assert_allclose(of_y.quantile(0.975)[0, 0], wanted, rtol=1e-8)


def test_gaussian_is_closed():
    of_y = predictive("gaussian", np.array([1.0]), np.array([0.7]))
    np.testing.assert_allclose(of_y.interval(0.9), [[1.0 + ndtri(0.05), 1.0 + ndtri(0.95)]])
    np.testing.assert_allclose(of_y.log_prob(np.array([1.0])), -0.5 * np.log(2 * np.pi))


@pytest.mark.parametrize("name", ["logit", "probit", "binomial", "ordinal", "softmax"])
def test_probabilities(name):
    of_y = predictive(name, np.array([-40.0, -1.0, 0.0, 6.0]), np.array([0.1, 2.0, 0.0, 400.0]))
    p = of_y.probabilities()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert np.all(p >= 0)
    for k in range(p.shape[1] if name != "binomial" else 0):
        at = np.exp(of_y.log_prob(np.full(4, k)))
        np.testing.assert_allclose(at, p[:, k], rtol=2e-6, atol=1e-12)
    if name == "ordinal":
        np.testing.assert_allclose(p @ np.arange(4), of_y.mean(), rtol=1e-6)
        np.testing.assert_allclose(p @ np.arange(4) ** 2 - of_y.mean() ** 2, of_y.variance(), rtol=1e-5)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_rows_do_not_depend_on_each_other(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    m, v, y = rng.normal(size=40), np.exp(rng.normal(size=40, scale=2.0)), rng.integers(0, 2, size=40)

    def answers(rows):
        of_y = predictive(name, m[rows], v[rows])
        y_rows = np.stack([y[rows], 1 - y[rows]], axis=1) if name == "binomial" else y[rows]
        parts = [of_y.mean(), of_y.std(), of_y.log_prob(y_rows)]
        return parts if name == "softmax" else [*parts, of_y.quantile([0.1, 0.7])]

    together = answers(np.arange(40))
    for rows in (np.array([7]), np.array([3, 1]), np.arange(39, 10, -1)):
        for a, b in zip(together, answers(rows), strict=True):
            np.testing.assert_array_equal(a[rows], b)


def test_messages():
    of_y = predictive("gaussian", np.zeros(2), np.ones(2))
    for call, message in (
        (lambda: of_y.quantile([0.0, 0.5]), "strictly between"),
        (lambda: of_y.interval(1.0), "coverage"),
        (lambda: of_y.probabilities(), "no classes"),
        (lambda: of_y.sample(0, np.random.default_rng(0)), "samples"),
        (lambda: Predictive(Gaussian(variance=1.0), np.zeros(2), np.ones(3)), "one shape"),
        (lambda: Predictive(Gaussian(variance=1.0), np.zeros(2), -np.ones(2)), ">= 0"),
        (lambda: predictive("softmax", np.zeros(2), np.ones(2)).quantile(0.5), "no order"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


class Line(RegressorMixin, BaseEstimator):
    """y ~ N(x_1, 1) with the methods that the free functions ask for."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X, return_std=False):
        mean = X[:, 0] + self.shift
        return (mean, np.ones(len(X))) if return_std else mean

    def predict_quantiles(self, X, q):
        return self.predict(X)[:, None] + ndtri(np.asarray(q))

    def predict_interval(self, X, coverage=0.9):
        return self.predict_quantiles(X, [0.5 - coverage / 2, 0.5 + coverage / 2])


@pytest.fixture
def data(global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(30, 2))
    return X, X[:, 0]


def test_free_functions_unwrap_pipeline_and_search(data):
    X, y = data
    plain = Line().fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    pipeline = make_pipeline(StandardScaler(), Line()).fit(X, y)
    search = GridSearchCV(make_pipeline(StandardScaler(), Line()), {"line__shift": [0.0, 9.0]}, cv=2).fit(X, y)
    inside = make_pipeline(StandardScaler(), GridSearchCV(Line(), {"shift": [0.0]}, cv=2)).fit(X, y)
    for model in (pipeline, search, inside):
        np.testing.assert_allclose(predict_interval(model, X, coverage=0.8), plain.predict_interval(scaled, 0.8))
        np.testing.assert_allclose(predict_std(model, X), 1.0)
    np.testing.assert_allclose(predict_interval(plain, X), plain.predict_interval(X, 0.9))


def test_free_functions_unwrap_a_transformed_target(data):
    X, y = data
    model = TransformedTargetRegressor(Line(), func=np.log, inverse_func=np.exp).fit(X, np.exp(y))
    plain = Line().fit(X, y)
    np.testing.assert_allclose(predict_interval(model, X, coverage=0.8), np.exp(plain.predict_interval(X, 0.8)))
    log_normal = np.exp(X[:, 0] + 0.5) * np.sqrt(np.expm1(1.0))
    np.testing.assert_allclose(predict_std(model, X), log_normal, rtol=1e-5)
    scaled = TransformedTargetRegressor(make_pipeline(Line()), transformer=StandardScaler()).fit(X, 5 * y)
    np.testing.assert_allclose(predict_std(scaled, X), 5 * y.std(), rtol=1e-8)


def test_a_decreasing_inverse_keeps_the_order(data):
    X, y = data
    model = TransformedTargetRegressor(Line(), func=np.negative, inverse_func=np.negative).fit(X, y)
    interval = predict_interval(model, X)
    assert np.all(interval[:, 0] < interval[:, 1])


def test_free_functions_say_what_is_missing(data):
    from sklearn.linear_model import Ridge

    X, y = data
    with pytest.raises(TypeError, match="Ridge has no predict_interval"):
        predict_interval(make_pipeline(StandardScaler(), Ridge()).fit(X, y), X)
    with pytest.raises(ValueError, match="coverage"):
        predict_interval(Line().fit(X, y), X, coverage=90)


def test_quantiles_of_an_inverse_gaussian_are_found_without_a_word(global_random_seed):
    """SciPy's first search gave up on some, and its warning reached whoever asked for an interval."""
    likelihood = InverseGaussian(dispersion=1 / 3)
    f = np.random.default_rng(global_random_seed).uniform(-6.0, 6.0, 400)
    for p in (0.01, 0.05, 0.5, 0.95, 0.99):
        np.testing.assert_allclose(likelihood.cdf(likelihood.ppf(p, f), f), p, rtol=1e-6)
