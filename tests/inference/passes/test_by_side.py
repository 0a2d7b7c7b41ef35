"""Passes side by side serve any family with plates: a Gamma-Poisson factorization of a small matrix, whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from sksvi.algorithms import MCSSVI, SDSVI
from sksvi.families import Gamma
from sksvi.inference import plan
from sksvi.inference.engine import exact_bound
from sksvi.inference.start import first_state
from sksvi.inference.state import PlateMemory
from sksvi.models.base import Bipartite, Segment
from sksvi.models.factorization.ratings import Ratings
from sksvi.models.traits import AlternatingTraits
from sksvi.testing import check_model

SIDES = ("users", "items")


class Counts(Bipartite):
    """y_ij ~ Poisson(u_iᵀ v_j), u and v Gamma, every pair seen: the bound with each count split among the factors."""

    alternating = AlternatingTraits(SIDES, longest_hyper=0.1)

    def __init__(self, n_factors):
        self.n_factors = n_factors

    def begin(self, data, rng, threads=1):
        sizes = (len(data.sides[side].starts) - 1 for side in SIDES)
        shapes = ((n, self.n_factors) for n in sizes)
        return {
            side: Gamma(rng.uniform(1, 2, shape), np.ones(shape)) for side, shape in zip(SIDES, shapes, strict=True)
        }

    def prior(self, q):
        prior = Gamma(np.full(self.n_factors, 0.5), np.full(self.n_factors, 0.5))
        return dict.fromkeys(SIDES, prior)

    def sweep(self, data, batch_size, seed, number):
        for side in SIDES:
            yield Segment(slice(0, len(data)), 1.0, (side,))

    def side_view(self, q, side, expect, rng):
        return Other(q[SIDES[1 - SIDES.index(side)]])

    def learned(self, q, natural):
        return q

    # ---- the bound of all entries, item by item
    def chunks(self, rows, data):
        return data.sides["items"].chunks()

    def batch(self, data, rows, start=None):
        return rows, data.sides["items"].of(rows)

    def terms(self, view, batch, expect, rng):
        plates, entries = batch
        return At(Split(view["users"], entries).value(view["items"][plates]))

    def pull_back(self, terms, batch):
        return {}


class Other:
    """One side as the plates of the other depend on it."""

    def __init__(self, block):
        self.block = block

    def chunks(self, entries, plates=None):
        return entries.chunks(plates)

    def plates(self, entries, expect, rng):
        return Split(self.block, entries)


class At:
    repairs = 0

    def __init__(self, value):
        self.value = value


class Split:
    """Some plates given the other side: each count goes to the factors in proportion to exp E log(u v)."""

    judged = True

    def __init__(self, other, entries):
        self.other, self.entries = other, entries

    def _logs(self, block):
        owner = np.repeat(np.arange(block.n_plates), self.entries.counts)
        return owner, block.mean_log[owner] + self.other.mean_log[self.entries.other]

    def value(self, block):
        owner, logs = self._logs(block)
        rate = np.sum(block.mean[owner] * self.other.mean[self.entries.other], axis=1)
        y = self.entries.y
        return self.entries.summed(y * logsumexp(logs, axis=1) - rate - gammaln(y + 1.0))

    def terms(self, block):
        _, logs = self._logs(block)
        share = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        counts = self.entries.summed(self.entries.y[:, None] * share)
        rates = self.entries.summed(self.other.mean[self.entries.other])
        return self.value(block), (np.stack([counts, -rates], -1),)

    def hyper(self, block):
        return {}

    def refined(self, own, new, prior):
        return new

    def mended(self, own, new, prior, after):
        return new, after, 0


@pytest.fixture
def counts(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y = rng.poisson(rng.gamma(1.0, 1.0, (12, 3)) @ rng.gamma(1.0, 1.0, (3, 9))).astype(float)
    users, items = (part.ravel() for part in np.indices(y.shape))
    return y, Ratings(users, items, y.ravel(), None, *y.shape)


def coordinate_ascent(y, q, passes):
    """The same, as it is derived: shapes count, rates add up the other side's means."""
    a, b = (q[side] for side in SIDES)
    for _ in range(passes):
        for first in (True, False):
            logs = a.mean_log[:, None] + b.mean_log[None]
            share = np.exp(logs - logsumexp(logs, axis=2, keepdims=True)) * y[..., None]
            if first:
                a = Gamma(0.5 + share.sum(1), 0.5 + np.broadcast_to(b.mean.sum(0), a.mean.shape))
            else:
                b = Gamma(0.5 + share.sum(0), 0.5 + np.broadcast_to(a.mean.sum(0), b.mean.shape))
    return a, b


def test_it_is_coordinate_ascent(counts, global_random_seed):
    y, data = counts
    problem = plan.problem(Counts(3), data, MCSSVI())
    start = first_state(problem, global_random_seed)
    state = plan.run(problem, replace(start, q={side: start.q[side].copy() for side in SIDES}), 25, 0.0)
    for side, block in zip(SIDES, coordinate_ascent(y, start.q, 25), strict=True):
        np.testing.assert_allclose(state.q[side].shape, block.shape, rtol=1e-8)
        np.testing.assert_allclose(state.q[side].rate, block.rate, rtol=1e-8)
    assert np.all(np.diff(state.bounds) >= -1e-9 * np.abs(state.bounds[1:]))
    assert state.bound == pytest.approx(exact_bound(problem, state), rel=1e-10)


def test_its_gradients_are_those_of_its_bound(counts, global_random_seed):
    check_model(Counts(3), counts[1], seed=global_random_seed)


def test_every_plate_has_its_clock_and_its_sums(counts, global_random_seed):
    """AdaGrad on unconstrained coordinates remembers plate by plate, and climbs."""
    _, data = counts
    problem = plan.problem(Counts(3), data, SDSVI())
    start = first_state(problem, global_random_seed)
    before = exact_bound(problem, start)
    state = plan.run(problem, start, 40, 0.0)
    memory = state.memory["users"]
    assert isinstance(memory, PlateMemory) and np.all(memory.clock == 40)
    assert memory.rule.total.shape == (12, 3, 2)
    assert state.bound > before
