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
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms, expectations, likelihoods
from sksvi._runtime import memory, parallel
from sksvi._typing.arrays import ArrayLike, DataFrame, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike, LikelihoodLike
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.checks import interval_table
from sksvi.estimators.draws import PosteriorDraws
from sksvi.estimators.encoding import CHUNK, GivenRows, Part
from sksvi.estimators.offsets import checked_offset
from sksvi.estimators.posterior import (
    MOST,
    Posterior,
    PosteriorTarget,
    check_same_rows,
    final_bound,
    means_given,
    response_names,
)
from sksvi.estimators.refit import COVARIANCE, LIKELIHOOD, STREAMED, UNCHECKED, stays, string_or_array
from sksvi.estimators.sites import SiteFit
from sksvi.estimators.summaries import CHANGES, concatenated, learned_rows
from sksvi.estimators.summaries import CONSTRAINTS as HYPERPARAMETERS
from sksvi.estimators.validation import StrOptions, check_table, validate_data
from sksvi.gaussian_process._draws import sparse_draws
from sksvi.gaussian_process._encoding import BATCH_ROWS, FULL_BATCH_ROWS, ProcessEncoding
from sksvi.gaussian_process._process import GaussianProcess, InducingRecord, NodeProcess, Place, ProcessFit
from sksvi.gaussian_process._sites import sparse_sites
from sksvi.gaussian_process._start import (
    AT_ROW,
    BETWEEN_ROWS,
    INPUT_UNIT,
    OPTIMAL_ROWS,
    at_rows,
    centred,
    merged,
    numbers_held,
    refused,
    shortened,
    spread_of,
    targets_and_spread,
)
from sksvi.inference import plan
from sksvi.inference.problem import Problem
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.inference.stream_state import StreamState
from sksvi.likelihoods.scales import weighted_moments
from sksvi.models.data import Table
from sksvi.models.gp.bounds import left_over
from sksvi.models.gp.hyperpriors import HyperPrior
from sksvi.models.gp.inducing import unwhitened
from sksvi.models.gp.integrated import MANY_ROWS
from sksvi.models.gp.sparse import CACHED_NUMBERS, SparseGPModel
from sksvi.partitions.data import cut, gathered
from sksvi.predictive import Predictive
from sksvi.predictive.plain import check_latents, tail_of

Array = np.ndarray

#: Inducing points of `n_inducing="auto"`, and those of a search that gains by more.
POINTS, MORE_POINTS = 200, 300
#: Ratio of the noise variance to that of y above which the process has missed y.
NOISY = 2.0
#: A stream learns kernel and inducing points anew until it has learned them from so many rows for each of the latter,
#: whenever its rows have doubled and all are at hand.
LEARNING_ROWS = 10


class SparseGP(GaussianProcess):
    """Parameters and fitted attributes that regressor and classifier share."""

    LAYOUT = (
        GaussianProcess.LAYOUT
        + """
        inducing_points_ (m,d) f; state_.q.inputs.value? (m,d) f; _encoding.unit (d) f; mean_ number
        state_.q.inducing where np.size(it.mean) == m * l
        _process.block.mean (m) or (l,m) where (it.ndim == 1) == (l == 1)
        posterior_._blocks.inducing where it.mean.shape == self._process.block.mean.shape
        _points InducingRecord; state_.messages.sample.data.X? where it.shape[1] == d
        _process.node_blocks? items a where a == len(self._process.few.weights) - 1
        _process.nodes? where self._process.node_blocks is not None
        _process.node_blocks[*]? Family where it.mean.shape == self._process.block.mean.shape
    """
    )

    #: Noise of each row's own that `_distribution` adds.
    noise_scale_ = 0.0
    _parameter_constraints: dict[str, list[Any]] = {
        **BaseSVI._parameter_constraints,
        "stream_sample": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "likelihood": [str, likelihoods.Likelihood],
        "kernel": [Kernel, None],
        "n_inducing": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
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

    _encoding: ProcessEncoding
    kernel_: Kernel
    inducing_points_: np.ndarray
    algorithm_: algorithms.Algorithm

    def __init__(
        self,
        *,
        likelihood: LikelihoodLike = "gaussian",
        kernel: Kernel | None = None,
        n_inducing: int | str = "auto",
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
    def _in_partitions(self, given: GivenRows, fixed: Any) -> Any:
        if self.bound == "optimal":
            raise TypeError(refused("a Dask collection"))
        data, encoding, had_offset = super()._in_partitions(given, fixed)
        if len(data) > FULL_BATCH_ROWS:
            return data, encoding, had_offset
        rows = gathered(data, merged)
        if fixed is not None:
            return cut(rows, self._block, len(data.parts)), encoding, had_offset
        # Units as a fit in memory finds them, from the same rows in the same order.
        targets, spread = rows.apply(targets_and_spread)
        encoding = cast(ProcessEncoding, encoding).started(self, targets, spread)
        data = cut(rows, self._block, len(data.parts), partial(centred, encoding.mean))
        return replace(data, targets=centred(encoding.mean, targets)), encoding, had_offset

    @property
    def _most_points(self) -> int:
        """Number of inducing points that a fit begins with where there are rows enough for them."""
        if not isinstance(self.inducing, str):
            return len(np.asarray(self.inducing))
        return POINTS if isinstance(self.n_inducing, str) else int(self.n_inducing)

    def _may_add(self, data: Table) -> bool:
        """Whether the search may take more points than it begins with."""
        learns = self.optimize_hyperparameters and self.optimize_inducing and self.bound == "simple"
        chosen = isinstance(self.n_inducing, str) and isinstance(self.inducing, str)
        # Noise that is given does not take in what points leave open, which so has no limit.
        gaussian = (
            self.likelihood_.noise_variance is not None and self.likelihood_.learned and self.covariance == "full"
        )
        return bool(learns and chosen and gaussian) and data.at_hand and len(data) >= MANY_ROWS

    @property
    def _block(self) -> int:
        """Number of rows of a chunk of the model."""
        return parallel.chunk_rows(self._most_points, False)

    def _model(
        self, data: Table, by: str, kernel: Kernel | None = None, density: HyperPrior | None = None
    ) -> SparseGPModel:
        """The model of rows; `kernel`: where its search begins, None for the fitted one."""
        if self.bound != "simple" and self.likelihood_.noise_variance is None:
            raise ValueError(
                f"bound={self.bound!r} is for likelihood='gaussian'; found {self.likelihood!r}: set bound='simple'."
            )
        inducing, encoding = self.inducing, self._encoding
        if not isinstance(inducing, str):
            inducing = check_table(inducing, name="inducing", dtype=np.float64)
            if inducing.shape[1] != data.X.shape[1]:
                raise ValueError(f"inducing has {inducing.shape[1]} columns, X has {data.X.shape[1]}.")
        more = by == "evidence" and self._may_add(data)
        return SparseGPModel(
            self.likelihood_,
            self.kernel_ if kernel is None else kernel,
            bound=self.bound,
            n_inducing=MORE_POINTS if more else self._most_points,
            inducing=inducing,
            seed=encoding.seed,
            scale=encoding.unit,
            full=self.covariance == "full",
            learn_kernel=self.optimize_hyperparameters,
            learn_inputs=self.optimize_inducing,
            by=by,
            unit=encoding.target_unit,
            keep=data.at_hand or len(data) * self._most_points <= CACHED_NUMBERS,
            density=density,
            n_first=self._most_points if more else None,
        )

    def _check_memory(self, data: Table) -> None:
        n, latents, m = len(data), self.likelihood_.n_latents, self._most_points
        m = MORE_POINTS if self._may_add(data) else m
        optimal, how = self.bound == "optimal", self.inducing if isinstance(self.inducing, str) else "given"
        m = m if how == "given" else min(m, n)
        learns = self.optimize_hyperparameters or self.optimize_inducing or bool(self.likelihood_.learned)
        options = {"full": self.covariance == "full", "kmeans": how == "kmeans", "optimal": optimal, "learns": learns}
        options["nodes"] = self.optimize_hyperparameters and self.hyperparameters == "integrated"
        options["closed"] = self.likelihood_.noise_variance is not None
        what = f"a fit of {n} rows with {m} inducing points" + (
            f" for each of {latents} latents" if latents > 1 else ""
        )
        remedy = "take another bound, or fewer rows" if optimal else "lower n_inducing"
        memory.need(8.0 * numbers_held(n, m, latents, **options), what, remedy)

    def _encoded(self, given: GivenRows, fresh: bool, part: Part) -> Any:
        data = super()._encoded(given, fresh, part)
        if fresh:
            self.kernel_ = self._first_kernel(data)
        return data

    def _first_kernel(self, data: Table) -> Kernel:
        """Where the search begins: at the user's kernel, or at lengths that these rows speak for."""
        kernel = self._encoding.kernel
        ours = self.kernel is None and self.optimize_hyperparameters
        return shortened(kernel, self.likelihood_, data) if ours else kernel

    def _build_model(self, data: Table) -> tuple[Any, Table]:
        self._points = replace(self._points, learned_rows=None)
        density = self._hyper_prior(self.kernel_, data, self._encoding.target_unit)
        return self._model(data, "evidence", density=density), data

    def _problem(self, model: Any, data: Table) -> Problem:
        n, size = len(data), self.batch_size
        if self.bound == "optimal" and not isinstance(size, str | None) and size < n:
            raise ValueError(refused(f"batch_size={size}"))
        if self.bound == "optimal" and n > OPTIMAL_ROWS:
            raise ValueError(
                f"bound='optimal' works with covariance matrices of all {n} rows, "
                f"{BETWEEN_ROWS * 8 * n**2 / 2**30:.1f} GB, and takes at most {OPTIMAL_ROWS} rows: choose "
                "bound='simple', 'v1' or 'v2'."
            )
        problem = super()._problem(model, data)
        if model.by == "evidence" and not problem.deterministic:
            problem = plan.changed(problem, model=model.replaced(by="gradient", density=None))
            if problem.algorithm.spec.messages and (model.learn_kernel or model.learn_inputs):
                # A message in h_iᵀv is stale once h_i has moved with the kernel: steps that forget.
                problem = plan.changed(problem, algorithm=algorithms.MCSSVI(problem.algorithm.schedule))
        self.algorithm_ = problem.algorithm
        return problem

    def _fit_warnings(self, problem: Problem, state: State) -> Iterator[str]:
        """Warnings of a fit, also about an algorithm instance whose messages it could not use, and about the noise."""
        if problem.data.at_hand:
            yield from self._too_small(cast(Table, problem.data).X)
        requested = self.algorithm
        if not isinstance(requested, str) and requested.spec.messages and not self.algorithm_.spec.messages:
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
        if not isinstance(self.batch_size, str):
            return self.batch_size and int(self.batch_size)
        if algorithm.spec.whole or self.bound == "optimal":
            return None
        if not algorithm.spec.natural:
            return algorithm.spec.rows(n)
        return None if n <= FULL_BATCH_ROWS else BATCH_ROWS

    def _new_state(self, problem: Problem) -> State:
        state = first_state(problem, self._encoding.seed)
        points = cast(SparseGPModel, problem.model).kernel_and_points(state.q)[1]
        which = np.flatnonzero(at_rows(points, problem.data, self._encoding.unit, self.inducing))
        self._points = replace(self._points, start=(which, points[which]))
        return state

    # ---- what a fit leaves behind
    _points: InducingRecord = InducingRecord()

    def _expose(self, model: SparseGPModel, state: State) -> None:
        q = state.q
        self.likelihood_ = model.current_likelihood(q)
        self.kernel_, self.inducing_points_ = model.kernel_and_points(q)
        if self._points.start is not None:
            which, where = self._points.start
            moved = np.abs(self.inducing_points_[which] - where) / self._encoding.unit
            at_rows, start = int(np.sum(moved.max(axis=1) <= AT_ROW)), None if state.finished else self._points.start
            self._points = replace(self._points, at_rows=at_rows, start=start)
        self.noise_variance_ = self.likelihood_.scales.noise
        # In white coordinates, where predictions project from, and as users see it.
        white = model.exposed(q["inducing"])
        self._process = ProcessFit(self.kernel_, self.likelihood_, white, self.inducing_points_)
        self.posterior_ = Posterior({"inducing": model.exposed(unwhitened(model.geometry(q).L, q["inducing"]))})

    def _blocks_of_nodes(self, model: SparseGPModel, blocks: Sequence[Any]) -> list[Any]:
        """Blocks of q at the nodes, in white coordinates, where predictions project from."""
        return [model.exposed(block) for block in blocks]

    def _without_rows(self) -> Any:
        if self._points.at_rows:
            raise ValueError(
                f"training_rows=False: {self._points.at_rows} of the {len(self.inducing_points_)} inducing points of "
                f"this {type(self).__name__} are training rows (inducing={self.inducing!r}, n_inducing="
                f"{self.n_inducing}). Fit with far fewer inducing points than there are different rows, or give points "
                "of your own as inducing."
            )
        return super()._without_rows()

    def _coordinate_name(self, coordinate: int) -> str:
        return f"inducing point {coordinate}{' (class by class)' if self.likelihood_.n_latents > 1 else ''}"

    # ---- the posterior that q stands for
    def _with_rows_of_fit(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Problem, float | None]:
        """The problem that was fitted, with its rows anew; and the bound that the fit ended at."""
        check_is_fitted(self)
        twin = copy.copy(self)  # validation writes to it
        rows = self._encoding.read(twin, GivenRows(X, y, sample_weight, offset), self._encoding, CHUNK)
        data = self._encoding.encode(twin, rows, CHUNK)
        check_same_rows(self, data.total_weight, offset)
        model = twin._model(data, "nothing")
        bound_at_end = final_bound(self, self._process.log_prior) if model.bound == model.teacher else None
        # "v2" is no density of y given the inducing values.
        return twin._problem(model.replaced(bound=model.teacher), data), bound_at_end

    def _joint(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> PosteriorTarget:
        """The fit with its rows, for a comparison of q with the best q of any form at these inducing points."""
        problem, bound_at_end = self._with_rows_of_fit(X, y, sample_weight, offset)
        q, inducing = self.state_.shown, self.posterior_["inducing"]
        L = cast(SparseGPModel, problem.model).geometry(q).L

        def shown(draws: Array) -> Array:
            return (draws.reshape(-1, len(L)) @ L.T).reshape(len(draws), -1) + self.mean_

        return PosteriorTarget(
            problem=problem,
            q=q,
            block="inducing",
            index=self._point_names(),
            mean=inducing.mean.ravel() + self.mean_,
            std=inducing.std.ravel(),
            shown=shown,
            final_bound=bound_at_end,
        )

    def _sites(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> SiteFit:
        """The fit as messages of its rows."""
        return sparse_sites(self, *self._with_rows_of_fit(X, y, sample_weight, offset))

    # ---- streams
    def _streaming_model(self, data: Table, first: bool) -> Any:
        if first:
            self._points = replace(self._points, learned_rows=len(data))
        if not algorithms.resolve(self.algorithm).spec.messages:
            return self._model(data, "gradient")
        return self._model(data, "evidence" if first else "nothing")

    def _restart_rows(self, data: Table, fade: float) -> Table | None:
        learned, rows = self._points.learned_rows, self._rows_at_hand(fade)
        if learned is None or rows is None or learned >= LEARNING_ROWS * self._most_points:
            return None
        rows = rows.concatenated(data)
        size = self._batch_size(len(rows), algorithms.resolve(self.algorithm))
        # Batches and draws would take steps along gradients, in the place of messages.
        steps = (size is not None and size < len(rows)) or not expectations.resolve(self.expectation).exact
        if steps or len(rows) < 2 * learned:
            return None
        mean = self._encoding.mean
        if mean:
            assert rows.offset is not None  # which has the mean
            rows = replace(rows, offset=rows.offset - mean)
        self._encoding = self._encoding.in_units(self, rows, spread_of(rows))
        self.__dict__.update(self._encoding.exposed)
        rows = centred(self._encoding.mean, rows)
        self.kernel_ = self._first_kernel(rows)
        return rows

    def _rows_at_hand(self, fade: float) -> Table | None:
        """All rows of the stream so far, where they are kept and messages say what they said."""
        stream_state = self.state_.messages
        messages = algorithms.resolve(self.algorithm).spec.messages
        return stream_state.faded(fade).everything() if messages and isinstance(stream_state, StreamState) else None

    def _stream_warnings(self, data: Table, first: bool) -> Iterator[str]:
        """Fewer inducing points than were asked for, once they cannot become more."""
        learned, most = self._points.learned_rows, self._most_points
        if first or learned is None or learned >= most or self._rows_at_hand(1.0) is not None:
            return
        self._points = replace(self._points, learned_rows=None)
        yield (
            f"the inducing points of this stream are those of its first {learned} rows, n_inducing={most} or not, and "
            f"what was learned of the kernel rests on as many: earlier rows are not all kept (algorithm="
            f"{self.algorithm!r}, stream_sample={self.stream_sample!r}), so that neither can be learned anew. Begin "
            f"with at least {most} rows, or under algorithm='cvi' let stream_sample hold all rows until so many have "
            "come."
        )

    @property
    def _column_spread(self) -> Array:
        """Standard deviation of each column of the fit, 0 of a constant one."""
        return self._encoding.unit / INPUT_UNIT

    # ---- predictions
    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        return sparse_draws(self, n, rng)

    def _latents_of(self, node: int, X: Array, offset: Any) -> tuple[Array, Array]:
        """Mean and variance of f under one process."""
        place = self._process.places[node]
        self._process.parts[node].block.prepare()

        def one(rows: slice) -> tuple[Array, Array]:
            m, s, d = place.moments(X[rows].astype(float, copy=False))
            m = m + self.mean_
            return m if offset is None else m + offset[rows].reshape(-1, *[1] * (m.ndim - 1)), left_over(s, d)

        blocks = parallel.slices(X.shape[0], parallel.chunk_rows(len(self.inducing_points_), False))
        found = list(parallel.in_order(one, blocks, parallel.n_threads(self.n_jobs)))
        m, v = (np.concatenate(both) for both in zip(*found, strict=True))
        check_latents(m, v, X.dtype, not self.likelihood_.traits.additive)
        return m.astype(X.dtype, copy=False), v.astype(X.dtype, copy=False)

    def _distribution(self, m: Array, v: Array, likelihood: Any = None) -> Any:
        return Predictive(self.likelihood_ if likelihood is None else likelihood, m, v)

    def _response_names(self) -> list[Any]:
        return response_names(self)

    def _mean_draws(
        self, X: Any, n_draws: int, seed: int, offset: Any = None, **options: Any
    ) -> Iterator[tuple[slice, Array]]:
        """Means of y given draws of hyperparameters and inducing values: each draw has one node for all rows.

        What the inducing values leave open of a row counts as its own. Options are of linear models alone.
        """
        given, X = X, validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        offset = checked_offset(self, offset, given)
        drawn, order = self._drawn(n_draws, seed)
        for rows in parallel.slices(X.shape[0], max(1, MOST // (n_draws * drawn[0][1].shape[-1]))):
            here, means = X[rows].astype(float, copy=False), []
            for part, draws, place in drawn:
                _, H, d = place.geometry.rows(here)
                f = np.tensordot(H, draws, (1, draws.ndim - 1)) + self.mean_
                f = f if offset is None else f + offset[rows].reshape(-1, *[1] * (f.ndim - 1))
                means.append(means_given(self._with_likelihood(part.likelihood), f, d))
            yield rows, means[0] if len(means) == 1 else np.concatenate(means, axis=1)[:, order]

    def _drawn(self, n_draws: int, seed: int) -> tuple[list[tuple[NodeProcess, Array, Place]], Array]:
        """Processes with draws of their inducing values, and the order that mixes these."""
        parts, places = self._process.parts, self._process.places
        if len(parts) == 1:
            return [(parts[0], parts[0].block.sample(n_draws, seed), places[0])], np.arange(n_draws)
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n_draws, [part.weight for part in parts])
        seeds = rng.integers(np.iinfo(np.int32).max, size=len(parts))
        drawn = [
            (part, part.block.sample(int(count), int(own)), place)
            for part, place, count, own in zip(parts, places, counts, seeds, strict=True)
            if count
        ]
        return drawn, rng.permutation(n_draws)

    def _with_likelihood(self, likelihood: Any) -> Any:
        """This estimator under the likelihood of a node."""
        twin = copy.copy(self)
        twin.likelihood_ = likelihood
        return twin

    # ---- tables
    def summary(self, coverage: float = 0.9) -> DataFrame:
        """Hyperparameters, the posterior of f at every inducing point, and learned parameters of the likelihood.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper. A kernel's numbers with one per column have its name where X had names, as
            in ``length_scale(price)``. They are point estimates, whose uncertainty is not known: their std, lower and
            upper are NaN. So are those of the likelihood (``noise_variance``, and ``std(residual)``, ``dispersion``,
            ``scale``, ``df``, ``cut_points[k]`` in the last rows), whose spread is what the curvature of the data
            leaves them, kernel and f as fitted; NaN where they were fixed or the fit keeps none.
        """

        check_is_fitted(self)
        tail_of(coverage)
        inducing, learned = self.posterior_["inducing"], self.state_.q.get("likelihood")
        latents = interval_table(inducing.mean + self.mean_, inducing.std, coverage, self._point_names())
        fit, names = self._process, self._names
        tables = [latents, fit.with_spread(learned_rows(self.likelihood_, learned, coverage), coverage, names)]
        if self.likelihood_.scales.noise is not None:
            noise = learned_rows(self.likelihood_, learned, coverage, lambda one: {"noise_variance": one.scales.noise})
            tables.insert(0, fit.with_spread(noise, coverage, names))
        return concatenated([fit.kernel_table(coverage, names), *tables])

    def _point_names(self) -> Any:
        """Index of a summary's rows of f at the inducing points."""
        import pandas as pd

        shape = self.posterior_["inducing"].mean.shape
        return pd.Index([f"f{of or ''}(inducing_points_[{j}])" for *of, j in np.ndindex(shape)])
