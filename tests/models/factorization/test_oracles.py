"""The oracles of matrix factorization against independent computations: finite differences, quadrature, brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import block_diag
from scipy.special import ndtr
from scipy.stats.qmc import MultivariateNormalQMC, Sobol

from tests.models.factorization.oracles import (
    SCALARS,
    Factors,
    annealed_evidence,
    expected,
    gaussian,
    joint_gaussian,
    kl_to_prior,
    latent_moments,
    learned_variance,
    lim_teh,
    logit,
    nakajima,
    surrogate_bound,
    surrogate_gradient,
    true_term,
)


def random_factors(rng, n: int, K: int, spread: float = 0.3) -> Factors:
    root = rng.normal(size=(n, K, K)) * spread / np.sqrt(K)
    return Factors(0.7 * rng.normal(size=(n, K)), root @ np.swapaxes(root, 1, 2) + 0.02 * np.eye(K))


def random_target(rng, name: str, n: int) -> np.ndarray:
    draw = {"gaussian": rng.normal(size=n), "logit": rng.integers(0, 2, n), "ordinal": rng.integers(0, 4, n)}
    return draw.get(name, rng.poisson(2.0, n)).astype(float)


def derivative(function, step: float = 1e-5) -> float:
    return (function(step) - function(-step)) / (2 * step)


@pytest.mark.parametrize("name", sorted(SCALARS))
def test_derivatives_of_the_likelihoods(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    scalar, y, f = SCALARS[name], random_target(rng, name, 20), rng.normal(size=20)
    for upper, lower in ((scalar.log_p, scalar.first), (scalar.first, scalar.second)):
        numeric = derivative(lambda h, part=upper: part(y, f + h))
        np.testing.assert_allclose(lower(y, f), numeric, rtol=1e-6, atol=1e-7)


def test_expected_is_exact_for_a_closed_form():
    np.testing.assert_allclose(expected(lambda y, f: np.exp(f), 0.0, 0.3, 0.5), np.exp(0.55), rtol=1e-12)
    np.testing.assert_allclose(expected(lambda y, f: ndtr(f), 0.0, 0.3, 0.5), ndtr(0.3 / np.sqrt(1.5)), rtol=1e-12)


def test_latent_moments_by_monte_carlo(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    users, items = random_factors(rng, 1, 3, 1.0), random_factors(rng, 1, 3, 1.0)
    # Points of a Sobol sequence: a tenth of the standard error of as many independent draws.
    n, both = 2**17, np.concatenate([users.mean[0], items.mean[0]])
    cov = block_diag(users.cov[0], items.cov[0])
    draws = MultivariateNormalQMC(both, cov, engine=Sobol(6, seed=rng), inv_transform=True).random(n)
    f = np.sum(draws[:, :3] * draws[:, 3:], axis=1)
    mean, variance = latent_moments(np.array([[0, 0]]), users, items)
    assert abs(f.mean() - mean[0]) < np.sqrt(variance[0] / n)
    square = (f - mean[0]) ** 2
    assert abs(square.mean() - variance[0]) < square.std() / np.sqrt(n)


def test_kl_to_prior_of_a_diagonal():
    side = Factors(np.array([[0.5, -1.0]]), np.diag([0.3, 2.0])[None])
    by_hand = sum(0.5 * ((v + m**2) / 1.7 - 1 + np.log(1.7 / v)) for m, v in zip(side.mean[0], (0.3, 2.0), strict=True))
    assert kl_to_prior(side, 1.7) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("name", sorted(SCALARS))
def test_gradient_of_the_surrogate_by_finite_differences(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    users, items = random_factors(rng, 3, 2), random_factors(rng, 2, 2)
    pairs = np.array([[0, 0], [1, 0], [2, 0], [0, 1], [2, 1], [2, 1]])
    y, scalar, offset = random_target(rng, name, len(pairs)), SCALARS[name], (rng.normal(size=6), 0.1)
    d, D = surrogate_gradient(scalar, pairs, y, users, items, offset)

    def at(mean_step, cov_step):
        moved = Factors(items.mean + mean_step, items.cov + cov_step)
        return expected(scalar.log_p, y, *latent_moments(pairs, users, moved, offset)).sum()

    for j in range(2):
        for a in range(2):
            e = np.zeros((2, 2))
            e[j, a] = 1
            assert d[j, a] == pytest.approx(derivative(lambda h, e=e: at(h * e, 0)), rel=1e-6, abs=1e-7)
            for b in range(2):
                E = np.zeros((2, 2, 2))
                E[j, a, b] += 0.5
                E[j, b, a] += 0.5
                assert D[j, a, b] == pytest.approx(derivative(lambda h, E=E: at(0, h * E)), rel=1e-6, abs=1e-7)


def test_the_bound_is_its_sum_less_the_divergences(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    users, items = random_factors(rng, 3, 2), random_factors(rng, 2, 2)
    pairs, y = np.array([[0, 0], [2, 1]]), np.array([0.3, -1.0])
    mean, variance = latent_moments(pairs, users, items)
    by_hand = -0.5 * np.sum(((y - mean) ** 2 + variance) / 0.7 + np.log(2 * np.pi * 0.7))
    by_hand -= kl_to_prior(users, 0.5) + kl_to_prior(items, 2.0)
    assert surrogate_bound(gaussian(0.7), pairs, y, users, items, 0.5, 2.0) == pytest.approx(by_hand, rel=1e-10)


@pytest.mark.parametrize("name", sorted(SCALARS))
def test_joint_gaussian_is_the_formula_of_its_moments(name, global_random_seed):
    """d and D in the one-dimensional integrals e_n = E[l' (f - m)^n], E_n = E[l'' (f - m)^n]."""
    rng = np.random.default_rng(global_random_seed)
    (mu, su), (mv, sv) = ((s.mean[0], s.cov[0]) for s in (random_factors(rng, 1, 3), random_factors(rng, 1, 3)))
    y, scalar = random_target(rng, name, 1)[0], SCALARS[name]
    m = mu @ mv + 0.2
    s = np.trace(su @ sv) + mu @ sv @ mu + mv @ su @ mv + 0.1
    k = su @ mv / s
    e = [expected(lambda y, f, n=n: scalar.first(y, f) * (f - m) ** n, y, m, s) for n in range(2)]
    E = [expected(lambda y, f, n=n: scalar.second(y, f) * (f - m) ** n, y, m, s) for n in range(3)]
    d, D = joint_gaussian(scalar, y, Factors(mu, su), Factors(mv, sv), (0.2, 0.1))
    np.testing.assert_allclose(d, e[0] * mu + e[1] * k, rtol=1e-9, atol=1e-12)
    by_hand = E[0] * (su + np.outer(mu, mu) - s * np.outer(k, k)) + E[1] * (np.outer(mu, k) + np.outer(k, mu))
    np.testing.assert_allclose(D, 0.5 * (by_hand + E[2] * np.outer(k, k)), rtol=1e-9, atol=1e-12)
    # Stein: e_1 = s E_0, so d is the surrogate's gradient
    gradient = surrogate_gradient(
        scalar, np.array([[0, 0]]), np.array([y]), Factors(mu[None], su[None]), Factors(mv[None], sv[None]), (0.2, 0.1)
    )[0]
    np.testing.assert_allclose(d, gradient[0], rtol=1e-7, atol=1e-9)
    assert np.linalg.eigvalsh(D)[-1] <= 1e-12


@pytest.mark.costly
@pytest.mark.parametrize("name", sorted(SCALARS))
def test_true_term_by_finite_differences(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    user, item = (Factors(s.mean[0], s.cov[0]) for s in (random_factors(rng, 1, 2), random_factors(rng, 1, 2)))
    y, scalar, offset = random_target(rng, name, 1)[0], SCALARS[name], (0.2, 0.1)
    _, d, D = true_term(scalar, y, user, item, offset)
    assert true_term(scalar, y, user, item, offset, step=10)[0] == pytest.approx(
        true_term(scalar, y, user, item, offset)[0], rel=1e-9
    )

    def at(mean_step, cov_step):
        return true_term(scalar, y, user, Factors(item.mean + mean_step, item.cov + cov_step), offset)[0]

    for a in range(2):
        e = np.eye(2)[a]
        assert d[a] == pytest.approx(derivative(lambda h, e=e: at(h * e, 0)), rel=1e-5, abs=1e-7)
    for E in (np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.array([[0.0, 1.0], [1.0, 0.0]])):
        assert np.sum(D * E) == pytest.approx(derivative(lambda h, E=E: at(0, h * E)), rel=1e-5, abs=1e-7)


def test_true_term_is_the_joint_gaussian_s_for_a_gaussian_likelihood(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    user, item = (Factors(s.mean[0], s.cov[0]) for s in (random_factors(rng, 1, 2), random_factors(rng, 1, 2)))
    _, d, D = true_term(gaussian(0.7), 0.8, user, item)
    first, second = joint_gaussian(gaussian(0.7), 0.8, user, item)
    moment = user.cov + np.outer(user.mean, user.mean)
    np.testing.assert_allclose(d, (0.8 * user.mean - moment @ item.mean) / 0.7, rtol=1e-9)
    np.testing.assert_allclose(D, -moment / 1.4, rtol=1e-9)
    np.testing.assert_allclose(first, d, rtol=1e-9)
    np.testing.assert_allclose(second, D, rtol=1e-9)


def test_lim_teh_rises_to_a_stationary_point(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    pairs = np.argwhere(rng.random((9, 7)) < 0.8)
    y = 2 * np.sum(rng.normal(size=(9, 2))[pairs[:, 0]] * rng.normal(size=(7, 2))[pairs[:, 1]], axis=1)
    y += rng.normal(size=len(y))
    start = random_factors(rng, 7, 2)
    users, items, noise, variances, bounds = lim_teh(pairs, y, start, 9, noise=0.5, sweeps=200, learn=True)
    assert np.all(np.diff(bounds) > -1e-9 * np.abs(bounds[1:]))
    assert learned_variance(users) == pytest.approx(variances[0])
    for side in range(2):
        moved = np.array(variances)
        moved[side] *= 1.05
        assert surrogate_bound(gaussian(noise), pairs, y, users, items, *moved) < bounds[-1]
    assert surrogate_bound(gaussian(1.05 * noise), pairs, y, users, items, *variances) < bounds[-1]
    # the items moved last: their gradient with the prior's is 0
    users, items, *_ = lim_teh(pairs, y, items, 9, noise=noise, variances=variances, sweeps=1)
    d, D = surrogate_gradient(gaussian(noise), pairs, y, users, items)
    np.testing.assert_allclose(d, items.mean / variances[1], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(np.linalg.inv(items.cov), np.eye(2) / variances[1] - 2 * D, rtol=1e-8, atol=1e-9)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("L", "M"), [(6, 9), *(pytest.param(*size, marks=pytest.mark.exhaustive) for size in ((12, 8), (7, 7)))]
)
def test_analytic_solution_is_the_best_of_coordinate_ascent(L, M, global_random_seed):
    """Nakajima et al.: one component kept, one pruned; the same bound and product as the best of several ascents."""
    rng = np.random.default_rng(global_random_seed)
    left, right = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (L, M))
    Y = left * np.array([9.0, 5.0, 1.5]) @ right.T
    noise, variances, K = 0.6, (0.8, 1.3), 3
    pairs = np.argwhere(np.ones((L, M)))
    users, items = nakajima(Y, K, noise, *variances)
    best = surrogate_bound(gaussian(noise), pairs, Y.ravel(), users, items, *variances)
    for seed in range(3):
        start = random_factors(np.random.default_rng(seed), M, K)
        a, b, _, _, bounds = lim_teh(pairs, Y.ravel(), start, L, noise=noise, variances=variances, sweeps=300)
        assert bounds[-1] <= best + 1e-8 * abs(best)
    assert bounds[-1] == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(a.mean @ b.mean.T, users.mean @ items.mean.T, atol=2e-3)
    eigenvalues = np.linalg.eigvalsh(a.cov[0])
    np.testing.assert_allclose(eigenvalues, np.sort(np.diag(users.cov[0])), rtol=2e-3)
    assert np.count_nonzero(np.abs(users.mean).max(axis=0)) == 2  # 1.5 is below the threshold
    # a fixed point of both updates, pruned component and all
    again = lim_teh(pairs, Y.ravel(), items, L, noise=noise, variances=variances, sweeps=1)
    np.testing.assert_allclose(again[0].cov, users.cov, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(again[0].mean, users.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(again[1].cov, items.cov, rtol=1e-9, atol=1e-12)


def test_analytic_solution_with_more_components_than_columns():
    users, items = nakajima(np.outer([3.0, 1.0], [2.0, 1.0, 1.0]), 4, 0.3)
    assert users.mean.shape == (2, 4) and items.cov.shape == (3, 4, 4)
    assert np.count_nonzero(np.abs(users.mean).max(axis=0)) == 1


@pytest.mark.parametrize("name", ["gaussian", "logit"])
def test_annealed_evidence_of_one_column(name, global_random_seed):
    """One item: its rows are independent given |v|, so that the evidence is an integral over one radius (K = 2)."""
    scalar, offset = {"gaussian": (gaussian(0.7), 0.0), "logit": (logit(), 0.8)}[name]
    y = np.array([1.5, -0.4, 2.0]) if name == "gaussian" else np.array([1.0, 0.0, 0.0])

    def density(r):
        rows = expected(lambda y, f: np.exp(scalar.log_p(y, f)), y, np.full(3, offset), np.full(3, 1.2 * r**2))
        return r * np.exp(-0.5 * r**2) * np.prod(rows)

    exact = np.log(quad(density, 0, 10, epsabs=1e-12)[0])
    pairs = np.column_stack([np.arange(3), np.zeros(3, int)])
    estimate, error = annealed_evidence(
        scalar, pairs, y, 3, 1, 2, user_variance=1.2, offset=offset, chains=400, steps=100, seed=global_random_seed
    )
    assert error < 0.05
    assert abs(estimate - exact) < 4 * error


@pytest.mark.costly
@pytest.mark.parametrize("name", ["gaussian", pytest.param("logit", marks=pytest.mark.exhaustive)])
def test_annealed_evidence_of_ten_by_ten_repeats(name, global_random_seed):
    """Runs agree within their errors, and the best bound of the Gaussian stays below."""
    rng = np.random.default_rng(global_random_seed)
    pairs = np.argwhere(np.ones((10, 10)))
    f = rng.normal(size=(10, 2)) @ rng.normal(size=(2, 10))
    y = f.ravel() + np.sqrt(0.5) * rng.normal(size=100)
    y, scalar = (y, gaussian(0.5)) if name == "gaussian" else ((y > 0).astype(float), logit())
    runs = [annealed_evidence(scalar, pairs, y, 10, 10, 2, chains=80, steps=150, seed=seed) for seed in range(3)]
    estimates, errors = np.array(runs).T
    assert np.median(errors) < 1.0  # of few chains one may have most of the weight
    for i in range(3):
        assert abs(estimates[i] - estimates[i - 1]) < 4 * np.hypot(errors[i], errors[i - 1])
    if name == "gaussian":
        users, items = nakajima(y.reshape(10, 10), 2, 0.5)
        assert surrogate_bound(scalar, pairs, y, users, items) < estimates.mean() + 4 * errors.max()
