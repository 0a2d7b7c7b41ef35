"""Gradients of Gamma blocks from slopes at many draws and at nodes (Khan and Lin 2017), against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma, polygamma

from sksvi.algorithms.rules import Natural, StepSize
from sksvi.families import Beta, DiagonalGaussian, Draw, Gamma, Gaussian, implicit_loops
from sksvi.families.implicit import gamma_nodes

SHAPES = [1e-3, 0.03, 0.4, 1.0, 1.9, 2.0, 7.0, 300.0, 2e4, 1e7]


def one(shape, rate=1.0):
    return Gamma(np.array([shape]), np.array([rate]))


def exact(a, b, in_a, in_b):
    """The gradient in the moments from that in a and b: F⁻¹ (∂a, -∂b)."""
    excess = 0.5 / a + 1.0 / (6.0 * a * a) if a > 1e4 else a * polygamma(1, a) - 1.0
    return np.array([a * in_a + b * in_b, -b * (in_a + b * polygamma(1, a) * in_b)]) / excess


def of_square(a, b):
    """f = x²: its slope, and its gradient."""
    return lambda x: 2.0 * x, exact(a, b, (2 * a + 1) / b**2, -2 * a * (a + 1) / b**3)


def of_square_log(a, b):
    """f = log² x."""
    level = digamma(a) - np.log(b)
    return lambda x: 2.0 * np.log(x) / x, exact(a, b, polygamma(2, a) + 2 * level * polygamma(1, a), -2 * level / b)


def test_compiled_polygammas_are_scipys():
    x = np.array([0.1, 0.9, 5.9, 6.0, 7.5, 40.0])
    np.testing.assert_allclose([implicit_loops.digamma(one) for one in x], digamma(x), rtol=1e-10)
    np.testing.assert_allclose([implicit_loops.trigamma(one) for one in x], polygamma(1, x), rtol=1e-10)
    np.testing.assert_allclose([implicit_loops.tetragamma(one) for one in x], polygamma(2, x), rtol=1e-8)


# ---- nodes
@pytest.mark.parametrize("a", SHAPES)
def test_nodes_know_moments(a):
    log_g, weight = gamma_nodes(np.array([a]))
    assert weight.sum() == pytest.approx(1.0)
    for found, wanted in (
        ((weight * log_g).sum(), digamma(a)),
        ((weight * np.exp(log_g)).sum(), a),
        ((weight * np.exp(2 * log_g)).sum(), a * (a + 1)),
    ):
        assert found == pytest.approx(wanted, rel=3e-10)


@pytest.mark.parametrize("a", SHAPES)
@pytest.mark.parametrize("b", [0.3, 20.0])
def test_gradients_at_nodes(a, b):
    q = one(a, b)
    slope, wanted = of_square(a, b)
    np.testing.assert_allclose(q.of_draws(q.nodes(), slope)[0][0], wanted, rtol=1e-8)
    if a > 0.05:  # the least value of a draw cuts the tail of log² below
        slope, wanted = of_square_log(a, b)
        np.testing.assert_allclose(q.of_draws(q.nodes(), slope)[0][0], wanted, rtol=1e-7, atol=1e-7)
    conjugate = q.of_draws(q.nodes(), lambda x: 3.0 / x - 2.0)[0][0]
    np.testing.assert_allclose(conjugate, [3.0, -2.0], rtol=1e-7 + 1e-13 * a / b)


# ---- draws
@pytest.mark.parametrize("a", [0.4, 2.0, 200.0, 1e5])
def test_what_is_conjugate_is_found_without_noise(a, global_random_seed):
    """Four draws are enough for n E log x - r E x: gradient and Fisher matrix have the same noise."""
    q = Gamma(np.full((2, 3), a), np.full((2, 3), 0.7))
    draws = q.draws(4, np.random.default_rng(global_random_seed))
    known = ~q.undetermined(draws)
    assert known.all()
    wanted = np.full((2, 3, 2), [3.0, -2.0])
    np.testing.assert_allclose(q.of_draws(draws, lambda x: 3.0 / x - 2.0)[0], wanted, rtol=1e-6)


def test_the_same_draws_make_gradient_and_matrix(global_random_seed):
    """Gamma(200, 40), 50 draws of -20 ψ(x): with an exact Fisher matrix the gradient is some 200 times noisier."""
    q, rng, n = one(200.0, 40.0), np.random.default_rng(global_random_seed), 300

    def slope(x):
        return -20.0 * digamma(x)

    def single(draws):
        """The exact matrix: V of each draw."""
        wide = Gamma(np.full(draws.value.shape, 200.0), np.full(draws.value.shape, 40.0))
        return wide.of_slopes(Draw(draws.value, draws.source), slope(draws.value))[0].mean(0)[0]

    taken = [q.draws(50, rng) for _ in range(n)]
    same = np.array([q.of_draws(draws, slope)[0][0] for draws in taken])
    apart = np.array([single(draws) for draws in taken])
    wanted = q.of_draws(q.nodes(), slope)[0][0]
    for found in (same, apart):
        assert np.all(np.abs(found.mean(0) - wanted) < 4.5 * found.std(0) / np.sqrt(n))
    error = 4.0 / np.sqrt(2 * n)  # four standard errors of a standard deviation, relative
    (sd_same, _), (sd_apart, _) = same.std(0), apart.std(0)
    assert abs(sd_same / 1.5 - 1) < error + 0.1
    assert abs(sd_apart / 310.0 - 1) < error + 0.1


def test_the_matrix_at_nodes_is_the_exact_one():
    for a in SHAPES:
        q = one(a, 3.0)
        found, own = q._with_slopes(q.nodes(), np.ones((64, 1)))
        wanted = -0.5 / a - 1.0 / (6 * a * a) if a > 1e4 else 1.0 - a * polygamma(1, a)
        assert own.all()
        assert found[0, 3] == pytest.approx(wanted, rel=1e-7)


@pytest.mark.parametrize("a", [0.6, 3.0, 50.0])
def test_draws_agree_with_nodes(a, global_random_seed):
    q, rng = one(a, 2.0), np.random.default_rng(global_random_seed)
    found = np.array([q.of_draws(q.draws(400, rng), lambda x: -np.sin(x))[0][0] for _ in range(100)])
    wanted = q.of_draws(q.nodes(), lambda x: -np.sin(x))[0][0]
    # A ratio of two means is off by about its variance.
    assert np.all(np.abs(found.mean(0) - wanted) < 4 * found.std(0) / np.sqrt(100) + 5.0 / 400 * (1 + np.abs(wanted)))


@pytest.mark.parametrize("source", ["draws", "nodes"])
def test_plates_are_each_their_own(source, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    q = Gamma(rng.uniform(0.2, 30.0, (3, 4)), rng.uniform(0.5, 2.0, (3, 4)))
    draws = q.draws(6, rng) if source == "draws" else q.nodes()
    together = q.of_draws(draws, np.cos)[0]
    np.testing.assert_array_equal(together, q.of_draws(draws, np.cos(draws.value))[0])
    for p in range(3):
        weight = None if draws.weight is None else draws.weight[:, p]
        alone = q[p].of_draws(Draw(draws.value[:, p], draws.source[:, p], weight), np.cos)[0]
        np.testing.assert_allclose(alone, together[p], rtol=1e-12)


def test_draws_without_a_matrix_of_their_own_take_the_exact_one(global_random_seed):
    """They coincide, or all have fallen to zero: which ones is known, and the gradient is a number."""
    q = Gamma(np.array([3.0, 1e-3, 5.0]), np.ones(3))
    draws = q.draws(8, np.random.default_rng(global_random_seed))
    logs = draws.source.copy()
    logs[:, 0], logs[:, 1] = np.log(2.0), -900.0 - np.arange(8.0)
    draws = Draw(np.exp(np.maximum(logs, -690.0)), logs)
    np.testing.assert_array_equal(q.undetermined(draws), [True, True, False])
    found = q.of_draws(draws, lambda x: 3.0 / x - 2.0)[0]
    np.testing.assert_allclose(found[2], [3.0, -2.0], rtol=1e-7)
    np.testing.assert_allclose(found[0], [3.0 - 2.0 * 2.0, 0.0], atol=1e-9)  # E s: no spread, no slope
    np.testing.assert_allclose(found[1], [3.0, 0.0], atol=1e-9)


def test_slopes_that_grow_at_zero_are_numbers_there():
    q = one(1e-4)
    draws = q.draws(50, np.random.default_rng(0))
    assert draws.value.min() > 0
    assert np.all(np.isfinite(q.of_draws(draws, lambda x: -digamma(x))[0]))
    np.testing.assert_allclose(q.of_draws(q.nodes(), lambda x: -digamma(x))[0][0, 0], 1.0, rtol=1e-3)


def test_too_few_draws_and_other_shapes_are_refused():
    q = Gamma(np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match=r"S >= 4; found \(3, 3\)"):
        q.of_draws(q.draws(3, np.random.default_rng(0)), np.cos)
    for other in (2, 4):
        with pytest.raises(ValueError, match=rf"found \(6, {other}\)"):
            q.of_draws(Draw(np.ones((6, other)), np.zeros((6, other))), np.cos)


# ---- other families
def test_many_draws_of_other_families_are_averaged(global_random_seed):
    q, rng = Beta([2.0, 3.0], [1.0, 4.0]), np.random.default_rng(global_random_seed)
    draws = q.draws(5, rng)
    each = [q.of_slopes(Draw(draws.value[k], draws.source[k]), np.cos(draws.value[k]))[0] for k in range(5)]
    np.testing.assert_allclose(q.of_draws(draws, np.cos)[0], np.mean(each, 0), rtol=1e-12)


@pytest.mark.parametrize("full", [True, False], ids=["full", "diagonal"])
def test_quadratics_of_gaussian_draws_are_found_without_noise(full, global_random_seed):
    """Slopes a - B x are regressed on x: the gradient is a - B m in the mean and -B/2 in the covariance."""
    rng = np.random.default_rng(global_random_seed)
    factor = rng.standard_normal((3, 3))
    B = factor @ factor.T + np.eye(3) if full else np.diag(rng.uniform(0.5, 2.0, 3))
    P = B + np.eye(3)
    q = Gaussian(rng.standard_normal(3), P) if full else DiagonalGaussian(rng.standard_normal(3), np.diag(P))
    a = rng.standard_normal(3)
    in_mean, in_cov = q.of_draws(q.draws(8, rng), lambda x: a - x @ B)
    np.testing.assert_allclose(in_mean, a - B @ q.mean, atol=1e-9)
    np.testing.assert_allclose(in_cov, -0.5 * (B if full else np.diag(B)), atol=1e-9)
    few = [q.of_draws(q.draws(3, rng), np.cos) for _ in range(2000)]
    for found, wanted in zip(zip(*few, strict=True), q.of_draws(q.nodes(), np.cos), strict=True):
        error = np.std(found, 0) / np.sqrt(len(found))
        assert np.all(np.abs(np.mean(found, 0) - wanted) < 4.5 * error + 1e-9)


# ---- steps
def test_steps_that_leave_the_domain_stay_just_inside():
    """The coordinate whose step is too long keeps its direction; the others step as far as they would."""
    q, prior = Gamma([4.0, 4.0], [2.0, 2.0]), Gamma([1.0, 1.0], [1.0, 1.0])
    gradient = (np.array([[-3.0, 1.0], [2.0, -1.0]]),)  # targets (-2, 0) and (3, 2)
    moved = Natural().step("x", {"x": q}, prior, gradient, None, StepSize(1.0, 1.0, 1.0)).block
    np.testing.assert_allclose([moved.shape[1], moved.rate[1]], [3.0, 2.0])
    share = (4.0 - moved.shape[0]) / 6.0
    assert moved.rate[0] == pytest.approx(2.0 - share * 2.0)
    assert min(moved.shape[0] / 4.0, moved.rate[0] / 2.0) == pytest.approx(0.1)
    half = Natural().step("x", {"x": q}, prior, gradient, None, StepSize(0.5, 1.0, 1.0)).block
    np.testing.assert_allclose([half.shape[0], half.rate[0]], [1.0, 1.0])  # which lies inside as it is


def test_derivatives_in_shape_and_rate_make_the_gradient_in_the_moments():
    """Of n E log x - r E x, n (ψ(a) - log b) - r a / b, it is (n, -r)."""
    a, b, n, r = np.array([0.05, 3.0, 2e4]), np.array([1.0, 0.5, 7.0]), 3.0, 2.0
    (found,) = Gamma(a, b).of_parameters(n * polygamma(1, a) - r / b, -n / b + r * a / b**2)
    np.testing.assert_allclose(found, np.tile([n, -r], (3, 1)), rtol=1e-6)
