"""The prior of more columns than rows: its shape by the bound, against dense closed forms with Gaussian noise."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, load, save
from sksvi.families import ClassGaussian, Gaussian, Point, ProjectedGaussian
from sksvi.likelihoods import Bernoulli
from sksvi.likelihoods import Gaussian as GaussianNoise
from sksvi.linear_model._design import informed, with_equal_prior
from sksvi.linear_model._prior import own_precision
from sksvi.models.data import Table
from sksvi.models.linear import glm
from sksvi.models.linear.scales import POWERS, PROBABILITIES, REST, SpectralPrior
from sksvi.testing import check_model

NOISE = 0.09


def factor_rows(n=40, d=90, seed=0, load=1.0):
    """Columns that share two factors, and a latent that is one of these."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, 2))
    X = load * factors @ rng.standard_normal((2, d)) + rng.standard_normal((n, d))
    return X * rng.uniform(0.5, 2.0, d), factors @ np.array([1.5, -1.0]), rng


def measured(seed=0):
    X, f, rng = factor_rows(seed=seed)
    return X, f + np.sqrt(NOISE) * rng.standard_normal(len(f))


def labelled(seed=0):
    X, f, _ = factor_rows(seed=seed)
    return X, np.digitize(f, [-1.0, 1.0])


def on_spreads(X):
    return (X - X.mean(axis=0)) / (2.0 * X.std(axis=0))


def prior_covariance(U, power):
    """Of weights on the spreads of columns, at precision 1."""
    gram, d = U.T @ U, U.shape[1]
    if power == 0:
        return np.eye(d)
    raised = np.linalg.matrix_power(gram, power)
    return REST * np.eye(d) + (1.0 - REST) * raised * np.trace(gram) / np.trace(gram @ raised)


def evidence(U, y, h, power):
    """Log density of y, nats, with the default prior of the intercept, and of the power."""
    wide = (10.0 * y.std()) ** 2
    cov = np.exp(-h) * U @ prior_covariance(U, power) @ U.T + NOISE * np.eye(len(y)) + wide
    return multivariate_normal(np.full(len(y), y.mean()), cov).logpdf(y) + np.log(PROBABILITIES[power])


@pytest.fixture(scope="module")
def point_fit():
    X, y = measured()
    model = BayesianGLMRegressor(likelihood=GaussianNoise(variance=NOISE), hyperparameters="point", tol=1e-10)
    return X, y, model.fit(X, y)


def test_the_bound_is_the_evidence_of_the_chosen_shape(point_fit):
    X, y, model = point_fit
    U, h = on_spreads(X), float(model.state_.q["prior_precision"].value[0])
    scales = model._encoding.scale_prior(model.likelihood_)
    assert model.prior_power_ > 0
    exact = evidence(U, y, h, model.prior_power_) + float(scales.log_density(np.array([h])))
    assert model.lower_bound_ == pytest.approx(exact, abs=1e-6)


def test_no_other_shape_at_any_precision_has_more_evidence(point_fit):
    X, y, model = point_fit
    U, scales = on_spreads(X), model._encoding.scale_prior(model.likelihood_)
    grid = np.arange(-6.0, 10.0, 0.25)
    values = {p: max(evidence(U, y, h, p) + float(scales.log_density(np.array([h]))) for h in grid) for p in POWERS}
    assert max(values, key=values.__getitem__) == model.prior_power_
    assert model.lower_bound_ >= max(values.values()) - 1e-9


def test_the_integrated_bound_is_that_over_precisions():
    """Nodes under the chosen shape, against a fine grid of the closed form."""
    X, y = measured()
    model = BayesianGLMRegressor(likelihood=GaussianNoise(variance=NOISE), tol=1e-8).fit(X, y)
    U, scales, step = on_spreads(X), model._encoding.scale_prior(model.likelihood_), 0.05
    grid = np.arange(-8.0, 14.0, step)
    values = [evidence(U, y, h, model.prior_power_) + float(scales.log_density(np.array([h]))) for h in grid]
    assert model.prior_power_ > 0
    assert model.lower_bound_ == pytest.approx(np.logaddexp.reduce(values) + np.log(step), abs=0.02)


def test_coefficients_predictions_and_prior_are_the_closed_form(point_fit):
    X, y, model = point_fit
    U, spread = on_spreads(X), 2.0 * X.std(axis=0)
    P = np.exp(-float(model.state_.q["prior_precision"].value[0])) * prior_covariance(U, model.prior_power_)
    wide = (10.0 * y.std()) ** 2
    V = U @ P @ U.T + NOISE * np.eye(len(y)) + wide
    mean, cov = P @ U.T @ np.linalg.solve(V, y - y.mean()), P - P @ U.T @ np.linalg.solve(V, U @ P)
    np.testing.assert_allclose(model.coef_, mean / spread, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(model.coef_std_, np.sqrt(np.diag(cov)) / spread, rtol=1e-5)
    np.testing.assert_allclose(model.prior_precision_, np.square(spread) / np.diag(P), rtol=1e-5)
    new = np.random.default_rng(1).standard_normal((5, X.shape[1]))
    B = (new - X.mean(axis=0)) / spread
    cross = B @ P @ U.T + wide
    found, variance = model.predict_latent(new)
    np.testing.assert_allclose(found, y.mean() + cross @ np.linalg.solve(V, y - y.mean()), rtol=1e-5, atol=1e-7)
    exact = np.sum(B @ P * B, axis=1) + wide - np.sum(cross * np.linalg.solve(V, cross.T).T, axis=1)
    np.testing.assert_allclose(variance, exact, rtol=1e-5)


def test_an_effect_of_its_own_leaves_the_prior_of_all_others(point_fit):
    """The prior of one coefficient is weak and independent, that of the others is what it was: dense, one by one."""
    X, y, model = point_fit
    U, spread, d = on_spreads(X), 2.0 * X.std(axis=0), X.shape[1]
    P = np.exp(-float(model.state_.q["prior_precision"].value[0])) * prior_covariance(U, model.prior_power_)
    weak, table, wide = np.square(spread) / own_precision(model, "own"), model.summary(), (10.0 * y.std()) ** 2
    for j in (0, 7, d - 1):
        apart = P.copy()
        apart[j], apart[:, j] = 0.0, 0.0
        apart[j, j] = weak[j]
        V = U @ apart @ U.T + NOISE * np.eye(len(y)) + wide
        pull = weak[j] * U[:, j]
        mean, variance = pull @ np.linalg.solve(V, y - y.mean()), weak[j] - pull @ np.linalg.solve(V, pull)
        assert table["mean"].iloc[j] == pytest.approx(mean / spread[j], rel=1e-4, abs=1e-6)
        assert table["std"].iloc[j] == pytest.approx(np.sqrt(variance) / spread[j], rel=1e-4)


@pytest.mark.parametrize("likelihood", [Bernoulli(), GaussianNoise(variance=NOISE)])
def test_the_model_is_one(likelihood):
    """Slopes are those of its bound, with the power as one more point."""
    X, y = measured()
    rows, _ = informed(Table(on_spreads(X)[:15], y[:15], None, None), np.ones(X.shape[1]))
    data = Table(rows, y[:15] if likelihood.levels is None else (y[:15] > 0).astype(float), None, None)
    options = {"n_features": rows.shape[1], "fit_intercept": True, "full": True, "shapes": SpectralPrior.of(data)}
    check_model(glm.LinearModel(likelihood, prior_precision="auto", intercept_precision=0.1, **options), data)


@pytest.mark.parametrize("several", [1, 3])
def test_weights_alone_are_those_under_a_prior_without_correlations(several, global_random_seed):
    """Against dense matrices of all classes: the prior of one weight in each class made independent of the others."""
    rng, d, r, off = np.random.default_rng(global_random_seed), 6, 3, 0.4
    basis, scale = np.linalg.qr(rng.standard_normal((d, r)))[0], rng.uniform(0.5, 2.0, d)
    ratio = rng.uniform(2.0, 9.0, r)
    A = rng.standard_normal((several * r, 2 * several * r))
    data = A @ A.T
    inner = Gaussian(rng.standard_normal(several * r), data + np.diag(np.tile(1.0 / (off**2 * ratio), several)))
    view = ProjectedGaussian(scale, basis, ClassGaussian(inner, several) if several > 1 else inner, off, ratio)
    lift = np.kron(np.eye(several), (basis / scale[:, None]).T)  # weights to coordinates in the span
    prior = off**2 * (np.eye(d) + (basis * (ratio - 1.0)) @ basis.T) * np.outer(scale, scale)
    linear = lift.T @ (inner.precision @ inner.mean)
    mean, cov = view.alone()
    for j in range(d):
        apart = prior.copy()
        apart[j], apart[:, j] = 0.0, 0.0
        apart[j, j] = prior[j, j]
        whole = np.linalg.inv(np.kron(np.eye(several), np.linalg.inv(apart)) + lift.T @ data @ lift)
        at = np.arange(several) * d + j
        np.testing.assert_allclose(mean[j], (whole @ linear)[at], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(cov[j], whole[np.ix_(at, at)], rtol=1e-7, atol=1e-9)


def test_a_wide_fit_of_independent_columns_keeps_equal_variances(global_random_seed):
    """Where directions do not stand out nothing but the price of the choice is another: log 0.9."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((30, 60))
    y = X[:, :30] @ rng.standard_normal(30) + 2.0 * rng.standard_normal(30)
    model = BayesianGLMRegressor().fit(X, y)
    with mock.patch.object(glm, "POWERS", (0,)):
        alone = BayesianGLMRegressor().fit(X, y)
    if model.prior_power_ == 0:  # by chance it may be another
        assert model.lower_bound_ == alone.lower_bound_
        np.testing.assert_array_equal(model.coef_, alone.coef_)
    else:
        assert model.lower_bounds_[-1] > alone.lower_bounds_[-1]


@pytest.mark.parametrize("data", [measured, labelled])
def test_the_choice_does_not_lower_the_bound(data):
    X, y = data()
    kind = BayesianGLMRegressor if data is measured else BayesianGLMClassifier
    model = kind(covariance="full").fit(X, y)
    with mock.patch.object(glm, "POWERS", (0,)):
        alone = kind(covariance="full").fit(X, y)
    assert model.prior_power_ > 0 and alone.prior_power_ == 0
    assert model.lower_bounds_[-1] > alone.lower_bounds_[-1]
    assert "leading directions" in model.summary_text() and "leading directions" not in alone.summary_text()
    assert np.isfinite(model.summary()[["mean", "std"]].iloc[: X.shape[1]].to_numpy()).all()


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["mc-ssvi", "h-mc-ssvi", "fp"])
def test_algorithms_agree_on_the_shape(algorithm):
    X, y = measured()
    one, other = (BayesianGLMRegressor(algorithm=name, max_iter=1000).fit(X, y) for name in ("cvi", algorithm))
    assert one.prior_power_ == other.prior_power_ > 0
    assert one.lower_bound_ == pytest.approx(other.lower_bound_, abs=0.05)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("options", [{"algorithm": "s-dsvi"}, {"batch_size": 10}])
def test_steps_that_cannot_be_compared_keep_equal_variances(options):
    X, y = measured()
    model = BayesianGLMRegressor(max_iter=100, **options).fit(X, y)
    assert model.prior_power_ == 0 and np.isfinite(model.lower_bound_)


def test_rows_of_weight_two_are_two_rows():
    X, y = measured()
    weights = np.tile([1.0, 2.0], len(y) // 2)
    first = BayesianGLMRegressor().fit(X, y, sample_weight=weights)
    second = BayesianGLMRegressor().fit(np.repeat(X, weights.astype(int), 0), np.repeat(y, weights.astype(int)))
    assert first.prior_power_ == second.prior_power_ > 0
    np.testing.assert_allclose(first.coef_, second.coef_, rtol=1e-6, atol=1e-9)


def test_a_file_holds_the_shape_of_the_prior(tmp_path):
    X, y = labelled()
    model = BayesianGLMClassifier(covariance="full").fit(X, y)
    save(model, tmp_path / "fit.sksvi")
    again = load(tmp_path / "fit.sksvi")
    assert again.prior_power_ == model.prior_power_ > 0
    assert again.summary().equals(model.summary())
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_file_with_a_power_that_is_none_is_refused(tmp_path):
    X, y = measured()
    model = BayesianGLMRegressor().fit(X, y)
    model.state_.q["prior_power"] = Point(np.array([3.0]))
    save(model, tmp_path / "fit.sksvi")
    with pytest.raises(ValueError, match="prior_power"):
        load(tmp_path / "fit.sksvi")


def test_messages_of_a_wide_fit_under_equal_variances(point_fit):
    """What a stream goes on from: the closed form under equal variances at the precision of the fit."""
    X, y, model = point_fit
    U, std = on_spreads(X), float(np.exp(-0.5 * model.state_.q["prior_precision"].value[0]))
    view = with_equal_prior(model.posterior_["weights"].inner, std)
    V = std**2 * U @ U.T + NOISE * np.eye(len(y)) + (10.0 * y.std()) ** 2
    d = X.shape[1]
    cov = std**2 * np.eye(d) - std**4 * U.T @ np.linalg.solve(V, U)
    np.testing.assert_allclose(view.mean[:d], std**2 * U.T @ np.linalg.solve(V, y - y.mean()), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(view.cov[:d, :d], cov, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(np.linalg.inv(view.dense().precision)[:d, :d], cov, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("data", [measured, labelled])
def test_a_stream_after_a_wide_fit_has_equal_variances(data):
    X, y = data()
    kind = BayesianGLMRegressor if data is measured else BayesianGLMClassifier
    model = kind(covariance="full").fit(X, y)
    assert model.prior_power_ > 0
    model.partial_fit(X[:3], y[:3])
    assert model.prior_power_ == 0 and "prior_power" not in model.state_.q
    # Off the span of the rows the posterior is the prior, alike in every direction.
    off = np.linalg.svd(on_spreads(X))[2][-1] * 2.0 * X.std(axis=0)
    scale = np.sqrt(np.mean(np.square(2.0 * X.std(axis=0)) / model.prior_precision_))
    weights = model.posterior_["weights"]
    found = np.sqrt((weights if data is measured else weights[0]).spread(np.append(off, 0.0)[None])[0])
    assert found == pytest.approx(scale, rel=0.2)


@pytest.mark.parametrize("data", [measured, labelled])
def test_a_warm_fit_goes_on_with_its_shape(data):
    X, y = data()
    kind = BayesianGLMRegressor if data is measured else BayesianGLMClassifier
    model = kind(covariance="full", warm_start=True).fit(X, y)
    power, bound = model.prior_power_, model.lower_bound_
    model.fit(X, y)
    assert model.prior_power_ == power and model.lower_bound_ == pytest.approx(bound, abs=0.05)


@pytest.mark.costly
def test_a_warm_fit_after_a_stream_finds_its_shape():
    X, y = measured()
    model = BayesianGLMRegressor(warm_start=True).partial_fit(X, y)
    assert model.prior_power_ == 0
    assert model.fit(X, y).prior_power_ == BayesianGLMRegressor().fit(X, y).prior_power_


def test_columns_of_a_sparse_table_share_one_scale():
    """Its columns have a unit in common, so that a rare word's coefficient is no wider than another's."""
    rng = np.random.default_rng(0)
    X = sp.random(30, 80, 0.1, "csr", random_state=0, data_rvs=lambda n: rng.integers(1, 9, n) / 4.0)
    y = rng.standard_normal(30)
    model = BayesianGLMRegressor().fit(X, y)
    assert model.prior_power_ == 0
    np.testing.assert_allclose(model.prior_precision_, model.prior_precision_[0], rtol=1e-12)
    dense = BayesianGLMRegressor().fit(X.toarray(), y)
    assert np.ptp(dense.prior_precision_) > 1.0


@pytest.mark.filterwarnings("ignore:.*the data say nothing of the coefficient of a column that does not vary")
@pytest.mark.parametrize("rows", [np.ones((3, 6)), np.eye(3, 6), np.repeat(np.arange(6.0)[None], 2, 0)])
def test_rows_that_span_little_keep_equal_variances(rows):
    """Among them constants, which span nothing."""
    model = BayesianGLMRegressor().fit(rows, np.arange(float(len(rows))))
    assert model.prior_power_ == 0 and np.isfinite(model.summary()["std"].iloc[:6]).all()


def test_indicators_of_categories_keep_equal_variances():
    pd = pytest.importorskip("pandas")
    X, y = measured()
    frame = pd.DataFrame(X).assign(group=pd.Categorical(np.tile(["a", "b"], len(y) // 2)))
    frame.columns = frame.columns.astype(str)
    model = BayesianGLMRegressor().fit(frame, y)
    assert model.prior_power_ == 0 and model._fitted.shapes is None
