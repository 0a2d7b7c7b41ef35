"""BaseSVI: validate → encode → run, shared by every estimator.

A subclass says which model and likelihood it stands for (`_encoding`, `_build_model`) and what is predicted.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms, expectations
from sksvi._runtime import parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, PathLike, PerRow, RandomState
from sksvi.callbacks import CallbackSupport, FitMonitor
from sksvi.estimators import fit_warnings, fitting
from sksvi.estimators.checks import check_count, check_flag, check_seed, n_rows
from sksvi.estimators.draws import PosteriorDraws, block_draws, drawn_from_prior, rows_from_prior
from sksvi.estimators.encoding import PARTITION, Encoding, GivenRows, Part, check_in_memory
from sksvi.estimators.fitting import SCORE, training_score
from sksvi.estimators.offsets import remember_offset
from sksvi.estimators.published import check_parameters
from sksvi.estimators.refit import NO_FIT, SHARED, FitRecord, ParameterChange, check_changes, fixed_choices
from sksvi.estimators.summary_text import counted, summary_text
from sksvi.estimators.targets import name_of_target
from sksvi.estimators.validation import StrOptions
from sksvi.families import NotPositiveDefinite
from sksvi.inference import plan
from sksvi.inference.problem import Problem
from sksvi.inference.records import replace
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.start import continued, first_state, with_scale_inside_range
from sksvi.inference.state import State
from sksvi.partitions.collections import is_collection
from sksvi.partitions.encoded import encoded_by_part

Array = np.ndarray

#: Variable that says where the documentation is served, with a slash at its end, and a page of it; without it
#: representations have no link.
DOCUMENTATION, PAGE = "SKSVI_DOCUMENTATION", "reference/generated/sksvi.{estimator_name}.html"


@lru_cache(maxsize=64)
def _names(cls: type[BaseSVI]) -> tuple[str, ...]:
    """Names of an estimator's parameters, which scikit-learn reads off the signature each time that it is asked."""
    return tuple(super(BaseSVI, cls)._get_param_names())  # type: ignore[misc]  # scikit-learn has no types


@dataclass(frozen=True)
class BatchRule:
    """Rows of a step where the user leaves it to us: all of few rows, of more a share within limits.

    Parameters
    ----------
    whole : float, default=inf
        Rows up to which a step takes all of them.
    smallest, largest : int, default=1
    share : int, default=1
        A step takes one row of so many.
    """

    whole: float = np.inf
    smallest: int = 1
    largest: int = 1
    share: int = 1

    def rows(self, n: int) -> int | None:
        """Rows of a step on `n` rows; None: all."""
        return None if n <= self.whole else min(max(n // self.share, self.smallest), self.largest)


class Phase(NamedTuple):
    """Passes of a fit on one problem: up to pass number `passes` of the fit, or to where they settle by `tol`."""

    problem: Problem
    passes: int
    tol: float


def drawn_seed(random_state: RandomState) -> int:
    """The seed of a fit."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


class BaseSVI(CallbackSupport, BaseEstimator):
    """Base of all estimators: their common parameters, the way from data to posterior, and the fitted attributes."""

    LAYOUT = """
        state_ State; _record FitRecord; likelihood_? Likelihood
        n_features_in_ count d; feature_names_in_? labels d; target_name_? text
        n_iter_ count; n_steps_ count; n_samples_seen_ number >=0; converged_ flag
        lower_bound_ number; lower_bounds_ (b) f where b == len(self.state_.bounds)
        levels_? labels L where L >= 2 and np.size(getattr(self.likelihood_, 'cut_points', it[1:])) == L - 1
        classes_? labels C where C == max(2, self.likelihood_.n_latents)
    """

    lower_bound_: float
    lower_bounds_: np.ndarray
    n_iter_: int
    n_steps_: int
    n_samples_seen_: float
    converged_: bool
    n_features_in_: int
    summary: Callable[..., DataFrame]
    score: Callable[..., float]
    feature_names_in_: np.ndarray
    target_name_: str

    _parameter_constraints: dict[str, list[Any]] = {
        "algorithm": [StrOptions(set(algorithms.VARIATIONAL)), algorithms.Algorithm],
        "expectation": [StrOptions({"auto", "quadrature", "gauss-hermite", "monte-carlo"}), expectations.Expectation],
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
    #: Class of what the data of a fit fix, and that of the last fit.
    _encoding_class: ClassVar[type[Encoding]]
    _encoding: Encoding
    #: How the last fit came about.
    _record: FitRecord = NO_FIT
    #: Where scikit-learn's representation links to.
    _doc_link_module = "sksvi"
    #: Rows of a fit that are scored at its end at most.
    _most_scored = 4096
    #: Whether rows may be a sparse matrix.
    _accepts_sparse = False
    #: A warm fit to so many times the rows that the last start was made among begins anew.
    _outgrown_at = np.inf
    #: Rows of a step of `fit` where the user leaves it to us; None: as many as the algorithm says.
    _batch_rule: BatchRule | None = None
    _gradient_batch_rule: BatchRule | None = None
    #: Rows of a step of `partial_fit` where the user leaves it to us; None: a chunk is one batch.
    _portion_rows: int | None = None

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return list(_names(cls))  # type: ignore[arg-type]  # classes are hashable

    def _validate_params(self) -> None:
        check_parameters(self)

    # ---- what a subclass says
    @property
    def _score_name(self) -> str:
        """What `score` is called, where it is one of predictions."""
        return SCORE

    def _build_model(self, data: Any) -> tuple[Any, Any]:
        """Build the model; return it, and the data in its coordinates."""
        raise AttributeError(f"{type(self).__name__} does not build a model")

    def _expose(self, model: Any, state: State) -> None:
        """Set the fitted attributes of this estimator."""
        raise AttributeError(f"{type(self).__name__} does not expose its fit")

    def _check_memory(self, data: Any) -> None:
        """Raise where the arrays of a fit to these data exceed the memory that is available."""

    def _check_choices(self) -> None:
        """Raise where a parameter has changed that a continued fit cannot change."""
        check_changes(self, self._record.choices)

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
                error.args = (f"{type(self).__name__} was interrupted, and is as it was before.",)
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Any:
        return fitting.fit(self, GivenRows(X, y, sample_weight, offset))

    def _encoded(self, given: GivenRows, fresh: bool, part: Part) -> Any:
        """Encoded rows of a fit, or of a chunk; they fix the encoding, or bring it up to date."""
        self._record = replace(self._record, streams=not part.whole)
        if part.whole and not is_collection(given.X):
            remember_offset(self, given.offset)
        if not fresh:
            self._check_choices()
        fixed = None if fresh else self._encoding
        if is_collection(given.X):
            data, self._encoding, had_offset = self._in_partitions(given, fixed)
            remember_offset(self, had_offset or None)
        else:
            check_in_memory(self, given)
            rows = self._encoding_class.read(self, given, fixed, part)
            summary = self._encoding_class.summary(self, rows, fixed, part)
            if fixed is None:
                self._encoding = self._encoding_class.fit(self, summary)
            else:
                self._encoding = fixed.updated(self, summary, 0.0 if part.whole else self._fade(rows.total_weight))
            data = self._encoding.encode(self, rows, part)
        self.__dict__.update(self._encoding.exposed)
        if fresh or part.whole:
            self.__dict__.pop("target_name_", None)
            name = name_of_target(given.y)
            self.__dict__.update({} if name is None else {"target_name_": name})
        return data

    def _in_partitions(self, given: GivenRows, fixed: Encoding | None) -> tuple[Any, Encoding, bool]:
        """Encoded rows of a Dask collection, which stay in their partitions; the encoding; and if there is an offset.

        Raises
        ------
        TypeError
            Where the bound of a fit is no sum over rows.
        """
        if not self._encoding_class.sums_over_rows:
            raise TypeError(
                f"{type(self).__name__} takes no Dask collection, because its fit is no sum over rows: give it "
                "X.compute()."
            )
        return encoded_by_part(self, given, fixed, PARTITION)

    def _outgrown(self, data: Any) -> bool:
        """Whether the last start was made among too few rows for a warm fit to these many to go on from it."""
        if not self.state_.finished or self._algorithm().spec.sampler or not isinstance(getattr(self, "init", ""), str):
            return False  # a sampler moves on from anywhere, and a given start is none among rows
        return bool(data.total_weight >= self._outgrown_at * (self._record.began_among or self.n_samples_seen_))

    def _refine(self, problem: Problem, state: State, budget: EvaluationBudget) -> str | None:
        """Further steps of an estimator while the data are at hand; what `max_iter` left undone, or None."""
        return None

    def _fit_warnings(self, problem: Problem, state: State) -> Iterator[str | Warning]:
        """Warnings about a finished fit besides those about its target: what was found, and what to do."""
        yield from ()

    def _too_small(self, X: Array) -> Iterator[str]:
        """Warnings of `fit_warnings.too_small` for a table without categorical columns."""
        names = getattr(self, "feature_names_in_", range(X.shape[1]))
        yield from fit_warnings.too_small([f"column {name!r}" for name in names], np.ptp(X, axis=0))

    def _problem(self, model: Any, data: Any) -> Problem:
        if data.at_hand:
            size = self._batch_size(len(data), self._algorithm())
        else:  # a pass over partitions costs reading them
            size = None if self.batch_size == "auto" else self.batch_size
        problem = self._checked_problem(model, data, size)
        suited = self._model_for_steps(problem)
        return problem if suited is model else replace(problem, model=suited)

    def _model_for_steps(self, problem: Problem) -> Any:
        """The model for steps as the problem takes them: on all rows, or noisy ones."""
        return problem.model

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
        if likelihood is not None and not likelihood.scales.informed(data.y):
            problem = plan.changed(problem, frozen=problem.frozen | {"likelihood"})
        given = {"algorithm": self.algorithm, "expectation": self.expectation, "batch_size": size}
        plan.check(problem, type(self).__name__, given)
        return problem

    def _most_passes(self) -> int:
        """The largest number of passes over the data."""
        return int(self.max_iter)

    def _batch_size(self, n: int, algorithm: Any) -> int | None:
        if algorithm.spec.sampler:  # it sweeps over all rows
            return None
        if self.batch_size != "auto":
            return self.batch_size and int(self.batch_size)
        own = None if algorithm.spec.natural else self._gradient_batch_rule
        return (own or self._batch_rule or algorithm.spec).rows(n)

    def _initialized(self, problem: Problem, go_on: bool) -> tuple[Problem, State]:
        """The problem of a fit and its first state, a new one or that of the last fit; a start may change the model."""
        return problem, self._warm_state(problem) if go_on else self._new_state(problem)

    def _new_state(self, problem: Problem) -> State:
        seed = drawn_seed(self.random_state)
        return first_state(replace(problem, model=self._model_at_start(problem, seed)), seed)

    def _model_at_start(self, problem: Problem, seed: int) -> Any:
        """The model with the start of a new fit."""
        return problem.model

    def _continued(self, problem: Problem) -> State:
        """The state that the last fit left, for a fit that goes on from it."""
        return continued(problem, self.state_)

    def _warm_state(self, problem: Problem) -> State:
        """State that a warm fit begins with: that of the last fit, a learned scale moved off the end of its range."""
        state = self._continued(problem)
        return with_scale_inside_range(problem, state) if state.finished else state

    @property
    def _tolerance(self) -> float:
        """Relative change of the bound at which a fit has settled."""
        return self.tol

    def _phases(self, problem: Problem, state: State, passes: int) -> list[Phase]:
        """The passes of a fit from `state` up to number `passes`, on one problem after another."""
        return [Phase(problem, passes, self._tolerance)]

    def _after_passes(self, problem: Problem, state: State, passes: int, monitor: FitMonitor) -> State:
        """The state after what an estimator does once the passes of a fit, up to number `passes`, have ended."""
        return state

    def _run(self, problem: Problem, state: State, passes: int, monitor: FitMonitor) -> State:
        """Run the phases of a fit, up to pass number `passes`, and what follows them."""
        phases = self._phases(problem, state, passes)

        def look_end(state: State, initial: State) -> bool:
            self._encoding.check_pass(self, ready.model, state)

            def snapshot() -> Any:
                fitted = copy.copy(self)
                fitted._finish(ready.model, initial, problem.data.total_weight)
                return fitted

            return bool(monitor.pass_end(state.history[-1], snapshot))

        with self._columns_named():
            for number, phase in enumerate(phases):
                if number and (monitor.stopped or state.passes >= passes):
                    break
                ready, last, tol = phase
                state = plan.run(ready, state, last, tol, lambda now: look_end(now, now), look_end)
        return self._after_passes(problem, state, passes, monitor)

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
        self.__dict__.pop("lower_bound_", None)
        if model.traits.path is None:
            self.lower_bound_ = float(state.bound if state.finished else state.bounds[-1])
        self._passes_counted(state, bounds)
        self.n_steps_ = int(state.steps)
        self.n_samples_seen_ = float(weight)
        self.converged_ = bool(state.converged)
        # Where noisy steps go on, users see their average.
        self._show(model, replace(state, q=state.shown))
        self._record = replace(self._record, score=None, choices=fixed_choices(self))

    def _show(self, model: Any, state: State) -> None:
        """`_expose`, or what lets it wait until somebody asks."""
        self._expose(model, state)

    def _passes_counted(self, state: State, bounds: Array | None = None) -> None:
        """Set the number of passes and their bounds."""
        self.lower_bounds_ = np.asarray(state.bounds, float) if bounds is None else bounds
        self.n_iter_ = int(state.passes)

    # ---- streams
    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Any:
        return fitting.partial_fit(self, GivenRows(X, y, sample_weight, offset))

    def _stream_begins(self) -> bool:
        """Whether a chunk is the first; a later one is checked: scikit-learn sees the first call's parameters only."""
        if not hasattr(self, "state_"):
            return True
        self._validate_params()
        fitting.check_finished(self)
        return False

    def _absorbed(self, data: Any, first: bool, new_weight: float, fade: float, counted: float) -> tuple[Any, State]:
        """Absorb a chunk: the model of it, and the state after it."""
        return fitting.absorbed(self, data, first, new_weight, fade, counted)

    def _fade(self, weight: float) -> float:
        """Factor by which earlier data are forgotten when data of this weight arrive."""
        return fitting.fade(self, weight)

    def _restart_rows(self, data: Any, fade: float) -> Any:
        """All rows of the stream, where it is to begin anew with them (older ones as forgetting left them), or None."""
        return None

    def _streaming_model(self, data: Any, first: bool) -> Any:
        """The model of one chunk; `first`: of the first one, or of all rows that a stream begins anew with."""
        return self._build_model(data)[0]

    def _check_memory_of_portion(self, data: Any) -> None:
        """Raise where the arrays of a step on a chunk of a stream exceed the memory that is available."""
        self._check_memory(data)

    def _stream_warnings(self, data: Any, first: bool) -> Iterator[str]:
        """Warnings about a stream, after a chunk."""
        yield from ()

    # ---- what is left behind
    @property
    def history_(self) -> DataFrame:
        """One row per pass: pass, step, rows seen, seconds, bound (nats), exact, rate, repairs.

        Rows whose sums stand for them, as with Gaussian noise, count as seen in every pass.
        Of a stream at most 10,000 rows, the older ones farther apart.
        """
        import pandas as pd

        if not hasattr(self, "state_"):
            raise AttributeError("history_ is there after fit")
        columns = ["pass", "step", "rows", "seconds", "bound", "exact", "rate", "repairs"]
        return pd.DataFrame(self.state_.history, columns=columns)

    def summary_text(
        self,
        coverage: float = 0.9,
        X: MatrixLike | None = None,
        y: PerRow | None = None,
        *,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
        **options: Any,
    ) -> str:
        """The fit as text to print: what it is, how it ended, and `summary`, rounded.

        Numbers of a column have the same decimals, so many that standard deviations show two digits; rows that are far
        smaller have three digits of their own. Of more than 40 rows the middle is left out.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        X : {array-like, sparse matrix} of shape (n, D), default=None
            Rows to score: with them, or with y, the header has `score` of these by its name (R², D², accuracy, ...);
            else that of the rows of the last fit, of 4,096 of them where they were more. A fit keeps no rows: after
            `partial_fit`, and of a collection, the header has no score without them.
        y : array-like of shape (n,), default=None
            Their targets.
        sample_weight, offset, exposure : array-like of shape (n,), default=None
            For `score`.
        **options
            Of `summary`, such as ``exponentiate=True``.

        Returns
        -------
        str
            ``rows`` in the header is the weight of all rows that were seen, ``lower bound`` is in nats.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            As `summary` and `score`.

        Examples
        --------
        >>> import numpy as np
        >>> from sksvi import BayesianGLMRegressor
        >>> X = np.arange(20.0)[:, None]
        >>> y = 2.0 * X[:, 0] + np.tile([-1.0, 1.0], 10)
        >>> print(BayesianGLMRegressor().fit(X, y).summary_text())
        BayesianGLMRegressor
        rows         20
        columns      1
        likelihood   Gaussian(variance=1.166)
        lower bound  -42.82 nats
        passes       10
        converged    yes
        R²           0.9927
        intervals    90 %
        effects      each under a weak prior of its own, the others' as learned
        <BLANKLINE>
        coefficient      mean    std   lower  upper  direction
        x0              2.015  0.044   1.943  2.087      1.000
        intercept      -0.138  0.489  -0.939  0.663      0.616
        std(residual)   1.118  0.197   0.842  1.485          -
        """
        check_is_fitted(self)
        rows = {"X": X, "y": y, "sample_weight": sample_weight, "offset": offset, "exposure": exposure}
        return summary_text(self, coverage, rows, options)

    def _data_header(self) -> list[tuple[str, str]]:
        """Names and values of header lines of `summary_text` about the data."""
        return [("rows", counted(self.n_samples_seen_)), ("columns", counted(self.n_features_in_))]

    def _table_header(self, **options: Any) -> list[tuple[str, str]]:
        """Header lines about the question that the rows of `summary` answer, given its options."""
        return []

    def _training_score(self, X: Any, y: Any, **beside: Any) -> tuple[float, int] | None:
        """`score` of rows of a fit, and how many were scored, or None where it says nothing."""
        return training_score(self, X, y, **beside)

    @property
    def _doc_link_template(self) -> str:
        """Template of the address of an estimator's page, for scikit-learn's representation; empty: there is none."""
        site = os.environ.get(DOCUMENTATION, "")
        return site + PAGE if site else ""

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

    # ---- draws
    def _axes_of_blocks(self) -> dict[str, dict[str, Any]]:
        """Names and labels of the axes of blocks of the posterior, of those that have some."""
        return {}

    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        """Draws of all that the fit has a posterior of."""
        return block_draws(self.posterior_, self._axes_of_blocks(), n, rng)

    @property
    def _improper(self) -> str:
        """Why parameters have no prior to draw from, and what to do; empty where they have one."""
        return ""

    def _prior_draws(self, X: Any, n: int, rng: Any, offset: Any = None) -> tuple[Any, PosteriorDraws]:
        """An estimator with what data fix, and draws of the parameters from their prior, for the rows of X."""
        if self._improper:
            raise TypeError(f"{type(self).__name__} has no draws from its prior: {self._improper}.")
        return rows_from_prior(self, X, n, rng)

    def _drawn_hyper(self, model: Any, rng: Any) -> dict[str, Any]:
        """Points of what the prior of blocks depends on."""
        return {}

    def _drawn_blocks(self, prior: dict[str, Any], rng: Any) -> dict[str, Array]:
        """Draws of blocks, each by itself."""
        return {name: np.asarray(block.sample(1, rng))[0] for name, block in prior.items()}

    def _row_draws(self, model: Any, q: dict[str, Any], drawn: dict[str, Array], data: Any, rng: Any) -> Any:
        """Rows given blocks."""
        raise AttributeError(f"{type(self).__name__} draws no rows")

    def _axes_of_model(self, model: Any) -> dict[str, dict[str, Any]]:
        """Names and labels of the axes of the blocks of a model."""
        return {}

    def _with_density(self, draws: PosteriorDraws, model: Any) -> PosteriorDraws:
        """Draws of all blocks with the density of rows, where it has a closed form."""
        return draws

    def sample_prior(self, X: MatrixLike, n_draws: int = 1, random_state: RandomState = None) -> Array:
        """Draws of y at the rows of X, or of rows like those of X, of parameters from their prior (prior predictive).

        Before `fit` X fixes the columns, their scales and values; what targets fix stands for those of mean 0 and
        standard deviation 1, of counts of mean 1, of labels alike often. After it they are those of the fit.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, D)
        n_draws : int, default=1
            Draws of all parameters, each with one y of every row, or n rows.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n_draws, n), or (n_draws, n, D) of estimators without y
            Numbers, labels or levels; of a binomial target the successes in one trial of each row.

        Raises
        ------
        TypeError
            For an estimator whose parameters have no prior, or one that the data set; for a Dask collection.
        ValueError
            Where a parameter of this estimator leaves some without a prior: the error names what to set.
        """
        if is_collection(X):
            raise TypeError("X is a Dask collection, and draws are made in memory: give X.compute().")
        n_draws = check_count(n_draws, "n_draws", bytes_each=8.0 * n_rows(X))
        return drawn_from_prior(self, X, n_draws, check_seed(random_state))[1]

    def to_arviz(
        self,
        X: MatrixLike | None = None,
        y: PerRow | None = None,
        *,
        n_samples: int = 1000,
        random_state: RandomState = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
        prior: bool = False,
    ) -> Any:
        """Posterior draws as ArviZ's InferenceData (needs the extra ``arviz``), with those of y where rows are given.

        Parameters
        ----------
        X, y, offset, exposure : default=None
            The rows of the fit: they add groups ``posterior_predictive``, ``log_likelihood``, ``observed_data`` and
            ``constant_data``.
        n_samples : int, default=1000
        random_state : int, RandomState or None
        prior : bool, default=False
            Whether to add ``prior`` and ``prior_predictive``, draws of `sample_prior` for these rows.

        Returns
        -------
        arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
            As `sksvi.arviz.to_arviz` says.
        """
        from sksvi.estimators.arviz_groups import to_arviz

        check_is_fitted(self)
        return to_arviz(
            self, X, y, n_samples=n_samples, random_state=random_state, offset=offset, exposure=exposure, prior=prior
        )
