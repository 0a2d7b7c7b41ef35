"""What the mixed-effects estimators share: categorical columns in, group effects out, noise in the predictions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from sksvi import algorithms
from sksvi._runtime import memory
from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow
from sksvi.estimators.checks import check_row_values, interval_table
from sksvi.estimators.encoding import GivenRows
from sksvi.estimators.offsets import checked_offset
from sksvi.estimators.posterior import Posterior, RowBounds, divergence_at, row_terms
from sksvi.estimators.refit import UNCHECKED, stays, text, truth
from sksvi.estimators.summaries import COLUMNS, node_table
from sksvi.estimators.tables import as_table
from sksvi.estimators.unseen import ON_UNSEEN
from sksvi.estimators.validation import StrOptions
from sksvi.families import Marginal
from sksvi.families.gaussian.mixture import NodeMixture
from sksvi.inference.search import Ended, EvaluationBudget, profile
from sksvi.linear_model._base import COVARIANCES, BayesianGLM
from sksvi.linear_model._columns import SPREAD
from sksvi.linear_model._groups import OTHERS
from sksvi.linear_model._integrated import NodeFit, integrates
from sksvi.mixed_effects._encoding import GroupedEncoding, arrow_of
from sksvi.mixed_effects._included import including
from sksvi.mixed_effects._levels import factor_name, level_column, levels_of
from sksvi.models.data import Table
from sksvi.models.linear.hyperposterior import LinearHyperposterior
from sksvi.models.mixed.covariances import Groups, LogScales
from sksvi.models.mixed.glm import SETTLED, SETTLING_PASSES, MixedModel
from sksvi.models.mixed.integrated import IntegratedLevels, has_one_effect_a_level
from sksvi.models.mixed.noise_bounds import BOUNDS
from sksvi.models.mixed.two_predictors import MixedTwoPredictors
from sksvi.predictive.plain import tail_of

Array = np.ndarray

#: What "auto" is in a fit, where all rows are at hand, and in a stream, which has to absorb what each portion said.
FIT_ALGORITHM, STREAM_ALGORITHM = "mc-ssvi", "cvi"
#: Standard deviations from 0 beyond which a column's slopes are told to be badly placed, if independent of intercepts:
#: lines that differ among the rows by level and slope alike would need intercepts three times as wide, and more.
FAR = 3.0
#: Correlation whose z is a number, by rounding.
MOST_CORRELATION = 1.0 - 2.0**-53
#: Of the intervals of `group_effects_`.
COVERAGE = 0.9
#: Times as much is held where hyperparameters are integrated and q of a node has to be fitted.
NODES = 1.35


class MixedEffects(BayesianGLM):
    """Groups and noise on top of the GLM; ahead of it in the order of bases."""

    LAYOUT = f"""{BayesianGLM.LAYOUT}
        _encoding GroupedEncoding; _encoding.factors[*].column count <d
        posterior_._blocks where not self._encoding.factors or it['groups'].mean.shape == (self._encoding.n_effects,)
        state_.q where not self._encoding.factors or np.size(it['group_std'].mean) == self._encoding.n_group_values
        _fitted where not self._encoding.factors or it.group_scales.nodes.shape[1] == self._encoding.n_group_values
    """

    _encoding_class = GroupedEncoding
    _encoding: GroupedEncoding
    _model_class = MixedModel
    _two_latents_class = MixedTwoPredictors
    noise_variance_: float

    _parameter_constraints: dict[str, list[Any]] = {
        **BayesianGLM._parameter_constraints,
        "prior": [dict, None],
        "algorithm": [StrOptions({"auto"}), *BayesianGLM._parameter_constraints["algorithm"]],
        "bound": [StrOptions({"auto", "optimal", "simple", "mean-field"})],
        "noise": [StrOptions({"auto"}), "boolean"],
        "noise_prior_scale": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "groups": ["array-like", str, Integral, None],
        "random_slopes": ["array-like", str, Integral, Mapping, None],
        "random_intercepts": ["boolean", "array-like", str, Integral],
        "correlated": ["boolean"],
        "on_unseen": [StrOptions(set(ON_UNSEEN))],
    }
    _changes = {
        **BayesianGLM._changes,
        "bound": UNCHECKED,
        "noise": stays("q has noise per row, or none", lambda estimator, name: estimator._noisy),
        "noise_prior_scale": UNCHECKED,
        "groups": stays("q has the effects of their levels", text),
        "random_slopes": stays("q has the effects of their columns", text),
        "random_intercepts": stays("q has the effects of their levels", text),
        "correlated": stays("q has the correlations of effects, or none", truth),
        "on_unseen": UNCHECKED,
    }
    _for_text = f"{BayesianGLM._for_text}, or in groups"
    bound: str
    noise: Any
    noise_prior_scale: Any
    groups: Any
    random_slopes: Any
    random_intercepts: Any = True  # of files that have none
    correlated: bool
    on_unseen: str

    def _algorithm(self) -> algorithms.Algorithm:
        if not isinstance(self.algorithm, str) or self.algorithm != "auto":
            return super()._algorithm()
        return algorithms.resolve(STREAM_ALGORITHM if self._record.streams else FIT_ALGORITHM)

    # ---- model
    @property
    def _noisy(self) -> bool:
        """Whether rows have noise of their own; "auto" is what the first targets decided."""
        return bool(self._encoding.overdispersible if isinstance(self.noise, str) else self.noise)

    def _model(self, n_features: int, likelihood: Any, precision: Any, **options: Any) -> MixedModel:
        noise = self.noise_prior_scale if self._noisy else None
        own = {"bound": self._bound(), "noise_prior_scale": noise, "groups": self._encoding.layout}
        return super()._model(n_features, likelihood, precision, **own, **options)

    def _bound(self) -> str:
        if self.bound != "auto":
            return self.bound
        message_algorithm_given = self.algorithm != "auto" and self._algorithm().spec.messages
        return "mean-field" if message_algorithm_given else "optimal"

    def _in_partitions(self, given: GivenRows, fixed: Any) -> Any:
        data, encoding, had_offset = super()._in_partitions(given, fixed)
        return data, replace(cast(GroupedEncoding, encoding), alone={}), had_offset  # partitions have it by now

    def _check_covariance(self, data: Table, wide: bool) -> None:
        """The largest factor is a diagonal of an arrow, where there is one; all else has covariances among itself."""
        if self.groups is None or self.covariance == "diag":
            return super()._check_covariance(data, wide)
        encoding = self._encoding
        n_fixed, counts = len(encoding.columns.scale), encoding.sizes
        total, largest = n_fixed + 1 + sum(counts), max(counts)
        arrow = arrow_of(self, encoding.factors, n_fixed) is not None
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
        self._fitted = replace(self._fitted, subspace=None, shapes=None, undone=())
        precision = self._precision(len(self._encoding.columns.scale))
        means = self._encoding.means_in_units
        return self._model(data.X.shape[1], self.likelihood_, precision, slope_means=means).tabulated(data.y)

    # ---- the posterior that q stands for
    def _encoding_for(self, given: GivenRows) -> GroupedEncoding:
        factors = self._encoding.factors
        if not factors:
            return self._encoding
        table = as_table(given.X)
        for name, factor in zip(self._group_names(), factors, strict=True):
            missing, before = sum(levels_of(table, factor.source).alone.values()), factor.size - len(factor.names)
            if missing != before:
                raise ValueError(
                    f"grouping column {name!r} has {missing} rows without a level, and the fit had {before}: give the "
                    "rows of the fit."
                )
        # Rows without a level come in the order of the fit.
        return replace(self._encoding, alone={0: [len(factor.names) for factor in factors]})

    def _model_of_fit(self, data: Table) -> tuple[Any, Table]:
        model, data = super()._model_of_fit(data)
        return model.tabulated(data.y), data

    def _scales_before(self, scales: Any) -> Any:
        kinds = self._encoding.kinds_before
        return scales if scales is None or kinds is None else replace(scales, kinds=kinds)

    # ---- rows under each bound
    _check_y: Callable[[Any, Any], Array]

    def _row_bounds(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> RowBounds:
        """Terms of rows under every bound at the fitted q, with levels as in predictions."""
        codes, twin = self._check_y(X, y), copy.copy(self)  # validation writes to it
        design, q, encoding = twin._validated(X), self.state_.shown, self._encoding
        weight = check_row_values(sample_weight, len(codes), "sample_weight", weights=True)
        weight = encoding.target.row_weight(self, codes, weight)
        rows = Table(
            encoding.in_units(design), codes, weight, checked_offset(self, offset, X, y=y, sample_weight=sample_weight)
        )
        model, rows = twin._model_of_fit(rows)
        unseen = None if self.groups is None else self._layout.covariances(q["group_std"].value)
        alone = model.replaced(unseen=unseen, table=None)
        problem, under = twin._problem(alone, rows), {name: alone.replaced(bound=name) for name in BOUNDS}
        levels = zip(self._group_names(), encoding.sources, strict=True) if self.groups is not None else ()
        return RowBounds(
            fitted=model.bound,
            values={name: row_terms(replace(problem, model=own.tabulated(codes)), q) for name, own in under.items()},
            gaps=(("optimal", "mean-field"), ("optimal", "simple")),
            divergence=divergence_at(problem, q),
            weight=np.ones(len(rows)) if weight is None else weight,
            groups={name: level_column(as_table(X), source).to_numpy() for name, source in levels},
        )

    # ---- what a fit leaves behind
    def _show(self, model: Any, state: Any) -> None:
        super()._show(model, state)
        self.noise_scale_ = self.noise_variance_ = 0.0
        if self._noisy:
            self.noise_scale_, self.noise_variance_ = state.q["noise"].scale, float(state.q["noise"].mean[0])

    def _expose(self, model: Any, state: Any, *rows: Any) -> None:
        super()._expose(model, state, *rows)
        blocks, fitted = dict(self.posterior_), self._fitted
        if self._noisy:
            blocks["noise"] = state.q["noise"]
        if self.groups is not None:
            view = self._views(model, state.q["weights"])["groups"]
            weights = self.posterior_["weights"]
            blocks["groups"] = NodeMixture(view, weights.node_blocks) if isinstance(weights, NodeMixture) else view
            # In the coordinates of the fit, as predictions need them.
            mode, nodes = state.q["group_std"].value, fitted.nodes
            scales = LogScales(mode[None], np.ones(1), np.zeros(len(mode)))
            if nodes is not None and "group_std" in fitted.places:
                at = slice(*fitted.places["group_std"])
                within = np.zeros(len(mode)) if nodes.within is None else nodes.within[at]
                scales = LogScales(nodes.values[:, at].copy(), nodes.weights, within)
            self._fitted = replace(fitted, group_scales=scales)
        self.posterior_ = Posterior(blocks)

    def _views(self, model: Any, weights: Any) -> dict[str, Any]:
        views = super()._views(model, weights)
        if self.groups is None:
            return views
        effects = Marginal(weights, np.arange(model.n_fixed, model.n_features))
        return views | {"groups": self._encoding.effects_in_units(effects)}

    @property
    def _messages_tell_scales(self) -> bool:
        return self.groups is None or (not self._noisy and self.likelihood_.noise_variance is not None)

    def _with_rows(self, problem: Any, state: Any, budget: EvaluationBudget, rows: Any) -> str | None:
        """Nodes with q(w) settled anew along the axes; with Gaussian noise alone messages are exact."""
        if self._messages_tell_scales or not integrates(self) or not state.converged:
            return super()._with_rows(problem, state, budget, rows)
        try:
            if budget.ended:
                raise Ended
            if problem.scale == 1.0 and has_one_effect_a_level(problem.model, problem.data):
                self._integrate_levels(problem, state, budget, rows)
                return None
            model, q = problem.model.with_fixed_likelihood(state.q, problem.data.y)
            there = replace(problem, model=model), replace(state, q=q)
            along = profile(*there, "group_std", SETTLING_PASSES, SETTLED, budget)
            self._expose(problem.model, replace(state, q=state.shown), rows, along)
        except Ended:
            return "did not settle the posterior of group_std_, which is too narrow,"
        return None

    def _integrate_levels(self, problem: Any, state: Any, budget: EvaluationBudget, rows: Any) -> None:
        """Nodes of the density of all hyperparameters, with levels' effects integrated one by one."""

        def look() -> None:
            if budget(state.bound):
                raise Ended

        q, n = dict(state.shown), problem.data.total_weight
        levels = IntegratedLevels(problem.model, q, problem.data, look)
        posterior = LinearHyperposterior(problem.model, q, state.bound, n, rows, levels)
        q = posterior.blocks_at(posterior.highest())
        q["weights"] = levels.weights(q)
        levels = levels.about(q)
        there = replace(state, q=q, bound=levels.log_density(q))
        self._expose(problem.model, there, None if rows is None else rows.at(there), None, levels)
        self._fitted = replace(self._fitted, undone=tuple(sorted(levels.undone)))

    def _fit_warnings(self, problem: Any, state: Any) -> Iterator[str | Warning]:
        yield from super()._fit_warnings(problem, state)
        yield from (ConvergenceWarning(f"{type(self).__name__}: {text}.") for text in self._fitted.undone)
        if self.groups is not None:
            yield from self._slopes_far_from_zero()
        of_levels = self.likelihood_.levels is not None and not self._encoding.overdispersible  # one trial in each row
        alone = self.likelihood_.scales.noise is not None or self._noisy or of_levels
        if self.groups is None or not alone:
            return
        for name, weights in zip(self._group_names(), problem.data.reduced(level_weights), strict=True):
            if weights.max() <= 1:
                yield (
                    f"group {name!r} has one row in each level: its effects cannot be told from "
                    f"{'the noise per row' if self._noisy else 'what is random in each row anyway'}, and both rest on "
                    f"their priors. Leave {name!r} out of groups, or name a column whose levels have several rows."
                )

    def _slopes_far_from_zero(self) -> Iterator[str]:
        """Columns whose effects and those of the intercept, at 0, can only meet in each other's tails."""
        parts = zip(self._group_names(), self._encoding.factors, self._encoding.means_in_units, strict=False)
        for group, factor, means in parts:
            for name, off in zip(factor.effects, SPREAD * np.abs(means), strict=True):
                if off > FAR:
                    yield (
                        f"random_slopes of {name!r}: its values are {off:.0f} standard deviations from 0, where the "
                        f"slopes of the levels of {group!r} and their intercepts are independent a priori; group_std_ "
                        f"and the effect of {name!r} cannot be trusted. Subtract a typical value of {name!r} from it "
                        "first, or set correlated=True."
                    )

    def _names_of_columns(self) -> list[str]:
        names = super()._names_of_columns()
        return [name for j, name in enumerate(names) if j not in self._encoding.grouping]

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

    def _in_units(self, component: Any, draws: Array) -> Array:
        return super()._in_units(component, draws) if self.groups is None else np.asarray(component.shown(draws))

    def _axes_of(self, block: str, ndim: int) -> dict[str, Any]:
        if block != "groups":
            return super()._axes_of(block, ndim)
        return {"group_effect": [f"{group}[{level}] {effect}" for group, level, effect in self._effect_index()]}

    def _predicting(self, X: Any, fit: NodeFit) -> Any:
        if self.groups is None:
            return super()._predicting(X, fit)
        own = None if fit.values is None else self._fitted.values_of("group_std", fit.values)
        layout = self._layout
        unseen = self._fitted.group_scales.mean_covariances(layout) if own is None else layout.covariances(own)
        return self._model(X.shape[1], fit.likelihood, 1.0, unseen=unseen)

    def _distribution(self, m: Array, v: Array, likelihood: Any = None) -> Any:
        if not self.noise_scale_:
            return super()._distribution(m, v, likelihood)
        from sksvi.predictive.noisy import NoisyPredictive

        return NoisyPredictive(self.likelihood_ if likelihood is None else likelihood, m, v, self.noise_scale_)

    @including
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

    # ---- tables
    @property
    def _layout(self) -> Groups:
        """Where the effects of each group are among the weights, and what covariance they have."""
        return cast(Groups, self._encoding.layout)

    def _group_names(self) -> list[Any]:
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        return [factor_name(names, source) for source in self._encoding.sources]

    def _effect_index(self) -> list[tuple[Any, Any, str]]:
        """(group, level, effect) of every group coordinate; level None: a row that named no level."""
        rows = []
        for group, factor in zip(self._group_names(), self._encoding.factors, strict=True):
            padded = [*factor.names, *[None] * (factor.size - len(factor.names))]
            rows += [(group, level, effect) for level in padded for effect in factor.effects]
        return rows

    @property
    def group_effects_(self) -> DataFrame:
        """Every level's effects: DataFrame (mean, std, lower, upper of 90 %) by group, level and effect."""
        import pandas as pd

        self._check_groups()
        effects = self.posterior_["groups"]
        rows = self._effect_index()
        index = pd.MultiIndex.from_tuples(rows, names=["group", "level", "effect"])
        table = interval_table(effects.mean, effects.std, COVERAGE, index)
        return table[[level is not None for _, level, _ in rows]]

    @property
    def group_std_(self) -> DataFrame:
        """Posterior mean and sd of each standard deviation between levels: DataFrame by group and effect."""
        import pandas as pd

        self._check_groups()
        pairs = zip(self._group_names(), self._encoding.factors, strict=True)
        rows = [(group, effect) for group, factor in pairs for effect in factor.effects]
        index = pd.MultiIndex.from_tuples(rows, names=["group", "effect"])
        scales = self._user_scales
        return pd.DataFrame({"mean": scales.mean[: len(rows)], "std": scales.std[: len(rows)]}, index=index)

    @property
    def _user_scales(self) -> LogScales:
        """The posterior of what the groups' covariances are made of, in the units of X."""
        return self._fitted.group_scales.mapped(self._layout, self._encoding.effect_maps)

    @property
    def group_covariance_(self) -> DataFrame:
        """Posterior mean of the covariance of each group's effects: DataFrame by group and effect, a column an effect.

        NaN where a group has no such effect.
        """
        import pandas as pd

        self._check_groups()
        covariances = self._user_scales.mean_covariances(self._layout)
        parts = zip(self._group_names(), self._encoding.factors, covariances, strict=True)
        found = {group: pd.DataFrame(own, factor.effects, factor.effects) for group, factor, own in parts}
        return pd.concat(found, names=["group", "effect"])

    def _correlation_columns(self, values: Array) -> dict[str, Array]:
        """Names to correlations (k,) of two effects of a level, at values (k, V) of what makes their covariances."""
        found, correlations = {}, self._layout.correlations(values)
        for f, *_ in self._layout.correlated_factors:
            group, effects = self._group_names()[f], self._encoding.factors[f].effects
            for j, k, *_ in self._layout.pairs(f):
                found[f"cor({group}, {effects[k]}, {effects[j]})"] = correlations[f][:, j, k]
        return found

    def _correlation_table(self, coverage: float) -> DataFrame:
        """Rows of `summary`: intervals are of a normal of Fisher's z, the inverse hyperbolic tangent."""
        own = self._user_scales
        values = self._correlation_columns(own.nodes)
        within = np.broadcast_to(own.within, own.nodes.shape[1:])[self._layout.n_scales :]
        on = {name: np.arctanh(np.clip(value, -MOST_CORRELATION, MOST_CORRELATION)) for name, value in values.items()}
        table = node_table(on, own.weights, coverage, False, within)
        for at, (name, value) in enumerate(values.items()):
            mean = own.weights @ value
            variance = own.weights @ np.square(value - mean) + within[at] * np.square(1.0 - mean**2)
            table.loc[name] = [mean, np.sqrt(variance), *np.tanh(table.loc[name, ["lower", "upper"]])]
        return table

    def _check_groups(self) -> None:
        if not hasattr(self, "posterior_") or self.groups is None:
            raise AttributeError("group effects are there after a fit with groups")

    def _hyperparameter_columns(self, values: Any) -> dict[str, Any]:
        columns = super()._hyperparameter_columns(values)
        own = self._fitted.values_of("group_std", values)
        if own is None:
            return columns
        own = np.reshape([self._layout.mapped(one, self._encoding.effect_maps) for one in own], np.shape(own))
        scales = np.exp(own[:, : self._layout.n_scales])
        pairs = zip(self._group_names(), self._encoding.factors, strict=True)
        names = [f"std({group}, {effect})" for group, factor in pairs for effect in factor.effects]
        return {**dict(zip(names, scales.T, strict=True)), **self._correlation_columns(own), **columns}

    def _kind_names(self) -> list[str]:
        """Columns that vary within levels, or have a key, and those that the levels of each group fix."""
        names = super()._kind_names()
        fixed = [f"{'coefficients' if self._encoding.groups is None else OTHERS}, {one}" for one in self._group_names()]
        n_kinds = len(self._encoding.kinds(len(self._encoding.columns.scale))[1])
        return names + fixed[: n_kinds - len(names)]

    def _data_header(self) -> list[tuple[str, str]]:
        lines = super()._data_header()
        if self.groups is None:
            return lines
        rows = zip(self._group_names(), self._encoding.factors, strict=True)
        groups = [
            f"{group} ({len(factor.names):,} levels: {', '.join(map(str, factor.effects))})" for group, factor in rows
        ]
        return [*lines, ("groups", ", ".join(groups))]

    def _scale_tables(self, coverage: float) -> list[Any]:
        import pandas as pd

        tables = super()._scale_tables(coverage)
        if self.groups is not None:
            names = [f"std({group}, {effect})" for group, effect in self.group_std_.index]
            scales = self._user_scales
            values = dict(zip(names, np.exp(scales.nodes).T, strict=False))
            tables.insert(
                0, node_table(values, scales.weights, coverage, within=np.asarray(scales.within)[: len(names)])
            )
            tables.insert(1, self._correlation_table(coverage))
        if self.noise_scale_:
            tail = tail_of(coverage)
            ends = [self.noise_scale_ * np.sqrt(-2.0 * np.log1p(-p)) for p in (tail, 1 - tail)]
            row = [self.noise_variance_, float(self.posterior_["noise"].std[0]), *ends]
            tables.append(pd.DataFrame([row], index=["noise variance"], columns=COLUMNS))
        return tables


def level_weights(data: Table) -> tuple[Array, ...]:
    """Weight of the rows of each level, by grouping column."""
    pairs = zip(data.X.codes.T, data.X.levels, strict=True)
    return tuple(np.bincount(codes, data.weight, size).astype(float) for codes, size in pairs)
