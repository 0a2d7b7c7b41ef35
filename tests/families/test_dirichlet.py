"""Blocks of topic models: Dirichlet topics, topics as points, and the population of log odds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import dirichlet, multivariate_normal

from sksvi.algorithms.steps import natural_step
from sksvi.families import Beta, Dirichlet, NotPositiveDefinite, Population, Simplex
from sksvi.testing import check_family


def population(width, seed, n=7.0):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((width, width + 2))
    return Population.of(n, rng.standard_normal(width), factor @ factor.T)


@pytest.mark.parametrize("shape", [(3,), (2, 4), (5, 1)], ids=str)
def test_dirichlet(shape, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    check_family(Dirichlet(rng.uniform(0.5, 5.0, shape)), Dirichlet(np.full(shape, 0.7)), seed=global_random_seed)


@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 3, 2)], ids=str)
def test_beta_of_any_shape(shape, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    q, prior = Beta(*rng.uniform(0.5, 5.0, (2, *shape))), Beta(np.full(shape, 0.7), np.full(shape, 1.3))
    check_family(q, prior, seed=global_random_seed)
    assert q.mean.shape == q.std.shape == shape and q.sample(3, 0).shape == (3, *shape)
    twin = Dirichlet(np.stack([q.a, q.b], -1))
    np.testing.assert_allclose(q.kl(prior), twin.kl(Dirichlet(np.stack([prior.a, prior.b], -1))), rtol=1e-12)


def test_logarithms_of_draws(global_random_seed):
    """What a draw's probabilities are, also where they are no number but 0 or 1."""
    rng = np.random.default_rng(global_random_seed)
    for q in (Dirichlet(rng.uniform(0.5, 3.0, (4, 3))), Beta(*rng.uniform(0.5, 3.0, (2, 4, 3)))):
        draw = q.drawn(rng)
        np.testing.assert_allclose(q.log_values(draw), q.statistics(draw.value), rtol=1e-9)
    for q in (Dirichlet(np.full((50, 3), 1e-3)), Beta(np.full(50, 1e-3), np.full(50, 1e-3))):
        logs = q.log_values(q.drawn(rng))
        assert np.all(np.isfinite(logs)) and logs.min() < -100.0
        np.testing.assert_allclose(np.logaddexp.reduce(logs, axis=-1), 0.0, atol=1e-12)


@pytest.mark.parametrize("shape", [(3,), (2, 4)], ids=str)
def test_simplex(shape, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    check_family(Simplex(rng.uniform(0.5, 5.0, shape)), Simplex(np.full(shape, 0.7)), seed=global_random_seed)


@pytest.mark.parametrize("width", [1, 3])
def test_population(width, global_random_seed):
    prior = population(width, global_random_seed + 1, 3.0)
    check_family(population(width, global_random_seed), prior, seed=global_random_seed)


def test_divergence_of_dirichlets_against_draws(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    a, b = rng.uniform(0.5, 5.0, (2, 4))
    draws = dirichlet(a).rvs(20000, random_state=global_random_seed).T
    log_ratio = dirichlet(a).logpdf(draws) - dirichlet(b).logpdf(draws)
    assert abs(log_ratio.mean() - Dirichlet(a).kl(Dirichlet(b))) <= 4 * log_ratio.std() / np.sqrt(20000)


@pytest.mark.parametrize("block", ["dirichlet", "simplex", "population"])
def test_standard_gradient_against_differences(block, global_random_seed):
    """The gradient of a bound that is linear in the moments, KL included, in every coordinate."""
    rng = np.random.default_rng(global_random_seed)
    if block == "population":
        q, prior = population(3, global_random_seed), population(3, global_random_seed + 1, 2.0)
        gradient = (population(3, global_random_seed + 2).sums,)
    else:
        cls = Dirichlet if block == "dirichlet" else Simplex
        q, prior = cls(rng.uniform(0.5, 5.0, (2, 4))), cls(np.full((2, 4), 0.7))
        gradient = (rng.uniform(0.0, 3.0, (2, 4)),)

    def bound(values):
        at = q.at(values)
        return np.sum(gradient[0] * at.moments) - at.kl(prior)

    here = q.standard_values
    found = q.standard_gradient(prior, gradient)
    step = 1e-5 * rng.standard_normal(here.shape)
    difference = bound(here + step) - bound(here - step)
    assert np.sum(found * 2 * step) == pytest.approx(difference, rel=1e-6, abs=1e-9)


def test_draws_of_small_concentrations_have_finite_logarithms(global_random_seed):
    q = Dirichlet(np.full((3, 50), 1e-3))
    assert np.all(np.isfinite(q.log_gammas(np.random.default_rng(global_random_seed))))
    np.testing.assert_allclose(q.sample(5, global_random_seed).sum(-1), 1.0)


def test_population_is_the_mode_of_its_members(global_random_seed):
    """E log N over members is linear in the moments and largest at the block's own mean and covariance."""
    rng = np.random.default_rng(global_random_seed)
    members = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 2)) + 1.0
    ahead = np.column_stack([np.ones(30), members])
    block = Population(ahead.T @ ahead)
    np.testing.assert_allclose(block.location, members.mean(0))
    np.testing.assert_allclose(block.scale, np.cov(members.T, ddof=0))
    logs = multivariate_normal(block.location, block.scale).logpdf(members).sum()
    assert np.sum(block.sums * block.moments) - 30 * np.log(2 * np.pi) == pytest.approx(logs)
    step = natural_step(population(2, global_random_seed), Population(np.zeros((3, 3))), (block.sums,), 1.0)
    np.testing.assert_allclose(step.scale, block.scale)


def test_impossible_parameters_are_refused():
    for make in (
        lambda: Dirichlet(np.array([1.0, 0.0])),
        lambda: Dirichlet(np.array([1.0, np.nan])),
        lambda: Simplex(np.array([1.0, -1.0])),
        lambda: Population.of(1.0, np.zeros(2), np.zeros((2, 2))).root,
        lambda: population(2, 0).replace([-np.eye(3)]),
    ):
        with pytest.raises(NotPositiveDefinite):
            make()


@pytest.mark.parametrize("count, most", [(0.2, 0.05), (1.0, 0.03), (5.0, 0.01)])
def test_raised_counts_are_hardly_too_large(count, most, global_random_seed):
    """E V n = n; raised to -0.9 of the prior's they are too many, by a share that falls as they grow."""
    rng = np.random.default_rng(global_random_seed)
    prior, counts = Dirichlet(np.full((1, 500), 0.01)), np.zeros((1, 500))
    counts[:, ::5] = count
    q, found = Dirichlet(prior.theta + counts), []
    for _ in range(500):
        found.append(q.in_domain(prior, q.corrected(q.drawn(rng), (counts,)))[0][:, ::5].mean())
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    excess = np.mean(found) / count - 1.0
    assert -4 * error / count <= excess <= most + 4 * error / count


def test_no_step_leaves_the_domain(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    prior, q = Dirichlet(np.full((2, 50), 0.1)), Dirichlet(rng.gamma(0.5, 1.0, (2, 50)) + 0.05)
    wild = (10.0 * rng.standard_normal((2, 50)),)
    for rate in (1.0, 0.3, np.array([0.02, 0.9])):
        share = np.reshape(rate, (-1, 1))
        after = (1 - share) * q.theta + share * (prior.theta + q.in_domain(prior, wild, rate)[0])
        assert np.all(after >= 0.1 * prior.theta * (1 - 1e-9))
