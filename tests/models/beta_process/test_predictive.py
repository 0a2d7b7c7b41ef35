"""Moments of a row's entries given the factors that it uses: against matrices written out."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi.models.beta_process.loops.predictive import given_use


@pytest.mark.parametrize("expectations", [False, True])
def test_moments_given_use_are_those_of_the_gaussian_weights(global_random_seed, expectations):
    rng = np.random.default_rng(global_random_seed)
    kept, n, K, D, precision = 3, 5, 7, 6, 0.7
    omega = rng.standard_normal((kept, n, K)) * (rng.random((kept, n, K)) < 0.4)
    seen = rng.random((n, D)) < 0.6
    y, phi = np.where(seen, rng.standard_normal((n, D)), 0.0), rng.standard_normal((K, D))
    spread = rng.random((K, D)) if expectations else np.empty((0, D))
    mean, second = np.zeros((n, D)), np.zeros((n, D))
    given_use(omega, y, seen, phi, spread, precision, mean, second)

    wanted = np.zeros((2, n, D))
    for i in range(n):
        for z in omega[:, i] != 0.0:
            own, loose = phi[z], spread[z] if expectations else np.zeros((z.sum(), D))
            matrix = precision * np.eye(z.sum()) + own[:, seen[i]] @ own[:, seen[i]].T
            covariance = np.linalg.inv(matrix + np.diag(loose[:, seen[i]].sum(1)))
            weight = covariance @ own[:, seen[i]] @ y[i, seen[i]]
            square = np.square(weight @ own) + np.einsum("ad,ab,bd->d", own, covariance, own)
            square += (np.square(weight) + covariance.diagonal()) @ loose
            wanted[:, i] += np.stack([weight @ own, square]) / kept
    np.testing.assert_allclose([mean, second], wanted, rtol=1e-10, atol=1e-12)
