"""Quantiles: the asymmetric Laplace likelihood, and fits with the corrected covariance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import QuantileRegressor

import sksvi
from sksvi import BayesianGLMRegressor, DynamicGLM, GeneralizedPMF, GMERegressor, SparseGPRegressor
from sksvi.expectations import Auto, GaussHermite, Quadrature
from sksvi.inspection import loo
from sksvi.likelihoods import AsymmetricLaplace
from sksvi.testing import check_likelihood

Y = np.array([-1.0, 0.2, 0.5, 3.0])


def table(seed, n=300):
    """Rows whose spread grows with the first column."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"x1": rng.uniform(-1.0, 1.0, n), "x2": rng.standard_normal(n)})
    return X, 10.0 + X["x1"] - 0.5 * X["x2"] + (1.0 + 0.5 * X["x1"]) * rng.standard_normal(n)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_likelihood(quantile, global_random_seed):
    check_likelihood(AsymmetricLaplace(quantile), Y, seed=global_random_seed)
    likelihood = AsymmetricLaplace(quantile, scale=0.7)
    assert likelihood.cdf(0.3, 0.3) == pytest.approx(quantile)


def test_expectations_and_predictive_density_by_adaptive_quadrature():
    likelihood, m, sd = AsymmetricLaplace(0.8, scale=0.7), 0.4, 0.9

    def expected(function, y):
        parts = [(m - 9 * sd, y), (y, m + 9 * sd)] if m - 9 * sd < y < m + 9 * sd else [(m - 9 * sd, m + 9 * sd)]
        return sum(quad(lambda f: norm.pdf(f, m, sd) * function(y, f), *part)[0] for part in parts)

    for y in Y:
        at = np.array([y]), np.array([m]), np.array([sd**2])
        value, dm, _ = likelihood.expected(*at)
        assert value[0] == pytest.approx(expected(likelihood.log_prob, y), abs=1e-8)
        assert dm[0] == pytest.approx(expected(likelihood.d1, y), abs=1e-8)
        density = expected(lambda y, f: np.exp(likelihood.log_prob(y, f)), y)
        assert likelihood.log_predictive(*at)[0] == pytest.approx(np.log(density), abs=1e-8)
        for rule in (Auto(), Quadrature(), GaussHermite()):  # nodes would miss the kink
            np.testing.assert_array_equal(rule(likelihood, *at)[2], likelihood.expected(*at)[2])
    learned = AsymmetricLaplace(0.8).start(Y)
    h, at = 1e-5, (Y, np.zeros(4), np.full(4, 0.5))
    high, low = (Auto().value(learned.replace(learned.unconstrained + step), *at) for step in (h, -h))
    np.testing.assert_allclose(Auto().parameters(learned, *at)[0][:, 0], (high - low) / (2 * h), rtol=1e-6)


def test_estimates_are_those_of_quantile_regression_whatever_the_unit(global_random_seed):
    X, y = table(global_random_seed)
    for quantile in (0.25, 0.9):
        model = BayesianGLMRegressor(likelihood=AsymmetricLaplace(quantile), prior_precision="flat").fit(X, y)
        peer = QuantileRegressor(quantile=quantile, alpha=0.0).fit(X, y)
        # A mean of the posterior beside its mode: over sets their distance is a quarter of a standard deviation.
        np.testing.assert_allclose(model.coef_, peer.coef_, atol=model.coef_std_.max())
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_allclose(mean, model.predict_latent(X)[0], rtol=1e-6)
        np.testing.assert_allclose(std, np.sqrt(model.predict_latent(X)[1]), rtol=1e-4)
        share = np.mean(y < mean)
        assert abs(share - quantile) < 4 * np.sqrt(quantile * (1 - quantile) / len(y))
        larger = BayesianGLMRegressor(likelihood=AsymmetricLaplace(quantile), prior_precision="flat").fit(X, 1e3 * y)
        np.testing.assert_allclose(larger.coef_std_, 1e3 * model.coef_std_, rtol=1e-3)


@pytest.mark.costly
def test_standard_deviations_are_those_of_the_sampling_distribution(global_random_seed):
    """Over 40 sets; the sd of 40 numbers has a relative standard error of 0.11, of two columns 0.08."""
    found, said = [], []
    for number in range(40):
        X, y = table([global_random_seed, number], 200)
        model = BayesianGLMRegressor(likelihood=AsymmetricLaplace(0.75), prior_precision="flat").fit(X, y)
        found.append(model.coef_)
        said.append(model.coef_std_)
    ratio = np.mean(said, axis=0) / np.std(found, axis=0, ddof=1)
    assert abs(np.log(ratio).mean()) < 4 * 0.08


def test_weights_are_copies_and_files_have_the_corrected_covariance(global_random_seed, tmp_path):
    X, y = table(global_random_seed, 80)
    weight = np.arange(80) % 3
    options = {"likelihood": AsymmetricLaplace(0.7), "tol": 1e-8}
    weighted = BayesianGLMRegressor(**options).fit(X, y, sample_weight=weight)
    copies = BayesianGLMRegressor(**options).fit(X.loc[X.index.repeat(weight)], y[y.index.repeat(weight)])
    np.testing.assert_allclose(weighted.coef_std_, copies.coef_std_, rtol=1e-3)
    weighted.save(tmp_path / "fit.sksvi")
    pd.testing.assert_frame_equal(sksvi.load(tmp_path / "fit.sksvi").summary(), weighted.summary())
    again = BayesianGLMRegressor(**options, warm_start=True).fit(X, y)
    np.testing.assert_allclose(again.fit(X, y).coef_std_, again.coef_std_, rtol=1e-2)


@pytest.fixture(scope="module")
def rows():
    """A table with levels of ten rows, and a target far from zero in a large unit."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"x": rng.uniform(-1.0, 1.0, 120), "site": np.repeat([f"site {k}" for k in range(12)], 10)})
    effect = np.repeat(rng.standard_normal(12), 10)
    return X, 5e3 + 1e3 * (X["x"] + effect + rng.standard_normal(120))


FITS = {
    "mixed": lambda likelihood: GMERegressor(likelihood=likelihood, groups="site", tol=1e-8),
    "process": lambda likelihood: SparseGPRegressor(likelihood=likelihood, n_inducing=15, random_state=0),
    "series": lambda likelihood: DynamicGLM(likelihood=likelihood, level_variance=0.1),
}


@pytest.fixture(scope="module", params=FITS)
def fit(request, rows):
    """A fit, its estimator before, and its rows."""
    X, y = rows
    X = {"mixed": X, "process": X[["x"]], "series": None}[request.param]
    estimator = FITS[request.param](AsymmetricLaplace(0.75))
    return estimator.fit(X, y), X, y


def test_the_scale_is_where_scores_vary_as_they_fall(fit):
    model, X, y = fit
    quantile, std = model.predict(X, return_std=True)
    mean, variance = model.predict_latent(X)
    np.testing.assert_allclose(quantile, mean)
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-3)
    assert abs(np.mean(y < quantile) - 0.75) < 4 * np.sqrt(0.75 * 0.25 / len(y))
    scale = model.likelihood_.calibrated_scale(y.to_numpy(), mean, np.ones(len(y)))
    assert abs(np.log(scale / model.likelihood_.scale)) < 0.1  # pilots have hyperparameters at points
    low, high = model.predict_interval(X).T
    np.testing.assert_allclose([low, high], quantile + np.outer([-1.0, 1.0], 1.644854 * std), rtol=1e-6)


def test_it_is_saved_and_a_warm_fit_goes_on_with_it(fit, tmp_path):
    model, X, y = fit
    model.save(tmp_path / "fit.sksvi")
    again = sksvi.load(tmp_path / "fit.sksvi").set_params(warm_start=True).fit(X, y)
    assert again.likelihood_.scale == model.likelihood_.scale
    assert np.all(np.abs(again.predict(X) - model.predict(X)) < 0.3 * model.predict(X, return_std=True)[1])


@pytest.mark.costly
def test_weights_are_copies_for_the_scale_too(rows):
    X, y = rows
    weight = np.arange(len(y)) % 3
    weighted = FITS["mixed"](AsymmetricLaplace(0.6)).fit(X, y, sample_weight=weight)
    copies = FITS["mixed"](AsymmetricLaplace(0.6)).fit(X.loc[X.index.repeat(weight)], y[y.index.repeat(weight)])
    assert weighted.likelihood_.scale == pytest.approx(copies.likelihood_.scale, rel=1e-6)
    np.testing.assert_allclose(weighted.coef_std_, copies.coef_std_, rtol=1e-3)


def test_a_forecast_of_a_quantile_is_it_and_its_interval():
    index = pd.date_range("2020-01-01", periods=60)
    y = pd.Series(100.0 + np.sin(np.arange(60.0) ** 2), index=index).drop(index[20])
    y.iloc[5] = np.nan
    with pytest.warns(UserWarning, match="leaves out 1 of the 60 times") as told:
        model = DynamicGLM(likelihood=AsymmetricLaplace(0.9)).fit(None, y)
    assert len(told) == 1
    table, (mean, std) = model.forecast(2), model.forecast_latent(2)[["mean", "std"]].to_numpy().T
    np.testing.assert_allclose(table[["mean", "median"]], np.column_stack([mean, mean]))
    np.testing.assert_allclose(table["upper"], mean + 1.644854 * std, rtol=1e-6)


def test_learned_steps_of_a_quantile_are_warned_of(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y = np.cumsum(rng.standard_normal(60)) + rng.normal(0.0, 3.0, 60)
    with pytest.warns(UserWarning, match="with learned variances: its steps are found too small"):
        DynamicGLM(likelihood=AsymmetricLaplace(0.5), level="walk").fit(None, y)


def test_a_scale_that_pilots_do_not_settle_on_is_warned_of():
    """Without noise about the walk each pilot follows it more closely, and shortens the scale: in one set of six."""
    y = np.cumsum(np.random.default_rng(0).normal(0.0, 3.0, 60))
    with (
        pytest.warns(UserWarning, match="with learned variances: its steps are found too small"),
        pytest.warns(ConvergenceWarning, match="5 pilot fits have not settled on a scale"),
    ):
        DynamicGLM(likelihood=AsymmetricLaplace(0.5), level="walk").fit(None, y)


def test_densities_of_a_process_are_not_compared(rows):
    X, y = rows
    model = FITS["process"](AsymmetricLaplace(scale=1e3)).set_params(hyperparameters="point").fit(X[["x"]], y)
    with pytest.raises(TypeError, match="mean_pinball_loss"):
        loo(model, X[["x"]], y)


def test_what_does_not_correct_the_covariance_refuses(global_random_seed):
    X, y = table(global_random_seed, 60)
    likelihood = AsymmetricLaplace(0.5)
    X["site"] = np.repeat(["a", "b", "c"], 20)
    numbers = X[["x1", "x2"]]
    with pytest.raises(ValueError, match="leave covariance='full'"):
        BayesianGLMRegressor(likelihood=likelihood, covariance="diag").fit(numbers, y)
    with pytest.raises(ValueError, match="use BayesianGLMRegressor"):
        GeneralizedPMF(likelihood=likelihood).fit(np.array([[0, 1], [1, 1]]), y[:2])
    with pytest.raises(ValueError, match="Set noise=False"):
        GMERegressor(likelihood=likelihood, groups=["site"], noise=True).fit(X, y)
    with pytest.raises(ValueError, match="use fit, without share_variances, or give scale a number"):
        SparseGPRegressor(likelihood=likelihood).partial_fit(numbers, y)
    with pytest.raises(ValueError, match="use fit, without share_variances, or give scale a number"):
        DynamicGLM(likelihood=likelihood, groups="site", share_variances=True).fit(X, y)
    with pytest.raises(ValueError, match="needs all rows for its covariance: use fit"):
        BayesianGLMRegressor(likelihood=likelihood).partial_fit(numbers, y)
    with pytest.raises(TypeError, match="mean_pinball_loss"):
        loo(BayesianGLMRegressor(likelihood=likelihood).fit(numbers, y), numbers, y)
    with pytest.raises(ValueError, match=r"quantile, a number between 0 and 1; found 1\.5"):
        BayesianGLMRegressor(likelihood=AsymmetricLaplace(1.5)).fit(numbers, y)
