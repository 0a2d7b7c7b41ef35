"""Kills, Ctrl-C and neighbours in threads: a few of each; `python -m benchmarks hostile.kills` has the many."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import sksvi
from sksvi import BayesianGLMRegressor, GPClassifier, SparseGPRegressor
from sksvi.callbacks import Checkpoint
from support.concurrency import blas_threads, concurrent_tasks, run_in_fork, run_in_threads
from support.interruptions import StopAfter, interrupt_and_repeat, kill_and_resume
from support.small_fits import (
    FitCase,
    fingerprint,
    fit_bytes,
    fit_cases,
    ignore_convergence_warnings,
    make_data,
    make_estimator,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the fit explains its own rows worse"),
]
CASES = fit_cases()
#: One of each estimator in the suite; the others are of the same kinds.
ONE_EACH = [next(i for i, case in enumerate(CASES) if case.name == name) for name in {case.name: 0 for case in CASES}]


def of_q(case):
    """The case without the draws that end a fit: those of every algorithm are alike."""
    draws = "uncertainty" in getattr(sksvi, case.name)._parameter_constraints
    return FitCase(case.name, {**case.options, "uncertainty": "variational"}) if draws else case


def chosen(every):
    """All cases, of which `make test` runs one per estimator, with draws where it has them."""
    return [
        pytest.param(case, id=str(case))
        if i in ONE_EACH or "batch_size" in case.options
        else pytest.param(of_q(case), id=str(case), marks=every)
        for i, case in enumerate(CASES)
    ]


@pytest.mark.costly
@pytest.mark.parametrize("case", chosen(pytest.mark.exhaustive))
def test_a_fit_that_was_cut_off_resumes_to_the_same_bits(case, global_random_seed, tmp_path):
    X, y = make_data(case.name, global_random_seed)
    straight = make_estimator(case).fit(X, y)
    rng = np.random.default_rng([global_random_seed, 5])
    for after in {1, straight.n_iter_, *rng.integers(1, straight.n_iter_ + 1, 2).tolist()}:
        with pytest.raises(InterruptedError):
            make_estimator(case).set_callbacks(Checkpoint(tmp_path / "fit.sksvi"), StopAfter(after)).fit(X, y)
        resumed = sksvi.load(tmp_path / "fit.sksvi").set_params(warm_start=True)
        # Cut off again: what it began from is as it was.
        held = fingerprint(resumed)
        left = straight.n_iter_ - resumed.n_iter_
        if left > 1:
            with pytest.raises(InterruptedError):
                resumed.set_callbacks(StopAfter(left // 2)).fit(X, y)
            assert fingerprint(resumed.set_callbacks()) == held
        assert fit_bytes(resumed.fit(X, y), X) == fit_bytes(straight, X), after


@pytest.mark.costly
@pytest.mark.parametrize("case", [CASES[i] for i in ONE_EACH[::4]], ids=str)
def test_killed_at_a_random_moment(case, global_random_seed, tmp_path):
    rng = np.random.default_rng([global_random_seed, 6])
    found = [kill_and_resume(case, global_random_seed, rng, tmp_path / "fit.sksvi") for _ in range(2)]
    assert not set(found) - {"", "no file"}


@pytest.mark.costly
@pytest.mark.parametrize("how", ["fresh", "resumed", "warm", "streamed"])
@pytest.mark.parametrize("name", ["BayesianGLMRegressor", "GeneralizedPMF", "CorrelatedTopicModel"])
def test_interrupted_at_a_random_moment(name, how, global_random_seed, tmp_path):
    rng, case = np.random.default_rng([global_random_seed, 7]), FitCase(name, {"algorithm": "cvi"})
    found = {interrupt_and_repeat(case, how, global_random_seed, rng, tmp_path / "fit.sksvi") for _ in range(2)}
    assert not found - {"", "too late"}


@pytest.mark.costly
@pytest.mark.parametrize("how", ["fresh", "resumed", "warm", "streamed"])
def test_a_handler_that_exits_at_a_random_moment(how, global_random_seed, tmp_path):
    """As a user's own for SIGTERM."""
    rng, case = np.random.default_rng([global_random_seed, 8]), FitCase("GMERegressor", {"algorithm": "cvi"})
    path = tmp_path / "fit.sksvi"
    found = {interrupt_and_repeat(case, how, global_random_seed, rng, path, SystemExit) for _ in range(2)}
    assert not found - {"", "too late"}


@pytest.mark.parametrize("drawn", [np.random.RandomState, int])
def test_an_interrupted_fit_takes_no_random_number(drawn, global_random_seed):
    case = FitCase("BayesianGLMRegressor", {"algorithm": "h-mc-ssvi", "batch_size": 20})
    X, y = make_data(case.name, global_random_seed)
    model = make_estimator(case).set_params(random_state=drawn(global_random_seed))
    straight = copy.deepcopy(model).fit(X, y)
    with pytest.raises(InterruptedError):
        model.set_callbacks(StopAfter(3)).fit(X, y)
    assert fit_bytes(model.set_callbacks().fit(X, y), X) == fit_bytes(straight, X)


def test_a_stream_says_that_it_was_interrupted(global_random_seed, monkeypatch):
    X, y = make_data("BayesianGLMRegressor", global_random_seed)
    model = BayesianGLMRegressor(likelihood="poisson").partial_fit(X, y)
    held = fingerprint(model)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(BayesianGLMRegressor, "_finish", interrupt)
    with pytest.raises(KeyboardInterrupt, match="BayesianGLMRegressor was interrupted, and is as it was before"):
        model.partial_fit(X, y)
    assert fingerprint(model) == held


@pytest.mark.costly
@pytest.mark.parametrize(
    "model",
    [GPClassifier(), SparseGPRegressor(n_inducing=8, random_state=0)],
    ids=lambda model: type(model).__name__,
)
def test_a_search_for_hyperparameters_resumes_to_the_same_bits(model, global_random_seed, tmp_path):
    """Cut off in the first search, between two of them, and in the passes after the last."""
    X, y = make_data(type(model).__name__, global_random_seed)
    straight = clone(model).fit(X, y)
    assert straight.converged_
    saved = set()
    for after in np.linspace(1, straight.n_iter_, 7).astype(int):
        checkpoint = Checkpoint(tmp_path / "fit.sksvi")
        with pytest.raises(InterruptedError):
            clone(model).set_callbacks(checkpoint, StopAfter(after)).fit(X, y)
        resumed = sksvi.load(tmp_path / "fit.sksvi")
        assert resumed.n_iter_ == checkpoint.saved <= after
        saved.add(resumed.n_iter_)
        assert fit_bytes(resumed.set_params(warm_start=True).fit(X, y), X) == fit_bytes(straight, X), after
    assert min(saved) < straight.n_iter_ - 1  # in a search: its beginning


def test_a_warm_fit_of_a_wide_design_to_other_rows_leaves_the_one_before(global_random_seed):
    rng = np.random.default_rng([global_random_seed, 9])
    X = rng.standard_normal((30, 60))
    model = BayesianGLMRegressor(algorithm="h-mc-ssvi", tol=0.0, max_iter=5, random_state=0, warm_start=True)
    model.fit(X[:25], X[:25, 0])
    held = fingerprint(model)
    with pytest.raises(InterruptedError):
        model.set_callbacks(StopAfter(2)).fit(X[5:], X[5:, 0])
    assert fingerprint(model.set_callbacks()) == held


# ---- threads
@pytest.mark.costly
@pytest.mark.parametrize("run", range(3))
def test_four_threads_have_the_bits_of_one(run, global_random_seed, tmp_path):
    rng = np.random.default_rng([global_random_seed, 8, run])
    with ignore_convergence_warnings():
        some = [concurrent_tasks(CASES[int(i)], run, tmp_path) for i in rng.choice(len(CASES), 4, replace=False)]
        work = [jobs[str(rng.choice(sorted(jobs)))] for jobs in some]
        with threadpool_limits(2, user_api="blas"):
            alone, before = [one() for one in work], blas_threads()
            assert run_in_threads(work) == alone
            assert blas_threads() == before
            assert run_in_fork(work[0]) == alone[0]


def test_what_a_process_forked_in_the_midst_of_a_fit_computes(global_random_seed):
    """Its one thread is not that of the fit: nobody holds a lock, and BLAS is as it was before the fit."""
    case = FitCase("BayesianGLMRegressor", {"algorithm": "cvi"})
    X, y = make_data(case.name, global_random_seed)
    blob = pickle.dumps(make_estimator(case))
    inside, done = threading.Event(), threading.Event()

    class Waiting(StopAfter):
        def on_fit_task_end(self, estimator, context):
            inside.set()
            done.wait(60)

    def fitted():
        return fit_bytes(pickle.loads(blob).fit(X, y), X)

    alone = fitted()
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        thread = threading.Thread(target=make_estimator(case).set_callbacks(Waiting(1)).fit, args=(X, y))
        with ignore_convergence_warnings():
            thread.start()
            assert inside.wait(60)
            there = run_in_fork(lambda: bytes(blas_threads()) + fitted() + bytes(blas_threads()))
            done.set()
            thread.join()
        assert blas_threads() == before
    assert there == bytes(before) + alone + bytes(before)
