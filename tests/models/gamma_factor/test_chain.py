"""Conditional draws of loadings and noise: what changes along one number, turns, and the joint distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import polygamma, psi

from sksvi.families import Gamma, Point
from sksvi.models.gamma_factor.chain import LoadingChain, LoadingPoint, draws_of
from sksvi.models.gamma_factor.chain_loops import _along, entries, turns
from sksvi.models.gamma_factor.density import Scatter, log_density, scatter_of
from sksvi.models.gamma_factor.model import GammaFactors

K, D = 3, 4


def matrices(L, noise, data):
    """What entries keep beside loadings and noise."""
    scaled = L / noise
    cross = scaled @ data.products
    return np.linalg.inv(np.eye(len(L)) + scaled @ L.T), cross, cross @ scaled.T


@pytest.mark.parametrize("noise_scale", [1.0, 1e-3])
def test_the_density_along_one_number_is_that_of_all(noise_scale, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    L, noise = rng.gamma(1.0, 1.0, (K, D)), noise_scale * rng.uniform(0.3, 0.6, D)
    X = rng.standard_normal((30, K)) @ L + np.sqrt(noise) * rng.standard_normal((30, D))
    data, slopes = scatter_of(X, True, 1), np.empty(4)
    here, at = log_density(L, noise, data).value, (L, noise, data.products, *matrices(L, noise, data))
    for k, d, change in ((0, 0, -0.9 * L[0, 0]), (1, 2, 0.4), (2, 3, 2.0)):
        p, t = _along(k, d, at, np.empty(K), np.empty(K), slopes)
        moved, other = L.copy(), noise.copy()
        moved[k, d] += change
        other[d] += abs(change)
        divisor = 1.0 + change * (slopes[0] + change * slopes[1])
        ratio = change * (slopes[2] + change * slopes[3]) / divisor
        there = here - 0.5 * (data.freedom * np.log(divisor) - ratio)
        assert there == pytest.approx(log_density(moved, noise, data).value, rel=1e-7)
        change = abs(change)
        there = here - 0.5 * (data.freedom * np.log1p(change * p) - change * t / (1.0 + change * p))
        assert there == pytest.approx(log_density(L, other, data).value, rel=1e-7)
    entries(L, noise, np.full(D, 1e-6), at[2], data.freedom, np.ones((K, D)), np.ones(2), *at[3:], 5)
    for kept, anew in zip(at[3:], matrices(L, noise, data), strict=True):
        np.testing.assert_allclose(kept, anew, rtol=1e-6, atol=1e-8 * np.abs(anew).max())


def model_of(rng, n, learned=False):
    """A model without means, loadings from its prior, and the scatter of rows."""
    noise = None if learned else np.full(D, 0.5)
    model = GammaFactors(2, D, noise=noise, noise_floor=np.full(D, 1e-4), prior_shape=0.7, prior_rate=1.5)
    L = rng.gamma(0.7, 1.0 / 1.5, (2, D))
    X = rng.standard_normal((n, 2)) @ L + np.sqrt(0.5) * rng.standard_normal((n, D))
    return model, L, scatter_of(X, False, 1)


def test_a_sweep_leaves_the_joint_distribution_as_it_is(global_random_seed):
    """Drawn from the prior, with rows given them, loadings are so distributed after a sweep as before."""
    rng, gaps = np.random.default_rng(global_random_seed), []
    for _ in range(2000):
        model, L, data = model_of(rng, 6)
        before = LoadingPoint(L, model.noise)
        after = LoadingChain(model, {"loadings": model._prior}, data).sweep(before, rng, 0)
        gaps.append(functionals(after.loadings, data) - functionals(L, data))
    z = np.mean(gaps, axis=0) / (np.std(gaps, axis=0) / np.sqrt(len(gaps)))
    assert np.all(np.abs(z) < 4.0), z


def functionals(L, data):
    """Bounded functions of a draw, alone and with the rows."""
    both = L.T @ L
    return np.concatenate([np.arctan(L).ravel(), np.arctan(both * data.products)[0], np.arctan(np.log(L[:, 1]))])


def test_without_data_loadings_have_their_prior(global_random_seed):
    model = GammaFactors(2, D, noise=np.full(D, 0.3), prior_shape=0.5, prior_rate=2.0)
    data = Scatter(1.0, np.zeros(D), np.zeros((D, D)), True)
    logs = np.log(draws_of(LoadingChain(model, {"loadings": model._prior}, data), global_random_seed)[0])
    n = logs.size / 4  # neighbours of a chain of slices are alike
    assert abs(logs.mean() - psi(0.5) + np.log(2.0)) < 4 * np.sqrt(polygamma(1, 0.5) / n)
    assert logs.std() == pytest.approx(np.sqrt(polygamma(1, 0.5)), rel=0.15)


@pytest.mark.parametrize("noise_size", [1, D])
def test_noise_without_factors_is_inverse_gamma(noise_size, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    model = GammaFactors(1, D, noise_size=noise_size, noise_floor=np.full(D, 1e-9), prior_rate=1e9)
    data = scatter_of(np.sqrt(2.0) * rng.standard_normal((20, D)), False, 1)
    q = {"loadings": Gamma(np.ones((1, D)), np.full((1, D), 1e9)), "noise": Point(np.zeros(noise_size))}
    precision = 1.0 / draws_of(LoadingChain(model, q, data), global_random_seed)[1].astype(float)
    squares = model.shared(np.diag(data.products))
    # Flat in the standard deviation: ψ^(-(n m + 1)/2) exp(-squares/2ψ) of m columns.
    exact = Gamma(np.full(noise_size, 0.5 * (20 * D / noise_size - 1.0)), 0.5 * squares)
    error = np.sqrt(exact.variance / 100)  # draws of a slice are worth a quarter or so
    assert np.all(np.abs(precision[:, :noise_size].mean(0) - exact.mean) < 4 * error)
    np.testing.assert_allclose(precision[:, :noise_size].std(0), exact.std, rtol=0.3)


# ---- turns
def test_turns_leave_the_covariance_as_it_is(global_random_seed):
    before = np.random.default_rng(global_random_seed).gamma(1.0, 1.0, (K, D))
    after = before.copy()
    turns(after, np.array([0.5, 2.0]), global_random_seed)
    assert np.all(after >= 0) and np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(after.T @ after, before.T @ before, rtol=1e-9)


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0])
def test_turns_are_as_far_as_the_prior_and_signs_let_them(shape, global_random_seed):
    """Beside the posterior of the angle, one number, by quadrature; draws begin at one place."""
    first, rate, number = np.array([[1.0, 0.3, 0.6], [0.2, 1.1, 0.5]]), 2.0, 2000
    radius, angles = np.hypot(*first), np.arctan2(first[1], first[0])
    low, high = -angles.min(), 0.5 * np.pi - angles.max()
    # The ends have poles for shapes below 1: a grid in an arcsine is dense there.
    grid = low + (high - low) * np.sin(np.linspace(0.0, 0.5 * np.pi, 100_002)[1:-1]) ** 2
    moved = angles + grid[:, None]
    both = radius * np.stack([np.cos(moved), np.sin(moved)])
    log = ((shape - 1.0) * np.log(both) - rate * both).sum((0, 2)) + 0.5 * np.log((grid - low) * (high - grid))
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    mean = weight @ grid
    std = np.sqrt(weight @ np.square(grid - mean))
    found = np.empty(number)
    for i in range(number):
        L = first.copy()
        for sweep in range(6):  # that forget where they began
            turns(L, np.array([shape, rate]), 1_000_003 * global_random_seed + 10 * i + sweep)
        found[i] = np.arctan2(L[1, 0], L[0, 0]) - angles[0]
    assert abs(found.mean() - mean) < 4 * std / np.sqrt(number) + 0.02 * std
    assert found.std() == pytest.approx(std, rel=4 / np.sqrt(2 * number) + 0.02)
