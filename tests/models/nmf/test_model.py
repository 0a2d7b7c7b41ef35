"""Gamma process NMF: local steps against quadrature, monotone steps, missing cells, starts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import gamma, multinomial, poisson

from sksvi.algorithms.specs import SSVIA, SVI
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.models.nmf.cells import FLOOR, cells, from_rows, merged, table
from sksvi.models.nmf.density import log_negative_binomial, log_poisson, moments_of
from sksvi.models.nmf.model import GammaProcess
from sksvi.models.nmf.rows import FactorView, RowVisit

SETTLED = RowVisit(2000, 0.0)


def counts(rng, n=20, F=8, K=3, missing=0.0):
    X = rng.poisson(rng.gamma(0.4, 4.0, (n, K)) @ rng.gamma(0.4, 2.0, (K, F))).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def fixed(W, theta):
    """Rows see known components (K, F) and weights."""
    return FactorView(W.T, theta, (np.log(W) + np.log(theta)[:, None]).T)


def local(model, view, X, start=None):
    data = table(cells(X))
    return model.settled(view, model.batch(data, np.arange(len(X)), start), SETTLED)


def test_one_component_is_exact(global_random_seed):
    """Given one component mean field is the posterior, and its bound the evidence."""
    rng = np.random.default_rng(global_random_seed)
    W, theta = rng.gamma(1.0, 1.0, (1, 5)) + 0.1, np.array([1.7])
    X = rng.poisson(3.0, (4, 5)).astype(float)
    X[1, 2] = np.nan
    model = GammaProcess(1, 5, activation_shape=0.6)
    terms = local(model, fixed(W, theta), X)
    for i, row in enumerate(X):
        seen = ~np.isnan(row)

        def joint(h, row=row, seen=seen):
            return np.exp(poisson.logpmf(row[seen], h * theta * W[0, seen]).sum()) * gamma.pdf(h, 0.6, scale=1 / 0.6)

        posterior = gamma(0.6 + row[seen].sum(), scale=1.0 / terms.rate[i, 0])
        peak = posterior.mean()
        evidence = sum(quad(joint, low, high, epsabs=0)[0] for low, high in ((0, peak), (peak, 40 * peak + 1)))
        np.testing.assert_allclose(terms.value[i], np.log(evidence), rtol=1e-6)
        np.testing.assert_allclose(joint(peak) / evidence, posterior.pdf(peak), rtol=1e-5)


def test_a_row_has_the_bound_of_its_definition():
    """E log p(y, z, H) - E log q, over all z of three counts from two components."""
    W, theta, b = np.array([[0.4, 1.1], [1.3, 0.2]]), np.array([0.8, 1.9]), 0.7
    y = np.array([2, 1])
    model = GammaProcess(2, 2, activation_shape=b)
    terms = local(model, fixed(W, theta), y[None].astype(float))
    rate = b + theta * W.sum(1)
    found = terms.activations[0] * rate - b  # N
    shape = b + found
    elog = np.array([gamma(a, scale=1 / r).expect(np.log) for a, r in zip(shape, rate, strict=True)])
    phi = np.exp(elog)[:, None] * theta[:, None] * W
    phi /= phi.sum(0)
    value = 0.0
    for a, r in zip(shape, rate, strict=True):
        q, prior = gamma(a, scale=1 / r), gamma(b, scale=1 / b)
        value -= q.expect(lambda h, q=q, prior=prior: q.logpdf(h) - prior.logpdf(h))
    value -= float(terms.activations[0] * theta @ W.sum(1))
    for splits in product(*[[(k, c - k) for k in range(c + 1)] for c in y]):
        z = np.array(splits).T  # (K, F)
        share = np.prod([multinomial.pmf(z[:, f], y[f], phi[:, f]) for f in range(2)])
        log_p = float((z * (np.log(theta)[:, None] + np.log(W) + elog[:, None]) - gammaln(z + 1)).sum())
        value += share * (log_p - np.log(share))
    np.testing.assert_allclose(terms.value[0], value, rtol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_no_step_of_svi_lowers_the_bound(missing, global_random_seed):
    """Components and weights one after the other, rows going on from where they were: no step is taken back."""
    rng = np.random.default_rng(global_random_seed)
    X = counts(rng, missing=missing)
    for sweeps in (1, 3):
        model = GammaProcess(5, 8, mean=float(np.nanmean(X)) or 1.0, start=rng.gamma(0.5, 2.0, (5, 8)))
        problem = plan.problem(model.replaced(visit=RowVisit(sweeps, 0.0)), table(cells(X)), SVI())
        state = plan.run(problem, first_state(problem, 0), 80, 0.0)
        assert state.repairs == 0 and len(state.bounds) == 80
        assert np.all(np.diff(state.bounds) >= -1e-11 * np.abs(state.bounds[1:]))
        assert state.bounds[-1] > state.bounds[0] + 1.0


def test_weights_step_after_components(global_random_seed):
    """Both at once would lower the bound: where activations are known, each would make up for the scale alone."""
    rng = np.random.default_rng(global_random_seed)
    X = counts(rng) + 1.0
    falls = []
    for at_once in (False, True):
        start = rng.uniform(0.005, 0.02, (3, 8))
        model = GammaProcess(3, 8, activation_shape=1e3, mean=float(X.mean()), start=start)
        model = model.replaced(visit=RowVisit(1, 0.0))
        if at_once:
            model = model.replaced(in_turn=lambda name, gradient, before, q: gradient)
        problem = plan.problem(model, table(cells(X)), SVI())
        state = plan.run(problem, first_state(problem, 0), 5, 0.0)
        falls.append(state.repairs)
    assert falls[0] == 0 < falls[1]


def test_draws_keep_every_count_and_are_the_posterior_where_counts_are_many(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    W, theta = rng.uniform(0.5, 2.0, (2, 6)), np.array([1.0, 2.0])
    X = rng.poisson(5e5 * rng.uniform(0.5, 2.0, (3, 2)) * theta @ W).astype(float)
    model, view = GammaProcess(2, 6), fixed(W, theta)
    drawn = replace(view, drawn=True)
    data = table(cells(X))
    start = local(model, view, X).local
    terms = model.settled(drawn, model.batch(data, np.arange(3), start), RowVisit(1, 0.0, 3), np.random.default_rng(1))
    np.testing.assert_allclose(terms.local.sum(1), X.sum(1))
    np.testing.assert_allclose(terms.counts.sum(1), X.sum(0))
    # A draw is a count: 0 where less than one is expected, and its square root off.
    assert np.all(np.abs(terms.local - start) < 0.02 * start + 5.0 * np.sqrt(start) + 1.0)


def test_missing_cells_say_nothing(global_random_seed):
    """A column that no row saw is as one that is not there; a zero is another thing."""
    rng = np.random.default_rng(global_random_seed)
    X, W, theta = counts(rng), rng.gamma(1.0, 1.0, (3, 8)) + 0.05, rng.gamma(2.0, 1.0, 3)
    hidden, zero = X.copy(), X.copy()
    hidden[:, 4], zero[:, 4] = np.nan, 0.0
    model, smaller = GammaProcess(3, 8), GammaProcess(3, 7)
    found = local(model, fixed(W, theta), hidden)
    without = local(smaller, fixed(np.delete(W, 4, 1), theta), np.delete(X, 4, 1))
    np.testing.assert_allclose(found.value, without.value, rtol=1e-8)
    np.testing.assert_allclose(found.activations, without.activations, rtol=1e-4, atol=1e-8)
    # A row may have several optima: from that of the zero its bound rises once nothing is said.
    with_zero = local(model, fixed(W, theta), zero)
    assert np.all(with_zero.value < local(model, fixed(W, theta), hidden, with_zero.local).value)


def test_the_start_is_of_rows_that_differ():
    X = np.kron(np.eye(3), np.ones((4, 5))) * np.linspace(1.0, 50.0, 12)[:, None]
    X[5] = 0.0
    start = from_rows(cells(X), 3, 0)
    np.testing.assert_allclose(np.sort((start > FLOOR + 1.0).argmax(1)), [0, 5, 10])
    more = from_rows(cells(X), 20, 0)
    assert more.shape == (20, 15) and np.all(more > 0)
    assert np.all(from_rows(cells(np.zeros((2, 4))), 3, 0) > 0)


@pytest.mark.parametrize("algorithm", [SVI(), SSVIA()])
def test_bits_do_not_depend_on_threads(algorithm):
    X = counts(np.random.default_rng(0), n=90)
    ends = []
    for threads in (1, 3):
        model = GammaProcess(4, 8, start=np.random.default_rng(1).gamma(1.0, 1.0, (4, 8)))
        problem = plan.problem(model, table(cells(X)), algorithm, batch_size=40, threads=threads)
        ends.append(plan.run(problem, first_state(problem, 3), 4, 0.0))
    for name in ends[0].q:
        np.testing.assert_array_equal(ends[0].q[name].theta, ends[1].q[name].theta)
    assert ends[0].bound == ends[1].bound


def test_densities():
    y = np.arange(400.0)
    for mean, variance in ((0.3, 0.2), (12.0, 40.0), (5.0, 0.0)):
        p = np.exp(log_negative_binomial(y, np.full(400, mean), np.full(400, variance)))
        np.testing.assert_allclose([p.sum(), p @ y, p @ y**2 - mean**2], [1.0, mean, mean + variance], rtol=1e-8)
    np.testing.assert_allclose(log_poisson(y[:9], 3.0), poisson.logpmf(y[:9], 3.0), rtol=1e-12)


def test_moments_are_those_of_draws(global_random_seed):
    from sksvi.families import Gamma

    rng = np.random.default_rng(global_random_seed)
    W, theta = Gamma(rng.uniform(1, 5, (2, 3)), rng.uniform(1, 3, (2, 3))), Gamma([3.0, 5.0], [2.0, 1.0])
    shape, rate = rng.uniform(1, 4, (1, 2)), rng.uniform(1, 3, (1, 2))
    mean, variance = moments_of(shape / rate, shape / np.square(rate), W, theta)
    n = 40_000
    h, w, t = rng.gamma(shape, 1 / rate, (n, 2)), rng.gamma(W.shape, 1 / W.rate, (n, 2, 3)), theta.sample(n, 0)
    draws = np.einsum("nk,nkf->nf", h * t, w)
    error = draws.std(0) / np.sqrt(n)
    assert np.all(np.abs(draws.mean(0) - mean[0]) < 4 * error)
    squares = np.square(draws - mean[0])
    assert np.all(np.abs(squares.mean(0) - variance[0]) < 4 * squares.std(0) / np.sqrt(n))


def test_parts_alike_are_merged(global_random_seed):
    """Fractions of a few profiles, in any order: what was one becomes one again, and nothing is lost."""
    rng = np.random.default_rng(global_random_seed)
    profiles = rng.gamma(0.3, 1.0, (4, 30)) + 1e-3
    parts = np.concatenate([share * profiles for share in (0.5, 0.3, 0.2)])[rng.permutation(12)]
    found = merged(parts, 4)
    order = np.argsort(found[:, 0])
    np.testing.assert_allclose(found[order], profiles[np.argsort(profiles[:, 0])], rtol=1e-10)
    np.testing.assert_allclose(merged(parts, 2).sum(0), profiles.sum(0), rtol=1e-10)
    np.testing.assert_array_equal(merged(found, 4), found)


def test_the_cheapest_merge_is_the_one_that_is_made(global_random_seed):
    """Its loss is that of Poisson counts, Σ y log of each part's profile, before less after."""
    parts = np.random.default_rng(global_random_seed).gamma(0.5, 5.0, (5, 8))
    pairs = [(i, j) for i in range(5) for j in range(i)]

    def explained(counts, profile):
        return float(np.sum(counts * np.log(profile / profile.sum())))

    def loss(i, j):
        both = parts[i] + parts[j]
        return sum(explained(parts[k], parts[k]) - explained(parts[k], both) for k in (i, j))

    i, j = min(pairs, key=lambda pair: loss(*pair))
    wanted = np.concatenate([np.delete(parts, [i, j], 0), [parts[i] + parts[j]]])
    found = merged(parts, 4)
    np.testing.assert_allclose(np.sort(found.sum(1)), np.sort(wanted.sum(1)), rtol=1e-10)
