"""Columns with heavy tails: the prior is for at most twice the deviation of a normal one with their middle half."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMEClassifier, load, save
from sksvi.linear_model._columns import MIDDLE_HALF, SAMPLE, SPREAD, TAILS, ColumnStats


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def stats(X, weight=None):
    return ColumnStats.about_means(X, weight, True).with_tails_drawn_in(X, weight)


def drawn_in(X):
    """`TAILS` deviations of a normal variable with the middle half of each column, doubled."""
    low, high = np.percentile(X, [25, 75], axis=0, method="averaged_inverted_cdf")
    return SPREAD * TAILS * (high - low) / MIDDLE_HALF


def labels(rng, n=200):
    x = np.exp(2.0 * rng.standard_normal((n, 1)))
    return np.column_stack([x, rng.standard_normal(n)]), (rng.random(n) < expit(-1.0 + 0.3 * x[:, 0])).astype(int)


# ---- which columns
def test_ordinary_columns_stay_as_they_are(rng):
    """To the last bit: normal, uniform, of two values, counts, categories, mostly zeros, and few rows."""
    n = 500
    rare, zeros = rng.random(n) < 0.02, np.where(rng.random(n) < 0.8, 0.0, np.exp(3.0 * rng.standard_normal(n)))
    columns = [rng.standard_normal(n), 1e6 + rng.random(n), rare, rng.random(n) < 0.5, rng.poisson(0.1, n)]
    X = np.column_stack([*columns, rng.poisson(1.0, n), rng.poisson(20.0, n), rng.integers(0, 4, n), zeros])
    assert stats(X).inner is None
    np.testing.assert_array_equal(stats(X).prior_spread, stats(X).spread)
    assert stats(np.exp(3.0 * rng.standard_normal((20, 3)))).inner is None


def test_tails_are_drawn_in(rng):
    X = np.exp(np.array([2.0, 3.0, 0.3]) * rng.standard_normal((300, 3)))
    np.testing.assert_allclose(stats(X).prior_spread[:2], drawn_in(X)[:2], rtol=1e-12)
    assert stats(X).prior_spread[2] == stats(X).spread[2]
    np.testing.assert_allclose(stats(X).about(np.ones(3)).prior_spread, stats(X).prior_spread, rtol=1e-9)


def test_a_middle_half_of_roundings_says_nothing(rng):
    x = np.where(rng.random(400) < 0.1, 100.0 * rng.standard_normal(400), 1e-17 * rng.standard_normal(400))
    assert stats(x[:, None]).inner is None


def test_a_weight_counts_as_rows_and_sparse_as_dense(rng):
    X, weight = np.exp(2.0 * rng.standard_normal((300, 4))), rng.integers(1, 4, 300)
    X[rng.random(300) < 0.4, 1] = 0.0
    X[rng.random(300) < 0.9, 2] = 0.0
    repeated = np.repeat(X, weight, axis=0)
    assert len(repeated) <= SAMPLE
    np.testing.assert_allclose(stats(X, weight.astype(float)).prior_spread, stats(repeated).prior_spread, rtol=1e-12)
    about = np.zeros(4)
    sparse = ColumnStats.of(sp.csr_array(X), None, about).with_tails_drawn_in(sp.csr_array(X), None)
    np.testing.assert_allclose(sparse.prior_spread, stats(X).prior_spread, rtol=1e-12)


def test_a_sample_of_many_rows_says_it(rng):
    """A quartile of the sample has a share of all rows below it, within four standard errors."""
    x = np.exp(2.0 * rng.standard_normal(20_000))
    inner = stats(x[:, None]).prior_spread[0]
    error = 4.0 * np.sqrt(0.25 * 0.75 / SAMPLE)
    width = [np.subtract(*np.quantile(x, [0.75 + e, 0.25 - e])) for e in (-error, error)]
    assert width[0] < inner * MIDDLE_HALF / (SPREAD * TAILS) < width[1]


# ---- rows in parts
def test_parts_are_merged(rng):
    """Parts of rows in any order are as all together, within what their middle halves vary by; one row is no tail."""
    x = np.exp(2.0 * rng.standard_normal((4000, 1)))
    parts = [stats(part) for part in np.array_split(x, 10)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merged(part)
    np.testing.assert_allclose(merged.prior_spread, drawn_in(x), rtol=0.3)
    assert merged.take(np.array([0])).prior_spread == merged.prior_spread
    np.testing.assert_allclose(merged.without_extremes.prior_spread, merged.prior_spread, rtol=1e-9)


def test_sorted_parts_are_no_tails(rng):
    """A column that grows from part to part varies little in each, and as much as ever in all."""
    x = np.sort(rng.standard_normal(4000))[:, None]
    first, *others = (stats(part) for part in np.array_split(x, 20))
    for part in others:
        first = first.merged(part)
    np.testing.assert_allclose(first.prior_spread, first.spread, rtol=0.05)


# ---- fits
def test_intervals_hold_the_effect_of_a_column_with_heavy_tails(rng):
    """0.9 less four standard errors of 80 sets; by the column's standard deviation it was 0.5."""
    sets, inside = 80, []
    for _ in range(sets):
        X, y = labels(rng, 250)
        row = BayesianGLMClassifier().fit(X, y).summary().loc["x0"]
        inside.append(row["lower"] <= 0.3 <= row["upper"])
    assert np.mean(inside) > 0.9 - 4.0 * np.sqrt(0.09 / sets)


@pytest.mark.parametrize("factor", [1e-4, -30.0])
def test_units_do_not_matter(factor, rng):
    X, y = labels(rng)
    one, other = (BayesianGLMClassifier().fit(rows, y) for rows in (X, X * [factor, 1.0]))
    np.testing.assert_allclose(one.coef_, other.coef_ * [factor, 1.0], rtol=1e-6)
    np.testing.assert_allclose(one.lower_bound_, other.lower_bound_, rtol=1e-9)


def test_a_fixed_prior_is_in_the_units_of_the_columns(rng):
    X, y = labels(rng)
    model = BayesianGLMClassifier(prior_precision=4.0).fit(X, y)
    np.testing.assert_allclose(model.prior_precision_, 4.0)
    alike = BayesianGLMClassifier(prior_precision={"x*": "auto"}).fit(pd.DataFrame(X, columns=["x0", "x1"]), y)
    np.testing.assert_allclose(*alike.prior_precision_)


def test_streams_and_files(rng, tmp_path):
    """A stream of chunks ends near the fit to all rows, and goes on from a file."""
    X, y = labels(rng, 1200)
    whole, stream = BayesianGLMClassifier().fit(X, y), BayesianGLMClassifier()
    for rows in np.array_split(np.arange(800), 4):
        stream.partial_fit(X[rows], y[rows], classes=[0, 1])
    save(stream, tmp_path / "stream.sksvi")
    loaded = load(tmp_path / "stream.sksvi")
    for model in (stream, loaded):
        model.partial_fit(X[800:], y[800:])
    np.testing.assert_array_equal(stream.coef_, loaded.coef_)
    assert np.all(np.abs(stream.coef_ - whole.coef_) < whole.coef_std_)


def test_fixed_columns_of_mixed_models_and_wide_tables(rng):
    X, y = labels(rng)
    model = GMEClassifier(groups="g").fit(pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "g": np.arange(200) % 10}), y)
    np.testing.assert_allclose(model._encoding.relative_scale[:2], [drawn_in(X)[0] / (SPREAD * X[:, 0].std()), 1.0])
    wide = np.column_stack([X[:40], rng.standard_normal((40, 60))])
    one, other = (BayesianGLMRegressor().fit(wide * unit, wide[:, 0]) for unit in (1.0, [1e3] + [1.0] * 61))
    np.testing.assert_allclose(one.predict(wide), other.predict(wide * ([1e3] + [1.0] * 61)), rtol=1e-4, atol=1e-6)
