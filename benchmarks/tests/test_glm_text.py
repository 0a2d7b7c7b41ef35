"""Small runs of ``glm.text``, and its exact references against plainer algebra."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy.special import softmax

from benchmarks._lib.timing import cpu_limit
from benchmarks.glm import _text_judge as judge
from benchmarks.glm import _text_methods as methods
from benchmarks.glm import text, text_portions, text_stream
from benchmarks.glm._text_corpus import docstrings_of, texts
from benchmarks.glm._text_exact import Laplace, chance, extended, leave_one_out
from benchmarks.glm._text_sets import PACKAGES, TextSet, all_sets, docstrings, simulated, unchanged, words
from benchmarks.glm.text_large import zipf_documents


@pytest.mark.costly
def test_the_corpus_is_the_same_each_time_and_has_no_names_of_packages():
    found = texts("joblib", n=50)
    assert len(found) == len(set(found)) == 50
    texts.cache_clear()
    assert texts("joblib", n=50) == found
    assert not any("joblib" in text.lower().split() for text in found)
    with pytest.raises(FileNotFoundError, match="no_such_package is not installed"):
        texts("no_such_package")


def test_docstrings_are_those_of_functions_and_classes(tmp_path):
    long = "word " * 40
    (tmp_path / "a.py").write_text(
        f'"""{long}module"""\ndef f():\n    """{long}function"""\nclass C:\n    """short"""\n'
    )
    (tmp_path / "b.py").write_text("def broken(:\n")
    assert docstrings_of(tmp_path / "a.py") == [f"{long}function"]
    assert docstrings_of(tmp_path / "b.py") == []


def test_sets_have_names_of_their_own_and_are_not_those_of_the_tuning():
    sets = all_sets()
    assert len({data.name for data in sets}) == len(sets) >= 30
    assert sum(not data.tuned_on for data in sets) >= 30
    tuned = {("scipy", "sklearn"), ("pandas", "xarray"), ("torch", "numpy"), ("statsmodels", "h5py")}
    assert not {tuple(data.name.split("/")) for data in sets} & tuned
    assert {"sphinx", "sklearn"} <= PACKAGES


@pytest.mark.costly
def test_a_split_has_new_rows_and_columns_of_its_training_rows_alone(global_random_seed):
    data = TextSet("", "", lambda: docstrings("joblib", "threadpoolctl"), words, 0.5)
    X, y, new, labels = next(data.drawn(1))
    assert X.shape[1] == new.shape[1]
    assert len(y) == X.shape[0]
    assert set(y) == set(labels) == {"joblib", "threadpoolctl"}
    assert np.asarray((X > 0).sum(axis=0)).min() >= 3
    load = simulated(400, 30, "factors", seed=global_random_seed)
    X, y, new, labels = next(TextSet("", "", load, unchanged, 100).drawn(1))
    assert X.shape == (100, 30)
    assert not {row.tobytes() for row in X} & {row.tobytes() for row in new}


@pytest.mark.parametrize("classes", [2, 3])
def test_exact_covariances_are_those_of_the_inverse_curvature(classes, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.standard_normal((40, 4)), rng.integers(0, classes, 40)
    y[:classes] = np.arange(classes)
    precision, new = np.array([0.5, 1.0, 2.0, 4.0]), rng.standard_normal((1, 4))
    Z, z = extended(X, precision, 0.04), extended(new, precision, 0.04)
    fit = Laplace.of(Z, y)
    k = fit.weights.shape[0]
    f = Z @ fit.weights.T
    p = softmax(f, axis=1) if k > 1 else 1 / (1 + np.exp(-f))
    curved = np.eye(5 * k)
    for row, own in zip(Z, p, strict=True):
        curved += np.kron(np.diag(own) - np.outer(own, own) if k > 1 else own * (1 - own), np.outer(row, row))
    inverse = np.linalg.inv(curved)
    np.testing.assert_allclose(fit.deviations().ravel(), np.sqrt(np.diag(inverse)), rtol=1e-6)
    cross = np.kron(np.eye(k), z)
    np.testing.assert_allclose(fit.covariance(z), cross @ inverse @ cross.T, rtol=1e-6, atol=1e-9)
    # The mode: the slope of -log p plus prior is zero.
    target = np.eye(classes)[y] if k > 1 else y[:, None]
    assert np.abs((p - target).T @ Z + fit.weights).max() < 1e-3


def test_chances_of_a_gaussian_latent_are_those_of_draws(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    mean, root = rng.standard_normal(3), rng.standard_normal((3, 3))
    covariance = root @ root.T
    draws = softmax(mean + np.sqrt(0.5) * rng.standard_normal((40_000, 3)) @ root.T, axis=1)
    error = draws[:, 1].std() / np.sqrt(len(draws))
    assert abs(chance(mean, covariance, 1, 0.5) - draws[:, 1].mean()) < 4 * error + 2e-3
    assert np.isclose(chance(mean, covariance, 1, 0.0), softmax(mean)[1])


def test_leaving_a_row_out_costs_more_than_fitting_it(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((24, 3))
    y = (X[:, 0] + rng.logistic(size=24) > np.median(X[:, 0])).astype(int)
    y[:2] = 0, 1
    Z = extended(X, np.ones(3), 0.04)
    fit = Laplace.of(Z, y)
    own = np.logaddexp(0, np.where(y == 1, -1, 1) * (Z @ fit.weights[0]))
    out = leave_one_out(Z, y, 0.0)
    assert np.all(out > own - 1e-6)
    assert out.mean() > own.mean()


def test_scores_of_refusals_have_reasons_and_a_label_without_a_column_costs_the_most():
    class Refuses:
        def fit(self, X, y):
            raise MemoryError("too much")

    X = np.zeros((4, 2))
    found = methods.scored(Refuses, X, np.arange(4), X, np.arange(4))
    assert found.fails == "MemoryError: too much"
    assert np.isnan(found.loss)
    at = methods.columns_of(np.array([1, 2]), np.array([1, 3]))
    p = np.array([[0.25, 0.75], [0.5, 0.5]])
    np.testing.assert_allclose(methods.losses(p, at), [-np.log(0.25), -np.log(methods.FLOOR)])
    assert methods.top_calibration_error(p, at) == pytest.approx(0.5 * 0.75 + 0.5 * 0.5)


def test_a_limit_of_cpu_seconds_ends_what_takes_longer():
    with pytest.raises(TimeoutError, match=r"over 0\.05 CPU seconds"), cpu_limit(0.05):
        while True:
            np.sort(np.arange(1000.0))
    with cpu_limit(60.0):
        assert np.sum(np.ones(3)) == 3


def test_documents_have_their_words(global_random_seed):
    X = zipf_documents(50, 1000, np.random.default_rng(global_random_seed))
    assert X.shape == (50, 1000)
    np.testing.assert_array_equal(np.asarray(X.sum(axis=1)).ravel(), 60)


def test_a_stream_is_learned_chunk_by_chunk():
    found = text_stream.streamed(text_stream.SGD, 2 * text_stream.EVERY + 1)
    assert found["documents"] == 21_000
    assert found["of the true weights"] < found["log loss"]
    assert not found["fails"]
    row = {**found, "fails": "", "MiB at the end": found["MiB after a tenth"]}
    assert text_stream.holds(row, found)
    assert not text_stream.holds({**row, "CPU seconds": 6 * found["CPU seconds"] + 1}, found)
    assert not text_stream.holds({**row, "fails": "refused"}, found)


@pytest.mark.costly
def test_texts_in_portions_are_those_of_one_fit():
    row = text_portions.set_row(*text_portions.SETS[0], 1)
    assert row["rows"] > 100 and row["classes"] == 2 and row["splits"] == 1
    assert row["stream"] < np.log(2) and abs(row["stream"] - row["one fit"]) < 0.3


def test_a_small_table_beside_two_of_scikit_learn(global_random_seed):
    makers = {name: make for name, make in methods.peers().items() if name in (methods.CV, methods.LR, "MultinomialNB")}
    data = TextSet("factors", "wide", simulated(300, 60, "factors", seed=global_random_seed), unchanged, 60, splits=2)
    sizes, found = judge.run(data, makers)
    assert sizes == (60, 60, 2)
    tables = {what: [row] for what, row in judge.rows_of(data, sizes, found).items()}
    assert tables["loss"][0]["fails"] == "MultinomialNB: negative columns"
    total = judge.summary(methods.CV, tables)
    assert total["log loss / CV"] == total["worst"] == total["CPU / CV"] == 1.0
    assert judge.summary("MultinomialNB", tables)["sets"] == 0
    wanted = judge.demands(total, 1)
    assert [row["holds"] for row in wanted[:4]] == [True] * 4
    assert "quick" in inspect.signature(text.main).parameters
