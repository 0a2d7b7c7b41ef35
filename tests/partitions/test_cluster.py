"""Fits on a cluster of two real worker processes: the same bits whoever does what, and whoever dies."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor

pytest.importorskip("distributed", reason="needs the extra dask")
pytest.importorskip("pyarrow", reason="needs the extra dask")
import dask
import dask.array as da
from distributed import Client, LocalCluster

N, SIZE = 1200, 200


def cluster_of(n_workers):
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0")


@pytest.fixture(scope="module")
def cluster():
    with dask.config.set({"distributed.logging": {"distributed": "critical"}}), cluster_of(2) as started:
        yield started


@pytest.fixture
def client(cluster):
    with Client(cluster) as opened:
        opened.wait_for_workers(2, timeout=30)
        yield opened


def rows(each=None):
    """X and y in six partitions; `each`: what is done to every block of X where it lies."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 4))
    y = (rng.random(N) < 1 / (1 + np.exp(-X @ [1.0, -1.0, 0.5, 0.0]))).astype(float)
    parts = da.from_array(X, chunks=(SIZE, -1))
    return (parts if each is None else parts.map_blocks(each)), da.from_array(y, chunks=(SIZE,))


MODELS = {
    "logit": BayesianGLMClassifier(random_state=0, n_jobs=1),
    "monte-carlo": BayesianGLMClassifier(expectation="monte-carlo", max_iter=5, tol=0.1, random_state=0, n_jobs=1),
    "poisson": BayesianGLMRegressor(likelihood="poisson", random_state=0, n_jobs=1),
}


def bits(model):
    return [model.lower_bounds_.tobytes(), model.coef_.tobytes(), model.posterior_["weights"].cov.tobytes()]


def alone(name, given):
    """The bits of a fit by the local scheduler."""
    with dask.config.set(scheduler="synchronous"):
        return bits(clone(MODELS[name]).fit(*given))


class AtPass:
    """Does something at the end of a pass, once."""

    def __init__(self, number, act):
        self.left, self.act = number, act

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "pass":
            self.left -= 1
            if self.left == 0:
                self.act()

    teardown = setup


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["logit", pytest.param("monte-carlo", marks=pytest.mark.exhaustive)])
def test_the_same_bits_for_any_number_of_workers_and_any_assignment(client, name):
    given = rows()
    expected = alone(name, given)
    addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
    assert bits(clone(MODELS[name]).fit(*given)) == expected
    with dask.annotate(workers=addresses[:1]):
        assert bits(clone(MODELS[name]).fit(*given)) == expected
    there = [client.persist(part, workers=[addresses[k % 2]]) for k, part in enumerate(given[0].blocks)]
    assert bits(clone(MODELS[name]).fit(da.concatenate(there), given[1])) == expected


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_same_bits_for_four_workers():
    given = rows()
    with cluster_of(4) as four, Client(four):
        for name in MODELS:
            assert bits(clone(MODELS[name]).fit(*given)) == alone(name, given)


@pytest.mark.exhaustive
def test_a_worker_is_killed_between_two_looks(client):
    given = rows()
    expected = alone("logit", given)

    def kill():
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    model = clone(MODELS["logit"]).set_callbacks(AtPass(1, kill))
    assert bits(model.fit(*given)) == expected


@pytest.mark.exhaustive
def test_a_worker_is_killed_in_the_middle_of_a_task(client, tmp_path):
    expected, once = alone("poisson", rows()), str(tmp_path / "killed")

    def deadly(block, block_info=None):
        if block_info is not None and block_info[0]["chunk-location"] == (3, 0) and not os.path.exists(once):
            open(once, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    given = rows(deadly)
    assert bits(clone(MODELS["poisson"]).fit(*given)) == expected
    assert os.path.exists(once)


@pytest.mark.exhaustive
def test_large_graphs_are_no_news(client):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100, 200)), rng.standard_normal(100)
    X, y = da.from_array(X, chunks=(50, -1)).persist(), da.from_array(y, chunks=(50,))
    threshold = {"distributed.admin.large-graph-warning-threshold": "300kB"}
    with dask.config.set(threshold), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = BayesianGLMRegressor(prior_precision=1.0).fit(X, y)
    assert not [one for one in heard if "large graph" in str(one.message)]
    assert model.converged_


@pytest.mark.exhaustive
def test_a_client_that_is_closed_ends_the_fit(cluster, client):
    given = rows()
    model = clone(MODELS["logit"]).fit(*given)
    before = dict(vars(model))
    closed = pytest.raises(RuntimeError, match=r"Dask client of this fit is closed.*estimator is as it was")
    with Client(cluster) as other, closed:
        model.set_callbacks(AtPass(1, other.close)).fit(*given)
    vars(model).pop("_skl_callbacks")
    assert all(vars(model)[name] is value for name, value in before.items())


@pytest.mark.costly
def test_an_error_on_a_worker_names_partition_and_column(client):
    def bad(block, block_info=None):
        block = block.copy()
        if block_info is not None and block_info[0]["chunk-location"] == (4, 0):
            block[7, 2] = np.nan
        return block

    model = BayesianGLMClassifier()
    with pytest.raises(ValueError, match=r"partition 4: column 2 of X, row 7: .*NaN"):
        model.fit(*rows(bad))
    assert not hasattr(model, "classes_")
    fitted = clone(MODELS["logit"]).fit(*rows())
    with pytest.raises(ValueError, match=r"partition 4: column 2 of X, row 7: .*NaN"):
        fitted.predict(rows(bad)[0]).compute()


def test_ctrl_c_cancels_the_tasks(client, tmp_path, sigint_enabled):
    begun = str(tmp_path / "begun")

    def slow(block):
        if block.any():
            open(begun, "w").close()
            time.sleep(1.0)
        return block

    def interrupt():
        while not os.path.exists(begun):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    model, thread = clone(MODELS["logit"]), threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt, match="as it was before"):
        model.fit(*rows(slow))
    thread.join()
    assert not hasattr(model, "state_")
    deadline = time.monotonic() + 10.0
    while any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.processing().values())
