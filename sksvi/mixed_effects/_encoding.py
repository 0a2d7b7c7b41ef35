"""What the rows of a mixed model fix besides those of a linear one: levels of grouping columns, scales of slopes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.utils import check_X_y

from sksvi._names import all_names, own_name
from sksvi._typing.arrays import is_compressed
from sksvi.estimators.checks import check_numeric_target
from sksvi.estimators.encoding import GivenRows, Part
from sksvi.estimators.tables import Levels, as_table, fixed_columns
from sksvi.estimators.targets import GivenTarget, TargetRows
from sksvi.estimators.validation import validate_data
from sksvi.families.gaussian.level_blocks import LevelBlocks, LevelEffects
from sksvi.linear_model._columns import ColumnStats
from sksvi.linear_model._design import NUMBERS, DesignReader
from sksvi.linear_model._encoding import GLMEncoding, LinearRows
from sksvi.linear_model._groups import PrecisionGroups
from sksvi.linear_model._second import asked_for, with_columns
from sksvi.mixed_effects._levels import (
    LevelValues,
    Source,
    check_levels,
    coded,
    columns_of,
    factor_name,
    factor_names,
    have_intercepts,
    kinds_of,
    levels_of,
    slope_columns,
    slopes_among,
)
from sksvi.models.mixed.covariances import Groups
from sksvi.models.mixed.levels import GroupedDesign
from sksvi.partitions.summary import DataSummary

Array = np.ndarray

#: Effects of a level whose covariance has a posterior at most: r of them have r (r + 1) / 2 numbers, whose curvature
#: takes a fit's time for every pair.
MOST_CORRELATED = 12
#: Up to this many weights the precision of natural steps is an ordinary matrix.
DENSE_WEIGHTS = 256


@dataclass(frozen=True)
class GroupingColumn:
    """A grouping column, or one that is nested in others.

    Parameters
    ----------
    column : int
        Its position in X.
    slopes : list of str
        Names of the columns that have slopes by its levels.
    at : list of int
        Positions of these among the coefficients.
    names : ndarray
        Levels.
    size : int
        Number of effects of an intercept: one for each level, and one for each row without a level.
    correlated : bool
        Whether the effects of a level are correlated a priori.
    within : list of int
        Positions of the columns that it is nested in.
    intercept : bool
        Whether its levels have an intercept beside slopes.
    """

    LAYOUT = """
        column count; names labels n; size count >=n; slopes list; correlated flag
        within list; within[*] count; intercept flag
        at items where len(it) == len(self.slopes)
        at[*] count
    """

    column: int
    slopes: list[str]
    at: list[int]
    names: Array
    size: int
    correlated: bool = False
    within: list[int] = field(default_factory=list)
    intercept: bool = True

    @property
    def source(self) -> Source:
        """Positions of all columns that make its levels."""
        return (*self.within, self.column)

    @property
    def n_effects(self) -> int:
        """Effects of each level."""
        return len(self.slopes) + self.intercept

    @property
    def centred(self) -> bool:
        """Whether columns of slopes may be taken about their means: effects are correlated with an intercept's."""
        return self.correlated and self.intercept

    @property
    def effects(self) -> tuple[Any, ...]:
        """Names of the effects of a level: its intercept, then the slopes."""
        return (*[own_name("intercept", self.slopes)] * self.intercept, *self.slopes)


@dataclass(frozen=True)
class MixedRows(LinearRows):
    """Rows with the levels of each beside its numbers; `levels` of the grouping columns in these rows."""

    factors: tuple[GroupingColumn, ...] = ()
    levels: tuple[Levels, ...] = ()


@dataclass(frozen=True)
class GroupedEncoding(GLMEncoding):
    """What the data of a mixed model fix.

    Parameters
    ----------
    factors : tuple of GroupingColumn
        Empty where no column groups rows.
    slope_scales, slope_means : tuple of ndarray
        What each effect of a level is divided by, and the mean of its column, by factor. No means: files of before.
    constant : ndarray of bool, shape (F, D), or None
        Columns that do not vary within the levels of each factor.
    overdispersible : bool
        Whether the first targets may vary more than their likelihood lets them.
    kinds_before : ndarray or None
        `kinds` before the last rows came, of a fit that goes on.
    alone : dict
        By number of the rows before a part, the first effect of its rows without a level, by factor; such rows are
        levels of their own. Only while rows are encoded.
    codes_in_place : tuple of (int or None)
        By factor the code that all rows to predict have in the place of their levels; None, or empty: their own.
    """

    LAYOUT = (
        GLMEncoding.LAYOUT
        + """
        factors items F where len({f.source for f in it}) == F and (F == 0 or self.constant is not None)
        factors[*] GroupingColumn where max(it.at, default=-1) < c
        slope_scales items F where [len(s) for s in it] == [f.n_effects for f in self.factors]
        slope_means where [len(m) for m in it] in ([], [f.n_effects for f in self.factors]); slope_means[*] (_) f
        slope_scales[*] (_) f >0; constant? (F,c) b; kinds_before? (c) i; overdispersible flag
    """
    )

    factors: tuple[GroupingColumn, ...] = ()
    slope_scales: tuple[Array, ...] = ()
    slope_means: tuple[Array, ...] = ()
    constant: Array | None = None
    overdispersible: bool = False
    kinds_before: Array | None = None
    alone: dict[int, list[int]] = field(default_factory=dict)
    codes_in_place: tuple[int | None, ...] = ()

    @property
    def n_columns(self) -> int:
        """Columns of X, those that group rows among them."""
        return super().n_columns + len(self.grouping)

    @property
    def n_effects(self) -> int:
        """Effects of all levels."""
        return sum(self.sizes)

    @property
    def n_group_values(self) -> int:
        """Numbers that say what covariance the effects of a level of each factor have."""
        return 0 if self.layout is None else self.layout.n_values

    # ---- rows as they are given
    @classmethod
    def checked(
        cls, estimator: Any, given: GivenRows, target: GivenTarget, fixed: Self | None, part: Part
    ) -> tuple[Any, Any, dict[str, Any]]:
        """The fixed columns with the levels of each row beside them, and y."""
        if estimator.groups is None:
            for name, default in (("random_slopes", None), ("random_intercepts", True)):
                if (value := getattr(estimator, name)) is not default:
                    raise ValueError(
                        f"{name}={value!r} is of the levels of a group, and groups is None: name the grouping columns "
                        f"in groups, or leave {name} out."
                    )
            return super().checked(estimator, given, target, fixed, part)
        X = as_table(given.X)
        validate_data(estimator, X, skip_check_array=True, reset=fixed is None)
        sources = factor_names(estimator) if fixed is None else fixed.sources
        positions = columns_of(sources)
        reader = DesignReader.of(estimator, fixed, part)
        others = [j for j in range(estimator.n_features_in_) if j not in positions]
        numbers, categories = reader.design(fixed_columns(X, positions), given.sample_weight, others)
        levels: tuple[Levels, ...] = ()
        if fixed is not None:
            factors, alone = fixed.factors, fixed.alone.get(part.n_before)
        else:
            levels = tuple(levels_of(X, source, part.number) for source in sources)
            factors = factors_of(estimator, levels, categories)
            alone = [one.before(part.number) for one in levels]
        names = [one.names for one in factors]
        numbers = with_columns(cls.second_of(estimator, categories) if fixed is None else fixed.second, numbers)
        design = grouped(estimator, numbers, factors, coded(X, sources, names, alone, True))
        if target.options.get("y_numeric"):
            check_numeric_target(target.y)
        numbers, y = check_X_y(design.X, target.y, ensure_min_features=0, **NUMBERS, **target.options)
        design = GroupedDesign(numbers, design.codes, design.values, design.levels, design.arrow)
        return design, y, {"categories": categories, "factors": factors, "levels": levels}

    @classmethod
    def rows_with(cls, rows: TargetRows, **found: Any) -> MixedRows:
        """Rows with what was found in them beside their targets."""
        return MixedRows(**vars(rows), **found)

    # ---- what all rows say
    @staticmethod
    def column_positions(estimator: Any) -> list[int]:
        """Positions of the columns that have coefficients: those that group rows have none."""
        grouping = [] if estimator.groups is None else columns_of(factor_names(estimator))
        return [j for j in range(estimator.n_features_in_) if j not in grouping]

    @classmethod
    def own_summary(cls, estimator: Any, rows: Any, fixed: Self | None, part: Part) -> dict[str, Any]:
        """Summary of the columns, of the levels and slopes of each factor, and of what is constant in its levels."""
        own = super().own_summary(estimator, rows, fixed, part)
        for f, (factor, codes) in enumerate(zip(rows.factors, rows.X.codes.T if rows.factors else (), strict=True)):
            own[f"values {f}"] = LevelValues.of(factor.names, codes, rows.X.X)
            if fixed is None:
                own[f"levels {f}"] = rows.levels[f]
                own[f"slopes {f}"] = ColumnStats.about_means(rows.X.X[:, factor.at], rows.weight, True)
        return own

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """The encoding that rows with this summary fix."""
        base = super().fit(estimator, summary)
        base = replace(base, overdispersible=base.target.likelihood.overdispersible(base.target.few(summary).alone.y))
        if estimator.groups is None:
            return base
        levels = [part for name, part in summary.own.items() if name.startswith("levels ")]
        alone = {}
        if any(sum(one.alone.values()) for one in levels):
            alone = {start: [one.before(number) for one in levels] for number, start in summary.starts.items()}
        constant = np.stack([summary.own[f"values {f}"].constant for f in range(len(levels))])
        # Indicators of missing values that no row has are no columns.
        stays = summary.own["columns"].stays(base.prior.kind == "flat")
        read = factors_of(estimator, levels, summary.own["columns"].categories)
        slopes = [(summary.own[f"slopes {f}"].take(stays[one.at]), one) for f, one in enumerate(read)]
        return replace(
            base,
            factors=factors_of(estimator, levels, base.categorical),
            slope_scales=tuple(_scale_by(stats, one.intercept) for stats, one in slopes),
            slope_means=tuple(_means_of(stats, one) for stats, one in slopes),
            constant=constant[:, stays],
            alone=alone,
        )

    def updated(self, estimator: Any, summary: DataSummary, share: float) -> Self:
        """The encoding after more rows: a column that varied within a level of an earlier chunk does."""
        new = super().updated(estimator, summary, share)
        if self.constant is None:
            return new
        constant = np.stack([summary.own[f"values {f}"].constant for f in range(len(self.factors))])
        kinds, _ = self.kinds(constant.shape[1])
        return replace(new, constant=constant if share == 0.0 else constant & self.constant, kinds_before=kinds)

    # ---- rows in the coordinates of the fit
    def design(self, estimator: Any, X: Any) -> Any:
        """Design of rows to predict; a level that is not known has no effect."""
        if not self.factors:
            return super().design(estimator, X)
        table = as_table(X)
        validate_data(estimator, table, skip_check_array=True, reset=False)
        sources, names = self.sources, [one.names for one in self.factors]
        numbers, _ = DesignReader(estimator, self.categorical, False).design(fixed_columns(table, self.grouping))
        numbers = with_columns(self.second, numbers)
        codes = coded(table, sources, names, None, False)
        in_place = self.codes_in_place or (None,) * len(sources)
        own = [f for f, code in enumerate(in_place) if code is None]
        check_levels(estimator.on_unseen, table, [sources[f] for f in own], [names[f] for f in own], codes[:, own])
        for f, code in enumerate(in_place):
            codes[:, f] = codes[:, f] if code is None else code
        return grouped(estimator, numbers, self.factors, codes)

    def in_units(self, X: Any) -> Any:
        """Rows of a design in the coordinates of the fit."""
        if not self.factors:
            return super().in_units(X)
        parts = zip(X.values, self.slope_centres, self.slope_scales, strict=True)
        values = tuple(None if value is None else (value - centre) / scale for value, centre, scale in parts)
        return GroupedDesign(super().in_units(X.X), X.codes, values, X.levels, X.arrow)

    @staticmethod
    def fixed_part(X: Any) -> Any:
        """The columns of a design that have a coefficient."""
        return X.X if isinstance(X, GroupedDesign) else X

    def width(self, summary: DataSummary) -> int:
        """Number of columns of encoded rows, those of levels included."""
        layout = self.layout
        return super().width(summary) if layout is None else layout.starts[-1]

    # ---- the layout of effects
    @property
    def grouping(self) -> list[int]:
        """Positions of the grouping columns."""
        return columns_of(self.sources)

    @property
    def sources(self) -> list[Source]:
        """Positions of the columns of each factor."""
        return [one.source for one in self.factors]

    @property
    def sizes(self) -> list[int]:
        """Number of effects of each factor."""
        return [one.size * one.n_effects for one in self.factors]

    @property
    def layout(self) -> Groups | None:
        """Where the effects of each factor are among the weights."""
        if not self.factors:
            return None
        starts = tuple(int(start) for start in np.cumsum([len(self.columns.scale), *self.sizes]))
        sizes, effects = tuple(one.size for one in self.factors), tuple(one.n_effects for one in self.factors)
        return Groups(starts, sizes, effects, any(one.correlated for one in self.factors))

    @property
    def slope_centres(self) -> tuple[Array, ...]:
        """Mean that the column of each effect is taken about, where 0 is far from its values, else 0, by factor."""
        means = self.slope_means or [0.0 * scale for scale in self.slope_scales]
        parts = zip(self.factors, means, self.slope_scales, strict=True)
        return tuple(mean * (one.centred & (np.abs(mean) > scale)) for one, mean, scale in parts)

    @property
    def means_in_units(self) -> tuple[Array, ...]:
        """Means of columns with slopes beside an intercept, 0 of itself, in the coordinates of the fit, by factor."""
        parts = zip(self.factors, self.slope_means, self.slope_centres, self.slope_scales, strict=False)
        return tuple(one.intercept * (mean - centre) / scale for one, mean, centre, scale in parts)

    @property
    def effect_maps(self) -> list[Array]:
        """Map (r, r) to the effects of a level in the user's units from those of the fit, by factor."""
        maps = [np.diag(1.0 / scale) for scale in self.slope_scales]
        for own, centre, scale in zip(maps, self.slope_centres, self.slope_scales, strict=True):
            own[0] -= centre / scale
        return maps

    def effects_in_units(self, effects: Any) -> Any:
        """View of the effects of all levels in the user's units."""
        sizes, maps = [one.size for one in self.factors], tuple(self.effect_maps)
        diag = np.concatenate([np.tile(np.diagonal(own), n) for own, n in zip(maps, sizes, strict=True)])
        starts = np.cumsum([0, *self.sizes[:-1]]).tolist()
        return LevelEffects(effects, LevelBlocks(diag, tuple(zip(starts, sizes, strict=True)), maps))

    def kinds(self, n_columns: int) -> tuple[Array, Array]:
        """Kind of each column that has a coefficient, and the most rows that inform each kind."""
        if self.constant is None:
            return super().kinds(n_columns)
        rows, groups = self._n_levels - 1.0, self.precision_groups
        if groups is None or self.groups is None:
            within, most = super().kinds(n_columns)
            by_level = self._kinds_by_level
            return np.where(by_level > 0, by_level + len(most) - 1, within), np.append(most, rows)
        n_keys = len(self.groups.names)
        return groups.of_columns, np.append(np.full(n_keys, np.inf), rows[: len(groups.names) - n_keys])

    @property
    def precision_groups(self) -> PrecisionGroups | None:
        """Groups of columns that share a scale, those without a key split by whether levels fix them."""
        if self.groups is None or self.constant is None:
            return self.groups
        return self.groups.split(self._kinds_by_level, 1 + len(self.factors))

    @property
    def _kinds_by_level(self) -> Array:
        """Kind of each column by the factor that fixes it, (D,); 0 of a second latent, which has no levels."""
        assert self.constant is not None
        kinds = kinds_of(self.constant, self._n_levels)
        kinds[len(kinds) - self.n_second :] = 0
        return kinds

    @property
    def _n_levels(self) -> Array:
        return np.array([len(one.names) for one in self.factors])


def factors_of(estimator: Any, levels: Any, categories: Any) -> tuple[GroupingColumn, ...]:
    """The grouping columns with these levels, and the columns that have slopes."""
    sources, correlated = factor_names(estimator), bool(estimator.correlated)
    slopes = slopes_among(slope_columns(estimator, sources), categories)
    found = []
    intercepts = have_intercepts(estimator, sources)
    for source, (names, at), intercept, one in zip(sources, slopes, intercepts, levels, strict=True):
        group, n_effects = factor_name(all_names(estimator, None), source), len(names) + intercept
        if n_effects == 0:
            raise ValueError(
                f"random_intercepts={estimator.random_intercepts!r}: levels of {group!r} have neither an intercept nor "
                "a slope: name its columns in random_slopes, or leave it out of groups."
            )
        if correlated and n_effects > MOST_CORRELATED and estimator.hyperparameters == "integrated":
            raise ValueError(
                f"correlated=True: each level of {group!r} has {n_effects} effects, and the posterior of their "
                f"covariance is there for {MOST_CORRELATED} at most: set correlated=False or "
                "hyperparameters='point', or name fewer columns in random_slopes."
            )
        within = list(source[:-1])
        found.append(GroupingColumn(source[-1], names, at, one.names, one.size, correlated, within, intercept))
    return tuple(found)


def grouped(estimator: Any, numbers: Any, factors: tuple[GroupingColumn, ...], codes: Array) -> GroupedDesign:
    """Numbers and codes of levels as a design with slopes."""
    values: list[Array | None] = []
    for factor in factors:
        slopes = numbers[:, factor.at]
        slopes = slopes.toarray() if is_compressed(slopes) else slopes
        ones = np.ones((len(codes), int(factor.intercept)))
        values.append(np.column_stack([ones, slopes]) if factor.slopes else None)
    sizes = tuple(one.size for one in factors)
    return GroupedDesign(numbers, codes, tuple(values), sizes, arrow_of(estimator, factors, numbers.shape[1]))


def arrow_of(estimator: Any, factors: tuple[GroupingColumn, ...], n_fixed: int) -> int | None:
    """The factor with most effects, where an arrow pays and the algorithm steps in natural coordinates.

    Two latents have products of rows that differ from latent to latent, which are dense.
    """
    counts = [one.size * one.n_effects for one in factors]
    natural = estimator._algorithm().spec.natural and estimator.covariance == "full" and asked_for(estimator) is None
    return int(np.argmax(counts)) if natural and sum(counts) + n_fixed > DENSE_WEIGHTS else None


def _scale_by(stats: ColumnStats, intercept: bool) -> Array:
    """What each effect of a level is divided by: 1 for its intercept, the spread of its column for a slope."""
    return np.append(np.ones(int(intercept)), np.where(stats.spread > 0, stats.spread, 1.0))


def _means_of(stats: ColumnStats, factor: GroupingColumn) -> Array:
    """Mean of the column of each effect, 0 of an intercept; a constant column that keeps its units is not off zero."""
    constant = stats.low if factor.centred else np.zeros(len(stats.low))
    means = np.where(stats.low < stats.high, stats.centre + stats.mean, constant)
    return np.append(np.zeros(int(factor.intercept)), means)
