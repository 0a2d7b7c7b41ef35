"""Units: what a column or a measured target is measured in, and from where, changes no prediction and no bound."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer as load_cancer
from sklearn.datasets import load_diabetes, load_iris, load_linnerud, load_wine
from sklearn.linear_model import BayesianRidge

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    GeneralizedPMF,
    GMEClassifier,
    GMERegressor,
    SparseGPRegressor,
)

N = 120
#: Another unit and origin for each of the measured columns of `table`, none for the column of two values.
UNITS, ORIGINS = np.array([1000.0, 1.0, 0.01, 1.0]), np.array([0.0, 1e6, -30.0, 0.0])


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 14])


def table(rng, n=N):
    """Columns of different spreads, the last of two values."""
    return np.column_stack([rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2], rng.integers(0, 2, n)])


def latent(X):
    return 0.8 * X[:, 0] - 0.1 * X[:, 1] + X[:, 2] + 0.5 * X[:, 3]


def target(likelihood, X, rng):
    f = latent(X)
    if likelihood in ("gaussian", "student-t"):
        return f + 0.5 * rng.standard_normal(len(X))
    if likelihood in ("logit", "probit"):
        return (f + rng.logistic(size=len(X)) > 0).astype(int)
    if likelihood == "softmax":
        return np.digitize(f + rng.logistic(size=len(X)), [-0.7, 0.7])
    if likelihood == "ordinal":
        return np.digitize(f + rng.logistic(size=len(X)), [-0.7, 0.7]) * 1.0
    if likelihood == "binomial":
        wins = rng.binomial(5, 1 / (1 + np.exp(-f)))
        return np.column_stack([wins, 5 - wins])
    return rng.poisson(np.exp(f)) * 1.0


def framed(X, rng):
    return pd.DataFrame(X, columns=list("abcd")).assign(group=rng.integers(0, 8, len(X)).astype(str))


LINEAR = {
    "gaussian": BayesianGLMRegressor(),
    "student-t": BayesianGLMRegressor(likelihood="student-t"),
    "poisson": BayesianGLMRegressor(likelihood="poisson"),
    "negative-binomial": BayesianGLMRegressor(likelihood="negative-binomial"),
    "binomial": BayesianGLMRegressor(likelihood="binomial"),
    "ordinal": BayesianGLMRegressor(likelihood="ordinal"),
    "logit": BayesianGLMClassifier(),
    "probit": BayesianGLMClassifier(likelihood="probit"),
    "softmax": BayesianGLMClassifier(),
}
SETTINGS = [
    {},
    {"prior_precision": "flat"},
    {"covariance": "diag"},
    {"algorithm": "mc-ssvi"},
    {"algorithm": "fp"},
    {"algorithm": "s-dsvi", "random_state": 0, "max_iter": 5, "tol": 0.0},
    {"algorithm": "mc-ssvi", "batch_size": 20, "random_state": 0, "max_iter": 5, "tol": 0.0},
]


def same(one, other, X, Z, atol):
    """Predictions and bound of two fits to the same data in different units."""
    means, others = one.predict_latent(X), other.predict_latent(Z)
    for mine, theirs in zip(means, others, strict=True):
        np.testing.assert_allclose(theirs, mine, rtol=1e-5, atol=atol)
    assert other.lower_bound_ == pytest.approx(one.lower_bound_, rel=1e-7, abs=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("name", LINEAR)
def test_units_and_origins_of_columns(name, settings, rng):
    if name == "gaussian" and settings.get("algorithm") == "s-dsvi":
        pytest.skip("AdaGrad makes a first step of the intercept's gradient, which is rounding: it starts at its best")
    if name == "softmax" and settings.get("prior_precision") == "flat":
        pytest.skip("a shift common to all classes is not determined")
    X = table(rng)
    y, Z = target(name, X, rng), X * UNITS + ORIGINS
    model = clone(LINEAR[name]).set_params(**settings)
    one, other = clone(model).fit(X, y), clone(model).fit(Z, y)
    same(one, other, X, Z, 1e-5)
    np.testing.assert_allclose(other.coef_ * UNITS, one.coef_, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(other.coef_std_ * UNITS, one.coef_std_, rtol=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "logit"])
def test_units_of_columns_in_streams_and_sparse(name, rng):
    X = np.where(rng.random((N, 4)) < 0.4, table(rng), 0.0)
    y, Z = target(name, X, rng), X * UNITS
    first = {"classes": [0, 1]} if name == "logit" else {}
    for of in (np.asarray, sp.csr_array):
        one, other = clone(LINEAR[name]), clone(LINEAR[name])
        for a in range(0, N, 40):
            rows = slice(a, a + 40)
            one.partial_fit(of(X[rows]), y[rows], **first)
            other.partial_fit(of(Z[rows]), y[rows], **first)
        same(one, other, X, Z, 1e-6)
        one, other = clone(one).fit(of(X), y), clone(other).fit(of(Z), y)
        same(one, other, of(X), of(Z), 1e-6)


@pytest.mark.costly
@pytest.mark.parametrize("name", ["gaussian", "student-t", "poisson", "logit"])
def test_units_of_columns_of_mixed_models(name, rng):
    X = table(rng)
    y = target(name, X, rng)
    classes = {"groups": "group", "random_slopes": ["a", "c"]}
    model = GMEClassifier(**classes) if name == "logit" else GMERegressor(likelihood=name, noise=False, **classes)
    X, Z = framed(X, np.random.default_rng(1)), framed(X * UNITS, np.random.default_rng(1))
    one, other = clone(model).fit(X, y), clone(model).fit(Z, y)
    same(one, other, X, Z, 1e-6)
    unit = np.array([1.0, UNITS[0], UNITS[2]])
    np.testing.assert_allclose(other.group_std_["mean"] * unit, one.group_std_["mean"], rtol=1e-5)
    units = np.tile(unit, 8)
    np.testing.assert_allclose(other.group_effects_["mean"] * units, one.group_effects_["mean"], rtol=1e-5, atol=1e-7)


def test_the_first_chunk_in_which_a_column_varies_fixes_its_scale(rng):
    X = table(rng, 200)
    X[:100, 2] = 0.3  # says nothing so far
    y = target("gaussian", X, rng)
    streams = []
    for unit in (1.0, 1e4):
        model = BayesianGLMRegressor(intercept_precision="auto")
        for rows in (slice(0, 100), slice(100, 200)):
            model.partial_fit(X[rows] * [1, 1, unit, 1], y[rows])
        streams.append(model)
    same(*streams, X, X * [1, 1, 1e4, 1], 1e-8)
    assert streams[0].coef_std_[2] < 0.5 * streams[0].prior_precision_[2] ** -0.5


MEASURED = {
    "BayesianGLMRegressor": BayesianGLMRegressor(),
    "Student-t": BayesianGLMRegressor(likelihood="student-t"),
    "ard": BayesianGLMRegressor(prior_precision="ard", tol=1e-8),
    "diag": BayesianGLMRegressor(covariance="diag"),
    "Student-t, diag": BayesianGLMRegressor(likelihood="student-t", covariance="diag"),
    "flat": BayesianGLMRegressor(prior_precision="flat"),
    "GMERegressor": GMERegressor(),
    "GMERegressor, groups": GMERegressor(groups="group"),
    "GMERegressor, Student-t": GMERegressor(likelihood="student-t", groups="group"),
    "SparseGPRegressor": SparseGPRegressor(n_inducing=10, random_state=0),
    "SparseGPRegressor, Student-t": SparseGPRegressor(n_inducing=10, likelihood="student-t", random_state=0),
    "SparseGPRegressor, optimal": SparseGPRegressor(n_inducing=10, bound="optimal", random_state=0),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", MEASURED)
def test_unit_and_origin_of_a_measured_target(name, rng):
    X = table(rng)
    y = target("gaussian", X, rng)
    model, sd = MEASURED[name], float(np.std(y))
    grouped = getattr(model, "groups", None) is not None
    frames = [framed(A, np.random.default_rng(1)) if grouped else A for A in (X, X + ORIGINS[[0, 2, 0, 2]])]
    one = clone(model).fit(frames[0], y)
    other = clone(model).fit(frames[1], 50_000 + 10_000 * y)
    np.testing.assert_allclose(
        (other.predict(frames[1]) - 50_000) / 1e4, one.predict(frames[0]), rtol=0, atol=1e-6 * sd
    )
    std, other_std = one.predict(frames[0], return_std=True)[1], other.predict(frames[1], return_std=True)[1]
    np.testing.assert_allclose(other_std / 1e4, std, rtol=1e-5)
    assert other.lower_bound_ + N * np.log(1e4) == pytest.approx(one.lower_bound_, abs=1e-4)
    assert other.converged_ == one.converged_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_unit_and_origin_of_ratings(rng):
    """Pass by pass, so that it does not matter how long a factor that the ratings do not have takes to vanish."""
    users, items = rng.integers(0, 20, 300), rng.integers(0, 15, 300)
    pairs = pd.DataFrame({"user": users, "item": items})
    y = rng.normal(size=20)[users] + rng.normal(size=15)[items] + 0.3 * rng.normal(size=300)
    one = GeneralizedPMF(n_components=2, max_iter=30, tol=0.0, random_state=0)
    other = clone(one).fit(pairs, 50_000 + 10_000 * y)
    one.fit(pairs, y)
    assert one.n_iter_ == other.n_iter_ == 30
    np.testing.assert_allclose((other.predict(pairs) - 50_000) / 1e4, one.predict(pairs), rtol=0, atol=1e-6 * y.std())


@pytest.mark.parametrize("origin", [1e4, 1e8])
@pytest.mark.parametrize("name", ["gaussian", "student-t", "poisson", "logit"])
def test_a_column_far_from_zero_keeps_its_effect(name, origin, rng):
    X = table(rng)
    y = target(name, X, rng)
    Z = X + np.array([origin, 0, 0, 0])
    one, other = clone(LINEAR[name]).fit(X, y), clone(LINEAR[name]).fit(Z, y)
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(other.predict_latent(Z), one.predict_latent(X), rtol=1e-4, atol=1e-5)
    # In the user's units: at zero of all columns, far from the data.
    at_zero = one.intercept_ - origin * np.atleast_2d(one.coef_)[:, 0]
    np.testing.assert_allclose(np.ravel(other.intercept_), np.ravel(at_zero), rtol=1e-4)


@pytest.mark.costly
def test_a_large_target_at_the_defaults(rng):
    X = rng.normal(size=(300, 3))
    y = 50_000 + 10_000 * (X[:, 0] + 0.5 * rng.normal(size=300))
    for model in MEASURED.values():
        if getattr(model, "groups", None) is None:
            assert clone(model).fit(X, y).score(X, y) > 0.6


def test_posterior_in_the_users_units(rng):
    X = table(rng) * UNITS + [5.0, 1e3, 0.0, 0.0]
    y = target("gaussian", table(rng), rng)
    model = BayesianGLMRegressor().fit(X, y)
    weights = model.posterior_["weights"]
    A = np.column_stack([X, np.ones(N)])
    mean, variance = model.predict_latent(X)
    np.testing.assert_allclose(A @ weights.mean, mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(np.einsum("ij,jk,ik->i", A, weights.cov, A), variance, rtol=1e-6)
    np.testing.assert_allclose(np.diagonal(weights.cov), weights.variance, rtol=1e-8)
    np.testing.assert_allclose(weights.spread(A), variance, rtol=1e-6)
    np.testing.assert_array_equal(weights.mean[:-1], model.coef_)
    draws = weights.sample(4000, random_state=0)
    error = (draws.mean(0) - weights.mean) / (weights.std / np.sqrt(4000))
    assert np.abs(error).max() < 4.5


def test_a_fixed_prior_is_for_columns_as_given(rng):
    """Its posterior is the closed form, wherever the fit works."""
    X = table(rng) + np.array([0, 0, 0, 3.0])
    y = target("gaussian", X, rng)
    from sksvi.likelihoods import Gaussian

    model = BayesianGLMRegressor(likelihood=Gaussian(variance=0.25), prior_precision=2.0, intercept_precision=0.1)
    model.fit(X, y)
    A = np.column_stack([X, np.ones(N)])
    precision = np.diag([2.0, 2.0, 2.0, 2.0, 0.1]) + A.T @ A / 0.25
    weights = model.posterior_["weights"]
    np.testing.assert_allclose(weights.mean, np.linalg.solve(precision, A.T @ y / 0.25), rtol=1e-8)
    np.testing.assert_allclose(weights.cov, np.linalg.inv(precision), rtol=1e-6, atol=1e-12)
    assert model.prior_precision_ == 2.0


def test_a_fixed_prior_for_uneven_columns_is_questioned(rng):
    X = pd.DataFrame(table(rng) * [1, 1, 1e-3, 1], columns=["w", "x", "y", "z"])
    y = target("gaussian", X.to_numpy(), rng)
    with pytest.warns(UserWarning, match="column 'x' spreads over .*, column 'y' over") as caught:
        BayesianGLMRegressor(prior_precision=1.0).fit(X, y)
    assert len(caught) == 1
    BayesianGLMRegressor(prior_precision=[1.0, 1.0, 1e6, 1.0]).fit(X, y)
    with pytest.warns(UserWarning, match=r"column '[wxz]' spreads over .*, column 'y' over"):  # few rows
        BayesianGLMRegressor(prior_precision=1.0).fit(X[:3], y[:3])


@pytest.mark.costly
@pytest.mark.parametrize("prior", ["flat", 0, 0.0])
def test_flat_priors_that_the_data_do_not_make_proper(prior, rng):
    X = pd.DataFrame(table(rng), columns=["w", "x", "y", "z"])
    y = target("gaussian", X.to_numpy(), rng)
    model = BayesianGLMRegressor(prior_precision=prior)
    with pytest.raises(ValueError, match=r"do not determine the coefficient of column '(x|twice)'"):
        model.fit(X.assign(twice=2 * X["x"]), y)
    assert not hasattr(model, "coef_")
    with pytest.raises(ValueError, match="do not determine"):
        BayesianGLMClassifier(prior_precision=prior).fit(X, X["w"] > 0)
    with pytest.raises(ValueError, match="more columns than rows"):
        model.fit(X[:3], y[:3])
    labels = np.digitize(X["w"], np.quantile(X["w"], [0.3, 0.6]))
    with pytest.raises(ValueError, match=r"do not determine the coefficient of .*: drop columns"):
        BayesianGLMClassifier(prior_precision=prior).fit(X, labels)
    with pytest.raises(ValueError, match=r"do not determine the coefficient of column '(x|twice)'"):
        BayesianGLMClassifier(prior_precision=prior).fit(X.assign(twice=2 * X["x"]), rng.integers(0, 3, len(X)))


def raw_tables():
    """Ten measured targets of bundled tables in their own units."""
    from sksvi.datasets import load_bike_sharing

    bikes = load_bike_sharing()
    numeric = bikes.data.drop(columns=list(bikes.categorical_features)).to_numpy(float)[::40]
    yield "diabetes", *load_diabetes(return_X_y=True, scaled=False)
    yield "bike sharing", numeric, bikes.target.to_numpy(float)[::40]
    yield "linnerud", *(lambda X, Y: (X, Y[:, 0]))(*load_linnerud(return_X_y=True))
    for name, load, columns in (
        ("iris", load_iris, (0, 3)),
        ("wine", load_wine, (0, 12)),
        ("cancer", load_cancer, (0, 3, 20)),
    ):
        X = load(return_X_y=True)[0]
        for j in columns:
            yield f"{name}, column {j}", np.delete(X, j, axis=1), X[:, j]


TABLES = {name: (X, y) for name, X, y in raw_tables()}


@pytest.mark.filterwarnings("ignore:noise is larger where column")
@pytest.mark.parametrize("name", TABLES)
def test_matches_bayesian_ridge_on_raw_data(name):
    X, y = TABLES[name]
    train = np.arange(len(y)) % 2 == 0
    for unit, origin in ((1.0, 0.0), (100.0, 50_000.0)):
        target = y * unit + origin
        residuals = [
            target[~train] - model.fit(X[train], target[train]).predict(X[~train])
            for model in (BayesianGLMRegressor(), BayesianRidge())
        ]
        worse = np.square(residuals[0]) - np.square(residuals[1])
        assert worse.mean() < 3 * worse.std() / np.sqrt(len(worse)), name


def test_there_are_ten_tables():
    assert len(TABLES) == 10
