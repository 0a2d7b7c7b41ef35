"""Answers that are known: conjugate posteriors, log evidences, bounds and gradients by dense quadrature."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.algorithms import CVI, MCSSVI
from sksvi.families import DiagonalGaussian
from sksvi.inference import engine
from sksvi.inference.messages import no_messages
from sksvi.inference.problem import divergence
from sksvi.inference.site_updates import SiteUpdates
from sksvi.inference.state import State
from sksvi.integrals import race
from sksvi.likelihoods import Gaussian
from sksvi.models.base import Segment
from sksvi.models.data import Table
from sksvi.models.linear import glm
from sksvi.models.linear.scales import SpectralPrior, log_half_cauchy
from sksvi.schedules import Constant
from sksvi.testing import check_model
from tests.cases import (
    LEARNED,
    NAMES,
    TRUTH,
    data_for,
    design,
    expected_log_prob,
    fitted,
    flat_moments,
    gaussian_answer,
    grid_bound,
    kl_to_diagonal,
    latent_moments,
    model_for,
    problem_for,
    rows_of,
    simulate,
)

NOISE, PRECISION, INTERCEPT = 0.5, 1.5, 0.2
FULL = pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
#: The only cell of a sparse column may be a small one.
UNEVEN = pytest.mark.filterwarnings("ignore:.*columns on different scales")
FORMS = ["dense", "sparse", "wide", "wide sparse"]


def regression(form, seed, weight=False, offset=False):
    """Data of a Gaussian likelihood and its exact answer."""
    n, d = (15, 40) if form.startswith("wide") else (80, 6)
    X = design(n, d, seed)
    if form.endswith("sparse"):
        X *= np.random.default_rng(seed).random((n, d)) < 0.3
    rng = np.random.default_rng([seed, 7])
    y = X[:, 0] - X[:, 1] + 2.0 + 0.7 * rng.standard_normal(n)
    w = rng.uniform(0.2, 2.0, n) if weight else None
    shift = rng.standard_normal(n) if offset else None
    A = np.column_stack([X, np.ones(n)])
    precision = np.append(np.full(d, PRECISION), INTERCEPT)
    answer = gaussian_answer(A, y, NOISE, precision, w, shift)
    return (sp.csr_array(X) if form.endswith("sparse") else X), y, w, shift, A, precision, answer


def regressor(**options):
    settings = {"likelihood": Gaussian(variance=NOISE), "prior_precision": PRECISION, "intercept_precision": INTERCEPT}
    return BayesianGLMRegressor(**{**settings, **options})


def error_of(name, quadrature, approximate):
    """What a rule for E log p may be off by: softmax integrates over K - 1 dimensions by quasi-Monte Carlo."""
    return approximate if name == "softmax" else quadrature


# ---- conjugate
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "weight and offset"])
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "fp"])
@pytest.mark.filterwarnings("ignore:.*did not converge")
@UNEVEN
def test_one_pass_is_the_exact_posterior(algorithm, extras, form, global_random_seed):
    X, y, weight, offset, _, _, (mean, precision, evidence) = regression(form, global_random_seed, extras, extras)
    model = regressor(algorithm=algorithm, max_iter=1).fit(X, y, weight, offset)
    q = model.posterior_["weights"]
    np.testing.assert_allclose(q.mean, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(q.cov, np.linalg.inv(precision), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(q.std, np.sqrt(np.diag(np.linalg.inv(precision))), rtol=1e-8)
    assert model.lower_bound_ == pytest.approx(evidence, rel=1e-8)


@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "fp"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_diagonal_covariance_has_its_own_optimum(algorithm, form, global_random_seed):
    """Mean of the exact posterior, variances 1 / diagonal of its precision, bound lower by the mutual information."""
    X, y, _, _, _, _, (mean, precision, evidence) = regression(form, global_random_seed)
    model = regressor(algorithm=algorithm, covariance="diag", tol=1e-12).fit(X, y)
    q = model.posterior_["weights"]
    np.testing.assert_allclose(q.mean, mean, atol=1e-5)
    np.testing.assert_allclose(q.variance, 1 / np.diag(precision), rtol=1e-8)
    gap = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    assert model.lower_bound_ == pytest.approx(evidence - gap, rel=1e-8)


@pytest.mark.parametrize("chunks", [1, 2, 7, 80])
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "weight and offset"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_any_chunking_is_the_batch_fit(form, extras, chunks, global_random_seed):
    X, y, weight, offset, _, _, (mean, precision, evidence) = regression(form, global_random_seed, extras, extras)
    model = regressor()
    for rows in np.array_split(np.random.default_rng(global_random_seed).permutation(len(y)), chunks):
        parts = [None if part is None else part[rows] for part in (weight, offset)]
        model.partial_fit(X[rows], y[rows], *parts)
    q = model.posterior_["weights"]
    np.testing.assert_allclose(q.mean, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(q.cov, np.linalg.inv(precision), rtol=1e-8, atol=1e-8)
    assert model.lower_bound_ == pytest.approx(evidence, rel=1e-8)
    assert model.n_samples_seen_ == pytest.approx(len(y) if weight is None else weight.sum())


def test_chunks_after_a_fit_go_on_from_it(global_random_seed):
    for form in ("dense", "wide"):
        X, y, _, _, _, _, (mean, precision, _) = regression(form, global_random_seed)
        model = regressor().fit(X[:9], y[:9]).partial_fit(X[9:], y[9:])
        np.testing.assert_allclose(model.posterior_["weights"].mean, mean, atol=1e-7)
        np.testing.assert_allclose(model.posterior_["weights"].cov, np.linalg.inv(precision), atol=1e-7)


@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "fp"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_learned_noise_and_precision_maximise_the_evidence(algorithm, form, global_random_seed):
    """With a Gaussian likelihood the bound is the log evidence, whose maximum an optimiser finds by itself."""
    X, y, _, _, A, _, _ = regression(form, global_random_seed)

    def negative(log_scales):
        noise, precision = np.exp(log_scales)
        h = fitted_h + log_scales[1] - np.log(model.prior_precision_[0])
        evidence = gaussian_answer(A, y, noise, np.append(precision * own, INTERCEPT))[2]
        value = -evidence - float(prior.log_density(h) + log_half_cauchy(noise / y.var()) - np.log(np.pi))
        return value if np.isfinite(value) else 1e10  # beyond the prior's limits

    settings = {"likelihood": "gaussian", "prior_precision": "auto", "algorithm": algorithm, "hyperparameters": "point"}
    model = regressor(**settings, tol=1e-10).fit(X, y)
    own = model.prior_precision_ / model.prior_precision_[0]  # columns on their own scale
    prior, fitted_h = model._encoding.scale_prior(model.likelihood_), model.state_.q["prior_precision"].value
    start = np.log([model.noise_, model.prior_precision_[0]])
    options = {"xatol": 1e-8, "fatol": 1e-10}
    best = minimize(negative, start - 0.01, method="Nelder-Mead", options=options)
    best = minimize(negative, best.x + 0.01, method="Nelder-Mead", options=options)  # its simplex may have shrunk early
    noise, precision = np.exp(best.x)
    assert model.lower_bound_ == pytest.approx(-best.fun, abs=1e-5)
    assert model.noise_ == pytest.approx(noise, rel=1e-3)
    assert model.prior_precision_ == pytest.approx(precision * own, rel=2e-2)
    loose = regressor(**settings).fit(X, y)
    assert loose.lower_bound_ == pytest.approx(-best.fun, abs=loose.tol * (1 + abs(best.fun)))
    mean = gaussian_answer(A, y, model.noise_, np.append(model.prior_precision_, INTERCEPT))[0]
    np.testing.assert_allclose(model.posterior_["weights"].mean, mean, atol=1e-4)


def test_chunks_with_learned_scales_end_near_the_batch_fit(global_random_seed):
    X = design(600, 5, global_random_seed)
    y = X @ np.linspace(-1, 1, 5) + 0.5 * np.random.default_rng(global_random_seed).standard_normal(600)
    whole = BayesianGLMRegressor().fit(X, y)
    stream = BayesianGLMRegressor()
    for part in range(0, 600, 100):
        stream.partial_fit(X[part : part + 100], y[part : part + 100])
    assert stream.noise_ == pytest.approx(whole.noise_, rel=0.03)
    # The scales of five columns are those of the first hundred rows: each square is off by a seventh.
    ratio = np.log(stream.prior_precision_ / whole.prior_precision_)
    assert abs(ratio.mean()) < 4 * np.sqrt(2 / 100 / 5)
    np.testing.assert_allclose(stream.coef_, whole.coef_, atol=0.2 * whole.coef_std_.max())


@pytest.mark.parametrize("form", FORMS)
@UNEVEN
def test_float32_stays_near(form, global_random_seed):
    X, y, _, _, _, _, (mean, precision, evidence) = regression(form, global_random_seed)
    model = regressor().fit(X.astype(np.float32), y.astype(np.float32))
    np.testing.assert_allclose(model.posterior_["weights"].mean, mean, atol=1e-4)
    np.testing.assert_allclose(model.posterior_["weights"].std, np.sqrt(np.diag(np.linalg.inv(precision))), rtol=1e-4)
    assert model.lower_bound_ == pytest.approx(evidence, rel=1e-4)
    assert model.coef_.dtype == np.float32


# ---- evidence of two weights by a dense grid
@pytest.mark.parametrize("name", ["logit", "poisson", "probit", "student-t"])
@pytest.mark.parametrize("size", [1, 2])
def test_bound_is_below_the_log_evidence_and_close(name, size, global_random_seed):
    data = Table(design(40, size, global_random_seed), np.zeros(40))
    data = replace(data, y=simulate(name, data.X, global_random_seed))
    model = model_for(name, data, intercept=False)
    likelihood, precision = TRUTH[name], np.full(size, 1.5)
    state = fitted(problem_for(model, data))
    q = state.q["weights"]
    axes = [m + s * np.linspace(-10, 10, 201) for m, s in zip(q.mean, q.std, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, size)
    log_joint = likelihood.log_prob(data.y[:, None], data.X @ grid.T).sum(0)
    log_joint += -0.5 * (grid**2 @ precision) + 0.5 * np.log(precision / (2 * np.pi)).sum()
    log_cell = sum(np.log(axis[1] - axis[0]) for axis in axes)
    evidence = logsumexp(log_joint) + log_cell
    mass = np.exp(log_joint + log_cell - evidence)
    mean = mass @ grid
    std = np.sqrt(mass @ (grid - mean) ** 2)
    assert state.bound <= evidence + 1e-8
    assert state.bound == pytest.approx(evidence, abs=0.1)
    np.testing.assert_allclose(q.mean, mean, atol=0.1 * std.max())
    np.testing.assert_allclose(q.std, std, rtol=0.1)


# ---- the bound that a fit reports
@FULL
@pytest.mark.parametrize("learned", [False, True], ids=["fixed", "learned"])
@pytest.mark.parametrize("name", NAMES)
def test_reported_bound_is_that_of_its_posterior(name, learned, full, global_random_seed):
    data = data_for(name, seed=global_random_seed, weight=True, offset=True)
    precision = "auto" if learned else 1.5
    model = model_for(name, data, full, learned, precision)
    state = fitted(problem_for(model, data, "cvi"), tol=1e-6)
    paid = model.hyper["likelihood"].log_density(state.q) if "likelihood" in state.q else 0.0
    assert state.bound - paid == pytest.approx(grid_bound(model, data, state.q), rel=error_of(name, 2e-6, 1e-3))


@pytest.mark.parametrize("expectation", ["auto", "monte-carlo"])
@pytest.mark.parametrize("batch_size", [None, 20])
def test_lower_bound_belongs_to_posterior(batch_size, expectation, global_random_seed):
    """Mini-batches and samples too: the last pass is exact."""
    data = data_for("logit", n=200, seed=global_random_seed)
    model = BayesianGLMClassifier(
        prior_precision=1.5,
        intercept_precision=0.2,
        batch_size=batch_size,
        expectation=expectation,
        random_state=0,
        tol=1e-3,
    ).fit(data.X, data.y)
    inner = model_for("logit", data)
    assert model.lower_bound_ == pytest.approx(grid_bound(inner, data, model.posterior_), rel=2e-6)


@FULL
@pytest.mark.parametrize("learned", [False, True], ids=["fixed", "learned"])
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "fp"])
@pytest.mark.parametrize("name", NAMES)
def test_bound_never_falls(name, algorithm, learned, full, global_random_seed):
    data = data_for(name, seed=global_random_seed, weight=True)
    model = model_for(name, data, full, learned, "auto" if learned else 1.5)
    state = fitted(problem_for(model, data, algorithm), tol=1e-6)
    bounds = np.append(state.bounds, state.bound)
    assert np.all(np.diff(bounds) >= -(2e-10 + error_of(name, 0.0, 1e-6)) * (np.abs(bounds[:-1]) + 1))
    assert all(row["exact"] for row in state.history)
    assert state.converged


@FULL
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "fp"])
@pytest.mark.parametrize("learned", [False, True], ids=["fixed", "learned"])
def test_cut_points_and_an_intercept_do_not_creep_along_each_other(learned, algorithm, full, global_random_seed):
    """Rows do not feel a shift of both: the intercept's prior alone says where they end, and a fit knows it."""
    data = data_for("ordinal", seed=global_random_seed, weight=True)
    data = replace(data, X=data.X + np.array([0.0, 3.0, 0.0]))
    model = model_for("ordinal", data, full, True, "auto" if learned else 1.5)
    state = fitted(problem_for(model, data, algorithm), tol=1e-6)
    assert state.converged and state.passes < 40
    assert state.q["weights"].mean[-1] == pytest.approx(0.0, abs=1e-3)
    assert state.bound == pytest.approx(grid_bound(model, data, state.q), rel=2e-6)


# ---- gradients
@FULL
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("learned", [False, True], ids=["fixed", "learned"])
@pytest.mark.parametrize("name", NAMES)
def test_check_model(name, learned, intercept, full, global_random_seed):
    data = data_for(name, n=30, seed=global_random_seed, weight=True, offset=True)
    precision = "ard" if learned else 1.5
    model = model_for(name, data, full, learned, precision, intercept)
    check_model(model, data, tolerance=error_of(name, 1e-4, 3e-2), seed=global_random_seed)


def test_check_model_finds_a_wrong_gradient(monkeypatch):
    data = data_for("logit", n=30)
    model = model_for("logit", data)
    right = type(model).pull_back

    def wrong(self, terms, batch):
        return {name: (g, 1.05 * h) for name, (g, h) in right(self, terms, batch).items()}

    monkeypatch.setattr(type(model), "pull_back", wrong)
    with pytest.raises(AssertionError, match="covariance"):
        check_model(model, data)


@FULL
@pytest.mark.parametrize("name", NAMES)
def test_gradient_against_the_bound_on_a_grid(name, full, global_random_seed):
    """Mean, covariance and likelihood parameters, by differences of a bound that shares no code with the library."""
    data = data_for(name, n=25, d=2, seed=global_random_seed, weight=True, offset=True)
    model = model_for(name, data, full, name in LEARNED)
    problem = problem_for(model, data)
    q = model.begin(data, None)
    rng = np.random.default_rng(global_random_seed)
    q["weights"] = type(q["weights"])(q["weights"].sample(1, global_random_seed)[0], q["weights"].precision)
    gradient, _ = engine.evaluate(problem, State(q, 0), engine.whole(problem))
    g, curvature = gradient["weights"]
    mean, cov = flat_moments(q["weights"])
    A = rows_of(model, data)
    parameters = q["likelihood"].value if "likelihood" in q else np.zeros(0)

    def value(dm, ds, dp):
        likelihood = model.likelihood.replace(parameters + dp) if len(parameters) else model.likelihood
        m, v = latent_moments(mean + dm, cov + ds, A, data.offset)
        return data.weight @ expected_log_prob(likelihood, data.y, m, v)

    dm, dp = rng.standard_normal(mean.shape), rng.standard_normal(len(parameters))
    tilt = 0.2 * cov.max() * rng.standard_normal(cov.shape)
    ds = tilt + tilt.T if full else np.diag(np.diag(tilt))
    still = 0 * dm, 0 * ds, 0 * dp
    in_cov = np.sum(curvature * ds) if full else curvature.ravel() @ np.diag(ds)
    for position, direction, found in [(0, dm, g.ravel() @ dm), (1, ds, in_cov)] + (
        [(2, dp, gradient["likelihood"][0] @ dp)] if len(parameters) else []
    ):
        high, low = (
            value(*[sign * 3e-4 * direction if i == position else part for i, part in enumerate(still)])
            for sign in (1, -1)
        )
        # The points of softmax's rule are drawn: what they are off by grows with the direction and the rows' weights.
        error = error_of(name, 1e-4, 3e-2), error_of(name, 1e-4, 1.5e-3 * data.weight.sum() * np.linalg.norm(direction))
        assert found == pytest.approx((high - low) / 6e-4, rel=error[0], abs=error[1]), f"direction {position}"


# ---- two routes to one posterior
@FULL
@pytest.mark.parametrize("expectation", ["auto", "monte-carlo"])
@pytest.mark.parametrize("name", ["logit", "poisson", "gaussian"])
def test_cvi_and_mc_ssvi_have_the_same_iterates(name, expectation, full, global_random_seed):
    """From q = prior, full batches, equal rates and samples: sites and natural parameters agree."""
    data = data_for(name, seed=global_random_seed)
    model = model_for(name, data, full, intercept=False)
    rate = 0.3
    schedule = Constant(rate)
    problem = problem_for(model, data, MCSSVI(schedule=schedule), expectation)
    by_row = replace(problem, algorithm=CVI(schedule=schedule), messages=SiteUpdates("weights"))
    first = model.begin(data, None)["weights"]
    prior = model.prior({})["weights"]
    start = {"weights": type(first)(np.zeros(3), prior.precision_like(first))}
    rows = Segment(np.arange(len(data)), 1.0)
    sites = no_messages(model.message_shapes, len(data), data).summing(start["weights"], prior)
    summed = State(start, seed=5)
    remembered = State(start, seed=5, messages=sites)
    for step in range(5):
        gradient, _ = engine.evaluate(problem, summed, rows)
        summed = replace(summed, q=engine.step(problem, summed, rows, gradient)[0], steps=step + 1)
        change, _ = engine.evaluate(by_row, remembered, rows)
        q = engine.step(by_row, remembered, rows, change)[0]
        remembered = replace(remembered, q=q, steps=step + 1)
        for part in ("mean", "precision"):
            found, wanted = (getattr(state.q["weights"], part) for state in (remembered, summed))
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


@FULL
@pytest.mark.parametrize("name", NAMES)
def test_algorithms_share_their_optimum(name, full, global_random_seed, monkeypatch):
    # A softmax's rule of 192 points may have its largest value where its gradient does not vanish (1e-3 nats at seed
    # 15): natural steps are then halved where FP goes on. With 2048 points all three agree to 1e-9 of the bound.
    monkeypatch.setattr(race, "LEVELS", ((np.inf, 2048),))
    data = data_for(name, seed=global_random_seed, weight=True)
    model = model_for(name, data, full)
    found = {key: fitted(problem_for(model, data, key), tol=1e-11) for key in ("cvi", "mc-ssvi", "fp")}
    reference = found["fp"].q["weights"]
    for state in found.values():
        q = state.q["weights"]
        assert state.bound == pytest.approx(found["fp"].bound, rel=1e-7)
        np.testing.assert_allclose(q.mean, reference.mean, atol=2e-3 * reference.std.max())
        np.testing.assert_allclose(q.std, reference.std, rtol=2e-3)


@FULL
@pytest.mark.parametrize("name", ["logit", "poisson", "softmax", "gaussian"])
def test_sparse_is_dense(name, full, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    data = data_for(name, n=120, d=40, seed=global_random_seed)
    X = data.X * (rng.random(data.X.shape) < 0.05)
    dense = fitted(problem_for(model_for(name, data, full), replace(data, X=X)), tol=1e-6)
    sparse_data = replace(data, X=sp.csr_array(X))
    sparse = fitted(problem_for(model_for(name, sparse_data, full), sparse_data), tol=1e-6)
    assert sparse.bound == pytest.approx(dense.bound, rel=1e-10)
    np.testing.assert_allclose(sparse.q["weights"].mean, dense.q["weights"].mean, atol=1e-7)
    np.testing.assert_allclose(sparse.q["weights"].variance, dense.q["weights"].variance, rtol=1e-7)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("scales", [1.5, "auto"], ids=["fixed", "auto"])
@pytest.mark.parametrize("name", ["logit", "gaussian", "poisson", "softmax"])
def test_wide_fit_is_the_fit_in_all_weights(name, scales, form, global_random_seed):
    """The estimator's informed subspace against D x D natural steps on the same rows."""
    data = data_for(name, n=25, d=40, seed=global_random_seed)
    options = {"prior_precision": scales, "intercept_precision": 0.2, "tol": 1e-6, "max_iter": 1000}
    options["hyperparameters"] = "point"
    if name in ("logit", "softmax"):
        wide = BayesianGLMClassifier(covariance="full", **options)
    else:
        wide = BayesianGLMRegressor(likelihood=TRUTH[name], **options)
    with mock.patch.object(glm, "POWERS", (0,)):  # no other prior is in all weights what it is here
        wide.fit(sp.csr_array(data.X) if form == "sparse" else data.X, data.y)
    # A learned prior is for columns on their own scale, of a sparse table on one; the intercept's fixed one is at zero.
    columns = wide._encoding.columns
    data = replace(data, X=data.X / columns.scale)
    model, chosen = model_for(name, data, prior_precision=scales), 0.0
    if scales == "auto":
        unit = 1.0 / columns.common_scale if form == "sparse" else 1.0
        model = model.replaced(scales=wide._encoding.scale_prior(wide.likelihood_), relative_scale=unit)
        chosen = SpectralPrior.log_probability(0)
    state = fitted(problem_for(model, data), tol=1e-6, max_iter=1000)
    q, wanted = wide.posterior_["weights"].inner, state.q["weights"]
    assert wide.lower_bound_ == pytest.approx(state.bound + chosen, rel=error_of(name, 1e-5, 1e-3))
    np.testing.assert_allclose(q.mean.ravel(), wanted.mean.ravel(), atol=0.01)
    np.testing.assert_allclose(q.variance.ravel(), wanted.variance.ravel(), rtol=0.02, atol=2e-3)
    if scales == 1.5:
        np.testing.assert_allclose(flat_moments(q)[1], flat_moments(wanted)[1], atol=2e-3)
        answer = grid_bound(model_for(name, data), data, {"weights": q})
        # Latents of sd 5: the grid of a softmax is no better than its rule there.
        assert wide.lower_bound_ == pytest.approx(answer, rel=error_of(name, 2e-6, 1e-2))


@FULL
def test_rescaled_problem_is_the_same_problem(full, global_random_seed):
    """Columns in other units with the prior to match: the same bound, the same latents."""
    units = np.array([1e-2, 1.0, 30.0])
    data = data_for("logit", seed=global_random_seed)
    states = []
    for scale in (np.ones(3), units):
        part = replace(data, X=data.X * scale)
        model = model_for("logit", part, full, prior_precision=1.5 * scale**2)
        states.append(fitted(problem_for(model, part), tol=1e-8))
    assert states[0].bound == pytest.approx(states[1].bound, rel=1e-8)
    scaled = states[1].q["weights"].mean * np.append(units, 1.0)
    np.testing.assert_allclose(scaled, states[0].q["weights"].mean, atol=1e-3)


def test_divergence_of_plates_adds_up():
    data = data_for("softmax")
    model = model_for("softmax", data)
    q = model.begin(data, None)
    problem = problem_for(model, data)
    wanted = kl_to_diagonal(*flat_moments(q["weights"]), model.prior(q)["weights"].precision)
    assert divergence(problem, State(q, 0), q) == pytest.approx(wanted, rel=1e-10)
    assert isinstance(model.prior(q)["weights"], DiagonalGaussian)
