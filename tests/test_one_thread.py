"""BLAS has its threads again whatever moment Ctrl-C hits, and one thread while anyone works."""

from __future__ import annotations

import contextlib
import dis
import os
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sksvi import BayesianGLMRegressor
from sksvi._runtime import parallel


def threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def two():
    with threadpool_limits(2, user_api="blas"):
        yield threads()


class _Hit(KeyboardInterrupt):
    pass


#: Operations after which Python looks whether a signal came.
LOOKS = ("RESUME", "CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD")


def interrupted_at(step):
    """Ctrl-C at this place of the way in or out of a `with`, of all those where it can come; None beyond the last."""
    left, last = [step], {}

    def trace(frame, event, argument):
        if frame.f_code.co_filename != parallel.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if last.get(frame) in LOOKS:
                left[0] -= 1
                if left[0] == 0:
                    raise _Hit
            last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # CPython 3.12 looks at settrace whether any frame asks for them
    try:
        sys.settrace(trace)
        with parallel.working():
            pass
    except _Hit as hit:
        return hit
    finally:
        sys.settrace(before)
        last.clear()
    return None


def test_an_interrupt_at_any_step_gives_the_threads_back(two):
    with parallel.working():
        assert set(threads()) == {1}
    step = 0
    while interrupted_at(step := step + 1) is not None:
        assert threads() == two, step
    assert step > 20


def test_a_traceback_that_is_kept_holds_no_threads(two):
    """As an interactive session keeps the last one: the next call finds that nobody is in its frames."""
    kept, step = [], 0
    while (hit := interrupted_at(step := step + 1)) is not None:
        kept.append(hit)
        with parallel.working():
            pass
        assert threads() == two, step


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("times", [100, pytest.param(500, marks=pytest.mark.exhaustive)])
def test_interrupts_in_short_predictions(times, two, global_random_seed):
    X = np.random.default_rng(global_random_seed).standard_normal((300, 5))
    model, moments = BayesianGLMRegressor().fit(X, X[:, 0]), random.Random(global_random_seed)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(times):
            # An interrupt that hits a finalizer is lost in it: nobody waits for it longer than a second.
            end = time.monotonic() + 1.0
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-4, 2e-3))
                while time.monotonic() < end:
                    model.predict(X[:3])
            assert threads() == two
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_generator_that_waits_holds_blas(two):
    def rows():
        with parallel.working():
            yield 1
            yield 2

    waiting = rows()
    next(waiting)
    with parallel.working():
        pass
    assert set(threads()) == {1}
    waiting.close()
    assert threads() == two


def working_elsewhere():
    """Work in another thread; what ends it."""
    inside, out = threading.Event(), threading.Event()

    def work():
        with parallel.working():
            inside.set()
            out.wait(60)

    def end():
        out.set()
        worker.join()

    worker = threading.Thread(target=work)
    worker.start()
    assert inside.wait(60)
    return end


def test_another_thread_that_works_keeps_the_limit(two, monkeypatch):
    """Its frames are not read: they change meanwhile, and CPython 3.11 gives back objects that are none."""
    monkeypatch.setattr(sys, "_current_frames", None)
    end = working_elsewhere()
    for _ in range(3):
        with parallel.working():
            pass
        assert set(threads()) == {1}
    end()
    assert threads() == two


def test_a_traceback_of_a_thread_that_ended_holds_no_threads(two):
    """Whatever a thread leaves behind, nobody works in it."""
    hits = []

    def work():
        step = 0
        while (hit := interrupted_at(step := step + 1)) is not None:
            hits.append(hit)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    with parallel.working():
        pass
    assert len(hits) > 20 and threads() == two


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_is_forked_from_within_a_thread_has_its_threads(two):
    end = working_elsewhere()
    child = os.fork()
    if child == 0:
        os._exit(0 if threads() == two else 1)
    end()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
