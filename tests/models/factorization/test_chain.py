"""Conditional draws of a factorization: they leave the posterior as it is, and find it where it is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from sksvi.families import Free, GaussianPlates
from sksvi.likelihoods import Gaussian
from sksvi.models.chains import ChainLength, walk
from sksvi.models.factorization.chain import HELD, Conditionals, FactorChain, FactorPoint, turned
from sksvi.models.factorization.chain_loops import gaussian_steps, squared_spreads
from sksvi.models.factorization.columns import SIDES
from sksvi.models.factorization.ratings import Ratings
from tests import cases
from tests.models.factorization.test_gaussian import model_for


def blocks(model, n_users, n_items):
    """A q at zero, of variance one."""
    q = {}
    for side, n in zip(SIDES, (n_users, n_items), strict=True):
        width = len(model.layouts[side].free)
        q[side] = GaussianPlates.constant(np.zeros((n, width)), np.ones(width), True)
        q[f"{side}_precision"] = Free(np.zeros(width))
        q[f"{side}_mean"] = Free(np.zeros((model.priors[side].n_columns, width)))
    return q


@pytest.mark.costly
def test_steps_of_columns_are_gaussian_draws(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    root = rng.standard_normal((3, 4, 4))
    curvature, precision = root @ np.swapaxes(root, 1, 2), rng.uniform(0.5, 2.0, 4)
    slope, noise, there = rng.standard_normal((3, 3, 4))
    step, log_step, log_there = np.empty((3, 4)), np.empty(3), np.empty(3)
    rows, cols = np.tril_indices(4)
    gaussian_steps(curvature[:, rows, cols], precision, slope, noise, there, step, log_step, log_there)
    for p in range(3):
        P = curvature[p] + np.diag(precision)
        mean, lower = np.linalg.solve(P, slope[p]), np.linalg.cholesky(P)
        np.testing.assert_allclose(step[p], mean + np.linalg.solve(lower.T, noise[p]), rtol=1e-9)
        for at, found in ((step[p], log_step[p]), (there[p], log_there[p])):
            gap = at - mean
            assert found == pytest.approx(0.5 * np.linalg.slogdet(P)[1] - 0.5 * gap @ P @ gap)


@pytest.mark.parametrize("diag", [True, False])
@pytest.mark.parametrize("name", ["gaussian", "logit", "poisson", "student-t"])
def test_a_sweep_leaves_the_joint_distribution_as_it_is(name, diag, global_random_seed):
    """Drawn from the prior, with y given them, all numbers are so distributed after a sweep as before (Geweke 2004)."""
    rng = np.random.default_rng(global_random_seed)
    model, n, likelihood = model_for(name, biases=True, diag=diag, unit=0.1), (4, 3), cases.TRUTH[name]
    pairs, scales, gaps = np.argwhere(np.ones(n)), None, []
    for _ in range(600):
        chain = FactorChain(model, Ratings(*pairs.T, np.zeros(12), None, *n), blocks(model, *n), False)
        scales = chain.prior_scales
        sd = np.sqrt(scales) * np.abs(np.tan(np.pi * (rng.random((2, 3)) - 0.5)))
        if not diag:
            sd[:, 1] = sd[:, 0]
        sd = np.minimum(sd, 1e3)  # of one draw in ten thousand, whose y would be no number
        columns = {s: own * rng.standard_normal((m, 3)) for s, m, own in zip(SIDES, n, sd, strict=True)}
        own, other = (model.layouts[side].embedded(columns[side]) for side in SIDES)
        f = np.minimum((own[pairs[:, 0]] * other[pairs[:, 1]]).sum(1), 12.0 if name == "poisson" else np.inf)
        y = np.asarray(likelihood.sample(f, rng), float)
        chain = replace(chain, data=Ratings(*pairs.T, y, None, *n))
        empty = {side: np.zeros((0, 3)) for side in SIDES}
        before = FactorPoint(columns, {s: 1.0 / own**2 for s, own in zip(SIDES, sd, strict=True)}, empty, likelihood)
        gaps.append(functionals(chain.sweep(before, rng, HELD), scales) - functionals(before, scales))
    z = np.mean(gaps, axis=0) / (np.std(gaps, axis=0) / np.sqrt(len(gaps)))
    assert np.all(np.abs(z) < 4.0), z


def functionals(point, scales):
    """Bounded functions of a draw."""
    users, items = (point.columns[side] for side in SIDES)
    f = users[0, :2] @ items[1, :2] + users[0, 2] + items[1, 2]
    sds = [np.arctan(1.0 / np.sqrt(point.precision[side] * scales)) for side in SIDES]
    return np.concatenate([[np.tanh(f), np.abs(np.tanh(f))], np.abs(np.tanh(users[1])), np.tanh(items[2]), *sds])


@pytest.mark.costly
@pytest.mark.parametrize("name", ["gaussian", "logit"])
def test_draws_have_the_moments_of_a_dense_grid(name, global_random_seed):
    """Two users and two items of one factor, its precisions fixed: the posterior is a sum over four dimensions."""
    rng = np.random.default_rng(global_random_seed)
    model, likelihood = model_for(name, 1, learn_priors=False, unit=1.0), cases.TRUTH[name]
    pairs = np.array([(0, 0), (0, 0), (0, 1), (1, 0), (1, 0)])
    y = np.asarray(likelihood.sample(rng.standard_normal(5), rng), float)
    chain = FactorChain(model, Ratings(*pairs.T, y, None, 2, 2), blocks(model, 2, 2), False)
    at = np.linspace(-4.5, 4.5, 31)
    x = np.stack(np.meshgrid(at, at, at, at, indexing="ij")).reshape(4, -1)
    products = x[:2, None] * x[None, 2:]
    log_p = norm.logpdf(x).sum(0)
    for (i, j), value in zip(pairs, y, strict=True):
        log_p = log_p + likelihood.derivatives(value, products[i, j])[0]
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    found = []

    def store(number, point):
        found.append(np.outer(point.columns["users"][:, 0], point.columns["items"][:, 0]))

    walk(chain, ChainLength(50, 4000), rng, store)
    found = np.array(found)
    for power in (1, 2):
        parts = (found**power).reshape(40, 100, 2, 2).mean(1)  # batches of 100 sweeps, about independent
        z = (parts.mean(0) - (products**power) @ weight) / (parts.std(0) / np.sqrt(40))
        assert np.all(np.abs(z) < 4.5), z


@pytest.mark.costly
def test_noise_has_its_conditional_distribution(global_random_seed):
    """Given the columns a Gaussian's variance is inverse gamma, under a flat prior of its logarithm."""
    rng = np.random.default_rng(global_random_seed)
    model = model_for("gaussian", 1)
    pairs, y = np.argwhere(np.ones((8, 5))), rng.standard_normal(40)
    chain = FactorChain(model, Ratings(*pairs.T, y, None, 8, 5), blocks(model, 8, 5), True)
    zero = {side: np.zeros((n, 1)) for side, n in zip(SIDES, (8, 5), strict=True)}
    ones = {side: np.ones(1) for side in SIDES}
    point = FactorPoint(
        zero, ones, {side: np.zeros((0, 1)) for side in SIDES}, Gaussian()._replaced({"variance": 1.0}, ("variance",))
    )
    found = []
    for _ in range(4000):
        point = replace(point, likelihood=chain._likelihood(point, rng))
        found.append(point.likelihood.unconstrained[0])
    exact = np.log(0.5 * np.sum(y**2) / rng.gamma(20.0, size=100_000))
    parts = np.reshape(found, (40, 100)).mean(1)
    assert abs(parts.mean() - exact.mean()) < 4.5 * parts.std() / np.sqrt(40) + 1e-3
    assert np.std(found) == pytest.approx(exact.std(), rel=0.12)


def test_columns_turn_to_the_means_and_leave_f(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    means = {side: rng.standard_normal((n, 4)) for side, n in zip(SIDES, (20, 15), strict=True)}
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    moved = {side: means[side].copy() for side in SIDES}
    for side, scale in zip(SIDES, (2.0, 0.5), strict=True):
        moved[side][:, :3] = scale * means[side][:, :3] @ turn
    back = turned(moved, means, 3)
    for side in SIDES:
        np.testing.assert_allclose(back[side], means[side], atol=1e-9)
    other = {side: moved[side] + 0.3 * rng.standard_normal(moved[side].shape) for side in SIDES}
    f, after = (part["users"][:, :3] @ part["items"][:, :3].T for part in (other, turned(other, means, 3)))
    np.testing.assert_allclose(after, f, atol=1e-9)


def test_spreads_of_pairs_are_mean_squares(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    users, items = rng.standard_normal((5, 30, 4)), rng.standard_normal((6, 30, 4))
    of_user, of_item = rng.integers(0, 5, 20), rng.integers(0, 6, 20)
    mean, out = rng.standard_normal(20), np.empty(20)
    squared_spreads(users, items, of_user, of_item, mean, 3, out)
    x, z = users[of_user], items[of_item]
    f = (x[..., :3] * z[..., :3]).sum(-1) + x[..., 3] + z[..., 3]
    np.testing.assert_allclose(out, np.mean((f - mean[:, None]) ** 2, axis=1), rtol=1e-9)


def test_draws_of_columns_are_updated_to_those_given_more_entries(global_random_seed):
    """2,000 columns that are draws from one Gaussian, and the same three entries: the conjugate posterior."""
    rng, n = np.random.default_rng(global_random_seed), 2000
    layout, likelihood = model_for("gaussian", 2).layouts["users"], cases.TRUTH["gaussian"]
    other, y = rng.standard_normal((3, 2)), rng.standard_normal(3)
    cov, mean = np.array([[1.0, 0.4], [0.4, 0.5]]), np.array([0.3, -0.2])
    own = rng.multivariate_normal(mean, cov, n)
    entries = Ratings(np.repeat(np.arange(n), 3), np.tile(np.arange(3), n), np.tile(y, n), None, n, 3).sides["users"]
    given = Conditionals(layout, other, likelihood, 0.0, np.zeros((n, 2)), np.ones(2))
    precision = np.tile(np.linalg.inv(cov)[np.tril_indices(2)], (n, 1))
    after = given.updated(entries, own, precision, rng.standard_normal(3 * n))
    P = np.linalg.inv(cov) + other.T @ other / likelihood.noise_variance
    exact = np.linalg.solve(P, np.linalg.solve(cov, mean) + other.T @ y / likelihood.noise_variance)
    found = np.cov(after.T)
    assert np.all(np.abs(after.mean(0) - exact) < 4.5 * np.sqrt(np.diag(np.linalg.inv(P)) / n))
    np.testing.assert_allclose(found, np.linalg.inv(P), rtol=0.2, atol=0.1 * found.max())
