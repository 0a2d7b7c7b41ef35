"""The contract of BayesianGLMClassifier and BayesianGLMRegressor: attributes, methods, inputs, going on from a fit."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from scipy.special import xlogy
from scipy.stats import norm
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.metrics import d2_tweedie_score, r2_score
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import sksvi
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.algorithms import VARIATIONAL as ALGORITHMS
from sksvi.likelihoods import Gaussian, NegativeBinomial, Ordinal
from tests.cases import REGRESSORS

STREAMING = [name for name in ALGORITHMS if name != "fp"]
CONTAINERS = [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.csc_array, sp.coo_array]
N, D = 120, 3


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


@pytest.fixture
def X(rng):
    return rng.standard_normal((N, D))


def target(likelihood, X, rng):
    f = 0.8 * X[:, 0] - 0.5 * X[:, 1] + 0.3
    if likelihood in ("gaussian", "student-t"):
        return f + 0.5 * rng.standard_normal(len(f))
    if likelihood in ("logit", "probit"):
        return (f + rng.logistic(size=len(f)) > 0) * 1.0
    if likelihood == "binomial":
        wins = rng.binomial(7, 1 / (1 + np.exp(-f)))
        return np.column_stack([wins, 7 - wins])
    if likelihood == "ordinal":
        return np.digitize(f + rng.logistic(size=len(f)), [-0.5, 1.0]) * 5.0 - 5.0
    return rng.poisson(np.exp(f))


def labels(X, rng, names=("no", "yes")):
    f = X[:, :1] * np.linspace(-1.5, 1.5, len(names)) + rng.gumbel(size=(len(X), len(names)))
    return np.array(names)[np.argmax(f, axis=1)]


def same(a, b):
    """The same fit to the last bit."""
    return (
        np.array_equal(a.coef_, b.coef_)
        and np.array_equal(a.coef_std_, b.coef_std_)
        and np.array_equal(a.intercept_, b.intercept_)
        and np.array_equal(a.lower_bounds_, b.lower_bounds_)
        and a.lower_bound_ == b.lower_bound_
    )


# ---- attributes


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_attributes_that_every_fit_leaves(algorithm, covariance, X, rng):
    with np.errstate(all="raise", under="ignore"):
        model = BayesianGLMClassifier(algorithm=algorithm, covariance=covariance, prior_precision=1.0, random_state=0)
        model.fit(X, labels(X, rng))
    assert model.coef_.shape == model.coef_std_.shape == (1, D) and model.intercept_.shape == (1,)
    assert list(model.classes_) == ["no", "yes"]
    assert model.prior_precision_ == 1.0 and model.likelihood_.n_latents == 1
    assert model.n_features_in_ == D and not hasattr(model, "feature_names_in_")
    assert isinstance(model.lower_bound_, float) and model.lower_bound_ < 0
    assert model.n_iter_ == len(model.lower_bounds_) and model.n_samples_seen_ == N
    assert model.n_steps_ >= model.n_iter_ >= 1 and model.converged_ is True
    q = model.posterior_["weights"]
    assert q is model.posterior_.weights and list(model.posterior_) == ["weights"]
    assert q.mean.shape == q.std.shape == (D + 1,) and q.cov.shape == (D + 1, D + 1)
    np.testing.assert_allclose(np.sqrt(np.diagonal(q.cov)), q.std)
    np.testing.assert_array_equal(np.append(model.coef_, model.intercept_), q.mean)
    assert q.sample(5, random_state=0).shape == (5, D + 1)
    np.testing.assert_array_equal(q.sample(2, random_state=3), q.sample(2, random_state=3))
    with pytest.raises(TypeError):
        model.posterior_["weights"] = q
    with pytest.raises(AttributeError, match="blocks"):
        _ = model.posterior_.noise


def test_history_has_a_row_per_pass(X, rng):
    model = BayesianGLMRegressor(likelihood="poisson", batch_size=40, random_state=0, max_iter=12, tol=0.0)
    with pytest.warns(ConvergenceWarning, match="max_iter=12") as caught:
        model.fit(X, target("poisson", X, rng))
    assert caught[0].filename == __file__
    history = model.history_
    assert list(history.columns) == ["pass", "step", "rows", "seconds", "bound", "exact", "rate", "repairs"]
    assert list(history["pass"]) == list(range(1, 13)) and list(history["step"]) == list(range(3, 37, 3))
    assert list(history["rows"]) == [N * (i + 1) for i in range(12)]
    np.testing.assert_array_equal(history["bound"], model.lower_bounds_)
    assert history["exact"].dtype == bool and np.all(np.diff(history["seconds"]) >= 0)
    assert not model.converged_


@pytest.mark.parametrize("likelihood", REGRESSORS)
def test_regressor_attributes_and_predictions(likelihood, X, rng):
    y = target(likelihood, X, rng)
    model = BayesianGLMRegressor(likelihood=likelihood, prior_precision=1.0).fit(X, y)
    assert model.coef_.shape == model.coef_std_.shape == (D,) and np.ndim(model.intercept_) == 0
    assert model.likelihood_.scales.noise is None or model.noise_ > 0
    assert (model.noise_ is None) == (model.likelihood_.scales.noise is None)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X))
    assert mean.shape == std.shape == (N,) and np.all(std > 0)
    interval = model.predict_interval(X, coverage=0.8)
    quantiles = model.predict_quantiles(X, [0.1, 0.5, 0.9])
    assert interval.shape == (N, 2) and quantiles.shape == (N, 3)
    np.testing.assert_allclose(interval, quantiles[:, [0, 2]], rtol=1e-8, atol=1e-8)
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    m, v = model.predict_latent(X)
    assert m.shape == v.shape == (N,) and np.all(v > 0)
    density = model.log_predictive_density(X, y)
    assert density.shape == (N,) and np.all(np.isfinite(density))
    for values in (mean, std, interval, quantiles, m, v, density):
        assert np.all(np.isfinite(values)) and values.dtype == np.float64
    assert np.isfinite(model.score(X, y)) and model.score(X, y) > 0


@pytest.mark.parametrize("likelihood", REGRESSORS)
def test_draws_agree_with_mean_and_std(likelihood, X, rng):
    y = target(likelihood, X, rng)
    spec = NegativeBinomial(dispersion=0.3) if likelihood == "negative-binomial" else likelihood
    model = BayesianGLMRegressor(likelihood=spec, prior_precision=1.0).fit(X, y)
    draws = model.sample_y(X[:20], n_samples=4000, random_state=1)
    assert draws.shape == (20, 4000)
    np.testing.assert_array_equal(draws, model.sample_y(X[:20], n_samples=4000, random_state=1))
    mean, std = model.predict(X[:20], return_std=True)
    assert np.all(np.abs(draws.mean(1) - mean) < 4.5 * draws.std(1) / np.sqrt(4000) + 1e-12)
    if likelihood != "student-t":  # its fourth moment need not exist
        centred = (draws - mean[:, None]) ** 2
        assert np.all(np.abs(centred.mean(1) - std**2) < 5 * centred.std(1) / np.sqrt(4000) + 1e-12)


def test_gaussian_predictions_are_the_textbook_ones(X, rng):
    y = target("gaussian", X, rng)
    model = BayesianGLMRegressor(
        likelihood=Gaussian(variance=0.25), prior_precision=2.0, intercept_precision=0.1, tol=1e-12
    ).fit(X, y)
    A = np.column_stack([X, np.ones(N)])
    cov = np.linalg.inv(np.diag([2.0] * D + [0.1]) + A.T @ A / 0.25)
    mean = cov @ A.T @ y / 0.25
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), mean, rtol=1e-9)
    np.testing.assert_allclose(model.posterior_["weights"].cov, cov, rtol=1e-8, atol=1e-14)
    variance = np.einsum("ij,jk,ik->i", A, cov, A) + 0.25
    m, v = model.predict_latent(X)
    np.testing.assert_allclose(m, A @ mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(v, variance - 0.25, rtol=1e-8)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], np.sqrt(variance), rtol=1e-9)
    half = norm.ppf(0.95) * np.sqrt(variance)
    np.testing.assert_allclose(model.predict_interval(X), np.column_stack([m - half, m + half]), rtol=1e-9)
    np.testing.assert_allclose(model.log_predictive_density(X, y), norm.logpdf(y, m, np.sqrt(variance)), rtol=1e-9)
    summary = model.summary(coverage=0.5)
    assert list(summary.columns) == ["mean", "std", "lower", "upper", "direction"]
    assert list(summary.index) == ["x0", "x1", "x2", "intercept"] and summary.index.name == "coefficient"
    np.testing.assert_allclose(summary["upper"], mean + norm.ppf(0.75) * np.sqrt(np.diagonal(cov)), rtol=1e-8)


@pytest.mark.parametrize("prior", ["auto", "ard", 3.0, [1.0, 2.0, 4.0]])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_priors_and_intercept(prior, fit_intercept, X, rng):
    y = target("gaussian", X, rng)
    model = BayesianGLMRegressor(prior_precision=prior, fit_intercept=fit_intercept).fit(X, y)
    assert model.posterior_["weights"].mean.shape == (D + fit_intercept,)
    assert fit_intercept or model.intercept_ == 0.0
    if prior != 3.0:
        assert model.prior_precision_.shape == (D,)
    else:
        assert isinstance(model.prior_precision_, float)
    if not isinstance(prior, str):
        np.testing.assert_array_equal(model.prior_precision_, prior)
    assert len(model.summary()) == D + fit_intercept + 1


def test_scores(X, rng):
    weight = rng.uniform(0.5, 2.0, N)
    y = target("gaussian", X, rng)
    model = BayesianGLMRegressor().fit(X, y)
    assert model.score(X, y, sample_weight=weight) == pytest.approx(
        r2_score(y, model.predict(X), sample_weight=weight), rel=1e-12
    )
    y = target("poisson", X, rng)
    model = BayesianGLMRegressor(likelihood="poisson").fit(X, y)
    expected = d2_tweedie_score(y, model.predict(X), sample_weight=weight, power=1)
    assert model.score(X, y, sample_weight=weight) == pytest.approx(expected, rel=1e-12)
    y = target("binomial", X, rng)
    model = BayesianGLMRegressor(likelihood="binomial").fit(X, y)
    shares = np.stack([model.predict(X), np.full(N, y[:, 0].sum() / y.sum()), y[:, 0] / 7])
    ours, null, best = (xlogy(y[:, 0], shares) + xlogy(y[:, 1], 1 - shares)).sum(axis=1)
    assert model.score(X, y) == pytest.approx(1 - (best - ours) / (best - null), rel=1e-9)
    constant = np.full(N, 3.0)
    assert model.set_params(likelihood="poisson").fit(X, constant).score(X, constant) in (0.0, 1.0)


def test_a_method_without_meaning_is_absent(X, rng):
    assert not hasattr(BayesianGLMRegressor(), "predict_proba")
    assert hasattr(BayesianGLMRegressor(likelihood="ordinal"), "predict_proba")
    assert hasattr(BayesianGLMRegressor(likelihood=Ordinal()), "predict_proba")
    assert not hasattr(BayesianGLMRegressor().fit(X, X[:, 0] + rng.standard_normal(N)), "predict_proba")
    assert not hasattr(BayesianGLMClassifier(), "predict_interval")


@pytest.mark.parametrize("method", ["predict", "predict_interval", "sample_y", "predict_latent"])
def test_not_fitted(method, X):
    with pytest.raises(NotFittedError):
        getattr(BayesianGLMRegressor(), method)(X)
    with pytest.raises(NotFittedError):
        BayesianGLMRegressor().summary()
    with pytest.raises(NotFittedError):
        BayesianGLMRegressor().score(X, X[:, 0])
    assert not hasattr(BayesianGLMRegressor(), "history_")


# ---- labels, levels, successes


def test_binary_classifier(X, rng):
    y = labels(X, rng)
    for likelihood in ("logit", "bernoulli", "probit"):
        model = BayesianGLMClassifier(likelihood=likelihood, hyperparameters="point").fit(X, y)
        proba = model.predict_proba(X)
        assert proba.shape == (N, 2)
        np.testing.assert_allclose(proba.sum(1), 1.0, rtol=1e-14)
        np.testing.assert_allclose(model.predict_log_proba(X), np.log(proba), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(model.decision_function(X), np.log(proba[:, 1] / proba[:, 0]), rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(model.predict(X), np.where(proba[:, 1] > proba[:, 0], "yes", "no"))
        expected = np.log(proba[np.arange(N), (y == "yes").astype(int)])
        np.testing.assert_allclose(model.log_predictive_density(X, y), expected, rtol=1e-6, atol=1e-8)
        assert model.score(X, y) == np.mean(model.predict(X) == y)
    m, v = model.predict_latent(X)  # probit: closed form
    np.testing.assert_allclose(proba[:, 1], norm.cdf(m / np.sqrt(1 + v)), rtol=1e-9)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_many_classes(covariance, X, rng):
    y = labels(X, rng, ("a", "b", "c"))
    model = BayesianGLMClassifier(covariance=covariance, prior_precision=1.0).fit(X, y)
    assert type(model.likelihood_).__name__ == "Softmax"
    assert model.coef_.shape == model.coef_std_.shape == (3, D) and model.intercept_.shape == (3,)
    q = model.posterior_["weights"]
    assert q.mean.shape == q.std.shape == (3, D + 1)
    assert q.sample(4, random_state=0).shape == (4, 3, D + 1)
    assert model.predict_proba(X).shape == model.decision_function(X).shape == (N, 3)
    np.testing.assert_array_equal(model.decision_function(X), model.predict_log_proba(X))
    m, v = model.predict_latent(X)
    assert m.shape == v.shape == (N, 3) and np.all(v > 0)
    summary = model.summary()
    assert summary.index.names == ["class", "coefficient"] and len(summary) == 3 * (D + 1)
    assert summary.loc[("b", "x1"), "mean"] == model.coef_[1, 1]
    assert model.score(X, y) > 0.5


def test_softmax_of_two_classes_is_a_choice(X, rng):
    model = BayesianGLMClassifier(likelihood="softmax").fit(X, labels(X, rng))
    assert model.predict_proba(X).shape == (N, 2) and model.decision_function(X).shape == (N,)
    assert model.coef_.shape == (2, D)


def test_ordinal(X, rng):
    y = target("ordinal", X, rng)
    model = BayesianGLMRegressor(likelihood="ordinal").fit(X, y)
    np.testing.assert_array_equal(model.levels_, [-5.0, 0.0, 5.0])
    proba = model.predict_proba(X)
    assert proba.shape == (N, 3)
    np.testing.assert_allclose(proba.sum(1), 1.0)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, proba @ model.levels_, rtol=1e-12)
    np.testing.assert_allclose(std**2, proba @ model.levels_**2 - mean**2, rtol=1e-8)
    assert set(np.unique(model.predict_interval(X))) <= set(model.levels_)
    assert set(np.unique(model.sample_y(X, 5, random_state=0))) <= set(model.levels_)
    expected = np.log(proba[np.arange(N), np.searchsorted(model.levels_, y)])
    np.testing.assert_allclose(model.log_predictive_density(X, y), expected, rtol=1e-6)
    fixed = BayesianGLMRegressor(likelihood=Ordinal(cut_points=[-1.0, 1.0])).fit(X, y)
    np.testing.assert_array_equal(fixed.likelihood_.cut_points, [-1.0, 1.0])
    assert np.all(np.diff(model.likelihood_.cut_points) > 0)


def test_binomial_of_one_trial_is_logit(X, rng):
    y = target("logit", X, rng)
    one = BayesianGLMRegressor(likelihood="logit", prior_precision=1.0).fit(X, y)
    two = BayesianGLMRegressor(likelihood="binomial", prior_precision=1.0).fit(X, np.column_stack([y, 1 - y]))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-6)
    np.testing.assert_allclose(one.lower_bound_, two.lower_bound_, rtol=1e-8)


@pytest.mark.parametrize("kind", [str, int, bool, "category"])
def test_labels_of_any_type(kind, X, rng):
    y = labels(X, rng)
    y = pd.Series(y == "yes").astype(kind) if kind != "category" else pd.Series(y).astype("category")
    model = BayesianGLMClassifier(prior_precision=1.0).fit(X, y)
    assert set(model.predict(X)) <= set(y) and model.score(X, y) > 0.6


# ---- what X may be


def test_frames_keep_their_names(X, rng):
    frame = pd.DataFrame(X, columns=["age", "income", "height"], index=[f"r{i}" for i in range(N)])
    y = pd.Series(target("gaussian", X, rng), index=frame.index)
    model = BayesianGLMRegressor().fit(frame, y)
    assert list(model.feature_names_in_) == ["age", "income", "height"]
    assert list(model.summary().index) == ["age", "income", "height", "intercept", "std(residual)"]
    assert isinstance(model.predict(frame), np.ndarray)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["income", "age", "height"]])
    again = BayesianGLMRegressor().fit(X, y.to_numpy())
    np.testing.assert_array_equal(again.coef_, model.coef_)


@pytest.mark.parametrize(
    "container", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.csc_array, sp.coo_array]
)
@pytest.mark.parametrize(("covariance", "prior"), [("full", 1.0), ("diag", 1.0), ("full", "auto")])
def test_sparse_equals_dense(container, covariance, prior, X, rng):
    X = np.where(rng.random((N, 30)) < 0.1, rng.standard_normal((N, 30)), 0.0)
    y = rng.poisson(np.exp(X[:, 0]))
    settings = {"likelihood": "poisson", "covariance": covariance, "prior_precision": prior, "tol": 1e-7}
    # Only dense columns are centred, so that the intercept's default prior is about another point.
    settings["intercept_precision"] = 1e-4
    dense = BayesianGLMRegressor(**settings).fit(X, y)
    sparse = BayesianGLMRegressor(**settings).fit(container(X), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(sparse.predict(container(X)), dense.predict(X), rtol=1e-5)
    np.testing.assert_allclose(sparse.predict_latent(container(X))[1], sparse.predict_latent(X)[1], rtol=1e-9)


def test_sparse_with_duplicated_entries(X, rng):
    rows, columns = np.repeat(np.arange(N), 2), np.zeros(2 * N, int)
    values = rng.standard_normal(2 * N)
    coo = sp.coo_matrix((values, (rows, columns)), shape=(N, 2))
    csr = sp.csr_matrix((values, columns, np.arange(0, 2 * N + 1, 2)), shape=(N, 2))
    y = target("gaussian", X, rng)
    settings = {"prior_precision": 1.0, "intercept_precision": 1e-4}
    dense = BayesianGLMRegressor(**settings).fit(coo.toarray(), y)
    for given in (coo, csr):
        before = given.data.copy()
        model = BayesianGLMRegressor(**settings).fit(given, y)
        np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-9)
        np.testing.assert_array_equal(given.data, before)
    np.testing.assert_allclose(model.predict(csr, return_std=True), dense.predict(coo.toarray(), return_std=True))


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "negative-binomial", "student-t", "ordinal", "binomial"])
def test_float32_stays_float32(likelihood, X, rng):
    y = target(likelihood, X, rng)
    double = BayesianGLMRegressor(likelihood=likelihood, prior_precision=1.0).fit(X, y)
    single = BayesianGLMRegressor(likelihood=likelihood, prior_precision=1.0).fit(X.astype(np.float32), y)
    assert single.coef_.dtype == single.coef_std_.dtype == np.float32
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=5e-3, atol=2e-3)
    np.testing.assert_allclose(single.lower_bound_, double.lower_bound_, rtol=1e-4)
    for values in (
        *single.predict(X.astype(np.float32), return_std=True),
        *single.predict_latent(X.astype(np.float32)),
    ):
        assert values.dtype == np.float32
    assert double.predict(X).dtype == np.float64


def test_float32_classifier(X, rng):
    for names in (("a", "b"), ("a", "b", "c")):
        model = BayesianGLMClassifier(prior_precision=1.0).fit(X.astype(np.float32), labels(X, rng, names))
        assert model.predict_proba(X.astype(np.float32)).dtype == np.float32 and model.coef_.dtype == np.float32


# ---- offset, weights, routing


def test_offset_is_a_column_of_known_coefficient(X, rng):
    offset = rng.normal(size=N)
    y = rng.poisson(np.exp(0.3 * X[:, 0] + offset))
    model = BayesianGLMRegressor(likelihood="poisson", prior_precision=1.0).fit(X, y, offset=offset)
    weak = BayesianGLMRegressor(likelihood="poisson", prior_precision=[1.0, 1.0, 1.0, 1e-12])
    with_column = weak.fit(np.column_stack([X, offset]), y)
    assert abs(with_column.coef_[3] - 1) < 4 * with_column.coef_std_[3]
    assert np.all(np.abs(model.coef_ - with_column.coef_[:3]) < model.coef_std_)
    m, v = model.predict_latent(X, offset=0)
    shifted, same_v = model.predict_latent(X, offset=offset)
    np.testing.assert_allclose(shifted, m + offset)
    np.testing.assert_array_equal(v, same_v)
    np.testing.assert_allclose(model.predict(X, offset=offset), model.predict(X, offset=0) * np.exp(offset))
    assert model.score(X, y, offset=offset) > model.score(X, y, offset=0)
    for method in (model.predict_interval, model.sample_y):
        assert method(X, offset=offset).shape[0] == N
    with_offset, without = (model.log_predictive_density(X, y, offset=each) for each in (offset, 0))
    assert np.sum(with_offset) > np.sum(without)


def test_offset_of_a_binary_classifier(X, rng):
    offset = 2.0 * rng.normal(size=N)
    y = X[:, 0] + offset + rng.logistic(size=N) > 0
    model = BayesianGLMClassifier(prior_precision=1.0).fit(X, y, offset=offset)
    assert model.score(X, y, offset=offset) > model.score(X, y, offset=0)
    assert model.predict_proba(X, offset=offset).shape == (N, 2)
    assert model.decision_function(X, offset=offset).shape == (N,)
    with pytest.raises(ValueError, match="offset"):
        BayesianGLMClassifier().fit(X, labels(X, rng, ("a", "b", "c")), offset=offset)


@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")  # chance brings it once in 1000 sets
def test_weights_of_scores_and_bounds(X, rng):
    y = target("poisson", X, rng)
    weight = rng.integers(1, 4, N).astype(float)
    model = BayesianGLMRegressor(likelihood="poisson").fit(X, y, sample_weight=weight)
    assert model.n_samples_seen_ == weight.sum()
    one = BayesianGLMRegressor(likelihood="poisson").fit(X, y, sample_weight=2.0)
    np.testing.assert_allclose(one.coef_, BayesianGLMRegressor(likelihood="poisson").fit(X, y, np.full(N, 2.0)).coef_)


def test_offset_and_weight_are_routed_through_a_pipeline(X, rng):
    offset = rng.normal(size=N)
    weight = rng.uniform(0.5, 1.5, N)
    y = rng.poisson(np.exp(0.3 * X[:, 0] + offset))
    direct = BayesianGLMRegressor(likelihood="poisson").fit(StandardScaler().fit_transform(X), y, weight, offset)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BayesianGLMRegressor(likelihood="poisson")
        model.set_fit_request(offset=True, sample_weight=True).set_predict_request(offset=True)
        model.set_score_request(offset=True, sample_weight=True).set_partial_fit_request(offset=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipeline.fit(X, y, offset=offset, sample_weight=weight)
        np.testing.assert_array_equal(pipeline[-1].coef_, direct.coef_)
        expected = direct.predict(StandardScaler().fit_transform(X), offset=offset)
        np.testing.assert_array_equal(pipeline.predict(X, offset=offset), expected)
        search = GridSearchCV(pipeline, {"bayesianglmregressor__prior_precision": [0.1, 1.0]}, cv=3)
        search.fit(X, y, offset=offset, sample_weight=weight)
        assert np.all(search.cv_results_["mean_test_score"] > 0)


# ---- scikit-learn's wrappers


@pytest.mark.filterwarnings("ignore:prior_precision=100 expects:UserWarning")  # one value of the grid
def test_searches_and_pipelines(X, rng):
    y = labels(X, rng)
    pipeline = Pipeline([("scale", StandardScaler()), ("glm", BayesianGLMClassifier())])
    grid = {"glm__prior_precision": [0.01, 1.0, 100.0]}
    assert GridSearchCV(pipeline, grid, cv=3, scoring="neg_log_loss").fit(X, y).best_score_ > -0.7
    halving = HalvingGridSearchCV(pipeline, grid, cv=3, resource="glm__max_iter", max_resources=40, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert halving.fit(X, y).best_score_ > 0.5
    assert np.mean(cross_val_score(pipeline, X, y, cv=3)) > 0.5
    assert same(clone(pipeline).fit(X, y)[-1], pickle.loads(pickle.dumps(pipeline.fit(X, y)))[-1])


def test_intervals_through_every_wrapper(X, rng):
    y = np.exp(target("gaussian", X, rng))
    inner = make_pipeline(StandardScaler(), BayesianGLMRegressor())
    target_too = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp)
    search = GridSearchCV(target_too, {"regressor__bayesianglmregressor__prior_precision": [0.1, 1.0]}, cv=3).fit(X, y)
    interval = sksvi.predict_interval(search, X, coverage=0.8)
    assert interval.shape == (N, 2) and np.all(interval > 0)
    inside = np.mean((interval[:, 0] < y) & (y < interval[:, 1]))
    assert abs(inside - 0.8) < 4 * np.sqrt(0.16 / N)
    assert sksvi.predict_std(search, X).shape == (N,)
    plain = BayesianGLMRegressor().fit(X, np.log(y))
    np.testing.assert_array_equal(sksvi.predict_interval(plain, X), plain.predict_interval(X))
    np.testing.assert_array_equal(sksvi.predict_std(plain, X), plain.predict(X, return_std=True)[1])
    piped = inner.fit(X, np.log(y))
    np.testing.assert_array_equal(piped.predict(X, return_std=True)[1], sksvi.predict_std(piped, X))


# ---- bits


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("batch_size", [None, 700])
def test_no_number_of_threads_changes_a_bit(algorithm, batch_size, rng):
    if algorithm == "fp" and batch_size:
        pytest.skip("fp takes all rows at once")
    X = rng.standard_normal((9000, 40))
    y = (X[:, 0] + rng.logistic(size=9000) > 0) * 1
    settings = {"algorithm": algorithm, "batch_size": batch_size, "max_iter": 2, "random_state": 1, "tol": 0.0}
    fits = []
    for n_jobs in (1, 2, 4):
        with pytest.warns(ConvergenceWarning):
            fits.append(BayesianGLMClassifier(n_jobs=n_jobs, **settings).fit(X, y))
    for other in fits[1:]:
        assert same(fits[0], other)
        np.testing.assert_array_equal(fits[0].predict_proba(X), other.predict_proba(X))


def test_no_number_of_threads_changes_a_bit_of_sparse_and_many_classes(rng):
    dense = np.where(rng.random((20000, 60)) < 0.05, 1.0, 0.0)
    y = (dense[:, 0] + rng.logistic(size=20000) > 0) * 1 + (rng.random(20000) < 0.2)
    for X, target in ((sp.csr_matrix(dense), y > 0), (dense[:5000], y[:5000])):
        fits = []
        for n_jobs in (1, 4):
            model = BayesianGLMClassifier(n_jobs=n_jobs, max_iter=2, tol=0.0, random_state=0)
            with pytest.warns(ConvergenceWarning):
                fits.append(model.fit(X, target))
        assert same(*fits)


@pytest.mark.parametrize("expectation", ["auto", "gauss-hermite", "monte-carlo"])
def test_same_seed_same_bits(expectation, X, rng):
    y = labels(X, rng)
    model = BayesianGLMClassifier(expectation=expectation, batch_size=30, max_iter=5, tol=0.0, prior_precision=1.0)
    with pytest.warns(ConvergenceWarning):
        one = clone(model).set_params(random_state=7).fit(X, y)
        two = clone(model).set_params(random_state=7).fit(X, y)
        other = clone(model).set_params(random_state=8).fit(X, y)
    assert same(one, two) and not same(one, other)


def test_predictions_depend_on_their_own_row(rng):
    X = rng.standard_normal((3000, D))
    for model, y in (
        (BayesianGLMClassifier(), labels(X, rng, ("a", "b", "c"))),
        (BayesianGLMClassifier(), labels(X, rng)),
        (BayesianGLMRegressor(likelihood="negative-binomial"), target("poisson", X, rng)),
    ):
        model.fit(X[:200], y[:200])
        method = getattr(model, "predict_proba", model.predict)
        whole = method(X)
        np.testing.assert_allclose(np.concatenate([method(X[:7]), method(X[7:])]), whole, rtol=1e-12)
        order = rng.permutation(3000)
        np.testing.assert_allclose(method(X[order]), whole[order], rtol=1e-12)
        np.testing.assert_array_equal(method(X), whole)


def test_an_intercept_that_its_prior_pulls_is_told():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2))
    y = 1e5 + X[:, 0]
    with pytest.warns(UserWarning, match="set intercept_precision='auto'"):
        BayesianGLMRegressor(intercept_precision=1e-4).fit(X, y)
    BayesianGLMRegressor().fit(X, y)
    BayesianGLMRegressor(intercept_precision=1e-14).fit(X, y)


@pytest.mark.parametrize(("n", "share"), [(500, 0.25), (20_000, 0.05)])
def test_cut_points_have_settled_at_the_default_tolerance(n, share, global_random_seed):
    """They move with the intercept, and a small share of a large bound is standard errors of theirs."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((n, 2))
    y = np.digitize(X @ [0.8, -0.5] + rng.logistic(size=n), [-1.0, 2.0])
    fits = [
        BayesianGLMRegressor(likelihood="ordinal", random_state=0, **options).fit(X, y)
        for options in ({}, {"tol": 1e-8})
    ]
    thresholds = [np.asarray(fit.likelihood_.cut_points) - fit.intercept_ for fit in fits]
    spread = fits[1].summary().loc[["cut_points[0]", "cut_points[1]"], "std"].to_numpy()
    assert np.all(np.abs(thresholds[0] - thresholds[1]) < share * spread)
