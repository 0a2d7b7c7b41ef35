"""Batches of rows in partitions, what rows keep beside them, and fits that are run again."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi import BayesianGLMClassifier
from sksvi.estimators.encoding import PARTITION
from sksvi.models.data import Lost
from sksvi.partitions.data import Partitioned
from sksvi.partitions.encoded import encoded_by_part

da = pytest.importorskip("dask.array", reason="needs the extra dask")

CHUNKS = (700, 40, 0, 1500, 760)


def rows(seed, n=3000):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] - 0.5))).astype(int)


def apart(X, y):
    return da.from_array(X, chunks=(CHUNKS, 3)), da.from_array(y, chunks=(CHUNKS,))


def data_of(X, y):
    return encoded_by_part(BayesianGLMClassifier(), (*apart(X, y), None, None), None, PARTITION)[0]


@pytest.mark.parametrize("size", [100, 600, 2000])
def test_a_pass_takes_every_row_once(size, global_random_seed):
    data = data_of(*rows(global_random_seed))
    seen, sizes = [], []
    for batch, count, weight in data.batches(size, 0, 3):
        own = []
        for p, share in batch.pieces:
            n = int(np.diff(data.starts)[p])
            own.append(data.starts[p] + (np.arange(n) if share is None else share.rows(n)))
        own = np.concatenate(own)
        assert len(own) == count == weight
        seen.append(own)
        sizes.append(count)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(len(data)))
    assert max(sizes) <= 1.5 * size
    again = [batch.pieces for batch, _, _ in data.batches(size, 0, 3)]
    assert again == [batch.pieces for batch, _, _ in data.batches(size, 0, 3)]
    assert any(again != [batch.pieces for batch, _, _ in data.batches(size, 0, number)] for number in range(4, 20))


@pytest.mark.costly
@pytest.mark.parametrize("covariance", ["full", pytest.param("diag", marks=pytest.mark.exhaustive)])
def test_sites_beside_the_rows_end_where_those_in_memory_do(covariance, global_random_seed):
    X, y = rows(global_random_seed)
    options = {"covariance": covariance, "batch_size": 400, "tol": 1e-7, "random_state": 0}
    model = BayesianGLMClassifier(**options).fit(X, y)
    found = BayesianGLMClassifier(**options).fit(*apart(X, y))
    assert found.converged_ and found.lower_bound_ == pytest.approx(model.lower_bound_, rel=1e-6)
    np.testing.assert_allclose(found.coef_, model.coef_, atol=0.02 * model.coef_std_.max())
    np.testing.assert_allclose(found.coef_std_, model.coef_std_, rtol=0.01)


class Counting:
    """A callback that counts passes."""

    def __init__(self):
        self.passes = []

    def setup(self, estimator, context):
        """Nothing."""

    def on_fit_task_begin(self, estimator, context):
        """Nothing."""

    def on_fit_task_end(self, estimator, context, **data):
        """One more."""
        if context.task_name == "pass":
            self.passes.append(context.task_id)

    def teardown(self, estimator, context):
        """Nothing."""


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_a_fit_that_loses_what_rows_keep_is_run_again(monkeypatch):
    X, y = rows(0)
    options = {"batch_size": 700, "tol": 0.0, "max_iter": 4, "random_state": 0}
    wanted = BayesianGLMClassifier(**options).fit(*apart(X, y))
    evaluate, calls = Partitioned.evaluate, []

    def seldom(self, look, rows):
        calls.append(1)
        if len(calls) in (9, 21):
            raise Lost("a worker is gone")
        return evaluate(self, look, rows)

    monkeypatch.setattr(Partitioned, "evaluate", seldom)
    told = Counting()
    model = BayesianGLMClassifier(**options).set_callbacks(told).fit(*apart(X, y))
    np.testing.assert_array_equal(model.coef_, wanted.coef_)
    np.testing.assert_array_equal(model.lower_bounds_, wanted.lower_bounds_)
    assert told.passes == [0, 1, 2, 3] and len(calls) > 21


def test_one_that_goes_on_losing_it_says_so(monkeypatch):
    def never(self, look, rows):
        raise Lost("a worker is gone")

    monkeypatch.setattr(Partitioned, "evaluate", never)
    model = BayesianGLMClassifier(batch_size=700)
    with pytest.raises(Lost, match="in 5 attempts"):
        model.fit(*apart(*rows(0)))
    assert not hasattr(model, "classes_")
