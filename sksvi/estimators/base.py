"""BaseSVI: validate → encode → run, shared by every estimator.

A subclass says which model and likelihood it stands for (`_encode`, `_build_model`) and what is predicted.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from sksvi import _parallel, algorithms, expectations
from sksvi.callbacks import CallbackSupport, FitMonitor
from sksvi.families import NotPositiveDefinite
from sksvi.inference import engine, stream
from sksvi.models.base import Data

Array = np.ndarray

#: Ways to encode that fix classes, levels, likelihood and the like: `fit`, and the first `partial_fit`; the others are
#: "more" (a warm start) and "chunk".
FRESH = ("fit", "first chunk")


class BaseSVI(CallbackSupport, BaseEstimator):
    """Parameters, the way from data to posterior, and what a fit leaves behind."""

    _parameter_constraints: dict[str, list[Any]] = {
        "algorithm": [StrOptions(set(algorithms.ALGORITHMS)), algorithms.Algorithm],
        "expectation": [
            StrOptions({"auto", "quadrature", "gauss-hermite", "monte-carlo"}),
            expectations.Expectation,
        ],
        "covariance": [StrOptions({"full", "diag"})],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "total_samples": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # ---- what a subclass says
    def _encode(self, X: Any, y: Any, sample_weight: Any, offset: Any, how: str) -> Data:
        raise AttributeError(f"{type(self).__name__} does not encode its data")

    def _build_model(self, data: Data) -> tuple[Any, Data]:
        """The model, and the data in its coordinates."""
        raise AttributeError(f"{type(self).__name__} does not build a model")

    def _expose(self, model: Any, state: engine.State) -> None:
        """Set the fitted attributes of this estimator."""
        raise AttributeError(f"{type(self).__name__} does not expose its fit")

    def _fitted_choices(self) -> dict[str, Any]:
        """What a fit that goes on may not change; `_choices` holds it as it was."""
        return {}

    def _check_choices(self) -> None:
        """An error where a parameter changed that a fit which goes on cannot change."""
        now = self._fitted_choices()
        for name, fitted in self._choices.items():
            if now[name] != fitted:
                raise ValueError(
                    f"{name} was {fitted!r} when this model was fitted and is {now[name]!r} now: a fit that goes on "
                    "(warm_start, partial_fit) cannot change it. Set it back, or fit a clone."
                )

    # ---- fitting
    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """An error leaves every attribute as it was."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Any:
        with self._all_or_nothing(), _parallel.single_threaded_blas():
            go_on = self.warm_start and hasattr(self, "state_")
            data = self._encode(X, y, sample_weight, offset, "more" if go_on else "fit")
            model, data = self._build_model(data)
            problem = self._problem(model, data)
            state = self._continued(problem) if go_on else self._new_state(problem)
            passes = state.passes + self.max_iter if state.finished else self.max_iter
            metadata = {"sample_weight": sample_weight, "offset": offset}
            metadata = {name: value for name, value in metadata.items() if value is not None}
            with FitMonitor(self, passes - state.passes, self.verbose, X=X, y=y, metadata=metadata) as monitor:
                state = self._run(problem, state, passes, monitor)
            self._finish(model, state, data.total_weight)
            self._refine(problem, state)
        # The fit stands, whatever becomes of the warning.
        if not state.converged and state.passes >= passes:
            warnings.warn(
                f"{type(self).__name__} did not converge in max_iter={self.max_iter} passes (tol={self.tol}): "
                "raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        advice = self._advice()
        if advice:
            warnings.warn(advice, UserWarning, stacklevel=4)
        return self

    def _refine(self, problem: engine.Problem, state: engine.State) -> None:
        """What an estimator adds to a fit while the data are at hand."""

    def _advice(self) -> str | None:
        """What a user should know about a fit that stands, or None."""
        return None

    def _problem(self, model: Any, data: Data) -> engine.Problem:
        algorithm = algorithms.resolve(self.algorithm)
        size = self._batch_size(len(data), algorithm)
        if size is not None and size < len(data):
            if algorithm.batch_only:
                raise ValueError(
                    f"algorithm={self.algorithm!r} works on all rows at once and cannot take batch_size={size}: "
                    "set batch_size=None or choose 'cvi', 'mc-ssvi', 'h-mc-ssvi' or 's-dsvi'."
                )
            if not model.batchable:
                raise ValueError(f"the bound of {type(self).__name__} is no sum over rows: set batch_size=None.")
        if algorithm.mean_solver and not model.linear:
            raise ValueError(
                f"algorithm={self.algorithm!r} solves for the mean of weights; {type(self).__name__} has none: "
                "choose 'mc-ssvi', 'h-mc-ssvi', 's-dsvi' or 'cvi'."
            )
        expect = expectations.resolve(self.expectation)
        if algorithm.mean_solver and not expect.exact:
            raise ValueError(
                f"algorithm={self.algorithm!r} solves for the mean of a bound without noise and cannot take "
                f"expectation={self.expectation!r}, such as 'monte-carlo': choose 'auto' or 'quadrature', or another "
                "algorithm."
            )
        exact = expect if expect.exact else expectations.resolve("auto")
        return engine.Problem(model, data, algorithm, expect, exact, size, _parallel.n_threads(self.n_jobs))

    def _batch_size(self, n: int, algorithm: Any) -> int | None:
        if self.batch_size != "auto":
            return self.batch_size
        return algorithm.auto_batch(n)

    def _new_state(self, problem: engine.Problem) -> engine.State:
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return engine.first_state(problem, seed)

    def _continued(self, problem: engine.Problem) -> engine.State:
        """The state that the last fit left, for a fit that goes on from it."""
        state = self.state_
        if not state.finished:
            return state
        return replace(state, bounds=list(state.bounds), history=list(state.history))

    def _run(self, problem: engine.Problem, state: engine.State, passes: int, monitor: FitMonitor) -> engine.State:
        def snapshot(state: engine.State) -> Any:
            fitted = copy.copy(self)
            fitted._finish(problem.model, state, problem.data.total_weight)
            return fitted

        def pass_end(state: engine.State) -> bool:
            return bool(monitor.pass_end(state.history[-1], lambda: snapshot(state)))

        with self._columns_named():
            return engine.run(problem, state, passes, self.tol, pass_end)

    @contextmanager
    def _columns_named(self) -> Iterator[None]:
        """An error about a coordinate of a block says which column it is."""
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

    def _finish(self, model: Any, state: engine.State, weight: float) -> None:
        self.state_ = state
        self.lower_bound_ = float(state.bound if state.finished else state.bounds[-1])
        self.lower_bounds_ = np.asarray(state.bounds, float)
        self.n_iter_ = int(state.passes)
        self.n_steps_ = int(state.steps)
        self.n_samples_seen_ = float(weight)
        self.converged_ = bool(state.converged)
        # Where noisy steps go on, users see their average.
        self._expose(model, replace(state, q=state.average or state.q))

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Any:
        with self._all_or_nothing(), _parallel.single_threaded_blas():
            first = not hasattr(self, "state_")
            data = self._encode(X, y, sample_weight, offset, "first chunk" if first else "chunk")
            model = self._streaming_model(data)
            seen = (0.0 if first else self.n_samples_seen_) + data.total_weight
            problem = replace(self._problem(model, data), total=self.total_samples or seen)
            if self.batch_size == "auto":
                problem = replace(problem, batch_size=None)
            state = self._new_state(problem) if first else self._continued(problem)
            if not (problem.remembers or problem.remembers_plates):
                state = replace(state, absorbed=None)
            with self._columns_named():
                state = stream.absorb(problem, state, self.tol)
            self._finish(model, state, seen)
        return self

    def _streaming_model(self, data: Data) -> Any:
        """The model of one chunk."""
        raise AttributeError(f"{type(self).__name__} does not stream")

    # ---- what is left behind
    @property
    def history_(self) -> Any:
        """One row per pass: pass, step, rows seen, seconds, bound (nats), exact, rate, repairs."""
        import pandas as pd

        if not hasattr(self, "state_"):
            raise AttributeError("history_ is there after fit")
        columns = ["pass", "step", "rows", "seconds", "bound", "exact", "rate", "repairs"]
        return pd.DataFrame(self.state_.history, columns=columns)

    def save(self, path: Any) -> None:
        """Write the fitted estimator to `path`; ``sksvi.load`` reads it back.

        Parameters
        ----------
        path : str or path-like
        """
        from sksvi.persistence import save

        save(self, path)

    def to_arviz(self, n_samples: int = 1000, random_state: Any = None) -> Any:
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
