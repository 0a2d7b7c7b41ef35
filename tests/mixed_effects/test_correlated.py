"""Correlated intercepts and slopes: tables, what is found of a known truth, streams, files, what changes for whom."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import sksvi
from sksvi import GMEClassifier, GMERegressor
from sksvi.models.mixed.covariances import GROUP_PRIOR_SCALE

LEVELS, ROWS = 40, 8
COVARIANCE = np.array([[1.0, -0.5], [-0.5, 0.64]])
NAME = "cor(site, intercept, x)"


@pytest.fixture(scope="module")
def table(global_random_seed):
    """Rows of 40 sites whose intercepts and slopes have a correlation of -0.625; f without noise."""
    rng = np.random.default_rng([global_random_seed, 83])
    site, x = np.repeat(np.arange(LEVELS), ROWS), rng.standard_normal(LEVELS * ROWS)
    effects = rng.multivariate_normal(np.zeros(2), COVARIANCE, LEVELS)
    X = pd.DataFrame({"x": x, "site": pd.Categorical([f"s{i:02d}" for i in site])})
    f = 0.5 + 0.3 * x + effects[site, 0] + effects[site, 1] * x
    return X, f, f + 0.7 * rng.standard_normal(len(f)), rng.random(len(f)) < 1.0 / (1.0 + np.exp(-f))


@pytest.fixture(scope="module")
def fit(table):
    X, _, y, _ = table
    return GMERegressor(groups="site", random_slopes="x").fit(X, y)


def test_a_known_covariance_is_found(table, fit):
    X, _, _, label = table
    for model in (fit, GMEClassifier(groups="site", random_slopes="x").fit(X, label)):
        rows = model.summary().loc[["std(site, intercept)", "std(site, x)", NAME]]
        on = np.append(np.log(rows["mean"].iloc[:2]), np.arctanh(rows["mean"].iloc[2]))
        spread = np.append(
            rows["std"].iloc[:2] / rows["mean"].iloc[:2], rows["std"].iloc[2] / (1 - rows["mean"].iloc[2] ** 2)
        )
        truth = np.array([0.0, np.log(0.8), np.arctanh(-0.625)])
        assert np.all(np.abs(on - truth) < 4.0 * spread)
        assert np.all((rows["lower"] < rows["mean"]) & (rows["mean"] < rows["upper"]))


def test_tables_have_the_names_of_users(fit):
    covariance, std = fit.group_covariance_, fit.group_std_
    assert covariance.index.names == ["group", "effect"] and list(covariance.columns) == ["intercept", "x"]
    assert list(covariance.index) == [("site", "intercept"), ("site", "x")] == list(std.index)
    np.testing.assert_allclose(covariance, covariance.T.to_numpy())
    square = np.square(std["mean"]) + np.square(std["std"])
    np.testing.assert_allclose(np.diagonal(covariance), square, rtol=1e-8)
    nodes = fit.hyperparameter_posterior_
    mixed = nodes["weight"] @ (nodes["std(site, intercept)"] * nodes["std(site, x)"] * nodes[NAME])
    np.testing.assert_allclose(covariance.loc[("site", "x"), "intercept"], mixed, rtol=2e-2)
    np.testing.assert_allclose(fit.summary().loc[NAME, "mean"], nodes["weight"] @ nodes[NAME])


@pytest.mark.costly
def test_the_mode_is_that_of_the_marginal_likelihood(table):
    """Of Gaussian noise the best covariance and noise are those of dense algebra, under the priors stated."""
    X, _, y, _ = table
    settings = {"prior_precision": 4.0, "intercept_precision": 0.25, "hyperparameters": "point", "tol": 1e-10}
    X, y = X[:120], y[:120] - y[:120].mean()
    X = X.assign(site=X["site"].cat.remove_unused_categories())
    model = GMERegressor(groups="site", random_slopes="x", **settings).fit(X, y)
    spread, unit = model._encoding.slope_scales[0][1], model._encoding.prior.unit
    Z = np.column_stack([np.ones(120), X["x"]])
    same = X["site"].to_numpy()[:, None] == X["site"].to_numpy()[None, :]
    fixed = np.outer(X["x"], X["x"]) / 4.0

    def negative(values):
        log_s, z, log_noise = values[:2], values[2], values[3]
        s, rho = np.exp(log_s) / [1.0, spread], np.tanh(z)
        effects = np.array([[s[0] ** 2, rho * s[0] * s[1]], [rho * s[0] * s[1], s[1] ** 2]])
        total = fixed + 4.0 + same * (Z @ effects @ Z.T) + np.exp(log_noise) * np.eye(120)
        ratio = np.exp(2.0 * log_s) / (GROUP_PRIOR_SCALE * unit) ** 2
        prior = np.sum(log_s - 2.0 * np.log1p(ratio / 3.0)) - 4.0 * np.log(np.cosh(z))
        return -(multivariate_normal(np.zeros(120), total).logpdf(y) + prior)

    start = np.array([0.0, np.log(0.8), -0.6, np.log(0.5)])
    best = minimize(negative, start, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-9, "maxiter": 4000}).x
    found = model.group_std_["mean"].to_numpy()
    np.testing.assert_allclose(found, np.exp(best[:2]) / [1.0, spread], rtol=2e-3)
    np.testing.assert_allclose(model.summary().loc[NAME, "mean"], np.tanh(best[2]), atol=2e-3)
    np.testing.assert_allclose(model.noise_, np.exp(best[3]), rtol=2e-3)


def test_independent_slopes_and_single_intercepts_are_as_before(table, fit):
    X, _, y, _ = table
    independent = GMERegressor(groups="site", random_slopes="x", correlated=False).fit(X, y)
    assert NAME not in independent.summary().index and NAME in fit.summary().index
    assert independent.group_covariance_.loc[("site", "x"), "intercept"] == 0.0
    assert fit.lower_bound_ > independent.lower_bound_ + 1.0
    one, other = (GMERegressor(groups="site", correlated=own).fit(X, y) for own in (True, False))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    pd.testing.assert_frame_equal(one.summary(), other.summary())


def test_new_levels_have_the_covariance(table, fit):
    """Far from zero the latents of a new level vary with the slope: more on one side, as effects are correlated."""
    rows = pd.DataFrame({"x": [-2.0, 2.0], "site": ["new", "new"]})
    Z = np.column_stack([np.ones(2), rows["x"]])
    own = np.einsum("ij,jk,ik->i", Z, fit.group_covariance_.to_numpy(), Z)
    fixed = fit.posterior_["weights"]
    A = np.column_stack([rows["x"], np.ones(2)])
    known = np.einsum("ij,jk,ik->i", A, fixed.cov, A)
    np.testing.assert_allclose(
        fit.predict_latent(rows)[1], own + known, rtol=0.05
    )  # tables have what is within nodes too
    assert own[0] > own[1]


def test_a_stream_says_what_a_fit_does(table, fit, global_random_seed):
    X, _, y, _ = table
    order = np.random.default_rng(global_random_seed).permutation(len(y))
    stream = GMERegressor(groups="site", random_slopes="x")
    for part in np.array_split(order, 3):
        stream.partial_fit(X.iloc[part], y[part])
    np.testing.assert_allclose(stream.group_covariance_, fit.group_covariance_, rtol=0.05, atol=0.01)
    with pytest.raises(ValueError, match="correlated was True"):
        stream.set_params(correlated=False).partial_fit(X[:5], y[:5])


@pytest.mark.parametrize("settings", [{"algorithm": "h-mc-ssvi"}, {"algorithm": "s-dsvi"}, {"algorithm": "cvi"}])
def test_every_algorithm_finds_it(settings, table, fit):
    X, _, y, _ = table
    other = GMERegressor(groups="site", random_slopes="x", random_state=0, **settings).fit(X, y)
    np.testing.assert_allclose(other.summary().loc[NAME, "mean"], fit.summary().loc[NAME, "mean"], atol=0.03)


def test_files_have_the_covariance(fit, table, tmp_path):
    fit.save(tmp_path / "fit.sksvi")
    again = sksvi.load(tmp_path / "fit.sksvi")
    pd.testing.assert_frame_equal(again.group_covariance_, fit.group_covariance_)
    pd.testing.assert_frame_equal(again.summary(), fit.summary())
    np.testing.assert_array_equal(again.predict(table[0]), fit.predict(table[0]))


@pytest.mark.parametrize("settings", [{}, {"covariance": "diag"}, {"likelihood": "poisson"}])
@pytest.mark.parametrize("by", [6.0, -2000.0])
def test_how_far_zero_is_changes_no_line(by, settings, table, tmp_path):
    """Far from zero a column has the lines of levels, known and new, that it has about its mean."""
    X, f, y, _ = table
    y = np.round(np.exp(f)) if settings.get("likelihood") else y
    X = X.assign(x=X["x"] - X["x"].mean())
    fit = GMERegressor(groups="site", random_slopes="x", **settings).fit(X, y)
    there = X.assign(x=X["x"] + by)
    moved = GMERegressor(groups="site", random_slopes="x", **settings).fit(there, y)
    shift = np.array([[1.0, -by], [0.0, 1.0]])
    one, other = (model.group_effects_["mean"].unstack("effect") for model in (fit, moved))
    np.testing.assert_allclose(other, one @ shift.T, rtol=1e-4, atol=1e-4)
    for table_of in (lambda model: model.group_effects_["std"].xs("x", level="effect"), rows_of_slopes):
        np.testing.assert_allclose(table_of(moved), table_of(fit), rtol=1e-4)
    expected = shift @ fit.group_covariance_.to_numpy() @ shift.T
    np.testing.assert_allclose(moved.group_covariance_, expected, rtol=0.02)
    drawn = moved.posterior_["groups"].sample(4000, 0)
    np.testing.assert_allclose(drawn.std(0), moved.posterior_["groups"].std, rtol=0.1)
    new = [rows.assign(site="new") for rows in (X[:5], there[:5])]
    moved.save(tmp_path / "moved.sksvi")
    again = sksvi.load(tmp_path / "moved.sksvi")
    for before, after in ((X, there), new):
        for a, b in zip(fit.predict_latent(before), again.predict_latent(after), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)
    assert -np.sign(by) * moved.summary().loc[NAME, "mean"] > 0.8


def rows_of_slopes(model):
    return model.summary().loc[["x", "std(site, x)"], ["mean", "std", "lower", "upper"]]


def test_many_effects_are_refused_by_name(table):
    X, _, y, _ = table
    wide = X.assign(**{f"c{j}": X["x"] for j in range(12)})
    slopes = [f"c{j}" for j in range(12)]
    with pytest.raises(ValueError, match=r"'site' has 13 effects.*correlated=False"):
        GMERegressor(groups="site", random_slopes=slopes).fit(wide, y)
