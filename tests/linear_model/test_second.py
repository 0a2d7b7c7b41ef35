"""A second latent: columns that predict the scale of y or the probability of its zeros."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sksvi
from sksvi import BayesianGLMRegressor
from sksvi.expectations import Auto
from sksvi.inspection import loo
from sksvi.likelihoods import (
    Beta,
    Gamma,
    Gaussian,
    HurdleNegativeBinomial,
    HurdlePoisson,
    NegativeBinomial,
    StudentT,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from sksvi.likelihoods.distributional import Distributional
from sksvi.predictive.pair import PairPredictive

TARGETS = {
    "gaussian": (Gaussian(), lambda rng, n: rng.normal(size=n)),
    "student-t": (StudentT(), lambda rng, n: rng.normal(size=n)),
    "gamma": (Gamma(), lambda rng, n: rng.gamma(1.0, 1.0, n)),
    "beta": (Beta(), lambda rng, n: rng.uniform(0.05, 0.95, n)),
    "negative-binomial": (NegativeBinomial(), lambda rng, n: 1.0 * rng.poisson(2.0, n)),
    "zero-inflated-poisson": (ZeroInflatedPoisson(), lambda rng, n: 1.0 * rng.poisson(0.7, n)),
    "zero-inflated-negative-binomial": (
        ZeroInflatedNegativeBinomial(dispersion=0.6),
        lambda rng, n: 1.0 * rng.poisson(0.7, n),
    ),
    "hurdle-poisson": (HurdlePoisson(), lambda rng, n: 1.0 * rng.poisson(0.7, n)),
    "hurdle-negative-binomial": (HurdleNegativeBinomial(dispersion=0.6), lambda rng, n: 1.0 * rng.poisson(0.7, n)),
}


@pytest.fixture(scope="module")
def pairs():
    """Means and covariances of a few pairs of latents."""
    rng = np.random.default_rng(0)
    half = 0.3 * rng.normal(size=(6, 2, 2))
    return 0.5 * rng.normal(size=(6, 2)), half @ half.transpose(0, 2, 1) + 1e-3 * np.eye(2)


def dense(likelihood, function, m, v, n=80):
    """E of a function of the latents on a product grid of n² nodes."""
    x, w = np.polynomial.hermite_e.hermegauss(n)
    z, weights = np.array(np.meshgrid(x, x)).reshape(2, -1), np.outer(w, w).ravel() / w.sum() ** 2
    f = m + np.einsum("nij,js->sni", np.linalg.cholesky(v), z)
    return weights @ function(f)


@pytest.mark.parametrize("name", TARGETS)
def test_expectations_and_derivatives_are_those_of_a_dense_grid(name, pairs, global_random_seed):
    base, draw = TARGETS[name]
    (m, v), kind = pairs, next(iter(base.predictable))
    y = draw(np.random.default_rng(global_random_seed), len(m))
    likelihood = Distributional(base, kind).start(y)

    def value(m, v):
        return dense(likelihood, lambda f: likelihood.log_prob(y, f), m, v)

    found, dm, dv = Auto()(likelihood, y, m, v)
    np.testing.assert_allclose(found, value(m, v), rtol=1e-5, atol=1e-5)
    step, near = 1e-3, {"rtol": 1e-3, "atol": 1e-3}
    for k in range(2):
        unit = step * np.eye(2)[k]
        np.testing.assert_allclose(dm[:, k], (value(m + unit, v) - value(m - unit, v)) / (2 * step), **near)
        for j in range(k + 1):
            move = 0.25 * step * (np.outer(np.eye(2)[k], np.eye(2)[j]) + np.outer(np.eye(2)[j], np.eye(2)[k]))
            slope = (value(m, v + move) - value(m, v - move)) / step
            np.testing.assert_allclose(dv[:, k, j], slope, **near)


@pytest.mark.parametrize("name", ["gaussian", "negative-binomial", "gamma", "zero-inflated-poisson"])
def test_predictions_are_those_of_a_dense_grid(name, pairs, global_random_seed):
    base, draw = TARGETS[name]
    m, v = pairs
    y = draw(np.random.default_rng(global_random_seed), len(m))
    likelihood = Distributional(base, next(iter(base.predictable))).start(y)
    predictive = PairPredictive(likelihood, m, v)
    mean = dense(likelihood, likelihood.mean, m, v)
    np.testing.assert_allclose(predictive.mean(), mean, rtol=1e-5)
    square = dense(likelihood, lambda f: likelihood.conditional_variance(f) + likelihood.mean(f) ** 2, m, v)
    np.testing.assert_allclose(predictive.variance(), square - mean**2, rtol=1e-4)
    density = np.log(dense(likelihood, lambda f: np.exp(likelihood.log_prob(y, f)), m, v))
    np.testing.assert_allclose(predictive.log_prob(y), density, atol=1e-4)
    ends = predictive.interval(0.8)
    cdf = dense(likelihood, lambda f: likelihood.cdf(ends[:, 1], f), m, v)
    assert np.all(cdf >= 0.9 - 1e-4)
    if not likelihood.traits.discrete:
        np.testing.assert_allclose(cdf, 0.9, atol=1e-4)


@pytest.fixture(scope="module")
def table():
    """Rows in raw units whose mean and log σ are linear, with a categorical column."""
    rng = np.random.default_rng(3)
    n = 800
    X = pd.DataFrame({"year": 2000 + 5.0 * rng.normal(size=n), "site": rng.choice(["a", "b", "c"], n)})
    log_scale = 1.0 + 0.1 * (X["year"] - 2000) - 0.5 * (X["site"] == "b")
    return X, 0.4 * X["year"] + np.exp(log_scale) * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted(table):
    return BayesianGLMRegressor(scale_features="all", tol=1e-7).fit(*table)


def test_coefficients_of_the_scale_are_within_four_deviations(fitted, table):
    rows = fitted.summary()
    truth = {"year": 0.4, "scale:year": 0.1, "scale:site_b": -0.5, "scale:site_c": 0.0, "scale:intercept": -199.0}
    for name, value in truth.items():
        assert abs(rows.loc[name, "mean"] - value) < 4.0 * rows.loc[name, "std"], name
    assert fitted.scale_coef_.shape == (3,) and fitted.coef_.shape == (4,)
    assert list(fitted.hyperparameter_posterior_.columns[1:]) == ["scale(coefficients)", "scale(scale:coefficients)"]


def test_intervals_widen_where_the_data_do(fitted, table):
    X, y = table
    ends = fitted.predict_interval(X, 0.9)
    y, wide = y.to_numpy(), X["year"].to_numpy() > 2000
    for rows in (wide, ~wide):
        inside = np.mean((y >= ends[:, 0]) & (y <= ends[:, 1]), where=rows)
        assert abs(inside - 0.9) < 4.0 * np.sqrt(0.09 / rows.sum())
    assert np.diff(ends[wide]).mean() > 1.5 * np.diff(ends[~wide]).mean()


@pytest.mark.filterwarnings("ignore:noise is larger where column")
def test_an_intercept_alone_is_a_learned_noise(table):
    X, y = table
    own = BayesianGLMRegressor(scale_features=[], prior_precision="flat").fit(X, y)
    plain = BayesianGLMRegressor(prior_precision="flat").fit(X, y)
    np.testing.assert_allclose(np.exp(own.scale_intercept_), np.sqrt(plain.noise_), rtol=0.01)
    np.testing.assert_allclose(own.coef_, plain.coef_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(own.coef_std_, plain.coef_std_, rtol=0.01)


def test_a_weight_of_k_is_k_rows_and_an_offset_moves_the_mean_alone(table, global_random_seed):
    X, y = table[0][:120], table[1][:120]
    rng = np.random.default_rng(global_random_seed)
    weight, offset, model = rng.integers(1, 4, 120), rng.normal(size=120), BayesianGLMRegressor(scale_features="all")
    model.set_params(tol=1e-8, hyperparameters="point", prior_precision=0.1)
    copies = np.repeat(np.arange(120), weight)
    once = model.fit(X, y, sample_weight=weight).scale_coef_
    np.testing.assert_allclose(once, model.fit(X.iloc[copies], y.iloc[copies]).scale_coef_, rtol=1e-6)
    plain = model.fit(X, y).scale_coef_
    moved = model.fit(X, y + offset, offset=offset)
    np.testing.assert_allclose(moved.scale_coef_, plain, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(moved.predict(X, offset=offset) - offset, moved.predict(X, offset=0 * offset))


def test_a_file_has_both_latents(fitted, table, tmp_path):
    fitted.save(tmp_path / "fit")
    again = sksvi.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.predict_interval(table[0]), fitted.predict_interval(table[0]))
    np.testing.assert_array_equal(again.scale_coef_, fitted.scale_coef_)


def test_the_bound_is_largest_where_a_fit_ends(table):
    X, y = table[0][["year"]][:200], table[1][:200]
    model = BayesianGLMRegressor(scale_features="all", prior_precision=1.0, tol=1e-10, hyperparameters="point")
    bound = model.fit(X, y).lower_bound_
    problem, _ = model._with_rows_of_fit(X, y, None, None)
    q, prior = model.state_.q, problem.model.prior(model.state_.q)["weights"]

    def at(mean):
        block = type(q["weights"])(mean, q["weights"].precision)
        batch = problem.model.batch(problem.data, slice(0, 200))
        value = problem.model.terms({**q, "weights": block}, batch, Auto(), None).value.sum()
        return value - block.kl(prior)

    mean, std = q["weights"].mean, q["weights"].std
    np.testing.assert_allclose(at(mean), bound, rtol=1e-8)
    for unit in np.diag(std):  # slopes of the bound by differences, against those of a move by a deviation
        assert abs(at(mean + 1e-3 * unit) - at(mean - 1e-3 * unit)) / 2e-3 < 1e-3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"likelihood": "poisson", "scale_features": "all"}, "gaussian, negative-binomial"),
        ({"zero_features": "all"}, "zero-inflated-poisson"),
        ({"likelihood": "hurdle-poisson", "scale_features": [], "zero_features": "all"}, "Leave one"),
        ({"scale_features": ["month"]}, "does not have"),
        ({"scale_features": "all", "covariance": "diag"}, "covariance='full'"),
        ({"scale_features": "all", "expectation": "monte-carlo"}, "expectation='auto'"),
        ({"likelihood": Gaussian(variance=1.0), "scale_features": "all"}, 'variance="auto"'),
    ],
)
def test_what_does_not_go_together_is_refused(options, words, table):
    with pytest.raises(ValueError, match=words):
        BayesianGLMRegressor(**options).fit(*table)


def test_what_has_no_second_latent_says_so(fitted, table):
    with pytest.raises(ValueError, match="scale_features='all' has no partial_fit"):
        BayesianGLMRegressor(scale_features="all").partial_fit(*table)
    with pytest.raises(TypeError, match="scale_features"):
        loo(fitted, *table)


@pytest.mark.exhaustive
def test_zeros_without_an_excess_have_no_posterior_under_a_flat_prior(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"x": rng.normal(size=200)})
    y = rng.binomial(5, 0.5, size=200)  # fewer zeros than a Poisson expects
    with pytest.raises(ValueError, match=r"zero:.*no excess of zeros"):
        BayesianGLMRegressor(likelihood="zero-inflated-poisson", zero_features=[], prior_precision="flat").fit(X, y)
