"""Data of the gamma factor model's benchmarks, and how its fits are scored."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder

NOISE = 0.1


def cytof(seed: int = 0) -> tuple[Array, Array]:
    """30 markers of single cells, arcsinh(x / 5); 57.4 % for training as in the paper, z-scored by them."""
    X = np.arcsinh(np.load(data_folder() / "genomics" / "cytof_pbmc_helios.npz")["X"].astype(float) / 5)
    order = np.random.default_rng(seed).permutation(len(X))
    n = int(0.574 * len(X))
    train, test = X[order[:n]], X[order[n:]]
    mean, std = train.mean(0), train.std(0)
    return (train - mean) / std, (test - mean) / std


def synthetic(n: int, seed: int = 0, d: int = 50, k: int = 10, n_test: int = 5000) -> tuple[Array, Array, Array]:
    """Knowles' artificial data: loadings (d, k) uniform on [0, 1], a fifth of them not zero, noise variance 0.1."""
    rng = np.random.default_rng(seed)
    loadings = (rng.random((d, k)) < 0.2) * rng.random((d, k))

    def draw(m: int) -> Array:
        return rng.standard_normal((m, k)) @ loadings.T + np.sqrt(NOISE) * rng.standard_normal((m, d))

    return draw(n), draw(n_test), loadings


def gaussian_nll(Y: Array, covariance: Array) -> Array:
    """-log N(y | 0, covariance) of each row."""
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, Y.T)
    return 0.5 * np.square(white).sum(0) + np.log(np.diag(factor)).sum() + 0.5 * len(factor) * np.log(2 * np.pi)


def averaged_nll(Y: Array, loadings: Any, n_draws: int, seed: int = 0) -> float:
    """Mean of -log (1/S) Σ_s N(y | 0, Λ_s Λ_sᵀ + σ²) over rows, draws from q (K, D): the paper's score."""
    draws = loadings.sample(n_draws, seed)
    noise = NOISE * np.eye(draws.shape[-1])
    each = np.stack([-gaussian_nll(Y, L.T @ L + noise) for L in draws])
    return float(-np.mean(logsumexp(each, axis=0) - np.log(n_draws)))
