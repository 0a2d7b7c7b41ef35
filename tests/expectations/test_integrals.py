"""Integrals by themselves, against dense ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate

from sksvi.integrals.quadrature import standard_deviation
from sksvi.integrals.race import LEVELS, contrasts, joint_softmax, points
from sksvi.integrals.rayleigh import log_exponential_moment


@pytest.mark.parametrize("k", [2, 3, 5])
def test_contrasts_are_an_orthonormal_basis_of_what_sums_to_zero(k):
    basis = contrasts(k)
    np.testing.assert_allclose(basis.T @ basis, np.eye(k - 1), atol=1e-14)
    np.testing.assert_allclose(basis.sum(0), 0.0, atol=1e-14)


@pytest.mark.parametrize(("n", "k"), [(n, k) for _, n in LEVELS for k in (1, 2, 4)])
def test_points_are_antithetic_and_white(n, k):
    z = points(n, k)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(k), atol=1e-10)
    np.testing.assert_array_equal(z[: n // 2], -z[n // 2 :])


def dense(m, cov):
    """The three expectations of one row by a grid of Gauss-Hermite nodes."""
    x, w = np.polynomial.hermite_e.hermegauss(40)
    grid = np.array(list(itertools.product(x, repeat=len(m))))
    weight = np.prod(list(itertools.product(w / w.sum(), repeat=len(m))), axis=1)
    f = m + grid @ np.linalg.cholesky(cov).T
    top = f.max(1, keepdims=True)
    p = np.exp(f - top)
    total = np.log(p.sum(1)) + top[:, 0]
    p /= p.sum(1, keepdims=True)
    return weight @ total, weight @ p, np.diag(weight @ p) - (weight[:, None] * p).T @ p


def rule_error(cov, k):
    """What the rule's fourth moments leave: |E_rule z⁴ - 3| v² / 24, and a fifth for higher ones.

    Points are white and antithetic, so that moments up to the third are exact; v is the largest variance of a contrast,
    and fourth derivatives along one are at most 1 (those of sigmoid'(√2 x) at 0).
    """
    inner = contrasts(k).T @ cov @ contrasts(k)
    n = next(size for high, size in LEVELS if np.diagonal(inner).max() <= high)
    angles = np.linspace(0.0, np.pi, 64)
    along = points(n, k - 1) @ (np.ones((1, 1)) if k == 2 else np.stack([np.cos(angles), np.sin(angles)]))
    return 1.2 * np.abs((along**4).mean(0) - 3.0).max() * np.linalg.eigvalsh(inner).max() ** 2 / 24.0


@pytest.mark.parametrize("scale", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("k", [2, 3])
def test_joint_softmax_against_a_dense_grid(k, scale, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    m = rng.uniform(-1.0, 1.0, (3, k))
    factor = rng.uniform(-0.3, 0.3, (3, k, k)) + np.eye(k)
    cov = scale * factor @ np.swapaxes(factor, 1, 2)
    total, p, bend = joint_softmax(m, cov)
    for row in range(3):
        wanted = dense(m[row], cov[row])
        for found, of in zip((total[row], p[row], bend[row]), wanted, strict=True):
            # Far beyond the reach of four moments 192 points err by a hundredth.
            error = {"rtol": 1e-2, "atol": 3e-3} if scale == 3.0 else {"rtol": 1e-9, "atol": rule_error(cov[row], k)}
            np.testing.assert_allclose(found, of, **error)
    again = joint_softmax(m, cov, hessian=False)
    np.testing.assert_array_equal(again[0], total)
    np.testing.assert_array_equal(again[1], p)
    assert again[2] is None


@pytest.mark.parametrize("t", [-3.0, -0.5, 0.0, 0.7, 5.0])
def test_exponential_moment_of_a_rayleigh_variable(t):
    moments = [integrate.quad(lambda r, k=k: r**k * r * np.exp(t * r - 0.5 * r * r), 0, 30)[0] for k in (0, 1)]
    value, slope = log_exponential_moment(t)
    assert value == pytest.approx(np.log(moments[0]), rel=1e-9, abs=1e-9)
    assert slope == pytest.approx(moments[1] / moments[0], rel=1e-7)


def test_the_first_variance_that_is_none_is_named():
    np.testing.assert_array_equal(standard_deviation(np.array([0.25, 0.0, 4.0])), [0.5, 0.0, 2.0])
    for bad in (-1e-9, np.inf, np.nan):
        with pytest.raises(ValueError, match="in row 2"):
            standard_deviation(np.array([0.5, 0.0, bad, 3.0, -1.0]))
