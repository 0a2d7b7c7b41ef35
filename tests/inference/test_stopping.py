"""When a noisy fit is done: neither too early on a slow climb nor never because of noise."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sksvi import BayesianGLMClassifier, GeneralizedPMF, GMERegressor, SparseGPRegressor
from sksvi.datasets import make_pmf
from sksvi.inference.passes.line_search import LineSearch
from sksvi.inference.records import (
    FACTOR,
    FIRST_CHECK,
    GAIN,
    LineSearchState,
    check_due,
    has_settled,
    hidden,
    replace,
)
from sksvi.models.factorization.gaussian import FIRST_PASSES
from tests.cases import data_for, fitted, model_for, problem_for

BEST = -1000.0
PASSES = 3000
DUE = np.array([t for t in range(1, PASSES + 1) if check_due(t)])


def size(bound):
    """As `Problem.size` has it for a target without a unit."""
    return abs(bound) + 1


def first_stop(bounds, tol):
    """Number of checks after which the fit would stop, or None."""
    return next((i for i in range(1, len(bounds) + 1) if has_settled(list(bounds[:i]), tol, size)), None)


def climb(kind, size, t):
    return {
        "1/t": BEST - size / t,
        "1/t²": BEST - size / (1.0 + t / 20.0) ** 2,
        "exponential": BEST - size * np.exp(-t / 8.0),
        "slow exponential": BEST - size * np.exp(-t / 60.0),
        "1/sqrt(t)": BEST - size / np.sqrt(t),
    }[kind]


def test_checks_lie_a_factor_apart():
    assert DUE[0] == FIRST_CHECK
    ratios = DUE[1:] / DUE[:-1]
    assert np.all(np.abs(ratios - FACTOR) <= 0.6 / DUE[:-1])
    assert not check_due(0)
    # A fit of a thousand passes pays for few exact passes.
    assert np.sum(DUE <= 1000) <= 15


@pytest.mark.parametrize("size", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("kind", ["1/t", "1/t²", "exponential"])
@pytest.mark.parametrize("tol", [1e-3, 1e-4, 1e-5])
def test_no_false_stop_on_a_climb(kind, size, tol):
    """What is left when the rule says stop: the gain since the last check over (FACTOR - 1), as the rule promises."""
    bounds = climb(kind, size, DUE)
    stop = first_stop(bounds, tol)
    promise = GAIN * tol * (abs(BEST) + 1) / (FACTOR - 1)
    left = BEST - bounds[(stop or len(bounds)) - 1]
    assert left <= 1.3 * promise or stop is None
    if tol == 1e-3:
        assert stop is not None


def test_a_climb_that_starts_late_is_waited_for():
    bounds = climb("slow exponential", 500.0, DUE)
    stop = first_stop(bounds, 1e-4)
    assert BEST - bounds[stop - 1] <= GAIN * 1e-4 * 1001 / (FACTOR - 1)


def test_a_climb_slower_than_assumed():
    """C/sqrt(t): FACTOR**-0.5 of the error is still there, 1 / (sqrt(FACTOR) - 1) times the last gain."""
    bounds = climb("1/sqrt(t)", 100.0, DUE)
    stop = first_stop(bounds, 1e-4)
    left = BEST - bounds[(stop or len(bounds)) - 1]
    assert stop is None or left <= 1.05 * GAIN * 1e-4 * 1001 / (FACTOR**0.5 - 1)


@pytest.mark.parametrize("sd", [0.01, 0.1, 0.3])
def test_noise_rarely_stops_a_climb(sd, global_random_seed):
    """The checks are exact but for what q itself wanders: a false stop needs two neighbours that happen to agree."""
    tol, false, n = 1e-4, 0, 300
    promise = GAIN * tol * (abs(BEST) + 1) / (FACTOR - 1)
    for i in range(n):
        noise = sd * np.random.default_rng([global_random_seed, i]).standard_normal(len(DUE))
        clean = climb("1/t", 300.0, DUE)
        stop = first_stop(clean - np.abs(noise), tol)
        false += stop is not None and BEST - clean[stop - 1] > 2.0 * promise
    assert false <= 0.02 * n


@pytest.mark.parametrize("sd", [0.0, 0.1, 0.3])
def test_a_flat_noisy_bound_stops(sd, global_random_seed):
    noise = sd * np.random.default_rng(global_random_seed).standard_normal(len(DUE))
    assert first_stop(BEST + noise, 1e-4) is not None


def test_two_checks_say_nothing():
    assert not has_settled([], 1.0, size)
    assert not has_settled([BEST], 1.0, size)
    assert not has_settled([BEST, BEST], 1.0, size)
    assert has_settled([BEST, BEST, BEST], 1e-4, size)


def test_tolerance_zero_never_stops():
    assert not has_settled([BEST] * 100, 0.0, size)


def test_a_falling_bound_is_no_convergence():
    assert not has_settled([BEST, BEST, BEST - 50.0], 1e-4, size)


def test_only_the_last_three_checks_count():
    assert has_settled([-5000.0, BEST, BEST, BEST + 0.1], 1e-4, size)
    assert not has_settled([BEST, BEST, BEST + 100.0], 1e-4, size)
    assert not has_settled([BEST, BEST + 100.0, BEST + 100.1], 1e-4, size)


def test_bounds_near_zero_have_an_absolute_tolerance():
    assert has_settled([1e-9, -1e-9, 1e-9], 1e-4, size)
    assert not has_settled([-0.3, -0.2, -0.1], 1e-4, size)


@pytest.mark.parametrize("batch_size", [None, 50])
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("algorithm", ["h-mc-ssvi", "s-dsvi"])
def test_converged_means_that_a_natural_step_gains_little(algorithm, covariance, batch_size, global_random_seed):
    """Steps of gradients creep: that the last ones gained little does not say that little is left."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((150, 4)) @ rng.standard_normal((4, 4))
    y = X[:, 0] + rng.logistic(size=150) > 0
    options = {"tol": 1e-3, "max_iter": 2000, "prior_precision": 1.0, "batch_size": batch_size, "random_state": 0}
    model = BayesianGLMClassifier(algorithm=algorithm, covariance=covariance, **options)
    model.fit(X, y)
    before = model.lower_bound_
    model.set_params(algorithm="mc-ssvi", warm_start=True, max_iter=1, tol=0.0, batch_size=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    # What a step is worth is known to second order before it is taken; of a diagonal block it is the best mean's too.
    gain = 1 if batch_size is None else 2 * GAIN if covariance == "diag" else GAIN
    assert model.lower_bound_ - before < 1.2e-3 * gain * (abs(before) + 1)


def test_noise_hides_what_is_left(global_random_seed):
    """Bounds with noise: a rise that passes show is gone on with, one that their means do not show is not."""
    noise = np.random.default_rng(global_random_seed).standard_normal(108)
    # Twice two standard errors: a level course ends at one of the checks 21, 32, 48, 72, 108 all but surely.
    assert any(hidden(list(-1000.0 + 20.0 * noise[:t]), 1e-9, abs) for t in (21, 32, 48, 72, 108))
    rising = -1000.0 + 20.0 * noise + 8.0 * np.arange(108)
    assert not any(hidden(list(rising[:t]), 1e-9, abs) for t in (48, 72, 108))
    assert not hidden(list(-1000.0 + 0.0 * noise[:14]), 1e-4, abs)  # too few passes
    assert not hidden(list(-1000.0 + 0.0 * noise[:30]), 1e-4, abs)  # no check is due


@pytest.mark.parametrize("algorithm", ["mc-ssvi", "s-dsvi"])
def test_a_step_too_short_for_its_square_is_judged(algorithm, global_random_seed):
    """What is left of a rate that was halved hundreds of times has no square, and gains were divided by it."""
    data = data_for("logit", seed=global_random_seed)
    problem = problem_for(model_for("logit", data), data, algorithm)
    state = fitted(problem, tol=1e-4)
    short = replace(state, finished=False, progress=LineSearchState(damping=1e-200), bounds=[state.bound])
    after, info = LineSearch().once(problem, short, 1e-4)
    assert info is None or np.isfinite(info.bound)
    assert after.q.keys() == state.q.keys()


@pytest.mark.parametrize("algorithm", ["h-mc-ssvi", "s-dsvi"])
@pytest.mark.parametrize("batch_size", [None, 32])
def test_gradient_steps_of_a_process_reach_its_optimum_and_stop(algorithm, batch_size, global_random_seed):
    """They began in units of the prior, overshot, and were checked where the fit would not end."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((300, 3))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(300)
    options = {"n_inducing": 12, "optimize_hyperparameters": False, "optimize_inducing": False, "noise_variance": 0.1}
    best = SparseGPRegressor(algorithm="mc-ssvi", random_state=0, **options).fit(X, y)
    model = SparseGPRegressor(algorithm=algorithm, batch_size=batch_size, random_state=0, **options).fit(X, y)
    assert model.converged_
    assert model.n_iter_ <= 400
    assert abs(best.lower_bound_ - model.lower_bound_) <= 2e-3 * abs(best.lower_bound_)


@pytest.mark.parametrize("algorithm", ["h-mc-ssvi", "s-dsvi"])
def test_gradient_steps_of_plates_do_not_lower_the_bound(algorithm, global_random_seed):
    """Rates e^f of first draws filled AdaGrad's sums with slopes of any size: a quarter of the bound was left."""
    bunch = make_pmf(40, 25, 1, likelihood="poisson", observed=0.5, random_state=global_random_seed)
    options = {"likelihood": "poisson", "n_components": 1, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GeneralizedPMF(algorithm=algorithm, **options).fit(bunch.data, bunch.target)
        # From where it ended: factors have more optima than one.
        best = copy.deepcopy(model).set_params(algorithm="mc-ssvi", warm_start=True).fit(bunch.data, bunch.target)
    rises = np.diff(model.lower_bounds_[FIRST_PASSES:])
    assert np.all(rises >= -1e-9 * abs(model.lower_bound_))
    assert best.lower_bound_ - model.lower_bound_ <= 0.01 * abs(best.lower_bound_)


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["h-mc-ssvi", "s-dsvi"])
def test_gradient_steps_beside_a_noise_scale_stop(algorithm, global_random_seed):
    """In the coordinates of the first q they crept through 300 passes: the noise's scale had moved away from it."""
    rng = np.random.default_rng(global_random_seed)
    X = np.column_stack([rng.standard_normal((400, 5)), np.arange(400) % 20])
    y = rng.poisson(np.log1p(np.exp(X[:, :5] @ rng.standard_normal(5) + rng.standard_normal(400))))
    options = {"likelihood": "poisson-softplus", "noise": True, "bound": "mean-field", "groups": [5]}
    best = GMERegressor(algorithm="mc-ssvi", random_state=0, **options).fit(X, y)
    model = GMERegressor(algorithm=algorithm, random_state=0, **options).fit(X, y)
    assert model.converged_
    assert best.lower_bound_ - model.lower_bound_ <= 2e-3 * abs(best.lower_bound_)
