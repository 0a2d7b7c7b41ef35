"""Hyperparameters with a posterior: evidence against quadrature, predictions as mixtures over nodes, files, weights."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import clone

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, load, save
from sksvi.likelihoods import Gaussian
from sksvi.linear_model._integrated import node_fits
from sksvi.models.linear import hyperposterior
from tests.chance import errors_allowed

LIKELIHOODS = ["gaussian", "student-t", "negative-binomial", "poisson", "logit"]
#: What the likelihoods that learn a parameter have nodes of, beside the scale of the coefficients.
COLUMNS = {
    "gaussian": {"std(residual)"},
    "student-t": {"df", "scale"},
    "negative-binomial": {"dispersion"},
    "poisson": set(),
    "logit": set(),
}


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def rows(name, rng, n=60, d=3):
    X = rng.standard_normal((n, d))
    f = X[:, :2] @ [0.8, -0.4] + 0.5
    draw = {
        "gaussian": lambda: f + rng.standard_normal(n),
        "student-t": lambda: f + rng.standard_t(4.0, n),
        "negative-binomial": lambda: rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, n)),
        "poisson": lambda: rng.poisson(np.exp(f)),
        "logit": lambda: rng.random(n) < 1 / (1 + np.exp(-f)),
    }
    return X, draw[name]().astype(float)


@pytest.fixture(scope="module", params=LIKELIHOODS)
def fitted(request, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rows(request.param, rng)
    return request.param, BayesianGLMRegressor(likelihood=request.param).fit(X, y), X, y


# ---- evidence
def norm_logpdf(y, cov):
    root = np.linalg.cholesky(cov)
    return -np.log(np.diag(root)).sum() - 0.5 * np.sum(np.linalg.solve(root, y) ** 2) - 0.5 * len(y) * np.log(2 * np.pi)


def evidence(model, X, y, size=121):
    """Log of the integral over log precision and log noise of exact evidence and priors, on a grid."""
    prior, scales = model._encoding.prior, model._encoding.scale_prior(model.likelihood_)
    (mean, precision), unit = prior.intercept, prior.unit
    Z = (X - model._encoding.columns.centre) / model._encoding.columns.scale
    H = np.linspace(scales.lowest[0], min(scales.highest[0], scales.lowest[0] + 25.0), size)
    S = 2.0 * np.log(unit) + np.linspace(-7.0, 3.0, size)
    noise = np.exp(S)
    ratio = noise / unit**2
    log_prior = 0.5 * np.log(ratio) - np.log1p(ratio) - np.log(np.pi)  # half-Cauchy deviation in units of the target
    out = np.empty((size, size))
    for row, h in zip(out, H, strict=True):
        values, vectors = np.linalg.eigh(np.exp(-h) * Z @ Z.T + 1.0 / precision)
        square, variance = np.square(vectors.T @ (y - mean)), values + noise[:, None]
        row[:] = -0.5 * np.sum(np.log(2 * np.pi * variance) + square / variance, axis=1) + log_prior
        row += float(scales.log_density(np.array([h])))
    ends = np.ones(size)
    ends[[0, -1]] = 0.5
    return logsumexp(out, b=np.outer(ends, ends)) + np.log((H[1] - H[0]) * (S[1] - S[0]))


@pytest.mark.parametrize(("n", "d"), [(12, 2), (24, 2), (24, 8)])
def test_the_bound_is_the_log_evidence(n, d, rng):
    X, y = rows("gaussian", rng, n, d)
    model = BayesianGLMRegressor().fit(X, y)
    assert model.lower_bound_ == pytest.approx(evidence(model, X, y), abs=0.1 if d == 2 else 0.15)
    # Hyperparameters with no mass elsewhere: the bound at their mode, with the density there, is another number, which
    # is as near as chance has it: their volume is one where they have the deviation 1 / √2π.
    assert model.lower_bounds_[-1] != model.lower_bound_


@pytest.mark.costly
@pytest.mark.parametrize(("n", "d"), [(10, 20), (30, 30), (30, 60)])
def test_noise_of_rows_that_coefficients_could_fit_is_not_nothing(n, d, global_random_seed):
    """The evidence has a plateau at no noise, which a fit took for its mode in up to four of ten sets."""
    held = []
    for seed in range(40):
        rng = np.random.default_rng([global_random_seed, seed])
        X = rng.standard_normal((n, d))
        model = BayesianGLMRegressor().fit(X, 1.0 + X[:, 0] + X[:, 1] + rng.standard_normal(n))
        noise = model.summary().loc["std(residual)"]
        assert noise["mean"] > 0.03 and model.lower_bound_ < 0.0
        held.append(noise["lower"] < 1.0 < noise["upper"])
    assert np.mean(held) > 0.88 - 4 * np.sqrt(0.88 * 0.12 / 40)


@pytest.mark.costly
@pytest.mark.parametrize(("name", "n", "d"), [("weibull", 20, 10), ("log-logistic", 30, 60), ("weibull", 30, 60)])
def test_parameters_that_few_rows_tell_of_have_a_posterior(name, n, d, global_random_seed):
    """To first order about the weights of the fit the density of a scale grew to 1e239 nats."""
    held = []
    for seed in range(16):
        rng = np.random.default_rng([global_random_seed, seed, 2])
        X = rng.standard_normal((n, d))
        noise = np.log(rng.weibull(2.0, n)) if name == "weibull" else 0.5 * rng.logistic(size=n)
        model = BayesianGLMRegressor(likelihood=name).fit(X, np.exp(1.0 + 0.5 * X[:, 0] + noise))
        assert abs(model.lower_bound_ - model.lower_bounds_[-1]) < 15.0
        scale = model.summary().loc["scale"]
        held.append(scale["lower"] < 0.5 < scale["upper"])
    assert np.mean(held) > 0.85 - 4 * np.sqrt(0.85 * 0.15 / 16)


def test_a_noise_that_is_known_leaves_the_scale(rng):
    X, y = rows("gaussian", rng, 24, 8)
    model = BayesianGLMRegressor(likelihood=Gaussian(variance=1.0)).fit(X, y)
    table = model.hyperparameter_posterior_
    assert list(table.columns) == ["weight", "scale(coefficients)"]
    scales, (mean, precision) = model._encoding.scale_prior(model.likelihood_), model._encoding.prior.intercept
    Z = (X - model._encoding.columns.centre) / model._encoding.columns.scale
    H = np.linspace(scales.lowest[0], scales.lowest[0] + 25.0, 2000)
    logs = []
    for h in H:
        cov = np.exp(-h) * Z @ Z.T + 1.0 / precision + np.eye(24)
        quadratic = (y - mean) @ np.linalg.solve(cov, y - mean)
        logs.append(-0.5 * (np.linalg.slogdet(2 * np.pi * cov)[1] + quadratic) + float(scales.log_density(h[None])))
    assert model.lower_bound_ == pytest.approx(logsumexp(logs) + np.log(H[1] - H[0]), abs=0.1)
    share = np.exp(logs - logsumexp(logs))
    log_scale = share @ (-0.5 * H) - np.log(2.0)
    std = 0.5 * np.sqrt(share @ np.square(H - share @ H))
    found = table["weight"] @ np.log(table["scale(coefficients)"])
    assert found == pytest.approx(log_scale, abs=0.35 * std)


@pytest.mark.parametrize("coef, shared", [((0.0, 0.0), 0.7), ((1.0, 0.0), 0.0), ((2.0, -1.0), 0.7)])
def test_the_bound_of_scales_of_their_own_is_the_log_evidence(coef, shared, rng):
    """By quadrature over both scales of orthogonal columns, of others over each at the other's; a point's is above."""
    X = np.linalg.qr(np.column_stack([np.ones(30), rng.standard_normal((30, 2))]))[0][:, 1:] * np.sqrt(30)
    X[:, 1] += shared * X[:, 0]
    y = X @ coef + rng.standard_normal(30)
    options = {"likelihood": Gaussian(variance=1.0), "prior_precision": "ard", "tol": 1e-9, "max_iter": 2000}
    model = BayesianGLMRegressor(**options).fit(X, y)
    (mean, precision), scale = model._encoding.prior.intercept, model._encoding.columns.scale
    Z = (X - model._encoding.columns.centre) / scale
    cov, outer = np.eye(30) + 1.0 / precision, np.einsum("ij,kj->jik", Z, Z)

    def log_evidence(v, w):
        return norm_logpdf(y - mean, cov + v * outer[0] + w * outer[1])

    middle = np.log(2.0 * model._encoding.prior.unit * hyperposterior.SCALE / np.sqrt(2.0))
    moves = np.linspace(-9.5, 9.5, 39)
    variances, share = np.exp(2.0 * (middle + moves)), 1.0 / np.cosh(moves) / np.sum(1.0 / np.cosh(moves))
    first, second = np.square(scale) / model.prior_precision_
    each = [[log_evidence(v, second) for v in variances], [log_evidence(first, w) for w in variances]]
    found = logsumexp(each, axis=1, b=share).sum() - log_evidence(first, second)
    assert model.lower_bound_ == pytest.approx(found, abs=0.01)
    if not shared:
        logs = [log_evidence(v, w) for v in variances for w in variances]
        assert found == pytest.approx(logsumexp(logs, b=np.outer(share, share).ravel()), abs=0.01)
    point = BayesianGLMRegressor(**options, hyperparameters="point").fit(X, y)
    assert point.lower_bound_ > model.lower_bound_ + 0.15


def test_a_price_of_scales_in_any_units_and_in_streams(rng):
    X, y = rows("gaussian", rng)
    models = [BayesianGLMRegressor(prior_precision="ard").fit(part, y) for part in (X, X * [1e3, 1.0, 1e-3])]
    assert models[0].lower_bound_ == pytest.approx(models[1].lower_bound_, abs=1e-3)
    stream = BayesianGLMRegressor(prior_precision="ard").partial_fit(X, y)
    assert stream.lower_bound_ == pytest.approx(models[0].lower_bound_, abs=1.0)


# ---- nodes
def test_nodes_of_every_likelihood(fitted):
    name, model, _, _ = fitted
    table = model.hyperparameter_posterior_
    assert table["weight"].sum() == pytest.approx(1.0)
    assert set(table.columns) == {"weight", "scale(coefficients)"} | COLUMNS[name]
    assert np.all(table > 0)
    assert len(table) > 1 and table.index.name == "node"


def test_a_point_has_no_nodes(rng):
    model = BayesianGLMRegressor(hyperparameters="point").fit(*rows("gaussian", rng))
    with pytest.raises(AttributeError, match="is there after a fit with hyperparameters='integrated' that learned any"):
        model.hyperparameter_posterior_  # noqa: B018
    fixed = BayesianGLMRegressor(likelihood=Gaussian(variance=1.0), prior_precision=1.0).fit(*rows("gaussian", rng))
    assert not hasattr(fixed, "hyperparameter_posterior_")
    assert not hasattr(BayesianGLMRegressor(), "hyperparameter_posterior_")


def test_integrated_intervals_are_wider(rng):
    X, y = rows("gaussian", rng, 12, 2)
    point, integrated = (BayesianGLMRegressor(hyperparameters=h).fit(X, y) for h in ("point", "integrated"))
    widths = [np.diff(model.predict_interval(X, coverage=0.98)).mean() for model in (point, integrated)]
    assert widths[1] > widths[0]
    assert point.lower_bounds_[-1] == pytest.approx(integrated.lower_bounds_[-1])


# ---- predictions
def nodes(model, X):
    """Weight, mean and variance of f at every node, and what the likelihood has there."""
    table, view = model.hyperparameter_posterior_, model.posterior_["weights"]
    design = np.column_stack([X, np.ones(len(X))])
    for (_, row), weight, part in zip(table.iterrows(), view.weights, view.components, strict=True):
        assert weight == row["weight"]
        yield weight, design @ part.mean, np.einsum("np,pq,nq->n", design, part.cov, design), row


def test_predictions_of_measured_targets_are_mixtures(rng):
    X, y = rows("gaussian", rng, 15)
    model = BayesianGLMRegressor().fit(X, y)
    parts = list(nodes(model, X))
    assert len(parts) > 2
    stds = [np.sqrt(v + row["std(residual)"] ** 2) for _, _, v, row in parts]
    logs = [np.log(w) + norm.logpdf(y, m, s) for (w, m, _, _), s in zip(parts, stds, strict=True)]
    np.testing.assert_allclose(model.log_predictive_density(X, y), logsumexp(logs, axis=0), rtol=1e-7)
    mean = sum(w * m for w, m, _, _ in parts)
    np.testing.assert_allclose(model.predict(X), mean, rtol=1e-8)
    for level in (0.05, 0.5, 0.99):
        quantile = model.predict_quantiles(X, [level])[:, 0]
        cdf = sum(w * norm.cdf(quantile, m, s) for (w, m, _, _), s in zip(parts, stds, strict=True))
        np.testing.assert_allclose(cdf, level, rtol=1e-6)


def test_latents_and_coefficients_are_mixtures(fitted):
    _, model, X, _ = fitted
    parts = list(nodes(model, X))
    mean = sum(w * m for w, m, _, _ in parts)
    variance = sum(w * (v + np.square(m - mean)) for w, m, v, _ in parts)
    m, v = model.predict_latent(X)
    np.testing.assert_allclose(m, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(v, variance, rtol=1e-8)
    view = model.posterior_["weights"]
    np.testing.assert_allclose(model.coef_, view.weights @ [part.mean[:-1] for part in view.components])
    np.testing.assert_allclose(np.square(model.coef_std_), np.diag(view.cov)[:-1], rtol=1e-9)


def test_log_densities_of_every_likelihood(fitted):
    """Where a likelihood has nodes of its own no component is merged."""
    name, model, X, y = fitted
    z, share = np.polynomial.hermite_e.hermegauss(80)
    share = share / share.sum()
    logs = []
    for fit, (w, m, v, _) in zip(node_fits(model), nodes(model, X), strict=True):
        f = m[:, None] + np.sqrt(v)[:, None] * z
        own = fit.likelihood.log_prob(np.broadcast_to(y[:, None], f.shape), f)
        logs.append(np.log(w) + logsumexp(own, axis=1, b=share))
    wanted = logsumexp(logs, axis=0)
    # Neighbours in spread are merged by their moments where only the scale of the coefficients has nodes.
    np.testing.assert_allclose(model.log_predictive_density(X, y), wanted, atol=1e-5 if COLUMNS[name] else 0.02)


def test_draws_of_the_weights(fitted, global_random_seed):
    _, model, _, _ = fitted
    view, n = model.posterior_["weights"], 10_000
    draws = view.sample(n, random_state=global_random_seed)
    off = draws - view.mean
    p = draws.shape[1]
    allowed = errors_allowed(p + p * (p + 1) // 2) / np.sqrt(n)
    assert np.all(np.abs(off.mean(0)) <= allowed * draws.std(0))
    products = off[:, :, None] * off[:, None, :]
    assert np.all(np.abs(products.mean(0) - view.cov) <= allowed * products.std(0))


# ---- the same fit again
def test_files_and_pickles_keep_every_bit(fitted, tmp_path):
    _, model, X, _ = fitted
    save(model, tmp_path / "model.sksvi")
    for copy in (load(tmp_path / "model.sksvi"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.predict_interval(X), model.predict_interval(X))
        pd.testing.assert_frame_equal(copy.summary(), model.summary(), check_exact=True)
        pd.testing.assert_frame_equal(copy.hyperparameter_posterior_, model.hyperparameter_posterior_, check_exact=True)
        assert copy.lower_bound_ == model.lower_bound_


def test_a_clone_and_more_threads_fit_the_same_bits(fitted):
    _, model, X, y = fitted
    again = clone(model).set_params(n_jobs=2).fit(X, y)
    pd.testing.assert_frame_equal(again.hyperparameter_posterior_, model.hyperparameter_posterior_, check_exact=True)
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
    assert not hasattr(clone(model), "hyperparameter_posterior_")


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_row_of_weight_two_is_two_rows(name, rng):
    X, y = rows(name, rng, 40)
    weight = rng.integers(1, 3, 40)
    at = np.repeat(np.arange(40), weight)
    model = BayesianGLMRegressor(likelihood=name)
    weighted, repeated = clone(model).fit(X, y, sample_weight=weight.astype(float)), clone(model).fit(X[at], y[at])
    np.testing.assert_allclose(weighted.hyperparameter_posterior_, repeated.hyperparameter_posterior_, rtol=1e-6)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(weighted.predict_latent(X), repeated.predict_latent(X), rtol=1e-7, atol=1e-8)
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, rel=1e-8)


# ---- other shapes
@pytest.mark.parametrize("name", ["gaussian", "logit"])
def test_more_columns_than_rows(name, rng):
    X, y = rows(name, rng, 15, 40)
    model = BayesianGLMRegressor(likelihood=name).fit(X, y)
    table = model.hyperparameter_posterior_
    assert len(table) > 1 and np.all(table > 0)
    view = model.posterior_["weights"]
    new = rng.standard_normal((6, 40))
    design = np.column_stack([new, np.ones(6)])
    m, v = model.predict_latent(new)
    np.testing.assert_allclose(m, design @ view.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(v, view.spread(design), rtol=1e-7)
    np.testing.assert_allclose(model.coef_std_, view.std[:-1])
    table = model.summary()
    assert np.all(np.isfinite(table.iloc[:41])) and np.all(table["std"].iloc[:40] >= 0.99 * model.coef_std_)


def test_three_classes(rng):
    X = rng.standard_normal((60, 2))
    f = np.column_stack([np.zeros(60), X[:, 0], -X[:, 1]]) + rng.gumbel(size=(60, 3))
    y = np.array(["a", "b", "c"])[f.argmax(1)]
    model = BayesianGLMClassifier().fit(X, y)
    table = model.hyperparameter_posterior_
    assert table["weight"].sum() == pytest.approx(1.0) and len(table) > 1 and np.all(table > 0)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert np.mean(model.predict(X) == y) > 0.45
    view, (m, _) = model.posterior_["weights"], model.predict_latent(X)
    np.testing.assert_allclose(m, np.column_stack([X, np.ones(60)]) @ view.mean.T, rtol=1e-8, atol=1e-10)
    own, joint = model.summary(), model.summary(effects="joint")
    assert list(own.index) == list(joint.index)
    np.testing.assert_allclose(joint.loc["b"]["mean"], [*model.coef_[1], model.intercept_[1]])
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), p)
