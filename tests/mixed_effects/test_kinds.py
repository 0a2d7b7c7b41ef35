"""Columns that levels fix: found row by row and in portions, and what their effects are estimated at."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sksvi import GMERegressor
from sksvi.mixed_effects import _levels
from sksvi.mixed_effects._levels import LevelValues, kinds_of

NAMES = np.array(["a", "b", "c", "d", "e"])
COLUMNS = 7


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


@pytest.fixture(params=["dense", "sparse"])
def form(request):
    return np.asarray if request.param == "dense" else sp.csr_array


def rows(rng, n=40, missing=True):
    """Codes, some of no level, and columns: fixed by levels (0, 3, 6), constant (4), and others; many zeros."""
    codes = rng.integers(-1 if missing else 0, len(NAMES) + missing, n)
    own = rng.integers(0, 3, (len(NAMES) + 1, COLUMNS)).astype(float)
    X = np.where(rng.random((n, COLUMNS)) < 0.5, 0.0, rng.integers(0, 3, (n, COLUMNS)))
    X[:, [0, 3, 6]] = np.where(codes[:, None] >= 0, own[codes][:, [0, 3, 6]], X[:, [0, 3, 6]])
    X[:, 4] = 2.0
    return codes, X


def by_hand(codes, X):
    """Levels that have rows, the columns that none of them has two values of, and these values."""
    levels = [k for k in range(len(NAMES)) if np.any(codes == k)]
    columns = [j for j in range(X.shape[1]) if all(len(np.unique(X[codes == k, j])) == 1 for k in levels)]
    values = [[X[codes == k, j][0] for j in columns] for k in levels]
    return NAMES[levels], np.array(columns, int), np.array(values).reshape(len(levels), len(columns))


def check(found, codes, X):
    names, columns, values = by_hand(codes, X)
    order = np.argsort(found.names)
    np.testing.assert_array_equal(found.names[order], names)
    np.testing.assert_array_equal(found.columns, columns)
    np.testing.assert_array_equal(found.values[order], values)
    np.testing.assert_array_equal(np.flatnonzero(found.constant), columns)
    assert found.n_columns == len(found.constant) == X.shape[1]


# ---- columns that levels fix
def test_values_of_levels(form, rng):
    codes, X = rows(rng)
    found = LevelValues.of(NAMES, codes, form(X))
    check(found, codes, X)
    assert {0, 3, 4, 6} <= set(found.columns.tolist())


def test_columns_are_looked_at_in_parts(form, rng, monkeypatch):
    codes, X = rows(rng)
    whole = LevelValues.of(NAMES, codes, form(X))
    monkeypatch.setattr(_levels, "TOGETHER", 3)
    parts = LevelValues.of(NAMES, codes, form(X))
    np.testing.assert_array_equal(parts.columns, whole.columns)
    np.testing.assert_array_equal(parts.values, whole.values)


@pytest.mark.parametrize("seed", range(8))
def test_portions_say_what_all_rows_say(seed, form, rng):
    rng = np.random.default_rng([seed, rng.integers(1 << 30)])
    codes, X = rows(rng, 30)
    if seed % 2:  # a level that changes between portions
        X[20:, 3] += 1.0
    if seed == 4:  # and one that comes late
        codes = np.where((codes == 2) & (np.arange(30) < 20), 1, codes)
        X[:, 0] = codes % 2
    parts = [LevelValues.of(NAMES, codes[rows_], form(X[rows_])) for rows_ in (slice(0, 20), slice(20, 30))]
    check(parts[0].merged(parts[1]), codes, X)
    check(parts[1].merged(parts[0]), codes, X)


def test_rows_without_a_level_have_no_say(form, rng):
    codes, X = rows(rng)
    other = X.copy()
    none = (codes < 0) | (codes >= len(NAMES))
    assert none.any()
    other[none] = rng.standard_normal((none.sum(), COLUMNS))
    before, after = (LevelValues.of(NAMES, codes, form(part)) for part in (X, other))
    np.testing.assert_array_equal(before.columns, after.columns)
    np.testing.assert_array_equal(before.values, after.values)


def test_without_any_level_nothing_varies(form, rng):
    codes, X = rows(rng)
    for found in (
        LevelValues.of(NAMES, np.full(len(X), -1), form(X)),
        LevelValues.of(NAMES, codes[:0], form(X[:0])),
        LevelValues.of(NAMES[:0], codes, form(X)),
    ):
        assert len(found.names) == 0 and found.constant.all()
        whole = LevelValues.of(NAMES, codes, form(X))
        for merged in (found.merged(whole), whole.merged(found)):
            np.testing.assert_array_equal(merged.columns, whole.columns)
            np.testing.assert_array_equal(np.sort(merged.names), np.sort(whole.names))


# ---- kinds
def test_a_column_is_of_the_factor_with_fewest_levels_that_fixes_it(rng):
    constant = rng.random((3, 12)) < 0.5
    for sizes in ([40, 6, 12], [5, 50, 7]):
        sizes = np.array(sizes)
        wanted = [
            min(np.flatnonzero(column), key=lambda f: sizes[f]) + 1 if column.any() else 0 for column in constant.T
        ]
        np.testing.assert_array_equal(kinds_of(constant, sizes), wanted)


def test_a_mixed_model_has_a_scale_for_each_kind(rng):
    X, y = clusters(rng, 1.0)
    model = GMERegressor(groups="cluster").fit(X, y)
    columns = model.hyperparameter_posterior_.columns
    assert sum(name.startswith("scale(") for name in columns) == 2
    kinds, most = model._encoding.kinds(2)
    np.testing.assert_array_equal(kinds, [1, 0])
    np.testing.assert_array_equal(most, [np.inf, 19.0])


# ---- a treatment given by cluster
def clusters(rng, effect, n_clusters=20, n_rows=15):
    cluster = np.repeat(np.arange(n_clusters), n_rows)
    treated = rng.permutation(np.arange(n_clusters) % 2)[cluster]
    x = rng.standard_normal(len(cluster))
    y = effect * treated + 0.5 * x + 0.7 * rng.standard_normal(n_clusters)[cluster] + rng.standard_normal(len(cluster))
    return pd.DataFrame({"treated": treated.astype(float), "x": x, "cluster": cluster}), y


@pytest.mark.costly
@pytest.mark.parametrize("sets", [12, pytest.param(30, marks=pytest.mark.exhaustive)])
def test_a_treatment_given_by_cluster(sets, rng):
    """Known from twenty clusters, not from three hundred rows: it is not shrunk to what columns within clusters do."""
    effect, held, means, flat = 1.0, [], [], []
    for _ in range(sets):
        X, y = clusters(rng, effect)
        row = GMERegressor(groups="cluster").fit(X, y).summary().loc["treated"]
        held.append(row["lower"] <= effect <= row["upper"])
        means.append(row["mean"])
        flat.append(GMERegressor(groups="cluster", prior_precision="flat").fit(X, y).coef_[0])
    assert np.mean(means) == pytest.approx(np.mean(flat), rel=0.15)
    assert np.mean(held) >= 0.9 - 4 * np.sqrt(0.09 / sets)
