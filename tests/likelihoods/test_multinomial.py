"""Counts of classes: the likelihood, and fits to tables of counts, which are those of so many labelled rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multinomial

from sksvi import BayesianGLMClassifier, SparseGPClassifier
from sksvi.likelihoods import Multinomial, Softmax, resolve
from sksvi.testing import check_likelihood

NAMES = ["walk", "bus", "car"]


@pytest.fixture(scope="module")
def table():
    """Features, and a frame of counts whose columns are not in alphabetical order."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((150, 2)), columns=["age", "rain"])
    p = np.exp(X.to_numpy() @ np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]]))
    p /= p.sum(axis=1, keepdims=True)
    counts = [rng.multinomial(rng.integers(0, 7), row) for row in p]
    return X, pd.DataFrame(counts, columns=NAMES)


@pytest.fixture(scope="module")
def fit(table):
    return BayesianGLMClassifier(likelihood="multinomial").fit(*table)


def labelled(X, counts):
    """A row for each class of a row, its count as weight."""
    row, column = np.nonzero(counts.to_numpy())
    return X.iloc[row], counts.columns[column].to_numpy(), counts.to_numpy()[row, column]


def test_likelihood(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y = rng.multinomial([0, 1, 4, 9, 30, 2], [0.2, 0.3, 0.5]).astype(float)
    check_likelihood(Multinomial(n_classes=3), y, seed=global_random_seed)
    f = rng.standard_normal((6, 3))
    p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(Multinomial(3).log_prob(y, f), multinomial.logpmf(y, y.sum(axis=1).astype(int), p))


def test_expectations_are_sums_over_trials(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y, m = rng.multinomial(5, [0.2, 0.3, 0.5], size=4).astype(float), rng.standard_normal((4, 3))
    for v in (rng.uniform(0.1, 1.0, (4, 3)), np.tile(np.diag([0.3, 0.5, 0.2]) + 0.1, (4, 1, 1))):
        found = Multinomial(3).expected(y, m, v)
        each = [Softmax(3).expected(np.full(4, k), m, v) for k in range(3)]
        constant = Multinomial(3).log_prob(y, m) - sum(
            y[:, k] * Softmax(3).log_prob(np.full(4, k), m) for k in range(3)
        )
        wanted = [
            sum(y[:, k].reshape(-1, *[1] * (part.ndim - 1)) * each[k][i] for k in range(3))
            for i, part in enumerate(found)
        ]
        np.testing.assert_allclose(found[0], wanted[0] + constant, rtol=1e-10)
        np.testing.assert_allclose(found[1], wanted[1], atol=1e-10)
        np.testing.assert_allclose(found[2], wanted[2], atol=1e-10)


@pytest.mark.parametrize("scale", [0.05, 1.0])
def test_density_of_a_row_of_counts_against_draws_of_f(scale, global_random_seed):
    rng, n = np.random.default_rng(global_random_seed), 40_000
    y, m = np.array([[3.0, 0.0, 2.0], [20.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), rng.standard_normal((3, 3))
    root = scale * rng.standard_normal((3, 3, 3))
    cov = root @ np.swapaxes(root, 1, 2)
    found = Multinomial(3).log_predictive(y, m, cov)
    f = m[:, None] + rng.standard_normal((3, n, 3)) @ np.swapaxes(root, 1, 2)
    density = np.exp(Multinomial(3).log_prob(y[:, None].repeat(n, axis=1), f))
    error = density.std(axis=1) / np.sqrt(n)
    assert np.all(np.abs(np.exp(found) - density.mean(axis=1)) <= 4 * error + 1e-3 * np.exp(found))


def test_a_table_is_so_many_labelled_rows(table, fit):
    X, counts = table
    rows, labels, weight = labelled(X, counts)
    softmax = BayesianGLMClassifier(likelihood="softmax").fit(rows, labels, sample_weight=weight)
    assert fit.classes_.tolist() == NAMES
    order = [softmax.classes_.tolist().index(name) for name in NAMES]
    np.testing.assert_allclose(fit.predict_proba(X), softmax.predict_proba(X)[:, order], atol=1e-3)
    np.testing.assert_allclose(fit.coef_, softmax.coef_[order], atol=1e-2)
    assert fit.score(X, counts) == pytest.approx(softmax.score(rows, labels, sample_weight=weight))


def test_weights_are_copies_and_the_order_of_columns_is_that_of_the_fit(table, fit):
    X, counts = table
    weight = np.arange(len(X)) % 3
    weighted = BayesianGLMClassifier(likelihood="multinomial").fit(X, counts, sample_weight=weight)
    repeated = BayesianGLMClassifier(likelihood="multinomial").fit(
        X.loc[X.index.repeat(weight)], counts.loc[X.index.repeat(weight)]
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)
    assert fit.score(X, counts[NAMES[::-1]]) == fit.score(X, counts)


def test_other_estimators_and_streams(table):
    X, counts = table
    process = SparseGPClassifier(n_inducing=5, likelihood="multinomial", tol=1e-2).fit(X[:60], counts[:60])
    assert process.score(X, counts) > 0.5
    stream = BayesianGLMClassifier(likelihood="multinomial").partial_fit(X[:80], counts[:80], classes=NAMES)
    stream.partial_fit(X[80:], counts[80:])
    whole = BayesianGLMClassifier(likelihood="multinomial").fit(X, counts)
    order = [stream.classes_.tolist().index(name) for name in NAMES]
    np.testing.assert_allclose(stream.predict_proba(X)[:, order], whole.predict_proba(X), atol=0.03)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y["bus"], r"table of counts of shape \(n, K\).*\(150,\)"),
        (lambda y: y[["bus"]], r"K >= 2; found shape \(150, 1\)"),
        (lambda y: np.repeat(["bus", "car"], 75), r"table of counts.*softmax"),
        (lambda y: y.assign(walk=0, bus=0), "at least 2 classes.*one class: 'car'"),
        (lambda y: 0 * y, "y is 0 in every row and column"),
        (lambda y: -y, "counts >= 0; found .* in row"),
        (lambda y: y.astype(float).replace(0.0, np.inf), "infinity|finite"),
        (lambda y: y.set_axis(["a", "b", "a"], axis=1), "columns of the same name"),
    ],
)
def test_what_is_no_table_of_counts_is_named(table, change, message):
    X, counts = table
    with pytest.raises(ValueError, match=message):
        BayesianGLMClassifier(likelihood="multinomial").fit(X, change(counts))


def test_other_columns_than_those_of_the_fit(table, fit):
    X, counts = table
    with pytest.raises(ValueError, match=r"columns \['walk', 'bus', 'tram'\].*classes of the fit"):
        fit.score(X, counts.rename(columns={"car": "tram"}))
    with pytest.raises(ValueError, match="columns without names"):
        fit.score(X, counts.to_numpy())
    with pytest.raises(ValueError, match=r"Multinomial\(n_classes=\.\.\.\)"):
        resolve("multinomial")
