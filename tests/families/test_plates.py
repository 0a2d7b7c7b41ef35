"""Packed plates of Gaussians against Gaussians one by one."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi.families import DiagonalGaussian, Gaussian, GaussianPlates
from sksvi.families.gaussian.plates import packed, pairs, unpacked


def plates_of(seed, n=300, size=3, full=True):
    """Plates and their covariances; more than are unpacked at a time."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, size, size))
    cov = root @ np.swapaxes(root, 1, 2) / size + 0.1 * np.eye(size)
    cov = cov if full else cov * np.eye(size)
    values = packed(cov, True) if full else np.diagonal(cov, axis1=1, axis2=2).copy()
    return GaussianPlates(rng.standard_normal((n, size)), values, None, full), cov


@pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
def test_plates_are_gaussians(full, global_random_seed):
    block, cov = plates_of(global_random_seed, full=full)
    np.testing.assert_array_equal(block.cov, cov)
    np.testing.assert_allclose(block.variance, np.diagonal(cov, axis1=1, axis2=2))
    np.testing.assert_allclose(block.std, np.sqrt(block.variance))
    np.testing.assert_allclose(block.log_det, np.linalg.slogdet(cov)[1])
    one_prior = DiagonalGaussian(np.array([0.3, -0.2, 0.0]), np.array([0.5, 2.0, 1.0]))
    means = np.random.default_rng(global_random_seed).standard_normal(block.mean.shape)
    for prior in (one_prior, DiagonalGaussian(means, one_prior.precision)):
        by_plate = [
            Gaussian(m, np.linalg.inv(c)).kl(
                DiagonalGaussian(prior.mean if prior.mean.ndim == 1 else p, prior.precision)
            )
            for m, c, p in zip(block.mean, cov, means, strict=True)
        ]
        np.testing.assert_allclose(block.kl_by_plate(prior), by_plate, rtol=1e-9)
        assert block.kl(prior) == pytest.approx(np.sum(by_plate))
    again = GaussianPlates.of(block.natural_form())
    np.testing.assert_allclose(again.values, block.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(again.log_det, block.log_det, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(block.kl_by_plate(block.natural_form()), 0.0, atol=1e-9)


@pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
def test_parts_of_plates(full, global_random_seed):
    block, cov = plates_of(global_random_seed, full=full)
    np.testing.assert_array_equal(block[[5, 2]].cov, cov[[5, 2]])
    np.testing.assert_array_equal(block[7].mean, block.mean[7:8])
    both = block[:4].concatenated(block[4:])
    np.testing.assert_array_equal(both.values, block.values)
    copy = block.copy()
    copy.put(np.array([1, 3]), block[[8, 9]])
    np.testing.assert_array_equal(copy.cov[[1, 3]], cov[[8, 9]])
    np.testing.assert_array_equal(block.cov, cov)
    np.testing.assert_allclose(copy.log_det[[1, 3]], block.log_det[[8, 9]])
    first = block.leading(2)
    np.testing.assert_array_equal(first.cov, cov[:, :2, :2])
    np.testing.assert_allclose(first.log_det, np.linalg.slogdet(cov[:, :2, :2])[1])
    half = block.blended(block[::-1], 0.5)
    np.testing.assert_allclose(half.cov, 0.5 * (cov + cov[::-1]))
    np.testing.assert_allclose(half.log_det, np.linalg.slogdet(half.cov)[1])
    same = GaussianPlates.constant(block.mean, np.array([1.0, 2.0, 3.0]), full)
    np.testing.assert_allclose(same.cov, np.broadcast_to(np.diag([1.0, 2.0, 3.0]), cov.shape))
    np.testing.assert_allclose(same.log_det, np.log(6.0))


def test_turned_plates_are_those_of_the_turned_vectors(global_random_seed):
    block, cov = plates_of(global_random_seed)
    matrix = np.random.default_rng(global_random_seed).standard_normal((2, 2))
    whole = np.eye(3)
    whole[:2, :2] = matrix
    turned = block.copy()
    turned.turn(matrix)
    np.testing.assert_allclose(turned.mean, block.mean @ whole.T)
    np.testing.assert_allclose(turned.cov, whole @ cov @ whole.T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(turned.log_det, np.linalg.slogdet(turned.cov)[1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
def test_draws_have_the_moments(full, global_random_seed):
    block, cov = plates_of(global_random_seed, n=4, full=full)
    n = 20_000
    draws = block.sample(n, global_random_seed)
    gap = draws - block.mean
    assert draws.shape == (n, 4, 3)
    assert np.all(np.abs(gap.mean(0)) < 4.5 * block.std / np.sqrt(n))
    found = np.einsum("npi,npj->pij", gap, gap) / n
    error = np.sqrt((np.square(cov) + block.variance[:, :, None] * block.variance[:, None]) / n)
    assert np.all(np.abs(found - cov) < 4.5 * error)


@pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
def test_packing(full):
    values = np.arange(12.0).reshape(2, 6) if full else np.arange(6.0).reshape(2, 3)
    matrices = unpacked(values, 3, full)
    np.testing.assert_array_equal(packed(matrices, full), values)
    rows, cols, count = pairs(3, full)
    assert len(rows) == len(cols) == values.shape[1] and count.sum() == (9 if full else 3)
    assert not rows.flags.writeable
