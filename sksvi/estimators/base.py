"""BaseSVI: validate → encode → run, shared by every estimator.

A subclass says which model and likelihood it stands for (`_encode`, `_build_model`) and what is predicted.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from numbers import Integral, Real
from time import perf_counter
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, InvalidParameterError, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms, expectations
from sksvi._runtime import parallel
from sksvi._runtime.warned import warn_user
from sksvi._typing.arrays import DataFrame, PathLike, RandomState
from sksvi.callbacks import CallbackSupport, FitMonitor
from sksvi.estimators import fit_warnings
from sksvi.estimators.checks import check_flag
from sksvi.estimators.links import LinkedToReference
from sksvi.estimators.offsets import remember_offset
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.refit import SHARED, ParameterChange, check_changes, kept_choices
from sksvi.estimators.stage import FIT, MORE, Stage
from sksvi.estimators.streamed import Streamed
from sksvi.estimators.summary_text import SummaryText
from sksvi.estimators.validation import StrOptions, validate_data
from sksvi.families import NotPositiveDefinite
from sksvi.inference import plan
from sksvi.inference.problem import Problem
from sksvi.inference.records import replace
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.start import continued, first_state, with_scale_inside_range
from sksvi.inference.state import State, with_own_lists
from sksvi.likelihoods.support import LARGEST
from sksvi.models.base import Table
from sksvi.partitions.collections import in_memory, is_collection

Array = np.ndarray

#: The least magnitude of a parameter that is not 0, and those that no arithmetic is done with.
SMALLEST, UNBOUNDED = 1.0 / LARGEST, {"tol", "random_state"}
#: Types of parameters that nobody can change in place.
PLAIN = {str, int, float, bool, type(None)}


@lru_cache(maxsize=64)
def _names(cls: type[BaseSVI]) -> tuple[str, ...]:
    """Names of an estimator's parameters, which scikit-learn reads off the signature each time that it is asked."""
    return tuple(super(BaseSVI, cls)._get_param_names())  # type: ignore[misc]  # scikit-learn has no types


def _check_parameter(cls: type[BaseSVI], name: str, kind: type, value: Any) -> None:
    """Raise where a parameter breaks its constraint. kind: type of the value, since 1 is no truth value."""
    if is_collection(value):
        raise InvalidParameterError(
            f"The {name!r} parameter of {cls.__name__} is a Dask collection: give {name}.compute()."
        )
    if isinstance(value, np.floating):  # half precision has no number for the limits that it is compared with
        value = float(value)
    validate_parameter_constraints(cls._parameter_constraints, {name: value}, caller_name=cls.__name__)
    number = isinstance(value, Real) and not isinstance(value, bool | np.bool_) and name not in UNBOUNDED
    if number and value != 0 and not SMALLEST <= abs(float(value)) <= LARGEST:
        raise InvalidParameterError(
            f"The {name!r} parameter of {cls.__name__} must lie between {SMALLEST:g} and {LARGEST:g}, "
            f"where squares and reciprocals are numbers. Got {value!r} instead."
        )


_check_plain = lru_cache(maxsize=4096)(_check_parameter)


class BaseSVI(Streamed, SummaryText, LinkedToReference, CallbackSupport, BaseEstimator):
    """Base of all estimators: their common parameters, the way from data to posterior, and the fitted attributes."""

    posterior_: Posterior
    lower_bound_: float
    lower_bounds_: np.ndarray
    n_iter_: int
    n_steps_: int
    n_samples_seen_: float
    converged_: bool
    n_features_in_: int
    feature_names_in_: np.ndarray

    _parameter_constraints: dict[str, list[Any]] = {
        "algorithm": [StrOptions(set(algorithms.VARIATIONAL)), algorithms.Algorithm],
        "expectation": [
            StrOptions({"auto", "quadrature", "gauss-hermite", "monte-carlo"}),
            expectations.Expectation,
        ],
        "covariance": [StrOptions({"full", "diag"})],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "total_samples": [Interval(Real, 0, None, closed="neither"), None],
        "forgetting": [Interval(Real, 0, 1, closed="right")],
        "half_life": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    #: What may change before a fit that goes on: every parameter has an entry.
    _changes: dict[str, ParameterChange] = SHARED

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return list(_names(cls))  # type: ignore[arg-type]  # classes are hashable

    def _validate_params(self) -> None:
        """scikit-learn's rules, and a limit on the magnitude of every number whose square or reciprocal is formed."""
        for name, value in self.get_params(deep=False).items():
            # Plain values that were found valid once are: the rules take longer than a chunk of a few rows does.
            check = _check_plain if type(value) in PLAIN else _check_parameter
            check(type(self), name, type(value), value)  # type: ignore[arg-type]  # classes are hashable

    # ---- what a subclass says
    def _encode(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Any:
        raise AttributeError(f"{type(self).__name__} does not encode its data")

    def _build_model(self, data: Any) -> tuple[Any, Any]:
        """Build the model; return it, and the data in its coordinates."""
        raise AttributeError(f"{type(self).__name__} does not build a model")

    def _expose(self, model: Any, state: State) -> None:
        """Set the fitted attributes of this estimator."""
        raise AttributeError(f"{type(self).__name__} does not expose its fit")

    def _check_memory(self, data: Any) -> None:
        """Raise where the arrays of a fit to these data exceed the memory that is available."""

    def _fitted_choices(self) -> dict[str, Any]:
        """Values of parameters that a continued fit may not change; `_choices` stores them."""
        return kept_choices(self)

    def _check_choices(self) -> None:
        """Raise where a parameter has changed that a continued fit cannot change."""
        check_changes(self, self._choices)

    # ---- fitting
    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Context in which an error leaves every attribute as it was."""
        before, seed = dict(vars(self)), self.random_state
        drawn = seed.get_state() if isinstance(seed, np.random.RandomState) else None
        try:
            yield
        except BaseException as error:
            self.__dict__ = before  # at once, so that another interrupt finds all of it or none
            if drawn is not None:
                seed.set_state(drawn)
            if isinstance(error, KeyboardInterrupt) and not error.args:
                name = type(self).__name__
                error.args = (f"{name} was interrupted, and is as it was before.",)
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Any:
        with self._all_or_nothing(), parallel.working():
            go_on = self.warm_start and hasattr(self, "state_")
            data = self._data(X, y, sample_weight, offset, MORE if go_on else FIT)
            if go_on and self._outgrown(data):
                go_on, data = False, self._data(X, y, sample_weight, offset, FIT)
            self._check_memory(data)
            self._began_among = self._began_among if go_on else data.total_weight
            problem, state = self._initialized(self._problem(*self._build_model(data)), go_on)
            model, data = problem.model, problem.data
            passes = self._most_passes() + (state.passes if state.finished else 0)
            metadata = {"sample_weight": sample_weight, "offset": offset}
            metadata = {name: value for name, value in metadata.items() if value is not None}
            inputs = {"X": X, "y": y, "metadata": metadata}
            with FitMonitor(self, passes - state.passes, self.verbose, **inputs) as monitor:
                state, interruption = self._run(problem, state, passes, monitor), monitor.interruption
                state = replace(state, converged=state.converged and not interruption.requested)
                self._one_sided = self._at_one_end(model, data)
                self._finish(model, state, data.total_weight)
                undone = None
                if not interruption.requested:
                    with interruption.heeded():
                        undone = self._refined(problem, passes, monitor)
                        self._remember_score(X, y, sample_weight=sample_weight, offset=offset)
                monitor.ended(how_it_ended(self.state_, passes, interruption.requested))
            found = list(fit_warnings.other_order(X=X, y=y, sample_weight=sample_weight, offset=offset))
            found += [] if interruption.requested else self._fit_warnings(problem, state)
        # The fit stands, whatever becomes of the warnings.
        if self._one_sided:
            undone = None  # the finding says so, and more passes are no remedy
        short = self._fell_short(undone, passes, interruption.requested)
        if short:
            warn_user(short, ConvergenceWarning)
        fit_warnings.warn_all(found)
        return self

    #: Whether every target lies at one end of what it may be: it says nothing of columns, nor of their scales.
    _one_sided = False

    @staticmethod
    def _at_one_end(model: Any, data: Any) -> bool:
        """Whether every target of these rows lies at one end of its support, as `_one_sided` says."""
        likelihood = getattr(model, "likelihood", None)
        return likelihood is not None and bool(fit_warnings.one_sided(likelihood, data.y))

    #: A warm fit to so many times the rows that the last start was made among begins anew.
    _outgrown_at = np.inf
    #: Weight of these rows; 0: of an earlier file, or not known.
    _began_among = 0.0

    def _outgrown(self, data: Any) -> bool:
        """Whether the last start was made among too few rows for a warm fit to these many to go on from it."""
        if not self.state_.finished or self._algorithm().row.sampler or not isinstance(getattr(self, "init", ""), str):
            return False  # a sampler moves on from anywhere, and a given start is none among rows
        return bool(data.total_weight >= self._outgrown_at * (self._began_among or self.n_samples_seen_))

    def _data(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Any:
        """Encoded rows of a fit, in memory or in partitions."""
        if is_collection(X):
            return self._collected(X, y, sample_weight, offset, start)
        in_memory(type(self).__name__, X, y=y, sample_weight=sample_weight, offset=offset)
        data = self._encode(X, y, sample_weight, offset, start)
        remember_offset(self, offset)
        return data

    def _collected(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Any:
        """Encoded rows of a Dask collection, which stay in their partitions."""
        raise TypeError(
            f"{type(self).__name__} takes no Dask collection, because its fit is no sum over rows: give it X.compute()."
        )

    def _fell_short(self, undone: str | None, passes: int, interrupted: bool) -> str | None:
        """Warning about a fit that ended before it had converged or was refined, or None."""
        name = type(self).__name__
        if interrupted:
            return (
                f"{name} was interrupted and keeps what it had reached after {self.n_iter_} passes "
                "(callbacks.KeepInterrupted): warm_start=True and fit go on from there."
            )
        if undone is None or self.n_iter_ < passes:
            return None
        return f"{name} {undone} in max_iter={self._most_passes()} passes (tol={self.tol}): raise max_iter or tol."

    def _refined(self, problem: Problem, passes: int, monitor: FitMonitor) -> str | None:
        """Run `_refine`, whose evaluations of the data count as passes; what it left undone, or None."""
        # Lists of their own: a callback's snapshot is still that of the last step.
        state = with_own_lists(self.state_)
        seconds = state.history[-1]["seconds"] if state.history else 0.0
        started, full = perf_counter() - seconds, state.passes >= passes

        def look_end(state: State, initial: State) -> bool:
            return monitor.pass_end(state.history[-1])

        looks = EvaluationBudget(problem, state, passes, started, look_end, full)
        undone = self._refine(problem, state, looks)
        self.state_ = state
        self._passes_counted(state)
        return undone if state.converged else "did not converge"

    def _refine(self, problem: Problem, state: State, looks: EvaluationBudget) -> str | None:
        """Further steps of an estimator while the data are at hand; what `max_iter` left undone, or None."""
        return None

    def _fit_warnings(self, problem: Problem, state: State) -> Iterator[str]:
        """Warnings about a finished fit: what was found, and what to do."""
        likelihood = getattr(self, "likelihood_", None)
        if likelihood is not None:
            yield from fit_warnings.of_target(likelihood, cast(Table, problem.data).y, len(problem.data))
            yield from likelihood.parameter_warnings()

    def _too_small(self, X: Array) -> Iterator[str]:
        """Warnings of `fit_warnings.too_small` for a table without categorical columns."""
        names = getattr(self, "feature_names_in_", range(X.shape[1]))
        yield from fit_warnings.too_small([f"column {name!r}" for name in names], np.ptp(X, axis=0))

    def _problem(self, model: Any, data: Any) -> Problem:
        if data.at_hand:
            size = self._batch_size(len(data), self._algorithm())
        else:  # a pass over partitions costs reading them
            size = None if self.batch_size == "auto" else self.batch_size
        return self._checked_problem(model, data, size)

    def _algorithm(self) -> algorithms.Algorithm:
        """The algorithm that fits q in the current call."""
        return algorithms.resolve(self.algorithm)

    def _checked_problem(self, model: Any, data: Any, size: int | None) -> Problem:
        """The problem of a model and its data, in steps of `size` rows; `plan` refuses meaningless combinations."""
        algorithm, expect = self._algorithm(), expectations.resolve(self.expectation)
        # Where tasks run side by side already, each has one thread.
        threads = parallel.n_threads(self.n_jobs) if data.at_hand or self.n_jobs is not None else 1
        problem = plan.problem(model, data, algorithm, expect, batch_size=size, threads=threads)
        likelihood = getattr(model, "likelihood", None)
        if likelihood is not None and not likelihood.informed(data.y):
            problem = plan.changed(problem, frozen=problem.frozen | {"likelihood"})
        given = {"algorithm": self.algorithm, "expectation": self.expectation, "batch_size": size}
        plan.check(problem, type(self).__name__, given)
        return problem

    def _most_passes(self) -> int:
        """The largest number of passes over the data."""
        return int(self.max_iter)

    def _batch_size(self, n: int, algorithm: Any) -> int | None:
        if self.batch_size != "auto":
            return self.batch_size and int(self.batch_size)
        return algorithm.row.rows(n)

    def _initialized(self, problem: Problem, go_on: bool) -> tuple[Problem, State]:
        """The problem of a fit and its first state, a new one or that of the last fit; a start may change the model."""
        return problem, self._warm_state(problem) if go_on else self._new_state(problem)

    def _new_state(self, problem: Problem) -> State:
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return first_state(problem, seed)

    def _continued(self, problem: Problem) -> State:
        """The state that the last fit left, for a fit that goes on from it."""
        return continued(problem, self.state_)

    def _warm_state(self, problem: Problem) -> State:
        """State that a warm fit begins with: that of the last fit, a learned scale moved off the end of its range."""
        state = self._continued(problem)
        return with_scale_inside_range(problem, state) if state.finished else state

    def _run(self, problem: Problem, state: State, passes: int, monitor: FitMonitor, tol: float | None = None) -> State:
        """Run passes of a problem, up to number `passes` of the fit; `tol`: None for the user's."""
        tol = self.tol if tol is None else tol

        def snapshot(state: State) -> Any:
            fitted = copy.copy(self)
            fitted._finish(problem.model, state, problem.data.total_weight)
            return fitted

        def look_end(state: State, initial: State) -> bool:
            return bool(monitor.pass_end(state.history[-1], lambda: snapshot(initial)))

        def pass_end(state: State) -> bool:
            return look_end(state, state)

        with self._columns_named():
            return plan.run(problem, state, passes, tol, pass_end, look_end)

    @contextmanager
    def _columns_named(self) -> Iterator[None]:
        """Context in which an error about a coordinate of a block names its column."""
        try:
            yield
        except ValueError as error:
            cause = error if isinstance(error, NotPositiveDefinite) else error.__cause__
            name = self._coordinate_name(cause.coordinate) if isinstance(cause, NotPositiveDefinite) else None
            if name is None:
                raise
            text = str(error).replace(f"coordinate {cause.coordinate}", name)  # type: ignore[union-attr]
            raise ValueError(text) from error

    def _coordinate_name(self, coordinate: int) -> str | None:
        """What users call a coordinate of the Gaussian block, or None."""
        return None

    def _finish(self, model: Any, state: State, weight: float, bounds: Array | None = None) -> None:
        """Set the fitted attributes; `bounds`: those of the state, where they are an array already."""
        self.state_ = replace(state, locals=state.locals.without_rows)
        self.lower_bound_ = float(state.bound if state.finished else state.bounds[-1])
        self._passes_counted(state, bounds)
        self.n_steps_ = int(state.steps)
        self.n_samples_seen_ = float(weight)
        self.converged_ = bool(state.converged)
        self._score_of_fit = None
        # Where noisy steps go on, users see their average.
        self._expose(model, replace(state, q=state.shown))

    def _passes_counted(self, state: State, bounds: Array | None = None) -> None:
        """Set the number of passes and their bounds."""
        self.lower_bounds_ = np.asarray(state.bounds, float) if bounds is None else bounds
        self.n_iter_ = int(state.passes)

    # ---- what is left behind
    @property
    def history_(self) -> DataFrame:
        """One row per pass: pass, step, rows seen, seconds, bound (nats), exact, rate, repairs.

        Of a stream at most 10,000 rows, the older ones farther apart.
        """
        import pandas as pd

        if not hasattr(self, "state_"):
            raise AttributeError("history_ is there after fit")
        columns = ["pass", "step", "rows", "seconds", "bound", "exact", "rate", "repairs"]
        return pd.DataFrame(self.state_.history, columns=columns)

    def save(self, path: PathLike, training_rows: bool = True) -> None:
        """Write the fitted estimator to `path`; ``sksvi.load`` reads it back.

        Parameters
        ----------
        path : str or path-like
        training_rows : bool, default=True
            Whether the file has what belongs to single training rows (which estimators keep such a thing, and what they
            do without it, is on the page about files). Predictions of new rows do not need it.

        Raises
        ------
        OSError
            Where no file can be made at `path`.
        ValueError
            ``training_rows=False`` of an estimator whose posterior is that of its rows, or of a fit that was cut off.
        """
        from sksvi.persistence import save

        save(self, path, check_flag(training_rows, "training_rows"))

    def _without_rows(self) -> Any:
        """Copy without anything that belongs to single training rows, for files without them.

        Raises
        ------
        ValueError
            For what is nothing without its rows, saying what to do.
        """
        bare = copy.copy(self)
        if hasattr(self, "state_"):
            if not self.state_.finished:
                raise ValueError(
                    f"training_rows=False: this {type(self).__name__} is a fit that was cut off and goes on with what "
                    "it knows of its rows. Let it go on to its end (warm_start=True and fit), or save it with them."
                )
            bare.state_ = self.state_.without_rows
        return bare

    def to_arviz(self, n_samples: int = 1000, random_state: RandomState = None) -> Any:
        """Posterior draws as ArviZ's InferenceData (needs the extra ``arviz``).

        Parameters
        ----------
        n_samples : int, default=1000
        random_state : int, RandomState or None
        """
        from sksvi.arviz import to_arviz

        check_is_fitted(self)
        return to_arviz(self, n_samples, random_state)

    # ---- validation shared by the methods
    def _validated(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])


def how_it_ended(state: State, passes: int, interrupted: bool) -> str:
    """How a fit ended, as a progress bar shows it; "stopped" is by a callback."""
    if interrupted:
        return "interrupted"
    if state.converged:
        return "converged"
    return "not converged" if state.passes >= passes else "stopped"
