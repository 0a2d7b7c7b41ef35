"""Base of the sparse GPs: parameters, the way from rows to a model, fitted attributes, latents."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms, likelihoods
from sksvi._runtime import memory, parallel
from sksvi._typing.arrays import ArrayLike, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike, LikelihoodLike
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.from_partitions import FromPartitions
from sksvi.estimators.hyperparameters import CHANGES
from sksvi.estimators.hyperparameters import CONSTRAINTS as HYPERPARAMETERS
from sksvi.estimators.offsets import offset_of
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.posterior_target import PosteriorTarget, check_same_rows, final_bound
from sksvi.estimators.refit import COVARIANCE, LIKELIHOOD, STREAMED, UNCHECKED, stays, string_or_array
from sksvi.estimators.stage import PARTITION, Stage
from sksvi.estimators.validation import StrOptions, check_table
from sksvi.gaussian_process._needs import BETWEEN_ROWS, numbers_held
from sksvi.gaussian_process._predictions import ProcessPredictions
from sksvi.gaussian_process._start import (
    AT_ROW,
    INPUT_UNIT,
    OPTIMAL_ROWS,
    at_rows,
    centred,
    first_mean,
    kernel_per_feature,
    merged,
    refused,
    targets_and_spread,
)
from sksvi.gaussian_process._streams import ProcessStreams
from sksvi.gaussian_process._summary import ProcessSummary
from sksvi.inference import plan
from sksvi.inference.problem import Problem
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.likelihoods.scales import own_unit, weighted_moments
from sksvi.models.base import Table
from sksvi.models.gp import kernels
from sksvi.models.gp.hyperpriors import HyperPrior
from sksvi.models.gp.inducing import unwhitened
from sksvi.models.gp.sparse import KEPT_NUMBERS, SparseGPModel
from sksvi.models.targets import starting
from sksvi.partitions.gathered import cut, gathered
from sksvi.partitions.summary import DataSummary, Moments

Array = np.ndarray

#: Ratio of the noise variance to that of y above which the process has missed y.
NOISY = 2.0
#: Rows up to which a step takes all of them when the user leaves it to us (then those of a collection lie in one
#: worker's memory for a moment), and those of a batch beyond.
FULL_BATCH_ROWS, BATCH_ROWS = 2**17, 2048


class SparseGP(ProcessStreams, ProcessPredictions, ProcessSummary, FromPartitions, BaseSVI):
    """Parameters and fitted attributes that regressor and classifier share."""

    _parameter_constraints: dict[str, list[Any]] = {
        **BaseSVI._parameter_constraints,
        "stream_sample": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "likelihood": [str, likelihoods.Likelihood],
        "kernel": [Kernel, None],
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "inducing": [StrOptions({"kmeans", "random"}), "array-like"],
        "bound": [StrOptions({"simple", "optimal", "v1", "v2"})],
        "noise_variance": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "optimize_hyperparameters": ["boolean"],
        "optimize_inducing": ["boolean"],
        **HYPERPARAMETERS,
    }
    _changes = {
        **STREAMED,
        "likelihood": LIKELIHOOD,
        "kernel": stays("its parameters have been learned", lambda estimator, name: repr(estimator.kernel)),
        "n_inducing": stays("q is about the inducing points that it has"),
        "inducing": stays("q is about the inducing points that it has", string_or_array),
        "bound": stays("hyperparameters have been found by it"),
        "noise_variance": stays("the likelihood holds it, or has learned it"),
        "optimize_hyperparameters": UNCHECKED,
        "optimize_inducing": UNCHECKED,
        "covariance": COVARIANCE,
        "stream_sample": UNCHECKED,
        **CHANGES,
    }

    def __init__(
        self,
        *,
        likelihood: LikelihoodLike = "gaussian",
        kernel: Kernel | None = None,
        n_inducing: int = 200,
        inducing: str | ArrayLike = "kmeans",
        bound: str = "simple",
        noise_variance: float | str = "auto",
        optimize_hyperparameters: bool = True,
        hyperparameters: str = "integrated",
        optimize_inducing: bool = True,
        algorithm: AlgorithmLike = "cvi",
        expectation: ExpectationLike = "auto",
        covariance: str = "full",
        batch_size: int | str | None = "auto",
        max_iter: int = 2000,
        tol: float = 1e-4,
        total_samples: float | None = None,
        forgetting: float = 1.0,
        half_life: float | None = None,
        stream_sample: int | str = "auto",
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.likelihood = likelihood
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.bound = bound
        self.noise_variance = noise_variance
        self.optimize_hyperparameters = optimize_hyperparameters
        self.hyperparameters = hyperparameters
        self.optimize_inducing = optimize_inducing
        self.algorithm = algorithm
        self.expectation = expectation
        self.covariance = covariance
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.total_samples = total_samples
        self.forgetting = forgetting
        self.half_life = half_life
        self.stream_sample = stream_sample
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # ---- from rows to a model
    def _base_likelihood(self) -> Any:
        """The likelihood as it is before any data."""
        raise AttributeError(f"{type(self).__name__} does not say its likelihood")

    def _rows(self, X: Any, y: Array, sample_weight: Any, offset: Any) -> Table:
        """Rows that count, in double precision."""
        self._dtype = X.dtype.name
        weight = check_row_values(sample_weight, len(X), "sample_weight", weights=True)
        data = Table(X.astype(float, copy=False), y, weight, offset_of(self, offset, len(X)))
        if weight is not None and not np.all(weight > 0):
            data = data.take(np.flatnonzero(weight > 0))
        return data

    def _check_columns(self, n: int, varies: Any) -> None:
        """Rows that are all equal say nothing of how f varies."""
        if n == 1:
            raise ValueError(f"{type(self).__name__} needs at least two different rows; found n_samples=1.")
        if not np.any(varies):
            raise ValueError(
                f"{type(self).__name__} needs at least two different rows; every column of X is constant: there is no "
                "length scale to learn."
            )

    def _begin(self, base: Any, data: Table, spread: Array) -> None:
        """Fix the random seed, and the likelihood, kernel and units, from the rows of a fit that starts anew."""
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self._fix_units(base, data, spread)

    def _fix_units(self, base: Any, targets: Table, spread: Array) -> None:
        """Likelihood, first kernel, constant part and units, from targets and the columns' standard deviations."""
        alone = starting(targets.alone, base.traits.by_moments)
        targets = starting(targets, base.traits.by_moments)
        at = targets.y if targets.offset is None or base.traits.discrete else targets.y - targets.offset
        self.likelihood_ = base.start(alone.y, alone.weight) if base.traits.discrete else base.start(at, targets.weight)
        measured = self.likelihood_.traits.measured
        self._target_unit = own_unit(at, targets.weight) if measured else 1.0
        # A kernel of the user's is about zero; ours is for what varies.
        self.mean_ = first_mean(self.likelihood_, at, targets) if self.kernel is None else 0.0
        self._unit = INPUT_UNIT * np.where(spread > 0, spread, 1.0)
        self.kernel_ = (
            kernel_per_feature(self.likelihood_, self._centred(targets), self._unit, int(np.sum(spread > 0)))
            if self.kernel is None
            else kernels.checked(self.kernel, len(spread))
        )

    def _centred(self, data: Table) -> Table:
        """The constant part of f as an offset."""
        return centred(self.mean_, data)

    # ---- rows in partitions
    def _collected(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Any:
        if self.bound == "optimal":
            raise TypeError(refused("a Dask collection"))
        data = super()._collected(X, y, sample_weight, offset, start)
        if len(data) > FULL_BATCH_ROWS:
            return data
        rows = gathered(data, merged)
        if not start.fresh:
            return cut(rows, self._block, len(data.parts))
        # Units as a fit in memory finds them, from the same rows in the same order.
        targets, spread = rows.apply(targets_and_spread)
        self._begin(self._base(True), targets, spread)
        data = cut(rows, self._block, len(data.parts), partial(centred, self.mean_))
        return replace(data, targets=self._centred(targets))

    @property
    def _most_points(self) -> int:
        """Number of inducing points where there are rows enough for them."""
        return int(self.n_inducing) if isinstance(self.inducing, str) else len(np.asarray(self.inducing))

    @property
    def _block(self) -> int:
        """Number of rows of a chunk of the model."""
        return parallel.chunk_rows(self._most_points, False)

    def _column_facts(self, data: Table) -> dict[str, Any]:
        return {"columns": Moments.of(data.X, data.weight)}

    def _fix_columns(self, facts: DataSummary, targets: Table, fresh: bool) -> None:
        columns = facts.own["columns"]
        if not fresh:
            return
        self._check_columns(facts.n, columns.low != columns.high)
        self.mean_ = 0.0  # of few rows, which find their units once they lie together
        if facts.n > FULL_BATCH_ROWS:
            self._begin(self._base(True), targets, columns.deviation)

    def _encode_partition(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: int, dtype: Any) -> Table:
        return replace(self._encode(X, y, sample_weight, offset, PARTITION), first=start)

    def _model(self, data: Table, by: str, density: HyperPrior | None = None) -> SparseGPModel:
        if self.bound != "simple" and self.likelihood_.noise_variance is None:
            raise ValueError(
                f"bound={self.bound!r} is for likelihood='gaussian'; found {self.likelihood!r}: set bound='simple'."
            )
        inducing = self.inducing
        if not isinstance(inducing, str):
            inducing = check_table(inducing, name="inducing", dtype=np.float64)
            if inducing.shape[1] != data.X.shape[1]:
                raise ValueError(f"inducing has {inducing.shape[1]} columns, X has {data.X.shape[1]}.")
        return SparseGPModel(
            self.likelihood_,
            self.kernel_,
            bound=self.bound,
            n_inducing=int(self.n_inducing),
            inducing=inducing,
            seed=self._seed,
            scale=self._unit,
            full=self.covariance == "full",
            learn_kernel=self.optimize_hyperparameters,
            learn_inputs=self.optimize_inducing,
            by=by,
            unit=self._target_unit,
            keep=data.at_hand or len(data) * self._most_points <= KEPT_NUMBERS,
            density=density,
        )

    def _check_memory(self, data: Table) -> None:
        n, m, latents = len(data), self._most_points, self.likelihood_.n_latents
        optimal, how = self.bound == "optimal", self.inducing if isinstance(self.inducing, str) else "given"
        m = m if how == "given" else min(m, n)
        learns = self.optimize_hyperparameters or self.optimize_inducing or bool(self.likelihood_.learned)
        options = {"full": self.covariance == "full", "kmeans": how == "kmeans", "optimal": optimal, "learns": learns}
        options |= {
            "nodes": self.optimize_hyperparameters and self.hyperparameters == "integrated",
            "closed": self.likelihood_.noise_variance is not None,
        }
        what = f"a fit of {n} rows with {m} inducing points" + (
            f" for each of {latents} latents" if latents > 1 else ""
        )
        remedy = "take another bound, or fewer rows" if optimal else "lower n_inducing"
        memory.need(8.0 * numbers_held(n, m, latents, **options), what, remedy)

    def _build_model(self, data: Table) -> tuple[Any, Table]:
        self._learned_rows = None
        return self._model(data, "evidence", self._hyper_prior(self.kernel_, data)), data

    def _problem(self, model: Any, data: Table) -> Problem:
        n = len(data)
        if self.bound == "optimal" and self.batch_size not in ("auto", None) and self.batch_size < n:
            raise ValueError(refused(f"batch_size={self.batch_size}"))
        if self.bound == "optimal" and n > OPTIMAL_ROWS:
            raise ValueError(
                f"bound='optimal' works with covariance matrices of all {n} rows, "
                f"{BETWEEN_ROWS * 8 * n**2 / 2**30:.1f} GB, and takes at most {OPTIMAL_ROWS} rows: choose "
                "bound='simple', 'v1' or 'v2'."
            )
        problem = super()._problem(model, data)
        if model.by == "evidence" and not problem.deterministic:
            problem = plan.changed(problem, model=model.replaced(by="gradient", density=None))
            if problem.algorithm.row.messages and (model.learn_kernel or model.learn_inputs):
                # A message in h_iᵀv is stale once h_i has moved with the kernel: steps that forget.
                problem = plan.changed(problem, algorithm=algorithms.MCSSVI(problem.algorithm.schedule))
        self.algorithm_ = problem.algorithm
        return problem

    def _fit_warnings(self, problem: Problem, state: State) -> Iterator[str]:
        """Warnings of a fit, also about an algorithm instance whose messages it could not use, and about the noise."""
        yield from super()._fit_warnings(problem, state)
        if problem.data.at_hand:
            yield from self._too_small(cast(Table, problem.data).X)
        requested = self.algorithm
        if not isinstance(requested, str) and requested.row.messages and not self.algorithm_.row.messages:
            yield (
                f"algorithm={requested!r} keeps a message per row, which goes stale once kernel or inducing points "
                f"move with mini-batches: {self.algorithm_!r} took its place. Set batch_size=None, or "
                "optimize_hyperparameters=False and optimize_inducing=False, to keep it."
            )
        noise, targets = self.likelihood_.noise_variance, cast(Table, problem.data).targets
        if self.kernel is None or noise is None:
            return
        mean, variance = weighted_moments(targets.y, targets.weight)
        if noise > NOISY * variance > 0:
            yield (
                f"the noise has a standard deviation of {np.sqrt(noise):g}, y itself one of {np.sqrt(variance):g} "
                f"about {mean:g}: kernel={self.kernel!r} stands for a process about 0 that has not reached y. Leave "
                "kernel out, which centres y, or subtract a typical value from y, or give a kernel of that size."
            )

    def _batch_size(self, n: int, algorithm: Any) -> int | None:
        if self.batch_size != "auto":
            return self.batch_size and int(self.batch_size)
        if algorithm.row.whole or self.bound == "optimal":
            return None
        if not algorithm.row.natural:
            return algorithm.row.rows(n)
        return None if n <= FULL_BATCH_ROWS else BATCH_ROWS

    def _new_state(self, problem: Problem) -> State:
        state = first_state(problem, self._seed)
        points = cast(SparseGPModel, problem.model).kernel_and_points(state.q)[1]
        which = np.flatnonzero(at_rows(points, problem.data, self._unit, self.inducing))
        self._began_at: tuple[Array, Array] | None = (which, points[which])
        return state

    # ---- what a fit leaves behind
    #: Inducing points that began at a training row and have not left it.
    _points_at_rows: int = 0
    _began_at: tuple[Array, Array] | None = None

    def _expose(self, model: SparseGPModel, state: State) -> None:
        q = state.q
        self._at_a_point()
        self.likelihood_ = model.current_likelihood(q)
        self.kernel_, self.inducing_points_ = model.kernel_and_points(q)
        if self._began_at is not None:
            which, where = self._began_at
            moved = np.abs(self.inducing_points_[which] - where) / self._unit
            self._points_at_rows = int(np.sum(moved.max(axis=1) <= AT_ROW))
            self._began_at = None if state.finished else self._began_at
        self.noise_variance_ = self.likelihood_.scales.noise
        # In white coordinates, where predictions project from, and as users see it.
        self._white = model.exposed(q["inducing"])
        self.posterior_ = Posterior({"inducing": model.exposed(unwhitened(model.geometry(q).L, q["inducing"]))})

    def _blocks_of_nodes(self, model: SparseGPModel, blocks: Sequence[Any]) -> list[Any]:
        """Blocks of q at the nodes, in white coordinates, where predictions project from."""
        return [model.exposed(block) for block in blocks]

    def _without_rows(self) -> Any:
        if self._points_at_rows:
            raise ValueError(
                f"training_rows=False: {self._points_at_rows} of the {len(self.inducing_points_)} inducing points of "
                f"this {type(self).__name__} are training rows (inducing={self.inducing!r}, n_inducing="
                f"{self.n_inducing}). Fit with far fewer inducing points than there are different rows, or give points "
                "of your own as inducing."
            )
        return super()._without_rows()

    def _coordinate_name(self, coordinate: int) -> str:
        return f"inducing point {coordinate}{' (class by class)' if self.likelihood_.n_latents > 1 else ''}"

    # ---- the posterior that q stands for
    def _joint(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> PosteriorTarget:
        """The fit with its rows, for a comparison of q with the best q of any form at these inducing points."""
        check_is_fitted(self)
        twin = copy.copy(self)  # validation writes to it
        data = twin._encode(X, y, sample_weight, offset, PARTITION)
        check_same_rows(self, data.total_weight, offset)
        model, q = twin._model(data, "nothing"), self.state_.shown
        bound_at_end = final_bound(self, self._log_prior) if model.bound == model.teacher else None
        model = model.replaced(bound=model.teacher)  # "v2" is no density of y given the inducing values
        L, inducing = model.geometry(q).L, self.posterior_["inducing"]

        def shown(draws: Array) -> Array:
            return (draws.reshape(-1, len(L)) @ L.T).reshape(len(draws), -1) + self.mean_

        return PosteriorTarget(
            problem=twin._problem(model, data),
            q=q,
            block="inducing",
            index=self._places(),
            mean=inducing.mean.ravel() + self.mean_,
            std=inducing.std.ravel(),
            shown=shown,
            final_bound=bound_at_end,
        )
