"""The evidence over all penalties: against the density of y, and fits whose first maximum is the lower."""

import numpy as np
import pytest
from sklearn.base import clone

from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.models.linear.glm import LinearModel
from sksvi.models.linear.scales import PENALTIES, Evidence, log_half_cauchy


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def about(X, y, mean, noise, centred):
    rows = np.column_stack([X, np.ones(len(X))]) if centred else X
    residual = y - rows @ mean
    gram, slope, square = rows.T @ rows / noise, rows.T @ residual / noise, residual @ residual / noise
    return Evidence.about(mean, gram, slope, square, float(len(y)), 1e-12, centred)


def density(X, y, precision, noise, centred):
    """ln p(y), with an intercept of standard deviation 1e4 and its constant taken off."""
    covariance = X / precision @ X.T + noise * np.eye(len(y)) + (1e8 if centred else 0.0)
    return -0.5 * (np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y))


@pytest.mark.parametrize("centred", [False, True])
def test_differences_are_those_of_the_density(rng, centred):
    X, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    present = 0.3
    evidence = about(X, y, rng.normal(size=3 + centred), present, centred)
    values = []
    for precision in (np.full(3, 0.2), np.full(3, 7.0), np.array([0.1, 1.0, 100.0])):
        # The best noise at this ridge penalty: the present one times what the evidence finds.
        gram = evidence.gram + np.diag(precision)
        noise = (evidence.square - evidence.slope @ np.linalg.solve(gram, evidence.slope)) / evidence.n
        exact = density(X, y, precision / noise, present * noise, centred)
        values.append((exact, evidence(precision)))
    exact, found = np.diff(values, axis=0).T
    np.testing.assert_allclose(found, exact, atol=2e-3 if centred else 1e-8)


def test_the_peak_is_the_largest_of_all_penalties(rng):
    X, y = rng.normal(size=(15, 4)), rng.normal(size=15)
    evidence = about(X, y, np.zeros(4), 1.0, False)
    penalties = np.linalg.eigvalsh(evidence.gram)[-1] * PENALTIES
    for log_prior in (np.zeros_like, lambda h: -0.5 * np.square(h - 3.0) / 0.04):
        gain, precision, noise = evidence.peak(np.full(4, 2.0), log_prior)
        own = []
        for k in penalties:
            explained = evidence.slope @ np.linalg.solve(evidence.gram + k * np.eye(4), evidence.slope)
            own.append(evidence(np.full(4, k)) + log_prior(np.log(k / ((evidence.square - explained) / evidence.n))))
        assert gain == pytest.approx(max(own) - evidence(np.full(4, 2.0)), abs=1e-9)
        # Under that noise the peak's precision is the penalty.
        there = evidence(np.full(4, precision * noise)) + log_prior(np.log(precision))
        assert there == pytest.approx(max(own), abs=1e-9)
    assert np.log(precision) == pytest.approx(3.0, abs=0.5)  # where a prior is sharp


def months(rng):
    """A month beside eleven others and the mean of the year, rounded: nearly known, and well guessed from each."""
    year = 3.0 * rng.normal(size=(100, 1)) + rng.normal(size=(100, 12))
    mean = np.round(year.mean(axis=1), 3)
    return np.column_stack([year[:, 1:], mean]), year[:, 0]


@pytest.mark.filterwarnings("ignore:noise is larger where column")
@pytest.mark.filterwarnings("ignore:prior_precision=.* the data contradict it:UserWarning")
@pytest.mark.parametrize("prior_precision", ["auto", "ard"])
@pytest.mark.parametrize("algorithm", ["cvi", "fp"])
def test_a_fit_ends_at_the_higher_maximum(rng, monkeypatch, prior_precision, algorithm):
    X, y = months(rng)
    estimator = BayesianGLMRegressor(prior_precision=prior_precision, algorithm=algorithm)
    higher = estimator.fit(X, y)
    assert higher.converged_
    assert higher.score(X, y) > 0.9999
    fixed = BayesianGLMRegressor(hyperparameters="point")
    if prior_precision == "ard":
        fits = [clone(fixed).set_params(prior_precision=float(p)).fit(X, y) for p in np.logspace(-4, 4, 9)]
        assert higher.lower_bounds_[-1] > max(fit.lower_bounds_[-1] for fit in fits) - 3.0
    else:
        # The bound at the mode has the density of both priors there: no other scale that it allows has more.
        scales, h = higher._encoding.scale_prior(higher.likelihood_), higher.state_.q["prior_precision"].value
        there = np.linspace(scales.lowest, np.minimum(scales.highest, scales.lowest + 12.0), 9)
        fits = [
            clone(fixed).set_params(prior_precision=higher.prior_precision_ * np.exp(k - h)).fit(X, y) for k in there
        ]
        noise = [log_half_cauchy(fit.likelihood_.noise_variance / y.var()) - np.log(np.pi) for fit in fits]
        bounds = [f.lower_bounds_[-1] + scales.log_density(k) + s for f, k, s in zip(fits, there, noise, strict=True)]
        assert higher.lower_bounds_[-1] > max(bounds) - 0.1
        assert max(bounds) > higher.lower_bounds_[-1] - 3.0  # they are in the same units
        monkeypatch.setattr(LinearModel, "search", lambda self, fit, tol: (fit.q, False))
        lower = clone(estimator).fit(X, y)
        assert lower.converged_
        # In a few sets of a hundred the climb ends at the top by itself; elsewhere ten nats and more below.
        assert lower.lower_bounds_[-1] < higher.lower_bounds_[-1] + 0.1


@pytest.mark.filterwarnings("ignore:a combination of columns")  # the answer can be told from the total
@pytest.mark.parametrize("likelihood", ["logit", "student-t"])
def test_messages_find_the_higher_maximum_of_other_likelihoods(rng, monkeypatch, likelihood):
    n = 100
    year, dose, answer, rest = np.arange(n), 2.0 * rng.normal(size=n), rng.integers(0, 2, n), rng.normal(size=n)
    total = 500.0 + 0.25 * year + 0.25 * dose + answer + rest  # which tells each part from the others, and hardly alone
    if likelihood == "logit":
        estimator, X, y = BayesianGLMClassifier(), np.column_stack([year, dose, rest, total]), answer
    else:
        estimator, X, y = (
            BayesianGLMRegressor(likelihood=likelihood),
            np.column_stack([year, answer, rest, total]),
            dose,
        )
    higher = clone(estimator).fit(X, y)
    monkeypatch.setattr(LinearModel, "search", lambda self, fit, tol: (fit.q, False))
    lower = clone(estimator).fit(X, y)
    assert higher.converged_ and lower.converged_
    # In one set of a hundred the first climb ends there too; elsewhere it explains less.
    assert higher.lower_bound_ > lower.lower_bound_ - 0.1
    assert higher.score(X, y) > 0.9


def test_rows_without_a_second_maximum_need_no_more_passes(rng, monkeypatch):
    X = rng.normal(size=(200, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=200)
    searched = BayesianGLMRegressor().fit(X, y)
    monkeypatch.setattr(LinearModel, "search", lambda self, fit, tol: (fit.q, False))
    assert BayesianGLMRegressor().fit(X, y).n_iter_ == searched.n_iter_
