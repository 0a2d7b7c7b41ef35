"""Progress bars and callbacks during a fit.

Callbacks are scikit-learn's (``sklearn.callback``, from 1.9, still experimental there); below 1.9 a small stand-in
calls the same hooks. This module is the only one that touches that interface.

A callback is any object with the four methods ``setup(estimator, context)``, ``on_fit_task_begin(estimator, context)``,
``on_fit_task_end(estimator, context)`` and ``teardown(estimator, context)``. The two middle ones may ask for any of the
keyword-only arguments ``X``, ``y``, ``metadata`` and ``fitted_estimator``. A fit is one task with a sub-task ``"pass"``
for each pass over the data; an ``on_fit_task_end`` that returns True after a pass ends the fit there.
"""

from __future__ import annotations

import inspect
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from sklearn.base import BaseEstimator

from sksvi._runtime.user import Interruption, warn_user

__all__ = ["CallbackSupport", "Checkpoint", "FitMonitor", "KeepInterrupted"]

_SESSION = ("_skl_callbacks", "_callback_fit_ctx", "_skl_callbacks_to_teardown", "_parent_callback_ctx")
_HOOKS = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")


def _keywords(function: Any) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind == p.KEYWORD_ONLY)


@dataclass(eq=False)
class _StandInContext:
    """A task of a fit, as ``sklearn.callback.CallbackContext`` describes it, for scikit-learn below 1.9."""

    estimator_name: str
    task_name: str
    max_subtasks: int | None
    task_id: int = 0
    parent: Any = None
    root_uuid: uuid.UUID = field(default_factory=uuid.uuid4)
    sequential_subtasks: bool = True
    _children: Iterator[int] = field(default_factory=count)

    def subcontext(self, task_name: str = "") -> _StandInContext:
        return _StandInContext(self.estimator_name, task_name, 0, next(self._children), self, self.root_uuid)

    def call_on_fit_task_begin(self, **arguments: Any) -> _StandInContext:
        self._call("on_fit_task_begin", **arguments)
        return self

    def call_on_fit_task_end(self, **arguments: Any) -> bool:
        return self._call("on_fit_task_end", **arguments)

    def _call(self, hook: str, *, estimator: Any, reconstruction_attributes: Any = None, **arguments: Any) -> bool:
        values = {name: value() if callable(value) else value for name, value in arguments.items()}
        stop = False
        for callback in getattr(estimator, "_skl_callbacks", ()):
            keywords = _keywords(getattr(callback, hook))
            if "fitted_estimator" in keywords and "fitted_estimator" not in values:
                attributes = reconstruction_attributes and reconstruction_attributes()
                values["fitted_estimator"] = _copy_with(estimator, attributes) if attributes is not None else None
            stop |= bool(getattr(callback, hook)(estimator, self, **{name: values.get(name) for name in keywords}))
        return stop


def _copy_with(estimator: Any, attributes: dict[str, Any]) -> Any:
    copy = object.__new__(type(estimator))
    copy.__dict__.update(vars(estimator) | attributes)
    return copy


class _StandInSupport:
    """``set_callbacks`` for scikit-learn below 1.9; clones keep the callbacks, as they do from 1.9."""

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set the callbacks of the next fits; without arguments, remove them.

        Parameters
        ----------
        *callbacks : callback instances
            Objects with the hooks ``setup``, ``on_fit_task_begin``, ``on_fit_task_end`` and ``teardown``.

        Returns
        -------
        self : estimator
            The estimator itself.
        """
        for callback in callbacks:
            if isinstance(callback, type) or not all(callable(getattr(callback, hook, None)) for hook in _HOOKS):
                raise TypeError(
                    f"callbacks must be instances with the methods {', '.join(_HOOKS)}; found {callback!r}."
                )
        self.__dict__.pop("_skl_callbacks", None)
        if callbacks:
            self._skl_callbacks = list(callbacks)
        return self

    def _init_callback_context(self, task_name: str = "fit", max_subtasks: int | None = 0) -> _StandInContext:
        self._callback_fit_ctx = _StandInContext(type(self).__name__, task_name, max_subtasks)
        self._skl_callbacks_to_teardown: list[Any] = []
        for callback in getattr(self, "_skl_callbacks", ()):
            self._skl_callbacks_to_teardown.append(callback)
            callback.setup(self, self._callback_fit_ctx)
        return self._callback_fit_ctx

    def __sklearn_clone__(self) -> Any:
        from sklearn.base import _clone_parametrized

        copy = _clone_parametrized(self)
        if hasattr(self, "_skl_callbacks"):
            copy._skl_callbacks = self._skl_callbacks
        return copy


@contextmanager
def _stand_in_management(estimator: Any) -> Any:
    try:
        yield
    finally:
        context = vars(estimator).pop("_callback_fit_ctx", None)
        errors = []
        for callback in vars(estimator).pop("_skl_callbacks_to_teardown", ()):
            try:
                callback.teardown(estimator, context)
            except Exception as error:  # every teardown runs, also after one that raises
                errors.append(error)
        if errors:
            raise errors[0] if len(errors) == 1 else ExceptionGroup("several teardowns of callbacks failed", errors)


try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback._callback_support import callback_management_context as _management
except ImportError:
    CallbackSupport = _StandInSupport
    _management = _stand_in_management


class FitMonitor:
    """Notifies progress bars and callbacks of the passes of a fit; costs nothing where there are none.

    Parameters
    ----------
    estimator : estimator
        The estimator that is being fitted; a ``CallbackSupport``.

    n_passes : int or None
        The most passes that the fit can make; None where nobody knows.

    verbose : int
        From 1 on a progress bar is shown on standard error: rich's where that is installed, else a plain line.

    X, y : array-like, a function that returns one, or None
        Training data, for callbacks that ask for them (``ScoringMonitor`` does).

    metadata : dict or None
        Further arguments of the fit, such as sample weights.

    Examples
    --------
    >>> from sksvi.callbacks import CallbackSupport, FitMonitor
    >>> with FitMonitor(CallbackSupport(), n_passes=3, verbose=0) as monitor:
    ...     monitor.pass_end({"pass": 1, "bound": -12.5}, lambda: None)
    False
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        n_passes: int | None,
        verbose: int = 0,
        *,
        X: object = None,
        y: object = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        callbacks = getattr(estimator, "_skl_callbacks", ())
        #: Where `KeepInterrupted` is among the callbacks, `requested` says whether Ctrl-C asked the fit to stop.
        self.interruption = Interruption(any(isinstance(one, KeepInterrupted) for one in callbacks))
        self._estimator = estimator
        self._n_passes = n_passes
        self._verbose = verbose
        self._bar: Any = None
        self._data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._stack = ExitStack()
        self._root: Any = None
        self._pass: Any = None
        self._snapshot: Callable[[], Any] | None = None
        #: Whether a callback, or the user, asked to stop after the last pass.
        self.stopped = False

    def __enter__(self) -> FitMonitor:
        with ExitStack() as stack:
            if self._verbose:
                self._bar = _make_bar(type(self._estimator).__name__, self._n_passes)
                stack.callback(self._bar.close)
            # Inside a meta-estimator the task trees are joined even without callbacks of our own: others may walk them.
            if hasattr(self._estimator, "_skl_callbacks") or hasattr(self._estimator, "_parent_callback_ctx"):
                stack.enter_context(_management(self._estimator))
                self._root = self._estimator._init_callback_context(max_subtasks=self._n_passes)
                self._root.call_on_fit_task_begin(**self._data)
            stack.enter_context(self.interruption.deferred())
            self._stack = stack.pop_all()
        return self

    def pass_begin(self) -> None:
        """Say that a pass begins; ``pass_end`` does it where the loop does not."""
        if self._root is not None and hasattr(self._estimator, "_skl_callbacks"):
            self._pass = self._root.subcontext(task_name="pass")
            self._pass.call_on_fit_task_begin(**self._data)

    def pass_end(self, info: dict[str, Any], snapshot: Callable[[], object] | None = None) -> bool:
        """Say that a pass has ended.

        Parameters
        ----------
        info : dict
            The pass's row of ``history_``: pass, step, rows, seconds, bound, exact, rate, repairs.

        snapshot : callable, optional
            Returns an estimator with the fitted attributes that a fit ending here would have. Called only if a callback
            asks for it: before the next pass, and again when the fit ends. Default: the one of the pass before.

        Returns
        -------
        stop : bool
            Whether a callback, or the user by Ctrl-C, asks to stop the fit.
        """
        stop = False
        if self._bar is not None or self._root is not None:
            with self.interruption.heeded():
                stop = self._notify(info, snapshot)
        self.stopped = stop or self.interruption.requested
        return self.stopped

    def _notify(self, info: dict[str, Any], snapshot: Callable[[], object] | None) -> bool:
        if self._bar is not None:
            bound = info.get("bound")
            self._bar.show(info["pass"], bound="" if bound is None else f"bound {bound:,.6g} nats")
        if self._root is None or not hasattr(self._estimator, "_skl_callbacks"):
            return False
        if self._pass is None:
            self.pass_begin()
        self._snapshot = snapshot or self._snapshot
        task, self._pass = self._pass, None
        return bool(task.call_on_fit_task_end(**self._data, reconstruction_attributes=self._attributes))

    def _attributes(self) -> dict[str, Any] | None:
        """Return the attributes of the latest snapshot, without what belongs to the running fit."""
        if self._snapshot is None:
            return None
        return {name: value for name, value in vars(self._snapshot()).items() if name not in _SESSION}

    def ended(self, how: str) -> None:
        """Say how the fit has ended, for the progress bar; a fit that raises says it without being asked.

        Parameters
        ----------
        how : str
            A few words: "converged".
        """
        if self._bar is not None:
            self._bar.show(how=how)

    def _what_is_left(self) -> str:
        """What an interrupted fit leaves behind, and how to go on from it."""
        name = type(self._estimator).__name__
        callbacks = getattr(self._estimator, "_skl_callbacks", ())
        saved = [one for one in callbacks if isinstance(one, Checkpoint) and one.saved is not None]
        if not saved:
            return (
                f"the fit of {name} was interrupted, and {name} is as it was before. callbacks.KeepInterrupted keeps "
                "what a fit has reached when its pass ends, callbacks.Checkpoint saves it on the way."
            )
        paths = " and ".join(f"{one.path!r} (pass {one.saved})" for one in saved)
        return (
            f"the fit of {name} was interrupted, and {name} is as it was before. The checkpoint {paths} goes on with "
            f"sksvi.load({saved[0].path!r}).set_params(warm_start=True).fit(X, y)."
        )

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None:
            interrupted = issubclass(error[0], KeyboardInterrupt)
            by_signal = interrupted or issubclass(error[0], SystemExit)  # a user's own handler of SIGTERM
            self.ended("interrupted" if by_signal else f"failed: {error[0].__name__}")
            if interrupted and not error[1].args:
                error[1].args = (self._what_is_left(),)
            self._stack.__exit__(*error)
            return
        with self._stack:
            if self._pass is not None:  # begun, then found to be needless
                self._pass.call_on_fit_task_end(estimator=self._estimator)
            if self._root is not None:
                self._root.call_on_fit_task_end(**self._data, reconstruction_attributes=self._attributes)


def _make_bar(name: str, n_passes: int | None) -> Any:
    try:
        return _RichBar(name, n_passes)
    except ImportError:
        return _PlainBar(name, n_passes)


class _PlainBar:
    """One line on standard error, written over after each pass on a terminal and once at the end elsewhere."""

    def __init__(self, name: str, n_passes: int | None) -> None:
        self._of = "" if n_passes is None else f" of at most {n_passes}"
        self._name, self._text = name, ""

    def show(self, number: int | None = None, **texts: str) -> None:
        first = self._text or f"{self._name}:" if number is None else f"{self._name}: pass {number}{self._of}"
        text = first + ("" if first.endswith(":") else ",") + " " + ", ".join(texts.values())
        if sys.stderr.isatty():
            sys.stderr.write("\r" + text.ljust(len(self._text)))
            sys.stderr.flush()
        self._text = text

    def close(self) -> None:
        if self._text:
            sys.stderr.write(("" if sys.stderr.isatty() else self._text) + "\n")


class _RichBar:
    """A bar of rich on standard error, with a console of its own so that several fits may show theirs at once."""

    def __init__(self, name: str, n_passes: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        fields = TextColumn("{task.fields[bound]}"), TextColumn("{task.fields[how]}")
        self._progress = Progress(*columns, *fields, console=Console(stderr=True))
        self._task = self._progress.add_task(name, total=n_passes, bound="", how="")
        self._progress.start()
        self.close = self._progress.stop

    def show(self, number: int | None = None, **texts: Any) -> None:
        self._progress.update(self._task, advance=0 if number is None else 1, **texts)


class _NullCallback:
    """Callback that does nothing."""

    def setup(self, estimator: BaseEstimator, context: Any) -> None:
        """Do nothing.

        Parameters
        ----------
        estimator : estimator
            The estimator whose fit begins.

        context : CallbackContext
            The fit as a task.
        """

    def on_fit_task_begin(self, estimator: BaseEstimator, context: Any) -> None:
        """Do nothing.

        Parameters
        ----------
        estimator : estimator
            The estimator that is being fitted.

        context : CallbackContext
            The task that begins.
        """

    def on_fit_task_end(self, estimator: BaseEstimator, context: Any) -> None:
        """Do nothing.

        Parameters
        ----------
        estimator : estimator
            The estimator that is being fitted.

        context : CallbackContext
            The task that ends.
        """

    def teardown(self, estimator: BaseEstimator, context: Any) -> None:
        """Do nothing.

        Parameters
        ----------
        estimator : estimator
            The estimator whose fit has ended.

        context : CallbackContext
            The fit as a task.
        """


class KeepInterrupted(_NullCallback):
    """Callback by which Ctrl-C ends a fit where its pass ends, and what the fit has reached remains.

    ``fit`` then returns with a ``ConvergenceWarning``, ``converged_`` is False, and with ``warm_start=True`` the next
    ``fit`` goes on from there. A second Ctrl-C does not wait for the pass: it leaves the estimator as it was before
    ``fit``, as the first one does without this callback. Only the main thread receives Ctrl-C. Files leave
    callbacks out: set it again after ``sksvi.load``.

    Examples
    --------
    >>> import sksvi
    >>> from sksvi.callbacks import KeepInterrupted
    >>> model = sksvi.BayesianGLMRegressor().set_callbacks(KeepInterrupted())
    >>> model.fit([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.1, 2.9]).converged_
    True
    """

    def setup(self, estimator: BaseEstimator, context: Any) -> None:
        """Check that the estimator is one of this package.

        Parameters
        ----------
        estimator : estimator
            The estimator whose fit begins.

        context : CallbackContext
            The fit as a task.
        """
        if not any(cls.__module__.startswith("sksvi.") for cls in type(estimator).__mro__):
            raise TypeError(
                f"KeepInterrupted is for estimators of sksvi; found {type(estimator).__name__}. "
                "Inside a Pipeline or a search, set it on the estimator itself."
            )


class Checkpoint(_NullCallback):
    """Callback that saves an unfinished fit, so that it can go on after a crash.

    Each time, the file is replaced as a whole: a crash leaves the latest complete one. Where it cannot be written (a
    full disk, a folder without permission) a ``RuntimeWarning`` says so, once until it can again, and the fit goes on.
    ``sksvi.load(path).set_params(warm_start=True).fit(X, y)`` runs the passes that were left, to the same bits. While
    hyperparameters are searched for (Gaussian processes, `DynamicGLM`) the file holds the fit as it was when the search
    began; of `GPClassifier` without `batch_size` it holds the search too.

    Parameters
    ----------
    path : str or path-like
        File to write. Fits that run side by side (a grid search) and share one path replace each other's file.

    every : int, default=1
        Passes between two files, at least 1.

    Attributes
    ----------
    saved : int or None
        Passes of the running fit that the file holds; None where it has written none.

    Examples
    --------
    >>> import sksvi
    >>> from sksvi.callbacks import Checkpoint
    >>> model = sksvi.BayesianGLMClassifier().set_callbacks(Checkpoint("model.sksvi", every=5))
    """

    def __init__(self, path: str | os.PathLike, every: int = 1) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"every must be an integer of at least 1; found {every!r}.")
        self.path = os.fspath(path)
        self.every = every
        self.saved: int | None = None
        self._warned = False

    def setup(self, estimator: BaseEstimator, context: Any) -> None:
        """Check that the estimator is one that files can hold.

        Parameters
        ----------
        estimator : estimator
            The estimator whose fit begins.

        context : CallbackContext
            The fit as a task.
        """
        from sksvi.persistence import can_save

        if not can_save(estimator):
            raise TypeError(
                f"Checkpoint saves estimators of sksvi; found {type(estimator).__name__}. "
                "Inside a Pipeline or a search, set it on the estimator itself."
            )
        folder = os.path.dirname(os.path.realpath(self.path))
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"path={self.path!r} is in no folder that exists: make {folder!r} first.")
        self.saved, self._warned = None, False

    def on_fit_task_end(
        self, estimator: BaseEstimator, context: Any, *, fitted_estimator: BaseEstimator | None = None
    ) -> None:
        """Save the fit as it stands after a pass.

        Parameters
        ----------
        estimator : estimator
            The estimator that is being fitted.

        context : CallbackContext
            The task that ends.

        fitted_estimator : estimator or None
            A copy with the fitted attributes of this moment.
        """
        if context.task_name == "pass" and fitted_estimator is not None and (context.task_id + 1) % self.every == 0:
            from sksvi.persistence import save

            if fitted_estimator.n_iter_ == self.saved:
                return  # a search goes on from its beginning, which the file has
            try:
                save(fitted_estimator, self.path)
            except OSError as error:
                self._warn_unwritten(error, fitted_estimator.n_iter_)
            else:
                self.saved, self._warned = fitted_estimator.n_iter_, False

    def _warn_unwritten(self, error: OSError, passes: int) -> None:
        """Warn that a file could not be written; an error would lose the fit, which is worth more than a checkpoint."""
        if self._warned:
            return
        self._warned = True
        left = "there is none yet" if self.saved is None else f"that of pass {self.saved} stays"
        warn_user(
            f"the checkpoint {self.path!r} of pass {passes} could not be written ({error}); {left}, and the fit goes "
            "on. Free space, or set a Checkpoint with another path.",
            RuntimeWarning,
        )
