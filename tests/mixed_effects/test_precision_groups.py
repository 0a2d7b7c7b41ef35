"""Groups of columns with a precision each beside effects of levels, against dense Gaussian algebra."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import sksvi
from sksvi import BayesianGLMRegressor, GMEClassifier, GMERegressor
from sksvi.likelihoods import Gaussian
from sksvi.preprocessing import SmoothTransformer

NOISE, WIDE = 0.25, 100.0
KEYS = {"x_s*": "auto", "x_linear": 0.5, "dose": 1.0}


def rows(seed, n=160, levels=12):
    """Bends of x, which f needs, a dose that is one number in each site, and sites."""
    rng = np.random.default_rng(seed)
    X = SmoothTransformer(8).set_output(transform="pandas").fit_transform(pd.DataFrame({"x": rng.random(n)}))
    site = np.arange(n) % levels
    X["dose"], X["site"] = rng.standard_normal(levels)[site], np.array([f"s{k}" for k in site])
    f = np.sin(12.0 * X["x_linear"]) + 0.7 * rng.standard_normal(levels)[site]
    return X, (f + np.sqrt(NOISE) * rng.standard_normal(n)).to_numpy()


@pytest.fixture(scope="module")
def fitted():
    X, y = rows(0)
    likelihood = Gaussian(variance=NOISE)
    options = {"groups": "site", "likelihood": likelihood, "intercept_precision": 1 / WIDE, "tol": 1e-10}
    return X, y, GMERegressor(prior_precision=KEYS, **options).fit(X, y)


def dense(X):
    """Bends, then what has a given variance, with these, then indicators of levels."""
    bends = X.filter(like="x_s").to_numpy()
    given = np.column_stack([X["x_linear"], X["dose"], np.ones(len(X))])
    return bends, given, np.array([2.0, 1.0, WIDE]), pd.get_dummies(X["site"]).to_numpy(float)


@pytest.mark.costly
def test_posterior_of_scales_is_that_of_a_grid(fitted):
    """By the dense covariance of y; √(τ² Σ var / u²) is half-Cauchy(1), s half-Student-t(3) of scale 2.5 u."""
    X, y, model = fitted
    bends, given, variances, levels = dense(X)
    unit = np.std(y)
    log_tau, log_s = np.linspace(-4.0, 2.0, 49), np.linspace(-3.0, 1.5, 37)
    fixed = given * variances @ given.T + NOISE * np.eye(len(y))
    log_p = np.empty((len(log_tau), len(log_s)))
    for i, a in enumerate(np.exp(2 * log_tau)):
        for j, b in enumerate(np.exp(2 * log_s)):
            root = np.linalg.cholesky(fixed + a * bends @ bends.T + b * levels @ levels.T)
            log_p[i, j] = -0.5 * np.sum(np.square(np.linalg.solve(root, y))) - np.sum(np.log(np.diag(root)))
    W = np.exp(2 * log_tau) * bends.var(0).sum() / unit**2
    square = np.exp(2 * log_s) / (2.5 * unit) ** 2
    log_p += (0.5 * np.log(W) - np.log1p(W))[:, None] + log_s - 2 * np.log1p(square / 3)
    p = np.exp(log_p - logsumexp(log_p))
    nodes = model.hyperparameter_posterior_
    for name, grid, share in (("scale(x_s*)", log_tau, p.sum(1)), ("std(site, intercept)", log_s, p.sum(0))):
        mean = share @ grid
        std = np.sqrt(share @ np.square(grid - mean))
        found = nodes["weight"] @ np.log(nodes[name])
        assert abs(found - mean) < 0.2 * std, name
        spread = np.sqrt(nodes["weight"] @ np.square(np.log(nodes[name]) - found))
        assert 0.8 * std < spread < 1.1 * std, name


def test_weights_are_those_of_dense_algebra(fitted):
    X, y, model = fitted
    bends, given, variances, levels = dense(X)
    model = GMERegressor(**{**model.get_params(deep=False), "hyperparameters": "point"}).fit(X, y)
    tau2, s = 1.0 / model.prior_precision_[1], model.group_std_["mean"].iloc[0]
    np.testing.assert_allclose(model.prior_precision_[[0, -1]], [0.5, 1.0], rtol=1e-10)
    A = np.column_stack([bends, given, levels])
    prior = np.concatenate([np.full(bends.shape[1], tau2), variances, np.full(levels.shape[1], s**2)])
    cov = np.linalg.inv(A.T @ A / NOISE + np.diag(1 / prior))
    mean, k = cov @ A.T @ y / NOISE, bends.shape[1]
    np.testing.assert_allclose(model.coef_, [mean[k], *mean[:k], mean[k + 1]], atol=1e-5)
    np.testing.assert_allclose(model.intercept_, mean[k + 2], atol=1e-5)
    std = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(model.coef_std_, [std[k], *std[:k], std[k + 1]], rtol=1e-5)
    effects = model.group_effects_.loc["site"].loc[sorted(X["site"].unique())]
    np.testing.assert_allclose(effects["mean"], mean[k + 3 :], atol=1e-5)
    np.testing.assert_allclose(effects["std"], std[k + 3 :], rtol=1e-5)


def test_without_a_key_columns_are_as_under_auto():
    """Those that levels fix too, which have a scale of their own."""
    X, y = rows(1)
    mine = GMERegressor(groups="site", prior_precision={}).fit(X, y)
    auto = GMERegressor(groups="site").fit(X, y)
    np.testing.assert_array_equal(mine.coef_, auto.coef_)
    np.testing.assert_array_equal(mine.predict(X), auto.predict(X))
    assert [*mine.hyperparameter_posterior_][2:4] == ["scale(*)", "scale(*, site)"]
    split = GMERegressor(groups="site", prior_precision={"x_s*": "auto"}).fit(X, y)
    assert [*split.hyperparameter_posterior_][2:5] == ["scale(x_s*)", "scale(*)", "scale(*, site)"]
    assert len(np.unique(split.prior_precision_[1:-1].round(10))) == 1


def test_files_streams_and_labels_have_groups(global_random_seed, tmp_path):
    X, y = rows(global_random_seed)
    model = GMERegressor(groups="site", prior_precision={"x_s*": "auto"}).fit(X, y)
    model.save(tmp_path / "model.sksvi")
    loaded = sksvi.load(tmp_path / "model.sksvi")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    stream = GMERegressor(groups="site", prior_precision={"x_s*": "auto"}).partial_fit(X[:80], y[:80])
    stream.partial_fit(X[80:], y[80:])
    assert np.corrcoef(stream.predict(X), model.predict(X))[0, 1] > 0.95
    labels = GMEClassifier(groups="site", prior_precision={"x_s*": "auto", 0: "auto"}).fit(X, y > 0)
    assert {"scale(x_s*)", "scale(0)"} < set(labels.hyperparameter_posterior_)


def test_keys_are_of_columns_that_have_coefficients():
    X, y = rows(1)
    X = X[["site", *X.columns[:-1]]]  # so that positions of X and of coefficients differ
    by_position = GMERegressor(groups="site", prior_precision={1: 2.0, "*": 3.0}).fit(X, y)
    np.testing.assert_allclose(by_position.prior_precision_[:2], [2.0, 3.0], rtol=1e-10)
    for key in ("site", 0):
        with pytest.raises(ValueError, match=f"key {key!r} has no column of X, which has \\['x_linear'"):
            GMERegressor(groups="site", prior_precision={key: "auto"}).fit(X, y)
    plain = GMERegressor(prior_precision=KEYS).fit(X.drop(columns="site"), y)
    linear = BayesianGLMRegressor(prior_precision=KEYS).fit(X.drop(columns="site"), y)
    np.testing.assert_allclose(plain.coef_, linear.coef_, rtol=1e-2, atol=1e-3)
