"""k-hat, evidence and corrected coefficients: closed forms, quadrature, ArviZ, posteriors that are known to be bad."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal, norm
from scipy.stats import t as student_t
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sksvi
from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    DynamicGLM,
    GMERegressor,
    GPClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
    StructuredLDA,
    likelihoods,
    load,
)
from sksvi.inspection import _posterior, check_posterior

ALONE = {"prior_precision": 0.5, "fit_intercept": False}
#: Under a wide prior the tail of the ratios may be heavier than a standard error knows (a k-hat above 0.7), nats.
TAIL = 0.02


def quiet(fit, *data, **options):
    """A fit whose warnings (few rows, chance separation) are not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(*data, **options)


# ---- posteriors that are known
def test_an_exact_posterior_has_no_tail_and_its_bound_is_the_evidence(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((40, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.standard_normal(40)
    model = BayesianGLMRegressor(likelihood=likelihoods.Gaussian(variance=1.5), **ALONE).fit(X, y)
    found = check_posterior(model, X, y, n_draws=500)
    evidence = multivariate_normal.logpdf(y, np.zeros(40), 1.5 * np.eye(40) + X @ X.T / 0.5)
    assert found.k_hat == -np.inf and found.std_error < 1e-8
    assert found.effective_sample_size == pytest.approx(500)
    assert found.log_evidence == pytest.approx(evidence, abs=1e-8)
    assert found.lower_bound == pytest.approx(evidence, abs=1e-8)
    table = found.coefficients
    np.testing.assert_allclose(table["corrected_mean"], model.coef_, atol=1e-10)
    np.testing.assert_allclose(table["corrected_std"], model.coef_std_, rtol=1e-8)
    assert table.index.equals(model.summary().index[:3])


def logistic(rng):
    """Few rows: a posterior that is skewed, and its moments by quadrature."""
    X = rng.standard_normal((8, 2))
    y = (rng.random(8) < expit(X @ [2.0, -1.0])).astype(int)
    y[:2] = [0, 1]
    at = np.linspace(-12, 12, 401)
    w = np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1).reshape(-1, 2)
    f = w @ X.T
    heights = (y * f - np.logaddexp(0, f)).sum(1) + norm.logpdf(w, scale=0.7**-0.5).sum(1)
    weight = np.exp(heights - heights.max())
    weight /= weight.sum()
    mean = weight @ w
    return X, y, logsumexp(heights) + 2 * np.log(at[1] - at[0]), mean, np.sqrt(weight @ np.square(w - mean))


def test_a_skewed_posterior_is_corrected_towards_quadrature(global_random_seed):
    X, y, evidence, mean, std = logistic(np.random.default_rng(global_random_seed))
    model = quiet(BayesianGLMClassifier(prior_precision=0.7, fit_intercept=False).fit, X, y)
    found = check_posterior(model, X, y, n_draws=100_000, random_state=global_random_seed)
    assert found.k_hat < 0.7 and found.lower_bound < evidence
    assert abs(found.log_evidence - evidence) < min(4 * found.std_error, evidence - found.lower_bound)
    table = found.coefficients
    assert np.all(np.abs(table["corrected_mean"] - mean) < 4 * table["mc_error"])
    for name, true in (("mean", mean), ("std", std)):
        before, after = (np.linalg.norm(table[column] - true) for column in (name, f"corrected_{name}"))
        assert after < max(before, 4 * np.linalg.norm(table["mc_error"]))


def line(likelihood, x, y, weight, offset):
    """Log evidence of one coefficient, prior precision ½, by the trapezoidal rule."""
    w = np.linspace(-12, 12, 4001)
    f = w[:, None] * x + (0.0 if offset is None else offset)
    heights = likelihood.log_prob(y, f) @ weight + norm.logpdf(w, scale=0.5**-0.5)
    return logsumexp(heights) + np.log(w[1] - w[0])


ONE_COEFFICIENT = {
    "student-t": likelihoods.StudentT(scale=0.7, df=3.0),
    "poisson": likelihoods.Poisson(),
    "poisson-softplus": likelihoods.Poisson(rate="softplus"),
    "negative-binomial": likelihoods.NegativeBinomial(dispersion=0.5),
    "binomial": likelihoods.Binomial(),
    "probit": likelihoods.Bernoulli(link="probit"),
    "ordinal": likelihoods.Ordinal(cut_points=np.array([-0.5, 0.8])),
}


@pytest.mark.parametrize("name", ONE_COEFFICIENT)
def test_every_likelihood_has_the_evidence_of_quadrature(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    likelihood, n = ONE_COEFFICIENT[name], 25
    x, offset, weight = rng.standard_normal(n), 0.3 * rng.standard_normal(n), rng.integers(1, 3, n).astype(float)
    y = likelihood.sample(0.8 * x + offset, rng)
    y = np.column_stack([y * 4, 4 - 4 * y]).round() if likelihood.traits.paired else y
    if likelihood.traits.ordered:
        y[:3] = [0, 1, 2]
    model = BayesianGLMRegressor(likelihood=likelihood, **ALONE)
    quiet(model.fit, x[:, None], y, sample_weight=weight, offset=offset)
    found = check_posterior(model, x[:, None], y, sample_weight=weight, offset=offset)
    evidence = line(likelihood, x, y, weight, offset)
    assert abs(found.log_evidence - evidence) < 4 * found.std_error + TAIL
    assert found.lower_bound == pytest.approx(model.lower_bound_, abs=1e-6)


@pytest.mark.costly
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_classes_have_the_evidence_of_quadrature(covariance, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    x, y = rng.standard_normal(12), np.arange(12) % 3
    model = quiet(BayesianGLMClassifier(covariance=covariance, **ALONE).fit, x[:, None], y)
    found = check_posterior(model, x[:, None], y, n_draws=8000)
    at = np.linspace(-9, 9, 41)
    w = np.stack(np.meshgrid(at, at, at, indexing="ij"), axis=-1).reshape(-1, 3)
    f = w[:, None, :] * x[:, None]
    values = np.take_along_axis(f, y[None, :, None], 2)[..., 0] - logsumexp(f, axis=2)
    heights = values.sum(1) + norm.logpdf(w, scale=0.5**-0.5).sum(1)
    evidence = logsumexp(heights) + 3 * np.log(at[1] - at[0])
    # A q without covariances between classes is too narrow for its own standard error.
    error = 4 * found.std_error + TAIL if covariance == "full" else 0.5 * (evidence - found.lower_bound)
    assert abs(found.log_evidence - evidence) < error
    assert list(found.coefficients.index.get_level_values("class")) == [0, 1, 2]


# ---- posteriors that are known to be bad
def test_independent_coefficients_of_columns_that_are_alike_are_found_out(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    common = rng.standard_normal(300)
    X = common[:, None] + 0.3 * rng.standard_normal((300, 8))
    y = rng.random(300) < expit(common)
    full, diag = (
        check_posterior(quiet(BayesianGLMClassifier(prior_precision=1.0, covariance=kind).fit, X, y), X, y)
        for kind in ("full", "diag")
    )
    assert full.k_hat < 0.7 < diag.k_hat
    assert diag.effective_sample_size < full.effective_sample_size
    narrow, wide = (found.coefficients["std"].drop("intercept") for found in (diag, full))
    assert np.all(narrow < 0.6 * wide)


@pytest.mark.parametrize("factor", [0.25, 4.0], ids=["too wide", "too narrow"])
def test_a_posterior_of_half_the_width_is_found_out(factor, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((300, 3))
    y = rng.random(300) < expit(X[:, 0])
    model = quiet(BayesianGLMClassifier(prior_precision=1.0).fit, X, y)
    good, q = check_posterior(model, X, y), model.state_.q
    model.state_ = replace(model.state_, q={**q, "weights": q["weights"].narrowed(factor)})
    with pytest.warns(UserWarning, match="or q was changed since"):
        found = check_posterior(model, X, y)
    assert (found.k_hat > 0.7) == (factor > 1)
    assert found.effective_sample_size < 0.5 * good.effective_sample_size
    assert found.lower_bound < good.lower_bound - 0.1


# ---- groups and noise
def hyper_density(model, unit):
    """Half-Student-t of the groups' standard deviations over a unit, in their logarithms."""
    s = np.exp(model.state_.q["group_std"].value) / unit
    return float(np.sum(np.log(2.0 * s / 2.5) + student_t(3).logpdf(s / 2.5)))


def groups(rng, n=60):
    X = pd.DataFrame({"x": rng.standard_normal(n), "g": rng.choice(list("abcde"), n)})
    return X, 0.5 * X["x"].to_numpy() + rng.standard_normal(5)[X["g"].map("abcde".index)]


def test_groups_are_drawn_with_the_coefficients(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, f = groups(rng)
    y = f + rng.standard_normal(60)
    options = {"likelihood": likelihoods.Gaussian(variance=1.0), "groups": "g"}
    model = GMERegressor(prior_precision=0.5, fit_intercept=False, **options).fit(X, y)
    found = check_posterior(model, X, y, n_draws=2000)
    spread = np.exp(2 * model.state_.q["group_std"].value[0])
    same = X["g"].to_numpy()[:, None] == X["g"].to_numpy()
    cov = np.eye(60) + spread * same + np.outer(X["x"], X["x"]) / 0.5
    evidence = multivariate_normal.logpdf(y, np.zeros(60), cov)
    assert found.lower_bound <= evidence + 1e-8
    assert abs(found.log_evidence - evidence) < 4 * found.std_error + 1e-8
    assert found.k_hat < 0.7 and found.coefficients.index.tolist() == ["x"]


def test_noise_of_each_row_is_integrated_out(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    x = rng.standard_normal(15)
    y = rng.poisson(np.exp(0.7 * x + 0.8 * rng.standard_normal(15))).astype(float)
    model = quiet(GMERegressor(likelihood="poisson", noise=True, noise_prior_scale=1.0, **ALONE).fit, x[:, None], y)
    found = check_posterior(model, x[:, None], y)
    w, w2 = np.linspace(-5, 5, 61), np.linspace(0.0, 6.0, 49)[1:]
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    f = w[:, None, None, None] * x[:, None] + np.sqrt(w2)[:, None, None] * nodes
    each = logsumexp(likelihoods.Poisson().log_prob(y[:, None], f), b=weights / weights.sum(), axis=-1)
    heights = each.sum(-1) + norm.logpdf(w, scale=0.5**-0.5)[:, None] + np.log(w2) - 0.5 * w2**2
    evidence = logsumexp(heights) + np.log((w[1] - w[0]) * (w2[1] - w2[0]))
    assert abs(found.log_evidence - evidence) < 4 * found.std_error + TAIL
    assert found.lower_bound == pytest.approx(model.lower_bound_, abs=1e-6) and found.lower_bound < evidence


def test_rows_without_a_level_have_effects_of_their_own(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, f = groups(rng)
    X.loc[[3, 9], "g"] = None
    y = f + rng.standard_normal(60)
    model = GMERegressor(
        groups="g", random_slopes="x", correlated=False, prior_precision=0.5, hyperparameters="point"
    ).fit(X, y)
    found = check_posterior(model, X, y, n_draws=100)
    assert found.lower_bound == pytest.approx(model.lower_bound_ - hyper_density(model, y.std()), abs=1e-6)
    with pytest.raises(ValueError, match="grouping column 'g' has 3 rows without a level, and the fit had 2"):
        check_posterior(model, X.assign(g=X["g"].where(X.index != 20)), y)


# ---- Gaussian processes and series
@pytest.mark.parametrize("bound", ["simple", "optimal", "v1"])
def test_a_sparse_process_of_gaussian_noise_is_exact(bound, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(0, 6, (80, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(80)
    model = SparseGPRegressor(bound=bound, n_inducing=8, random_state=0, hyperparameters="point").fit(X, y)
    found = check_posterior(model, X, y, n_draws=400)
    assert found.k_hat == -np.inf
    assert found.log_evidence == pytest.approx(model.lower_bound_, abs=1e-6)
    assert found.lower_bound == pytest.approx(model.lower_bound_, abs=1e-6)
    np.testing.assert_allclose(found.coefficients["corrected_mean"], found.coefficients["mean"], atol=1e-6)


def test_v2_is_compared_with_the_posterior_of_v1(global_random_seed):
    """Its own terms are no density of y: what it finds differs from FITC's posterior, and the bound says so."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(0, 6, (80, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(80)
    fixed = {"kernel": RBF(1.0), "noise_variance": 0.1, "optimize_hyperparameters": False, "optimize_inducing": False}
    v1, v2 = (SparseGPRegressor(bound=b, n_inducing=8, random_state=0, **fixed).fit(X, y) for b in ("v1", "v2"))
    found = check_posterior(v2, X, y)
    assert abs(found.log_evidence - v1.lower_bound_) < 4 * found.std_error + 1e-9
    assert found.lower_bound < v1.lower_bound_


def test_all_rows_as_inducing_points_are_a_full_process(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(0, 6, (30, 1))
    y = rng.random(30) < expit(2 * np.sin(X[:, 0]))
    fixed = {"kernel": 4.0 * RBF(1.5), "optimize_hyperparameters": False}
    sparse = SparseGPClassifier(n_inducing=30, optimize_inducing=False, random_state=0, **fixed).fit(X, y)
    full = GPClassifier(**fixed).fit(np.r_[X, X[:5]], np.r_[y, y[:5]], sample_weight=np.r_[np.ones(30), np.zeros(5)])
    a = check_posterior(sparse, X, y)
    b = check_posterior(full, X, y, random_state=1)
    assert abs(a.log_evidence - b.log_evidence) < 4 * np.hypot(a.std_error, b.std_error) + TAIL
    assert a.lower_bound == pytest.approx(b.lower_bound, abs=1e-3)
    assert b.coefficients.index.tolist() == list(range(30)) and b.coefficients.index.name == "row"
    order = np.argsort(sparse.inducing_points_[:, 0])[np.argsort(np.argsort(X[:, 0]))]
    here = a.coefficients.iloc[order]
    error = np.hypot(here["mc_error"].to_numpy(), b.coefficients["mc_error"].to_numpy())
    off = np.abs(here["corrected_mean"].to_numpy() - b.coefficients["corrected_mean"].to_numpy())
    assert np.all(off < 5 * error + 0.01)


def test_several_classes_of_a_sparse_process(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.standard_normal((30, 2)), np.arange(30) % 3
    fixed = {"kernel": RBF(1.0), "optimize_hyperparameters": False, "optimize_inducing": False}
    model = SparseGPClassifier(n_inducing=5, random_state=0, **fixed).fit(X, y)
    found = check_posterior(model, X, y, n_draws=500)
    assert found.lower_bound < found.log_evidence + 4 * found.std_error
    inducing = model.posterior_["inducing"]
    np.testing.assert_allclose(found.coefficients["mean"], inducing.mean.ravel(), atol=1e-9)
    rows = model.summary().index
    assert found.coefficients.index.isin(rows).all() and len(found.coefficients) == 15


@pytest.mark.costly
def test_a_series_has_the_evidence_that_it_says_itself(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y = rng.poisson(np.exp(np.cumsum(0.2 * rng.standard_normal(60)))).astype(float)
    y[7] = np.nan
    model = DynamicGLM(level="walk", hyperparameters="point").fit(None, y)
    found, own = check_posterior(model), model.log_evidence(2000, 1)
    assert abs(found.log_evidence - own.value) < 4 * np.hypot(found.std_error, own.std_error)
    assert found.lower_bound == pytest.approx(model.lower_bound_, abs=1e-6)
    assert found.coefficients.index.equals(model.index_)
    with pytest.raises(ValueError, match="holds its series: leave y out"):
        check_posterior(model, None, y)
    table = pd.DataFrame({"s": np.repeat(["a", "b"], 30)})
    with pytest.raises(ValueError, match=r"check_posterior is of one series, .* ask one of series_"):
        check_posterior(DynamicGLM(groups="s").fit(table, rng.poisson(3.0, 60)))


# ---- designs
def test_more_columns_than_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((15, 40))
    y = X[:, 0] + rng.standard_normal(15)
    options = {"likelihood": likelihoods.Gaussian(variance=1.0), **ALONE}
    model = BayesianGLMRegressor(**options).fit(X, y)
    found = check_posterior(model, X, y, n_draws=300)
    evidence = multivariate_normal.logpdf(y, np.zeros(15), np.eye(15) + X @ X.T / 0.5)
    assert found.k_hat == -np.inf and found.log_evidence == pytest.approx(evidence, abs=1e-8)
    np.testing.assert_allclose(found.coefficients["corrected_std"], model.coef_std_, rtol=1e-8)
    with pytest.raises(ValueError, match="row 0 of X is none of the fit's"):
        check_posterior(model, rng.standard_normal((15, 40)), y)


@pytest.mark.parametrize("form", ["sparse", "single", "merged"])
def test_forms_of_one_design_say_the_same(form, global_random_seed):
    import scipy.sparse as sp

    rng = np.random.default_rng(global_random_seed)
    X = rng.integers(-2, 3, (60, 4)).astype(float)
    y = rng.poisson(np.exp(0.3 * X[:, 0]))
    plain = check_posterior(BayesianGLMRegressor(likelihood="poisson", **ALONE).fit(X, y), X, y)
    other = {"sparse": sp.csr_array(X), "single": X.astype(np.float32), "merged": pd.DataFrame(X)}[form]
    found = check_posterior(BayesianGLMRegressor(likelihood="poisson", **ALONE).fit(other, y), other, y)
    assert found.log_evidence == pytest.approx(plain.log_evidence, abs=1e-4)
    np.testing.assert_allclose(found.coefficients, plain.coefficients, atol=1e-4)


def test_a_stream_is_checked_against_all_its_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((90, 2))
    y = rng.poisson(np.exp(0.4 * X[:, 0]))
    model = BayesianGLMRegressor(likelihood="poisson", prior_precision=1.0)
    for rows in np.split(np.arange(90), 3):
        model.partial_fit(X[rows], y[rows])
    whole = check_posterior(BayesianGLMRegressor(likelihood="poisson", prior_precision=1.0).fit(X, y), X, y)
    found = check_posterior(model, X, y)
    assert found.effective_sample_size > 0.9 * whole.effective_sample_size
    assert abs(found.lower_bound - whole.lower_bound) < 0.5  # the prior of the intercept is that of the first rows
    with pytest.raises(ValueError, match="total weight of 30, and this BayesianGLMRegressor was fitted to 90"):
        check_posterior(model, X[:30], y[:30])
    forgetful = BayesianGLMRegressor(likelihood="poisson", forgetting=0.5).partial_fit(X, y).partial_fit(X, y)
    with pytest.raises(ValueError, match="counts what its stream said as that of 135 rows, and has seen 180"):
        check_posterior(forgetful, np.r_[X, X], np.r_[y, y])


# ---- calls
@pytest.fixture
def fitted(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(rng.standard_normal((3000, 3)), columns=list("abc"))
    y = rng.poisson(np.exp(0.3 * X["a"]))
    return X, y, BayesianGLMRegressor(likelihood="poisson")


def test_bits_depend_on_the_seed_alone_and_nothing_is_left_behind(fitted, monkeypatch):
    X, y, model = fitted
    model.fit(X, y)
    before = dict(vars(model))
    one, other, third = (
        check_posterior(model.set_params(n_jobs=jobs), X, y, n_draws=300, random_state=seed)
        for jobs, seed in ((1, 5), (3, 5), (1, 6))
    )
    model.set_params(n_jobs=None)
    assert {name: id(value) for name, value in before.items()} == {name: id(v) for name, v in vars(model).items()}
    assert repr(one) == repr(other) != repr(third)
    assert one.coefficients.equals(other.coefficients)
    monkeypatch.setattr(_posterior, "PAIRS", 5000)
    parts = check_posterior(model, X, y, n_draws=300, random_state=5)
    assert parts.log_evidence == pytest.approx(one.log_evidence, abs=1e-9)


def test_memory_does_not_grow_with_rows_times_draws(fitted, monkeypatch):
    """3,000 rows and 4,000 draws would be 96 MB in one piece."""
    import tracemalloc

    X, y, model = fitted
    model.fit(X, y)
    tracemalloc.start()
    check_posterior(model, X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_through_pipelines_and_searches(fitted):
    X, y, model = fitted
    X, y = X[:300], y[:300]
    pipe = make_pipeline(StandardScaler(), model).fit(X, y)
    inner = check_posterior(pipe[-1], pipe[0].transform(X), y, n_draws=200)
    assert repr(check_posterior(pipe, X, y, n_draws=200)) == repr(inner)
    search = GridSearchCV(model, {"covariance": ["full"]}, cv=2).fit(X, y)
    inner = search.best_estimator_
    assert repr(check_posterior(search, X, y, n_draws=200)) == repr(check_posterior(inner, X, y, n_draws=200))
    with pytest.warns(UserWarning, match="in a pipeline give the pipeline"):
        check_posterior(pipe[-1], 3.0 * X.to_numpy(), y, n_draws=200)
    with pytest.raises(TypeError, match="a transformed target has another density"):
        check_posterior(TransformedTargetRegressor(BayesianGLMRegressor()).fit(X, y), X, y)


def test_a_fit_from_a_file_says_the_same(fitted, tmp_path):
    X, y, model = fitted
    X, y = X[:60], y[:60]
    for name, each in {"linear": model, "process": SparseGPRegressor(n_inducing=5, random_state=0)}.items():
        each.fit(X, y).save(tmp_path / name)
        said, again = (check_posterior(one, X, y, n_draws=100) for one in (each, load(tmp_path / name)))
        assert again.log_evidence == pytest.approx(said.log_evidence, abs=1e-9)
        np.testing.assert_allclose(again.coefficients, said.coefficients, rtol=1e-6, atol=1e-12)


def test_who_has_a_check():
    """What the docstring and the error promise, and nobody else."""
    named = (name for name in sksvi.__all__ if hasattr(getattr(sksvi, name), "fit"))
    linear = ["BayesianGLMClassifier", "BayesianGLMRegressor", "GMEClassifier", "GMERegressor"]
    processes = ["DynamicGLM", "GPClassifier", "SparseGPClassifier", "SparseGPRegressor"]
    assert sorted(name for name in named if hasattr(getattr(sksvi, name), "_joint")) == sorted(linear + processes)


def test_collections_are_named(fitted):
    array = pytest.importorskip("dask.array")
    X, y, model = fitted
    with pytest.raises(TypeError, match=r"y is a Dask collection.* give y.compute\(\)"):
        check_posterior(model.fit(X, y), X, array.from_array(y))


def test_errors_say_what_to_give(fitted):
    X, y, model = fitted
    with pytest.raises(TypeError, match=r"StructuredLDA cannot weigh draws .* linear models, mixed effects"):
        check_posterior(StructuredLDA(), X, y)
    with pytest.raises(ValueError, match="n_draws"):
        check_posterior(model.fit(X, y), X, y, n_draws=24)
    with pytest.raises(ValueError, match="total weight of 6000"):
        check_posterior(model, X, y, sample_weight=np.full(3000, 2.0))
    exposed = model.set_params(prior_precision=1.0).fit(X, y, exposure=np.full(3000, 2.0))
    with pytest.raises(ValueError, match="fitted with an offset"):
        check_posterior(exposed, X, y)
    found = check_posterior(exposed, X, y, exposure=np.full(3000, 2.0), n_draws=100)
    assert found.lower_bound == pytest.approx(exposed.lower_bound_, abs=1e-6)
    full = GPClassifier().fit(X[:40], y[:40] > 1)
    with pytest.raises(ValueError, match="X are not the rows of the fit"):
        check_posterior(full, X[40:80], y[:40] > 1)
