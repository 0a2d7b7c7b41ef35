"""What the rows of a process fix: the target's likelihood, the units of inputs and of f, the first kernel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from sksvi.estimators.censoring import with_censoring
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.encoding import FEATURES, Encoding, GivenRows, Part
from sksvi.estimators.offsets import offset_of
from sksvi.estimators.targets import LabelTarget, TargetEncoding, TargetRows, ValueTarget
from sksvi.estimators.validation import validate_data
from sksvi.gaussian_process._start import (
    INPUT_UNIT,
    centred,
    default_kernel,
    distinct,
    first_mean,
    lengths_per_feature,
    merged,
    noiseless,
    spread_of,
)
from sksvi.likelihoods.scales import own_unit
from sksvi.models.data import Table
from sksvi.models.gp import kernels
from sksvi.models.targets import starting
from sksvi.partitions.summary import DataSummary, Moments

Array = np.ndarray

#: Rows up to which a step takes all of them when the user leaves it to us (then those of a collection lie in one
#: worker's memory for a moment), and those of a batch beyond.
FULL_BATCH_ROWS, BATCH_ROWS = 2**17, 2048


@dataclass(frozen=True)
class ProcessEncoding(Encoding):
    """Target and units of a sparse process.

    Parameters
    ----------
    target : TargetEncoding
    seed : int
        Of inducing points and draws.
    unit : ndarray of shape (D,)
        Of each input: how far the search moves inducing points at first.
    target_unit : float
        Standard deviation of a measured target; 1 behind a link.
    mean : float
        Constant part of f, where the kernel is not the user's.
    kernel : kernel
        Where the search for its parameters begins.
    """

    LAYOUT = "target TargetEncoding; seed count; unit (_) f >0; target_unit number >0; mean number"

    target: TargetEncoding
    seed: int = 0
    unit: Array = field(default_factory=lambda: np.empty(0))
    target_unit: float = 1.0
    mean: float = 0.0
    kernel: Any = None
    target_class: ClassVar[type[TargetEncoding]]

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> TargetRows:
        """Rows that count, in double precision; of a fit in memory equal rows are one."""
        target = cls.target_class.given(estimator, given.y, None if fixed is None else fixed.target, part)
        options = {**target.options, "dtype": [np.float64, np.float32]}
        X, y = validate_data(estimator, given.X, target.y, reset=fixed is None, **options)
        target.check(y)
        weight = check_row_values(given.sample_weight, len(X), "sample_weight", weights=True)
        data = Table(X.astype(float, copy=False), y, weight, offset_of(estimator, given.offset, len(X)))
        if weight is not None and not np.all(weight > 0):
            data = data.take(np.flatnonzero(weight > 0))
        if part.whole and fixed is None:
            check_columns(estimator, len(data), data.X != data.X[:1])
        rows = cls.target_class.rows(estimator, target, data, None if fixed is None else fixed.target, part, float)
        if not part.whole:
            return rows
        table = merged(Table(rows.X, rows.y, rows.weight, rows.offset))
        return replace(rows, X=table.X, y=table.y, weight=table.weight, offset=table.offset)

    @classmethod
    def summary(cls, estimator: Any, rows: TargetRows, fixed: Self | None, part: Part) -> DataSummary:
        """Targets, and in partitions the moments of columns; rows in memory stand for themselves."""
        counts = {part.number: (len(rows), rows.total_weight)}
        features = {name: getattr(estimator, name) for name in FEATURES if hasattr(estimator, name)}
        of_targets = cls.target_class.summarized(rows, part)
        own = of_targets.pop("own") | ({"columns": Moments.of(rows.X, rows.weight)} if part.remote else {})
        found = DataSummary(counts, features, np.dtype(float), n_columns=rows.X.shape[1], own=own, **of_targets)
        offset = rows.offset is not None and bool(np.any(rows.offset))
        return replace(found, bytes_per_row=rows.bytes_per_row, offset=offset)

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """Target and units; few rows of a collection find their units once they lie together (`started`)."""
        target = cls.target_class.fit(estimator, summary)
        targets, columns = target.few(summary), summary.own.get("columns")
        if columns is None:
            return cls(target).started(estimator, targets, spread_of(targets))
        check_columns(estimator, summary.n, columns.low != columns.high)
        if summary.n <= FULL_BATCH_ROWS:
            return cls(target)
        return cls(target).started(estimator, targets, columns.deviation)

    def base_likelihood(self, estimator: Any) -> Any:
        """The likelihood before any data."""
        return self.target.likelihood

    def started(self, estimator: Any, targets: Table, spread: Array) -> Self:
        """The encoding with a seed and the units of a fit, from targets and the columns' standard deviations."""
        seed = int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max))
        return replace(self, seed=seed).in_units(estimator, targets, spread)

    def in_units(self, estimator: Any, targets: Table, spread: Array) -> Self:
        """The encoding with first likelihood, units, constant part and kernel of these rows."""
        base = with_censoring(self.base_likelihood(estimator), targets.y)
        alone = starting(targets.alone, base.traits.by_moments)
        targets = starting(targets, base.traits.by_moments)
        at, additive = base.points(targets.y), base.traits.additive
        at = at if targets.offset is None or not additive else at - targets.offset
        alone_too = not additive or base.traits.censored
        likelihood = base.start(alone.y, alone.weight) if alone_too else base.start(at, targets.weight)
        measured, own = likelihood.traits.additive, estimator.kernel is not None
        # A kernel of the user's is about zero; ours is for what varies.
        mean = 0.0 if own else first_mean(likelihood, at, targets)
        unit = INPUT_UNIT * np.where(spread > 0, spread, 1.0)
        if own:
            kernel = kernels.checked(estimator.kernel, len(spread))
        else:
            kernel = default_kernel(likelihood, centred(mean, targets), lengths_per_feature(spread))
        target = replace(self.target, likelihood=likelihood)
        target_unit = own_unit(at, targets.weight) if measured else 1.0
        return replace(self, target=target, unit=unit, target_unit=target_unit, mean=mean, kernel=kernel)

    def updated(self, estimator: Any, summary: DataSummary, share: float) -> Self:
        """The encoding with the likelihood that the last fit has learned."""
        return replace(self, target=self.target.updated(estimator, summary))

    @property
    def exposed(self) -> dict[str, Any]:
        """Likelihood, classes or levels, and the constant part of f."""
        return {**self.target.exposed, "mean_": self.mean}

    def encode(self, estimator: Any, rows: TargetRows, part: Part) -> Table:
        """Targets as the model has them, the constant part of f as an offset."""
        y = self.target.encode(rows.y, float)
        return centred(self.mean, Table(rows.X, y, rows.weight, rows.offset, rows.first))

    def targets(self, estimator: Any, summary: DataSummary) -> Table:
        """Targets in few rows, the constant part of f as an offset."""
        return centred(self.mean, self.target.few(summary))


class ValueProcessEncoding(ProcessEncoding):
    """Units of a process behind numbers, pairs of counts or ordered levels."""

    target_class = ValueTarget

    @classmethod
    def by_moments(cls, estimator: Any, fixed: Self | None) -> bool:
        """Whether a fit needs no more of its targets than mean and variance."""
        return bool(ValueTarget.base(estimator, None if fixed is None else fixed.target).traits.by_moments)

    def base_likelihood(self, estimator: Any) -> Any:
        """The likelihood before any data."""
        return estimator._base_likelihood()


class LabelProcessEncoding(ProcessEncoding):
    """Units of processes behind labels."""

    target_class = LabelTarget

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> TargetRows:
        """Rows that count; labels have no noise variance."""
        noiseless(estimator.noise_variance, estimator.likelihood)
        return super().read(estimator, given, fixed, part)


@dataclass(frozen=True)
class DistinctRows(TargetRows):
    """Different rows of a fit.

    counted : rows that count, by their numbers as given. place : where each of these is among the different ones.
    """

    counted: Array = field(default_factory=lambda: np.empty(0, int))
    place: Array = field(default_factory=lambda: np.empty(0, int))


@dataclass(frozen=True)
class FullProcessEncoding(Encoding):
    """Target of a process with a message per row.

    Parameters
    ----------
    target : LabelTarget
    """

    LAYOUT = "target LabelTarget"

    target: LabelTarget

    sums_over_rows: ClassVar[bool] = False

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> DistinctRows:
        """Different rows with the sums of their weights."""
        target = LabelTarget.given(estimator, given.y, None if fixed is None else fixed.target, part)
        X, y = validate_data(estimator, given.X, target.y, reset=fixed is None, dtype=[np.float64, np.float32])
        weight = check_row_values(given.sample_weight, len(X), "sample_weight", weights=True)
        data = Table(X.astype(float, copy=False), y, weight, offset_of(estimator, given.offset, len(X)))
        counted = np.arange(len(X)) if weight is None else np.flatnonzero(weight > 0)
        data = data.take(counted)
        estimator._check_whole(len(data))
        rows = LabelTarget.rows(estimator, target, data, None if fixed is None else fixed.target, part, float)
        data, place = distinct(Table(rows.X, rows.y.astype(float), rows.weight, rows.offset))
        return DistinctRows(data.X, data.y, data.weight, data.offset, names=rows.names, counted=counted, place=place)

    @classmethod
    def summary(cls, estimator: Any, rows: DistinctRows, fixed: Self | None, part: Part) -> DataSummary:
        """Classes of the rows."""
        counts = {part.number: (len(rows), rows.total_weight)}
        features = {name: getattr(estimator, name) for name in FEATURES if hasattr(estimator, name)}
        own = LabelTarget.summarized(rows, part)["own"]
        return DataSummary(counts, features, np.dtype(float), n_columns=rows.X.shape[1], own=own, few=rows)

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """Two classes and their likelihood."""
        return cls(LabelTarget.fit(estimator, summary))

    def updated(self, estimator: Any, summary: DataSummary, share: float) -> Self:
        """The encoding with the likelihood of the fit."""
        return replace(self, target=self.target.updated(estimator, summary))

    @property
    def exposed(self) -> dict[str, Any]:
        """Likelihood and classes."""
        return self.target.exposed

    def encode(self, estimator: Any, rows: DistinctRows, part: Part) -> DistinctRows:
        """The rows themselves."""
        return rows


def check_columns(estimator: Any, n: int, varies: Any) -> None:
    """Raise where rows are all equal, which says nothing of how f varies."""
    name = type(estimator).__name__
    if n == 1:
        raise ValueError(f"{name} needs at least two different rows; found n_samples=1.")
    if not np.any(varies):
        raise ValueError(
            f"{name} needs at least two different rows; every column of X is constant: there is no length scale to "
            "learn."
        )
