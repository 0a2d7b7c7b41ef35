"""The density of rows and its derivatives, the scatter of rows, and the nodes of gamma variables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammainc, gammaincinv, polygamma, psi
from scipy.stats import multivariate_normal

from sksvi.integrals.gamma_nodes import LARGEST_SHAPE, LEAST_SHAPE, nodes, orders
from sksvi.models.gamma_factor.density import (
    Scatter,
    information,
    inverse_covariance,
    log_density,
    noise_information,
    projection,
    scatter_of,
)

SHAPES = [(2, 4), (6, 3), (1, 1)]


def problem(seed, k, d, n=9, centred=False):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n, d)) * 2.0 + 1.0
    return rng.gamma(1.0, 1.0, (k, d)), rng.uniform(0.2, 1.0, d), scatter_of(Y, centred, 1), Y


def covariance(L, noise):
    return L.T @ L + np.diag(noise)


@pytest.mark.parametrize(("k", "d"), SHAPES)
def test_the_density_of_rows_of_mean_zero(k, d, global_random_seed):
    L, noise, data, Y = problem(global_random_seed, k, d)
    direct = multivariate_normal(np.zeros(d), covariance(L, noise)).logpdf(Y).sum()
    assert log_density(L, noise, data).value == pytest.approx(direct, rel=1e-11)


def test_a_flat_mean_is_integrated_out(global_random_seed):
    L, noise, data, Y = problem(global_random_seed, 2, 1, centred=True)
    step = 1e-3
    grid = Y.mean() + np.arange(-30.0, 30.0, step)
    C = covariance(L, noise)[0, 0]
    logs = -0.5 * (np.square(Y - grid).sum(0) / C + len(Y) * np.log(2 * np.pi * C))
    direct = np.log(np.sum(np.exp(logs - logs.max())) * step) + logs.max()
    assert log_density(L, noise, data).value == pytest.approx(direct, rel=1e-9)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("k", "d"), SHAPES)
def test_derivatives_are_those_of_the_density(k, d, centred, global_random_seed):
    L, noise, data, _ = problem(global_random_seed, k, d, centred=centred)
    found, step = log_density(np.stack([L, 2.0 * L]), noise, data, of_noise=True), 1e-6
    for at, own in enumerate((L, 2.0 * L)):
        for i, j in np.ndindex(k, d):
            away = np.zeros((k, d))
            away[i, j] = step
            ends = [log_density(own + sign * away, noise, data).value for sign in (1, -1)]
            assert found.in_loadings[at, i, j] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-5)
        for j in range(d):
            ends = [log_density(own, noise + sign * step * np.eye(d)[j], data).value for sign in (1, -1)]
            assert found.in_noise[at, j] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("k", "d"), SHAPES)
def test_small_matrices_give_what_large_ones_do(k, d, global_random_seed):
    L, noise, _, _ = problem(global_random_seed, k, d)
    C = covariance(L, noise)
    np.testing.assert_allclose(inverse_covariance(L, noise), np.linalg.inv(C), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(projection(L, noise), L @ np.linalg.inv(C), rtol=1e-9, atol=1e-9)


def test_information_is_the_expected_curvature(global_random_seed):
    """At rows whose scatter is what the model expects the expected Hessian is the Hessian."""
    L, noise, _, _ = problem(global_random_seed, 2, 3)
    n, step = 50.0, 1e-5
    data = Scatter(n, np.zeros(3), n * covariance(L, noise), False)
    for i, j in np.ndindex(2, 3):
        away = np.zeros((2, 3))
        away[i, j] = step
        ends = [log_density(L + sign * away, noise, data).in_loadings[i, j] for sign in (1, -1)]
        assert information(L, noise, n)[i, j] == pytest.approx(-(ends[0] - ends[1]) / (2 * step), rel=1e-5)
    for j in range(3):
        ends = [log_density(L, noise + sign * step * np.eye(3)[j], data, True).in_noise for sign in (1, -1)]
        found, wanted = noise_information(L, noise, n)[j], -(ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6 * found.max())


# ---- rows as a sum
@pytest.mark.parametrize("centred", [False, True])
def test_scatters_join_to_that_of_all_rows(centred, global_random_seed):
    X = np.random.default_rng(global_random_seed).standard_normal((30, 3)) + 1e3
    parts = scatter_of(X[:7], centred, 1).merged(scatter_of(X[7:], centred, 1))
    both = scatter_of(X, centred, 1)
    assert parts.n == both.n == 30 and both.freedom == (29 if centred else 30)
    np.testing.assert_allclose(parts.products, both.products, rtol=1e-9)
    np.testing.assert_allclose(parts.mean, both.mean, rtol=1e-12)
    if centred:
        np.testing.assert_allclose(both.products / 29, np.cov(X.T), rtol=1e-9)
    half = both.faded(0.5)
    np.testing.assert_allclose(half.variances, both.variances, rtol=1e-12)
    unit = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        both.divided(unit).products, scatter_of(X / unit, centred, 1).products, rtol=1e-7, atol=1e-9
    )


# ---- nodes
ALL_SHAPES = np.array([2e-4, 1e-3, 0.02, 0.1, 0.7, 3.0, 60.0, 9.99e3, 1.001e4, 1e7])


@pytest.mark.parametrize("n_nodes", [8, 32])
def test_the_mean_of_nodes_is_exact_and_so_is_its_derivative(n_nodes, global_random_seed):
    values, slopes = nodes(ALL_SHAPES, orders(n_nodes, len(ALL_SHAPES), global_random_seed))
    np.testing.assert_allclose(values.mean(0), ALL_SHAPES, rtol=1e-6)
    np.testing.assert_allclose(slopes.mean(0), 1.0, rtol=1e-5)


@pytest.mark.parametrize("a", [2.0, 300.0, 2e4, 1e6])
def test_nodes_are_the_means_of_equal_strata(a):
    """By the distribution function of one gamma variable more."""
    order = np.arange(8)[:, None]
    edges = gammainc(a + 1.0, gammaincinv(a, np.linspace(0.0, 1.0, 9)[1:-1]))
    wanted = 8 * a * np.diff(edges, prepend=0.0, append=1.0)
    np.testing.assert_allclose(nodes(np.array([a]), order)[0][:, 0], wanted, rtol=1e-8)


def test_nodes_lie_within_their_strata_and_move_as_they_say():
    order, step = np.tile(np.arange(32)[:, None], (1, len(ALL_SHAPES))), 1e-4
    values, slopes = nodes(ALL_SHAPES, order)
    within = (ALL_SHAPES >= LEAST_SHAPE) & (ALL_SHAPES < 1e6)  # where quantiles differ from the mean in enough digits
    ends = gammaincinv(ALL_SHAPES[within], np.arange(33)[:, None] / 32)
    own = values[:, within]
    assert np.all((own >= ends[:-1] * (1 - 1e-9) - 1e-290) & (own <= ends[1:] * (1 + 1e-9) + 1e-290))
    inside = (ALL_SHAPES * (1 + step) < LARGEST_SHAPE) | (ALL_SHAPES * (1 - step) > LARGEST_SHAPE)
    moved = [nodes(ALL_SHAPES * (1 + sign * step), order)[0] for sign in (1, -1)]
    differences = (moved[0] - moved[1]) / (2 * step * ALL_SHAPES)
    clear = values > 1e-6 * ALL_SHAPES
    where = clear & inside & (ALL_SHAPES > LEAST_SHAPE)
    np.testing.assert_allclose(slopes[where], differences[where], rtol=1e-4)


def test_nodes_do_not_jump_between_the_table_and_the_formula():
    order = np.arange(32)[:, None]
    below, above = (nodes(np.array([LARGEST_SHAPE * (1 + sign * 1e-9)]), order)[0] for sign in (-1, 1))
    np.testing.assert_allclose(below, above, rtol=1e-6)


def test_nodes_give_moments_as_their_number_grows():
    """What varies within a stratum is lost: most where all that matters lies in the last one."""
    a = np.array([0.1, 2.0, 500.0])
    for n_nodes, lost in ((32, [0.2, 0.03, 0.015]), (512, [0.02, 0.002, 0.001])):
        values, _ = nodes(a, orders(n_nodes, 3, 0))
        assert np.all(values.var(0) <= a * (1 + 1e-6)) and np.all(values.var(0) >= a * (1.0 - np.array(lost)))
    values, _ = nodes(a[1:], orders(512, 2, 0))
    np.testing.assert_allclose(np.log(values).mean(0), psi(a[1:]), atol=2e-3)
    np.testing.assert_allclose(np.log(values).var(0), polygamma(1, a[1:]), rtol=0.02)


def test_variables_run_through_their_nodes_in_orders_of_their_own(global_random_seed):
    values, _ = nodes(np.full(40, 2.0), orders(512, 40, global_random_seed))
    between = np.corrcoef(values.T) - np.eye(40)
    assert np.abs(between).max() < 5.0 / np.sqrt(512)
