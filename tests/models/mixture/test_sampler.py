"""Collapsed Gibbs sampling against enumeration, and moves against the bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import softmax

from sksvi import algorithms
from sksvi.inference import engine, plan
from sksvi.inference.start import first_state
from sksvi.models.mixture.model import MixtureModel
from sksvi.models.mixture.moves import Moves, entropies_of_merges
from sksvi.models.mixture.sampler import MixtureDraw, MixtureSampler
from tests.models.mixture.test_model import data_of, evidence_of, table


@pytest.mark.costly
@pytest.mark.parametrize("side_by_side", [False, True])
def test_the_sampler_visits_labels_as_often_as_enumeration_says(side_by_side, global_random_seed):
    """Four rows, two components: the probability of each of the eight partitions into ordered labels."""
    sizes = (2, 3, 2)
    codes = table(sizes, 4, 2, 0.2)
    model = MixtureModel(2, sizes, concentration=1.5, value_prior=0.5, binary=False)
    sampler = MixtureSampler(model, data_of(model.layout, codes))
    every = list(product(range(2), repeat=4))
    logs = []
    for labels in every:
        draw = sampler.begin({}, np.array(labels))
        logs.append(sampler.of_labels(draw.rows) + sampler.of_cells(draw.counts, draw.log_prior))
    wanted = softmax(logs)
    np.testing.assert_allclose(np.logaddexp.reduce(logs), evidence_of(model, codes), rtol=1e-12)
    rng, draw, n = np.random.default_rng(global_random_seed), sampler.begin({}, np.zeros(4)), 20000
    visits = np.zeros(len(every))
    chain = []
    for _ in range(n):
        if side_by_side:
            draw = sampler.side_by_side(draw, rng, 1)
        else:
            draw, _ = sampler.sweep(draw, rng)
        at = every.index(tuple(draw.labels.tolist()))
        visits[at] += 1
        chain.append(at)
    # Sweeps are correlated: the standard error is that of 100 batches.
    batches = np.array([np.bincount(part, minlength=16) / len(part) for part in np.array_split(chain, 100)])
    error = batches.std(0) / 10.0
    assert np.all(np.abs(visits / n - wanted) < 4.5 * error + 1e-4)
    draw, value = sampler.sweep(draw, rng)
    np.testing.assert_allclose(value, logs[every.index(tuple(draw.labels.tolist()))], rtol=1e-12)


@pytest.mark.costly
def test_the_prior_count_is_drawn_as_quadrature_says(global_random_seed):
    """All rows in the only component: p(log c | X) on a grid."""
    codes = table((2, 3, 2, 2), 30, global_random_seed, 0.2)
    model = MixtureModel(1, (2, 3, 2, 2), learns_prior=True, binary=False)
    sampler = MixtureSampler(model, data_of(model.layout, codes))
    rng, draw = np.random.default_rng(global_random_seed), sampler.begin(model.start_of_prior, np.zeros(30))
    grid = np.linspace(-6.0, 6.0, 2001)
    wanted = softmax([sampler.of_cells(draw.counts, x) + model.log_density_at(x) for x in grid])
    chain = []
    for _ in range(2000):
        draw, value = sampler.sweep(draw, rng)
        chain.append(draw.log_prior)
    np.testing.assert_allclose(value, sampler.of_labels(draw.rows) + sampler.of_cells(draw.counts, draw.log_prior))
    for power in (1, 2):
        parts = np.array([np.mean(part**power) for part in np.array_split(np.array(chain), 50)])
        error = parts.std(ddof=1) / np.sqrt(50)
        assert abs(parts.mean() - wanted @ grid**power) < 4.5 * error
    q = sampler.matched([draw])
    assert q["value_prior"].value == draw.log_prior
    np.testing.assert_allclose(q["values_3"].theta.sum(), 3 * np.exp(draw.log_prior) + np.sum(codes[:, 1] >= 0))


def test_counts_stay_those_of_the_labels(global_random_seed):
    codes = table((2, 4, 3), 50, global_random_seed, 0.2)
    model = MixtureModel(5, (2, 4, 3), concentration=4.0, binary=False)
    sampler = MixtureSampler(model, data_of(model.layout, codes))
    draw = sampler.begin({}, np.zeros(50))
    rng = np.random.default_rng(global_random_seed)
    for _ in range(5):
        draw, _ = sampler.sweep(draw, rng)
    again = sampler.begin({}, draw.labels)
    np.testing.assert_array_equal(draw.rows, again.rows)
    np.testing.assert_array_equal(draw.counts, again.counts)
    q = sampler.matched([draw])
    for name, (m, columns) in model.names.items():
        for j, d in enumerate(columns):
            counts = [np.bincount(codes[(draw.labels == k) & (codes[:, d] >= 0), d], minlength=m) for k in range(5)]
            np.testing.assert_allclose(q[name].theta[:, j], 1.0 + np.array(counts))
    assert isinstance(draw.globals, MixtureDraw) and not len(draw.globals.labels)


def groups(seed, n=120, d=20, missing=0.1):
    """Three groups that differ in every column."""
    rng = np.random.default_rng([seed, 31])
    probability = rng.beta(0.3, 0.3, (3, d))
    labels = rng.integers(0, 3, n)
    codes = (rng.random((n, d)) > probability[labels]).astype(int)
    codes[rng.random(codes.shape) < missing] = -1
    return codes, labels


@pytest.mark.parametrize("every", [False, True])
def test_moves_raise_the_bound_and_mend_what_was_split(every, global_random_seed):
    codes, labels = groups(global_random_seed)
    model = MixtureModel(6, (2,) * 20, concentration=1.0)
    weight = np.random.default_rng(global_random_seed).uniform(0.5, 2.0, len(codes))
    data = data_of(model.layout, codes, weight)
    # Every group in two halves, which no step of single rows leaves.
    halves = np.eye(6)[2 * labels + np.arange(len(labels)) % 2] * weight[:, None]
    q, whole = (
        model.updated(model.counted(parts, data.X), {}) for parts in (halves, np.eye(6)[labels] * weight[:, None])
    )
    problem = plan.problem(model, data, algorithms.resolve("svi")).for_bound
    state = first_state(problem, 0)
    before = engine.exact_bound(problem, replace(state, q=q))
    found, taken = Moves(model, data, q).run(every)
    after = engine.exact_bound(problem, replace(state, q=found))
    assert taken >= 3 and after > before + 10.0
    # A row or two of a group may be nearer to another one: what is asked is where the groups that drew them have them.
    ours, wanted = (softmax(model.view(blocks, None).logs(data.X), axis=1) for blocks in (found, whole))
    clear = wanted.max(axis=1) > 0.99
    assert np.mean(clear) > 0.5
    assert len({*zip(ours.argmax(1)[clear], wanted.argmax(1)[clear], strict=True)}) == 3
    _, taken = Moves(model, data, found).run(every)
    assert not taken


def test_a_deletion_pays_for_the_components_that_it_fills(global_random_seed):
    """Rows of a component that goes may be nearest to one that had none, whose prior they then have to move."""
    codes, labels = groups(global_random_seed)
    model = MixtureModel(6, (2,) * 20, concentration=1.0)
    data = data_of(model.layout, codes)
    q = model.updated(model.counted(np.eye(6)[2 * labels + np.arange(len(labels)) % 2], data.X), {})
    moves = Moves(model, data, q)
    halves = np.flatnonzero(moves.counts["weights"])
    for k in halves[1::2]:  # their rows go to the other halves, and they stay
        moves._merge(k, k - 1)
        moves.gone[k] = False
    for _ in range(20):
        before = moves.bound()
        if not moves._deleted():
            break
        assert moves.bound() > before
    assert moves.counts["weights"].sum() == pytest.approx(len(codes))


def test_the_gain_of_a_move_is_that_of_the_bound(global_random_seed):
    """At fixed responsibilities, by the definition of the bound: expected log joint less Σ r log r."""
    codes, _ = groups(global_random_seed, n=40, d=6)
    model = MixtureModel(4, (2,) * 6, concentration=2.0)
    data = data_of(model.layout, codes)
    rng = np.random.default_rng(global_random_seed)
    moves = Moves(model, data, model.begin(data, rng))

    def value(shares):
        q, logs = model.updated(model.counted(shares, data.X), {}), shares * np.log(np.where(shares > 0, shares, 1.0))
        kl = sum(q[name].kl(model.prior(q)[name]) for name in q)
        return float(np.sum(shares * model.view(q, None).logs(data.X)) - logs.sum()) - kl

    shares = moves.shares.shares.toarray()
    merged = shares.copy()
    merged[:, 2] += merged[:, 0]
    merged[:, 0] = 0.0
    own, rows = moves._evidence(moves._of(moves.counts, np.array([0, 2]))), moves.counts["weights"]
    both = {name: part[[2]] + part[[0]] for name, part in moves.counts.items()}
    gain = moves._evidence(both)[0] - own.sum() + moves._of_weights(both["weights"])[0]
    gain += entropies_of_merges(0, [2], moves.shares)[0] - moves._of_weights(rows[[0, 2]]).sum()
    np.testing.assert_allclose(gain, value(merged) - value(shares), rtol=1e-7, atol=1e-7)
