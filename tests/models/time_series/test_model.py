"""The model of a latent in time: its bound against dense algebra and finite differences, for every likelihood."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sksvi.algorithms import CVI
from sksvi.inference.passes.line_search import line_search_state, run_until_settled
from sksvi.inference.search import Fitting
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.likelihoods import StudentT
from sksvi.models.data import Table
from sksvi.models.time_series.components import Dynamics
from sksvi.models.time_series.model import DynamicModel
from sksvi.models.time_series.search import SeriesSearch
from sksvi.schedules import Constant
from tests.cases import LEARNED, TRUTH, expected_log_prob, fitted, problem_for

SCALAR = [name for name, likelihood in TRUTH.items() if likelihood.n_latents == 1]
#: Not concave in f: messages of whole steps swing around their fixed point, and settle in more of them.
SWINGING = ("student-t", "inverse-gaussian")


def series(name, T=60, seed=0, missing=True, exposure=True):
    """A simulated series with gaps and offsets, and its columns."""
    rng = np.random.default_rng([seed, 41])
    f = np.cumsum(0.3 * rng.standard_normal(T))
    offset = 0.5 * rng.standard_normal(T) if exposure else np.zeros(T)
    X = rng.standard_normal((T, 1))
    f = f + 0.5 * X[:, 0] + offset
    if TRUTH[name].traits.paired:
        trials = rng.integers(1, 8, T)
        successes = rng.binomial(trials, TRUTH[name].mean(f))
        y = np.column_stack([successes, trials - successes]).astype(float)
    else:
        y = np.asarray(TRUTH[name].sample(f, rng), float)
    weight = np.where(np.arange(T) % 7 == 3, 0.0, rng.uniform(0.5, 2.0, T)) if missing else None
    return Table(X, y, weight, offset)


def dynamics_of(kind="level"):
    dynamics = Dynamics()
    if kind == "level":
        dynamics.add_level("auto", False, 0.0, 100.0)
    if kind == "all":
        dynamics.add_level("auto", True, "auto", 4.0, "auto")
        dynamics.add_seasonal(4.0, "dummy", "auto", 1.0)
        dynamics.add_damped("cycle", "cycle", "auto", "auto", 9.0, 60.0)
    dynamics.add_coefficients(["x"], "auto", np.ones(1), 1.0)
    return dynamics


def model_for(name, data, kind="level", learned=False):
    likelihood = LEARNED.get(name, TRUTH[name]) if learned else TRUTH[name]
    seen = slice(None) if data.weight is None else data.weight > 0
    likelihood = likelihood.start(data.y[seen], None)
    return DynamicModel(likelihood, dynamics_of(kind), data.X, data.weight, learned=learned)


def dense_bound(model, data, q):
    """The bound by a dense prior covariance and a grid of nodes of its own, with the mean and variance of f."""
    block = q["latents"]
    u, K = block.chain.dense()
    T, W = len(u), block.weights
    S = K @ np.linalg.inv(np.eye(T) + W[:, None] * K)
    m = u + S @ (block.linear - W * u)
    log_det = np.linalg.slogdet(np.eye(T) + W[:, None] * K)[1]
    kl = 0.5 * (log_det - W @ np.diag(S) + (block.linear - W * m) @ (m - u))
    weight = np.ones(T) if data.weight is None else data.weight
    seen = weight > 0
    value = expected_log_prob(model.current_likelihood(q), data.y[seen], (m + data.offset)[seen], np.diag(S)[seen])
    return weight[seen] @ value - kl, m, np.diag(S)


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("name", SCALAR)
def test_bound_means_and_variances_are_those_of_the_dense_process(name, missing):
    data = series(name, missing=missing)
    model = model_for(name, data)
    state = fitted(problem_for(model, data, "cvi"), tol=1e-10)
    bound, m, v = dense_bound(model, data, state.q)
    block = state.q["latents"]
    assert state.converged
    assert state.bound == pytest.approx(bound, rel=1e-6)
    np.testing.assert_allclose(block.mean, m, rtol=0, atol=1e-6 * np.abs(m).max())
    np.testing.assert_allclose(block.variance, v, rtol=1e-6)


@pytest.mark.parametrize("name", SCALAR)
def test_a_fit_takes_few_sweeps_and_its_messages_stand_still(name):
    data = series(name)
    model = model_for(name, data)
    problem = problem_for(model, data, "cvi")
    state = fitted(problem, tol=1e-9)
    assert state.steps <= (40 if name in SWINGING else 14)
    terms = model.terms(state.q, data, problem.expect, None)
    linear, gamma = terms.message()
    block = state.q["latents"]
    np.testing.assert_allclose(block.weights, -2.0 * gamma, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(block.linear, linear, rtol=1e-2, atol=1e-2)


def test_a_message_may_say_that_the_latent_is_less_sure():
    rng = np.random.default_rng(42)
    y = np.concatenate([rng.normal(0.0, 0.1, 20), [6.0], rng.normal(0.0, 0.1, 20)])
    data = Table(np.zeros((41, 0)), y, None, np.zeros(41))
    dynamics = Dynamics()
    dynamics.add_level(1.0, False, 0.0, 100.0)
    model = DynamicModel(StudentT(scale=0.1, df=2.0), dynamics, data.X, learned=False)
    state = fitted(problem_for(model, data, "cvi"), tol=1e-10)
    block = state.q["latents"]
    bound, _, v = dense_bound(model, data, state.q)
    assert block.weights.min() < 0
    assert state.bound == pytest.approx(bound, rel=1e-6)
    np.testing.assert_allclose(block.variance, v, rtol=1e-6)


@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "fp"])
def test_every_algorithm_ends_at_the_same_bound(algorithm):
    data = series("poisson")
    model = model_for("poisson", data)
    bounds = [fitted(problem_for(model, data, name), tol=1e-11).bound for name in ("cvi", algorithm)]
    assert bounds[1] == pytest.approx(bounds[0], abs=1e-6)


@pytest.mark.parametrize("kind", ["level", "all"])
@pytest.mark.parametrize("missing", [False, True])
def test_what_is_known_of_gaussian_noise_is_what_a_fit_would_find(kind, missing):
    """Messages, bound and slopes in closed form, with and without weights and offsets."""
    data = series("gaussian", missing=missing, exposure=missing)
    data = replace(data, offset=data.offset if missing else None)
    model = model_for("gaussian", data, kind, learned=True)
    problem = problem_for(model, data, "cvi")
    state = first_state(problem, 0)
    names = list(model.hyper)
    state = run_until_settled(problem, state, 300, 1e-13)
    here = line_search_state(state).here
    search = SeriesSearch(model, Fitting(problem, state, lambda bound: False), 1e-6, names)
    found, slopes = search.closed(dict(here.q))
    assert found.bound == pytest.approx(here.bound, rel=1e-10)
    wanted, _ = model.slopes(here.q, data, problem.expect)
    for name in names:
        np.testing.assert_allclose(slopes[name], wanted[name], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.q["latents"].linear, here.q["latents"].linear, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("share", [1.0, 0.3, 0.01])
def test_a_fit_under_gaussian_noise_begins_at_its_best(share):
    """First messages are those of the noise as q has it, to the bit, whatever a logarithm rounds: no pass is due."""
    for seed in range(10):
        data = series("gaussian", seed=seed)
        data = replace(data, y=170.0 * data.y)
        model = model_for("gaussian", data, learned=True)
        model = model.replaced(likelihood=model.likelihood.scales.with_less_noise(share))
        q = model.starts.filled(first_state(problem_for(model, data, "cvi"), 0).q, data)
        known = model.starts.optimum(q, data, 1.0)
        assert known is not None and known.bound == pytest.approx(dense_bound(model, data, q)[0], rel=1e-8)


@pytest.mark.parametrize("kind", ["level", "all"])
def test_the_curvature_of_gaussian_noise_is_that_of_the_slopes(kind):
    data = series("gaussian", exposure=False)
    model = model_for("gaussian", data, kind, learned=True)
    problem = problem_for(model, data, "cvi")
    state = run_until_settled(problem, first_state(problem, 0), 300, 1e-13)
    search = SeriesSearch(model, Fitting(problem, state, lambda bound: False), 1e-6, list(model.hyper))
    x = search.start + 0.1
    _, slope = search.evaluated(x)
    found, wanted = search.curvature(x, slope), np.empty((len(x), len(x)))
    for place, unit in enumerate(1e-3 * np.eye(len(x))):
        wanted[place] = (search.evaluated(x - unit)[1] - search.evaluated(x + unit)[1]) / 2e-3
    np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-3 * np.abs(wanted).max())


#: The larger siblings of those that `make test` runs.
SLOW = [name for name in SCALAR if name not in ("poisson", "negative-binomial", "gaussian")]


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, "level") for name in SCALAR]
    + [(name, "all") for name in SCALAR if name not in SLOW]
    + [pytest.param(name, "all", marks=pytest.mark.exhaustive) for name in SLOW],
)
def test_the_slope_of_the_profile_bound_is_that_of_finite_differences(name, kind):
    data = series(name, exposure=False)
    model = model_for(name, data, kind, learned=True)
    problem = problem_for(model, data, "cvi")
    damped = CVI(Constant(0.6)) if name in SWINGING else "cvi"
    names = [key for key in model.hyper]
    begun = model.starts.filled(model.begin(data, None), data)
    start, first = {key: begun[key].value for key in names}, begun["latents"]

    def settled(values):
        fixed = DynamicModel(model.likelihood, model.dynamics, data.X, data.weight, learned=False)
        own = problem_for(fixed, data, damped, frozen=frozenset(names))
        state = run_until_settled(own, State(fixed.at(values, first), 0), 300, 1e-13)
        return line_search_state(state).here

    here = settled(start)
    slopes, _ = model.slopes(here.q, data, problem.expect)
    for key in names:
        for k in range(len(start[key])):
            h = 2e-3
            ends = []
            for sign in (h, -h, h / 2, -h / 2):
                moved = start[key].copy()
                moved[k] += sign
                ends.append(settled({**start, key: moved}).bound)
            coarse, fine = (ends[0] - ends[1]) / (2 * h), (ends[2] - ends[3]) / h
            found = (4 * fine - coarse) / 3
            assert slopes[key][k] == pytest.approx(found, rel=1e-4, abs=2e-5 * (1 + abs(here.bound)) / 60)
