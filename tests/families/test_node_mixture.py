"""Gaussians under the prior of every node: blocks by dense algebra, and moments of their mixture against draws."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi.families import DiagonalGaussian, Gaussian
from sksvi.families.gaussian.arrow import ArrowGaussian, ArrowMatrix
from sksvi.families.gaussian.mixture import MixedGaussian, NodeBlocks
from tests.chance import errors_allowed

P, LEVELS = 6, 4
WEIGHTS = np.array([0.2, 0.5, 0.3])
SHARES = np.array([1.0, 1.0, 0.4])


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def information(kind, rng):
    """What rows say: a precision in the structure that is asked for."""
    rows = rng.standard_normal((40, P))
    if kind == "arrow":
        rows[:, :LEVELS] *= rng.integers(0, LEVELS, 40)[:, None] == np.arange(LEVELS)
    gram = rows.T @ rows
    return np.diag(np.diag(gram)) if kind == "diagonal" else gram


def fitted(kind, rng):
    """A block, the mean and precision of its prior, and prior times message at other priors, densely."""
    gram, slope = information(kind, rng), 5.0 * rng.standard_normal(P)
    prior_mean, precision = rng.standard_normal(P), rng.uniform(0.5, 2.0, P)
    precisions = np.stack([precision, *rng.uniform(0.01, 20.0, (2, P))])

    def dense(prior, share):
        total = np.diag(prior) + share * gram
        return np.linalg.solve(total, prior * prior_mean + share * slope), total

    mean, total = dense(precision, 1.0)
    if kind == "arrow":
        block = ArrowGaussian(mean, ArrowMatrix.of_dense(total, LEVELS, 1, 0))
    else:
        block = Gaussian(mean, total) if kind == "dense" else DiagonalGaussian(mean, np.diag(total).copy())
    wanted = [dense(prior, share) for prior, share in zip(precisions, SHARES, strict=True)]
    return NodeBlocks(block, prior_mean, precision, precisions, SHARES, WEIGHTS), wanted


@pytest.mark.parametrize("kind", ["dense", "arrow", "diagonal"])
def test_blocks_are_prior_times_message(kind, rng):
    nodes, wanted = fitted(kind, rng)
    assert nodes.blocks[0] is nodes.block  # the fit itself is a node
    for block, (mean, precision) in zip(nodes.blocks, wanted, strict=True):
        assert type(block) is type(nodes.block)
        np.testing.assert_allclose(block.mean, mean, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(block.cov, np.linalg.inv(precision), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(block.structure.dense(block.precision, P), precision, rtol=1e-10, atol=1e-10)


def test_the_block_is_made_anew_where_data_weigh_another_share(rng):
    nodes, _ = fitted("dense", rng)
    same = NodeBlocks(
        nodes.block, nodes.prior_mean, nodes.precision, nodes.precision[None], np.full(1, 0.5), np.ones(1)
    )
    assert same.blocks[0] is not nodes.block
    known = nodes.block.precision - np.diag(nodes.precision)
    np.testing.assert_allclose(same.blocks[0].precision, np.diag(nodes.precision) + 0.5 * known)


def test_without_data_blocks_are_priors(rng):
    precision, prior_mean = rng.uniform(0.5, 2.0, (2, P)), rng.standard_normal(P)
    fit = Gaussian(prior_mean, np.diag(precision[0]))
    block = NodeBlocks(fit, prior_mean, precision[0], precision[1:], np.ones(1), np.ones(1)).blocks[0]
    np.testing.assert_allclose(block.mean, prior_mean)
    np.testing.assert_allclose(block.variance, 1.0 / precision[1])


@pytest.mark.parametrize("kind", ["dense", "arrow", "diagonal"])
def test_moments_of_the_mixture(kind, rng):
    nodes, wanted = fitted(kind, rng)
    found = MixedGaussian(nodes.blocks, WEIGHTS)
    mean = WEIGHTS @ np.array([m for m, _ in wanted])
    seconds = [np.linalg.inv(S) + np.outer(m - mean, m - mean) for m, S in wanted]
    cov = np.tensordot(WEIGHTS, seconds, 1)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found.cov, cov, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(found.variance, np.diag(cov), rtol=1e-8)
    np.testing.assert_allclose(found.std, np.sqrt(np.diag(cov)), rtol=1e-8)
    rows = rng.standard_normal((5, P))
    np.testing.assert_allclose(found.spread(rows), np.einsum("np,pq,nq->n", rows, cov, rows), rtol=1e-8)


@pytest.mark.parametrize("kind", ["dense", "arrow", "diagonal"])
def test_draws_have_these_moments(kind, rng, global_random_seed):
    nodes, _ = fitted(kind, rng)
    found, n = MixedGaussian(nodes.blocks, WEIGHTS), 20_000
    draws = found.sample(n, random_state=global_random_seed)
    assert draws.shape == (n, P)
    off = draws - found.mean
    allowed = errors_allowed(P + P * (P + 1) // 2) / np.sqrt(n)
    assert np.all(np.abs(off.mean(0)) <= allowed * draws.std(0))
    products = off[:, :, None] * off[:, None, :]
    assert np.all(np.abs(products.mean(0) - found.cov) <= allowed * products.std(0) + 1e-12)
    np.testing.assert_array_equal(draws, found.sample(n, random_state=global_random_seed))


def test_plates_are_mixed_by_themselves(rng):
    roots = rng.standard_normal((2, 3, P, P))
    means, precisions = rng.standard_normal((2, 3, P)), roots @ np.swapaxes(roots, -1, -2) + np.eye(P)
    parts = [Gaussian(m, S) for m, S in zip(means, precisions, strict=True)]
    found = MixedGaussian(parts, np.array([0.3, 0.7]))
    assert found.cov.shape == (3, P, P)
    for k in range(3):
        own = MixedGaussian([Gaussian(m[k], S[k]) for m, S in zip(means, precisions, strict=True)], found.weights)
        np.testing.assert_allclose(found.mean[k], own.mean)
        np.testing.assert_allclose(found.cov[k], own.cov, rtol=1e-9, atol=1e-12)
    assert found.sample(4, random_state=0).shape == (4, 3, P)
