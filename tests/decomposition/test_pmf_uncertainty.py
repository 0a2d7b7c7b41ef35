"""Corrected variances of ``GeneralizedPMF``: what they cover, and where they come from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import sksvi
from sksvi import GeneralizedPMF
from sksvi.decomposition._joint_draws import affordable, chain_length
from sksvi.models.chains import ChainLength

SIZE = (60, 40)


def simulated(seed, likelihood="gaussian", share=0.2, n_factors=2):
    """Pairs, their y, pairs left out whose ids are in the fit, and f there."""
    rng = np.random.default_rng([seed, 5])
    u, v = (np.sqrt(0.7) * rng.standard_normal((n, n_factors)) for n in SIZE)
    f = u @ v.T + 0.5 * rng.standard_normal(SIZE[0])[:, None] + 0.5 * rng.standard_normal(SIZE[1])
    there = rng.random(SIZE) < share
    y = f + 0.7 * rng.standard_normal(SIZE) if likelihood == "gaussian" else rng.poisson(np.exp(f))
    left = ~there & there.any(1)[:, None] & there.any(0)
    return np.argwhere(there), y[there].astype(float), np.argwhere(left), f[left]


def fitted(seed=0, likelihood="gaussian", **options):
    X, y, left, f = simulated(seed, likelihood)
    options = {"n_components": 3, "likelihood": likelihood, "random_state": 0, "on_unseen": "ignore", **options}
    return GeneralizedPMF(**options).fit(X, y), left, f


@pytest.mark.costly
@pytest.mark.parametrize("likelihood", ["gaussian", pytest.param("poisson", marks=pytest.mark.exhaustive)])
def test_intervals_of_f_cover(likelihood, global_random_seed):
    """Six tables with 20 % of their cells: 90 % intervals of the others cover as they say; q's 0.7 to 0.8."""
    covered = {"corrected": [], "variational": []}
    for number in range(6):
        for uncertainty, hits in covered.items():
            model, left, f = fitted(10 * global_random_seed + number, likelihood, uncertainty=uncertainty)
            mean, variance = model.predict_latent(left)
            hits.append(np.mean(np.abs(f - mean) < 1.645 * np.sqrt(variance)))
    mean, error = np.mean(covered["corrected"]), np.std(covered["corrected"]) / np.sqrt(6)
    assert 0.84 - 4 * error < mean < 0.95 + 4 * error
    assert mean - 0.02 > np.mean(covered["variational"])


@pytest.mark.costly
def test_intervals_of_f_cover_where_ratings_are_too_few_for_all_factors(global_random_seed):
    """5 % of 300 x 200 cells and 20 factors for 3: when all of them began, they held 0.64 of f and had a larger error.

    All beginning, the variances of 17 hid what the others had to say, and all were shrunk away.
    """
    covered, errors = [], []
    for number in range(3):
        rng = np.random.default_rng([global_random_seed, number, 17])
        u, v = (np.sqrt(0.5) * rng.standard_normal((n, 3)) for n in (300, 200))
        f = u @ v.T + 0.5 * rng.standard_normal((300, 1)) + 0.5 * rng.standard_normal(200)
        there = rng.random(f.shape) < 0.05
        X, y = np.argwhere(there), f[there] + 0.7 * rng.standard_normal(there.sum())
        left = np.argwhere(~there & there.any(1)[:, None] & there.any(0))
        mean, variance = GeneralizedPMF(random_state=0).fit(X, y).predict_latent(left)
        truth = f[tuple(left.T)]
        covered.append(np.mean(np.abs(truth - mean) < 1.645 * np.sqrt(variance)))
        errors.append(np.mean(np.square(truth - mean)) / np.var(truth))
    assert np.mean(covered) > 0.84 - 4 * np.std(covered) / np.sqrt(3)
    assert np.mean(errors) < 0.68


def test_means_and_the_bound_are_those_of_q():
    (model, left, _), (plain, *_) = fitted(), fitted(uncertainty="variational")
    for name in ("user_factors_", "item_factors_", "user_biases_", "lower_bound_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(plain, name))
    (mean, variance), (same, q_variance) = (m.predict_latent(left) for m in (model, plain))
    np.testing.assert_array_equal(mean, same)
    assert plain.draws_ is None
    assert np.median(variance / q_variance) > 1.05
    assert np.mean(model.summary()["std"].to_numpy()[:-1] > plain.summary()["std"].to_numpy()[:-1]) > 0.8
    assert (
        np.mean(np.diagonal(model.user_covariance_, axis1=1, axis2=2).mean())
        > plain.posterior_["users"].variance.mean()
    )


def test_variances_are_those_of_the_draws():
    model, left, _ = fitted()
    draws = model.draws_
    mean, variance = model.predict_latent(left)
    users, items = (np.searchsorted(ids, column) for ids, column in zip((model.users_, model.items_), left.T))
    u, v = draws.users[users].astype(float), draws.items[items].astype(float)
    f = (u[..., :3] * v[..., :3]).sum(-1) + u[..., 3] + v[..., 3] + model._encoding.offset
    np.testing.assert_allclose(variance, np.mean((f - mean[:, None]) ** 2, axis=1), rtol=1e-4)
    gaps = draws.users[:, :, :3] - model.user_factors_[:, None]
    cov = np.einsum("psk,psl->pkl", gaps, gaps) / draws.n_draws
    np.testing.assert_allclose(model.user_covariance_, cov, rtol=0.2, atol=0.02 * cov.max())


def test_pairs_with_a_new_id_have_the_spread_of_the_other(global_random_seed):
    (model, left, _), (plain, *_) = fitted(global_random_seed), fitted(global_random_seed, uncertainty="variational")
    pairs = [("new", item) for item in left[:20, 1]]
    (mean, variance), (same, q_variance) = (m.predict_latent(pd.DataFrame(pairs)) for m in (model, plain))
    np.testing.assert_array_equal(mean, same)
    assert np.median(variance / q_variance) > 1.0
    assert np.all(model.predict_interval(model.fold_in([("new", left[0, 1])], [1.0])) < np.inf)


def test_the_same_bits_for_any_number_of_threads_and_from_files(tmp_path):
    model, left, _ = fitted(likelihood="poisson")
    again = clone(model).set_params(n_jobs=2).fit(*simulated(0, "poisson")[:2])
    np.testing.assert_array_equal(again.predict_latent(left)[1], model.predict_latent(left)[1])
    model.save(tmp_path / "model")
    loaded = sksvi.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_latent(left)[1], model.predict_latent(left)[1])
    np.testing.assert_array_equal(
        loaded.recommend([0], strategy="thompson", random_state=0)["score"],
        model.recommend([0], strategy="thompson", random_state=0)["score"],
    )


@pytest.mark.costly
def test_weights_are_copies():
    X, y, left, _ = simulated(1)
    times = np.random.default_rng(1).integers(1, 4, len(y))
    model = GeneralizedPMF(3, random_state=0, on_unseen="ignore").fit(X, y, sample_weight=times)
    copies = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(copies.predict_latent(left)[1], model.predict_latent(left)[1], rtol=1e-3)


def test_what_is_not_corrected():
    """Diagonal covariances, and a stream, whose ratings are gone."""
    model, left, _ = fitted(covariance="diag")
    assert model.draws_ is None
    model, left, _ = fitted()
    variance = model.predict_latent(left)[1]
    model.partial_fit(left[:3], np.zeros(3))
    assert model.draws_ is None
    assert np.median(model.predict_latent(left[10:])[1] / variance[10:]) < 1.0
    with pytest.raises(ValueError, match="uncertainty"):
        GeneralizedPMF(uncertainty="exact").fit(*simulated(0)[:2])


@pytest.mark.costly
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_users_folded_in_are_as_sure_as_those_of_a_fit(likelihood, global_random_seed):
    """Users left out of a fit and folded in: intervals of f with the other items cover as they say."""
    covered = []
    for number in range(4):
        X, y, left, f = simulated(10 * global_random_seed + number, likelihood, share=0.3)
        own, rest = X[:, 0] < 15, X[:, 0] >= 15
        model = GeneralizedPMF(3, likelihood=likelihood, random_state=0, on_unseen="ignore").fit(X[rest], y[rest])
        guests = model.fold_in(X[own], y[own])
        asked = (left[:, 0] < 15) & np.isin(left[:, 1], X[rest, 1])
        mean, variance = model.predict_latent(guests.pairs(left[asked]))
        covered.append(np.mean(np.abs(f[asked] - mean) < 1.645 * np.sqrt(variance)))
        assert guests._draws.shape == (len(guests), model.draws_.n_draws, 4) and np.all(guests.std > 0)
    assert 0.84 - 4 * np.std(covered) / 2 < np.mean(covered) < 0.97


def test_how_far_q_is_from_the_draws():
    (few, *_), X = fitted(), simulated(0, share=0.9)
    many = GeneralizedPMF(3, random_state=0).fit(*X[:2])
    for model in (few, many):
        for ids, k_hats in zip((model.users_, model.items_), model.draws_.k_hats.values(), strict=True):
            assert k_hats.shape == (len(ids),) and np.all((k_hats >= 0) & (k_hats < 1))
    assert np.mean(few.draws_.k_hats["users"]) > np.mean(many.draws_.k_hats["users"])


def test_the_length_of_a_chain_is_what_memory_and_the_fit_allow():
    assert chain_length(1000, 0.0) == ChainLength(40, 80)
    assert chain_length(2**20, 0.0).draws == 32
    assert chain_length(10**7, 0.0).draws == 25
    assert chain_length(10**9, 0.0) is None and chain_length(10**9, 1e12) == ChainLength(40, 80)
    whole = ChainLength(40, 80)
    assert affordable(whole, 1e5, 1) == whole and affordable(None, 1.0, 1) is None
    assert affordable(whole, 1e7, 60) == ChainLength(24, 48)
    assert affordable(whole, 1e7, 1) == ChainLength(15, 25)
    assert affordable(whole, 1e9, 1) is None


def test_users_of_the_fit_go_on_from_their_draws(global_random_seed):
    """Nothing new leaves variances as they are, more ratings lower them."""
    X, y, left, f = simulated(global_random_seed)
    model = GeneralizedPMF(3, random_state=0, on_unseen="ignore").fit(X, y)
    users, item = model.users_[:10], left[0, 1]
    pairs = np.column_stack([users, np.full(10, item)])
    mean, variance = model.predict_latent(pairs)
    same, found = model.predict_latent(model.fold_in(pairs, np.ones(10), sample_weight=np.full(10, 1e-12)).pairs(pairs))
    np.testing.assert_allclose(same, mean, atol=1e-6)
    np.testing.assert_allclose(found, variance, rtol=1e-3)
    more = left[left[:, 0] < 5]
    guests = model.fold_in(more, f[left[:, 0] < 5])
    assert np.mean(model.predict_latent(guests.pairs(more))[1]) < np.mean(model.predict_latent(more)[1])
