"""Sparse Gaussian processes: exact answers, bounds, gradients by finite differences, and what users see."""

from __future__ import annotations

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from sksvi import algorithms, expectations, likelihoods, persistence
from sksvi._runtime import parallel
from sksvi.algorithms.ascent import ascend
from sksvi.algorithms.steps import natural_step
from sksvi.families import Free, Gaussian, NotPositiveDefinite
from sksvi.gaussian_process import SparseGPClassifier, SparseGPRegressor
from sksvi.gaussian_process._start import merged
from sksvi.inference import engine, plan
from sksvi.inference.problem import divergence
from sksvi.inference.records import LineSearchState
from sksvi.inference.search import Fitting
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.models.base import Segment
from sksvi.models.data import Table
from sksvi.models.gp.bounds import BOUNDS, JITTERS, Geometry, log_evidence
from sksvi.models.gp.collapsed import by_sums
from sksvi.models.gp.inducing import choose, unwhitened
from sksvi.models.gp.integrated import CollapsedSearch, best_given, learned
from sksvi.models.gp.sparse import SparseGPModel

KERNEL = ConstantKernel(1.3) * RBF([0.8, 1.5]) + ConstantKernel(0.2) * Matern(1.0, nu=1.5)
NOISE = 0.1
FULL = pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
#: Likelihoods and the bounds that they allow.
PAIRS = [
    ("gaussian", "simple"),
    ("gaussian", "v1"),
    ("logit", "simple"),
    ("poisson", "simple"),
    ("student-t", "simple"),
]


def data_for(name, seed, n=40, weight=True):
    """Rows with a smooth latent; weights and offsets."""
    rng = np.random.default_rng([seed, 11])
    X = rng.uniform(-2, 2, (n, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    offset = 0.1 * rng.standard_normal(n)
    y = {
        "gaussian": lambda: f + np.sqrt(NOISE) * rng.standard_normal(n),
        "student-t": lambda: f + 0.2 * rng.standard_t(4, n),
        "poisson": lambda: rng.poisson(np.exp(f)).astype(float),
        "logit": lambda: (f + rng.logistic(size=n) > 0).astype(float),
    }[name]()
    return Table(X, y, rng.integers(1, 4, n).astype(float) if weight else None, offset if weight else None)


def problem_for(data, name="gaussian", fixed=False, algorithm="cvi", **options):
    """A fit about to begin."""
    base = likelihoods.Gaussian(variance=NOISE) if fixed else likelihoods.resolve(name)
    options = {"kernel": KERNEL, "n_inducing": 9, "scale": data.X.std(axis=0), **options}
    model = SparseGPModel(base.start(data.y, data.weight), **options)
    return plan.problem(model, data, algorithms.resolve(algorithm), expectations.resolve("auto"))


def fitting(problem, state):
    """A fit that nobody ends."""
    return Fitting(problem, replace(state, progress=LineSearchState()), lambda bound: False)


def random_block(m, seed, full=True):
    """Some q(v)."""
    rng = np.random.default_rng([seed, 12])
    A = rng.standard_normal((m, m))
    return Gaussian(0.3 * rng.standard_normal(m), 2.0 * np.eye(m) + A @ A.T)


def bound_at(problem, q):
    """Bound of all data at q."""
    return engine.exact_bound(problem, State(q, 0))


def numerical(function, x, step=1e-4):
    """Central differences, by Richardson's rule."""
    out = np.zeros_like(x)
    for j in range(x.size):
        at = np.zeros_like(x)
        at.flat[j] = step
        near = (function(x + at) - function(x - at)) / (2 * step)
        far = (function(x + 2 * at) - function(x - 2 * at)) / (4 * step)
        out.flat[j] = (4 * near - far) / 3
    return out


# ---- exact answers
def dense_evidence(data, Z=None, kernel=KERNEL, noise=NOISE, diagonal=False):
    """log N(y; 0, Q + noise), for FITC with the left-over variance on the diagonal, from repeated rows."""
    times = np.ones(len(data), int) if data.weight is None else data.weight.astype(int)
    X, y = np.repeat(data.X, times, axis=0), np.repeat(data.y - (0 if data.offset is None else data.offset), times)
    K = kernel(X)
    left = np.zeros(len(y))
    if Z is not None:
        cross = kernel(X, Z)
        Q = cross @ np.linalg.solve(kernel(Z), cross.T)
        left, K = np.diagonal(K) - np.diagonal(Q), Q
    noisy = K + np.diag(noise + (left if diagonal else 0.0 * left))
    value = multivariate_normal.logpdf(y, np.zeros(len(y)), noisy)
    return value, left


def test_every_row_an_inducing_point_is_the_exact_gp(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(-3, 3, (30, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(30)
    kernel = ConstantKernel(1.5) * RBF([0.7, 0.9])
    exact = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X, y)
    new = rng.uniform(-3, 3, (20, 2))
    mean, std = exact.predict(new, return_std=True)
    for bound in ("simple", "v1", "v2", "optimal"):
        model = SparseGPRegressor(
            kernel=kernel, bound=bound, noise_variance=NOISE, optimize_hyperparameters=False, tol=1e-12
        ).fit(X, y)
        assert len(model.inducing_points_) == 30
        # v2 has another objective, whose optimum is another q.
        if bound != "v2":
            assert model.lower_bound_ == pytest.approx(exact.log_marginal_likelihood(kernel.theta), abs=1e-6)
            m, v = model.predict_latent(new)
            np.testing.assert_allclose(m, mean, atol=1e-6)
            np.testing.assert_allclose(np.sqrt(v), std, atol=1e-6)
            np.testing.assert_allclose(model.predict(new, return_std=True)[1], np.sqrt(v + NOISE), atol=1e-12)


@pytest.mark.parametrize("weight", [False, True], ids=["plain", "weights"])
def test_collapsed_values_are_the_closed_forms(global_random_seed, weight):
    data = data_for("gaussian", global_random_seed, weight=weight)
    for bound in ("simple", "v1", "optimal"):
        problem = problem_for(data, fixed=True, bound=bound)
        state = plan.run(problem, first_state(problem, 0), 20, 1e-13, lambda state: False)
        kernel, Z = problem.model.kernel_and_points(state.q)
        # What `run` learned is beside the point: the values hold wherever it stopped.
        value, left = dense_evidence(data, None if bound == "optimal" else Z, kernel, diagonal=bound == "v1")
        value -= 0.5 * left.sum() / NOISE if bound == "simple" else 0.0
        assert state.bound == pytest.approx(value, abs=1e-7 * abs(value))


def test_one_natural_step_is_the_collapsed_solution(global_random_seed):
    data = data_for("gaussian", global_random_seed)
    for bound in ("simple", "v1", "optimal"):
        problem = problem_for(data, fixed=True, bound=bound, learn_kernel=False, learn_inputs=False)
        state = first_state(problem, 0)
        state = replace(state, q={**state.q, "inducing": random_block(9, global_random_seed)})
        gradient, _ = engine.evaluate(problem, state, engine.whole(problem))
        prior = problem.model.prior(state.q)["inducing"]
        q = {**state.q, "inducing": natural_step(state.q["inducing"], prior, gradient["inducing"], 1.0)}
        again, _ = engine.evaluate(problem, replace(state, q=q), engine.whole(problem))
        moved = natural_step(q["inducing"], prior, again["inducing"], 1.0)
        np.testing.assert_allclose(moved.mean, q["inducing"].mean, atol=1e-9)
        if bound != "optimal":
            search = CollapsedSearch(problem.model, fitting(problem, state), ["kernel"], problem.data)
            best, _ = best_given(search.model, state.q, search._over_rows)
            np.testing.assert_allclose(best.mean, q["inducing"].mean, atol=1e-9)
            np.testing.assert_allclose(best.precision, q["inducing"].precision, rtol=1e-9, atol=1e-9)


def test_optimal_q_is_the_exact_posterior(global_random_seed):
    data = data_for("gaussian", global_random_seed, weight=False)
    Z = np.random.default_rng(global_random_seed).uniform(-2, 2, (5, 2))
    model = SparseGPRegressor(
        kernel=KERNEL, inducing=Z, bound="optimal", noise_variance=NOISE, optimize_hyperparameters=False
    ).fit(data.X, data.y)
    gain = np.linalg.solve(KERNEL(data.X) + NOISE * np.eye(len(data)), KERNEL(data.X, Z)).T
    np.testing.assert_allclose(model.posterior_["inducing"].mean, gain @ data.y, atol=1e-7)
    np.testing.assert_allclose(model.posterior_["inducing"].cov, KERNEL(Z) - gain @ KERNEL(data.X, Z), atol=1e-7)


def test_order_of_the_bounds_at_equal_q(global_random_seed):
    """v2 >= v1 >= simple and optimal >= simple; simple and optimal never above the evidence."""
    for seed in range(5):
        data = data_for("gaussian", global_random_seed + seed)
        values = {}
        for bound in ("simple", "v1", "v2", "optimal"):
            problem = problem_for(data, fixed=True, bound=bound)
            q = {**problem.model.begin(data, None), "inducing": random_block(9, seed)}
            values[bound] = bound_at(problem, q)
        evidence = dense_evidence(data)[0]
        assert values["v2"] >= values["v1"] >= values["simple"]
        assert evidence >= values["optimal"] >= values["simple"]


def test_bound_against_dense_quadrature(global_random_seed):
    """The simple bound of a likelihood without closed form, every expectation on a fine grid."""
    data = data_for("logit", global_random_seed)
    problem = problem_for(data, "logit")
    q = {**problem.model.begin(data, None), "inducing": random_block(9, global_random_seed)}
    geometry = problem.model.geometry(q)
    w = unwhitened(geometry.L, q["inducing"])
    gain = np.linalg.solve(KERNEL(geometry.Z), KERNEL(geometry.Z, data.X)).T
    m = gain @ w.mean + data.offset
    v = KERNEL.diag(data.X) - np.einsum("ij,ji->i", gain, KERNEL(geometry.Z, data.X))
    v += np.einsum("ij,jk,ik->i", gain, w.cov, gain)
    z = np.linspace(-9, 9, 4001)
    weights = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    log_p = -np.logaddexp(0, -(2 * data.y - 1)[:, None] * (m[:, None] + np.sqrt(v)[:, None] * z))
    prior = multivariate_normal(np.zeros(9), KERNEL(geometry.Z), allow_singular=True)
    kl = -w.log_det_cov() / 2 - 4.5 * (1 + np.log(2 * np.pi))
    kl += 0.5 * np.trace(np.linalg.solve(KERNEL(geometry.Z), w.cov)) - prior.logpdf(w.mean)
    assert bound_at(problem, q) == pytest.approx(data.weight @ (log_p @ weights) - kl, abs=1e-6)


# ---- gradients
@pytest.mark.parametrize("bound", ["simple", "v1", "v2"])
def test_derivatives_per_datum(bound, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y, mu, s, d = rng.standard_normal(6), rng.standard_normal(6), rng.uniform(0.1, 1, 6), rng.uniform(0.1, 1, 6)
    likelihood = likelihoods.Gaussian().start(y)
    auto = expectations.resolve("auto")

    def value(mu, s, d, u=likelihood.unconstrained):
        return BOUNDS[bound](likelihood.replace(u), y, mu, s, d, auto, None)

    t, h = value(mu, s, d), 1e-5
    for got, up, down in [
        (t.alpha, value(mu + h, s, d), value(mu - h, s, d)),
        (t.gamma, value(mu, s + h, d), value(mu, s - h, d)),
        (t.delta, value(mu, s, d + h), value(mu, s, d - h)),
    ]:
        np.testing.assert_allclose(got, (up.value - down.value) / (2 * h), rtol=1e-6, atol=1e-7)
    first, second = t.points["likelihood"]
    up, down = (value(mu, s, d, likelihood.unconstrained + e) for e in (h, -h))
    np.testing.assert_allclose(first[:, 0], (up.value - down.value) / (2 * h), rtol=1e-6, atol=1e-7)
    slope = (up.points["likelihood"][0] - down.points["likelihood"][0])[:, 0] / (2 * h)
    np.testing.assert_allclose(second[:, 0, 0], slope, rtol=1e-6, atol=1e-7)


@FULL
@pytest.mark.parametrize(("name", "bound"), PAIRS)
def test_gradient_at_fixed_q(name, bound, full, global_random_seed):
    """Kernel, inducing inputs and the likelihood's scales, q(v) held."""
    data = data_for(name, global_random_seed)
    problem = problem_for(data, name, bound=bound, by="gradient")
    state = first_state(problem, 0)
    block = random_block(9, global_random_seed)
    q = {**state.q, "inducing": block}
    gradient, _ = engine.evaluate(problem, replace(state, q=q), engine.whole(problem))
    assert set(gradient) == set(q)
    for name in set(q) - {"inducing"}:
        slope, old = gradient[name][0], q[name]

        def value(x, name=name, old=old):
            return bound_at(problem, {**q, name: type(old)(x)})

        expected = numerical(value, old.value)
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.costly
@FULL
@pytest.mark.parametrize(("name", "bound"), [*PAIRS, ("gaussian", "v2"), ("gaussian", "optimal")])
def test_gradient_of_the_search(name, bound, full, global_random_seed, monkeypatch):
    """By the envelope theorem that at fixed q is the gradient of the bound at its best q."""
    monkeypatch.setattr("sksvi.models.gp.integrated.SETTLING_TOL", 1e-10)
    data = data_for(name, global_random_seed, n=25)
    problem = problem_for(data, name, bound=bound, full=full, n_inducing=5)
    state = first_state(problem, 0)
    fit = fitting(problem, state)
    search = CollapsedSearch(problem.model, fit, learned(problem.model, fit), problem.data)
    x = search.start()
    _, gradient = search(x)
    expected = numerical(lambda x: search(x)[0], x, 1e-3)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("learn_inputs", [True, False])
@pytest.mark.parametrize("weight", [True, False])
def test_looks_without_whitened_rows(fixed, learn_inputs, weight, global_random_seed, monkeypatch):
    """Bound, slope and best q are those of rows that are whitened."""
    data = data_for("gaussian", global_random_seed, weight=weight)
    problem = problem_for(data, fixed=fixed, learn_inputs=learn_inputs)
    fit = fitting(problem, first_state(problem, 0))
    found = []
    for rows in (1, 10**6):
        monkeypatch.setattr("sksvi.models.gp.collapsed.LEAST_ROWS", rows)
        search = CollapsedSearch(problem.model, fit, learned(problem.model, fit), data)
        assert by_sums(search.model, search.q, data) == (rows == 1)
        value, slope = search(search.start())
        found.append((value, slope, search.q["inducing"].mean, search.q["inducing"].cov))
    for sums, whitened in zip(*found, strict=True):
        np.testing.assert_allclose(sums, whitened, rtol=1e-7, atol=1e-7 * np.max(np.abs(whitened)))


def test_curvature_without_whitened_rows(global_random_seed, monkeypatch):
    """The posterior of hyperparameters has the same nodes."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(60, 2))
    y, found = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=60), []
    for rows in (1, 10**6):
        monkeypatch.setattr("sksvi.models.gp.collapsed.LEAST_ROWS", rows)
        found.append(SparseGPRegressor(n_inducing=8, random_state=0).fit(X, y).hyperparameter_posterior_)
    np.testing.assert_allclose(*found, rtol=1e-4)


def test_rows_are_whitened_where_points_are_close(global_random_seed, monkeypatch):
    monkeypatch.setattr("sksvi.models.gp.collapsed.LEAST_ROWS", 1)
    data = data_for("gaussian", global_random_seed)
    problem = problem_for(data, inducing=np.repeat(data.X[:3], 2, axis=0) + [[0.0], [1e-4]] * 3)
    q = problem.model.begin(data, None)
    heavy = replace(data, weight=np.full(len(data), 1e4 / len(data)))
    assert by_sums(problem_for(data).model, problem_for(data).model.begin(data, None), heavy)
    assert not by_sums(problem.model, q, heavy)


def test_exact_evidence(global_random_seed):
    data = data_for("gaussian", global_random_seed)
    value, theta, noise = log_evidence(KERNEL, data, NOISE)
    assert value == pytest.approx(dense_evidence(data)[0], abs=1e-8)
    np.testing.assert_allclose(
        theta, numerical(lambda t: log_evidence(KERNEL.clone_with_theta(t), data, NOISE)[0], KERNEL.theta), atol=1e-6
    )
    slope = numerical(lambda s: log_evidence(KERNEL, data, float(s[0]))[0], np.array([NOISE]), 1e-4)
    assert noise == pytest.approx(slope[0], rel=1e-6)


@pytest.mark.parametrize(("name", "bound"), [*PAIRS, ("gaussian", "v2")])
def test_batches_average_to_the_full_gradient(name, bound, global_random_seed):
    data = data_for(name, global_random_seed)
    problem = problem_for(data, name, bound=bound, by="gradient")
    q = {**problem.model.begin(data, None), "inducing": random_block(9, global_random_seed)}
    state, model, cuts = State(q, 0), problem.model, np.split(np.arange(40), 5)

    def pulled(rows):
        batch = model.batch(data, rows)
        return model.pull_back(model.terms(q, batch, problem.expect, None), batch)

    full, total = pulled(slice(0, 40)), parallel.tree_sum([pulled(rows) for rows in cuts])
    for key in full:
        for whole, sum_of_parts in zip(full[key], total[key], strict=True):
            np.testing.assert_allclose(sum_of_parts, whole, rtol=1e-9, atol=1e-9)
    evaluated, _ = engine.evaluate(problem, state, engine.whole(problem))
    parts = parallel.tree_sum([engine.evaluate(problem, state, Segment(rows, 1.0))[0] for rows in cuts])
    assert set(evaluated) == set(q)
    for found in (model.completed(total, q), parts):
        for key, pieces in evaluated.items():
            tolerance = 1e-7 if key in ("kernel", "inputs") else 1e-9
            for whole, sum_of_parts in zip(pieces, found[key], strict=True):
                np.testing.assert_allclose(sum_of_parts, whole, rtol=tolerance, atol=tolerance)


# ---- inducing points
def test_inducing_points(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = np.repeat(rng.standard_normal((30, 2)), 2, axis=0)
    weight = np.full(30, 2.0)
    for how in ("kmeans", "random"):
        Z = choose(X, None, 8, how, np.ones(2), 0)
        assert Z.shape == (8, 2) and len(np.unique(Z, axis=0)) == 8
        np.testing.assert_array_equal(Z, choose(X[::-2], weight, 8, how, np.ones(2), 0))
        np.testing.assert_array_equal(choose(X, None, 31, how, np.ones(2), 0), np.unique(X, axis=0))
    assert np.all(np.isin(choose(X, None, 8, "random", np.ones(2), 0), X))


def test_a_fit_without_hyperparameters_keeps_kernel_and_points(global_random_seed):
    data = data_for("gaussian", global_random_seed)
    Z = data.X[:7]
    model = SparseGPRegressor(kernel=KERNEL, inducing=Z, optimize_hyperparameters=False, optimize_inducing=False)
    model.fit(data.X, data.y)
    np.testing.assert_allclose(model.inducing_points_, Z, rtol=1e-15)
    np.testing.assert_allclose(model.kernel_.theta, KERNEL.theta, rtol=1e-12)
    assert model.noise_variance_ != pytest.approx(0.5 * data.y.var(), rel=1e-6)


def test_unwhitened_posterior(global_random_seed):
    Z = np.random.default_rng(global_random_seed).uniform(-2, 2, (6, 2))
    geometry, block = Geometry(KERNEL, Z), random_block(6, global_random_seed)
    w = unwhitened(geometry.L, block)
    np.testing.assert_allclose(w.cov, geometry.L @ block.cov @ geometry.L.T, atol=1e-12)
    np.testing.assert_allclose(w.mean, geometry.L @ block.mean, atol=1e-12)
    assert np.all(np.triu(w.root, 1) == 0) or np.abs(np.triu(w.root, 1)).max() < 1e-12


def test_jitter_only_where_it_is_needed():
    X = np.linspace(0, 1, 50)[:, None]
    assert Geometry(RBF(0.01), X).jitter == 0.0
    assert Geometry(RBF(10.0), X).jitter in JITTERS[1:]
    # A kernel of rank two on 50 points.
    _, _, d = Geometry(DotProduct(), X).rows(X)
    assert d.max() < 1e-6


# ---- what users see
def test_hyperparameters_raise_the_bound(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(0, 6, (150, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(150)
    fixed = SparseGPRegressor(n_inducing=15, optimize_hyperparameters=False, optimize_inducing=False).fit(X, y)
    point = {"n_inducing": 15, "hyperparameters": "point"}  # integrals over them have an error of their own
    model = SparseGPRegressor(**point, random_state=0).fit(X, y)
    assert model.lower_bound_ > fixed.lower_bound_ + 5 and model.converged_
    exact = SparseGPRegressor(**point, bound="optimal").fit(X, y)
    assert exact.lower_bound_ + 1e-6 >= model.lower_bound_ > exact.lower_bound_ - 2
    # The noise variance of 0.04 is estimated from 150 rows: relative standard error sqrt(2 / 150), four of them.
    assert abs(np.log(model.noise_variance_ / 0.04)) < 4 * np.sqrt(2 / 150) + 0.1
    assert np.all(np.diff(model.lower_bounds_) > -1e-6 * abs(model.lower_bound_))


@pytest.mark.costly
@pytest.mark.parametrize("bound", ["simple", "v1", "v2"])
def test_threads_change_no_bit(bound, global_random_seed, monkeypatch):
    monkeypatch.setattr(parallel, "CHUNK_NUMBERS", 2**10)
    data = data_for("gaussian", global_random_seed, n=400, weight=False)
    one, two = (
        SparseGPRegressor(n_inducing=12, bound=bound, n_jobs=jobs, max_iter=12, random_state=0) for jobs in (1, 2)
    )
    with pytest.warns(match="did not converge"):
        one.fit(data.X, data.y)
    with pytest.warns(match="did not converge"):
        two.fit(data.X, data.y)
    assert one.lower_bound_ == two.lower_bound_
    np.testing.assert_array_equal(one.inducing_points_, two.inducing_points_)
    np.testing.assert_array_equal(one.predict(data.X), two.predict(data.X))


def test_weights_are_repeats(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    data = data_for("gaussian", global_random_seed, n=60, weight=False)
    times = rng.integers(0, 3, 60)
    order = rng.permutation(int(times.sum()))
    X, y = np.repeat(data.X, times, axis=0)[order], np.repeat(data.y, times)[order]
    weighted = SparseGPRegressor(n_inducing=10, random_state=0).fit(data.X, data.y, sample_weight=times)
    repeated = SparseGPRegressor(n_inducing=10, random_state=0).fit(X, y)
    np.testing.assert_array_equal(weighted.predict(data.X), repeated.predict(data.X))
    assert merged(Table(X, y)).total_weight == times.sum()


@pytest.mark.exhaustive
@pytest.mark.parametrize("algorithm", [pytest.param("mc-ssvi", marks=pytest.mark.exhaustive), "cvi"])
def test_mini_batches_come_near_the_full_fit(algorithm, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(0, 6, (600, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(600)
    full = SparseGPRegressor(hyperparameters="point", n_inducing=16, random_state=0).fit(X, y)
    model = SparseGPRegressor(n_inducing=16, random_state=0, algorithm=algorithm, batch_size=60, max_iter=160, tol=0)
    with pytest.warns(match="did not converge"):
        model.fit(X, y)
    # Steps carry some inducing inputs out of the data: of twelve too few stay now and then, 63 nats low.
    assert full.lower_bound_ > model.lower_bound_ > full.lower_bound_ - 0.1 * len(y)
    assert np.sqrt(np.mean((model.predict(X) - np.sin(2 * X[:, 0])) ** 2)) < 0.1


def test_chunks_equal_the_batch_with_fixed_hyperparameters(global_random_seed):
    data = data_for("gaussian", global_random_seed, n=90, weight=False)
    options = {
        "kernel": KERNEL,
        "inducing": data.X[:10],
        "noise_variance": NOISE,
        "optimize_hyperparameters": False,
        "optimize_inducing": False,
    }
    whole = SparseGPRegressor(**options).fit(data.X, data.y)
    chunked = SparseGPRegressor(**options)
    for part in np.split(np.arange(90), 3):
        chunked.partial_fit(data.X[part], data.y[part])
    np.testing.assert_allclose(chunked.predict(data.X), whole.predict(data.X), atol=1e-8)
    np.testing.assert_allclose(chunked.posterior_.inducing.cov, whole.posterior_.inducing.cov, atol=1e-8)


def test_a_stream_learns_the_kernel(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(0, 6, (2000, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(2000)
    first = SparseGPRegressor(n_inducing=15, random_state=0).partial_fit(X[:200], y[:200])
    kernel = first.kernel_
    assert first.lower_bound_ > -200 * 0.6
    for start in range(200, 2000, 200):
        first.partial_fit(X[start : start + 200], y[start : start + 200])
    assert first.kernel_ == kernel and first.n_samples_seen_ == 2000
    assert np.sqrt(np.mean((first.predict(X) - np.sin(2 * X[:, 0])) ** 2)) < 0.05
    steps = SparseGPRegressor(n_inducing=15, random_state=0, algorithm="mc-ssvi", total_samples=2000)
    for start in range(0, 2000, 100):
        steps.partial_fit(X[start : start + 100], y[start : start + 100])
    assert np.all(steps.kernel_.theta != kernel.theta) and np.isfinite(steps.lower_bound_)


@pytest.mark.costly
def test_classification(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(-2, 2, (300, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] ** 2 + 0.3 * rng.standard_normal(300) < 2, "in", "out")
    for likelihood in ("logit", "probit"):
        model = SparseGPClassifier(likelihood=likelihood, n_inducing=20, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.9 and model.converged_
        assert model.predict_proba([[0.0, 0.0]])[0, 0] > 0.9
        assert np.all(np.diff(model.lower_bounds_) > -1e-5 * abs(model.lower_bound_))


@pytest.mark.costly
@pytest.mark.parametrize("likelihood", ["poisson", "student-t", "negative-binomial", "ordinal", "binomial"])
def test_other_likelihoods(likelihood, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(0, 6, (200, 1))
    f = np.sin(X[:, 0])
    y = {
        "poisson": lambda: rng.poisson(np.exp(1 + f)),
        "negative-binomial": lambda: rng.poisson(np.exp(1 + f) * rng.gamma(3, 1 / 3, 200)),
        "student-t": lambda: f + 0.2 * rng.standard_t(3, 200),
        "ordinal": lambda: np.digitize(2 * f + rng.logistic(size=200) / 2, [-1, 0, 1]),
        "binomial": lambda: (lambda k: np.stack([k, 5 - k], axis=1))(rng.binomial(5, 1 / (1 + np.exp(-2 * f)))),
    }[likelihood]()
    model = SparseGPRegressor(likelihood=likelihood, n_inducing=10, random_state=0).fit(X, y)
    assert model.converged_ and model.score(X, y) > 0.15
    assert np.corrcoef(model.predict_latent(X)[0], f)[0, 1] > 0.9


@pytest.mark.costly
@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial", "binomial"])
def test_the_unit_of_an_exposure_changes_no_prediction(likelihood, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(-3, 3, (120, 1))
    f = np.sin(2 * X[:, 0])
    if likelihood == "binomial":
        successes = rng.binomial(9, 1 / (1 + np.exp(-f)))
        y = np.column_stack([successes, 9 - successes])
    else:
        y = rng.poisson(np.exp(f))
    own, far = np.zeros(120), np.full(120, np.log(1e6))
    # Steps at nodes of the kernel's parameters end where their share of tol says, which rounding may move by a step.
    for hyperparameters, share in (("point", 1e-5), ("integrated", 0.05)):
        model = SparseGPRegressor(likelihood=likelihood, n_inducing=12, random_state=0, hyperparameters=hyperparameters)
        here, there = (model.fit(X, y, offset=log).predict(X, offset=log) for log in (own, far))
        np.testing.assert_allclose(there, here, rtol=share)
    # A place far from all rows has their rate, not exp(0).
    away = np.mean(y[:, 0] / 9.0) if likelihood == "binomial" else np.mean(y)
    model = SparseGPRegressor(likelihood=likelihood, n_inducing=12, random_state=0).fit(X, y)
    assert model.mean_ == pytest.approx(
        np.log(away / (1 - away)) if likelihood == "binomial" else np.log(away), abs=0.1
    )


def test_single_precision_in_single_precision_out(global_random_seed):
    data = data_for("gaussian", global_random_seed, weight=False)
    model = SparseGPRegressor(n_inducing=8, random_state=0).fit(data.X.astype(np.float32), data.y.astype(np.float32))
    mean, std = model.predict(data.X.astype(np.float32), return_std=True)
    assert mean.dtype == std.dtype == np.float32
    assert model.predict(data.X).dtype == np.float64


def test_summary_and_warm_start(global_random_seed):
    data = data_for("gaussian", global_random_seed, weight=False)
    model = SparseGPRegressor(n_inducing=8, hyperparameters="point", random_state=0, warm_start=True).fit(
        data.X, data.y
    )
    table = model.summary()
    assert list(table.columns) == ["mean", "std", "lower", "upper"] and len(table) == 1 + 2 + 1 + 8 + 1
    assert table.loc["noise_variance", "mean"] == model.noise_variance_
    # Hyperparameters are points: how uncertain they are is not known, which is not the same as zero.
    assert table.iloc[:3][["std", "lower", "upper"]].isna().to_numpy().all()
    assert np.all(np.isfinite(table["mean"])) and np.all(table.iloc[3:]["std"] > 0)
    # The same curvature in the noise's variance and in its standard deviation.
    noise, std = table.loc["noise_variance"], table.loc["std(residual)"]
    np.testing.assert_allclose(noise[["mean", "lower", "upper"]], std[["mean", "lower", "upper"]] ** 2, rtol=1e-6)
    assert std["std"] == pytest.approx(std["mean"] / np.sqrt(2 * len(data)), rel=0.1)
    before = model.lower_bound_
    assert model.fit(data.X, data.y).lower_bound_ >= before - 1e-6 * abs(before)


def test_offset_shifts_the_latent(global_random_seed):
    data = data_for("gaussian", global_random_seed, weight=False)
    offset = np.linspace(-5, 5, len(data))
    plain = SparseGPRegressor(n_inducing=8, random_state=0).fit(data.X, data.y)
    moved = SparseGPRegressor(n_inducing=8, random_state=0).fit(data.X, data.y + offset, offset=offset)
    # Rows are sorted by their target too, so that roundings differ along the search.
    np.testing.assert_allclose(moved.predict(data.X, offset=offset) - offset, plain.predict(data.X), atol=2e-2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "rbf"}, "kernel"),
        ({"kernel": RBF() + WhiteKernel()}, "WhiteKernel"),
        ({"kernel": RBF([1.0, 1.0, 1.0])}, "3 length scales"),
        ({"noise_variance": 0.0}, "jitter"),
        ({"bound": "optimal", "batch_size": 5}, "'simple', 'v1' or 'v2'"),
        ({"bound": "v1", "likelihood": "student-t"}, "bound='simple'"),
        ({"noise_variance": 1.0, "likelihood": "poisson"}, "noise_variance=1.0"),
        ({"inducing": np.zeros((3, 5))}, "5 columns"),
        ({"inducing": "nearest"}, "inducing"),
        ({"n_inducing": 0}, "n_inducing"),
    ],
)
def test_errors_name_the_parameter(options, message):
    data = data_for("gaussian", 0, weight=False)
    with pytest.raises((ValueError, TypeError), match=message):
        SparseGPRegressor(**options).fit(data.X, np.abs(data.y).round() if "likelihood" in options else data.y)


def test_errors_name_the_column_and_the_memory(global_random_seed):
    data = data_for("gaussian", 0, weight=False)
    with pytest.raises(ValueError, match="every column of X is constant"):
        SparseGPRegressor().fit(np.ones((40, 2)), data.y)
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((5001, 1))
    with pytest.raises(ValueError, match=r"0\.9 GB"):
        SparseGPRegressor(bound="optimal").fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"0\.9 GB for 5000 of them"):
        SparseGPRegressor(bound="optimal", batch_size=10).fit(data.X, data.y)
    X = np.repeat(rng.standard_normal((20, 1)), 2, axis=0)
    with pytest.raises(ValueError, match="jitter"):
        SparseGPRegressor(bound="optimal", noise_variance=1e-20, kernel=RBF()).fit(X, rng.standard_normal(40))
    assert not hasattr(SparseGPRegressor(bound="optimal"), "partial_fit")


def test_a_failed_fit_changes_nothing(global_random_seed):
    data = data_for("gaussian", global_random_seed, weight=False)
    model = SparseGPRegressor(n_inducing=5, random_state=0).fit(data.X, data.y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(data.X > 1, np.nan, data.X), data.y)
    assert vars(model).keys() == before.keys() and all(vars(model)[k] is v for k, v in before.items())


def test_frozen_blocks_stay(global_random_seed):
    data = data_for("gaussian", global_random_seed)
    problem = replace(problem_for(data), frozen=frozenset({"kernel"}))
    state = first_state(problem, 0)
    q, moved = problem.model.search(fitting(problem, state), 1e-4)
    assert moved and q["kernel"] is state.q["kernel"]
    assert isinstance(q["inputs"], Free) and q["inputs"] is not state.q["inputs"]
    assert divergence(problem, state, q) > 0


@pytest.mark.costly
@pytest.mark.parametrize("batch_size", [None, 20])
def test_save_and_load(batch_size, tmp_path, global_random_seed):
    data = data_for("gaussian", global_random_seed, weight=False)
    model = SparseGPRegressor(
        kernel=KERNEL, n_inducing=8, random_state=0, batch_size=batch_size, max_iter=30, warm_start=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X, data.y).save(tmp_path / "model")
        again = persistence.load(tmp_path / "model")
        assert again.kernel_ == model.kernel_
        np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))
        np.testing.assert_array_equal(
            again.fit(data.X, data.y).predict(data.X), model.fit(data.X, data.y).predict(data.X)
        )


# ---- the search itself
def banana(x):
    """-Rosenbrock, without a value on a strip that the way leads through."""
    if 0.2 < x[0] < 0.3 and x[1] < 0.06:
        raise NotPositiveDefinite("no value here")
    if x[1] > 2.5:
        return np.nan, x
    value = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    return -value, np.array([2 * (1 - x[0]) + 400 * x[0] * (x[1] - x[0] ** 2), -200 * (x[1] - x[0] ** 2)])


def test_a_search_steps_back_from_points_without_value():
    best, value = ascend(
        banana, np.array([-1.2, 1.0]), [(None, None)] * 2, lambda value: False, lambda value: 1e-12, 500
    )
    np.testing.assert_allclose(best, 1.0, atol=1e-3)
    assert value == banana(best)[0]
    box = [(None, 0.9), (None, None)]
    best, _ = ascend(banana, np.array([-1.2, 1.0]), box, lambda value: False, lambda value: 1e-12, 500)
    np.testing.assert_allclose(best, [0.9, 0.81], atol=1e-3)


def test_a_search_ends_when_told_and_keeps_the_best():
    seen = []

    def tick(value):
        seen.append(value)
        return len(seen) == 7

    best, value = ascend(banana, np.array([-1.2, 1.0]), [(None, None)] * 2, tick, lambda value: 1e-12, 500)
    assert len(seen) == 7 and seen == sorted(seen) and value == seen[-1] == banana(best)[0]
    with pytest.raises(NotPositiveDefinite):
        ascend(banana, np.array([0.25, 0.0]), [(None, None)] * 2, tick, lambda value: 1e-12, 500)
    with pytest.raises(ValueError, match="not finite where the search begins"):
        ascend(banana, np.array([0.0, 3.0]), [(None, None)] * 2, tick, lambda value: 1e-12, 500)


def test_a_gradient_with_an_error_of_its_own_ends_the_search():
    """Bounds by a rule may fall along their gradient near the top: line searches there look for what is not."""
    looks = []

    def erring(x):
        looks.append(x)
        bend = np.array([1.0, 10.0])
        return -float(x @ (bend * x)), np.array([1.0, -3.0]) - 2.0 * bend * x

    best, value = ascend(erring, np.array([3.0, -2.0]), [(None, None)] * 2, lambda value: False, lambda v: 1e-3, 500)
    assert len(looks) < 25  # 45 without an end of its own
    assert value == -best @ (np.array([1.0, 10.0]) * best) > -0.5  # where the gradient ends: -0.475


@pytest.mark.costly
def test_three_classes_end_by_themselves(global_random_seed):
    """The rule over several classes has an error, within which a bound may fall for ever along short steps."""
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(global_random_seed).permutation(150)[:40]
    model = SparseGPClassifier().fit(X[rows], y[rows])
    assert model.converged_
    assert model.n_iter_ < 500


def test_a_constant_column_carries_nothing(global_random_seed):
    """As in a fold that holds one value of a rare column."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((40, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(40)
    more = np.column_stack([X, np.full(40, 0.1)])
    # Two searches end 1e-6 of the bound apart; sums over nodes about their ends move with these, as predictions do.
    for hyperparameters, tolerance in (("point", {"rel": 1e-6}), ("integrated", {"abs": 1e-4})):
        options = {"hyperparameters": hyperparameters, "random_state": 0}
        one, two = SparseGPRegressor(**options).fit(X, y), SparseGPRegressor(**options).fit(more, y)
        np.testing.assert_allclose(two.predict(more), one.predict(X), atol=1e-4)
        assert two.lower_bound_ == pytest.approx(one.lower_bound_, **tolerance)
    labels = (y > 0) * 1
    assert np.all(np.isfinite(SparseGPClassifier().fit(more, labels).predict_proba(more)))


def test_memory_is_that_of_rows_times_inducing_points(global_random_seed):
    """A matrix of rows by rows would take 800 MB; what is held at once is a few of rows by inducing points."""
    rng = np.random.default_rng(global_random_seed)
    n, m = 10_000, 20
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n)
    options = {"n_inducing": m, "max_iter": 2, "optimize_hyperparameters": False, "random_state": 0, "n_jobs": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        SparseGPRegressor(**options).fit(X[:200], y[:200])  # what is imported and compiled once
        tracemalloc.start()
        SparseGPRegressor(**options).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 20 * 8 * n * m
