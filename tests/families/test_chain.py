"""A chain of states and its messages, against dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sksvi.families import NotPositiveDefinite
from sksvi.families.gaussian.chain import Chain, ChainGaussian, swept
from sksvi.families.gaussian.chain_regression import fixed_states, swept_by_regression
from sksvi.models.time_series.components import Dynamics

#: What a dynamics is made of, key to how it is built.
KINDS = {
    "level": lambda d: d.add_level("auto", False, 0.0, 2.0),
    "fixed level": lambda d: d.add_level(0.0, False, 0.0, 2.0),
    "trend": lambda d: d.add_level("auto", True, "auto", 2.0),
    "damped": lambda d: d.add_level("auto", False, 0.0, 2.0, "auto"),
    "damped trend": lambda d: d.add_level("auto", True, 0.01, 2.0, 0.7),
    "dummies": lambda d: (d.add_level("auto", False, 0.0, 2.0), d.add_seasonal(4.0, "dummy", "auto", 1.0)),
    "waves": lambda d: (d.add_seasonal(6.0, "trigonometric", "auto", 1.0), d.add_seasonal(3.5, "dummy", 0.1, 1.0)),
    "cycle": lambda d: d.add_damped("cycle", "cycle", "auto", "auto", 7.0, 50.0),
    "coefficients": lambda d: (
        d.add_level("auto", False, 0.0, 2.0, "auto"),
        d.add_coefficients(["a", "b"], "auto", np.ones(2), 1.0),
    ),
}


def chain_of(kind, T=25, seed=0):
    rng = np.random.default_rng([seed, 31])
    dynamics = Dynamics()
    KINDS[kind](dynamics)
    theta = dynamics.start + rng.uniform(-0.5, 0.5, len(dynamics.start))
    chain = dynamics.chain(theta, rng.standard_normal((T, dynamics.n_coefficients)))
    return dynamics, theta, replace(chain, mean=rng.standard_normal(dynamics.n_states))


def messages(T=25, seed=0, negative=True):
    rng = np.random.default_rng([seed, 32])
    linear, weights = rng.standard_normal(T), rng.uniform(-0.01 if negative else 0.0, 1.0, T)
    linear[5:8] = weights[5:8] = 0.0
    return linear, weights


def dense(chain, linear, weights):
    """Mean, covariance, KL from the prior and log evidence."""
    u, K = chain.dense()
    T = len(u)
    S = K @ np.linalg.inv(np.eye(T) + weights[:, None] * K)
    m = u + S @ (linear - weights * u)
    log_det = np.linalg.slogdet(np.eye(T) + weights[:, None] * K)[1]
    kl = 0.5 * (log_det - weights @ np.diag(S) + (linear - weights * m) @ (m - u))
    off = linear - weights * u
    return m, S, kl, -0.5 * log_det + 0.5 * off @ S @ off + linear @ u - 0.5 * weights @ u**2


@pytest.mark.parametrize("kind", KINDS)
def test_one_sweep_says_what_dense_algebra_does(kind):
    _, _, chain = chain_of(kind)
    linear, weights = messages()
    q = ChainGaussian(chain, linear, weights)
    m, S, kl, evidence = dense(chain, linear, weights)
    scale = np.abs(m).max() + np.diag(S).max()
    np.testing.assert_allclose(q.mean, m, rtol=0, atol=1e-9 * scale)
    np.testing.assert_allclose(q.variance, np.diag(S), rtol=1e-8, atol=1e-10 * scale)
    assert q.kl(ChainGaussian(chain)) == pytest.approx(kl, rel=1e-8)
    assert q.log_evidence() == pytest.approx(evidence, rel=1e-8)


@pytest.mark.costly
@pytest.mark.parametrize("damping", [None, "auto", 0.8])
@pytest.mark.parametrize("level", [0.0, pytest.param("auto", marks=pytest.mark.exhaustive)])
def test_a_regression_on_fixed_states_says_what_a_sweep_does(damping, level, global_random_seed):
    rng, dynamics = np.random.default_rng([global_random_seed, 33]), Dynamics()
    dynamics.add_level(level, damping is None, 0.0, 2.0, damping)
    dynamics.add_waves(7.0, 3, 0.0, 1.0)
    dynamics.add_seasonal(4.0, "dummy", 0.0, 1.0)
    dynamics.add_damped("cycle", "cycle", "auto", "auto", 5.0, 50.0)
    dynamics.add_coefficients(["a", "b"], 0.0, np.ones(2), 1.0)
    chain = dynamics.chain(dynamics.start, rng.standard_normal((40, 2)))
    chain = replace(chain, mean=rng.standard_normal(dynamics.n_states))
    fixed = fixed_states(chain)
    linear, weights = messages(40, global_random_seed)
    found, wanted = swept_by_regression(chain, fixed, linear, weights), swept(chain, linear, weights)._asdict()
    assert fixed.sum() >= 11 and not fixed.all() and found.keys() == wanted.keys()
    for name, value in wanted.items():
        own = found[name]
        if name in ("score", "first", "pull", "information"):  # of states that move
            value, own = value[~fixed], own[~fixed]
            value, own = (value[:, ~fixed], own[:, ~fixed]) if name == "information" else (value, own)
        np.testing.assert_allclose(own, value, rtol=1e-7, atol=1e-9 * (1.0 + np.max(np.abs(value), initial=0.0)))


def test_a_regression_refuses_messages_that_leave_no_precision():
    _, _, chain = chain_of("fixed level")
    with pytest.raises(NotPositiveDefinite, match="fixed states"):
        swept_by_regression(chain, fixed_states(chain), np.zeros(25), np.full(25, -1.0))


def test_states_that_several_become_and_sums_of_one_are_no_plain_copies():
    """Rows of A that copy one state twice, or less than it, beside a shift and a state that stays."""
    A = np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [-0.5, 0.0, 0.7, 0.0], [0.0, 0.0, 0.0, 1.0]])
    rows, starts, columns = np.arange(3), np.array([0, 1, 2, 4]), np.array([1, 1, 0, 2])
    X, start = np.zeros((12, 0)), np.random.default_rng(0).standard_normal((4, 4))
    noise, h = np.array([0.3, 0.0, 0.1, 0.2]), np.array([1.0, 0.5, -1.0, 2.0])
    values = A[[0, 1, 2, 2], columns]
    chain = Chain(X, h, rows, starts, columns, values, noise, start[0], start @ start.T, np.zeros(0, np.int64))
    np.testing.assert_array_equal(chain.transition(), A)
    linear, weights = messages(12, negative=False)
    mean, cov, _, _ = dense(chain, linear, weights)
    swept = chain.sweep(linear, weights)
    np.testing.assert_allclose(swept.mean, mean, atol=1e-9)
    np.testing.assert_allclose(swept.variance, np.diagonal(cov), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_slope_of_the_evidence_is_that_of_finite_differences(kind):
    dynamics, theta, _ = chain_of(kind)
    linear, weights = messages()
    X = np.random.default_rng(33).standard_normal((25, dynamics.n_coefficients))

    def at(theta):
        return ChainGaussian(dynamics.chain(theta, X), linear, weights)

    q = at(theta)
    slope = dynamics.slope(theta, q.chain, q.swept)
    for k in range(len(theta)):
        step = 1e-5 * np.eye(len(theta))[k]
        found = (at(theta + step).log_evidence() - at(theta - step).log_evidence()) / 2e-5
        assert slope[k] == pytest.approx(found, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("kind", ["level", "coefficients", "cycle"])
def test_divergence_between_two_steps_is_that_of_dense_gaussians(kind):
    _, _, chain = chain_of(kind)
    blocks = [ChainGaussian(chain, *messages(seed=seed, negative=False)) for seed in (0, 1)]
    (m, S, *_), (n, R, *_) = (dense(chain, q.linear, q.weights) for q in blocks)
    if kind != "level":  # f is singular: the divergence of the states is what the messages make of it
        own = blocks[0]
        said = np.sum((own.linear - blocks[1].linear) * own.mean)
        said -= 0.5 * (own.weights - blocks[1].weights) @ (own.mean**2 + own.variance)
        expected = said - own.log_evidence() + blocks[1].log_evidence()
    else:
        expected = 0.5 * (
            np.trace(np.linalg.solve(R, S)) + (m - n) @ np.linalg.solve(R, m - n) - len(m)
            + np.linalg.slogdet(R)[1] - np.linalg.slogdet(S)[1]
        )  # fmt: skip
    assert blocks[0].kl(blocks[1]) == pytest.approx(expected, rel=1e-6)
    assert blocks[0].kl(blocks[0]) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_combinations_of_states_include_f_itself(kind):
    dynamics, _, chain = chain_of(kind)
    q = ChainGaussian(chain, *messages())
    part = np.concatenate([dynamics.h, np.zeros(dynamics.n_coefficients)])[None]
    mean, variance = q.combined(part, np.ones(1))
    np.testing.assert_allclose(mean[:, 0], q.mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(variance[:, 0], q.variance, rtol=1e-8, atol=1e-10)
    # One step ahead: given the messages before, and none of the others.
    mean, variance = q.combined(part, np.ones(1), back=False)
    for t in (0, 1, 12, 24):
        known = np.arange(25) < t
        m, S, *_ = dense(chain, np.where(known, q.linear, 0.0), np.where(known, q.weights, 0.0))
        np.testing.assert_allclose([mean[t, 0], variance[t, 0]], [m[t], S[t, t]], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", ["level", "trend"])
def test_messages_that_leave_no_precision_are_an_error_that_a_step_is_halved_for(kind):
    _, _, chain = chain_of(kind)
    with pytest.raises(NotPositiveDefinite, match="point 24"):
        ChainGaussian(chain, np.zeros(25), np.where(np.arange(25) < 24, 1.0, -9.0)).prepare()


def test_messages_whose_divergence_is_lost_in_rounding_are_an_error():
    _, _, chain = chain_of("level")
    weights = np.where(np.arange(25) < 5, 1e40, 1.0)
    with pytest.raises(NotPositiveDefinite, match="lost in rounding"):
        for off in (57.3, 58.1, 59.7):  # of which one or another is rounded down
            ChainGaussian(chain, -off * weights, weights).prepare()


def test_two_directions_may_be_less_than_unknown_at_once_where_later_messages_make_up_for_both():
    none, ints = np.zeros(0), np.zeros(0, np.int64)
    X, weights = np.vstack([np.eye(2), np.eye(2)]), np.array([-2.0, -2.0, 5.0, 5.0])
    chain = Chain(X, none, ints, np.zeros(1, np.int64), ints, none, np.zeros(2), np.zeros(2), np.eye(2), ints)
    q = ChainGaussian(chain, weights, weights)
    np.testing.assert_allclose(q.variance, 1.0 / (1.0 - 2.0 + 5.0), rtol=1e-12)
    np.testing.assert_allclose(q.mean, 3.0 / 4.0, rtol=1e-12)


@pytest.mark.parametrize("negative", [False, True])
def test_draws_have_the_moments_of_the_block(negative, global_random_seed):
    _, _, chain = chain_of("coefficients", T=8)
    linear, weights = messages(8, negative=False)
    if negative:
        weights[[1, 4]] = -0.1, -0.15
    q = ChainGaussian(chain, linear, weights)
    draws = q.sample(4000, global_random_seed)
    _, S, *_ = dense(chain, linear, weights)
    error = np.sqrt(np.diag(S) / 4000)
    assert np.all(np.abs(draws.mean(0) - q.mean) < 5 * error)
    spread = np.sqrt((np.outer(np.diag(S), np.diag(S)) + S**2) / 4000)
    assert np.all(np.abs(np.cov(draws.T) - S) < 5 * spread)


def test_the_level_alone_is_the_general_loop():
    _, _, chain = chain_of("level")
    plain = ChainGaussian(chain, *messages())
    one, at = np.ones(1), np.zeros(1, np.int64)
    moved = Chain(
        chain.X, chain.h, at, np.array([0, 1]), at, one, chain.noise, chain.mean, chain.cov, np.zeros(0, np.int64)
    )
    for a, b in zip(vars_of(plain), vars_of(ChainGaussian(moved, *messages())), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def vars_of(q):
    return [np.ravel(part) for part in q.swept]


@pytest.mark.parametrize("kind", KINDS)
def test_messages_of_negative_precision_are_refused_exactly_where_the_joint_one_is_not_positive(kind):
    """Later messages may make up for earlier ones, of which the forward recursion alone would despair."""
    refused = rescued = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 34])
        _, _, chain = chain_of(kind, T=12, seed=seed)
        linear, weights = rng.standard_normal(12), rng.uniform(0.0, 1.0, 12) * rng.choice([0.1, 1.0, 10.0])
        weights[rng.integers(0, 12, 3)] = -rng.uniform(0.0, 1.0, 3) * rng.choice([0.05, 0.3, 1.0])
        _, K = chain.dense()
        values, vectors = np.linalg.eigh(K)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        least = np.linalg.eigvalsh(np.eye(12) + root.T @ (weights[:, None] * root)).min()
        leading = [np.linalg.det(np.eye(t) + weights[:t, None] * K[:t, :t]) for t in range(1, 13)]
        q = ChainGaussian(chain, linear, weights)
        if least < 0:
            refused += 1
            with pytest.raises(NotPositiveDefinite):
                q.prepare()
            continue
        rescued += min(leading) < 0
        m, S, *_ = dense(chain, linear, weights)
        np.testing.assert_allclose(q.variance, np.diag(S), rtol=1e-6 / min(least, 1.0))
        np.testing.assert_allclose(q.mean, m, atol=1e-6 / min(least, 1.0) * np.abs(m).max())
    assert kind not in ("level", "trend", "dummies") or (refused and rescued)
