"""What the mixed-effects estimators share: categorical columns in, group effects out, noise in the predictions."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_X_y
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms
from sksvi._runtime import memory
from sksvi._runtime.kinds import is_compressed
from sksvi._typing.arrays import MatrixLike, PerRow
from sksvi.estimators.categorical import Levels, fixed_columns
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.posterior_target import PosteriorTarget
from sksvi.estimators.refit import UNCHECKED, stays, text
from sksvi.estimators.stage import Stage
from sksvi.estimators.tables import as_table
from sksvi.estimators.unseen import ON_UNSEEN
from sksvi.estimators.validation import StrOptions, check_numeric_target, validate_data
from sksvi.families import InUnits, Marginal
from sksvi.families.gaussian.mixture import NodeMixture
from sksvi.inference.search import Ended, EvaluationBudget, profile
from sksvi.linear_model._base import COVARIANCES, BayesianGLM
from sksvi.linear_model._columns import ColumnStats
from sksvi.linear_model._integrated import NodeFit
from sksvi.mixed_effects._group_tables import GroupTables
from sksvi.mixed_effects._groups_in_partitions import GroupsInPartitions
from sksvi.mixed_effects._kinds import LevelValues, kinds_of
from sksvi.mixed_effects._levels import check_levels, coded, factor_names, slope_columns, slopes_among
from sksvi.models.base import Table, summed
from sksvi.models.mixed.glm import Groups, MixedModel
from sksvi.models.mixed.group_scales import SETTLED, SETTLING_PASSES, LogScales
from sksvi.models.mixed.levels import GroupedDesign

Array = np.ndarray

#: What "auto" is in a fit, where all rows are at hand, and in a stream, which has to absorb what each portion said.
FIT_ALGORITHM, STREAM_ALGORITHM = "mc-ssvi", "cvi"
#: Up to this many weights the precision of natural steps is an ordinary matrix.
DENSE_WEIGHTS = 256
#: Standard deviations from 0 beyond which a column's slopes and intercepts are told to be badly placed: there the model
#: itself is, whose best optimum may have no slopes at all (40 nats lost at 10 of them, 100 and more at 200).
FAR = 10.0
#: Times as much is held where hyperparameters are integrated and q of a node has to be fitted.
NODES = 1.35


class MixedEffects(GroupTables, GroupsInPartitions, BayesianGLM):
    """Groups and noise on top of the GLM; ahead of it in the order of bases."""

    _parameter_constraints: dict[str, list[Any]] = {
        **BayesianGLM._parameter_constraints,
        "algorithm": [StrOptions({"auto"}), *BayesianGLM._parameter_constraints["algorithm"]],
        "bound": [StrOptions({"auto", "optimal", "simple", "mean-field"})],
        "noise": [StrOptions({"auto"}), "boolean"],
        "noise_prior_scale": [Interval(Real, 0, None, closed="neither")],
        "groups": ["array-like", str, Integral, None],
        "random_slopes": ["array-like", str, Integral, Mapping, None],
        "on_unseen": [StrOptions(set(ON_UNSEEN))],
    }
    _changes = {
        **BayesianGLM._changes,
        "bound": UNCHECKED,
        "noise": stays("q has noise per row, or none", lambda estimator, name: estimator._noisy),
        "noise_prior_scale": UNCHECKED,
        "groups": stays("q has the effects of their levels", text),
        "random_slopes": stays("q has the effects of their columns", text),
        "on_unseen": UNCHECKED,
    }
    _for_text = f"{BayesianGLM._for_text}, or in groups"
    bound: str
    noise: Any
    noise_prior_scale: float
    groups: Any
    random_slopes: Any
    on_unseen: str
    #: Whether the call under way, or the last one, is one of a stream.
    _streams = False

    # ---- rows
    def _checked(self, X: Any, y: Any, reset: bool, weight: Any = None, **options: Any) -> tuple[Any, Array]:
        """The fixed columns with the levels of each row beside them, and y."""
        if self.groups is None:
            if self.random_slopes is not None:
                raise ValueError(
                    f"random_slopes={self.random_slopes!r} are slopes of the levels of a group, and groups is None: "
                    "name the grouping columns in groups, or leave random_slopes out."
                )
            return super()._checked(X, y, reset, weight, **options)
        X = as_table(X)
        validate_data(self, X, skip_check_array=True, reset=reset)
        if reset:
            self._fix_factors()
        design = self._grouped(X, reset, fit=True, weight=weight)
        if options.get("y_numeric"):
            check_numeric_target(y)
        fixed, y = check_X_y(
            design.X, y, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_features=0, **options
        )
        return replace_fixed(design, fixed), y

    def _validated(self, X: Any) -> Any:
        if getattr(self, "_factors", None) is None:
            return super()._validated(X)
        check_is_fitted(self)
        X = as_table(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        return self._grouped(X, reset=False, fit=False)

    def _grouped(self, X: Any, reset: bool, fit: bool, weight: Any = None) -> GroupedDesign:
        """X as fixed columns and codes of levels; -1 where a level is unknown or missing (in predictions only)."""
        others = [j for j in range(self.n_features_in_) if j not in self._factors]
        fixed = self._design(fixed_columns(X, self._factors), reset, weight, others)
        alone = self._alone
        if reset:
            self._slopes = slopes_among(self._slopes, self._categories)
            levels = [Levels.of(X, j) for j in self._factors]
            self._fix_group_levels(levels)
            alone = [one.before(0) for one in levels]
        codes = coded(X, self._factors, self._levels, alone, fit)
        if not fit:
            check_levels(self.on_unseen, X, self._factors, self._levels, codes)
        values = []
        for names, columns in self._slopes:
            slopes = fixed[:, columns]
            slopes = slopes.toarray() if is_compressed(slopes) else slopes
            values.append(np.column_stack([np.ones(len(codes)), slopes]) if len(names) else None)
        return GroupedDesign(fixed, codes, tuple(values), self._sizes, self._arrow(fixed.shape[1]))

    def _fix_factors(self) -> None:
        """Which columns are grouping columns, and which have slopes."""
        self._factors = factor_names(self)
        self._slopes = slope_columns(self)

    def _fix_group_levels(self, levels: list[Levels]) -> None:
        self._levels, self._sizes = [one.names for one in levels], tuple(one.size for one in levels)

    def _arrow(self, n_fixed: int) -> int | None:
        """The factor with most effects, where an arrow pays and the algorithm steps in natural coordinates."""
        counts = [size * (1 + len(names)) for size, (names, _) in zip(self._sizes, self._slopes, strict=True)]
        natural = self._algorithm().spec.natural and self.covariance == "full"
        return int(np.argmax(counts)) if natural and sum(counts) + n_fixed > DENSE_WEIGHTS else None

    def _algorithm(self) -> algorithms.Algorithm:
        if not isinstance(self.algorithm, str) or self.algorithm != "auto":
            return super()._algorithm()
        return algorithms.resolve(STREAM_ALGORITHM if self._streams else FIT_ALGORITHM)

    # ---- model
    @property
    def _noisy(self) -> bool:
        """Whether rows have noise of their own; "auto" is what the first targets decided."""
        return bool(self._overdispersible if isinstance(self.noise, str) else self.noise)

    @property
    def _layout(self) -> Groups | None:
        if self.groups is None:
            return None
        effects = tuple(1 + len(names) for names, _ in self._slopes)
        sizes = [size * r for size, r in zip(self._sizes, effects, strict=True)]
        starts = tuple(int(start) for start in np.cumsum([self._n_fixed, *sizes]))
        return Groups(starts, self._sizes, effects)

    @property
    def _n_fixed(self) -> int:
        """Columns of X with a coefficient."""
        if self._categories is not None:
            return self._categories.width
        return self.n_features_in_ - (0 if self.groups is None else len(self._factors))

    def _model(self, n_features: int, likelihood: Any, precision: Any, **options: Any) -> MixedModel:
        return MixedModel(
            likelihood,
            bound=self._bound(),
            noise_prior_scale=self.noise_prior_scale if self._noisy else None,
            groups=self._layout,
            unit=self._unit,
            relative_scale=self._relative_scale,
            scales=self._scale_prior(n_features) if isinstance(precision, str) else None,
            prior_precision=precision,
            intercept_mean=self._intercept_prior[0],
            intercept_precision=self._intercept_prior[1],
            n_features=n_features,
            fit_intercept=self.fit_intercept,
            full=self.covariance == "full",
            **options,
        )

    def _bound(self) -> str:
        if self.bound != "auto":
            return self.bound
        message_algorithm_given = self.algorithm != "auto" and self._algorithm().spec.messages
        return "mean-field" if message_algorithm_given else "optimal"

    def _encode(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Table:
        self._streams = start.portion and not start.share
        if start.fresh:
            self._factors = None
        data = super()._encode(X, y, sample_weight, offset, start)
        if start.fresh:
            self._overdispersible = self.likelihood_.overdispersible(data.y)
        return data

    # ---- units
    def _fixed_part(self, X: Any) -> Any:
        return X if self.groups is None else X.X

    def _working(self, data: Table, start: Stage) -> Table:
        if self.groups is not None:
            if start.fresh:
                self._slope_scales = [self._scale_by(self._slope_columns(data, columns)) for _, columns in self._slopes]
            if not start.share:
                constant = np.stack([values.constant for values in self._level_values(data)])
                self._kinds_before = None if start.fresh else self._kinds(constant.shape[1])[0]
                # What varied within a level of an earlier chunk does.
                self._constant = constant if not start.portion or start.fresh else constant & self._constant
        return super()._working(data, start)

    def _level_values(self, data: Table) -> list[LevelValues]:
        """Per grouping column, the fixed columns that are constant within its levels, and their values there."""
        pairs = zip(self._levels, data.X.codes.T, strict=True)
        return [LevelValues.of(names, codes, data.X.X) for names, codes in pairs]

    def _kinds(self, n_columns: int) -> tuple[Array, Array]:
        if self.groups is None:
            return super()._kinds(n_columns)
        sizes = np.array([len(names) for names in self._levels])
        return kinds_of(self._constant, sizes), np.append(np.inf, sizes - 1.0)

    @staticmethod
    def _slope_columns(data: Table, columns: list[int]) -> ColumnStats:
        return ColumnStats.of(data.X.X[:, columns], data.weight, np.zeros(len(columns)))

    @staticmethod
    def _scale_by(stats: ColumnStats) -> Array:
        """What each effect of a level is divided by: 1 for its intercept, the spread of its column for a slope."""
        spread = stats.spread
        return np.append(1.0, np.where(spread > 0, spread, 1.0))

    def _in_units(self, X: Any) -> Any:
        if self.groups is None:
            return super()._in_units(X)
        pairs = zip(X.values, self._slope_scales, strict=True)
        values = tuple(None if value is None else value / scale for value, scale in pairs)
        return GroupedDesign(self._columns.applied(X.X), X.codes, values, X.levels, X.arrow)

    def _check_covariance(self, data: Table, wide: bool) -> None:
        """The largest factor is a diagonal of an arrow, where there is one; all else has covariances among itself."""
        if self.groups is None or self.covariance == "diag":
            return super()._check_covariance(data, wide)
        counts = [size * (1 + len(names)) for size, (names, _) in zip(self._sizes, self._slopes, strict=True)]
        total, largest = self._n_fixed + 1 + sum(counts), max(counts)
        arrow = self._arrow(self._n_fixed) is not None
        corner = total - largest if arrow else total
        numbers = corner**2 + (corner * largest if arrow else 0)
        what = f"covariance='full' of {total} coefficients and levels"
        nodes = self.hyperparameters == "integrated" and self.likelihood_.noise_variance is None
        n_matrices = COVARIANCES * (NODES if nodes else 1.0)
        memory.need(n_matrices * 8.0 * numbers, what, "set covariance='diag', or leave a factor out of groups")

    def _build_model(self, data: Table) -> tuple[Any, Table]:
        if self.groups is not None:
            return self._streaming_model(data, True), data
        model, data = super()._build_model(data)
        return model.tabulated(data.y), data

    def _streaming_model(self, data: Table, first: bool) -> Any:
        self._subspace = None
        means = () if self.groups is None else slope_means(data)
        norms = tuple(float(np.linalg.norm(mean)) for mean in means)
        precision = self._precision(self._n_fixed)
        return self._model(data.X.shape[1], self.likelihood_, precision, slope_mean_norms=norms).tabulated(data.y)

    # ---- the posterior that q stands for
    def _joint(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> PosteriorTarget:
        check_is_fitted(self)
        if self.groups is None:
            return super()._joint(X, y, sample_weight, offset)
        twin = copy.copy(self)
        twin._alone = [len(names) for names in self._levels]  # rows without a level come in the order of the fit
        table = as_table(X)
        for j, name, names, size in zip(self._factors, self._group_names(), self._levels, self._sizes, strict=True):
            missing, before = sum(Levels.of(table, j).alone.values()), size - len(names)
            if missing != before:
                raise ValueError(
                    f"grouping column {name!r} has {missing} rows without a level, and the fit had {before}: give the "
                    "rows of the fit."
                )
        return BayesianGLM._joint(twin, X, y, sample_weight, offset)

    def _model_of_fit(self, data: Table) -> tuple[Any, Table]:
        model, data = super()._model_of_fit(data)
        return model.tabulated(data.y), data

    def _scales_before(self, scales: Any) -> Any:
        kinds = getattr(self, "_kinds_before", None)
        return scales if scales is None or kinds is None else replace(scales, kinds=kinds)

    # ---- what a fit leaves behind
    def _expose(self, model: Any, state: Any) -> None:
        super()._expose(model, state)
        blocks = dict(self.posterior_)
        self.noise_scale_ = self.noise_variance_ = 0.0
        if self._noisy:
            blocks["noise"] = state.q["noise"]
            self.noise_scale_ = state.q["noise"].scale
            self.noise_variance_ = float(state.q["noise"].mean[0])
        if self.groups is not None:
            effects = Marginal(state.q["weights"], np.arange(model.n_fixed, model.n_features))
            pairs = zip(self._slope_scales, self._sizes, strict=True)
            scale = np.concatenate([np.tile(own, size) for own, size in pairs])
            view: Any = InUnits(effects, np.zeros(len(scale)), scale)
            weights = self.posterior_["weights"]
            blocks["groups"] = NodeMixture(view, weights.node_blocks) if isinstance(weights, NodeMixture) else view
            # In the coordinates of the fit, as predictions need them.
            mode = state.q["group_std"].value
            if self._nodes is None or "group_std" not in self._places:
                self._log_scales = LogScales(mode[None], np.ones(1), np.zeros(len(mode)))
            else:
                found = (self._values_of("group_std", part) for part in (self._nodes.values, self._nodes.within))
                values, within = found
                self._log_scales = LogScales(values, self._nodes.weights, within)
        self.posterior_ = Posterior(blocks)

    def _with_rows(self, problem: Any, state: Any, budget: EvaluationBudget) -> str | None:
        """Nodes with q(w) settled anew along the axes; with Gaussian noise alone messages are exact."""
        exact = not self._noisy and self.likelihood_.noise_variance is not None
        if self.groups is None or exact or not self._integrates or not state.converged:
            return super()._with_rows(problem, state, budget)
        model, q = problem.model.with_fixed_likelihood(state.q, problem.data.y)
        there = replace(problem, model=model), replace(state, q=q)
        try:
            if budget.ended:
                raise Ended
            self._along = profile(*there, "group_std", SETTLING_PASSES, SETTLED, budget)
            self._expose(problem.model, replace(state, q=state.shown))
        except Ended:
            return "did not settle the posterior of group_std_, which is too narrow,"
        finally:
            self._along = None
        return None

    def _fit_warnings(self, problem: Any, state: Any) -> Iterator[str]:
        yield from super()._fit_warnings(problem, state)
        if self.groups is not None:
            yield from self._slopes_far_from_zero(problem.data)
        alone = self.likelihood_.scales.noise is not None or self._noisy or self.likelihood_.levels is not None
        if self.groups is None or not alone:
            return
        for name, weights in zip(self._group_names(), problem.data.reduced(level_weights), strict=True):
            if weights.max() <= 1:
                yield (
                    f"group {name!r} has one row in each level: its effects cannot be told from "
                    f"{'the noise per row' if self._noisy else 'what is random in each row anyway'}, and both rest on "
                    f"their priors. Leave {name!r} out of groups, or name a column whose levels have several rows."
                )

    def _slopes_far_from_zero(self, data: Any) -> Iterator[str]:
        """Columns whose effects and those of the intercept, independent at 0, can only meet in each other's tails."""
        means = slope_means(data)
        spreads = [np.sqrt(square) for square in slope_means(data, means)]
        for group, (names, _), *moments in zip(self._group_names(), self._slopes, means, spreads, strict=True):
            for name, centre, spread in zip(names, *moments, strict=True):
                if not abs(centre) > FAR * spread > 0:
                    continue
                yield (
                    f"random_slopes of {name!r}: its values are {abs(centre) / spread:.0f} standard deviations from 0, "
                    f"where the slopes of the levels of {group!r} and their intercepts are independent a priori; "
                    f"group_std_ and the effect of {name!r} cannot be trusted. Subtract a typical value of {name!r} "
                    "from it first."
                )

    def _names_of_columns(self) -> list[str]:
        names = super()._names_of_columns()
        return [name for j, name in enumerate(names) if self.groups is None or j not in self._factors]

    def _coordinate_names(self) -> list[str]:
        if self.groups is None:
            return super()._coordinate_names()
        names = [f"column {name!r}" for name in self._column_names()]
        index = self._effect_index()
        return names + [f"effect {effect!r} of level {level!r} of group {group!r}" for group, level, effect in index]

    # ---- prediction
    @property
    def _weights_view(self) -> Any:
        return self.posterior_["weights" if self.groups is None else "groups"]

    def _inner_block(self, component: Any) -> Any:
        return component.inner if self.groups is None else component.inner.joint

    def _predicting(self, X: Any, fit: NodeFit) -> Any:
        if self.groups is None:
            return super()._predicting(X, fit)
        own = None if fit.values is None else self._values_of("group_std", fit.values)
        unseen = self._log_scales.mean_square if own is None else np.exp(2.0 * own)
        return self._model(X.shape[1], fit.likelihood, 1.0, unseen=unseen)

    def _distribution(self, m: Array, v: Array, likelihood: Any = None) -> Any:
        if not self.noise_scale_:
            return super()._distribution(m, v, likelihood)
        from sksvi.predictive.noisy import NoisyPredictive

        return NoisyPredictive(self.likelihood_ if likelihood is None else likelihood, m, v, self.noise_scale_)

    def predict_latent(self, X: MatrixLike, offset: PerRow | None = None) -> tuple[Array, Array]:
        """Mean and variance of f under the posterior, noise included.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, D)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        mean, variance : ndarrays of shape (n,)
        """
        m, v = super().predict_latent(X, offset)
        return (m, v + v.dtype.type(self.noise_variance_)) if self.noise_scale_ else (m, v)


def slope_means(data: Any, about: tuple[Array, ...] | None = None) -> tuple[Array, ...]:
    """Mean of each column that has slopes, by grouping column; `about` means: of the square of what is off them."""
    sums, n = data.reduced(partial(slope_sums, about))
    return tuple(total / n for total in sums)


def slope_sums(about: tuple[Array, ...] | None, data: Table) -> tuple[tuple[Array, ...], float]:
    """Sums over rows of the columns that `slope_means` averages, and the weight of the rows."""
    slopes = [np.zeros((len(data), 0)) if values is None else values[:, 1:] for values in data.X.values]
    if about is not None:
        slopes = [np.square(values - mean) for values, mean in zip(slopes, about, strict=True)]
    return tuple(summed(values.T, data.weight) for values in slopes), data.total_weight


def level_weights(data: Table) -> tuple[Array, ...]:
    """Weight of the rows of each level, by grouping column."""
    pairs = zip(data.X.codes.T, data.X.levels, strict=True)
    return tuple(np.bincount(codes, data.weight, size).astype(float) for codes, size in pairs)


def replace_fixed(design: GroupedDesign, fixed: Any) -> GroupedDesign:
    """The design with other fixed columns."""
    return GroupedDesign(fixed, design.codes, design.values, design.levels, design.arrow)
