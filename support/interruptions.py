"""Fits that are killed or interrupted at random moments, and resumed or repeated to the same bits."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from sksvi.callbacks import Checkpoint
from sksvi.persistence import load
from support.small_fits import (
    FitCase,
    fingerprint,
    fit_bytes,
    fit_cases,
    ignore_convergence_warnings,
    make_data,
    make_estimator,
)


class StopAfter:
    """Callback that ends a fit by an ``InterruptedError`` after a pass.

    Parameters
    ----------
    after : int
        Number of the pass, from 1 on.
    """

    def __init__(self, after: int) -> None:
        self.after = after

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin of a fit: nothing to do."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Begin of a task: nothing to do."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Raise after the pass."""
        if context.task_name == "pass" and context.task_id + 1 == self.after:
            raise InterruptedError

    def teardown(self, estimator: Any, context: Any) -> None:
        """End of a fit: nothing to do."""


# ---- kills
def kill_and_resume(case: FitCase, seed: int, rng: np.random.Generator, path: Path) -> str:
    """Kill a fit at a random moment in a process of its own, and resume it from its checkpoint.

    Parameters
    ----------
    case : FitCase
        Estimator and parameters.
    seed : int
        Seed of the data.
    rng : Generator
        Draws the moment.
    path : Path
        File of the checkpoint.

    Returns
    -------
    difference : str
        "" where the resumed fit has the bits of an uninterrupted one, else what differs; "no file" where the moment
        came before the end of the first pass.
    """
    X, y = make_data(case.name, seed)
    expected, seconds = uninterrupted_fit(str(case), seed, path.parent)
    with ignore_convergence_warnings():
        if not (child := os.fork()):
            try:
                make_estimator(case).set_callbacks(Checkpoint(path)).fit(X, y)
            finally:
                os._exit(0)
        sleep(seconds * rng.uniform(0.05, 0.95))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if not path.exists():
            return "no file"
        resumed = load(path)
        path.unlink()
        passes = resumed.n_iter_
        resumed.set_params(warm_start=True).fit(X, y)
    return "" if fit_bytes(resumed, X) == expected else f"other bits after pass {passes}"


@cache
def uninterrupted_fit(name: str, seed: int, folder: Path) -> tuple[bytes, float]:
    """Bytes of a case's fit with checkpoints, and the seconds that it takes once all is compiled."""
    case = next(case for case in fit_cases() if str(case) == name)
    X, y = make_data(case.name, seed)
    with ignore_convergence_warnings():
        make_estimator(case, 2).fit(X, y)
        started = perf_counter()
        model = make_estimator(case).set_callbacks(Checkpoint(folder / "straight.sksvi")).fit(X, y)
        return fit_bytes(model, X), perf_counter() - started


# ---- interrupts
def prepare_call(case: FitCase, how: str, X: Any, y: Any, path: Path) -> tuple[Any, Callable[[Any], Any]]:
    """Make an estimator in one of four states, and the call that will be interrupted.

    Parameters
    ----------
    case : FitCase
        Estimator and parameters.
    how : {"fresh", "resumed", "warm", "streamed"}
        Unfitted, loaded from a checkpoint, fitted with ``warm_start``, or after a chunk of a stream.
    X, y : array or DataFrame, and array or None
        Data.
    path : Path
        File of the checkpoint.

    Returns
    -------
    estimator : estimator
        The estimator.
    call : callable
        Takes an estimator, and fits it or passes it a chunk.
    """
    model = make_estimator(case)
    if how == "warm":
        model.set_params(warm_start=True).fit(X, y)
    elif how == "resumed":
        end = model._most_passes() // 2
        stopped = make_estimator(case).set_callbacks(Checkpoint(path), StopAfter(end))
        try:
            stopped.fit(X, y)
        except InterruptedError:
            model = load(path).set_params(warm_start=True)
        path.unlink(missing_ok=True)
    elif how == "streamed":
        more = {"classes": np.unique(y)} if is_classifier(model) else {}
        model.partial_fit(X, y, **more)
        return model, lambda model: model.partial_fit(X, y)
    return model, lambda model: model.fit(X, y)


def interrupt_and_repeat(
    case: FitCase,
    how: str,
    seed: int,
    rng: np.random.Generator,
    path: Path,
    error: type[BaseException] = KeyboardInterrupt,
) -> str:
    """Raise an error from a signal handler at a random moment of a call, then make the same call again.

    Parameters
    ----------
    case : FitCase
        Estimator and parameters.
    how : {"fresh", "resumed", "warm", "streamed"}
        State of the estimator before the call, as in `prepare_call`.
    seed : int
        Seed of the data.
    rng : Generator
        Draws the moment.
    path : Path
        File of the checkpoint of a resumed fit.
    error : type, default=KeyboardInterrupt
        Raised by the handler.

    Returns
    -------
    difference : str
        "" where the interrupt changed nothing and the next call has the bits of an uninterrupted one, else what
        differs; "too late" where the call had ended.
    """
    X, y = make_data(case.name, seed)
    with ignore_convergence_warnings():
        model, call = prepare_call(case, how, X, y, path)
        other, before = pickle.loads(pickle.dumps(model)), fingerprint(model)
        started = perf_counter()
        call(other)
        seconds = perf_counter() - started
        after = fingerprint(model)
        if after != before:
            return "a copy's call changed the estimator"
        if not interrupt_after(lambda: call(model), seconds * rng.uniform(0.02, 0.9), error):
            return "too late"
        if fingerprint(model) != before:
            # A finished fit counts as finished, whatever interrupts its last statements.
            ended = hasattr(model, "lower_bound_") and fit_bytes(model, X) == fit_bytes(other, X)
            return "too late" if ended else "the estimator is not as it was"
        call(model)
    return "" if fit_bytes(model, X) == fit_bytes(other, X) else "other bits in the next call"


def interrupt_after(call: Callable[[], Any], seconds: float, error: type[BaseException] = KeyboardInterrupt) -> bool:
    """Make a call during which a signal handler raises an error.

    Parameters
    ----------
    call : callable
        Called without arguments.
    seconds : float
        Time until the signal.
    error : type, default=KeyboardInterrupt
        Raised by the handler.

    Returns
    -------
    interrupted : bool
        Whether the error ended the call; False where that had ended before.
    """

    def handler(number: int, frame: Any) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        call()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    except error:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    return False
