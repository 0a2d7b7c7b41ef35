"""Nodes of densities of few hyperparameters: exact for normals, near for skewed ones, inside of any support."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma, gammaln, ndtr, polygamma

from sksvi.integrals.nodes import (
    DROPPED,
    Nodes,
    composite,
    corners,
    curvature_by_slopes,
    design,
    nodes_about,
    scattered,
    shape_about,
    simplex,
)


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def normal(size, rng):
    root = rng.standard_normal((size, size))
    cov = 0.1 * (root @ root.T / size + 0.2 * np.eye(size))
    mode, precision = rng.standard_normal(size), np.linalg.inv(cov)
    log_integral = 1.7 + 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
    return mode, cov, log_integral, lambda h: 1.7 - 0.5 * float((h - mode) @ precision @ (h - mode))


def cov_of(nodes):
    off = nodes.values - nodes.mean
    return (nodes.weights * off.T) @ off


def log_gamma(shape):
    """Density of the logarithm of a gamma variable: skewed to the left."""
    return lambda h: float(np.sum(shape * h - np.exp(h)))


# ---- rules
@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_rules_are_exact_for_squares(size):
    rules = [composite(size), composite(size, True), corners(size), simplex(size)] + ([design(1)] if size == 1 else [])
    for z, share in rules:
        assert share.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(share @ z, 0.0, atol=1e-12)
        # A line ends at 2.7 standard deviations.
        np.testing.assert_allclose((share * z.T) @ z, np.eye(size), atol=0.03 if len(z) == 7 and size == 1 else 1e-12)
    z, share = scattered(size, 4000)
    np.testing.assert_allclose((share * z.T) @ z, np.eye(size), atol=0.05)


# ---- normals
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_normal_density_is_exact(size, rng):
    mode, cov, log_integral, density = normal(size, rng)
    found = nodes_about(density, mode)
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.log_integral == pytest.approx(log_integral, abs=1e-9)
    np.testing.assert_allclose(found.mean, mode, atol=1e-9)
    allowed = 0.02 * cov.max() if size == 1 else 1e-9
    np.testing.assert_allclose(cov_of(found), cov, atol=allowed)
    np.testing.assert_allclose(found.std, np.sqrt(np.diag(cov)), rtol=0.01)


def test_a_curvature_that_is_known_is_used(rng):
    mode, cov, log_integral, density = normal(2, rng)
    asked = []
    found = nodes_about(lambda h: asked.append(h) or density(h), mode, np.linalg.inv(cov))
    assert found.log_integral == pytest.approx(log_integral, abs=1e-9)
    whole = []
    nodes_about(lambda h: whole.append(h) or density(h), mode)
    assert len(asked) < len(whole)


# ---- skewed densities
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("shape", [2.0, 5.0, 20.0])
def test_skewed_densities(size, shape):
    """Half axes have scales of their own: a gamma of shape 2 is off by 0.03 nats, an eighth of a deviation, 12 %."""
    found = nodes_about(log_gamma(shape), np.full(size, np.log(shape)))
    std = np.sqrt(polygamma(1, shape))
    assert found.log_integral == pytest.approx(size * gammaln(shape), abs=0.05)
    assert np.all(np.abs(found.mean - digamma(shape)) <= 0.2 * std)
    np.testing.assert_allclose(found.std, std, rtol=0.13)
    # A normal at the mode is farther off.
    curved = 0.5 * size * np.log(2 * np.pi / shape) + size * (shape * np.log(shape) - shape)
    if size == 1:
        assert abs(found.log_integral - gammaln(shape)) < abs(curved - gammaln(shape))
        assert abs(found.mean[0] - digamma(shape)) < abs(np.log(shape) - digamma(shape))


# ---- ends of the support
@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_a_mode_at_an_end_of_the_support(scale):
    """Exponential density, in coordinates in which it is a normal."""
    found = nodes_about(lambda h: -float(h[0]) / scale, np.zeros(1), None, np.zeros(1))
    assert np.all(found.values >= 0.0)
    assert found.log_integral == pytest.approx(np.log(scale), abs=0.02)
    assert found.mean[0] == pytest.approx(scale, rel=0.05)
    assert found.std[0] == pytest.approx(scale, rel=0.05)


def test_a_half_normal_is_cut_at_its_end():
    found = nodes_about(lambda h: -0.5 * float(h[0] ** 2) / 0.16, np.zeros(1), None, np.zeros(1), np.full(1, 9.0))
    assert found.log_integral == pytest.approx(np.log(0.4 * np.sqrt(0.5 * np.pi)), abs=5e-3)
    assert found.mean[0] == pytest.approx(0.4 * np.sqrt(2 / np.pi), rel=0.01)
    assert found.mean[0] ** 2 + found.std[0] ** 2 == pytest.approx(0.16, rel=0.03)
    above = nodes_about(lambda h: -0.5 * float(h[0] ** 2) / 0.16, np.zeros(1), None, np.full(1, -9.0), np.zeros(1))
    np.testing.assert_allclose(above.values[::-1], -found.values, atol=1e-12)


@pytest.mark.parametrize("beyond", [9.0, pytest.param(np.inf)])
def test_an_end_beside_a_hyperparameter_with_room(beyond):
    """The one keeps the axis of its curvature where the other falls from an end of its support."""

    def density(h):
        return -float(h[0]) / 0.4 - 0.5 * float(h[1] ** 2) / 0.01

    low, high = np.array([0.0, -np.inf]), np.array([beyond, np.inf])
    found = nodes_about(density, np.zeros(2), None, low, high)
    assert np.all(found.values[:, 0] >= 0.0)
    assert found.log_integral == pytest.approx(np.log(0.4 * 0.1 * np.sqrt(2 * np.pi)), abs=0.15)
    assert found.std[1] == pytest.approx(0.1, rel=0.1)
    axes = shape_about(density, np.zeros(2), None, low, high).axes
    np.testing.assert_allclose(np.abs(axes).max(axis=1)[1], 0.1, rtol=0.01)  # of the curvature


@pytest.mark.parametrize("end", [2.0, pytest.param(-1.96156646)])
def test_an_upper_end_that_steps_do_not_meet(end):
    """-1.96156646 - 0.1 + 0.1 is above -1.96156646."""
    low, high = np.array([end - 2.0, -np.inf]), np.array([end, np.inf])

    def density(h):
        return float(h[0] - 50.0 * h[1] ** 2)

    found = nodes_about(density, np.array([end, 0.0]), None, low, high)
    assert np.all(found.values[:, 0] <= end)
    assert found.std[1] == pytest.approx(0.1, rel=0.1)
    axes = shape_about(density, np.array([end, 0.0]), None, low, high).axes
    np.testing.assert_allclose(np.abs(axes).max(axis=1)[1], 0.1, rtol=0.01)  # of the curvature


@pytest.mark.parametrize("beyond", [9.0, np.inf])
@pytest.mark.parametrize("size", [2, 3])
def test_a_mode_in_a_corner(size, beyond):
    """Nodes are on axes only: of two ends 0.15 nats too much, of three 0.6."""
    low, high = np.zeros(size), np.full(size, beyond)
    found = nodes_about(lambda h: -2.0 * float(np.sum(h)), np.zeros(size), None, low, high)
    assert np.all(found.values >= 0.0)
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.log_integral == pytest.approx(-size * np.log(2.0), abs={2: 0.2, 3: 0.7}[size])
    np.testing.assert_allclose(found.mean, found.mean[0])
    assert 0.2 < found.mean[0] < 0.6


def test_a_mode_that_all_axes_lead_out_of_is_the_only_node():
    found = nodes_about(lambda h: 0.0 if not np.any(h) else -np.inf, np.zeros(2), None, np.zeros(2), np.zeros(2))
    np.testing.assert_array_equal(found.values, np.zeros((1, 2)))
    np.testing.assert_array_equal(found.weights, [1.0])


# ---- fewer nodes
def test_few_drops_the_lightest(rng):
    weights = rng.dirichlet(np.full(30, 0.3))
    nodes = Nodes(rng.standard_normal((30, 2)), weights, 1.25)
    few = nodes.few()
    kept = [np.flatnonzero(np.all(nodes.values == value, axis=1))[0] for value in few.values]
    left = np.setdiff1d(np.arange(30), kept)
    assert 1.0 - weights[kept].sum() <= DROPPED == 0.02
    assert len(left) and weights[left].max() <= weights[kept].min()
    np.testing.assert_allclose(few.weights, weights[kept] / weights[kept].sum())
    assert few.log_integral == 1.25
    np.testing.assert_allclose(nodes.few(0.0).weights, weights)
    assert len(Nodes(np.zeros((1, 2)), np.ones(1)).few().weights) == 1


def test_corrected_nodes_have_another_integral(rng):
    mode, cov, log_integral, density = normal(2, rng)
    found = nodes_about(density, mode)
    moved = found.corrected(np.full(len(found.weights), 0.7))
    np.testing.assert_allclose(moved.weights, found.weights)
    assert moved.log_integral == pytest.approx(log_integral + 0.7)
    tilted = found.corrected(0.5 * found.values[:, 0])
    assert tilted.mean[0] - mode[0] == pytest.approx(0.5 * cov[0, 0], rel=0.2)


# ---- narrow axes
def test_sharp_leaves_out_narrow_axes():
    def density(h):
        return -0.5 * float(h[0] ** 2 / 0.25 + h[1] ** 2 / 1e-4)

    found, whole = nodes_about(density, np.zeros(2), sharp=0.1), nodes_about(density, np.zeros(2))
    np.testing.assert_allclose(found.values[:, 1], 0.0, atol=1e-12)
    assert len(found.weights) == 7 and len(whole.weights) == 5  # a line, and a sphere
    assert found.std[0] == pytest.approx(0.5, rel=0.01)
    assert found.log_integral == pytest.approx(np.log(2 * np.pi * 0.5 * 0.01), abs=1e-6)
    assert found.log_integral == pytest.approx(whole.log_integral, abs=1e-6)
    assert len(nodes_about(density, np.zeros(2), sharp=1.0).weights) == 1
    shape = shape_about(density, np.zeros(2))
    assert shape.wide(0.1).axes.shape == (2, 1) and shape.wide(0.0).axes.shape == (2, 2)


def test_narrow_axes_are_those_of_a_normal_without_a_look():
    """A skewed narrow axis has the scales of its curvature, and nodes along it their share; the wide one is asked."""
    asked = []

    def density(h):
        asked.append(h)
        return -0.5 * float(h[0] ** 2 / 0.25 + h[1] ** 2 / 1e-4) + 1e4 * float(h[1]) ** 3

    curvature, ends = np.diag([4.0, 1e4]), (np.full(2, -9.0), np.full(2, 9.0))
    shape = shape_about(density, np.zeros(2), curvature, *ends, narrow=0.1)
    nodes = shape.nodes(design(2))
    assert not any(h[1] != 0.0 for h in asked) and any(h[0] != 0.0 for h in asked)
    np.testing.assert_allclose(nodes.std, [0.5, 0.01], rtol=0.01)
    assert nodes.log_integral == pytest.approx(np.log(2 * np.pi * 0.5 * 0.01), abs=1e-6)
    assert np.unique(shape_about(density, np.zeros(2), curvature).scales).size > 1


def test_curvature_by_slopes(rng):
    """That of a normal is exact, at an end of the support too; where there is no slope the identity."""
    mode, cov, _, _ = normal(3, rng)
    precision = np.linalg.inv(cov)

    def slope(h):
        return precision @ (mode - h)

    none = np.full(3, np.inf)
    for low, high in (
        (-none, none),
        (mode - np.array([0.0, 1.0, 9.0]), none),
        (-none, mode + np.array([1.0, 0.0, 9.0])),
    ):
        found = curvature_by_slopes(slope, mode, low, high)
        np.testing.assert_allclose(found, precision, rtol=1e-8, atol=1e-8)
    unknown = curvature_by_slopes(lambda h: h + np.nan, mode, -none, none)
    np.testing.assert_array_equal(unknown, np.eye(3))


# ---- a density that is better and dearer
def test_scales_along_a_better_density():
    """Axes are those of the first density; how far nodes lie is asked of the other, once per half axis."""
    asked = []

    def along(h):
        asked.append(h)
        return -0.5 * float(h[0] ** 2 / (0.36 if h[0] > 0 else 0.16) + h[1] ** 2 / 0.09)

    def density(h):
        return -0.5 * float(h[0] ** 2 / 0.04 + h[1] ** 2 / 0.09)

    found = nodes_about(density, np.zeros(2), along=along)
    assert len(asked) == 5  # the mode and four half axes
    assert found.weights.sum() == pytest.approx(1.0)
    first = found.values[:, 0]
    assert first.max() / -first.min() == pytest.approx(0.6 / 0.4, rel=1e-6)
    assert found.std[1] == pytest.approx(0.3, rel=1e-6)
    # A normal of either scale on its half, in shares of these: as the design has both.
    assert found.log_integral == pytest.approx(np.log(2 * np.pi * 0.5 * 0.3), abs=1e-6)


def test_scales_along_end_with_the_support():
    def density(h):
        return -0.5 * float(h[0] ** 2) / 0.25

    found = nodes_about(density, np.zeros(1), None, np.full(1, -0.1), np.full(1, 9.0), along=density)
    assert np.all(found.values >= -0.1)
    # A normal of deviation 0.5 from 0.2 deviations below its mean on.
    below, height = ndtr(-0.2), np.exp(-0.02) / np.sqrt(2.0 * np.pi)
    mean = height / (1.0 - below)
    assert found.mean[0] == pytest.approx(0.5 * mean, rel=0.03)
    assert found.std[0] == pytest.approx(0.5 * np.sqrt(1.0 - 0.2 * mean - mean**2), rel=0.03)


def on_a_grid(log_density, low, high, size=401):
    """Mean, standard deviations and log integral of a density of two on a box."""
    axes = [np.linspace(max(a, -7.0), min(b, 7.0), size) for a, b in zip(low, high, strict=True)]
    h = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    ends = np.r_[0.5, np.ones(size - 2), 0.5]
    cell = np.outer(ends * (axes[0][1] - axes[0][0]), ends * (axes[1][1] - axes[1][0]))
    weight = np.exp(log_density(h)) * cell
    total = weight.sum()
    mean = np.einsum("ij,ijk->k", weight, h) / total
    return mean, np.sqrt(np.einsum("ij,ijk->k", weight, np.square(h - mean)) / total), np.log(total)


@pytest.mark.parametrize("rho", [0.0, 0.5, -0.8])
@pytest.mark.parametrize("low", [-2.0, -1.0, -0.5, 0.0, 0.5])
@pytest.mark.parametrize("high", [pytest.param(np.inf, id="one end"), pytest.param(1.2, id="two ends")])
def test_an_end_near_the_mode_of_a_correlated_normal(rho, low, high):
    """The end of one hyperparameter takes nothing from the width of the other."""
    precision = np.linalg.inv([[1.0, rho], [rho, 1.0]])

    def log_density(h):
        return -0.5 * np.einsum("...i,ij,...j->...", h, precision, h)

    box = np.array([low, -np.inf]), np.array([high, np.inf])
    first = max(low, 0.0)
    mean, std, log_integral = on_a_grid(log_density, *box)
    found = nodes_about(lambda h: float(log_density(h)), np.array([first, rho * first]), None, *box)
    np.testing.assert_allclose((found.mean - mean) / std, 0.0, atol=0.02)
    np.testing.assert_allclose(found.std, std, rtol=0.03)
    assert found.log_integral == pytest.approx(log_integral, abs=0.02)


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("low", [-1.0, -0.5, 0.0])
@pytest.mark.parametrize("high", [pytest.param(np.inf, id="one end"), pytest.param(0.6, id="two ends")])
def test_ends_near_the_mode_on_two_axes(rho, low, high):
    """Correlated ones are followed one by one: a sixth of a deviation off where the mode is in the corner."""
    precision = np.linalg.inv([[1.0, rho], [rho, 1.0]])

    def log_density(h):
        return -0.5 * np.einsum("...i,ij,...j->...", h, precision, h)

    box = np.full(2, low), np.full(2, high)
    mean, std, log_integral = on_a_grid(log_density, *box)
    found = nodes_about(lambda h: float(log_density(h)), np.zeros(2), None, *box)
    np.testing.assert_allclose((found.mean - mean) / std, 0.0, atol=0.03 if rho == 0.0 else 0.18)
    np.testing.assert_allclose(found.std, std, rtol=0.03 if rho == 0.0 else 0.1)
    assert found.log_integral == pytest.approx(log_integral, abs=0.02 if rho == 0.0 else 0.14)


def test_an_end_that_rounding_leads_beyond_is_an_end(rng):
    for low, mode in zip(-rng.gamma(2.0, size=40), rng.gamma(2.0, size=40), strict=True):
        line = shape_about(lambda h: 0.0, np.array([mode]), np.eye(1), np.array([low]), np.array([mode + 1.0])).places
        np.testing.assert_allclose(line.lines[0].grid[[0, -1]], [low - mode, 1.0], rtol=1e-6)


def test_a_negative_curvature_does_not_lead_far_from_the_mode():
    """Differences across a bent ridge found it: beside an end the others went a thousand deviations away."""
    found, asked = np.array([[0.26, 0.01, 0.01], [0.01, 100.0, -100.2], [0.01, -100.2, 100.0]]), []

    def density(h):
        asked.append(h)
        return -0.5 * float(0.26 * h[0] ** 2 + 0.1 * (h[1] + h[2]) ** 2 + 100.0 * (h[1] - h[2]) ** 2)

    low, high = np.array([-2.0, -np.inf, -np.inf]), np.array([0.0, np.inf, np.inf])
    nodes = nodes_about(density, np.zeros(3), found, low, high)
    assert np.abs(asked).max() < 25.0
    assert nodes.weights.sum() == pytest.approx(1.0)
