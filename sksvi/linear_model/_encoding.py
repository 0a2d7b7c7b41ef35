"""What the rows of a linear model fix: categories, the scale of each column and that of its prior, the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from sksvi._names import all_names
from sksvi._runtime import parallel
from sksvi._typing.arrays import is_compressed
from sksvi.estimators.categories import CategoricalColumns
from sksvi.estimators.checks import LARGEST_SINGLE, check_magnitudes, check_row_values
from sksvi.estimators.encoding import FEATURES, Encoding, GivenRows, Part
from sksvi.estimators.offsets import offset_of
from sksvi.estimators.targets import GivenTarget, TargetEncoding, TargetRows
from sksvi.estimators.validation import validate_data
from sksvi.likelihoods import Likelihood
from sksvi.likelihoods.traits import LARGEST_TARGET
from sksvi.linear_model._columns import SPREAD, ColumnScaling, ColumnStats, ColumnSummary
from sksvi.linear_model._design import NUMBERS, DesignReader, merged, stored
from sksvi.linear_model._fit_warnings import check_bounded
from sksvi.linear_model._groups import PrecisionGroups
from sksvi.linear_model._joint_prior import JointByName
from sksvi.linear_model._named_priors import PriorsByName
from sksvi.linear_model._prior import LinearPrior, covariance_of, joint_of, prior_kind
from sksvi.linear_model._second import SecondPredictor, asked_for, with_columns
from sksvi.models.data import Table
from sksvi.models.linear.named import NamedPriors
from sksvi.models.linear.scales import ScalePrior
from sksvi.models.targets import starting
from sksvi.partitions.summary import DataSummary

Array = np.ndarray

#: Rows of a fit with few directions among which equal ones are one: a second copy of more would take memory.
MOST_MERGED = 4096


@dataclass(frozen=True)
class LinearRows(TargetRows):
    """Rows of numbers and indicators, in the units of the user.

    Parameters
    ----------
    categories : CategoricalColumns or None
    sparse : bool
        Whether the table is sparse.
    """

    categories: CategoricalColumns | None = None
    sparse: bool = False


@dataclass(frozen=True)
class GLMEncoding(Encoding):
    """What the data of a generalized linear model fix.

    Parameters
    ----------
    target : TargetEncoding
    categorical : CategoricalColumns or None
        None: no column is categorical.
    columns : ColumnScaling
        Coordinates of the fit, and what its columns spread over.
    prior : LinearPrior
    dtype : str
        Type in which coefficients are shown: that of the last rows.
    spreads : ndarray of shape (D,) or None
        What columns spread over about their means, where one fixed number is the prior precision of them as they are.
    groups : PrecisionGroups or None
        Columns that share a precision; None: all do, or none.
    relative_scale_before : ndarray of shape (D,) or None
        `relative_scale` before the last rows came, of a fit that goes on.
    named : NamedPriors or None
        Priors that the user gives by name, in the coordinates of the fit.
    second : SecondPredictor or None
        Columns of a second latent, which follow those of the first.
    """

    LAYOUT = """
        target TargetEncoding; prior LinearPrior
        dtype text where it in ('float32', 'float64')
        columns ColumnScaling; columns.scale (c) f; categorical? CategoricalColumns
        categorical.width? count where it == c - self.n_second; second? SecondPredictor; spreads? (c) f >=0
        groups? PrecisionGroups; groups.of_columns? (c); relative_scale_before? (c) f >=0
        named? NamedPriors; named.mean? (c) f
    """

    target: TargetEncoding
    categorical: CategoricalColumns | None
    columns: ColumnScaling
    prior: LinearPrior
    dtype: str
    spreads: Array | None = None
    groups: PrecisionGroups | None = None
    relative_scale_before: Array | None = None
    named: NamedPriors | None = None
    second: SecondPredictor | None = None

    @property
    def n_second(self) -> int:
        """Coefficients of a second latent, its intercept among them: the last ones."""
        return 0 if self.second is None else self.second.size

    @property
    def n_columns(self) -> int:
        """Columns of X."""
        return len(self.columns.scale) - self.n_second if self.categorical is None else self.categorical.n_columns

    @property
    def n_effects(self) -> int:
        """Effects of levels of groups, beside the coefficients."""
        return 0

    # ---- rows as they are given
    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> LinearRows:
        """Rows that count, checked; targets as positions or numbers. Of a wide fit equal rows are one."""
        kind, target_fixed = estimator._target_class, None if fixed is None else fixed.target
        target: GivenTarget = kind.given(estimator, given.y, target_fixed, part)
        X, y, found = cls.checked(estimator, given, target, fixed, part)
        if target.options.get("y_numeric"):
            target.check(y)
            largest = LARGEST_SINGLE if X.dtype == np.float32 else LARGEST_TARGET
            check_magnitudes(y.astype(float), "y", largest=largest)
        rows = kind.rows(estimator, target, counted(estimator, given, X, y), target_fixed, part, X.dtype)
        if estimator.covariance == "auto" and fixed is None:
            n = rows.total_weight if part.whole else np.inf
            latents = kind.n_latents(rows.names)
            by_shape = shape_choice(estimator, n, rows.X.shape[1], latents, is_compressed(rows.X))
            estimator._fitted = replace(estimator._fitted, covariance=by_shape)
        if part.whole:
            one = merged(rows, MOST_MERGED if covariance_of(estimator) == "low-rank" else None)
            rows = replace(rows, X=one.X, y=one.y, weight=one.weight, offset=one.offset)
        return cls.rows_with(rows, sparse=sp.issparse(given.X), **found)

    @classmethod
    def checked(
        cls, estimator: Any, given: GivenRows, target: GivenTarget, fixed: Self | None, part: Part
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Design and y as scikit-learn validates them, and what else `LinearRows` have."""
        reader = DesignReader.of(estimator, fixed, part)
        X, y, categories = reader.checked(given.X, target.y, given.sample_weight, target.options)
        second = cls.second_of(estimator, categories) if fixed is None else fixed.second
        return with_columns(second, X), y, {"categories": categories}

    @classmethod
    def rows_with(cls, rows: TargetRows, **found: Any) -> LinearRows:
        """Rows with what was found in them beside their targets."""
        return LinearRows(**vars(rows), **found)

    @staticmethod
    def as_given(rows: Any) -> Any:
        """Rows that `read` gave, with their targets in the user's words."""
        return rows.as_given

    # ---- what all rows say
    @classmethod
    def summary(cls, estimator: Any, rows: LinearRows, fixed: Self | None, part: Part) -> DataSummary:
        """Number, weight, targets and columns of the rows."""
        fields = estimator._target_class.summarized(rows, part)
        own = {**fields.pop("own"), **cls.own_summary(estimator, rows, fixed, part)}
        return DataSummary(
            {part.number: (len(rows), rows.total_weight)},
            {name: getattr(estimator, name) for name in FEATURES if hasattr(estimator, name)},
            np.dtype(rows.X.dtype),
            n_columns=rows.X.shape[1],
            bytes_per_row=rows.bytes_per_row,
            offset=part.remote and rows.offset is not None and bool(np.any(rows.offset)),
            own=own,
            **fields,
        )

    @classmethod
    def own_summary(cls, estimator: Any, rows: LinearRows, fixed: Self | None, part: Part) -> dict[str, Any]:
        """Summary of the columns; of rows to come only where the prior follows them."""
        X, categories = cls.fixed_part(rows.X), rows.categories
        if fixed is not None:
            columns, follows = fixed.columns, fixed.columns.scaled and covariance_of(estimator) != "low-rank"
            stats = ColumnStats.of(X, rows.weight, columns.centre)
            return {"columns": stats.with_tails_drawn_in(X, rows.weight)} if follows else {}
        may_centre = stored(X, categories)
        # Far from a mean squares would cancel in the spreads of columns that are not scaled.
        by_name = cls.by_name(estimator, categories)
        centred = _is_centred(estimator, by_name) & may_centre if _is_scaled(estimator) else np.ones(X.shape[1], bool)
        # Where tasks run side by side already, each has one thread.
        threads = 1 if part.remote else parallel.n_threads(estimator.n_jobs)
        stats = ColumnStats.about_means(X, rows.weight, centred, threads).with_tails_drawn_in(X, rows.weight)
        sparse = is_compressed(X) if categories is None else rows.sparse
        return {"columns": ColumnSummary(stats, centred, may_centre, sparse, categories, part.remote)}

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """The encoding that rows with this summary fix."""
        target = estimator._target_class.fit(estimator, summary)
        second = cls.second_of(estimator, summary.own["columns"].categories)
        likelihood = target.likelihood if second is None else target.likelihood.likelihood
        prior = LinearPrior.fit(estimator, likelihood, cls.first_targets(target, summary))
        found: ColumnSummary = summary.own["columns"].settled(prior.kind == "flat")
        if estimator.covariance == "auto" and summary.own["columns"].partial:  # rows in partitions
            n, latents = sum(weight for _, weight in summary.rows.values()), target.likelihood.n_latents
            by_shape = shape_choice(estimator, n, len(found.stored), latents, found.sparse)
            estimator._fitted = replace(estimator._fitted, covariance=by_shape)
        by_name = cls.by_name(estimator, found.categories)
        centre, scaled = found.centre(_is_centred(estimator, by_name)), _is_scaled(estimator)
        centre = centre if second is None else second.centre(centre, found)
        columns = ColumnScaling.from_stats(found.stats, centre, scaled, covariance_of(estimator) == "low-rank")
        alike = prior.kind == "fixed" and isinstance(estimator.prior_precision, Real)
        spreads = found.stats.about(found.mean).spread if alike else None
        groups = cls.groups_of(estimator, found.categories, second) if prior.kind == "groups" else None
        named = None
        if by_name is not None:
            by_name.check_target(target.likelihood)
            unit = prior.unit if second is None else second.units(len(centre), prior.unit)
            columns, named = by_name.in_coordinates(columns, unit)
            prior = prior if by_name.intercept is None else prior.with_intercept(by_name.intercept)
        if second is not None:
            named = second.named(named, target.likelihood, len(centre), prior.kind == "flat")
        dtype = np.dtype(summary.dtype).name
        return cls(target, found.categories, columns, prior, dtype, spreads, groups, named=named, second=second)

    @classmethod
    def groups_of(cls, estimator: Any, categories: Any, second: SecondPredictor | None) -> PrecisionGroups:
        """Columns that share a precision, of both latents where there are two."""
        columns = cls.column_names(estimator), cls.column_positions(estimator)
        groups = PrecisionGroups.of(estimator, *columns, categories)
        return groups if second is None else second.grouped(groups)

    def updated(self, estimator: Any, summary: DataSummary, share: float) -> Self:
        """The encoding after more rows: coordinates stay; spreads of columns and what rows tell follow them."""
        target = self.target.updated(estimator, summary)
        prior = self.prior.updated(estimator, target.likelihood, self.first_targets(target, summary), share)
        stats = summary.own.get("columns")
        return replace(
            self,
            target=target,
            prior=prior,
            columns=self.columns if stats is None else self.columns.updated(stats, share),
            # Numbers of all columns that a fit at the mode, whose prior is of columns as they are, has no use for.
            relative_scale_before=None if covariance_of(estimator) == "low-rank" else self.relative_scale,
            dtype=np.dtype(summary.dtype).name,
        )

    @classmethod
    def by_name(cls, estimator: Any, categories: Any) -> PriorsByName | JointByName | None:
        """What the parameter `prior` names; None where there is none."""
        if estimator.prior is None:
            return None
        joint = joint_of(estimator.prior)
        if joint is not None:
            return JointByName(estimator, joint, cls.column_names(estimator), categories)
        second = cls.second_of(estimator, categories)
        groups = None
        if prior_kind(estimator.prior_precision) == "groups":
            groups = cls.groups_of(estimator, categories, second)
        return PriorsByName(estimator, cls.column_names(estimator), categories, second, groups)

    @classmethod
    def second_of(cls, estimator: Any, categories: Any) -> SecondPredictor | None:
        """Columns of a second latent, of those that have coefficients; None: there is none."""
        return SecondPredictor.fit(estimator, cls.column_positions(estimator), categories)

    @staticmethod
    def column_positions(estimator: Any) -> list[int]:
        """Positions of the columns of X that have coefficients, as its validation leaves them."""
        return list(range(estimator.n_features_in_))

    @classmethod
    def column_names(cls, estimator: Any) -> list[str]:
        """Names of the columns of X that have coefficients."""
        return all_names(estimator, None)[cls.column_positions(estimator)].tolist()

    @staticmethod
    def first_targets(target: TargetEncoding, summary: DataSummary) -> Any:
        """Rows by whose targets a fit starts."""
        return starting(target.few(summary), target.likelihood.traits.by_moments)

    @classmethod
    def by_moments(cls, estimator: Any, fixed: Self | None) -> bool:
        """Whether a fit needs no more of its targets than mean and variance."""
        return bool(estimator._target_class.by_moments(estimator, None if fixed is None else fixed.target))

    def targets(self, estimator: Any, summary: DataSummary) -> Any:
        """The targets of partitioned rows in few rows."""
        return self.target.few(summary)

    @property
    def exposed(self) -> dict[str, Any]:
        """Likelihood, and classes or levels."""
        return self.target.exposed

    # ---- rows in the coordinates of the fit
    def encode(self, estimator: Any, rows: LinearRows, part: Part) -> Table:
        """Rows in the coordinates of the fit; a fit that passes over them in turn moves them block by block."""
        by_block = passes_over(estimator, self.columns, rows.X, part)
        X = self.columns.by_block(rows.X) if by_block else self.in_units(rows.X)
        offset = rows.offset
        if self.second is not None and offset is not None:
            offset = np.column_stack([offset, np.zeros_like(offset)])
        return Table(X, self.target.encode(rows.y, rows.X.dtype), rows.weight, offset, rows.first)

    def in_units(self, X: Any) -> Any:
        """Rows of a design in the coordinates of the fit."""
        return self.columns.applied(X)

    @staticmethod
    def fixed_part(X: Any) -> Any:
        """The columns of a design that have a coefficient."""
        return X

    def design(self, estimator: Any, X: Any) -> Any:
        """Design of rows to predict."""
        reader = DesignReader(estimator, self.categorical, False)
        table = reader.table(X)
        if table is None:
            found = validate_data(estimator, X, reset=False, **NUMBERS)
        else:
            validate_data(estimator, table, skip_check_array=True, reset=False)
            found = reader.design(table)[0]
        return with_columns(self.second, found)

    def width(self, summary: DataSummary) -> int:
        """Number of columns of encoded rows."""
        return summary.n_columns if self.categorical is None else self.categorical.width + self.n_second

    def check_pass(self, estimator: Any, model: Any, state: Any) -> None:
        """An error where a flat prior lets a second latent widen without end."""
        check_bounded(estimator, model, state)

    # ---- the prior of scales
    @property
    def precision_groups(self) -> PrecisionGroups | None:
        """Groups of columns that share a scale; None: all do, or none."""
        return self.groups

    def kinds(self, n_columns: int) -> tuple[Array, Array]:
        """Kind of each column that has a coefficient, and the most rows that inform each kind."""
        groups = self.precision_groups
        if groups is not None:
            return groups.of_columns, np.full(len(groups.names), np.inf)
        if self.second is not None:
            return np.repeat([0, 1], [n_columns - self.n_second, self.n_second]), np.full(2, np.inf)
        return np.zeros(n_columns, int), np.array([np.inf])

    @property
    def units(self) -> Array | float:
        """Unit of the latent of each coefficient, (D,), or of all."""
        unit = self.prior.unit
        return unit if self.second is None else self.second.units(len(self.columns.scale), unit)

    @property
    def kind_spread(self) -> Array:
        """What the scale of each kind is shown for, (K,): coefficients on one standard deviation, or as given."""
        if self.precision_groups is None:
            return np.array([SPREAD])
        assert self.columns.stats is not None
        return self.precision_groups.common(self.columns.stats)

    @property
    def prior_spread(self) -> Array:
        """What the prior of each column is for, (D,); 0 of a constant one, and where nobody has asked."""
        stats, groups = self.columns.stats, self.precision_groups
        if stats is None:
            return np.zeros(len(self.columns.scale))
        return stats.prior_spread if groups is None else groups.spread(stats, stats.prior_spread)

    @property
    def relative_scale(self) -> Array:
        """What the prior of each column is for, in units of its scale, (D,)."""
        spread = self.prior_spread
        return np.where(spread > 0, spread / self.columns.scale, 1.0)

    def scale_prior(self, likelihood: Likelihood) -> ScalePrior | None:
        """The prior of the scales of a learned precision; None where the user gives it, or of one per column."""
        stats, groups = self.columns.stats, self.precision_groups
        if stats is None:
            return None
        # Tails that are drawn in make as much of the variance of a column as of the square of its spread.
        spread = stats.spread if groups is None else groups.spread(stats, stats.spread)
        spread = np.where(self.learned, spread, 0.0)
        kinds, most = self.kinds(len(self.columns.scale))
        units: tuple[Any, Any] = (self.prior.unit, likelihood.link_unit)
        if self.second is not None:
            units = self.second.kind_units(kinds, len(most), *units)
        scales = self.prior.scales(likelihood, stats, spread, kinds, most, *units)
        return scales if scales is None or groups is None else groups.limited(scales, stats)

    @property
    def learned(self) -> Array | bool:
        """Which coefficients share a learned precision, (D,), where it is learned: all whose prior has no name."""
        return True if self.named is None else self.named.learned

    @property
    def shares(self) -> Array | None:
        """Share of the rows that each indicator has, (D,); None under a fixed prior, which keeps no such thing."""
        stats = self.columns.stats
        return None if stats is None else stats.centre + stats.mean

    @property
    def without_rows(self) -> Self:
        """The encoding without what belongs to single rows."""
        stats = self.columns.stats
        if stats is None:
            return self
        return replace(self, columns=replace(self.columns, stats=stats.without_extremes))


#: Coefficients of all classes whose joint covariance is cheap, multiplications of a pass that are, and classes.
MOST_JOINT, MOST_PRODUCTS, MOST_CLASSES = 700, 2e10, 10
#: Columns with which a fit is neither text nor long, however many rows there are.
FEW_COLUMNS = 50


def shape_choice(estimator: Any, n: float, d: int, latents: int, sparse: bool) -> str:
    """The covariance that n rows of d columns ask for: "full" where it is cheap, but for text under a learned prior.

    What a fit at the mode cannot take (other algorithms, batches, priors that are no single number, likelihoods
    without one mode) asks for "full", and so do dense rows of a stream, n = infinity: there what these say is a
    diagonal.
    """
    bound = prior_kind(estimator.prior_precision) in ("ard", "flat", "groups") or np.ndim(estimator.prior_precision) > 0
    bound |= estimator.batch_size not in ("auto", None) or not estimator._algorithm().spec.messages
    bound |= estimator.prior is not None or asked_for(estimator) is not None
    if bound or estimator.expectation != "auto" or not (sparse or np.isfinite(n)):
        return "full"
    short = d <= FEW_COLUMNS or np.isinf(n) or n * latents * float(d) ** 2 <= MOST_PRODUCTS
    cheap = latents * (d + 1) <= MOST_JOINT and short
    text = sparse and d >= n and d > FEW_COLUMNS and prior_kind(estimator.prior_precision) == "auto"
    if cheap and latents <= MOST_CLASSES and not text:
        return "full"
    return "low-rank" if estimator._target_class.has_mode(estimator, stream=bool(np.isinf(n))) else "full"


def _is_scaled(estimator: Any) -> bool:
    """Whether columns are divided by their spread."""
    return prior_kind(estimator.prior_precision) != "fixed"


def _is_centred(estimator: Any, by_name: PriorsByName | JointByName | None) -> bool:
    """Whether columns are centred: not where the intercept, f at 0 of them, has a prior that the user gives."""
    named = by_name is not None and by_name.intercept is not None
    return bool(estimator.fit_intercept) and isinstance(estimator.intercept_precision, str) and not named


def counted(estimator: Any, given: GivenRows, X: Any, y: Array) -> Table:
    """Rows that count, CSR in canonical form, weights and offsets checked; a weight of zero removes its row."""
    n = X.shape[0]
    weight = check_row_values(given.sample_weight, n, "sample_weight", weights=True)
    data = Table(X, y, weight, offset_of(estimator, given.offset, n))
    if weight is not None and not np.all(weight > 0):
        data = data.take(np.flatnonzero(weight > 0))
    if is_compressed(data.X) and not data.X.has_canonical_format:
        X = data.X.copy()
        X.sum_duplicates()
        data = replace(data, X=X)
    return data


def passes_over(estimator: Any, columns: ColumnScaling, X: Any, part: Part) -> bool:
    """Whether a fit reads rows in blocks from first to last, so that none need be stored in its coordinates."""
    if columns.own or not isinstance(X, np.ndarray) or X.shape[1] > len(X):
        return False
    if part.remote:
        return estimator.batch_size in ("auto", None)
    return part.whole and estimator._batch_size(len(X), estimator._algorithm()) is None
