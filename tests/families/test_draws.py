"""How draws move with the parameters of their family (Hoffman and Blei 2015), by quadrature over the draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from sksvi.families import Beta, DiagonalGaussian, Dirichlet, Gamma, Gaussian, Rayleigh
from sksvi.families.base import Draw

#: Two test functions and their slopes.
FUNCTIONS = {
    "sine": (np.sin, np.cos),
    "arctan": (np.arctan, lambda x: 1.0 / (1.0 + np.square(x))),
}
FUNCTION = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


def log_gamma_rule(shape, n=4001):
    """Trapezoidal rule in log g for g ~ Gamma(shape, 1): nodes and weights."""
    low = np.log(shape) - 12.0 / np.sqrt(shape) - 40.0 / shape
    high = np.log(shape + 12.0 * np.sqrt(shape) + 40.0)
    x = np.linspace(low, high, n)
    weights = np.exp(shape * x - np.exp(x) - gammaln(shape)) * (x[1] - x[0])
    return x, weights


def expected(f, shape, rate):
    x, weights = log_gamma_rule(shape)
    return weights @ f(np.exp(x) / rate) / weights.sum()


def central(f, at, step):
    return (f(at + step) - f(at - step)) / (2 * step)


@pytest.mark.parametrize("shape", [0.3, 1.0, 4.0, 300.0])
@pytest.mark.parametrize("rate", [0.5, 3.0])
@FUNCTION
def test_slopes_at_gamma_draws(shape, rate, function):
    """∂/∂η of E f(x): F times it is the derivative in (shape, -rate)."""
    f, slope = function
    x, weights = log_gamma_rule(shape)
    q = Gamma(np.full(len(x), shape), np.full(len(x), rate))
    draws = Draw(np.exp(x) / rate, x)
    found = weights @ q.of_slopes(draws, slope(draws.value))[0]
    in_shape = central(lambda a: expected(f, a, rate), shape, 1e-4 * shape)
    in_rate = central(lambda b: expected(f, shape, b), rate, 1e-4 * rate)
    informed = Gamma(np.array([shape]), np.array([rate])).fisher(found[None])[0]
    np.testing.assert_allclose(informed, [in_shape, -in_rate], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("shape", [0.3, 4.0, 2e4])
def test_correction_of_gamma_draws_is_one_on_average(shape):
    x, weights = log_gamma_rule(shape)
    q = Gamma(np.full(len(x), shape), np.full(len(x), 2.0))
    for gradient in np.eye(2):
        corrected = q.corrected(Draw(np.exp(x) / 2.0, x), (np.broadcast_to(gradient, (len(x), 2)),))[0]
        scale = np.array([1.0, 2.0])  # the rate's coordinate is measured in rates
        scale = np.outer(scale, 1.0 / scale)[:, np.argmax(gradient)]
        np.testing.assert_allclose(weights @ corrected / scale / weights.sum(), gradient, atol=2e-3 * (1 + shape / 1e4))


@pytest.mark.parametrize(("a", "b"), [(2.0, 3.0), (0.6, 1.4), (40.0, 7.0)])
@FUNCTION
def test_slopes_at_beta_draws(a, b, function):
    f, slope = function
    (x, p), (z, r) = log_gamma_rule(a, 401), log_gamma_rule(b, 401)
    logs = np.stack([np.repeat(x, len(z)), np.tile(z, len(x))], -1)
    weights = np.outer(p, r).ravel()
    value = 1.0 / (1.0 + np.exp(logs[:, 1] - logs[:, 0]))
    q = Beta(np.full(len(logs), a), np.full(len(logs), b))
    found = weights @ q.of_slopes(Draw(value, logs), slope(value))[0]

    def bound(a, b):
        from scipy.special import roots_jacobi

        nodes, w = roots_jacobi(200, b - 1.0, a - 1.0)
        return w @ f(0.5 * (nodes + 1.0)) / w.sum()

    in_a, in_b = central(lambda v: bound(v, b), a, 1e-4 * a), central(lambda v: bound(a, v), b, 1e-4 * b)
    informed = Beta(np.array([a]), np.array([b])).fisher(found[None])[0]
    np.testing.assert_allclose(informed, [in_a, in_b], rtol=1e-4, atol=1e-8)


def test_beta_is_a_dirichlet_of_two_columns(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    (a, b), (c, d) = rng.uniform(0.3, 5.0, (2, 2, 6))
    q, prior = Beta(a, b), Beta(c, d)
    twin, its = Dirichlet(np.stack([a, b], -1)), Dirichlet(np.stack([c, d], -1))
    assert q.kl(prior) == pytest.approx(twin.kl(its), rel=1e-12)
    np.testing.assert_allclose(q.divergence(prior), twin.divergence(its), rtol=1e-10)
    np.testing.assert_array_equal(q.moments, twin.moments)
    np.testing.assert_allclose(q.mean, twin.mean[:, 0])
    np.testing.assert_allclose(q.variance, twin.variance[:, 0])
    mine, other = (block.drawn(np.random.default_rng(3)) for block in (q, twin))
    np.testing.assert_allclose(mine.value, other.value[:, 0], rtol=1e-14)
    gradient = (rng.standard_normal((6, 2)),)
    np.testing.assert_array_equal(q.corrected(mine, gradient)[0], twin.corrected(other, gradient)[0])


@FUNCTION
def test_slopes_at_rayleigh_draws(function):
    f, slope = function
    u = (np.arange(20000) + 0.5) / 20000
    unit = np.sqrt(-2.0 * np.log(u))
    q = Rayleigh(1.7)
    found = np.mean([q.of_slopes(Draw(np.array([1.7 * r])), slope(np.array([1.7 * r])))[0][0] for r in unit[::10]])
    wanted = central(lambda eta: np.mean(f(np.sqrt(eta / 2) * unit[::10])), 2 * 1.7**2, 1e-3)
    assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("covariance", ["dense", "diagonal"])
@FUNCTION
def test_slopes_at_gaussian_draws(covariance, function):
    """Of f(x) = f(c x): the derivative in the mean, and half of the expected bend in the covariance."""
    f, slope = function
    c = np.array([0.7, -0.4])
    if covariance == "dense":
        q = Gaussian(np.array([0.3, -0.2]), np.array([[2.0, 0.5], [0.5, 1.0]]))
    else:
        q = DiagonalGaussian(np.array([0.3, -0.2]), np.array([2.0, 1.0]))
    nodes, w = np.polynomial.hermite_e.hermegauss(60)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    weights = np.outer(w, w).ravel() / (2 * np.pi)
    in_mean, in_cov = np.zeros(2), np.zeros(q.precision.shape)
    for weight, each in zip(weights, z, strict=True):
        draw = Draw(q.mean + q.coloured(each), each)
        g, h = q.of_slopes(draw, slope(c @ draw.value) * c)
        in_mean, in_cov = in_mean + weight * g, in_cov + weight * h
    m, v = c @ q.mean, c @ q.cov @ c

    def bound(m, v):
        return w @ f(m + np.sqrt(v) * nodes) / np.sqrt(2 * np.pi)

    outer = np.outer(c, c) if covariance == "dense" else c * c
    np.testing.assert_allclose(in_mean, central(lambda t: bound(t, v), m, 1e-4) * c, rtol=1e-6)
    np.testing.assert_allclose(in_cov, central(lambda t: bound(m, t), v, 1e-4) * outer, rtol=1e-6, atol=1e-12)


def test_single_draws_are_finite_where_shapes_are_small():
    rng = np.random.default_rng(0)
    for q in (Gamma(np.full(50, 1e-3), np.ones(50)), Dirichlet(np.full((3, 50), 1e-3)), Beta(*np.full((2, 50), 1e-3))):
        draw = q.drawn(rng)
        assert np.all(np.isfinite(draw.source)) and np.all(np.isfinite(draw.value))
        gradient = (np.ones(q.theta.shape),)
        assert np.all(np.isfinite(q.corrected(draw, gradient)[0]))


def test_one_word_needs_no_correction():
    q = Dirichlet(np.array([[2.0], [3.0]]))
    draw = q.drawn(np.random.default_rng(0))
    np.testing.assert_array_equal(draw.value, 1.0)
    np.testing.assert_array_equal(q.corrected(draw, (np.array([[4.0], [5.0]]),))[0], [[4.0], [5.0]])


# ---- rules of nodes
BLOCKS_WITH_NODES = {
    "Gamma": Gamma([0.2, 3.0, 60.0], [1.0, 2.0, 3.0]),
    "Beta": Beta([0.1, 2.0, 300.0], [3.0, 0.4, 20.0]),
    "Gaussian": Gaussian(np.array([0.3, -0.2]), np.array([[2.0, 0.5], [0.5, 1.0]])),
    "DiagonalGaussian": DiagonalGaussian(np.array([0.3, -0.2]), np.array([2.0, 1.0])),
}


@pytest.mark.parametrize("name", BLOCKS_WITH_NODES)
def test_nodes_know_mean_and_variance(name):
    q = BLOCKS_WITH_NODES[name]
    for n, tolerance in ((64, 1e-9), (32, 1e-6), (16, 5e-4)):
        nodes = q.nodes(n)
        assert nodes.value.shape == (n, *q.mean.shape)
        mean = nodes.average(nodes.value)
        np.testing.assert_allclose(mean, q.mean, rtol=tolerance)
        np.testing.assert_allclose(nodes.average(np.square(nodes.value - mean)), q.variance, rtol=10 * tolerance)


@pytest.mark.parametrize("name", BLOCKS_WITH_NODES)
@FUNCTION
def test_gradients_from_values_at_nodes(name, function):
    """Derivatives of E f in each family's own coordinates, by finite differences of the rule."""
    f, slope = function
    q = BLOCKS_WITH_NODES[name]
    gradient = q.of_values(q.nodes(), f(q.nodes().value))

    def bound(block):
        return float(block.nodes().average(f(block.nodes().value)).sum())

    if name.endswith("Gaussian"):
        unit = np.eye(2)
        in_mean = [central(lambda t, e=e: bound(type(q)(q.mean + t * e, q.precision)), 0, 1e-4) for e in unit]
        np.testing.assert_allclose(gradient[0], in_mean, rtol=1e-6)
        cov = np.linalg.inv(q.precision) if q.full else 1.0 / q.precision

        def wider(t):
            return type(q)(q.mean, np.linalg.inv(cov + t * np.eye(2)) if q.full else 1.0 / (cov + t))

        np.testing.assert_allclose(np.sum(gradient[1]), central(lambda t: bound(wider(t)), 0, 1e-4), rtol=1e-5)
    else:
        step = q.standard_gradient(q, gradient)  # nothing is paid for a distance from oneself
        for k in np.ndindex(step.shape):
            unit = np.zeros(step.shape)
            unit[k] = 1.0
            found = central(lambda t, unit=unit: bound(q.at(q.standard_values + t * unit)), 0, 1e-4)
            assert step[k] == pytest.approx(found, rel=1e-5, abs=1e-8)
    if name != "Beta":
        for mine, its in zip(q.of_draws(q.nodes(), slope), gradient, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-6, atol=1e-9)
