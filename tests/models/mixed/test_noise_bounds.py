"""Bounds of a datum with Rayleigh noise: values against dense grids, derivatives, order of the bounds, misprints."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from sksvi.expectations import Auto, GaussHermite, MonteCarlo, Quadrature
from sksvi.integrals import rayleigh
from sksvi.likelihoods import Bernoulli, Binomial, Gaussian, NegativeBinomial, Ordinal, Poisson, StudentT
from sksvi.models.mixed import noise_marginal
from sksvi.models.mixed.noise_bounds import BOUNDS, mean_field, optimal, parameters, simple

CASES = {
    "logit": (Bernoulli(), 1.0),
    "probit": (Bernoulli(link="probit"), 0.0),
    "binomial": (Binomial(), [3.0, 9.0]),
    "binomial-large": (Binomial(), [300.0, 200.0]),
    "poisson": (Poisson(), 4.0),
    "poisson-0": (Poisson(), 0.0),
    "poisson-500": (Poisson(), 500.0),
    "softplus": (Poisson(rate="softplus"), 3.0),
    "softplus-0": (Poisson(rate="softplus"), 0.0),
    "softplus-500": (Poisson(rate="softplus"), 500.0),
    "negative-binomial": (NegativeBinomial(dispersion=0.5), 4.0),
    "negative-binomial-500": (NegativeBinomial(dispersion=0.5), 500.0),
    "gaussian": (Gaussian(variance=0.3), 0.7),
    "student": (StudentT(scale=0.5, df=4.0), 3.0),
    "ordinal": (Ordinal(cut_points=[-1.0, 0.5, 2.0]), 1.0),
}
SMALL = [
    name for name in CASES if name not in ("binomial-large", "poisson-500", "softplus-500", "negative-binomial-500")
]
GRID = [(1e-3, 0.3), (0.5, 4.0), (2.0, 0.1), (10.0, 1e-4)]
#: Every case with one point of the grid, every point with several cases; the rest of the product is exhaustive.
ON_GRID = [
    pytest.param(name, *point, marks=[] if (i + j) % len(GRID) == 0 else [pytest.mark.exhaustive])
    for i, name in enumerate(CASES)
    for j, point in enumerate(GRID)
]
LEARNED = {
    "gaussian": (Gaussian(), np.array([0.4, -1.0, 2.0])),
    "negative-binomial": (NegativeBinomial(), np.array([0.0, 3.0, 9.0])),
    "student": (StudentT(), np.array([0.4, -1.0, 2.0])),
    "ordinal": (Ordinal(), np.array([0.0, 2.0, 1.0])),
}


def rows(y, m, v):
    """y repeated for every m, and arrays of m and v."""
    m = np.atleast_1d(np.asarray(m, dtype=float))
    return np.repeat(np.asarray(y)[None], len(m), axis=0), m, np.full(len(m), v)


def noise_grid():
    """Nodes and weights of a dense rule for r exp(-r^2 / 2) on r > 0, 8-point panels that shrink towards zero."""
    x, w = np.polynomial.legendre.leggauss(8)
    edges = np.concatenate([[0.0], np.geomspace(1e-5, 0.5, 9), [1.0, 1.7, 2.6, 3.7, 5.0, 6.5]])
    half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    r = (middle + half * x).ravel()
    return r, (half * w).ravel() * r * np.exp(-0.5 * r * r)


def dense_nodes(likelihood, y, u, w2):
    """Nodes f, (L, J), that cover p(y | f) N(f | u, w2) for each u, and their spacing, (J,)."""
    root = np.sqrt(w2)
    if not likelihood.traits.log_concave:
        # the Gaussian, and the outlier's place where it is near enough to matter
        near = np.abs(y - u) < 20 * root
        low = np.where(near, np.minimum(u, y), u) - 9 * root
        high = np.where(near, np.maximum(u, y), u) + 9 * root
        step = 0.25 * min(root, likelihood.width)
    else:
        slope = w2 * likelihood.d1(y, u)
        low, high = u + np.minimum(slope, 0.0), u + np.maximum(slope, 0.0)
        for _ in range(60):
            middle = 0.5 * (low + high)
            rising = likelihood.d1(y, middle) > (middle - u) / w2
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        sharp = 1.0 / np.sqrt(1.0 / w2 - likelihood.d2(y, middle))
        low, high = middle - np.minimum(9 * root, 50 * sharp), middle + np.minimum(9 * root, 30 * sharp)
        step = 0.5 * np.minimum(sharp, likelihood.width)
    n = int(np.max((high - low) / step)) + 2
    return low + (high - low) * np.linspace(0.0, 1.0, n)[:, None], (high - low) / (n - 1)


def dense(likelihood, y, m, v, sigma):
    """Value of the optimal bound's term by a product grid over w2, u and f."""
    z = np.arange(-6.5, 6.5 + np.sqrt(v), 0.5 / max(1.0, np.sqrt(v) / likelihood.width))
    weight_u = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    u = m + np.sqrt(v) * z
    total = 0.0
    for r, weight in zip(*noise_grid(), strict=True):
        if weight < 1e-11:
            continue
        f, step = dense_nodes(likelihood, y, u, sigma * r)
        log_p = likelihood.log_prob(y, f) - 0.5 * np.square(f - u) / (sigma * r)
        top = log_p.max(axis=0)
        log_phi = top + np.log(np.exp(log_p - top).sum(axis=0) * step) - 0.5 * np.log(2 * np.pi * sigma * r)
        total += weight * weight_u @ log_phi
    return total


@pytest.mark.costly
@pytest.mark.parametrize(("name", "sigma", "v"), ON_GRID)
def test_optimal_against_a_dense_grid(name, sigma, v):
    likelihood, y = CASES[name]
    y, m, v = rows(y, [-0.7, 1.6], v)
    found = optimal(likelihood, y, m, v, sigma, Auto())[0]
    wanted = [dense(likelihood, y[i], m[i], v[i], sigma) for i in range(2)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("poisson")])
@pytest.mark.parametrize(("sigma", "v"), GRID)
def test_simple_against_a_dense_grid(name, sigma, v):
    likelihood, y = CASES[name]
    y, m, v = rows(y, [-0.7, 1.6], v)
    found = simple(likelihood, y, m, v, sigma, Auto())[0]
    r, weight = noise_grid()
    z = np.linspace(-9.0, 9.0, 1801)
    weight_z = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    for i in range(2):
        f = m[i] + np.sqrt(v[i] + sigma * r)[:, None] * z
        np.testing.assert_allclose(found[i], weight @ likelihood.log_prob(y[i], f) @ weight_z, rtol=1e-6)


@pytest.mark.parametrize("y", [0.0, 4.0, 500.0])
def test_simple_with_an_exponential_rate_has_a_closed_form(y):
    # sd of f up to 4: the nodes reach where exp(f) weighs most
    z, (r, weight) = np.linspace(-9.0, 14.0, 4001), noise_grid()
    weight_z = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    for sigma, v in ((1e-3, 1e-4), (0.5, 2.0), (2.0, 0.1)):
        f = 0.4 + np.sqrt(v + sigma * r)[:, None] * z
        wanted = weight @ Poisson().log_prob(y, f) @ weight_z
        for expect in (Auto(), Quadrature()):
            found = simple(Poisson(), *rows(y, 0.4, v), sigma, expect)[0]
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def slope_of(function, h):
    """Derivative at 0 by the fourth-order central difference."""
    return (8.0 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12.0 * h)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_against_finite_differences(name, bound):
    likelihood, y = CASES[name]
    term = BOUNDS[bound]
    for sigma, v in ((0.05, 0.3), (3.0, 1.0)) if name in SMALL else ((2.0, 0.5),):
        y_rows, m, v = rows(y, [-0.7, 1.6], v)
        value, alpha, gamma, dnoise = term(likelihood, y_rows, m, v, sigma, Auto())
        steps = (0.01, 0.01 * float(v[0]), 0.01 * sigma)
        # one call for all shifts of m and v: a row does not depend on the others
        shifts = np.array([-2.0, -1.0, 1.0, 2.0])
        of_m = np.concatenate([m + x * steps[0] for x in shifts] + [m] * 4)
        of_v = np.concatenate([v] * 4 + [v + x * steps[1] for x in shifts])
        moved = term(likelihood, np.concatenate([y_rows] * 8), of_m, of_v, sigma, Auto())[0].reshape(2, 4, 2)
        noisier = [term(likelihood, y_rows, m, v, sigma + x * steps[2], Auto())[0] for x in shifts]
        for found, at, h in zip((alpha, gamma, 4.0 * sigma * dnoise), (*moved, np.array(noisier)), steps, strict=True):
            wanted = (8.0 * (at[2] - at[1]) - (at[3] - at[0])) / (12.0 * h)
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-8 * np.abs(value).max() / h + 1e-6)


@pytest.mark.parametrize("expect", [Auto(), Quadrature()])
@pytest.mark.parametrize("name", LEARNED)
def test_parameters_against_finite_differences(name, expect):
    likelihood, y = LEARNED[name]
    likelihood = likelihood.start(np.array([0.0, 1.0, 2.0, 3.0, 3.0, 9.0]) if name != "ordinal" else np.arange(4.0))
    y, (_, m, v) = y, rows(0.0, [-0.7, 0.4, 1.6], 0.4)
    theta = likelihood.unconstrained
    for sigma in (0.05, 2.0):
        for bound in ("optimal", "simple", "mean-field"):
            first, second = parameters(likelihood, y, m, v, sigma, expect, bound=bound)
            assert first.shape == (3, len(theta))
            assert second.shape == (3, len(theta), len(theta))
            for p, unit in enumerate(np.eye(len(theta))):

                def at(x, of, unit=unit, bound=bound, sigma=sigma):
                    moved = likelihood.replace(theta + x * unit)
                    if of == "value":
                        return BOUNDS[bound](moved, y, m, v, sigma, expect)[0]
                    return parameters(moved, y, m, v, sigma, expect, bound=bound)[0]

                np.testing.assert_allclose(first[:, p], slope_of(lambda x: at(x, "value"), 0.02), rtol=1e-5, atol=1e-5)
                if bound != "mean-field":  # there q(f) is held
                    wanted = slope_of(lambda x: at(x, "first"), 0.02)
                    np.testing.assert_allclose(second[:, p], wanted, rtol=2e-5, atol=1e-4)


def test_without_learned_parameters_there_are_none():
    y, m, v = rows(1.0, [0.0, 1.0], 0.5)
    first, second = parameters(Bernoulli(), y, m, v, 1.0, Auto())
    assert first.shape == (2, 0)
    assert second.shape == (2, 0, 0)


@pytest.mark.parametrize("n", [6, pytest.param(25, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", CASES)
def test_optimal_is_the_greatest(name, n, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    likelihood, y = CASES[name]
    for sigma in 10.0 ** rng.uniform(-3, 1, 3):
        y_rows, m, _ = rows(y, rng.normal(0.0, 2.0, n), 1.0)
        v = 10.0 ** rng.uniform(-4, 1, n)
        best = optimal(likelihood, y_rows, m, v, sigma, Auto())[0]
        for other in (simple, mean_field):
            value = other(likelihood, y_rows, m, v, sigma, Auto())[0]
            assert np.all(best >= value - 1e-8 - 1e-8 * np.abs(value))


@pytest.mark.parametrize("name", CASES)
def test_mean_field_is_the_best_over_its_gaussians(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    likelihood, y = CASES[name]
    sigma = 1.3
    y_rows, m, v = rows(y, rng.normal(0.0, 1.0, 5), 0.5)
    best, alpha, gamma, _ = mean_field(likelihood, y_rows, m, v, sigma, Auto())
    kappa = np.sqrt(np.pi / 2) / sigma
    np.testing.assert_allclose(gamma, -0.5 * kappa)
    log_noise = np.log(sigma) + 0.5 * (np.log(2.0) - np.euler_gamma)
    b0 = m + alpha / kappa
    top = np.full(5, -np.inf)
    # the same b with every s, and neighbours of it
    for s in np.geomspace(1e-3, 2.0, 60) / kappa:
        for shift in (-0.05, 0.0, 0.05):
            b = b0 + shift
            of_y = Auto()(likelihood, y_rows, b, np.full(5, s))[0]
            inside = log_noise + np.log(2 * np.pi) + kappa * ((b - m) ** 2 + s + v)
            top = np.maximum(top, of_y - 0.5 * inside + 0.5 * np.log(2 * np.pi * np.e * s))
    assert np.all(best >= top - 1e-8 * (1.0 + np.abs(top)))
    assert np.all(best <= top + 0.05)


def test_misprints_of_the_paper_do_not_match():
    likelihood, sigma, h = Poisson(rate="softplus"), 1.5, 1e-3
    y, m, v = rows(3.0, [-0.5, 1.0], 0.2)
    _, _, gamma, dnoise = optimal(likelihood, y, m, v, sigma, Auto())
    in_sigma = slope_of(lambda x: optimal(likelihood, y, m, v, sigma + x, Auto())[0], h) / (4 * sigma)
    in_v = slope_of(lambda x: optimal(likelihood, y, m, v + x, sigma, Auto())[0], h)
    np.testing.assert_allclose(dnoise, in_sigma, rtol=1e-4)
    np.testing.assert_allclose(gamma, in_v, rtol=1e-4)
    squared, not_divided = np.zeros(2), np.zeros(2)
    z, weight_u = np.polynomial.hermite_e.hermegauss(20)
    weight_u = weight_u / weight_u.sum()
    for r, weight in zip(*rayleigh.rayleigh_gauss(16), strict=True):
        w2 = sigma * r
        log_phi, r1, r2 = noise_marginal.log_marginal(likelihood, y, m + np.sqrt(v) * z[:, None], w2)
        half = 0.5 * (r2 + r1**2)  # E'' / (2 E)
        squared += weight * w2**2 / (4 * sigma**2) * (weight_u @ half)
        not_divided += weight * weight_u @ (0.5 * np.exp(log_phi) * r2)  # E'' - E'^2 / E
    assert np.all(np.abs(squared - in_sigma) > 0.1 * np.abs(in_sigma))
    assert np.all(np.abs(not_divided - in_v) > 0.1 * np.abs(in_v))


def test_misprinted_mean_of_the_inverse_noise_does_not_match(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    sigma = 1.7
    inverse = 1.0 / rng.rayleigh(sigma, 200_000)
    inverse = np.minimum(inverse, 50.0)  # its variance is infinite
    error = 4 * inverse.std() / np.sqrt(len(inverse))
    y, m, v = rows(2.0, [0.3], 0.2)
    found = -2.0 * mean_field(Poisson(), y, m, v, sigma, Auto())[2][0]
    assert abs(found - inverse.mean()) <= error + 0.02
    assert abs(np.sqrt(2 * np.pi) / sigma - inverse.mean()) > 0.5


@pytest.mark.costly
@pytest.mark.parametrize("name", ["logit", "softplus", "gaussian", "student", "binomial"])
def test_monte_carlo_agrees_with_quadrature(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    likelihood, y = CASES[name]
    sigma, n, n_inner = 0.8, 4000, 400
    y_rows, m, v = rows(y, np.full(n, 0.4), 0.5)
    for term, bias in ((optimal, 3.0 / n_inner), (simple, 0.0)):
        wanted = [part[0] for part in term(likelihood, y_rows[:1], m[:1], v[:1], sigma, Auto())]
        found = term(likelihood, y_rows, m, v, sigma, MonteCarlo(n=1, n_inner=n_inner), rng)
        for part, exact in zip(found, wanted, strict=True):
            rounding = 1e-14 * abs(exact)
            error = 4 * part.std() / np.sqrt(n) + bias * (1.0 + np.abs(part).mean()) + rounding
            assert abs(part.mean() - exact) <= error


def test_monte_carlo_of_parameters_agrees_with_quadrature(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    likelihood = NegativeBinomial().start(np.array([0.0, 1.0, 5.0, 9.0]))
    n, n_inner = 4000, 400
    y, m, v = rows(3.0, np.full(n, 0.4), 0.5)
    for bound, bias in (("optimal", 10.0 / n_inner), ("simple", 0.0)):
        wanted = parameters(likelihood, y[:1], m[:1], v[:1], 0.8, Auto(), bound=bound)
        found = parameters(likelihood, y, m, v, 0.8, MonteCarlo(1, n_inner), rng, bound=bound)
        for part, exact in zip(found, wanted, strict=True):
            part, exact = part.reshape(n, -1)[:, 0], exact.ravel()[0]
            assert abs(part.mean() - exact) <= 4 * part.std() / np.sqrt(n) + bias * (1.0 + np.abs(part).mean())


def test_few_inner_samples_bias_the_logarithm_downwards(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y, m, v = rows(3.0, np.full(4000, 0.4), 0.1)
    exact = optimal(Poisson(), y[:1], m[:1], v[:1], 2.0, Auto())[0][0]
    found = optimal(Poisson(), y, m, v, 2.0, MonteCarlo(n=1, n_inner=2), rng)[0]
    found = np.maximum(found, exact - 20.0)  # a few pairs of draws that miss the mode are most of the spread
    assert found.mean() + 4 * found.std() / np.sqrt(4000) < exact


def test_monte_carlo_of_the_mean_field_settles(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y, m, v = rows(3.0, np.full(400, 0.4), 0.5)
    exact = mean_field(Poisson(rate="softplus"), y[:1], m[:1], v[:1], 0.8, Auto())
    found = mean_field(Poisson(rate="softplus"), y, m, v, 0.8, MonteCarlo(n=200), rng)
    for part, wanted in zip(found, exact, strict=True):
        assert abs(part.mean() - wanted[0]) <= 4 * part.std() / np.sqrt(400) + 0.01 * (1 + abs(wanted[0]))


def test_monte_carlo_needs_its_arguments():
    y, m, v = rows(1.0, [0.0], 0.5)
    for term in BOUNDS.values():
        with pytest.raises(ValueError, match="rng"):
            term(Bernoulli(), y, m, v, 1.0, MonteCarlo())
    with pytest.raises(ValueError, match="n_inner"):
        optimal(Bernoulli(), y, m, v, 1.0, MonteCarlo(n_inner=0), np.random.default_rng(0))
    assert clone(MonteCarlo(n=3, n_inner=7)).n_inner == 7


@pytest.mark.parametrize("name", SMALL)
def test_gauss_hermite_agrees_where_everything_is_narrow(name):
    likelihood, y = CASES[name]
    y, m, v = rows(y, [-0.5, 0.3, 1.0], 0.01)
    for bound, term in BOUNDS.items():
        tolerance = 1e-5 if bound != "mean-field" else 1e-4
        for found, wanted in zip(
            term(likelihood, y, m, v, 0.01, GaussHermite(20)), term(likelihood, y, m, v, 0.01, Auto()), strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", [5, pytest.param(16, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", CASES)
def test_a_row_does_not_depend_on_the_others(name, bound, n, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    likelihood, y = CASES[name]
    y, m, _ = rows(y, rng.normal(0.0, 2.0, n), 1.0)
    v = 10.0 ** rng.uniform(-4, 1.5, n)
    term = BOUNDS[bound]
    whole = np.array(term(likelihood, y, m, v, 1.2, Auto()))
    for part in (rng.permutation(n), np.array([n // 2]), np.arange(1, n - 1)):
        np.testing.assert_array_equal(
            np.array(term(likelihood, y[part], m[part], v[part], 1.2, Auto())), whole[:, part]
        )


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", CASES)
def test_extreme_inputs_stay_finite(name, bound):
    likelihood, y = CASES[name]
    y, m, _ = rows(y, [-300.0, -30.0, 0.0, 30.0, 300.0], 1.0)
    for sigma in (1e-6, 1.0, 30.0):
        for v in (0.0, 1e-10, 1.0):
            for part in BOUNDS[bound](likelihood, y, m, np.full(5, v), sigma, Auto()):
                assert np.all(np.isfinite(part))


def test_no_rows_give_no_terms():
    for term in BOUNDS.values():
        parts = term(Poisson(rate="softplus"), np.zeros(0), np.zeros(0), np.zeros(0), 1.0, Auto())
        assert [part.shape for part in parts] == [(0,)] * 4


def test_rayleigh_rules_integrate():
    moments = [1.0, np.sqrt(np.pi / 2), 2.0, 3 * np.sqrt(np.pi / 2), 8.0]
    for n in (4, 8, 16):
        r, weight = rayleigh.rayleigh_gauss(n)
        np.testing.assert_allclose([weight @ r**k for k in range(5)], moments, rtol=1e-10)
    dense_r, dense_weight = noise_grid()
    for k in (1e-2, 1.0, 30.0):
        for step in (0.4, 0.2):
            r, weight = rayleigh.rayleigh_trapezoid(step)
            for function in (np.reciprocal, np.sqrt, np.log):
                np.testing.assert_allclose(
                    weight @ function(1 + k * r), dense_weight @ function(1 + k * dense_r), rtol=1e-6
                )


def test_noise_far_smaller_than_everything_is_none():
    y, m, v = rows(3.0, [-0.5, 1.0], 0.3)
    plain = Auto()(Poisson(rate="softplus"), y, m, v)
    for term in (optimal, simple):
        found = term(Poisson(rate="softplus"), y, m, v, 1e-9, Auto())
        for part, wanted in zip(found[:3], plain, strict=True):
            np.testing.assert_allclose(part, wanted, rtol=1e-6)
