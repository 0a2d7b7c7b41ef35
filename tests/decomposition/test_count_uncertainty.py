"""Corrected variances of factorizations of counts: what they cover, and where they come from."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import gamma
from sklearn.base import clone

import sksvi
from sksvi import GammaPoissonFactorization, GammaProcessNMF, PoissonFactorization

TABLES = [GammaPoissonFactorization, GammaProcessNMF]


def simulated(seed, size=(60, 30), n_components=2):
    """Expected counts, counts, and which cells are missing."""
    rng = np.random.default_rng([seed, 6])
    mean = rng.gamma(0.5, 2.0, (size[0], n_components)) @ rng.gamma(0.5, 2.0, (n_components, size[1]))
    return mean, rng.poisson(mean).astype(float), rng.random(size) < 0.2


def pairs_of(counts):
    where = np.argwhere(counts > 0)
    return where, counts[tuple(where.T)]


def expected(kind, seed, uncertainty):
    """Truth, mean and variance of expected counts: of missing cells, or of all pairs."""
    truth, counts, missing = simulated(seed)
    model = kind(4, uncertainty=uncertainty, random_state=0)
    if kind is PoissonFactorization:
        model.fit(*pairs_of(counts))
        cells = np.argwhere(np.outer(counts.any(1), counts.any(0)))
        mean, std = model.predict(cells, return_std=True)
        return truth[tuple(cells.T)], mean, np.square(std) - mean
    rows = np.where(missing, np.nan, counts)
    mean, std = model.fit(rows).reconstruct(rows, return_std=True)
    return truth[missing], mean[missing], np.square(std[missing])


@pytest.mark.costly
@pytest.mark.parametrize("kind", [PoissonFactorization, *TABLES])
def test_intervals_of_expected_counts_cover(kind, global_random_seed):
    """Eight tables of two components, fitted with four: 90 % intervals cover as they say; q's 0.7 to 0.8."""
    covered = {"corrected": [], "variational": []}
    for number in range(8):
        for uncertainty, hits in covered.items():
            truth, mean, variance = expected(kind, 10 * global_random_seed + number, uncertainty)
            low, high = (gamma.ppf(p, mean**2 / variance, scale=variance / mean) for p in (0.05, 0.95))
            hits.append(np.mean((low < truth) & (truth < high)))
    mean, error = np.mean(covered["corrected"]), np.std(covered["corrected"]) / np.sqrt(8)
    assert 0.84 - 4 * error < mean < 0.95 + 4 * error
    assert mean - 0.02 > np.mean(covered["variational"])


@pytest.mark.costly
@pytest.mark.parametrize("kind", TABLES)
def test_means_are_those_of_q_and_variances_those_of_draws(kind, tmp_path):
    _, counts, missing = simulated(0)
    rows = np.where(missing, np.nan, counts)
    model, plain = (kind(3, uncertainty=name, random_state=0).fit(rows) for name in ("corrected", "variational"))
    np.testing.assert_array_equal(model.components_, plain.components_)
    assert model.lower_bound_ == plain.lower_bound_
    (mean, std), (same, q_std) = (m.reconstruct(rows, return_std=True) for m in (model, plain))
    np.testing.assert_array_equal(mean, same)
    assert np.mean(np.square(std)) > 1.05 * np.mean(np.square(q_std))
    assert np.median(model.summary()["std"] / plain.summary()["std"]) > 1.0
    np.testing.assert_allclose(model.reconstruct(rows[5:8], return_std=True)[1], std[5:8], rtol=1e-4)
    again = clone(model).set_params(n_jobs=2).fit(rows)
    np.testing.assert_array_equal(again.reconstruct(rows, return_std=True)[1], std)
    model.save(tmp_path / "model")
    loaded = sksvi.load(tmp_path / "model")
    (mean, std), (same, loaded_std) = (m.transform(rows, return_std=True) for m in (model, loaded))
    np.testing.assert_array_equal(mean, same)
    np.testing.assert_array_equal(std, loaded_std)


@pytest.mark.costly
def test_pairs_and_folded_users():
    _, counts, _ = simulated(1)
    X, y = pairs_of(counts)
    model = PoissonFactorization(3, random_state=0).fit(X, y)
    draws = model.draws_
    users, items = (np.searchsorted(ids, column) for ids, column in zip((model.users_, model.items_), X[:50].T))
    mean, std = model.predict(X[:50], return_std=True)
    f = (draws.users[users].astype(float) * draws.items[items]).sum(-1)
    np.testing.assert_allclose(np.square(std) - mean, np.mean((f - mean[:, None]) ** 2, axis=1), rtol=1e-4)
    table = model.recommend([0], n=3, exclude_seen=False)
    again = model.predict(table[["user", "item"]].to_numpy(), return_std=True)[1]
    np.testing.assert_allclose(table["std"], again, rtol=1e-4)
    own = X[:, 0] == 0
    guests = model.fold_in(np.column_stack([np.full(own.sum(), -1), X[own, 1]]), y[own])
    inside, outside = model.transform(X[own][:1], return_std=True)[1], model.transform(guests, return_std=True)[1]
    np.testing.assert_allclose(inside, outside, rtol=0.8)
    np.testing.assert_array_equal(guests.std, outside)
    model.partial_fit(X[:3], y[:3])
    assert model.draws_ is None


def test_what_is_not_corrected():
    _, counts, _ = simulated(2)
    model = GammaPoissonFactorization(2, random_state=0).fit(counts)
    assert model.draws_ is not None
    assert model.partial_fit(counts[:5]).draws_ is None
    with pytest.raises(ValueError, match="uncertainty"):
        GammaProcessNMF(2, uncertainty="none").fit(counts)


def test_sparse_rows_have_the_variances_of_dense_ones():
    _, counts, _ = simulated(3)
    model = GammaPoissonFactorization(3, random_state=0).fit(counts)
    sparse = clone(model).fit(sp.csr_matrix(counts))
    std = model.reconstruct(counts, return_std=True)[1]
    np.testing.assert_allclose(sparse.reconstruct(sp.csr_matrix(counts), return_std=True)[1], std, rtol=1e-5)
