"""What the points of a series fix: their unit, the centres and scales of columns, where the likelihood begins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np

from sksvi.estimators.checks import check_row_values
from sksvi.estimators.encoding import FEATURES, Encoding, GivenRows, Part
from sksvi.estimators.levels import first_levels, given_order, levels_in_use, positions
from sksvi.estimators.offsets import offset_of
from sksvi.estimators.validation import validate_data
from sksvi.estimators.working import check_working
from sksvi.likelihoods import Likelihood
from sksvi.likelihoods.scales import unit_of, weighted_moments
from sksvi.models.data import Table
from sksvi.models.time_series.components import WIDE, Dynamics
from sksvi.models.time_series.search import first_messages
from sksvi.partitions.summary import DataSummary, Total
from sksvi.time_series._dynamics import dynamics_of, periods_of
from sksvi.time_series._frequency import clock_of, clock_shifts, follows_clock, spanned
from sksvi.time_series._index import index_of, index_record, only_times
from sksvi.time_series._rows import (
    check_series,
    middle_spread,
    observed,
    own_units,
    roughness,
    same_length,
    series,
    values_of,
    with_gaps,
)

Array = np.ndarray


@dataclass(frozen=True)
class SeriesRows(Table):
    """Points as given, in the units of the user.

    index : their times, a pandas index. dtype : of the columns. levels : of an ordered target, or None.
    """

    index: Any = None
    dtype: str = "float64"
    levels: Array | None = None


@dataclass(frozen=True)
class EncodedSeries(Table):
    """Points in units of their own; index_record: of their times, those of a whole series."""

    index_record: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SeriesEncoding(Encoding):
    """Units of a series.

    Parameters
    ----------
    dtype : str
        Of the columns, in which predictions answer.
    likelihood : Likelihood
        Where the fit begins.
    unit, spread : float
        What f varies by, and what its steps may; 1 behind a link.
    mean : float
        Constant part of f of a measured target with a level.
    centre, scale : ndarray of shape (D,)
        Of the columns.
    names : list of str
        Theirs.
    clock : dict or None
        Clock that seasons of days follow (`_frequency.clock_of`); None: they count points.
    """

    LAYOUT = """
        dtype text where it in ('float32', 'float64')
        unit number >0; spread number >0; mean number; centre (d) f; scale (d) f >0; names list
    """

    dtype: str
    likelihood: Likelihood
    unit: float
    spread: float
    mean: float
    centre: Array
    scale: Array
    names: list[str]
    levels: Array | None = None
    clock: dict[str, Any] | None = None
    sums_over_rows: ClassVar[bool] = False

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> SeriesRows:
        """Points, checked, with their times; those of a fit need one observation at least."""
        base = _likelihood(estimator, fixed is None)
        X, y, sample_weight, offset = given
        values = check_series(estimator, y, base.traits.paired) if not base.traits.ordered else None
        columns, dtype = _columns(estimator, X, fixed is None)
        levels = None
        if values is None:
            values, there, levels = _ordered(estimator, base, y, fixed)
        else:
            there = observed(values)
        same_length(None if X is None else columns, values)
        n = len(values)
        weight = check_row_values(sample_weight, n, "sample_weight", weights=True)
        index = index_of(X, y, n)
        there = there if weight is None else there & (weight > 0)
        if part.whole and not np.any(there):
            raise ValueError(f"y has no observed value among {n}: there is nothing to fit. Leave such a series out.")
        if not base.traits.ordered:
            try:
                _check_observed(base, values, there)
            except ValueError as error:
                remedy = ' Of measured values say likelihood="gaussian".' if estimator.likelihood == "auto" else ""
                raise ValueError(f"{error}{remedy}") from error
        columns = np.zeros((n, 0)) if columns is None else columns
        rows = series(columns, values, there, weight, offset_of(estimator, offset, n))
        times = spanned(index) if part.whole else None
        if times is not None:
            rows, index = with_gaps(rows, index, times), times
        return SeriesRows(rows.X, rows.y, rows.weight, rows.offset, index=index, dtype=dtype, levels=levels)

    @classmethod
    def summary(cls, estimator: Any, rows: SeriesRows, fixed: Self | None, part: Part) -> DataSummary:
        """The points themselves: a series is in one process."""
        features = {name: getattr(estimator, name) for name in FEATURES if hasattr(estimator, name)}
        counts = {part.number: (len(rows), rows.total_weight)}
        return DataSummary(counts, features, rows.dtype, n_columns=rows.X.shape[1], own={"rows": Total(rows)})

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """Likelihood, units and centres, from the points of a fit."""
        data, base, shared = summary.own["rows"].value, _likelihood(estimator, True), estimator._shared
        at, weight = values_of(base, data)
        likelihood = shared["likelihood"] if shared else base.start(at, weight)
        if likelihood.traits.additive and not shared:  # what a slope moves is no scale of the noise
            likelihood = likelihood.scales.with_less_noise(roughness(at))
        measured, has_level = likelihood.traits.additive, bool(estimator.level)
        mean, variance = weighted_moments(at, weight) if measured else (0.0, 0.0)
        unit = unit_of(mean, variance) if measured else _latent_unit(likelihood, data)
        spread = min(unit, middle_spread(at)) if measured else unit
        centre, scale = own_units(data.X, has_level)
        constant, clock = mean if has_level else 0.0, clock_of(data.index, periods_of(estimator))
        names = [str(name) for name in getattr(estimator, "feature_names_in_", range(len(scale)))]
        return cls(data.dtype, likelihood, unit, spread, constant, centre, scale, names, data.levels, clock)

    def updated(self, estimator: Any, summary: DataSummary, share: float) -> Self:
        """The units of the first fit, in the precision of these columns."""
        return replace(self, dtype=summary.dtype)

    @property
    def exposed(self) -> dict[str, Any]:
        """The constant part of f, and levels of an ordered target."""
        return {"mean_": self.mean} | ({} if self.levels is None else {"levels_": self.levels})

    def encode(self, estimator: Any, rows: SeriesRows, part: Part) -> EncodedSeries:
        """Columns in their own units, the constant part of f as an offset, and of a whole series its times."""
        offset = rows.offset
        if self.mean:
            offset = np.full(len(rows), self.mean) if offset is None else offset + self.mean
        record = index_record(rows.index) if part.whole else {}
        return EncodedSeries(self.columns(rows.X), rows.y, rows.weight, offset, index_record=record)

    def columns(self, X: Array) -> Array:
        """Columns (n, D) in their own units."""
        return np.ascontiguousarray((X - self.centre) / self.scale)

    def dynamics(self, structure: dict[str, Any]) -> Dynamics:
        """The states that parameters ask for, as `structure` holds them."""
        length, turn, given = structure["length"], structure["turn"], SimpleNamespace(**structure)
        found = dynamics_of(given, self.unit, self.names, self.scale, length, turn)
        if self.clock is not None:
            step = self.clock["step"]
            found.by_clock = [f"seasonal_{period:g}" for period in periods_of(given) if follows_clock(period, step)]
        return found

    def rows_at(self, dynamics: Dynamics, columns: Array, at: Array) -> Array:
        """Columns of points at these places with what the clock there says of seasons."""
        if self.clock is None:
            return columns
        return np.column_stack([dynamics.clock_columns(clock_shifts(self.clock, at)), columns])


def _likelihood(estimator: Any, fresh: bool) -> Likelihood:
    """The likelihood before a fit, or that of the fit to go on from; it has one latent."""
    base = check_working(estimator, estimator._base_likelihood() if fresh else estimator.likelihood_)
    if base.n_latents > 1:
        raise ValueError(
            f"likelihood={estimator.likelihood!r} has a latent for every class: choose one with one latent."
        )
    return base


def _columns(estimator: Any, X: Any, fresh: bool) -> tuple[Array | None, str]:
    """X as numbers, and their type; without columns of its own a fit has none."""
    if X is None or only_times(X):
        if not fresh and estimator.n_features_in_:
            raise ValueError(
                f"X {'is None' if X is None else 'has no columns'}, and this {type(estimator).__name__} was fitted to "
                f"{estimator.n_features_in_} columns."
            )
        estimator.n_features_in_ = 0
        vars(estimator).pop("feature_names_in_", None)
        return None if X is None else np.zeros((len(X), 0)), "float64"
    X = validate_data(estimator, X, reset=fresh, dtype=[np.float64, np.float32], order="C")
    return np.asarray(X, dtype=float), X.dtype.name


def _ordered(
    estimator: Any, base: Likelihood, y: Any, fixed: SeriesEncoding | None
) -> tuple[Array, Array, Array | None]:
    """Positions of an ordered target among its levels, where it has one, and the levels."""
    import pandas as pd

    there = ~np.asarray(pd.isna(y))
    if fixed is not None and not np.any(there):
        return np.zeros(len(there)), there, fixed.levels
    present = y[there] if hasattr(y, "iloc") or isinstance(y, np.ndarray) else [v for v, t in zip(y, there) if t]
    if fixed is None:
        levels, codes = first_levels(present, estimator.likelihood)
        levels, codes = levels_in_use(levels, codes.astype(int), base, given_order(present) is not None)
    else:
        assert fixed.levels is not None
        levels, codes = fixed.levels, positions(fixed.levels, present)
    values = np.zeros(len(there))
    values[there] = codes
    return values, there, levels


def _latent_unit(likelihood: Likelihood, data: Table) -> float:
    """1 behind a link, and more where what single points say of f lies beyond the wide prior of that unit."""
    linear, weights = first_messages(likelihood, data)
    informative = weights > 0
    if not np.any(informative):
        return 1.0
    size = float(np.sqrt(np.mean(np.square(linear[informative] / weights[informative]))))
    return max(1.0, size / np.sqrt(WIDE))


def _check_observed(likelihood: Likelihood, y: Array, there: Array) -> None:
    """The likelihood's own check of the values that are there; its error names the row among all."""
    if there.all():
        likelihood.check_target(y)
        return
    # A value of the support stands for what is missing.
    low = likelihood.support.low
    likelihood.check_target(np.where(there if y.ndim == 1 else there[:, None], y, low if np.isfinite(low) else 0.0))
