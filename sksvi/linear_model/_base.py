"""What classifier and regressor share: parameters, the way from rows to a model, fitted attributes, latents."""

from __future__ import annotations

import copy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from sksvi import likelihoods
from sksvi._runtime import memory
from sksvi._runtime.kinds import is_compressed
from sksvi._typing.arrays import ArrayLike, MatrixLike, PerRow, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike, LikelihoodLike
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.from_partitions import FromPartitions
from sksvi.estimators.hyperparameters import CHANGES, CONSTRAINTS
from sksvi.estimators.offsets import offset_of
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.posterior_target import PosteriorTarget, check_same_rows, final_bound, paid_by
from sksvi.estimators.refit import COVARIANCE, LIKELIHOOD, STREAMED, UNCHECKED, auto_or_number, stays, text, truth
from sksvi.estimators.response import ResponseDraws
from sksvi.estimators.stage import PARTITION
from sksvi.estimators.validation import StrOptions
from sksvi.families import InUnits, ProjectedGaussian
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference import plan
from sksvi.inference.memory.factors import BlockFactors
from sksvi.inference.problem import Problem
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.start import restarted
from sksvi.inference.state import State, with_own_lists
from sksvi.linear_model._columns import ColumnScaling
from sksvi.linear_model._fit_warnings import LinearFindings
from sksvi.linear_model._integrated import IntegratedScales, NodeFit
from sksvi.linear_model._scale_prior import SharedScales
from sksvi.linear_model._scaling import PriorScaling
from sksvi.linear_model._subspace import in_basis, in_subspace, informed
from sksvi.linear_model._summaries import CoefficientTables
from sksvi.linear_model._with_categories import WithCategories
from sksvi.models.base import Table
from sksvi.models.linear.glm import LinearModel
from sksvi.partitions.summary import DataSummary, Either

Array = np.ndarray

#: Matrices of the size of the covariance that a fit holds at its peak, as `python -m benchmarks hostile.memory` has it:
#: of two q's mean, root, precision, covariance and what a step makes of them.
COVARIANCES = 14.5
#: Matrices of the size of a wide design that its span takes.
SPANS = 3.0


class BayesianGLM(
    LinearFindings,
    CoefficientTables,
    IntegratedScales,
    ResponseDraws,
    WithCategories,
    FromPartitions,
    SharedScales,
    PriorScaling,
    BaseSVI,
):
    """Parameters and fitted attributes that classifier and regressor share."""

    _parameter_constraints: dict[str, list[Any]] = {
        **BaseSVI._parameter_constraints,
        "stream_sample": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "likelihood": [str, likelihoods.Likelihood],
        "prior_precision": [StrOptions({"auto", "ard", "flat"}), Interval(Real, 0, None, closed="left"), "array-like"],
        "intercept_precision": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        **CONSTRAINTS,
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
    }
    _changes = {
        **STREAMED,
        "likelihood": LIKELIHOOD,
        "prior_precision": stays("q is held in units that it says", lambda estimator, name: estimator._prior_kind),
        "intercept_precision": stays("the first data said where the intercept's prior is centred", auto_or_number),
        "fit_intercept": stays("q has a coordinate for the intercept, or none", truth),
        "categorical_features": stays("q has coordinates for the levels that the first rows had", text),
        "covariance": COVARIANCE,
        "stream_sample": UNCHECKED,
        **CHANGES,
    }

    def __init__(
        self,
        *,
        likelihood: LikelihoodLike = "gaussian",
        prior_precision: float | str | ArrayLike = "auto",
        intercept_precision: float | str = "auto",
        fit_intercept: bool = True,
        hyperparameters: str = "integrated",
        categorical_features: str | ArrayLike | None = "from_dtype",
        algorithm: AlgorithmLike = "cvi",
        expectation: ExpectationLike = "auto",
        covariance: str = "full",
        batch_size: int | str | None = "auto",
        max_iter: int = 300,
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
        self.prior_precision = prior_precision
        self.intercept_precision = intercept_precision
        self.fit_intercept = fit_intercept
        self.hyperparameters = hyperparameters
        self.categorical_features = categorical_features
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

    # ---- model
    def _model(self, n_features: int, likelihood: Any, precision: Any) -> LinearModel:
        return LinearModel(
            likelihood,
            prior_precision=precision,
            intercept_mean=self._intercept_prior[0],
            intercept_precision=self._intercept_prior[1],
            unit=self._unit,
            relative_scale=self._relative_scale,
            scales=self._scale_prior(n_features) if isinstance(precision, str) else None,
            n_features=n_features,
            fit_intercept=self.fit_intercept,
            full=self.covariance == "full",
        )

    @property
    def _relative_scale(self) -> Any:
        """What the prior of the model's columns is meant for, in units of their scale; a subspace has it within."""
        return 1.0 if self._subspace is not None else self._columns.relative_scale

    def _rows(self, X: Any, y: Array, sample_weight: Any, offset: Any) -> Table:
        """Rows that count, CSR in canonical form, weights and offsets checked; a weight of zero removes its row."""
        n = X.shape[0]
        weight = check_row_values(sample_weight, n, "sample_weight", weights=True)
        data = Table(X, y, weight, offset_of(self, offset, n))
        self._dtype = X.dtype.name
        if weight is not None and not np.all(weight > 0):
            data = data.take(np.flatnonzero(weight > 0))
        if is_compressed(data.X) and not data.X.has_canonical_format:
            X = data.X.copy()
            X.sum_duplicates()
            data = replace(data, X=X)
        return data

    def _in_span(self, data: Table) -> bool:
        """Whether the coefficients of a fit are held in the span of its rows, which are fewer."""
        n, d = data.X.shape
        return bool(self.covariance == "full" and d > n and data.at_hand and self._prior_kind != "ard")

    def _check_memory(self, data: Table) -> None:
        self._check_covariance(data, self._in_span(data))

    def _check_memory_of_portion(self, data: Table) -> None:
        self._check_covariance(data, False)  # rows to come span other directions

    def _check_covariance(self, data: Table, wide: bool) -> None:
        """An error where the covariance is too large; `wide`: it is that of a design in the span of its rows."""
        if self.covariance == "diag":
            return
        n, d = data.X.shape
        several = self.likelihood_.n_latents if self.likelihood_.n_latents > 1 else 1
        size = n if wide else d + self.fit_intercept
        over = "rows, in whose span the coefficients lie," if size == n else "coefficients"
        what = f"covariance='full' of {size} {over}{f' in each of {several} classes' if several > 1 else ''}"
        # The classes share one block; a wide design is kept beside its span, whose directions are dense.
        numbers = COVARIANCES * float(several * size) ** 2 + (SPANS * n * d if wide else 0.0)
        memory.need(8.0 * numbers, what, "set covariance='diag', or take fewer columns")

    def _build_model(self, data: Table) -> tuple[Any, Table]:
        d = data.X.shape[1]
        self._subspace = None
        for name in ("_only_target", "_one_sided_past"):  # of a stream: a fit forgets it
            vars(self).pop(name, None)
        precision = self._precision(d)
        if not self._in_span(data):
            return self._model(d, self.likelihood_, precision), data
        scale = 1.0 / self._columns.relative_scale
        scale = scale if isinstance(precision, str) else scale / np.sqrt(precision)
        columns, basis = informed(data, scale)
        self._subspace = scale, basis
        # In the subspace a fixed prior is standard. Of a learned one MacKay's step counts what data determine, so that
        # weights that no row informs have no part in it.
        inner = precision if isinstance(precision, str) else 1.0
        return self._model(columns.shape[1], self.likelihood_, inner), replace(data, X=columns)

    def _streaming_model(self, data: Table, first: bool) -> Any:
        self._subspace = None  # rows to come inform other directions
        return self._model(data.X.shape[1], self.likelihood_, self._precision(data.X.shape[1]))

    # ---- rows in partitions
    def _column_facts(self, data: Table) -> dict[str, Any]:
        fixed = self._fixed_part(data.X)
        centred = self._to_centre(fixed) if is_compressed(fixed) else True
        stats = ColumnScaling.of(fixed, data.weight, centred, scaled=True).known
        return {"columns": stats, "sparse": Either(is_compressed(fixed))}

    def _fix_columns(self, facts: DataSummary, targets: Table, fresh: bool) -> None:
        stats, centred = self._fix_categories(facts) if fresh else (facts.own["columns"], False)
        self._fix_by_stats(stats, targets, fresh, centred)

    # ---- going on from a fit
    def _continued(self, problem: Problem) -> State:
        block = self.state_.q["weights"]
        moved = in_subspace(self.posterior_["weights"].inner, block, self._subspace)
        if moved is block:
            return self._under_new_prior(problem, super()._continued(problem))
        state = with_own_lists(self.state_)
        return restarted(problem, replace(state, q={**state.q, "weights": moved}))

    def _under_new_prior(self, problem: Problem, state: State) -> State:
        """The state with the messages of the fit under the prior that these rows change, and its bound there.

        Of a stream it is known what was said; its q is brought under the new prior. One a little off its prior would
        seem to be told something of weights that the prior pins, and the prior's precision rise on it.
        """
        same_subspace = self._subspace is not None  # the same one has the same prior
        q = self._within_limits(problem.model, state.q)
        if same_subspace or not state.finished or not plan.remembers(problem):
            return replace(state, q=q)
        scales = self._scales_before(problem.model.scales)
        before = problem.model.replaced(relative_scale=self._relative_scale_before, scales=scales)
        old, now = before.prior(state.q), problem.model.prior(q)
        if all(np.array_equal(old[name].precision, now[name].precision) for name in old if name == "weights"):
            return replace(state, q=q)
        state = replace(state, q={**q, **{name: state.q[name] for name in old}})
        if isinstance(state.messages, BlockFactors):
            try:
                return replace(
                    state, q=state.q | {name: now[name].times(state.q[name].over(old[name])) for name in old}
                )
            except NotPositiveDefinite:
                return state
        paid = sum(state.q[name].kl(now[name]) - state.q[name].kl(old[name]) for name in old)
        return replace(state, messages=BlockFactors.between(state.q, old), bound=state.bound - paid)

    @staticmethod
    def _within_limits(model: Any, q: dict[str, Any]) -> dict[str, Any]:
        """q with the scales that it learned where the limits of these rows let them be."""
        if model.scales is None or "prior_precision" not in q:
            return q
        point = q["prior_precision"]
        return {**q, "prior_precision": point.at(np.clip(point.value, model.scales.lowest, model.scales.highest))}

    def _scales_before(self, scales: Any) -> Any:
        """The prior of scales that the fit has had so far: its columns are of the same kinds."""
        return scales

    def _without_rows(self) -> Any:
        bare = super()._without_rows()
        columns = getattr(self, "_columns", None)
        if columns is not None and columns.known is not None:
            bare._columns = replace(columns, known=columns.known.without_extremes)
        return bare

    # ---- what a fit leaves behind
    def _expose(self, model: Any, state: State) -> None:
        q = state.q
        weights, precision = model.exposed(q["weights"]), model.precision(q)[: model.n_fixed]
        if self._subspace is not None:
            scale, basis = self._subspace
            learned = float(np.exp(q["prior_precision"].value[0])) if "prior_precision" in q else 1.0
            weights = ProjectedGaussian(scale, basis, weights, 1.0 / np.sqrt(learned))
            precision = learned / np.square(scale)
        self.likelihood_ = model.current_likelihood(q)
        view = InUnits(weights, self._columns.centre, self._columns.scale)
        weights = self._integrated(model, state, view)
        self.posterior_ = Posterior({"weights": weights})
        shared = isinstance(self.prior_precision, Real)
        precision = precision * np.square(self._columns.scale)
        self.prior_precision_ = float(self.prior_precision) if shared else precision
        mean, std = weights.mean.astype(self._dtype), weights.std.astype(self._dtype)
        d = mean.shape[-1] - self.fit_intercept
        intercept = mean[..., d] if self.fit_intercept else np.zeros_like(mean[..., :1].sum(-1))
        self._expose_coefficients(mean[..., :d], std[..., :d], intercept)

    def _refine(self, problem: Problem, state: State, budget: EvaluationBudget) -> str | None:
        """An error where a flat prior leaves a coefficient undetermined."""
        self._check_determined(problem, state)
        self._looks = self._looked(problem, state)
        try:
            return self._with_rows(problem, state, budget)
        finally:
            del self._looks

    def _coordinate_name(self, coordinate: int) -> str:
        names = self._coordinate_names()
        width = len(names) if self._subspace is None else self._subspace[1].shape[1]
        coordinate %= width + self.fit_intercept  # classes follow one another
        if coordinate == width:
            return "the intercept"
        return "a combination of columns" if self._subspace is not None else names[coordinate]

    def _coordinate_names(self) -> list[str]:
        """What errors call the coordinates of the Gaussian block, without the intercept."""
        names: Any = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return [f"column {name!r}" for name in (names if self._categories is None else self._column_names())]

    def _expose_coefficients(self, coef: Array, std: Array, intercept: Any) -> None:
        raise AttributeError(f"{type(self).__name__} does not name its coefficients")

    # ---- prediction
    def _predicting(self, X: Any, fit: NodeFit) -> Any:
        return self._model(X.shape[1], fit.likelihood, 1.0)

    def predict_latent(self, X: MatrixLike, offset: PerRow | None = None) -> tuple[Array, Array]:
        """Mean and variance of f = Xw + offset under the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        mean, variance : ndarrays of shape (n,), or (n, K) for more than two classes
        """
        check_is_fitted(self)
        m, v = self._latent(X, offset)
        return m, np.diagonal(v, axis1=1, axis2=2).copy() if v.ndim == 3 else v

    # ---- the posterior that q stands for
    def _joint(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> PosteriorTarget:
        """The fit with its rows, for a comparison of q with its posterior."""
        check_is_fitted(self)
        twin = copy.copy(self)  # validation writes to it
        data = twin._encode(X, y, sample_weight, offset, PARTITION)
        check_same_rows(self, data.total_weight, offset)
        model, data = twin._model_of_fit(data)
        weights = self.posterior_["weights"]
        weights = getattr(weights, "view", weights)  # hyperparameters are those of the fit
        return PosteriorTarget(
            problem=twin._problem(model, data),
            q=self.state_.shown,
            block="weights",
            index=self._effects(0.9, None).index,
            mean=weights.mean.ravel(),
            std=weights.std.ravel(),
            shown=lambda draws: weights.shown(draws).reshape(len(draws), -1),
            final_bound=final_bound(self, paid_by(self, model)),
        )

    def _model_of_fit(self, data: Table) -> tuple[Any, Table]:
        """The model that was fitted, and its rows in the coordinates of q."""
        if self._subspace is None:
            precision = self._precision(len(self._columns.scale))
            return self._model(data.X.shape[1], self.likelihood_, precision), data
        scale, basis = self._subspace
        inner = self.prior_precision if isinstance(self.prior_precision, str) else 1.0
        data = replace(data, X=in_basis(data.X, scale, basis))
        return self._model(basis.shape[1], self.likelihood_, inner), data

    def _column_names(self) -> list[str]:
        """Names of the coefficients but the intercept."""
        names = self._names_of_columns()
        return names if self._categories is None else self._categories.names(names)

    def _names_of_columns(self) -> list[str]:
        """Names of the columns that have coefficients."""
        return list(getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
