"""The mixed-effects model: its gradients, its bounds on a grid, exact cases, the optimum that algorithms share."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import t as student
from sklearn.exceptions import ConvergenceWarning

from sksvi import algorithms, expectations
from sksvi.algorithms.rules import OneNumber, StandardCoordinates
from sksvi.families import Rayleigh
from sksvi.families.gaussian.arrow import ArrowGaussian
from sksvi.inference import engine
from sksvi.inference.problem import divergence
from sksvi.inference.state import State
from sksvi.likelihoods import Gaussian, NegativeBinomial
from sksvi.models.data import Table
from sksvi.models.linear.glm import LinearModel
from sksvi.models.mixed.covariances import GROUP_PRIOR_SCALE, Groups
from sksvi.models.mixed.glm import MixedModel
from sksvi.models.mixed.levels import GroupedDesign
from sksvi.testing import check_model
from tests.cases import TRUTH, fitted, gaussian_answer, problem_for, simulate

BOUNDS = ["optimal", "simple", "mean-field"]
LEVELS = (6, 4)
#: Those that a bound of noisy latents says something about: one latent, p(y|f) not wide against the noise.
LIKELIHOODS = ["poisson", "poisson-softplus", "gaussian", "logit", "negative-binomial"]


def design(rng, n=40, slopes=False, arrow=None):
    """Two crossed factors and two columns, the second with a slope per level of the first factor on demand."""
    X = rng.standard_normal((n, 2))
    codes = np.column_stack([rng.integers(0, count, n) for count in LEVELS]).astype(np.int32)
    values = np.column_stack([np.ones(n), X[:, 1]]) if slopes else None
    return GroupedDesign(X, codes, (values, None), LEVELS, arrow)


def expanded(X):
    """The dense design with the intercept last."""
    return X.rows(True).dense() if isinstance(X, GroupedDesign) else np.column_stack([X, np.ones(len(X))])


def data_for(name, rng, n=40, groups=True, slopes=False, arrow=None, weight=False):
    X = design(rng, n, slopes, arrow) if groups else rng.standard_normal((n, 2))
    effects = expanded(X) @ np.concatenate([[0.5, -0.3], 0.5 * rng.standard_normal(expanded(X).shape[1] - 3), [0.0]])
    y = simulate(name, np.zeros((n, 1)), int(rng.integers(1000)), effects + 0.4 * rng.standard_normal(n))
    return Table(X, y, rng.uniform(0.3, 2.0, n) if weight else None, 0.3 * rng.standard_normal(n))


def model_for(name, data, bound="optimal", noise=2.0, learned=False, precision=1.5):
    likelihood = {"gaussian": Gaussian(), "negative-binomial": NegativeBinomial()}[name] if learned else TRUTH[name]
    layout = None
    if isinstance(data.X, GroupedDesign):
        layout = Groups(data.X.starts, data.X.levels, data.X.effects)
    return MixedModel(
        likelihood.start(data.y, data.weight),
        bound=bound,
        noise_prior_scale=noise,
        groups=layout,
        prior_precision=precision,
        intercept_precision=0.2,
        n_features=data.X.shape[1],
        fit_intercept=True,
        full=True,
    )


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 7])


# ---- gradients


@pytest.mark.costly
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("groups", [False, True], ids=["no groups", "groups"])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_gradients_are_those_of_the_bound(name, groups, bound, rng):
    data = data_for(name, rng, n=12, groups=groups, slopes=True, weight=True)
    check_model(model_for(name, data, bound), data, tolerance=3e-4)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", ["gaussian", pytest.param("negative-binomial", marks=pytest.mark.exhaustive)])
def test_gradients_of_learned_parameters(name, bound, rng):
    data = data_for(name, rng, n=8)
    check_model(model_for(name, data, bound, learned=True, precision="auto"), data, tolerance=3e-4)


def test_gradients_of_groups_alone(rng):
    data = data_for("poisson", rng, slopes=True)
    check_model(model_for("poisson", data, noise=None, precision="ard"), data)


def test_slope_of_the_group_scales(rng):
    """`_group_step` is the slope of the bound, prior included, over a curvature: its sign and its zero are checked."""
    data = data_for("poisson", rng, slopes=True)
    model = model_for("poisson", data, noise=None)
    problem = problem_for(model, data)
    q = fitted(problem, tol=1e-12).q

    def bound(value):
        moved = {**q, "group_std": type(q["group_std"])(value)}
        return -divergence(problem, State(moved, 0), moved)

    for value in (q["group_std"].value, rng.normal(-0.5, 0.5, 3)):
        moved = {**q, "group_std": type(q["group_std"])(value)}
        slope = [(bound(value + 1e-5 * e) - bound(value - 1e-5 * e)) / 2e-5 for e in np.eye(3)]
        step = model._group_step(moved)[0]
        assert np.all((np.sign(step) == np.sign(slope)) | (np.abs(slope) < 0.05))
    at_optimum = [
        (bound(q["group_std"].value + 1e-4 * e) - bound(q["group_std"].value - 1e-4 * e)) / 2e-4 for e in np.eye(3)
    ]
    np.testing.assert_allclose(at_optimum, 0.0, atol=0.02)


# ---- the bounds on a grid of their own
FINE = {"xatol": 1e-7, "fatol": 1e-9}


def grid_terms(bound, likelihood, y, m, v, scale):
    """A datum's term by dense quadrature over u, w2 and f; q(f) of the mean field by a general-purpose optimiser."""
    nodes, p_w2 = np.polynomial.legendre.leggauss(60)
    r = 4.25 * (nodes + 1)
    w2, p_w2 = scale * r, 4.25 * p_w2 * r * np.exp(-0.5 * r**2)
    z = np.linspace(-9.0, 9.0, 241)
    p_z = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    u = m + np.sqrt(v) * z
    if bound == "optimal":
        f = u[:, None, None] + np.sqrt(w2)[None, :, None] * z
        marginal = logsumexp(likelihood.log_prob(np.full(f.shape, y), f), axis=-1, b=p_z)
        return p_z @ marginal @ p_w2
    if bound == "simple":
        f = m + np.sqrt(v + w2)[:, None] * z
        return p_w2 @ likelihood.log_prob(np.full(f.shape, y), f) @ p_z

    inverse, log = p_w2 @ (1 / w2), quad(lambda r: r * np.exp(-0.5 * r**2) * np.log(scale * r), 0, 12)[0]

    def value(x):
        b, s = x[0], np.exp(x[1])
        f = b + np.sqrt(s) * z
        said = likelihood.log_prob(np.full(f.shape, y), f) @ p_z
        gauss = -0.5 * (log + np.log(2 * np.pi) + inverse * ((b - m) ** 2 + v + s))
        return -(said + gauss + 0.5 * (np.log(s) + np.log(2 * np.pi) + 1))

    ends = [
        minimize(value, [at, np.log(0.5 * scale)], method="Nelder-Mead", options=FINE).fun for at in (m, m - 3, m + 3)
    ]
    return -min(ends)


@pytest.mark.costly
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_bound_on_a_grid(name, bound, rng):
    data = data_for(name, rng, n=2, groups=False, weight=True)
    model = model_for(name, data, bound)
    problem = problem_for(model, data)
    q = dict(model.begin(data, None))
    q["noise"] = Rayleigh(rng.uniform(0.2, 1.5))
    state = State(q, 0)
    found = engine.exact_bound(problem, state)
    m, v = (
        part + shift
        for part, shift in zip(
            (expanded(data.X) @ q["weights"].mean, q["weights"].spread(expanded(data.X))),
            (data.offset, 0.0),
            strict=True,
        )
    )
    terms = [grid_terms(bound, model.likelihood, *row, q["noise"].scale) for row in zip(data.y, m, v, strict=True)]
    prior = model.prior(q)
    paid = q["weights"].kl(prior["weights"]) + q["noise"].kl(prior["noise"])
    assert found == pytest.approx(data.weight @ terms - paid, abs=2e-3 if bound == "mean-field" else 1e-4)


# ---- exact cases


def log_hyperprior(log_std, unit=1.0):
    """Half-Student-t of 3 degrees of freedom, in the logarithm; the density is one in the unit of f."""
    own = student.logpdf(np.exp(log_std), 3, scale=GROUP_PRIOR_SCALE * unit)
    return float(np.sum(np.log(2.0) + own + log_std))


@pytest.mark.parametrize("arrow", [None, 0, 1])
@pytest.mark.parametrize("slopes", [False, True], ids=["intercepts", "slopes"])
def test_gaussian_groups_are_the_linear_mixed_model(slopes, arrow, rng):
    data = data_for("gaussian", rng, slopes=slopes, arrow=arrow)
    model = model_for("gaussian", data, noise=None)
    state = fitted(problem_for(model, data), tol=1e-12)
    log_std = state.q["group_std"].value
    weights, A = state.q["weights"], expanded(data.X)
    assert isinstance(weights, ArrowGaussian) == (arrow is not None)
    precision = np.concatenate([[1.5] * 2, np.exp(-2 * log_std)[model.groups.scale_of], [0.2]])
    mean, posterior, evidence = gaussian_answer(A, data.y, 0.5, precision, offset=data.offset)
    np.testing.assert_allclose(weights.mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(weights.cov, np.linalg.inv(posterior), rtol=1e-8, atol=1e-10)
    assert state.bound == pytest.approx(evidence + log_hyperprior(log_std), rel=1e-9)

    def objective(h):
        precision = np.concatenate([[1.5] * 2, np.exp(-2 * h)[model.groups.scale_of], [0.2]])
        return gaussian_answer(A, data.y, 0.5, precision, offset=data.offset)[2] + log_hyperprior(h)

    best = minimize(lambda h: -objective(h), log_std, method="BFGS")
    assert state.bound == pytest.approx(-best.fun, abs=1e-4)


@pytest.mark.parametrize("arrow", [None, 0])
@pytest.mark.parametrize("name", ["logit", "poisson", "student-t"])
def test_groups_are_a_glm_on_indicator_columns(name, arrow, rng):
    data = data_for(name, rng, slopes=True, arrow=arrow, weight=True)
    model = model_for(name, data, noise=None)
    state = fitted(problem_for(model, data), tol=1e-11)
    log_std = state.q["group_std"].value
    precision = np.concatenate([[1.5] * 2, np.exp(-2 * log_std)[model.groups.scale_of]])
    dense = replace(data, X=expanded(data.X)[:, :-1])
    glm = LinearModel(
        TRUTH[name],
        prior_precision=precision,
        intercept_precision=0.2,
        n_features=len(precision),
        fit_intercept=True,
        full=True,
    )
    plain = fitted(problem_for(glm, dense), tol=1e-11)
    np.testing.assert_allclose(state.q["weights"].mean, plain.q["weights"].mean, atol=2e-4)
    np.testing.assert_allclose(state.q["weights"].cov, plain.q["weights"].cov, rtol=1e-4, atol=2e-4)
    assert state.bound == pytest.approx(plain.bound + log_hyperprior(log_std), rel=1e-6)


def test_gaussian_noise_is_integrated_exactly(rng):
    """With Gaussian y the optimal bound at a narrow q(w) is the log density of y under the sum of both variances."""
    data = data_for("gaussian", rng, groups=False)
    model = model_for("gaussian", data, "optimal")
    q = fitted(problem_for(model, data), tol=1e-10).q
    r = (np.arange(4000) + 0.5) * 8.5 / 4000
    p = r * np.exp(-0.5 * r**2)
    w2, p = q["noise"].scale * r, p / p.sum()
    A = expanded(data.X)
    square = (data.y - data.offset - A @ q["weights"].mean) ** 2 + q["weights"].spread(A)
    terms = -0.5 * (np.log(2 * np.pi * (0.5 + w2)) + square[:, None] / (0.5 + w2)) @ p
    prior = model.prior(q)
    wanted = terms.sum() - q["weights"].kl(prior["weights"]) - q["noise"].kl(prior["noise"])
    state = State(q, 0)
    assert engine.exact_bound(problem_for(model, data), state) == pytest.approx(wanted, rel=1e-6)


# ---- one optimum


@pytest.mark.parametrize("n", [10, pytest.param(24, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("groups", [False, True], ids=["no groups", "groups"])
@pytest.mark.parametrize("name", ["poisson", "poisson-softplus", "gaussian"])
def test_the_optimal_bound_is_the_highest(name, groups, n, rng):
    data = data_for(name, rng, n=n, groups=groups)
    found = {}
    for bound in BOUNDS:
        state = fitted(problem_for(model_for(name, data, bound), data), tol=1e-6)
        found[bound] = state.bound
        rises = np.diff(state.bounds)
        assert np.all(rises >= -1e-7 * (1 + np.abs(state.bound)))
    assert found["optimal"] >= found["simple"] - 1e-6 * abs(found["simple"])
    assert found["optimal"] >= found["mean-field"] - 1e-6 * abs(found["mean-field"])


@pytest.mark.parametrize("name", ["poisson", "gaussian"])
@pytest.mark.parametrize("bound", BOUNDS)
def test_at_any_q_the_optimal_bound_is_the_highest(name, bound, rng):
    data = data_for(name, rng, groups=False)
    models = {bound: model_for(name, data, bound) for bound in ("optimal", bound)}
    for _ in range(5):
        q = dict(models[bound].begin(data, None))
        q["weights"] = type(q["weights"])(q["weights"].sample(1, int(rng.integers(99)))[0], q["weights"].precision)
        q["noise"] = Rayleigh(rng.uniform(0.1, 2.0))
        values = {name: engine.exact_bound(problem_for(model, data), State(q, 0)) for name, model in models.items()}
        assert values["optimal"] >= values[bound] - 1e-4


NATURAL = ["mc-ssvi", "cvi", "fp"]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("groups", [False, True], ids=["no groups", "groups"])
def test_natural_algorithms_share_their_optimum(groups, bound, rng):
    name = "gaussian" if bound == "optimal" else "poisson"
    data = data_for(name, rng, n=60, groups=groups)
    model = model_for(name, data, bound)
    states = [fitted(problem_for(model, data, name), tol=1e-8) for name in NATURAL]
    for state in states[1:]:
        assert state.bound == pytest.approx(states[0].bound, rel=1e-5)
        np.testing.assert_allclose(state.q["weights"].mean, states[0].q["weights"].mean, atol=5e-3)
        assert state.q["noise"].scale == pytest.approx(states[0].q["noise"].scale, rel=2e-2)


#: (likelihood, bound, algorithm, expectation, batch): every pair of any two once at least, the rest is exhaustive.
PRODUCT = [
    pytest.param(
        name, bound, algorithm, expectation, batch_size,
        id="-".join([name, bound, algorithm, expectation, "mini-batch" if batch_size else "full batch"]),
        marks=[] if k == (i + j) % 2 and l == (i + j // 2) % 2 else [pytest.mark.exhaustive],
    )
    for i, (name, bound) in enumerate([("gaussian", "optimal"), ("poisson", "simple"), ("poisson", "mean-field")])
    for j, algorithm in enumerate(["mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi"])
    for k, expectation in enumerate(["auto", "monte-carlo"])
    for l, batch_size in enumerate([None, 20])
]  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize(("name", "bound", "algorithm", "expectation", "batch_size"), PRODUCT)
def test_every_algorithm_reaches_it(name, bound, algorithm, expectation, batch_size, rng):
    data = data_for(name, rng, n=60)
    model = model_for(name, data, bound)
    best = fitted(problem_for(model, data), tol=1e-7).bound
    problem = problem_for(model, data, algorithm, expectation, batch_size=batch_size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        state = fitted(problem, seed=1, max_iter=150, tol=1e-3)
    assert state.bound <= best + 1e-4 * abs(best)
    # Draws leave noise; gradient steps have a long way to go.
    rough = expectation == "monte-carlo" or not problem.algorithm.spec.natural
    assert best - state.bound <= (0.04 if rough else 0.02) * abs(best)


@pytest.mark.parametrize("bound", BOUNDS)
def test_mini_batches_average_to_the_whole(bound, rng):
    data = data_for("poisson", rng, n=30)
    model = model_for("poisson", data, bound)
    problem = problem_for(model, data)
    state = State(dict(model.begin(data, None)), 0)
    whole, value = engine.evaluate(problem, state, engine.whole(problem))
    parts = [
        engine.evaluate(problem, state, engine.Segment(rows, 3.0)) for rows in np.array_split(rng.permutation(30), 3)
    ]
    assert np.mean([part[1] for part in parts]) == pytest.approx(value, rel=1e-10)
    for name, sums in whole.items():
        for k, block in enumerate(sums):
            np.testing.assert_allclose(np.mean([part[0][name][k] for part in parts], axis=0), block, atol=1e-9)


def test_monte_carlo_is_unbiased_for_the_simple_bound(rng):
    data = data_for("poisson", rng, n=10, groups=False)
    model = model_for("poisson", data, "simple")
    q = dict(model.begin(data, None))
    exact = engine.evaluate(problem_for(model, data), State(q, 0), engine.Segment(slice(0, 10), 1.0))
    problem = replace(problem_for(model, data), expect=expectations.MonteCarlo(10))
    draws = [engine.evaluate(problem, State(q, seed), engine.Segment(slice(0, 10), 1.0)) for seed in range(400)]
    for name, k in (("weights", 0), ("weights", 1), ("noise", 0)):
        found = np.array([gradient[name][k] for gradient, _ in draws])
        error = found.std(axis=0) / np.sqrt(len(draws))
        assert np.all(np.abs(found.mean(axis=0) - exact[0][name][k]) <= 4.5 * error + 1e-9)


@pytest.mark.parametrize("algorithm", ["cvi", "s-dsvi"])
def test_a_noise_block_moves_by_its_algorithm(algorithm, rng):
    data = data_for("poisson", rng, groups=False)
    model = model_for("poisson", data, "mean-field")
    rule = algorithms.resolve(algorithm).rule(Rayleigh(1.0))
    q, memory = rule.start(Rayleigh(1.0), 40.0)
    assert isinstance(q, Rayleigh) and (memory is None) == (algorithm == "cvi")
    assert isinstance(rule, OneNumber if algorithm == "cvi" else StandardCoordinates) and rule.knows(memory)
    state = fitted(problem_for(model, data, algorithm), max_iter=3)
    assert state.q["noise"].scale != model.begin(data, None)["noise"].scale
