"""Bounds at one q, row by row: identities with the fit, order, quadrature and optimizers, weights, levels, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import log_expit, logsumexp
from scipy.stats import multivariate_normal, norm
from scipy.stats import rayleigh as rayleigh_distribution
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sksvi import (
    BayesianGLMRegressor,
    CorrelatedTopicModel,
    GMEClassifier,
    GMERegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    StructuredLDA,
    likelihoods,
)
from sksvi.datasets import make_ctm
from sksvi.expectations import Quadrature
from sksvi.inspection import bound_report
from sksvi.models.mixed import noise_bounds

BOUNDS = ["optimal", "simple", "mean-field"]


def quiet(fit, *data, **options):
    """A fit whose warnings (few rows) are not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(*data, **options)


def grouped_counts(rng, n=60):
    """Counts of ten groups, an exposure for each row, named rows."""
    index = pd.Index([f"row {i}" for i in range(n)], name="id")
    X = pd.DataFrame({"x": rng.standard_normal(n), "group": rng.integers(10, size=n).astype(str)}, index=index)
    effect = 0.5 * rng.standard_normal(10)
    exposure = rng.uniform(0.5, 2.0, n)
    rate = exposure * np.exp(0.7 * X["x"] + effect[X["group"].astype(int)] + 0.6 * rng.standard_normal(n) + 1.0)
    return X, rng.poisson(rate), exposure


def point(bound, **options):
    return GMERegressor(
        likelihood="poisson", groups="group", bound=bound, hyperparameters="point", max_iter=30, **options
    )


# ---- the bound of the fit
@pytest.mark.parametrize("bound", BOUNDS)
def test_terms_less_the_divergence_are_the_bound_of_the_fit(bound, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y, exposure = grouped_counts(rng)
    weight = rng.integers(0, 3, len(y))
    model = quiet(point(bound).fit, X, y, sample_weight=weight, exposure=exposure)
    report = bound_report(model, X, y, sample_weight=weight, exposure=exposure)
    assert report.fitted == bound
    assert report.totals.loc[bound, "bound"] == pytest.approx(model.lower_bound_, abs=1e-8)
    assert report.totals.loc[bound, "above_fitted"] == 0.0
    np.testing.assert_allclose(report.totals["terms"], report.rows[list(report.totals.index)].sum(), rtol=1e-12)
    assert report.rows.index.equals(X.index) and np.all(report.rows[weight == 0] == 0.0)


CASES = {
    "binomial": (GMERegressor, lambda rng, n: rng.binomial(5, 0.4, n)[:, None] * [1, -1] + [0, 5], {}),
    "negative-binomial": (GMERegressor, lambda rng, n: rng.negative_binomial(2, 0.3, n), {}),
    "gaussian": (GMERegressor, lambda rng, n: rng.standard_normal(n), {}),
    "student-t": (GMERegressor, lambda rng, n: rng.standard_t(3, n), {}),
    "ordinal": (GMERegressor, lambda rng, n: rng.integers(0, 3, n), {}),
    "logit": (GMEClassifier, lambda rng, n: rng.permutation(np.arange(n) % 3 == 0), {"class_weight": "balanced"}),
    "probit": (GMEClassifier, lambda rng, n: rng.permutation(np.arange(n) % 2), {"class_weight": {1: 2.0}}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_likelihood_has_its_bound_and_the_order_of_bounds(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    kind, targets, options = CASES[name]
    X, y = rng.standard_normal((24, 2)), targets(rng, 24)
    model = quiet(kind(likelihood=name, noise=True, hyperparameters="point", max_iter=8, **options).fit, X, y)
    report = bound_report(model, X, y)
    assert report.totals.loc["optimal", "bound"] == pytest.approx(model.lower_bound_, abs=1e-8)
    assert (report.rows[["optimal - mean-field", "optimal - simple"]] > -1e-7).all(axis=None)
    assert report.groups.empty


def test_without_noise_no_assumption_has_a_price(global_random_seed):
    X, y, _ = grouped_counts(np.random.default_rng(global_random_seed))
    report = bound_report(quiet(point("auto", noise=False).fit, X, y), X, y)
    assert np.all(report.rows[["optimal - mean-field", "optimal - simple"]] == 0.0)


@pytest.mark.parametrize("bound", ["simple", "v1", "v2", "optimal"])
def test_a_sparse_process_has_the_bound_of_its_fit(bound, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(0, 6, (40, 1))
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(40)
    weight = None if bound == "optimal" else rng.integers(0, 3, 40)
    model = SparseGPRegressor(n_inducing=5, bound=bound, hyperparameters="point", max_iter=40, random_state=0)
    quiet(model.fit, X, y, sample_weight=weight)
    report = bound_report(model, X, y, sample_weight=weight)
    assert report.totals.loc[bound, "bound"] == pytest.approx(model.lower_bound_, abs=1e-8)
    assert (report.rows[["v1 - simple", "v2 - v1"]] > -1e-12).all(axis=None)
    assert report.totals.loc["optimal", "terms"] >= report.totals.loc["simple", "terms"]
    assert "optimal" not in report.rows


# ---- oracles
@pytest.mark.costly
def test_a_mixed_models_terms_are_those_of_quadrature(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.standard_normal((5, 1)), np.array([0, 1, 3, 9, 2])
    model = quiet(GMERegressor(likelihood="poisson", noise=True, hyperparameters="point", max_iter=10).fit, X, y)
    found = bound_report(model, X, y).rows
    m, v = model.predict_latent(X)
    v, sigma = v - model.noise_variance_, model.noise_scale_
    root = (np.arange(300) + 0.5) * 3.5 / 300  # f moves with the root of w2
    r, share = root**2, rayleigh_distribution.pdf(root**2) * 2.0 * root * 3.5 / 300
    z = np.linspace(-11, 11, 161)
    height = norm.logpdf(z) + np.log(z[1] - z[0])
    for i in range(5):
        u, w2 = m[i] + np.sqrt(v[i]) * z, sigma * r
        f = u[:, None, None] + np.sqrt(w2)[:, None] * z
        given = likelihoods.Poisson().log_prob(y[i], f)
        optimal = np.exp(height) @ logsumexp(given + height, axis=2) @ share
        assert found["optimal"][i] == pytest.approx(optimal, abs=1e-5)
        assert found["simple"][i] == pytest.approx(np.exp(height) @ (given @ np.exp(height)) @ share, rel=1e-5)

        def negative(at, m=m[i], v=v[i], y=y[i], w2=w2):
            b, s = at[0], np.exp(at[1])
            square = (b - m) ** 2 + s + v
            fits = np.exp(height) @ likelihoods.Poisson().log_prob(y, b + np.sqrt(s) * z)
            prior = -0.5 * share @ (np.log(2 * np.pi * w2) + square / w2)
            return -(fits + prior + 0.5 * np.log(2 * np.pi * np.e * s))

        assert found["mean-field"][i] == pytest.approx(-minimize(negative, [m[i], -1.0]).fun, abs=2e-3)


def test_a_documents_terms_are_those_of_an_optimizer_with_quadrature(global_random_seed):
    counts = make_ctm(30, 8, n_components=2, n_words=15.0, random_state=global_random_seed).data
    model = quiet(CorrelatedTopicModel(2, max_iter=8, random_state=0).fit, counts)
    found = bound_report(model, counts[:2]).rows
    logs, population = model.state_.q["topics"].moments, model.state_.q["population"]
    z = np.linspace(-7, 7, 281)
    height = norm.pdf(z) * (z[1] - z[0])
    centre, variance = population.location[0], population.scale[0, 0]
    for i in range(2):
        c = np.asarray(counts[i].todense(), float).ravel()

        def term(bound, at, c=c):
            m, s = at[0], np.exp(at[1])
            eta = m + s * z
            theta = np.exp(np.stack([log_expit(eta), log_expit(-eta)]))
            if bound == "optimal":
                words = np.log(theta.T @ np.exp(logs)) @ c
            elif bound == "simple":
                words = theta.T @ (logs @ c)
            else:
                words = np.logaddexp(m + logs[0], logs[1]) @ c - c.sum() * np.logaddexp(eta, 0.0)
            against = 0.5 * ((s**2 + (m - centre) ** 2) / variance - 1.0 + np.log(variance)) - at[1]
            return height @ words - against if bound != "mean-field" else float(height @ words) - against

        for bound in BOUNDS:
            starts = [(m, -0.5) for m in (-2.0, 0.0, 2.0)]
            best = max(-minimize(lambda at, b=bound: -term(b, at), start).fun for start in starts)
            assert best - 0.02 < found[bound].iloc[i] < best + 1e-3


def test_a_processs_terms_are_those_of_dense_algebra(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(0, 6, (30, 1))
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(30)
    model = SparseGPRegressor(n_inducing=4, hyperparameters="point", max_iter=30, random_state=0).fit(X, y)
    report = bound_report(model, X, y)
    kernel, noise, block = model.kernel_, model.noise_variance_, model.posterior_["inducing"]
    Z = model.inducing_points_
    H = np.linalg.solve(kernel(Z), kernel(Z, X)).T
    mean, s = model.mean_ + H @ block.mean, np.einsum("ij,jk,ik->i", H, block.cov, H)
    left = kernel(X) - H @ kernel(Z, X)
    R = left + noise * np.eye(30)
    joint = multivariate_normal.logpdf(y, mean, R) - 0.5 * np.trace(np.linalg.solve(R, H @ block.cov @ H.T))
    assert report.totals.loc["optimal", "terms"] == pytest.approx(joint, abs=1e-5)
    d = np.diagonal(left)
    simple = norm.logpdf(y, mean, noise**0.5) - 0.5 * (s + d) / noise
    v1 = norm.logpdf(y, mean, np.sqrt(noise + d)) - 0.5 * s / (noise + d)
    np.testing.assert_allclose(report.rows["simple"], simple, atol=1e-6)
    np.testing.assert_allclose(report.rows["v1"], v1, atol=1e-6)
    np.testing.assert_allclose(report.rows["v2"], norm.logpdf(y, mean, np.sqrt(noise + d + s)), atol=1e-6)


# ---- rows
def test_a_row_of_weight_k_counts_as_k_rows_and_levels_are_sums(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y, exposure = grouped_counts(rng)
    model = quiet(point("optimal").fit, X, y, exposure=exposure)
    weight = rng.integers(1, 4, len(y))
    at = np.repeat(np.arange(len(y)), weight)
    heavy = bound_report(model, X, y, sample_weight=weight, exposure=exposure)
    many = bound_report(model, X.iloc[at], y[at], exposure=exposure[at])
    np.testing.assert_allclose(heavy.totals, many.totals, rtol=1e-9)
    by_level = many.rows.groupby(X["group"].iloc[at].to_numpy()).sum()
    np.testing.assert_allclose(heavy.groups.loc["group", by_level.columns], by_level, rtol=1e-9)
    assert heavy.groups["rows"].sum() == len(y) and heavy.groups.index.names == ["group", "level"]


def test_an_unknown_level_has_the_variance_that_predictions_have(global_random_seed):
    X, y, exposure = grouped_counts(np.random.default_rng(global_random_seed))
    model = quiet(point("optimal").fit, X, y, exposure=exposure)
    new = X.head(6).assign(group=["0", "new", None, "1", "new", "2"])
    found = bound_report(model, new, y[:6], exposure=exposure[:6])
    m, v = model.predict_latent(new, offset=np.log(exposure[:6]))
    arguments = model.likelihood_, y[:6].astype(float), m, v - model.noise_variance_, model.noise_scale_, Quadrature()
    for name, terms in noise_bounds.BOUNDS.items():
        np.testing.assert_allclose(found.rows[name], terms(*arguments)[0], atol=1e-6)
    assert found.groups.loc[("group", "new"), "rows"] == 2
    assert found.groups["rows"].sum() == 6  # the row without a level is among them
    model.set_params(on_unseen="error")
    with pytest.raises(ValueError, match="levels of grouping column 'group'"):
        bound_report(model, new, y[:6], exposure=exposure[:6])


def test_the_worst_rows_come_first(global_random_seed):
    X, y, _ = grouped_counts(np.random.default_rng(global_random_seed))
    report = bound_report(quiet(point("mean-field").fit, X, y), X, y)
    worst = report.worst(3, "optimal - simple")
    assert worst["optimal - simple"].tolist() == report.rows["optimal - simple"].nlargest(3).tolist()
    both = report.rows[["optimal - mean-field", "optimal - simple"]].max(axis=1)
    assert report.worst(1).index[0] == both.idxmax()
    with pytest.raises(ValueError, match="difference must be one of"):
        report.worst(3, "optimal")


def test_documents_are_rows_and_their_bounds_have_an_order(global_random_seed):
    counts = make_ctm(40, 30, n_components=3, random_state=global_random_seed).data
    frame = pd.DataFrame(counts.toarray(), columns=[f"word {j}" for j in range(30)], index=np.arange(40) + 100)
    model = quiet(CorrelatedTopicModel(3, covariance="full", max_iter=15, random_state=0).fit, frame)
    report = bound_report(model, frame)
    assert report.rows.index.equals(frame.index)
    assert np.all(report.rows[["optimal - mean-field", "optimal - simple"]] >= 0.0)
    # documents of the fit are fitted to few nodes, those of the report to more
    assert -0.01 < report.totals.loc["optimal", "bound"] / model.lower_bound_ - 1.0 < 1e-4
    few = bound_report(model, frame.iloc[[3, 0]])
    np.testing.assert_allclose(few.rows, report.rows.iloc[[3, 0]], rtol=1e-12)


def test_a_pipeline_is_looked_through(global_random_seed):
    X, y, _ = grouped_counts(np.random.default_rng(global_random_seed))
    X = X[["x"]]
    inside = GMERegressor(likelihood="poisson", hyperparameters="point", max_iter=10)
    model = quiet(make_pipeline(StandardScaler(), inside).fit, X, y)
    report = bound_report(model, X, y)
    assert report.rows.index.equals(X.index)
    assert report.totals.loc["optimal", "bound"] == pytest.approx(model[-1].lower_bound_, abs=1e-8)


# ---- refusals
def test_estimators_with_one_bound_are_refused_by_a_list_of_the_others():
    X, y = np.arange(8.0)[:, None], np.arange(8.0) % 3
    topics = quiet(StructuredLDA(2, max_iter=2, random_state=0).fit, np.ones((4, 3)))
    glm = BayesianGLMRegressor().fit(X, y)
    classes = quiet(SparseGPClassifier(n_inducing=3, max_iter=3).fit, X, y > 0)
    for model in (topics, glm, classes):
        with pytest.raises(TypeError, match=r"has no choice of bound: GMERegressor, GMEClassifier, Corr.*SparseGPReg"):
            bound_report(model, X, y)
    counts = quiet(SparseGPRegressor(likelihood="poisson", n_inducing=3, max_iter=3).fit, X, y)
    with pytest.raises(TypeError, match="with Gaussian noise alone, not Poisson"):
        bound_report(counts, X, y)
    inside = GMERegressor(likelihood="poisson", max_iter=3)
    wrapped = quiet(TransformedTargetRegressor(inside, transformer=FunctionTransformer()).fit, X, y)
    with pytest.raises(TypeError, match="transformed target"):
        bound_report(wrapped, X, y)


def test_documents_have_no_weights():
    model = quiet(CorrelatedTopicModel(2, max_iter=2, random_state=0).fit, np.ones((4, 3)))
    for name in ("sample_weight", "offset", "exposure"):
        with pytest.raises(ValueError, match=f"{name} is given, and documents have none"):
            bound_report(model, np.ones((4, 3)), **{name: np.ones(4)})


def test_a_table_in_another_order_than_its_weights_is_told_of(global_random_seed):
    X, y, _ = grouped_counts(np.random.default_rng(global_random_seed))
    model = quiet(point("optimal").fit, X, y)
    weight = pd.Series(np.ones(len(y)), index=X.index[::-1])
    with pytest.warns(UserWarning, match="index"):
        bound_report(model, X, y, sample_weight=weight)
