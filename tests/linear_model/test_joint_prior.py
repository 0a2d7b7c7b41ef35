"""A posterior as the prior of other rows: exact beside Gaussian noise, by names, refused before a fit changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor, load
from sksvi.likelihoods import Gaussian
from sksvi.priors import MultivariateNormal, Normal

PRIOR = {"*": Normal(0.2, 1.0), "intercept": Normal(1.0, 5.0)}
FIRST, SECOND = slice(0, 60), slice(60, 120)


@pytest.fixture(scope="module")
def rows():
    """Columns in units of their own, one of them categorical, and a target."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"age": rng.normal(40.0, 10.0, 120), "dose": rng.exponential(3.0, 120)})
    X["site"] = pd.Categorical(rng.choice(list("abc"), 120))
    return X, 3.0 + 0.1 * X.age - 0.4 * X.dose + (X.site == "a") + rng.normal(0.0, 0.7, 120)


def regressor(prior, **options):
    return BayesianGLMRegressor(likelihood=Gaussian(variance=0.49), prior=prior, tol=1e-10, **options)


@pytest.fixture(scope="module")
def first(rows):
    return regressor(PRIOR).fit(rows[0][FIRST], rows[1][FIRST])


@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "h-mc-ssvi"])
def test_two_halves_are_one_fit(algorithm, rows, first):
    X, y = rows
    both = regressor(PRIOR).fit(X, y)
    second = regressor(first.posterior_, algorithm=algorithm).fit(X[SECOND], y[SECOND])
    q, exact = second.posterior_, both.posterior_
    assert q.names == exact.names == ["age", "dose", "site_a", "site_b", "site_c", "intercept"]
    np.testing.assert_allclose(q["weights"].mean, exact["weights"].mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(q["weights"].cov, exact["weights"].cov, rtol=0, atol=1e-8)
    assert first.lower_bound_ + second.lower_bound_ == pytest.approx(both.lower_bound_, abs=1e-6)


def test_the_order_of_columns_does_not_matter(rows, first):
    X, y = rows
    a = regressor(first.posterior_).fit(X[SECOND], y[SECOND])
    b = regressor(first.posterior_).fit(X[SECOND][["site", "dose", "age"]], y[SECOND])
    np.testing.assert_allclose(b.predict(X[["site", "dose", "age"]]), a.predict(X), rtol=1e-10)


def test_labels_are_as_in_a_stream(rows):
    X, y = rows[0], np.where(rows[1] > rows[1].median(), "high", "low")
    stream = BayesianGLMClassifier(prior=PRIOR, tol=1e-10).fit(X[FIRST], y[FIRST])
    second = BayesianGLMClassifier(prior=stream.posterior_, tol=1e-10).fit(X[SECOND], y[SECOND])
    stream.partial_fit(X[SECOND], y[SECOND])
    np.testing.assert_allclose(second.coef_, stream.coef_, atol=1e-4)
    np.testing.assert_allclose(second.coef_std_, stream.coef_std_, atol=1e-4)


def test_a_learned_noise_and_hyperparameters(rows, tmp_path):
    X, y = rows
    before = BayesianGLMRegressor().fit(X[FIRST], y[FIRST])
    model = BayesianGLMRegressor(prior=before.posterior_).fit(X[SECOND], y[SECOND])
    assert np.all(model.coef_std_ < before.coef_std_)
    assert list(model.hyperparameter_posterior_) == ["weight", "std(residual)"]
    assert model.sample_prior(X, 20, random_state=0).shape == (20, 120)
    pd.testing.assert_frame_equal(model.summary(), model.summary(effects="joint"))
    model.save(tmp_path / "m.sksvi")
    loaded = load(tmp_path / "m.sksvi")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.posterior_["weights"].cov, model.posterior_["weights"].cov)
    assert loaded.posterior_.names == model.posterior_.names
    loaded.partial_fit(X[FIRST], y[FIRST])
    with pytest.raises(ValueError, match=r"prior was .* when this model was fitted"):
        loaded.set_params(prior=model.posterior_).partial_fit(X[FIRST], y[FIRST])
    np.testing.assert_array_equal(clone(model).fit(X[SECOND], y[SECOND]).coef_, model.coef_)


def test_numbers_are_a_prior_too(rows, first):
    X, y = rows
    q = first.posterior_["weights"]
    given = MultivariateNormal(first.posterior_.names, q.mean, q.cov)
    a, b = (regressor(prior).fit(X[SECOND], y[SECOND]) for prior in (given, first.posterior_))
    np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize(
    ("names", "mean", "cov", "words"),
    [
        (["a"], [0.0, 1.0], [[1.0]], "a mean of shape"),
        (["a", "a"], [0.0, 1.0], np.eye(2), "'a' more than once"),
        (["a", "b"], [0.0, 1.0], [[1.0, 0.5], [0.0, 1.0]], "must be symmetric"),
        (["a", "b"], [0.0, 1.0], [[1.0, 2.0], [2.0, 1.0]], "must be positive definite"),
        (["a", "b"], [0.0, 1.0], [[1.0, 0.0], [0.0, -1.0]], "positive variances"),
        (["a", "b"], [0.0, np.nan], np.eye(2), "must be finite"),
    ],
)
def test_what_is_no_normal(names, mean, cov, words):
    with pytest.raises(ValueError, match=words):
        MultivariateNormal(names, mean, cov)


@pytest.mark.parametrize(
    ("options", "change", "words"),
    [
        ({}, lambda X: X.drop(columns="dose"), "coefficient 'dose', which is absent here"),
        ({}, lambda X: X.assign(late=np.arange(120.0) % 7), "prior has no coefficient 'late'"),
        ({"fit_intercept": False}, lambda X: X, "'intercept', which is absent"),
        ({"prior_precision": 1.0}, lambda X: X, "'age' among them, and so is prior_precision=1.0"),
        ({"intercept_precision": 1.0}, lambda X: X, "and so is intercept_precision=1.0"),
        ({"covariance": "diag"}, lambda X: X, "covariance='diag' leaves out"),
        ({"covariance": "low-rank"}, lambda X: X, "prior with covariance='low-rank'"),
        ({"scale_features": ["age"]}, lambda X: X, "scale_features have another"),
    ],
)
def test_a_posterior_is_refused_before_the_fit_changes(options, change, words, rows, first):
    X, y = rows
    model = BayesianGLMRegressor().fit(X[FIRST], y[FIRST])
    coef = model.coef_
    with pytest.raises(ValueError, match=words):
        model.set_params(prior=first.posterior_, **options).fit(change(X), y)
    assert model.coef_ is coef


def test_other_targets_and_models_are_refused(rows, first):
    X, y = rows
    levels = np.digitize(y, [4.0, 6.0])
    with pytest.raises(ValueError, match="y has several classes"):
        BayesianGLMClassifier(prior=first.posterior_).fit(X, levels)
    with pytest.raises(ValueError, match="y has cut points"):
        BayesianGLMRegressor(likelihood="ordinal", prior=first.posterior_).fit(X, levels)
    three = BayesianGLMClassifier().fit(X, levels)
    with pytest.raises(ValueError, match="the posterior of 3 classes"):
        BayesianGLMRegressor(prior=three.posterior_).fit(X, y)
    mixed = GMERegressor(groups="site").fit(X, y)
    with pytest.raises(ValueError, match="no names"):
        BayesianGLMRegressor(prior=mixed.posterior_).fit(X, y)
    with pytest.raises(ValueError, match="'prior' parameter of GMERegressor"):
        mixed.set_params(prior=first.posterior_).fit(X, y)
