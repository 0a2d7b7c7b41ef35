"""What a chunk leaves to be shown is found when it is asked for, once, and as it was when the chunk ended."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import sksvi
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor
from sksvi.estimators import published
from sksvi.models.linear.hyperposterior import LinearHyperposterior

MAKE = {
    "numbers": BayesianGLMRegressor,
    "labels": BayesianGLMClassifier,
    "groups": lambda: GMERegressor(groups=[2]),
}


def data(seed, n=120):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    X[:, 2] = rng.integers(0, 5, n)
    return X, X[:, 0] + rng.standard_normal(n)


@pytest.fixture
def searches(monkeypatch):
    """Searches for nodes so far, one entry each."""
    found, search = [], LinearHyperposterior.nodes

    def counted(self, *args):
        found.append(1)
        return search(self, *args)

    monkeypatch.setattr(LinearHyperposterior, "nodes", counted)
    return found


def streamed(case, seed, look=lambda model: None):
    X, y = data(seed)
    y, model = (y > 0).astype(int) if case == "labels" else y, MAKE[case]()
    more = {"classes": [0, 1]} if case == "labels" else {}
    for part in np.array_split(np.arange(len(X)), 4):
        look(model.partial_fit(X[part], y[part], **more))
    return model, X


def attributes(model):
    names = ["coef_", "coef_std_", "intercept_", "prior_precision_", "lower_bound_"]
    found = [np.asarray(getattr(model, name)).tobytes() for name in names]
    return found, model.summary().to_numpy().tobytes(), model.hyperparameter_posterior_.to_numpy().tobytes()


@pytest.mark.parametrize("case", MAKE)
def test_chunks_search_no_nodes_and_whoever_asks_finds_those_of_the_last(case, searches, global_random_seed):
    model, X = streamed(case, global_random_seed)
    assert not searches and not hasattr(MAKE[case](), "coef_")
    mean = model.predict(X)
    assert len(searches) == 1
    found = attributes(model)
    assert len(searches) == 1 and model.noise_scale_ >= 0.0
    eager, X = streamed(case, global_random_seed, lambda model: model.coef_)
    assert len(searches) == 5 and attributes(eager) == found
    np.testing.assert_array_equal(eager.predict(X), mean)
    assert set(vars(eager)) == set(vars(model))


@pytest.mark.parametrize("case", ["numbers", "groups"])
def test_copies_pickles_and_files_have_what_waits(case, global_random_seed, tmp_path):
    model, _ = streamed(case, global_random_seed)
    expected = attributes(streamed(case, global_random_seed)[0])
    model.save(tmp_path / "model")
    copies = [sksvi.load(tmp_path / "model")]
    for copied in (copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))):
        copies.append(copied(streamed(case, global_random_seed)[0]))
    assert all(attributes(one) == expected for one in copies)


def test_what_is_set_after_a_chunk_changes_nothing_that_waits(global_random_seed):
    expected = attributes(streamed("numbers", global_random_seed)[0])
    model, _ = streamed("numbers", global_random_seed)
    model.set_params(hyperparameters="point", fit_intercept=False, total_samples=1e4)
    coef = model.coef_
    assert attributes(model.set_params(hyperparameters="integrated", fit_intercept=True)) == expected
    assert coef is model.coef_


def test_a_chunk_that_fails_leaves_what_waits(searches, global_random_seed):
    expected = attributes(streamed("numbers", global_random_seed)[0])
    model, X = streamed("numbers", global_random_seed)
    before, n = dict(vars(model)), len(searches)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full_like(X, np.nan), X[:, 0])
    assert vars(model) == before and len(searches) == n
    assert attributes(model) == expected


def test_threads_find_the_same_bits(global_random_seed):
    expected, found = attributes(streamed("groups", global_random_seed)[0]), []
    model, _ = streamed("groups", global_random_seed)
    threads = [threading.Thread(target=lambda: found.append(attributes(model))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(one == expected for one in found)


def test_an_error_of_what_waits_reaches_whoever_asks(monkeypatch, global_random_seed):
    model, X = streamed("numbers", global_random_seed)

    def broken(self, *args):
        raise ValueError("no nodes")

    with monkeypatch.context() as patched:
        patched.setattr(LinearHyperposterior, "nodes", broken)
        for ask in (lambda: model.coef_, lambda: model.predict(X), lambda: pickle.dumps(model)):
            with pytest.raises(ValueError, match="no nodes"):
                ask()
    assert attributes(model) == attributes(streamed("numbers", global_random_seed)[0])


def test_a_fit_after_chunks_is_that_of_its_rows(global_random_seed):
    model, X = streamed("numbers", global_random_seed)
    y = data(global_random_seed)[1]
    assert attributes(model.fit(X, y)) == attributes(BayesianGLMRegressor().fit(X, y))
    assert "coef_" in vars(model)


@pytest.mark.parametrize("name", MAKE)
def test_a_chunk_that_comes_while_somebody_asks_leaves_its_own(name, global_random_seed, monkeypatch):
    """Whoever asks gets what the chunk before left, and what the new one leaves waits for the next."""
    X, y = data(global_random_seed)
    y, classes = (y > 0, {"classes": [False, True]}) if name == "labels" else (y, {})
    model, one, two = (MAKE[name]().partial_fit(X[:60], y[:60], **classes) for _ in range(3))
    two.partial_fit(X[60:], y[60:])
    found = published.Postponed.found

    def interrupted(self):
        monkeypatch.setattr(published.Postponed, "found", found)
        answer = found(self)
        model.partial_fit(X[60:], y[60:])
        return answer

    monkeypatch.setattr(published.Postponed, "found", interrupted)
    np.testing.assert_array_equal(model.coef_, one.coef_)
    np.testing.assert_array_equal(model.coef_, two.coef_)
    np.testing.assert_array_equal(model.predict(X), two.predict(X))
