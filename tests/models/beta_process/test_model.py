"""Beta process factor analysis as a model: exact conditionals, bounds, gradients, the sampler's joint distribution."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sksvi._runtime import parallel
from sksvi.algorithms import CVI, MCSSVI
from sksvi.decomposition._beta_process_methods import local_draws, log_density
from sksvi.expectations import Auto
from sksvi.families import Beta, DiagonalGaussian, Gamma
from sksvi.inference import engine, plan
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.models.base import Segment
from sksvi.models.beta_process import model as beta_process
from sksvi.models.beta_process.model import BetaProcess, split
from sksvi.models.beta_process.sampler import BetaProcessDraw, BetaProcessSampler, at_values, draw, expected
from sksvi.models.data import Table
from sksvi.testing import check_family
from tests.chance import assert_drawn, errors_allowed

LOCAL_STEPS = ["gibbs", "mean-field", "spike-slab"]


def rows(n, D, seed, missing=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    X[rng.random(X.shape) < missing] = np.nan
    return Table(X, np.zeros(n))


def blocks(K, D, seed, n=50):
    rng = np.random.default_rng(seed)
    return {
        "probabilities": Beta(rng.uniform(2, n, K), rng.uniform(2, n, K)),
        "features": DiagonalGaussian(rng.standard_normal((K, D)), rng.uniform(5, 50, (K, D))),
        "weight_precision": Gamma(np.array([20.0]), np.array([15.0])),
        "noise_precision": Gamma(np.array([40.0]), np.array([20.0])),
    }


def some_view(K, D, seed, noise=4.0):
    rng = np.random.default_rng(seed)
    return at_values(rng.standard_normal((K, D)), rng.uniform(-1.5, 0.5, K), np.array([noise]), 1.5, D)


def enumerated(view, y, seen):
    """Probability of every z, mean of z w given z, and log p(y), by brute force."""
    phi = view.features[:, seen]
    K, D = phi.shape
    configurations = np.array(list(itertools.product([0.0, 1.0], repeat=K)))
    logs, means = [], []
    for z in configurations:
        scaled = z[:, None] * phi
        cov = scaled.T @ scaled / view.precision + np.diag(1.0 / view.noise[seen])
        solved = np.linalg.solve(cov, y[seen])
        log = -0.5 * (y[seen] @ solved + np.linalg.slogdet(cov)[1] + D * np.log(2 * np.pi))
        logs.append(log + z @ view.logit + view.log_unused)
        means.append(scaled @ solved / view.precision)
    logs = np.array(logs)
    evidence = np.logaddexp.reduce(logs)
    return configurations, np.exp(logs - evidence), np.array(means), evidence


def terms_of(view, X, local_step, burn_in=3, kept=3, seed=0):
    K, D = view.features.shape
    model = BetaProcess(K, D, local_step=local_step, n_burn_in=burn_in, n_local_samples=kept)
    data = Table(X, np.zeros(len(X)))
    batch = model.batch(data, slice(0, len(X)))
    return model.terms(view, batch, None, np.random.default_rng(seed)), model, batch


@pytest.mark.parametrize("family", [Beta, Gamma])
def test_families(family, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    q, prior = (family(rng.uniform(0.3, 5, 4), rng.uniform(0.3, 5, 4)) for _ in range(2))
    check_family(q, prior, seed=global_random_seed)
    draws = q.sample(20000, global_random_seed)
    found = (np.log(draws), np.log1p(-draws) if family is Beta else draws)
    for k in range(2):
        error = found[k].std(0) / np.sqrt(len(draws))
        assert np.all(np.abs(found[k].mean(0) - q.moments[:, k]) <= 4 * error)
    assert q[:2].mean.shape == (2,)
    np.testing.assert_allclose(
        q.blended(prior, 0.25).natural(q)[0], 0.75 * q.natural(q)[0] + 0.25 * prior.natural(q)[0]
    )
    with pytest.raises(ValueError, match="distribution is"):
        family(np.array([1.0, -1.0]), np.ones(2))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("K", [1, 4, 8])
def test_gibbs_conditional_against_enumeration(K, missing, global_random_seed):
    D, n = 5, 3000
    view = some_view(K, D, global_random_seed, noise=2.0)
    y = np.random.default_rng(global_random_seed).standard_normal(D)
    seen = np.ones(D, bool)
    if missing:
        seen[[1, 3]] = False
    terms, *_ = terms_of(view, np.tile(np.where(seen, y, np.nan), (n, 1)), "gibbs", 60, 1, global_random_seed)
    configurations, p, means, evidence = enumerated(view, y, seen)
    z, omega = terms.omega[0] != 0, terms.omega[0]
    assert_drawn(z.sum(0), n, p @ configurations)
    assert_drawn((z[:, :1] * z).sum(0), n, (p * configurations[:, 0]) @ configurations)
    assert np.all(np.abs(omega.mean(0) - p @ means) <= errors_allowed(K) * omega.std(0) / np.sqrt(n))
    # The estimate of the bound is at most the evidence, and with one factor equals it.
    error = 4 * terms.value.std() / np.sqrt(n)
    assert terms.value.mean() <= evidence + error
    if K == 1:
        assert abs(terms.value.mean() - evidence) <= error


@pytest.mark.costly
@pytest.mark.parametrize("local_step", ["mean-field", "spike-slab"])
def test_coordinate_steps_never_lower_the_local_bound(local_step, global_random_seed, monkeypatch):
    K, D = 6, 5
    view = some_view(K, D, global_random_seed)
    X = rows(20, D, global_random_seed).X
    bounds = []
    for sweeps in range(1, 12):
        monkeypatch.setattr(beta_process, "MAX_SWEEPS", sweeps)
        monkeypatch.setattr(beta_process, "SWEEP_TOL", 0.0)
        bounds.append(terms_of(view, X, local_step)[0].value)
    assert np.all(np.diff(bounds, axis=0) >= -1e-9)
    evidence = [enumerated(view, x, ~np.isnan(x))[3] for x in X]
    assert np.all(bounds[-1] <= np.array(evidence) + 1e-9)


@pytest.mark.costly
@pytest.mark.parametrize(("local_step", "most"), [("mean-field", 7.5), ("spike-slab", 4.0)])
def test_sure_features_that_overlap_lead_few_rows_astray(local_step, most, global_random_seed):
    """Nats below log p(y), averaged over 60 rows and six sets of features; 11 and 8 from even odds alone."""
    K, D, lost = 8, 10, []
    for number in range(6):
        rng = np.random.default_rng([global_random_seed, number])
        view = some_view(K, D, 6 * global_random_seed + number, noise=100.0)
        use = rng.random((60, K)) < 0.35
        X = (use * rng.standard_normal((60, K))) @ view.features + 0.1 * rng.standard_normal((60, D))
        evidence = [enumerated(view, x, np.ones(D, bool))[3] for x in X]
        lost.append(np.mean(evidence - terms_of(view, X, local_step)[0].value))
    assert 0 < np.mean(lost) < most


def test_spike_and_slab_is_exact_for_one_factor(global_random_seed):
    view = some_view(1, 4, global_random_seed)
    X = rows(10, 4, global_random_seed).X
    terms, *_ = terms_of(view, X, "spike-slab")
    for i, x in enumerate(X):
        configurations, p, means, evidence = enumerated(view, x, ~np.isnan(x))
        assert terms.value[i] == pytest.approx(evidence, abs=1e-9)
        np.testing.assert_allclose(terms.use[i], p @ configurations, rtol=1e-9)
        np.testing.assert_allclose(terms.omega[0, i], p @ means, rtol=1e-9)


@pytest.mark.parametrize("local_step", ["mean-field", "spike-slab"])
def test_gradient_against_finite_differences_of_the_bound(local_step, global_random_seed, monkeypatch):
    """At the local optimum the bound's derivative in the globals' moments is the pulled-back gradient."""
    monkeypatch.setattr(beta_process, "MAX_SWEEPS", 20000)
    monkeypatch.setattr(beta_process, "SWEEP_TOL", 1e-13)
    K, D = 3, 4
    model = BetaProcess(K, D, local_step=local_step)
    problem = plan.problem(model, rows(12, D, global_random_seed), CVI(), Auto())
    q = blocks(K, D, global_random_seed)
    rng = np.random.default_rng(global_random_seed)

    def value(q):
        return engine.evaluate(problem, State(q, 0), Segment(slice(0, 12), 1.0))

    gradient, _ = value(q)
    for name in ("probabilities", "weight_precision", "noise_precision"):
        block = q[name]
        tilt = 1e-5 * rng.standard_normal(block.standard_values.shape)
        high, low = (block.at(block.standard_values + sign * tilt) for sign in (1, -1))
        slope = value({**q, name: high})[1] - value({**q, name: low})[1]
        assert np.sum(gradient[name][0] * (high.moments - low.moments)) == pytest.approx(slope, rel=1e-4, abs=1e-9)
    block, (g, h) = q["features"], gradient["features"]
    dm, dv = 1e-5 * rng.standard_normal(g.shape), 1e-5 * block.variance * rng.standard_normal(g.shape)
    for mean, variance in ((dm, 0.0), (0.0, dv)):
        moved = [DiagonalGaussian(block.mean + s * mean, 1 / (block.variance + s * variance)) for s in (1, -1)]
        slope = value({**q, "features": moved[0]})[1] - value({**q, "features": moved[1]})[1]
        assert 2 * np.sum(g * mean + h * variance) == pytest.approx(slope, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("local_step", LOCAL_STEPS)
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_statistics_against_their_definition(local_step, missing, global_random_seed):
    """The natural gradient of the features, and the squares of the noise, entry by entry."""
    K, D, n = 5, 4, 30
    q, data = blocks(K, D, global_random_seed), rows(n, D, global_random_seed, missing)
    model = BetaProcess(K, D, local_step=local_step)
    batch = model.batch(data, slice(0, n))
    for view in (expected(q, D), draw(q, np.random.default_rng(0), D)):
        terms = model.terms(view, batch, None, np.random.default_rng(1))
        gradient = model.pull_back(terms, batch)
        linear, precision, squares = np.zeros((K, D)), np.zeros((K, D)), 0.0
        draws = terms.second if len(terms.second) else np.square(terms.omega)
        for omega, second in zip(terms.omega, draws, strict=True):
            fit = omega @ view.features
            for k in range(K):
                without = batch.y - fit + omega[:, [k]] * view.features[k]
                linear[k] += (view.noise * batch.observed * omega[:, [k]] * without).sum(0)
                precision[k] += (view.noise * batch.observed * second[:, [k]]).sum(0)
            spread = second @ view.square - omega**2 @ np.square(view.features)
            squares += np.sum(batch.observed * (np.square(batch.y - fit) + spread))
        kept, mean = len(terms.omega), q["features"].mean
        g, h = gradient["features"]
        np.testing.assert_allclose(-2 * h, precision / kept, rtol=1e-9)
        np.testing.assert_allclose(g - 2 * h * mean, linear / kept, rtol=1e-8, atol=1e-8)
        noise = gradient["noise_precision"][0][0]
        np.testing.assert_allclose(noise, [batch.observed.sum() / 2, -squares / kept / 2], rtol=1e-9)
        use, unused = gradient["probabilities"][0].T
        np.testing.assert_allclose(use + unused, n)
        np.testing.assert_allclose(use, terms.use.sum(0))


@pytest.mark.parametrize("local_step", LOCAL_STEPS)
def test_batches_average_to_the_whole(local_step, global_random_seed):
    """Every row draws from its own stream, so that with one key the sums over a partition are those of the whole."""
    K, D, n = 6, 5, 200
    model, data = BetaProcess(K, D, local_step=local_step), rows(n, D, global_random_seed)
    view = expected(blocks(K, D, global_random_seed), D)

    def gradient(part):
        batch = model.batch(data, part)
        terms = model.terms(view, batch, None, np.random.default_rng(7))
        return model.pull_back(terms, batch), terms.value.sum()

    whole, value = gradient(slice(0, n))
    parts = [gradient(part) for part in np.array_split(np.random.default_rng(0).permutation(n), 4)]
    assert sum(v for _, v in parts) == pytest.approx(value, rel=1e-10)
    for name, arrays in whole.items():
        for k, array in enumerate(arrays):
            np.testing.assert_allclose(sum(g[name][k] for g, _ in parts), array, rtol=1e-9, atol=1e-9)


def test_chunks_are_of_equal_work():
    """A step on 250 patches is one chunk; more rows are chunks of about the same work, and all rows are in one."""
    model = BetaProcess(250, 64)
    for n, count in ((1, 1), (250, 1), (500, 2), (10_001, 38)):
        parts = model.chunks(slice(7, 7 + n), None)
        assert len(parts) == count
        assert np.array_equal(np.concatenate([np.arange(p.start, p.stop) for p in parts]), np.arange(7, 7 + n))
    assert max(p.stop - p.start for p in BetaProcess(1, 1).chunks(slice(0, 10_000), None)) == beta_process.MOST_ROWS


@pytest.mark.parametrize("factors, share", [(5.0, 0.125), (30.0, 0.2)])
def test_first_q(factors, share):
    """Rows use the asked number of factors, but no factor more than a fifth of them; half of the variance is noise."""
    q = BetaProcess(40, 3, start_use=factors).begin(rows(10_000, 3, 0), None)
    np.testing.assert_allclose(q["probabilities"].mean, share, rtol=5e-3)
    assert q["noise_precision"].mean[0] == pytest.approx(2.0)


def test_scaled_batches_are_unbiased_and_the_first_pass_ramps_up():
    model, data = BetaProcess(3, 4), rows(100, 4, 0)
    later = list(model.sweep(data, 30, 0, 1))
    assert sorted(np.concatenate([s.rows for s in later]).tolist()) == list(range(100))
    assert [s.scale for s in later] == pytest.approx([100 / 30] * 3 + [10.0])
    first = list(model.sweep(data, 30, 0, 0))
    assert [s.scale for s in first] == pytest.approx([1.0, 2.0, 3.0, 10.0])


def test_logs_and_exponentials_of_the_loops(global_random_seed):
    """Plain arithmetic instead of library calls: close to them; a uniform number is below sigmoid of more than that."""
    from sksvi.models import numbers
    from sksvi.models.beta_process.loops import gibbs

    rng = np.random.default_rng(global_random_seed)
    for x in 10.0 ** rng.uniform(-300, 300, 200):
        assert numbers.log_of(x) == pytest.approx(np.log(x), rel=1e-14)
    for x in rng.uniform(0, 40, 200):
        assert numbers.exp_minus(x) == pytest.approx(np.exp(-x), rel=1e-7)
    assert numbers.log_of(1.0) == 0.0 and numbers.exp_minus(0.0) == 1.0
    first, least = np.uint64(rng.integers(2**62)), np.empty(gibbs.CHUNK)
    gibbs._least(first, least)
    u = np.array([numbers.uniform_of(one) for one in first + np.arange(gibbs.CHUNK, dtype=np.uint64) * numbers.GOLDEN])
    exact = [gibbs._logit_of(first, k) for k in range(gibbs.CHUNK)]
    np.testing.assert_allclose(exact, np.log(u) - np.log1p(-u), rtol=1e-12, atol=1e-12)
    assert np.all(least < np.log(u)) and np.all(least > np.log(u) - 0.06)  # a line between powers of 2


def test_random_numbers_of_the_loops():
    """Uniform and normal numbers of the streams by their moments, four standard errors."""
    from sksvi.models import numbers

    n, state, spare = 20000, np.array([12345], np.uint64), np.zeros(1)
    u = np.array([numbers.uniform_of(one) for one in np.uint64(99) + np.arange(n, dtype=np.uint64) * numbers.GOLDEN])
    assert 0 < u.min() and u.max() < 1
    for power in (1, 2, 3):
        assert abs(np.mean(u**power) - 1 / (power + 1)) <= 4 * np.std(u**power) / np.sqrt(n)
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) <= 4 / np.sqrt(n)
    z = np.array([numbers.normal(state, spare) for _ in range(n)])
    for power, wanted in ((1, 0), (2, 1), (3, 0), (4, 3)):
        assert abs(np.mean(z**power) - wanted) <= 4 * np.std(z**power) / np.sqrt(n)
    assert abs(np.corrcoef(z[1:], z[:-1])[0, 1]) <= 4 / np.sqrt(n)


@pytest.mark.parametrize("K", [63, 64, 65])
def test_chunks_of_features_leave_no_one_out(K, global_random_seed):
    """The last features of a padded chunk are used as the first ones are: orthogonal features, one per column."""
    n = 2000
    view = at_values(np.eye(K) * 3.0, np.full(K, -1.0), np.array([1.0]), 1.0, K)
    y = np.random.default_rng(global_random_seed).standard_normal(K) * 3.0
    terms, *_ = terms_of(view, np.tile(y, (n, 1)), "gibbs", 2, 1, global_random_seed)
    kappa = 1.0 + 9.0
    odds = np.exp(-1.0 + 0.5 * np.log(1.0 / kappa) + np.square(3.0 * y) / (2 * kappa))
    assert_drawn(terms.use.sum(0), n, odds / (1 + odds))


@pytest.mark.parametrize("start", ["greedy", "given"])
def test_rows_that_lack_little_are_drawn_as_without_the_matrix(start, global_random_seed):
    """Rows that lack 0 to 4 of 24 entries, of which those that lack up to 3 use the K x K matrix less the missing."""
    n, K, D = 40, 70, 24
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((n, D))
    for i in range(n):
        X[i, rng.choice(D, i % 5, replace=False)] = np.nan
    view, model = some_view(K, D, global_random_seed), BetaProcess(K, D)
    batch = model.batch(Table(X, np.zeros(n)), slice(0, n), rng.standard_normal((n, K)) if start == "given" else None)
    found = model.terms(view, batch, None, np.random.default_rng(0))
    without = replace(view)
    without.__dict__["gram"] = np.empty((0, K))
    wanted = model.terms(without, batch, None, np.random.default_rng(0))
    np.testing.assert_allclose(found.omega, wanted.omega, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.value, wanted.value, rtol=1e-6)
    assert np.count_nonzero(found.omega) > n


@pytest.mark.parametrize("local_step", LOCAL_STEPS)
def test_density_of_held_out_entries_against_dense_gaussians(local_step, global_random_seed):
    """Given z the held-out entries are jointly Gaussian: their density by matrices, row by row and draw by draw."""
    K, D, n = 5, 7, 12
    rng = np.random.default_rng(global_random_seed)
    view = at_values(rng.standard_normal((K, D)), rng.uniform(-1, 1, K), rng.uniform(1, 9, D), 1.5, D)
    Y = rng.standard_normal((n, D))
    role = rng.integers(0, 3, (n, D))
    role[0], role[1] = 0, 1  # all observed and nothing asked; nothing observed
    X, asked = np.where(role == 0, Y, np.nan), np.where(role == 1, Y, np.nan)
    model = BetaProcess(K, D, local_step=local_step, n_local_samples=3)
    terms = local_draws(model, view, Table(X, np.zeros(n)), slice(0, n), global_random_seed, random=True)
    found = log_density(view, terms, X, split(asked))
    for s, i in np.ndindex(*found.shape):
        o, h, z = role[i] == 0, role[i] == 1, terms.omega[s, i] != 0
        phi, noise = view.features[z], np.diag(1 / view.noise)
        if terms.law is None:
            whole = phi.T @ phi / view.precision + noise
            gain = whole[np.ix_(h, o)] @ np.linalg.inv(whole[np.ix_(o, o)])
            mean, cov = gain @ Y[i, o], whole[np.ix_(h, h)] - gain @ whole[np.ix_(o, h)]
        else:
            _, u, inverse = terms.law[:, i, z]
            mean, cov = u @ phi[:, h], phi[:, h].T @ (inverse[:, None] * phi[:, h]) + noise[np.ix_(h, h)]
        wanted = multivariate_normal(mean, cov).logpdf(Y[i, h]) if h.any() else 0.0
        assert found[s, i] == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_two_equal_features_of_which_one_is_needed(global_random_seed):
    """Section 5.3: mean field puts 2s(1 - s) on neither or both of two equal features, Gibbs almost nothing."""
    n, D = 4000, 8
    y = np.full(D, 3.0)
    view = at_values(np.ones((2, D)), np.full(2, -6.0), np.array([50.0]), 0.1, D)
    _, p, _, _ = enumerated(view, y, np.ones(D, bool))
    assert p[0] + p[3] < 1e-2
    model = BetaProcess(2, D, n_burn_in=20, n_local_samples=1)
    batch = model.batch(Table(np.tile(y, (n, 1)), np.zeros(n)), slice(0, n))
    batch.start = np.zeros((n, 2))
    batch.start[np.arange(n), np.arange(n) % 2] = 3.0
    z = model.terms(view, batch, None, np.random.default_rng(global_random_seed)).omega[0] != 0
    assert np.mean(z.sum(1) != 1) <= p[0] + p[3] + 4 * np.sqrt((p[0] + p[3]) / n)
    assert 0.4 < z[:, 0].mean() < 0.6

    # Less certain data, for which the local optimum of mean field has s inside (0, 1).
    view = at_values(np.ones((2, D)), np.full(2, -1.5), np.array([0.3]), 1.0, D)
    model = BetaProcess(2, D, local_step="mean-field", n_local_samples=20000)
    data = Table(y[None], np.zeros(1))
    theta = model.terms(view, model.batch(data, slice(0, 1)), None, None).use[0]
    assert abs(theta.sum() - 1.0) < 0.2
    s = theta[1]
    drawn = local_draws(model, view, data, slice(0, 1), global_random_seed, random=True).omega[:, 0] != 0
    wrong = np.mean(drawn[:, 0] == drawn[:, 1])
    wanted = theta.prod() + (1 - theta).prod()
    assert abs(wrong - wanted) <= 4 * np.sqrt(wanted * (1 - wanted) / len(drawn))
    assert s * (1 - s) < wanted < 3 * s * (1 - s)


@pytest.mark.parametrize("local_step", LOCAL_STEPS)
def test_threads_never_change_a_bit(local_step):
    model, data = BetaProcess(8, 6, local_step=local_step), rows(300, 6, 0)
    q = blocks(8, 6, 0)
    results = []
    for threads in (1, 2, 3):
        problem = plan.problem(model, data, MCSSVI(), Auto(), threads=threads)
        with parallel.working():
            results.append(engine.evaluate(problem, State(q, 3), Segment(slice(0, 300), 1.0)))
    for gradient, value in results[1:]:
        assert value == results[0][1]
        for name, arrays in gradient.items():
            for k, array in enumerate(arrays):
                np.testing.assert_array_equal(array, results[0][0][name][k])


@pytest.mark.costly
@pytest.mark.parametrize("noise_size", [1, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_joint_distribution_of_the_gibbs_sampler(noise_size, global_random_seed):
    """Geweke (2004): draws of everything from the prior, then sweeps with new data each, leave the joint as it was."""
    K, D, n, repeats = 3, 3, 6, 700
    model = BetaProcess(K, D, a=4.0, b=2.0, noise_size=noise_size)
    seen = np.random.default_rng(0).random((n, D)) < 0.7
    rng = np.random.default_rng(global_random_seed)
    prior = model.prior({})

    def data(draw):
        noise = rng.standard_normal((n, D)) / np.sqrt(draw.noise)
        return Table(np.where(seen, draw.omega @ draw.features + noise, np.nan), np.zeros(n))

    def from_prior():
        use, weight = prior["probabilities"].sample(1, rng_state(rng))[0], rng.standard_gamma(1.0)
        noise = rng.standard_gamma(prior["noise_precision"].shape) / prior["noise_precision"].rate
        phi = rng.standard_normal((K, D)) / np.sqrt(D)
        omega = np.where(rng.random((n, K)) < use, rng.standard_normal((n, K)) / np.sqrt(weight), 0.0)
        return BetaProcessDraw(phi, np.log(use) - np.log1p(-use), noise, weight, omega)

    def summary(d, X):
        used = d.omega != 0
        pull = np.tanh(np.nansum(X * (d.omega @ d.features)) * 0.1)
        return [
            used.mean(), used[:, 0].mean(), np.log(d.noise[0]), np.log(d.weight), np.square(d.features).mean(),
            np.tanh(d.logit).mean(), np.log1p(np.square(d.omega).sum()), pull, used.any(1).mean(),
            np.log(d.noise).mean() * used.mean(), np.abs(np.sum(d.features[0] * d.features[1])),
        ]  # fmt: skip

    before, after = [], []
    for _ in range(repeats):
        state = from_prior()
        rows_now = data(state)
        before.append(summary(state, rows_now.X))
        for _ in range(3):
            state, _ = BetaProcessSampler(model, rows_now).sweep(state, rng)
            rows_now = data(state)
        after.append(summary(state, rows_now.X))
    difference = np.array(after) - np.array(before)
    error = difference.std(0) / np.sqrt(repeats)
    assert np.all(np.abs(difference.mean(0)) <= 4 * error), (difference.mean(0) / error).round(1)


def rng_state(rng):
    return int(rng.integers(2**31))


def test_a_deterministic_fit_never_lowers_its_bound(global_random_seed):
    K, D = 4, 5
    data = rows(60, D, global_random_seed)
    model = BetaProcess(K, D, local_step="spike-slab")
    problem = plan.problem(model, data, CVI(), Auto())
    assert problem.deterministic
    state = plan.run(problem, first_state(problem, 0), 15, 0.0, lambda state: False)
    bounds = np.array(state.bounds)
    assert np.all(np.diff(bounds) >= -1e-8 * np.abs(bounds[1:]))


def test_draws_of_small_probabilities_are_finite():
    q = {**blocks(4, 3, 0), "probabilities": Beta(np.full(4, 1e-3), np.full(4, 50.0))}
    view = draw(q, np.random.default_rng(0), 3)
    assert np.all(np.isfinite(view.logit))
    assert np.isfinite(view.log_unused)


def test_a_row_without_entries_draws_from_the_prior(global_random_seed):
    view = replace(some_view(3, 4, 0), logit=np.zeros(3))
    terms, *_ = terms_of(view, np.full((2000, 4), np.nan), "gibbs", 0, 1, global_random_seed)
    z = terms.omega[0] != 0
    assert np.all(np.abs(z.mean(0) - 0.5) <= 4 * 0.5 / np.sqrt(2000))
    assert np.var(terms.omega[0][z]) == pytest.approx(1 / view.precision, rel=0.2)
