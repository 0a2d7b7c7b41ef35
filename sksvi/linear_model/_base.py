"""What classifier and regressor share: parameters, the way from rows to a model, fitted attributes, latents."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from sksvi import likelihoods
from sksvi._names import own_name
from sksvi._runtime import memory
from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow, RandomState, is_compressed
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.checks import check_choice, check_count, check_flag, check_seed, n_rows
from sksvi.estimators.draws import PosteriorDraws, drawn_from_prior
from sksvi.estimators.encoding import GivenRows, Part
from sksvi.estimators.offsets import with_exposure
from sksvi.estimators.posterior import (
    Posterior,
    PosteriorTarget,
    check_same_rows,
    final_bound,
    mean_draws,
    paid_by,
    response_names,
)
from sksvi.estimators.published import Postponed, of_attributes, postponing, with_postponed
from sksvi.estimators.refit import COVARIANCE, LIKELIHOOD, STREAMED, UNCHECKED, auto_or_number, stays, text, truth
from sksvi.estimators.sites import SiteFit
from sksvi.estimators.summaries import CHANGES, CONSTRAINTS, concatenated, exponentiated, posterior_of_nodes
from sksvi.estimators.targets import TargetEncoding
from sksvi.estimators.validation import ENCODE, StrOptions, validate_data
from sksvi.estimators.working import quantile_errors
from sksvi.families import InUnits, Point, ProjectedGaussian
from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian.dense import reweighted
from sksvi.inference import plan
from sksvi.inference.engine import with_fixed_hyper
from sksvi.inference.messages import BlockFactors
from sksvi.inference.passes.line_search import last_evaluation, run_until_settled
from sksvi.inference.passes.path import path_state
from sksvi.inference.problem import Problem
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.start import restarted
from sksvi.inference.state import State, with_own_lists
from sksvi.linear_model._combinations import LinearEffects
from sksvi.linear_model._design import in_basis, in_subspace, informed, with_equal_prior
from sksvi.linear_model._draws import posterior_draws, posterior_target, weight_axes
from sksvi.linear_model._encoding import GLMEncoding
from sksvi.linear_model._fit_warnings import check_determined, glm_warnings, stream_warnings
from sksvi.linear_model._integrated import (
    FittedWeights,
    NodeFit,
    few_for_noise,
    integrated,
    integrates,
    latent_draws,
    mixed_latents,
    moved_effect,
    nearly_fits_rows,
    predictive_mixture,
    rows_for_nodes,
    sites_of_weights,
)
from sksvi.linear_model._low_rank import (
    POSTPONED,
    all_rows,
    attribute_or_reason,
    check_memory,
    check_memory_of_chunk,
    of_low_rank,
)
from sksvi.linear_model._prior import FLAT, covariance_of, own_by_default, prior_kind, prior_text
from sksvi.linear_model._prior_draws import prior_draws
from sksvi.linear_model._quantile import corrected_weights
from sksvi.linear_model._summaries import (
    cut_points_have_nodes,
    effects_table,
    likelihood_tables,
    scale_columns,
    shown_coefficients,
    shown_reference,
)
from sksvi.models.data import Table
from sksvi.models.linear.glm import LinearModel
from sksvi.models.linear.low_rank import LowRankModel
from sksvi.models.linear.scales import SpectralPrior, prior_power
from sksvi.models.linear.two_predictors import TwoPredictors
from sksvi.predictive import Predictive
from sksvi.predictive.pair import PairPredictive
from sksvi.predictive.plain import tail_of
from sksvi.priors import MultivariateNormal

Array = np.ndarray

#: Greatest tolerance under a flat prior: noise and standard errors are compared with those of least squares.
FLAT_TOL = 1e-9
#: Matrices of the size of the covariance that a fit holds at its peak, as `python -m benchmarks hostile.memory` has it:
#: of two q's mean, root, precision, covariance and what a step makes of them. Then those of nodes, where weights settle
#: once more before nodes are found again.
COVARIANCES, SETTLED = 22.0, 8.5
#: Matrices of the size of a wide design that its span takes.
SPANS = 3.0


def _fixed_part_of_prior(estimator: Any, name: str) -> str:
    """What of `prior_precision` a fit that goes on keeps: its kind, and groups with their precisions."""
    given = estimator.prior_precision
    return repr(dict(given)) if isinstance(given, Mapping) else estimator._prior_kind


class BayesianGLM(BaseSVI):
    """Parameters and fitted attributes that classifier and regressor share."""

    LAYOUT = (
        BaseSVI.LAYOUT.replace("lower_bound_ number", "lower_bound_? number")
        + """
        _encoding GLMEncoding; _encoding.columns.scale (c); likelihood_.n_latents count l
        _fitted FittedWeights where it.loo is not None or 'lower_bound_' in vars(self)
        _encoding.n_columns count where it == d
        posterior_._blocks.weights.mean (p) or (l,p) where it.ndim == 2 - (l == 1)
        posterior_._blocks.weights where p == c + bool(self._record.choices.get('fit_intercept', True))
        _fitted.subspace[0]? (c)
        _fitted where (it.shapes is None) == ('prior_power' not in self.state_.q)
        state_.q.prior_power? where it.value.tolist() in ([0.0], [1.0], [2.0])
        state_.q.weights where np.size(it.mean) == l * (self._fitted.n_informed(c) + p - c) + self._encoding.n_effects
        _fitted.nodes? where self._fitted.has_places({b: np.size(q.mean) for b, q in self.state_.q.items()})
        _fitted.nodes.weights? (K); posterior_._blocks[*].node_blocks.weights? (K)
        coef_ (_) x or (l,_) x where it.shape[-1] == c - self._encoding.n_second and (it.ndim == 2 or l == 1)
        coef_std_ (_) x >=0 or (l,_) x >=0 where it.shape == self.coef_.shape
        intercept_ (l) x or number where np.ndim(it) == 1 or l == 1
        prior_precision_ (c) f >=0 or number >=0
        state_.messages.sample.data.X? where getattr(it, 'X', it).shape[1] == c
    """
    )

    _accepts_sparse = True
    _encoding_class = GLMEncoding
    _encoding: GLMEncoding
    #: Class of what targets fix.
    _target_class: ClassVar[type[TargetEncoding]]
    _model_class: ClassVar[type[LinearModel]] = LinearModel
    _two_latents_class: ClassVar[type[TwoPredictors]] = TwoPredictors
    _fitted: FittedWeights
    _for_text = f"{ENCODE}, or name the column in categorical_features"
    #: Noise of each row's own that `_distribution` adds; 0: none.
    noise_scale_: float = 0.0
    likelihood_: likelihoods.Likelihood
    classes_: np.ndarray
    #: Columns of a second latent, where an estimator has that parameter.
    scale_features: Any = None
    zero_features: Any = None
    coef_std_: np.ndarray
    prior_precision_: float | np.ndarray
    loo_ = of_low_rank("loo", "Minus the mean leave-one-out log density of rows of the fit, nats a row.")
    temperature_ = of_low_rank("temperature", "What variances of latents are multiplied by in predictions of y.")
    __getattr__ = attribute_or_reason
    _batch_rule = property(all_rows)

    _parameter_constraints: dict[str, list[Any]] = {
        **BaseSVI._parameter_constraints,
        "stream_sample": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "likelihood": [str, likelihoods.Likelihood],
        "prior_precision": [
            StrOptions({"auto", "ard", "flat"}),
            Interval(Real, 0, None, closed="left"),
            Mapping,
            "array-like",
        ],
        "prior": [dict, Posterior, MultivariateNormal, None],
        "intercept_precision": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        **CONSTRAINTS,
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
    }
    _changes = {
        **STREAMED,
        "likelihood": LIKELIHOOD,
        "prior_precision": stays("q is held in units that it says", _fixed_part_of_prior),
        "prior": stays("the messages of the fit are about it", prior_text),
        "intercept_precision": stays("the first data said where the intercept's prior is centred", auto_or_number),
        "fit_intercept": stays("q has a coordinate for the intercept, or none", truth),
        "categorical_features": stays("q has coordinates for the levels that the first rows had", text),
        "covariance": COVARIANCE,
        "stream_sample": UNCHECKED,
        **CHANGES,
    }

    # ---- model
    @property
    def _prior_kind(self) -> str:
        return prior_kind(self.prior_precision)

    def _model(self, n_features: int, likelihood: Any, precision: Any, **options: Any) -> Any:
        encoding, in_units = self._encoding, covariance_of(self) == "low-rank"
        inside = self._fitted.subspace is not None or in_units
        scales = encoding.scale_prior(likelihood) if isinstance(precision, str) and not in_units else None
        mean, intercept_precision = encoding.prior.intercept
        model: Any = LowRankModel if in_units else self._model_class
        if encoding.second is not None:
            model, options = self._two_latents_class, {**options, "n_second": encoding.second.size}
        return model(
            likelihood,
            prior_precision=precision,
            intercept_mean=mean,
            intercept_precision=intercept_precision,
            unit=encoding.prior.unit,
            relative_scale=1.0 if inside else encoding.relative_scale,  # a subspace has it within
            scales=scales.alike(n_features) if inside and scales is not None else scales,
            named=encoding.named,
            n_features=n_features,
            fit_intercept=self.fit_intercept,
            full=covariance_of(self) == "full",
            **options,
        )

    def _precision(self, n_features: int) -> Any:
        encoding = self._encoding
        if encoding.named is not None and not np.any(encoding.learned):
            return 1.0  # nothing is learned, and no weight has it
        given, n_first = self.prior_precision, n_features - encoding.n_second
        found = encoding.prior.precision(given, encoding.categorical, n_first, self._coordinate_name)
        if encoding.second is None or isinstance(found, str):
            return found
        if self._prior_kind == "flat":
            return FLAT / np.square(encoding.units)
        return found if isinstance(found, float) else encoding.second.each(found, 1.0)

    def _in_span(self, data: Table) -> bool:
        """Whether the coefficients of a fit are held in the span of its rows, which are fewer."""
        n, d = data.X.shape
        one_prior = self._prior_kind not in ("ard", "groups") and self._encoding.named is None
        return bool(covariance_of(self) == "full" and d > n and data.at_hand and one_prior)

    def _check_memory(self, data: Table) -> None:
        if covariance_of(self) == "low-rank":
            check_memory(self, data)
        else:
            self._check_covariance(data, self._in_span(data))

    def _check_memory_of_portion(self, data: Table) -> None:
        if covariance_of(self) == "low-rank":
            check_memory_of_chunk(self, data)
        else:
            self._check_covariance(data, False)  # rows to come span other directions

    def _check_covariance(self, data: Table, wide: bool) -> None:
        """An error where the covariance is too large; `wide`: it is that of a design in the span of its rows."""
        if covariance_of(self) == "diag":
            return
        n, d = data.X.shape
        several = self.likelihood_.n_latents if self.likelihood_.n_latents > 1 else 1
        size = n if wide else d + self.fit_intercept
        over = "rows, in whose span the coefficients lie," if size == n else "coefficients"
        what = f"covariance='full' of {size} {over}{f' in each of {several} classes' if several > 1 else ''}"
        # The classes share one block; a wide design is kept beside its span, whose directions are dense.
        few = few_for_noise(self.likelihood_, data.total_weight, size)
        numbers = (COVARIANCES + SETTLED * few) * float(several * size) ** 2 + (SPANS * n * d if wide else 0.0)
        memory.need(8.0 * numbers, what, "set covariance='diag', or take fewer columns")

    def _build_model(self, data: Table) -> tuple[Any, Table]:
        d = data.X.shape[1]
        self._fitted = replace(self._fitted, subspace=None, shapes=None, only_target=np.empty(0), one_sided_rows=False)
        precision = self._precision(d)
        if not self._in_span(data):
            return self._model(d, self.likelihood_, precision), data
        # In the subspace a fixed prior is standard. Of a learned one MacKay's step counts what data determine, so that
        # weights that no row informs have no part in it.
        learned = isinstance(precision, str)
        scale = self._span_scale(data) if learned else 1.0 / self._encoding.relative_scale / np.sqrt(precision)
        rows, basis = informed(data, scale)
        inside = replace(data, X=rows)
        spectral = learned and self._encoding.categorical is None and rows.shape[1] > 0
        shapes = SpectralPrior.of(inside) if spectral else None
        self._fitted = replace(self._fitted, subspace=(scale, basis), shapes=shapes)
        options = {} if shapes is None else {"shapes": shapes}
        return self._model(rows.shape[1], self.likelihood_, precision if learned else 1.0, **options), inside

    def _span_scale(self, data: Table) -> Array:
        """Prior deviations of weights up to a factor: equal on the spreads of columns, of a sparse table as given."""
        columns = self._encoding.columns
        as_given = is_compressed(data.X) and self._encoding.categorical is None
        return columns.common_scale if as_given else 1.0 / self._encoding.relative_scale

    def _streaming_model(self, data: Table, first: bool) -> Any:
        self._fitted = replace(self._fitted, subspace=None, shapes=None)  # rows to come inform other directions
        return self._model(data.X.shape[1], self.likelihood_, self._precision(data.X.shape[1]))

    # ---- going on from a fit
    def _continued(self, problem: Problem) -> State:
        if covariance_of(self) == "low-rank":  # its weights are where the next path begins
            return super()._continued(problem)
        block = self.state_.q["weights"]
        # Of a chunk the posterior waits, and is of all weights.
        before = self.posterior_["weights"].inner if "posterior_" in vars(self) else block
        powers = {"prior_power": self.state_.q.get("prior_power", Point(np.zeros(1)))}
        if self._fitted.shapes is None and prior_power(self.state_.q):
            before = with_equal_prior(before, float(np.exp(-0.5 * self.state_.q["prior_precision"].value[0])))
        moved = in_subspace(before, block, self._fitted.subspace)
        if moved is block:
            return self._under_new_prior(problem, super()._continued(problem))
        state = with_own_lists(self.state_)
        q = {name: part for name, part in state.q.items() if name != "prior_power"}
        q |= {"weights": moved} | (powers if "prior_power" in problem.model.hyper else {})
        return restarted(problem, replace(state, q=q))

    def _under_new_prior(self, problem: Problem, state: State) -> State:
        """The state with the messages of the fit under the prior that these rows change, and its bound there.

        Of a stream it is known what was said; its q is brought under the new prior. One a little off its prior would
        seem to be told something of weights that the prior pins, and the prior's precision rise on it.
        """
        same_subspace = self._fitted.subspace is not None  # the same one has the same prior
        q = self._within_limits(problem.model, state.q)
        if same_subspace or not state.finished or not plan.remembers(problem):
            return replace(state, q=q)
        model = cast(LinearModel, problem.model)
        scales = self._scales_before(model.scales)
        before = model.replaced(relative_scale=self._encoding.relative_scale_before, scales=scales)
        old, now = before.prior(state.q), model.prior(q)
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
        if hasattr(self, "_encoding"):
            bare._encoding = self._encoding.without_rows
        return bare

    def _partial_fit(self, *given: Any) -> Any:
        with postponing(self, "_fitted"):
            return super()._partial_fit(*given)

    def __getstate__(self) -> dict[str, Any]:
        """Attributes for copies, pickles and files, found where they wait."""
        return super(BayesianGLM, of_attributes(type(self), with_postponed(self))).__getstate__()

    # ---- what a fit leaves behind
    def _show(self, model: Any, state: State) -> None:
        if not self._record.streams:
            return self._expose(model, state)
        self.likelihood_ = model.current_likelihood(state.q)  # from which the next chunk goes on
        self._postponed = Postponed(POSTPONED, model, state, self)

    def _expose(self, model: Any, state: State, looks: Any = None, along: Any = None, levels: Any = None) -> None:
        """Set the fitted attributes; `looks`, `along`, `levels`: of `integrated`, while a fit has its rows."""
        q, columns = state.q, self._encoding.columns
        weights, precision = (
            model.exposed(reweighted(q["weights"], model.widening(q))),
            model.precision(q)[: model.n_fixed],
        )
        if self._fitted.subspace is not None:
            weights, precision = self._lifted(q, weights)
        self.likelihood_ = model.current_likelihood(q)
        view = self._in_users_units(weights)
        sample = getattr(state.messages, "sample", None)
        if looks is None and sample is not None and "likelihood" in q:
            looks = rows_for_nodes(self, self._problem(model, sample.blown_up), state, sample.dropped == 0.0)
        # At once: where a callback ends the looks, what stood before stands.
        weights, self._fitted = integrated(self, model, state, view, looks, along, levels)
        if covariance_of(self) == "low-rank":
            walk = path_state(state)
            self._fitted = replace(self._fitted, temperature=walk.temperature, loo=walk.loo)
        names = self._column_names()
        names = names + [own_name("intercept", names)] * self.fit_intercept
        self.posterior_ = Posterior({"weights": weights}, names)
        given = self.prior_precision
        of_columns = precision if columns.own else precision * np.square(columns.scale)
        self.prior_precision_ = float(given) if isinstance(given, Real) else of_columns
        self._expose_coefficients(weights)

    def _expose_coefficients(self, weights: Any) -> None:
        """Set means and deviations of the coefficients, of a second latent under names of their own."""
        dtype = self._encoding.dtype
        mean, std = weights.mean.astype(dtype), weights.std.astype(dtype, copy=False)
        d = mean.shape[-1] - self.fit_intercept
        intercept = mean[..., d] if self.fit_intercept else np.zeros_like(mean[..., :1].sum(-1))
        if self._encoding.second is not None:
            d -= (m := self._encoding.n_second)
            kind, own, spread = self._encoding.second.kind, mean[d : d + m], std[d : d + m]
            found = {"coef_": own[:-1], "coef_std_": spread[:-1], "intercept_": own[-1]}
            for name, value in found.items():
                setattr(self, f"{kind}_{name}", value)
        self.coef_, self.coef_std_, self.intercept_ = mean[..., :d], std[..., :d], intercept[()]

    def _in_users_units(self, weights: Any) -> InUnits:
        columns = self._encoding.columns
        return InUnits(weights, columns.centre, columns.scale, columns.own, n_second=self._encoding.n_second)

    def _views(self, model: Any, weights: Any) -> dict[str, Any]:
        """Blocks as users see them, of the weights of all columns in the coordinates of the model."""
        return {"weights": self._in_users_units(model.exposed(weights))}

    def _lifted(self, q: Mapping[str, Any], weights: Any) -> tuple[Any, Array]:
        """All weights, from those in the subspace, and the precision of the prior of each."""
        assert self._fitted.subspace is not None
        (scale, basis), shapes, power = self._fitted.subspace, self._fitted.shapes, prior_power(q)
        learned = float(np.exp(q["prior_precision"].value[0])) if "prior_precision" in q else 1.0
        precision = learned / np.square(scale)
        if shapes is None or not power:
            return ProjectedGaussian(scale, basis, weights, 1.0 / np.sqrt(learned)), precision
        rest, variance = shapes.rest(power), shapes.variance(power)
        view = ProjectedGaussian(scale, basis, weights, float(np.sqrt(rest / learned)), variance / rest)
        return view, precision / shapes.of_weights(power, basis)

    @property
    def prior_power_(self) -> int:
        """Power p of the prior covariance 0.1 I + 0.9 (XᵀX)ᵖ of the coefficients, up to a factor; 0: all are alike."""
        check_is_fitted(self)
        return prior_power(self.state_.shown)

    @property
    def _tolerance(self) -> float:
        return min(self.tol, FLAT_TOL) if self._prior_kind == "flat" else self.tol

    def _refine(self, problem: Problem, state: State, budget: EvaluationBudget) -> str | None:
        """An error where a flat prior leaves a coefficient undetermined; nodes that need the rows."""
        check_determined(self, problem, state)
        if cast(LinearModel, problem.model).likelihood.traits.quantile and quantile_errors(self) == "corrected":
            q = {**state.shown, "weights": corrected_weights(problem, state)}
            self._expose(problem.model, replace(state, q=q))
            return None
        return self._with_rows(problem, state, budget, rows_for_nodes(self, problem, state))

    def _with_rows(self, problem: Problem, state: State, budget: EvaluationBudget, rows: Any) -> str | None:
        """Nodes that need the rows; what was left undone."""
        if rows is not None:
            self._expose(problem.model, replace(state, q=state.shown), rows)
        elif integrates(self) and nearly_fits_rows(problem, state):
            # What is left of y is a difference: the weights have to be at their best for the noise.
            here = last_evaluation(run_until_settled(with_fixed_hyper(problem), state, 2, 0.0))
            self._expose(problem.model, replace(state, q=here.q, bound=here.bound))
        return None

    def _fit_warnings(self, problem: Problem, state: State) -> Iterator[str | Warning]:
        yield from glm_warnings(self, problem, state)

    def _stream_warnings(self, data: Table, first: bool) -> Iterator[str]:
        return stream_warnings(self, data, first)

    # ---- names
    def _coordinate_name(self, coordinate: int) -> str:
        names, subspace = self._coordinate_names(), self._fitted.subspace
        width = len(names) if subspace is None else subspace[1].shape[1]
        coordinate %= width + self.fit_intercept  # classes follow one another
        if coordinate == width:
            return "the intercept"
        return "a combination of columns" if subspace is not None else names[coordinate]

    def _coordinate_names(self) -> list[str]:
        """What errors call the coordinates of the Gaussian block, without the intercept."""
        names: Any = getattr(self, "feature_names_in_", range(self.n_features_in_))
        plain = self._encoding.categorical is None and self._encoding.second is None
        return [f"column {name!r}" for name in (names if plain else self._column_names())]

    def _column_names(self) -> list[str]:
        """Names of the coefficients but the intercept."""
        names, encoding = self._names_of_columns(), self._encoding
        names = names if encoding.categorical is None else encoding.categorical.names(names)
        return names if encoding.second is None else encoding.second.names(names)

    def _names_of_columns(self) -> list[str]:
        """Names of the columns that have coefficients."""
        return list(getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)]))

    def _kind_names(self) -> list[str]:
        """What each kind of columns is called."""
        groups, second = self._encoding.groups, self._encoding.second
        if groups is not None:
            return groups.names
        return ["coefficients"] if second is None else ["coefficients", f"{second.kind}:coefficients"]

    # ---- prediction
    def _validated(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._encoding.design(self, X)

    def _predicting(self, X: Any, fit: NodeFit) -> Any:
        """The model that projects rows on the block of a node."""
        return self._model(X.shape[1], fit.likelihood, 1.0)

    @property
    def _weights_view(self) -> Any:
        """The view that predictions start from."""
        return self.posterior_["weights"]

    def _inner_block(self, component: Any) -> Any:
        """The block in the coordinates of the fit, of a view of the weights."""
        return component.inner

    def _in_units(self, component: Any, draws: Array) -> Array:
        """Coordinates of a view, in the user's units, from draws of the block in the coordinates of the fit."""
        return np.asarray(component.lifted(draws))

    def _distribution(self, m: Array, v: Array, likelihood: Any = None) -> Any:
        """Predictive distribution of y for latents of this mean and variance; None: the likelihood of the fit."""
        likelihood = self.likelihood_ if likelihood is None else likelihood
        return Predictive(likelihood, m, v) if self._encoding.second is None else PairPredictive(likelihood, m, v)

    def _predictive(self, X: Any, offset: Any) -> Any:
        return predictive_mixture(self, X, offset)

    def _response_names(self) -> list[Any]:
        return response_names(self)

    def _mean_draws(
        self, X: Any, n_draws: int, seed: int, offset: Any = None, **options: Any
    ) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows in turn: their slice and means of y, (n, S, number of names); options: of `latent_draws`."""
        return mean_draws(self, latent_draws(self, X, n_draws, seed, offset, **options))

    def _effect_of(self, low: Any, high: Any) -> Array | None:
        return moved_effect(self, low, high)

    @property
    def _linear_effects(self) -> LinearEffects:
        """What its coefficients, and combinations of them, say of columns and levels."""
        return LinearEffects(self)

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
        m, v = mixed_latents(self, X, offset)
        return m, np.diagonal(v, axis1=1, axis2=2).copy() if v.ndim == 3 else v

    # ---- tables
    def summary(
        self,
        coverage: float = 0.9,
        exponentiate: bool = False,
        reference: object = None,
        *,
        effects: str | None = None,
        contrasts: str = "reference",
        reference_levels: Mapping[Any, Any] | None = None,
    ) -> DataFrame:
        """What the data say of every effect, then the learned parameters of the likelihood.

        Each row answers for one effect: under a weak prior of its own, that of the others as it was learned
        (``effects="own"``, the default where the prior was learned). `coef_` and predictions are under the prior that
        all share, as rows of ``effects="joint"`` are. A categorical column has a row ``column_level`` for every level
        but its first, with which it is compared; the intercept is f at these first levels and at 0 of all numbers.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        exponentiate : bool, default=False
            Whether to add ``exp(mean)``, ``exp(lower)`` and ``exp(upper)``: odds ratios of a logit link (of an ordinal
            target: of more than any level), rate ratios of a log link.
        reference : label, default=None
            For more than two classes: the class that coefficients of the others are compared with; rows are then the
            differences w_c - w_reference, with the covariance between classes that the posterior has. None: the first
            class under a flat prior; the mean of all classes where effects are "own", which the data do not tell
            beyond; else none.
        effects : {"own", "joint"}, default=None
            "own": each effect (of a categorical column, of the classes, all together) under N(0, (2.5 u / s)²), u the
            standard deviation of a measured target, 1 behind a link, s that of the column, half the distance of its two
            values; of classes half that variance. "joint": under the prior that all effects share, the only one for
            ``covariance="diag"``. None: "own" where `prior_precision` is "auto" or "ard", else "joint".
        contrasts : {"reference", "mean", "none"}, default="reference"
            Levels of a categorical column less its reference, less the mean of all rows, or each level beside zero.
        reference_levels : dict, default=None
            Column to the level that others are compared with; None: the first of each.

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, direction; one row per coefficient, by class for more than two classes.
            A row that is no column's has a name that no column has: where a column is called "intercept", that of the
            intercept is ``(intercept)``.
            ``direction`` is the posterior probability that a coefficient has the sign of its mean. Parameters of the
            likelihood that were learned follow (``std(residual)`` of Gaussian noise, ``dispersion``, ``scale``, ``df``,
            ``cut_points[k]``), without direction and exp: points with the spread that the data's curvature leaves them,
            all else as fitted, NaN where the fit keeps none. Fixed ones have no row. Of mixed models
            ``std(group, effect)`` between the levels of each group comes before these, with the spread of its
            posterior, and ``noise variance`` per row after them.

        Raises
        ------
        ValueError
            exponentiate=True with another link, or for more than two classes without `reference`; a `reference` that is
            none of more than two classes; ``effects="own"`` of a prior that was given, or without correlations; an
            unknown column or level in `reference_levels`.

        Notes
        -----
        With S the covariance of q, Δ the prior's precisions and W the weak ones a set J of effects has the covariance
        (S_JJ⁻¹ - Δ_J + W_J)⁻¹: exact for a Gaussian likelihood given its hyperparameters, over whose posterior rows are
        mixed. Nothing is corrected for many looks: to rank many columns use `coef_`.
        """
        check_is_fitted(self)
        check_choice(effects, "effects", (None, "own", "joint"))
        check_choice(contrasts, "contrasts", ("reference", "mean", "none"))
        tail_of(coverage)
        reference = shown_reference(self, reference)
        table = effects_table(self, coverage, reference, effects, contrasts, reference_levels)
        if check_flag(exponentiate, "exponentiate"):
            if reference is None and self.likelihood_.n_latents > 1:
                raise ValueError(
                    "exponentiate=True of more than two classes needs a class that the odds are against: set reference "
                    f"to one of {self.classes_.tolist()}."
                )
            table = exponentiated(table, self.likelihood_, type(self).__name__)
        if cut_points_have_nodes(self):
            table = table.iloc[:-1]
        return concatenated([table, *self._scale_tables(coverage)])

    hyperparameter_posterior_ = posterior_of_nodes(
        lambda self: self._fitted.nodes, lambda self, values: self._hyperparameter_columns(values)
    )

    def _hyperparameter_columns(self, values: Array) -> dict[str, Any]:
        """Names to values (k,) in the user's units, of values (k, H) of nodes."""
        return scale_columns(self, values)

    def _scale_tables(self, coverage: float) -> list[Any]:
        """What a summary has below the coefficients."""
        return likelihood_tables(self, coverage)

    def _axes_of(self, block: str, ndim: int) -> dict[str, Any]:
        """Name and labels of each axis of a block."""
        return weight_axes(self, ndim)

    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        return posterior_draws(self, n, rng)

    def _prior_draws(self, X: Any, n: int, rng: Any, offset: Any = None) -> tuple[Any, PosteriorDraws]:
        return prior_draws(self, X, n, rng, offset)

    @property
    def _column_spread(self) -> Array | None:
        """What each column that has a coefficient spreads over; None under a fixed prior, which does not ask."""
        stats = self._encoding.columns.stats
        return None if stats is None else stats.spread

    def _shown_coefficients(self, coverage: float) -> tuple[list[Array], Array]:
        return shown_coefficients(self, coverage)

    def _data_header(self) -> list[tuple[str, str]]:
        """Header lines about the data: beside rows and columns what became of categorical ones."""
        lines, categories = super()._data_header(), self._encoding.categorical
        if self.covariance == "auto" and covariance_of(self) == "low-rank":
            lines.append(("covariance", "low-rank, by the shape of the rows"))
        if self.prior_power_:
            power = "(XᵀX)²" if self.prior_power_ == 2 else "XᵀX"
            lines.append(("prior", f"wider along leading directions of the rows: covariance 0.1 I + 0.9 {power}"))
        if categories is None:
            return lines
        return [*lines, ("categorical", categories.description(self._names_of_columns()))]

    def _table_header(self, effects: str | None = None, **options: Any) -> list[tuple[str, str]]:
        """A header line about the question that rows answer."""
        if own_by_default(self) if effects is None else effects == "own":
            named = "" if self._encoding.named is None else ", priors by name as given"
            return [("effects", f"each under a weak prior of its own, the others' as learned{named}")]
        if self._prior_kind in ("auto", "ard", "groups"):
            return [("effects", "under the prior that was learned for all")]
        return []

    # ---- the prior
    def sample_prior(
        self,
        X: MatrixLike,
        n_draws: int = 1,
        random_state: RandomState = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
    ) -> Array:
        """Draws of y at the rows of X, of parameters from their prior (prior predictive).

        Before `fit` X fixes the columns and their scales; what targets fix stands for those of mean 0 and standard
        deviation 1, of counts of mean 1, of labels alike often. After it units, levels and classes are those of the
        fit.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, D)
        n_draws : int, default=1
            Draws of all parameters, each with one y of every row.
        random_state : int, RandomState or None, default=None
        offset, exposure : array-like of shape (n,), default=None
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_draws, n)
            Numbers, labels or levels; of a binomial target the successes in one trial of each row.

        Raises
        ------
        TypeError
            For a Dask collection.
        ValueError
            For a prior that is not proper: ``prior_precision="flat"`` and "ard", ``covariance="low-rank"``, and learned
            parameters of a likelihood without a prior, as the cut points of an ordinal one.

        Examples
        --------
        >>> import numpy as np
        >>> from sksvi import BayesianGLMRegressor
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> y = BayesianGLMRegressor(likelihood="poisson", intercept_precision=1.0).sample_prior(X, 200, random_state=0)
        >>> y.shape, bool(np.all(y >= 0))
        ((200, 50), True)
        """
        n_draws = check_count(n_draws, "n_draws", bytes_each=8.0 * n_rows(X))
        offset = with_exposure(self, offset, exposure, X)
        return drawn_from_prior(self, X, n_draws, check_seed(random_state), offset)[1]

    # ---- the posterior that q stands for
    def _with_rows_of_fit(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Problem, float | None]:
        """The problem that was fitted, with its rows anew; and the bound that the fit ended at."""
        check_is_fitted(self)
        twin = copy.copy(self)  # validation writes to it
        twin._record = replace(self._record, streams=False)
        validate_data(twin, X, skip_check_array=True, reset=False)  # columns of the fit
        given, part = GivenRows(X, y, sample_weight, offset), Part(whole=False, remote=True)
        encoding = self._encoding_for(given)
        data = encoding.encode(twin, encoding.read(twin, given, encoding, part), part)
        check_same_rows(self, data.total_weight, offset)
        model, data = twin._model_of_fit(data)
        return twin._problem(model, data), final_bound(self, paid_by(self, model))

    @property
    def _messages_tell_scales(self) -> bool:
        """Whether the messages of the fit say how the posterior of hyperparameters falls, as its nodes have it."""
        return True

    def _joint(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> PosteriorTarget:
        """The fit with its rows, for a comparison of q with its posterior."""
        return posterior_target(self, *self._with_rows_of_fit(X, y, sample_weight, offset))

    def _sites(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> SiteFit:
        """The fit as messages of its rows."""
        return sites_of_weights(self, *self._with_rows_of_fit(X, y, sample_weight, offset))

    def _encoding_for(self, given: GivenRows) -> GLMEncoding:
        """The encoding of the fit, for its rows once more."""
        return self._encoding

    def _model_of_fit(self, data: Table) -> tuple[Any, Table]:
        """The model that was fitted, and its rows in the coordinates of q."""
        subspace = self._fitted.subspace
        if subspace is None:
            precision = self._precision(len(self._encoding.columns.scale))
            return self._model(data.X.shape[1], self.likelihood_, precision), data
        scale, basis = subspace
        inner = self.prior_precision if isinstance(self.prior_precision, str) else 1.0
        data = replace(data, X=in_basis(data.X, scale, basis))
        options = {} if self._fitted.shapes is None else {"shapes": self._fitted.shapes}
        return self._model(basis.shape[1], self.likelihood_, inner, **options), data
