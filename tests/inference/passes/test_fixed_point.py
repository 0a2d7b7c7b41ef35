"""The fixed point in its two orders: the mean solved for after every step of the covariance, or once it has settled."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    DynamicGLM,
    GMERegressor,
    GPClassifier,
    SparseGPClassifier,
)
from sksvi.algorithms import FixedPoint, resolve
from sksvi.algorithms.rules import FixedMean, StepSize
from sksvi.families.gaussian.dense import DiagonalGaussian, Gaussian
from sksvi.families.gaussian.dual import SiteGaussian
from sksvi.inference.passes.line_search import (
    LineSearch,
    first_backtracked,
    line_search_state,
    with_settled_covariance,
)
from sksvi.inference.start import first_state
from tests.cases import data_for, model_for, problem_for

BATCH = FixedPoint(order="batch")


def spread_of(X):
    return np.exp(0.4 * X @ np.linspace(-1, 1, X.shape[1]))


def data(seed, n=90, columns=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, columns))
    return X, rng.poisson(spread_of(X)), (rng.random(n) < spread_of(X) / (1 + spread_of(X))).astype(int)


FITS = {
    "labels": lambda X, y, labels, **a: BayesianGLMClassifier(**a).fit(X, labels),
    "counts": lambda X, y, labels, **a: BayesianGLMRegressor(likelihood="poisson", **a).fit(X, y),
    "diagonal": lambda X, y, labels, **a: BayesianGLMClassifier(covariance="diag", prior_precision=1.0, **a).fit(
        X, labels
    ),
    "three classes": lambda X, y, labels, **a: BayesianGLMClassifier(prior_precision=1.0, **a).fit(X, np.minimum(y, 2)),
    "groups": lambda X, y, labels, **a: GMERegressor(likelihood="poisson", noise=False, groups=0, **a).fit(
        np.c_[np.arange(len(y)) % 9, X], y
    ),
    "inducing points": lambda X, y, labels, **a: SparseGPClassifier(
        n_inducing=12, optimize_hyperparameters=False, random_state=0, **a
    ).fit(X, labels),
    "process": lambda X, y, labels, **a: GPClassifier(optimize_hyperparameters=False, **a).fit(X, labels),
    "series": lambda X, y, labels, **a: DynamicGLM(likelihood="poisson", **a).fit(None, y),
}


@pytest.mark.parametrize("name", FITS)
def test_both_orders_end_at_one_optimum(name, global_random_seed):
    rows = data(global_random_seed)
    one, two = (FITS[name](*rows, algorithm=algorithm, tol=1e-9, max_iter=200) for algorithm in ("fp", BATCH))
    assert one.converged_
    assert two.converged_
    assert two.lower_bound_ == pytest.approx(one.lower_bound_, abs=1e-5)


def test_the_outer_loop_of_the_batch_order_needs_no_more_passes(global_random_seed):
    """Where the covariance has settled before each mean, fewer means have to be found; the history counts these."""
    X, _, labels = data(global_random_seed, n=200)
    fits = [FITS["labels"](X, None, labels, algorithm=a, prior_precision=1.0, tol=1e-9) for a in ("fp", BATCH)]
    assert fits[1].n_iter_ <= fits[0].n_iter_ + 1
    assert len(fits[1].history_) == fits[1].n_iter_


def blocks(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((5, 5))
    P, K = A @ A.T + np.eye(5), A @ A.T + 0.1 * np.eye(5)
    mean, slope, w = rng.standard_normal(5), rng.standard_normal(5), rng.random(5)
    yield Gaussian(mean, P), Gaussian(np.ones(5), np.eye(5)), (slope, -0.5 * K)
    yield DiagonalGaussian(mean, w + 0.1), DiagonalGaussian(np.ones(5), np.ones(5)), (slope, -0.5 * w)
    yield SiteGaussian(K, slope, w), SiteGaussian(K), (mean, -0.5 * (w + 1.0))


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_a_step_of_the_covariance_leaves_the_mean(rate, global_random_seed):
    """S⁻¹ becomes (1 - ρ) S⁻¹ + ρ (Σ⁻¹ - 2H), and m stays."""
    for q, prior, gradient in blocks(global_random_seed):
        found = FixedMean().step("q", {"q": q}, prior, gradient, None, StepSize(rate, 1.0, 1.0)).block
        np.testing.assert_allclose(found.mean, q.mean, rtol=1e-9, atol=1e-9)
        own, start = (block.natural(q)[1] for block in (q, prior))
        np.testing.assert_allclose(
            found.natural(q)[1], (1 - rate) * own + rate * (start - 2.0 * gradient[1]), rtol=1e-9, atol=1e-9
        )


def test_the_covariance_settles_where_its_own_step_gains_nothing(global_random_seed):
    """At the mean it began with, and to the fixed point S⁻¹ = Σ⁻¹ - 2H of the paper's equation (18)."""
    table = data_for("logit", seed=global_random_seed)
    ready = problem_for(model_for("logit", table), table, BATCH)
    name, first = ready.model.main, LineSearch().begin(ready, first_state(ready, global_random_seed))
    start = first_backtracked(ready, first)
    found = with_settled_covariance(ready, start, 1e-12)
    here = line_search_state(found).here
    np.testing.assert_allclose(found.q[name].mean, start.q[name].mean, rtol=1e-9, atol=1e-9)
    prior = ready.model.prior(found.q)[name]
    target = prior.precision_like(found.q[name]) - 2.0 * here.gradient[name][1]
    np.testing.assert_allclose(found.q[name].precision, target, atol=1e-3 * np.abs(target).max())


def test_an_order_that_is_none_is_refused_before_anything_changes():
    X, y, _ = data(0)
    model = BayesianGLMRegressor(likelihood="poisson", algorithm="fp").fit(X, y)
    before = model.posterior_
    with pytest.raises(ValueError, match=r"order='both' of FixedPoint is unknown: choose one of .*'batch'"):
        model.set_params(algorithm=FixedPoint(order="both")).fit(X, y)
    assert model.posterior_ is before


def test_the_order_is_a_parameter_of_a_search():
    model = BayesianGLMRegressor(algorithm=resolve("fp"))
    assert model.set_params(algorithm__order="batch").algorithm.spec.nested


@pytest.mark.parametrize("algorithm", [FixedPoint(), BATCH], ids=["incremental", "batch"])
def test_a_stream_takes_natural_steps(algorithm, global_random_seed):
    """The mean that is best for the last portion alone was once taken for that of all rows."""
    X, y, _ = data(global_random_seed, n=120)
    streams = [BayesianGLMRegressor(likelihood="poisson", algorithm=a) for a in (algorithm, "mc-ssvi")]
    for rows in np.split(np.arange(len(y)), 4):
        for stream in streams:
            stream.partial_fit(X[rows], y[rows])
    np.testing.assert_array_equal(streams[0].coef_, streams[1].coef_)
    np.testing.assert_array_equal(streams[0].coef_std_, streams[1].coef_std_)
