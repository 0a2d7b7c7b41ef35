"""Covariances of activations by linear response: against tilted fixed points, and against the exact posterior."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import digamma

from sksvi.models.nmf.rows import covariances

SHAPE = 0.7


def row(seed, K=3, F=12, mean=4.0):
    """Counts of a row, components (F, K), and the rate that all cells together make."""
    rng = np.random.default_rng(seed)
    W = rng.gamma(1.0, 1.0, (F, K)) + 0.05
    y = rng.poisson(W @ rng.gamma(2.0, mean / (2.0 * K), K)).astype(float)
    y[0] += 1.0
    return y, W, 0.5 + W.sum(0)


def fixed_point(y, W, rate):
    """Shape of q(H) where coordinate ascent ends."""
    shape = np.full(len(rate), SHAPE + y.sum() / len(rate))
    for _ in range(50_000):
        shares = W * np.exp(digamma(shape)) / rate
        new = SHAPE + y @ (shares / shares.sum(1, keepdims=True))
        if np.abs(new - shape).max() < 1e-13 * new.max():
            break
        shape = new
    return new


def test_they_are_how_means_follow_a_tilt(global_random_seed):
    y, W, rate = row(global_random_seed)
    shape, step = fixed_point(y, W, rate), 1e-4 * rate.min()
    found = covariances(sp.csr_matrix(y), np.log(W), shape[None], rate[None])[0]
    for k, unit in enumerate(np.eye(3)):
        ends = [fixed_point(y, W, rate - t * unit) / (rate - t * unit) for t in (step, -step)]
        np.testing.assert_allclose(found[k], (ends[0] - ends[1]) / (2.0 * step), rtol=1e-4, atol=1e-6 * found.max())


def test_they_are_nearer_to_the_posterior_than_independence(global_random_seed):
    """Two components, whose posterior a grid holds."""
    errors = []
    for seed in range(6):
        y, W, rate = row([global_random_seed, seed], K=2, mean=20.0)
        shape = fixed_point(y, W, rate)
        found = covariances(sp.csr_matrix(y), np.log(W), shape[None], rate[None])[0]
        grid = np.linspace(1e-4, 2.5 * y.sum() / W.sum(0).min(), 350)
        H = np.stack([part.ravel() for part in np.meshgrid(grid, grid)], 1)
        log_p = np.log(H @ W.T) @ y - H @ rate + (SHAPE - 1.0) * np.log(H).sum(1)
        p = np.exp(log_p - log_p.max())
        exact = np.cov(H.T, aweights=p, ddof=0)
        errors.append([np.abs(C - exact).max() / exact.max() for C in (found, np.diag(shape / rate**2))])
    response, independent = np.mean(errors, 0)
    assert response < 0.5 * independent


def test_they_are_covariances_wherever_rows_end(global_random_seed):
    """No count, counts of 1e9, two components that are the same, shapes as small as a prior's: finite and definite."""
    rng = np.random.default_rng(global_random_seed)
    counts = sp.csr_matrix(np.stack([np.zeros(6), rng.poisson(3.0, 6), np.full(6, 1e9), np.eye(6)[2]]).astype(float))
    logs = np.log(rng.gamma(1.0, 1.0, (6, 4)) + 1e-3)
    logs[:, 1] = logs[:, 0]
    shape = 1e-3 + np.asarray(counts.sum(1)) * np.array([[0.5, 0.5, 0.0, 0.0]])
    found = covariances(counts, logs, shape, np.ones((4, 4)))
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found[0], np.diag(shape[0]))
    for C in found:
        scale = np.sqrt(np.diagonal(C))
        assert np.linalg.eigvalsh(C / scale / scale[:, None]).min() > -1e-9
