"""The tables of a fitted mixed model: effects of levels, standard deviations between them, what `summary` adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sksvi._names import own_name
from sksvi._typing.arrays import DataFrame
from sksvi.estimators.checks import interval_table
from sksvi.estimators.hyperparameters import node_table
from sksvi.estimators.summaries import COLUMNS
from sksvi.models.mixed.group_scales import LogScales
from sksvi.predictive.coverage import tail_of

Array = np.ndarray

#: Of the intervals of `group_effects_`.
COVERAGE = 0.9


class GroupTables:
    """Mixin with tables of the group effects; stands before the GLM among the bases and reads what a fit leaves."""

    groups: Any
    n_features_in_: int
    noise_scale_: float
    posterior_: Any
    _factors: list[int]
    _levels: list[Array]
    _log_scales: LogScales
    _sizes: tuple[int, ...]
    _slope_scales: list[Array]
    _slopes: Any

    def _group_names(self) -> list[Any]:
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        return [names[j] for j in self._factors]

    def _effect_index(self) -> list[tuple[Any, Any, str]]:
        """(group, level, effect) of every group coordinate; level None: a row that named no level."""
        rows = []
        for group, levels, size, (names, _) in zip(
            self._group_names(), self._levels, self._sizes, self._slopes, strict=True
        ):
            padded = [*levels, *[None] * (size - len(levels))]
            rows += [(group, level, effect) for level in padded for effect in _effects(names)]
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
        pairs = zip(self._group_names(), self._slopes, strict=True)
        rows = [(group, effect) for group, (names, _) in pairs for effect in _effects(names)]
        index = pd.MultiIndex.from_tuples(rows, names=["group", "effect"])
        scales = self._user_scales
        return pd.DataFrame({"mean": scales.mean, "std": scales.std}, index=index)

    @property
    def _user_scales(self) -> LogScales:
        """The posterior of the groups' standard deviations in the units of X."""
        own = self._log_scales
        return LogScales(own.nodes - np.log(np.concatenate(self._slope_scales)), own.weights, own.within)

    def _check_groups(self) -> None:
        if not hasattr(self, "posterior_") or self.groups is None:
            raise AttributeError("group effects are there after a fit with groups")

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
        """What the data say of every effect, the groups' standard deviations, the likelihood's parameters, the noise.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        exponentiate : bool, default=False
            Whether to add ``exp(mean)``, ``exp(lower)`` and ``exp(upper)`` of the coefficients: odds ratios of a logit
            link, rate ratios of a log link, within a group.
        reference : None
            For more than two classes, which mixed effects do not have: a label is an error.
        effects, contrasts, reference_levels
            As in `BayesianGLMRegressor.summary`.

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, direction, as in `BayesianGLMRegressor.summary`. Below the coefficients:
            ``std(group, effect)`` between the levels of each group, with the spread of its posterior; learned
            parameters of the likelihood, ``std(residual)`` for Gaussian noise, points with the spread that the data's
            curvature leaves them; ``noise variance`` per row.

        Raises
        ------
        ValueError
            exponentiate=True with a link that is neither log nor logit.
        """
        return super().summary(
            coverage,
            exponentiate,
            reference,
            effects=effects,
            contrasts=contrasts,
            reference_levels=reference_levels,
        )

    def _hyperparameter_columns(self, values: Any) -> dict[str, Any]:
        columns = super()._hyperparameter_columns(values)
        own = self._values_of("group_std", values)
        if own is None:
            return columns
        scales = np.exp(own - np.log(np.concatenate(self._slope_scales)))
        names = [f"std({group}, {effect})" for group, effect in self.group_std_.index]
        return {**dict(zip(names, scales.T, strict=True)), **columns}

    def _kind_names(self) -> list[str]:
        """Columns that vary within levels, and those that the levels of each group fix."""
        return ["coefficients"] + [f"coefficients, {name}" for name in self._group_names()]

    def _data_header(self) -> list[tuple[str, str]]:
        lines = super()._data_header()
        if self.groups is None:
            return lines
        effects = (", ".join(map(str, _effects(names))) for names, _ in self._slopes)
        rows = zip(self._group_names(), self._levels, effects, strict=True)
        groups = [f"{group} ({len(levels):,} levels: {own})" for group, levels, own in rows]
        return [*lines, ("groups", ", ".join(groups))]

    def _scale_tables(self, coverage: float) -> list[Any]:
        import pandas as pd

        tables = super()._scale_tables(coverage)
        if self.groups is not None:
            names = [f"std({group}, {effect})" for group, effect in self.group_std_.index]
            scales = self._user_scales
            values = dict(zip(names, np.exp(scales.nodes).T, strict=True))
            tables.insert(0, node_table(values, scales.weights, coverage, within=scales.within * np.ones(len(names))))
        if self.noise_scale_:
            tail = tail_of(coverage)
            ends = [self.noise_scale_ * np.sqrt(-2.0 * np.log1p(-p)) for p in (tail, 1 - tail)]
            noise = self.posterior_["noise"]
            row = [float(noise.mean[0]), float(noise.std[0]), *ends]
            tables.append(pd.DataFrame([row], index=["noise variance"], columns=COLUMNS))
        return tables


def _effects(slopes: Any) -> tuple[Any, ...]:
    """Names of the effects of a level: its intercept, then the slopes."""
    return (own_name("intercept", list(slopes)), *slopes)
