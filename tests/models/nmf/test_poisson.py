"""Gamma-Poisson factorization: its bound against enumeration, monotone sweeps, learned rates, missing cells."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import gamma, multinomial

from sksvi.algorithms.specs import CVI, SSVIA
from sksvi.families import Gamma, Point
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.models.nmf.cells import cells, table
from sksvi.models.nmf.poisson import GammaPoisson
from sksvi.models.nmf.rows import RowVisit

SETTLED = RowVisit(2000, 0.0)


def with_longest_step(model, longest):
    """Traits of a model whose natural steps may have this rate."""
    return replace(model.traits, steps=replace(model.traits.steps, longest=longest))


def counts(rng, n=20, F=8, K=3, missing=0.0):
    X = rng.poisson(rng.gamma(0.4, 4.0, (n, K)) @ rng.gamma(0.4, 2.0, (K, F))).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def blocks(rng, K, F):
    """Some q."""
    return {
        "components": Gamma(rng.uniform(0.5, 3.0, (K, F)), rng.uniform(0.5, 3.0, (K, F))),
        "activation_rate": Point(np.log([0.8])),
        "component_rate": Point(np.log([1.4])),
    }


def settled(model, q, X, start=None):
    data = table(cells(X))
    return model.settled(model.view(q, None), model.batch(data, np.arange(len(X)), start), SETTLED)


def by_enumeration(q, y, N, b):
    """E log p(y, z, H | W) - E log q(z, H) of one row, z over every split of its counts."""
    W, r = q["components"], np.exp(q["activation_rate"].value[0])
    H = Gamma(b + N, r + W.mean.sum(1))
    logs = H.mean_log[:, None] + W.mean_log
    phi = np.exp(logs) / np.exp(logs).sum(0)
    value = -float(H.mean @ W.mean.sum(1))
    for shape, rate in zip(H.shape, H.rate, strict=True):
        own, prior = gamma(shape, scale=1 / rate), gamma(b, scale=1 / r)
        value -= own.expect(lambda h, own=own, prior=prior: own.logpdf(h) - prior.logpdf(h))
    K = len(N)
    per_cell = [[z for z in product(range(c + 1), repeat=K) if sum(z) == c] for c in y.astype(int)]
    for splits in product(*per_cell):
        z = np.array(splits).T
        share = np.prod([multinomial.pmf(z[:, f], y[f], phi[:, f]) for f in range(len(y))])
        value += share * (float((z * logs - gammaln(z + 1)).sum()) - np.log(share))
    return value


def test_a_row_has_the_bound_of_its_definition(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    model = GammaPoisson(2, 2, activation_shape=0.7)
    q, y = blocks(rng, 2, 2), np.array([2.0, 1.0])
    terms = settled(model, q, y[None])
    N = terms.activations[0] * terms.rate[0] - 0.7
    np.testing.assert_allclose(N.sum(), 3.0)
    np.testing.assert_allclose(terms.value[0], by_enumeration(q, y, N, 0.7), rtol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("longest", [1.0, 1.8])
def test_no_pass_lowers_the_bound(missing, longest, global_random_seed):
    """Rates, components, rows: each given the others. At rate 1 no step is taken back; beyond, those that fall are."""
    rng = np.random.default_rng(global_random_seed)
    X = counts(rng, missing=missing)
    for sweeps in (1, 3):
        model = GammaPoisson(5, 8, mean=0.3, start=rng.gamma(0.5, 2.0, (5, 8)))
        model = model.replaced(visit=RowVisit(sweeps, 0.0), traits=with_longest_step(model, longest))
        problem = plan.problem(model, table(cells(X)), CVI())
        state = plan.run(problem, first_state(problem, 0), 80, 0.0)
        # Once gains are rounding there is nowhere to go.
        assert len(state.bounds) > 20 and (longest > 1.0 or state.repairs == 0)
        assert np.all(np.diff(state.bounds) >= -1e-9 * np.abs(state.bounds[1:]))
        assert state.bounds[-1] > state.bounds[0] + 1.0


def test_steps_beyond_pay(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = counts(rng, n=60, F=20)
    reached = []
    for longest in (1.0, 1.8):
        model = GammaPoisson(4, 20, mean=0.3, start=np.random.default_rng(1).gamma(0.5, 2.0, (4, 20)))
        model = model.replaced(traits=with_longest_step(model, longest))
        problem = plan.problem(model, table(cells(X)), CVI())
        state = plan.run(problem, first_state(problem, 0), 15, 0.0)
        reached.append(state.bounds[-1])
        assert max(record["rate"] for record in state.history) == longest
    assert reached[1] > reached[0]


def test_a_fit_goes_on_while_passes_gain_more_than_tol(global_random_seed):
    """`tol` is of what a pass gains, however far beyond the best value its step went."""
    rng = np.random.default_rng(global_random_seed)
    X = counts(rng, n=60, F=20)
    start = rng.gamma(0.5, 2.0, (4, 20))

    def fit(tol):
        problem = plan.problem(GammaPoisson(4, 20, mean=0.3, start=start), table(cells(X)), CVI())
        return problem, plan.run(problem, first_state(problem, 0), 200, tol)

    problem, state = fit(0.0)

    def relative(bounds):
        return np.diff(bounds) / [problem.size(bound) for bound in bounds[:-1]]

    gains = relative(state.bounds[:40])
    for tol in 0.9 * np.minimum(gains[1:], gains[:-1])[5::3]:  # two passes in a row gain a little more
        if tol > 1e-6:
            _, state = fit(tol)
            assert state.converged and np.all(relative(state.bounds)[-2:] < tol)


def test_steps_too_far_beyond_are_taken_back():
    """Rows have moved with what was tried, and the bound rises all the same."""
    rng = np.random.default_rng(0)
    X = counts(rng, n=30)
    model = GammaPoisson(4, 8, mean=0.3, start=rng.gamma(0.5, 2.0, (4, 8)))
    model = model.replaced(traits=with_longest_step(model, 30.0))
    problem = plan.problem(model, table(cells(X)), CVI())
    state = plan.run(problem, first_state(problem, 0), 60, 0.0)
    assert state.repairs > 0 and np.all(np.diff(state.bounds) >= -1e-9 * np.abs(state.bounds[1:]))


def test_rates_end_where_the_bound_is_largest(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = counts(rng, n=40)
    K, F = 3, 8
    model = GammaPoisson(K, F, mean=0.5, start=rng.gamma(0.5, 2.0, (K, F))).replaced(visit=SETTLED)
    problem = plan.problem(model, table(cells(X)), CVI())
    state = plan.run(problem, first_state(problem, 0), 2000, 1e-12)
    r, s = (float(np.exp(state.q[name].value[0])) for name in ("activation_rate", "component_rate"))

    def bound(r, s):
        """Of the rows where the fit has them: begun anew they may end in another optimum, of another slope."""
        q = {**state.q, "activation_rate": Point(np.log([r])), "component_rate": Point(np.log([s]))}
        rows = settled(model, q, X, state.locals.values).value.sum()
        return rows - q["components"].kl(model.prior(q)["components"])

    best = bound(r, s)
    assert best == pytest.approx(state.bound, rel=1e-9)
    assert all(bound(r * c, s) < best > bound(r, s * c) for c in (0.8, 1.25))
    slopes = [(bound(r * 1.001, s) - best) / 0.001, (bound(r, s * 1.001) - best) / 0.001]
    assert np.max(np.abs(slopes)) < 1e-3 * abs(best)


def test_the_unit_of_a_factor_is_open(global_random_seed):
    """Only the product of the rates matters: components c times as large, activations a c-th."""
    rng = np.random.default_rng(global_random_seed)
    X, q, c = counts(rng), blocks(rng, 3, 8), 7.0
    model = GammaPoisson(3, 8)
    other = {
        "components": Gamma(q["components"].shape, q["components"].rate / c),
        "activation_rate": Point(q["activation_rate"].value + np.log(c)),
        "component_rate": Point(q["component_rate"].value - np.log(c)),
    }
    one, two = settled(model, q, X), settled(model, other, X)
    np.testing.assert_allclose(one.value, two.value, rtol=1e-9)
    np.testing.assert_allclose(one.activations, c * two.activations, rtol=1e-6)
    kl = [q_["components"].kl(model.prior(q_)["components"]) for q_ in (q, other)]
    assert kl[0] == pytest.approx(kl[1], rel=1e-9)


def test_steps_beyond_stay_in_the_domain():
    before, new = Gamma([1.0, 1.0], [1.0, 4.0]), Gamma([0.1, 3.0], [5.0, 1.0])
    far = new.beyond(before, 0.8)
    np.testing.assert_allclose(far.shape, [0.03, 4.6])
    np.testing.assert_allclose(far.rate, [8.2, 0.3])


@pytest.mark.parametrize("algorithm", [CVI(), SSVIA()])
def test_bits_do_not_depend_on_threads(algorithm):
    X = counts(np.random.default_rng(0), n=290)
    ends = []
    for threads in (1, 3):
        model = GammaPoisson(4, 8, mean=0.4, start=np.random.default_rng(1).gamma(1.0, 1.0, (4, 8)))
        problem = plan.problem(model, table(cells(X)), algorithm, batch_size=140, threads=threads)
        ends.append(plan.run(problem, first_state(problem, 3), 4, 0.0))
    for name in ("components",):
        np.testing.assert_array_equal(ends[0].q[name].theta, ends[1].q[name].theta)
    assert ends[0].bound == ends[1].bound
