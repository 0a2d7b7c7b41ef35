"""Covariances of the effects of a level: coordinates, prior, slopes, and a prior with blocks against a dense one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from sksvi.families import DiagonalGaussian, Gaussian, Marginal, Point
from sksvi.families.gaussian.arrow import ArrowGaussian, ArrowMatrix
from sksvi.families.gaussian.level_blocks import LevelBlocks, LevelEffects, LevelGaussian
from sksvi.likelihoods import Gaussian as Normal
from sksvi.models.linear.hyperposterior import LinearHyperposterior
from sksvi.models.mixed.covariances import (
    ETA,
    Groups,
    LogScales,
    correlation_root,
    drawn_correlations,
    log_correlation_density,
    partial_coordinates,
)
from sksvi.models.mixed.glm import MixedModel

#: Two fixed columns, a factor of three effects and four levels, one of two and five, one of an intercept; no intercept.
LAYOUT = Groups((2, 14, 24, 30), (4, 5, 6), (3, 2, 1), correlated=True)


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 71])


def model_of(layout=LAYOUT):
    options = {"prior_precision": 0.5, "intercept_precision": 1.0, "fit_intercept": False, "full": True, "unit": 1.3}
    likelihood = Normal(variance=1.0)
    return MixedModel(
        likelihood, bound="optimal", noise_prior_scale=None, groups=layout, n_features=layout.starts[-1], **options
    )


def arrow(precision):
    """The part of a precision on an arrow whose diagonal is the first factor."""
    return ArrowMatrix.of_dense(precision, 4, 3, 2)


def block_of(kind, rng):
    size = LAYOUT.starts[-1]
    half, mean = rng.standard_normal((size, size)), rng.standard_normal(size)
    precision = half @ half.T / size + np.eye(size)
    if kind == "diagonal":
        return DiagonalGaussian(mean, np.diagonal(precision).copy())
    if kind == "dense":
        return Gaussian(mean, precision)
    return ArrowGaussian(mean, arrow(precision))


def test_coordinates_go_both_ways(rng):
    for size in (2, 3, 5):
        z = rng.standard_normal(size * (size - 1) // 2)
        root = correlation_root(z, size)
        std = rng.uniform(0.5, 2.0, size)
        np.testing.assert_allclose(np.linalg.norm(root, axis=1), 1.0)
        np.testing.assert_allclose(partial_coordinates(np.diag(std) @ root), z, rtol=1e-9)


def test_maps_of_effects_move_their_covariance(rng):
    values = rng.standard_normal(LAYOUT.n_values)
    maps = [np.diag(rng.uniform(0.5, 2.0, r)) for r in LAYOUT.effects]
    maps[0][0, 1:], maps[1][0, 1:] = rng.standard_normal(2), 3.0
    moved, before = (LAYOUT.covariances(one) for one in (LAYOUT.mapped(values, maps), values))
    for own, map_, covariance in zip(moved, maps, before, strict=True):
        np.testing.assert_allclose(own, map_ @ covariance @ map_.T, rtol=1e-10)
    maps[1][0, 1] = 1e12
    back = [np.linalg.inv(map_) for map_ in maps]
    np.testing.assert_allclose(LAYOUT.mapped(LAYOUT.mapped(values, maps), back)[:3], values[:3], rtol=1e-10)
    assert np.all(np.isfinite(LAYOUT.mapped(values, maps)))


def test_what_is_within_nodes_is_moved(rng):
    """In first order: as draws about the node are."""
    layout, maps = Groups((0,), (4,), (2,), correlated=True), [np.array([[1.0, -1.5], [0.0, 0.5]])]
    node, within = rng.standard_normal(3), np.full(3, 1e-4)
    moved = LogScales(node[None], np.ones(1), within).mapped(layout, maps)
    draws = [layout.mapped(node + 1e-2 * z, maps) for z in rng.standard_normal((2000, 3))]
    np.testing.assert_allclose(moved.within, np.var(draws, axis=0), rtol=0.2)
    np.testing.assert_array_equal(LogScales(node[None], np.ones(1)).mapped(layout, maps).within, 0.0)


@pytest.mark.parametrize("kind", ["diagonal", "dense", "arrow"])
def test_effects_in_users_units_have_the_moments_of_their_draws(rng, kind):
    joint, index = block_of(kind, rng), np.arange(2, 30)
    maps = np.array([[1.0, -2.0, 0.5], [0.0, 0.5, 0.0], [0.0, 0.0, 2.0]]), np.diag([1.0, 3.0]), np.eye(1)
    diag = np.concatenate([np.tile(np.diagonal(own), n) for own, n in zip(maps, LAYOUT.levels, strict=True)])
    view = LevelEffects(Marginal(joint, index), LevelBlocks(diag, ((0, 4), (12, 5), (22, 6)), maps))
    A = view.inner_rows(np.eye(28))
    z = rng.standard_normal((3, 28))
    np.testing.assert_allclose(view.lifted(z), z @ A.T)
    np.testing.assert_allclose(view.mean, A @ view.inner.mean)
    np.testing.assert_allclose(view.cov, A @ view.inner.cov @ A.T, atol=1e-12)
    np.testing.assert_allclose(view.variance, np.diagonal(view.cov))
    np.testing.assert_allclose(view.spread(z), np.einsum("ij,jk,ik->i", z, view.cov, z))
    np.testing.assert_array_equal(view.around(joint).variance, view.variance)


def test_prior_of_correlations_is_a_power_of_the_determinant(rng):
    """Up to a constant |R|^(eta - 1), in the coordinates of the correlations themselves; its integral is 1."""
    below = np.tril_indices(3, -1)

    def correlations(z):
        root = correlation_root(z, 3)
        return (root @ root.T)[below]

    found = []
    for z in rng.standard_normal((4, 3)):
        step = 1e-5 * np.eye(3)
        jacobian = np.stack([(correlations(z + one) - correlations(z - one)) / 2e-5 for one in step])
        root = correlation_root(z, 3)
        stated = (ETA - 1.0) * np.linalg.slogdet(root @ root.T)[1] + np.linalg.slogdet(jacobian)[1]
        found.append(log_correlation_density(z, 3) - stated)
    np.testing.assert_allclose(found, found[0], rtol=1e-6)
    total = quad(lambda one: np.exp(log_correlation_density(np.array([one]), 2)), -12.0, 12.0)[0]
    assert abs(total - 1.0) < 1e-6


def test_jacobian_of_standard_deviations_and_correlations(rng):
    layout = Groups((0, 12, 22), (4, 5), (3, 2), correlated=True)
    values = 0.5 * rng.standard_normal(layout.n_values)

    def shown(h):
        pairs = [own[0][np.tril_indices(r, -1)] for own, r in zip(layout.correlations(h[None]), (3, 2), strict=True)]
        return np.concatenate([np.exp(h[:5]), *pairs])

    steps = 1e-5 * np.eye(len(values))
    jacobian = np.stack([(shown(values + step) - shown(values - step)) / 2e-5 for step in steps])
    np.testing.assert_allclose(layout.log_jacobian(values), np.linalg.slogdet(jacobian)[1], rtol=1e-6, atol=1e-6)


def test_drawn_correlations_have_the_prior(rng):
    """Every correlation of r effects is Beta(eta + (r - 2) / 2) on (-1, 1) (Lewandowski, Kurowicka and Joe 2009)."""
    roots = [correlation_root(drawn_correlations(3, rng), 3) for _ in range(400)]
    drawn = np.array([(root @ root.T)[np.tril_indices(3, -1)] for root in roots])
    marginal = stats.beta(ETA + 0.5, ETA + 0.5, -1.0, 2.0)
    for column in drawn.T:
        assert stats.kstest(column, marginal.cdf).pvalue > 1e-5


def test_a_prior_with_blocks_is_a_dense_one(rng):
    model = model_of()
    prior = model.prior({"group_std": Point(0.5 * rng.standard_normal(LAYOUT.n_values))})["weights"]
    assert isinstance(prior, LevelGaussian)
    dense = Gaussian(prior.mean, prior.structure.dense(prior.precision, len(prior.mean)))
    x = rng.standard_normal((3, len(prior.mean)))
    np.testing.assert_allclose(prior.dot(x), dense.dot(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(prior.cov, dense.cov, atol=1e-12)
    np.testing.assert_allclose(prior.variance, dense.variance)
    np.testing.assert_allclose(prior.log_det_precision(), dense.log_det_precision())
    np.testing.assert_allclose(prior.coloured(prior.uncoloured(x)), dense.solve(x), rtol=1e-9, atol=1e-12)
    tempered = prior.structure.scaled(prior.precision, 4.0)
    np.testing.assert_allclose(prior.structure.dense(tempered, len(prior.mean)), 4.0 * dense.precision)
    assert prior.precision == LevelBlocks(*vars(prior.precision).values()) != tempered
    for kind in ("diagonal", "dense", "arrow"):
        q = block_of(kind, rng)
        np.testing.assert_allclose(q.kl(prior), q.kl(dense), rtol=1e-9)
    q = block_of("arrow", rng)
    np.testing.assert_allclose(prior.precision_like(q).dense(), dense.precision, atol=1e-12)
    posterior = prior.times(q.message_from_gradient((x[0], -0.5 * q.precision)))
    np.testing.assert_allclose(posterior.precision.dense(), dense.precision + q.precision.dense(), atol=1e-9)


@pytest.mark.parametrize("kind", ["diagonal", "dense", "arrow"])
def test_slopes_are_those_of_the_bound(kind, rng):
    model, q = model_of(), {"weights": block_of(kind, rng)}
    values = 0.5 * rng.standard_normal(LAYOUT.n_values)

    def bound(h):
        there = {**q, "group_std": Point(h)}
        return model.log_group_density(there) - q["weights"].kl(model.prior(there)["weights"])

    there = {**q, "group_std": Point(values)}
    slope = np.zeros_like(values)
    slope[: LAYOUT.n_scales] = model.group_slope(there)[0]
    for f, _, scales, z in LAYOUT.correlated_factors:
        own, bend = model.covariance_slope(f, there)
        slope[scales], slope[z] = np.split(own, [scales.stop - scales.start])
        assert np.linalg.eigvalsh(bend).min() > 0.0
    steps = 1e-5 * np.eye(len(values))
    expected = [(bound(values + step) - bound(values - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-6)


def test_steps_end_at_the_largest_log_evidence(rng):
    """Of a message of the data as it is: its evidence has no slope where steps stop, and is that of dense algebra."""
    model, size = model_of(), LAYOUT.starts[-1]
    A, noise = rng.standard_normal((80, size)), 0.7
    y = A @ (0.8 * rng.standard_normal(size)) + np.sqrt(noise) * rng.standard_normal(80)
    precision, linear = A.T @ A / noise, A.T @ y / noise
    q = {"group_std": Point(np.zeros(LAYOUT.n_values))}

    def settled(h):
        prior = model.prior({"group_std": Point(h)})["weights"]
        message = Gaussian(np.zeros(size), precision).message_from_gradient((linear, -0.5 * precision))
        return prior, prior.times(message)

    for _ in range(300):
        _, q["weights"] = settled(q["group_std"].value)
        step, _ = model._group_step(q)
        q["group_std"] = Point(q["group_std"].value + step)
    assert np.abs(step).max() < 1e-6

    def log_evidence(h):
        prior, _ = settled(h)
        total = A @ prior.cov @ A.T + noise * np.eye(80)
        there = {"group_std": Point(h)}
        return stats.multivariate_normal(np.zeros(80), total).logpdf(y) + model.log_group_density(there)

    at, steps = q["group_std"].value, 1e-4 * np.eye(LAYOUT.n_values)
    slopes = [(log_evidence(at + step) - log_evidence(at - step)) / 2e-4 for step in steps]
    np.testing.assert_allclose(slopes, 0.0, atol=2e-4)
    q["weights"] = settled(at)[1]
    density = LinearHyperposterior(model, q, log_evidence(at), 80.0)
    for h in at + 0.3 * rng.standard_normal((3, len(at))):
        np.testing.assert_allclose(density(h), log_evidence(h), rtol=1e-8)


def test_variance_of_new_levels_has_the_covariance(rng):
    from sksvi.models.mixed.levels import GroupedDesign

    layout = Groups((0, 8), (4,), (2,), correlated=True)
    covariance = layout.covariances(np.array([0.3, -0.5, 0.8]))
    x = rng.standard_normal(5)
    values = np.column_stack([np.ones(5), x])
    design = GroupedDesign(np.empty((5, 0)), np.array([[-1], [0], [-1], [3], [-1]], np.int32), (values,), (4,))
    model = model_of(layout).replaced(unseen=covariance)
    expected = np.einsum("ij,jk,ik->i", values, covariance[0], values) * (design.codes[:, 0] < 0)
    np.testing.assert_allclose(model.unseen_variance(design), expected)
