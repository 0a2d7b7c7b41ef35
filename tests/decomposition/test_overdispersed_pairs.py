"""Counts of pairs that vary more than Poisson ones: bound, gradient and draws; fits where the truth is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import digamma
from scipy.stats import gamma, nbinom

from sksvi import PoissonFactorization, load
from sksvi.families import Gamma, Point
from sksvi.models.nmf.cells import cells, table
from sksvi.models.nmf.overdispersed import (
    OverdispersedPoisson,
    best_dispersion,
    drawn_tables,
    jump,
    log_dispersion_of,
)
from sksvi.models.nmf.rows import SETTLE

N_USERS, N_ITEMS, K = 80, 30, 2


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 45])


def plays(seed, dispersion):
    """Expected counts (users, items), pairs with counts, and these: negative binomial, or Poisson with dispersion 1."""
    rng = np.random.default_rng([seed, 46])
    rate = rng.gamma(0.5, 2.0, (N_USERS, K)) @ rng.gamma(0.5, 2.0, (K, N_ITEMS))
    own = rate if dispersion == 1 else rng.gamma(rate / (dispersion - 1), dispersion - 1)
    y = rng.poisson(own)
    user, item = np.nonzero(y)
    return rate, pd.DataFrame({"user": user, "item": item}), y[user, item].astype(float)


@pytest.fixture(scope="module")
def fitted(global_random_seed):
    """Truth, and the fits that take counts of dispersion 20 as they are and as Poisson ones."""
    rate, X, y = plays(global_random_seed, 20.0)
    models = [PoissonFactorization(K, overdispersion=o, random_state=0).fit(X, y) for o in ("auto", "none")]
    return rate, X, y, *models


# ---- the model
def rows_at(log_dispersion, rng, n=4, F=5):
    """A model, its blocks, data, and the terms of rows that have settled."""
    Y = np.floor(rng.gamma(0.2, 50.0, (n, F)))
    model = OverdispersedPoisson(K, F, mean=1.0, start=np.ones((K, F)))
    q = {
        "components": Gamma(rng.gamma(2.0, 1.0, (K, F)) + 0.5, np.full((K, F), 2.0)),
        **{name: Point(np.zeros(1)) for name in ("activation_rate", "component_rate")},
    }
    data = table(cells(Y))

    def settled(log_L):
        view, start = model.view({**q, "dispersion": Point(np.array([log_L]))}, None), np.zeros((n, K))
        for _ in range(60):
            batch = model.batch(data, np.arange(n), start)
            terms = model.settled(view, batch, SETTLE)
            start = terms.local
        return terms, batch

    return Y, model, q, settled


def test_the_bound_is_that_of_the_negative_binomial(rng):
    Y, _, q, settled = rows_at(0.7, rng)
    terms, _ = settled(0.7)
    H, L = Gamma(0.3 + terms.local, np.array(terms.rate)), np.exp(0.7)
    events = np.exp(H.mean_log) @ np.exp(q["components"].mean_log)
    expected = nbinom.logpmf(Y, events / L, np.exp(-L)) + events - H.mean @ q["components"].mean
    prior = Gamma(np.full(H.shape.shape, 0.3), np.ones(H.shape.shape))
    assert terms.value.sum() == pytest.approx(expected.sum() - H.divergence(prior).sum(), abs=1e-6)


def test_slope_in_the_dispersion_is_that_of_the_bound(rng):
    _, model, _, settled = rows_at(0.7, rng)
    slope = model.pull_back(*settled(0.7))["dispersion"][0][0]
    ends = [settled(0.7 + step)[0].value.sum() for step in (1e-4, -1e-4)]
    assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_the_bound_of_a_cell_is_below_its_evidence():
    y, L = 40.0, np.log(15.0)
    model = OverdispersedPoisson(1, 1, component_shape=0.8, activation_shape=0.7, start=np.ones((1, 1)))
    rates = {
        "activation_rate": Point(np.zeros(1)),
        "component_rate": Point(np.zeros(1)),
        "dispersion": Point(np.log([L])),
    }
    data, start, own = table(cells(np.array([[y]]))), np.zeros((1, 1)), Gamma(np.ones((1, 1)), np.ones((1, 1)))
    for _ in range(100):  # coordinate ascent of both sides
        view = model.view({**rates, "components": own}, None)
        terms = model.settled(view, model.batch(data, np.arange(1), start), SETTLE)
        start = terms.local
        bound = terms.value[0] - own.divergence(Gamma(np.full((1, 1), 0.8), np.ones((1, 1)))).sum()
        own = Gamma(0.8 + terms.counts.T, 1.0 + np.reshape(terms.exposure, (1, 1)))

    log_w, log_h = np.meshgrid(*(np.linspace(-12.0, 4.0, 400),) * 2)  # a smooth density: the trapezoid is exact
    w, h = np.exp(log_w), np.exp(log_h)
    density = nbinom.pmf(y, w * h / L, np.exp(-L)) * gamma.pdf(w, 0.8) * w * gamma.pdf(h, 0.7) * h
    evidence = np.log(density.sum() * (16.0 / 399) ** 2)
    assert evidence - 1.0 < bound < evidence


def test_tables_of_a_restaurant_are_a_sum_of_bernoulli_draws(rng):
    y, rho, n = np.array([1.0, 3.0, 50.0, 5000.0]), np.array([0.5, 2.0, 0.3, 4.0]), 4000
    drawn = drawn_tables(np.tile(y, n), np.tile(rho, n), rng).reshape(n, -1)
    new = [r / (r + np.arange(m)) for m, r in zip(y, rho, strict=True)]
    np.testing.assert_allclose([p.sum() for p in new], rho * (digamma(y + rho) - digamma(rho)))
    variance = np.array([np.sum(p * (1.0 - p)) for p in new])
    assert np.all(np.abs(drawn.mean(0) - [p.sum() for p in new]) <= 4.0 * np.sqrt(variance / n))
    assert np.all(np.abs(drawn.var(0) - variance) <= 8.0 * variance / np.sqrt(n))


def test_clicks_and_poisson_counts_gain_nothing(rng):
    rate = rng.gamma(2.0, 1.0, 4000)
    y = rng.poisson(rate)
    there = y > 0
    assert best_dispersion(y[there], rate[there], rate.sum())[0] < np.log(there.sum())
    assert best_dispersion(np.ones(50), np.full(50, 0.5), 50.0)[0] < 0.0
    assert jump(log_dispersion_of(7.0)) == pytest.approx(7.0) and log_dispersion_of(1.0) < 1e-5


# ---- fits
def test_dispersion_is_found_and_intervals_hold_means(fitted):
    rate, _, y, model, poisson = fitted
    assert poisson.dispersion_ == 1.0 and model.dispersion_ == pytest.approx(20.0, rel=0.35)
    assert model.lower_bound_ > poisson.lower_bound_ + 1000.0
    asked = pd.DataFrame([(u, i) for u in model.users_ for i in model.items_], columns=["user", "item"])
    truth, weight = rate[asked["user"], asked["item"]], y.sum()
    assert model.predict(asked).sum() == pytest.approx(weight, rel=0.1)
    covered = {}
    for name, one in (("own", model), ("poisson", poisson)):
        ends = [one.recommend(one.users_, 99, False, way).sort_values(["user", "item"]) for way in ("lower", "ucb")]
        low, high = (table["score"].to_numpy() for table in ends)
        covered[name] = np.mean((low <= truth) & (truth <= high))
    # Rates of one fit hang together: their coverage has a spread of some 0.03.
    assert covered["poisson"] < 0.6 < 0.75 < covered["own"]
    mean, std = model.predict(asked, return_std=True)
    assert np.all(np.square(std) > model.dispersion_ * mean)
    rng = np.random.default_rng(0)
    new = rng.poisson(rng.gamma(truth / 19.0, 19.0))
    assert model.score(asked, new) > poisson.score(asked, new)


def test_poisson_counts_stay_poisson_to_the_bit(global_random_seed):
    _, X, y = plays(global_random_seed, 1.0)
    options = {"uncertainty": "variational", "random_state": 0}
    auto, none = (PoissonFactorization(K, overdispersion=o, **options).fit(X, y) for o in ("auto", "none"))
    assert auto.dispersion_ == 1.0
    np.testing.assert_array_equal(auto.components_, none.components_)


@pytest.mark.costly
def test_what_goes_on_from_an_overdispersed_fit(fitted, tmp_path):
    _, X, y, model, _ = fitted
    guests = model.fold_in(X[X["user"] == 3].assign(user="guest"), y[X["user"] == 3])
    own = list(model.users_).index(3)
    np.testing.assert_allclose(guests.mean[0], model.user_factors_[own], rtol=0.05, atol=1e-4)
    assert np.all(guests.std > 0)
    model.save(tmp_path / "plays.sksvi")
    again = load(tmp_path / "plays.sksvi")
    np.testing.assert_array_equal(again.predict(X[:9], return_std=True), model.predict(X[:9], return_std=True))
    again.partial_fit(pd.DataFrame({"user": [3, 999], "item": [0, 1]}), [100, 40])
    assert again.dispersion_ > 10.0 and 999 in again.users_
    assert again.predict([(3, 0)])[0] > model.predict([(3, 0)])[0]
    model.save(tmp_path / "bare.sksvi", training_rows=False)
    with pytest.raises(ValueError, match=r"overdispersed.*training_rows=False"):
        load(tmp_path / "bare.sksvi").partial_fit(X[:2], y[:2])
    assert model.to_arviz(n_samples=3, random_state=0) is not None
    with pytest.raises(ValueError, match="overdispersed, which the draws of rows"):
        model.to_arviz(X, y)
