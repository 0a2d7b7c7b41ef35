"""What ratings fix: ids of users and items, their features, levels, and the scale of f."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.utils import column_or_1d

from sksvi._runtime import parallel
from sksvi.decomposition._ids import (
    Features,
    check_has_ids,
    features_by_side,
    grown_ids,
    id_columns,
    plates_of,
    positions,
    unique_ids,
)
from sksvi.estimators.checks import check_numbers, check_numeric_target, check_row_values, check_same_rows
from sksvi.estimators.encoding import FEATURES, Encoding, GivenRows, Part
from sksvi.estimators.levels import levels_in_use
from sksvi.estimators.targets import TargetRows, ValueTarget
from sksvi.likelihoods import Likelihood
from sksvi.likelihoods.scales import weighted_median
from sksvi.models.data import Table
from sksvi.models.factorization.columns import SIDES
from sksvi.models.factorization.ratings import Ratings
from sksvi.models.targets import starting
from sksvi.partitions.summary import DataSummary

Array = np.ndarray

#: Natural scale of f, in widths of a likelihood whose data do not say.
WIDTHS = 3.0
#: Standard deviations in a median absolute deviation; relative spread of y that rounding explains.
TYPICAL, ROUNDING = 1.4826, 1e-9
#: Share of the excess variance of counts that a fit leaves to their dispersion at first: with all that a few columns
#: would leave, factors are shrunk away before they have learned anything.
LEFT = 0.02


@dataclass(frozen=True)
class Counted:
    """Ids of one side, sorted where they have an order, with how many ratings each has; ratings without an id.

    Of ratings in memory the ids alone are known, and the column that they come from.
    """

    ids: Array
    counts: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    missing: dict[int, int] = field(default_factory=dict)
    column: Any = None

    @classmethod
    def of(cls, column: Any, part: Part) -> Counted:
        """Ids and their numbers of ratings in a column of one partition."""
        if not part.remote:
            return cls(np.empty(0), column=column)
        ids = unique_ids(column)
        where = positions(ids, column)
        return cls(ids, np.bincount(where[where >= 0], minlength=len(ids)), {part.number: int(np.sum(where < 0))})

    def merged(self, other: Counted) -> Counted:
        """Union of the ids of two sets of partitions, with their numbers of ratings added."""
        import pandas as pd

        ids = unique_ids(pd.concat([pd.Series(self.ids), pd.Series(other.ids)]))
        counts = np.zeros(len(ids), np.int64)
        for one in (self, other):
            counts[positions(ids, pd.Series(one.ids))] += one.counts
        return Counted(ids, counts, {**self.missing, **other.missing})

    @property
    def as_column(self) -> Any:
        """The column of ids, or each id once."""
        import pandas as pd

        return pd.Series(self.ids) if self.column is None else self.column

    def starts(self, ids: Array) -> Array:
        """Where each plate's ratings begin: those of `ids`, then one plate for each rating without an id."""
        import pandas as pd

        counts = np.zeros(len(ids), np.int64)
        counts[positions(ids, pd.Series(self.ids))] = self.counts
        return np.cumsum(np.concatenate([[0], counts, np.ones(sum(self.missing.values()), np.int64)]))


@dataclass(frozen=True)
class RatingRows(TargetRows):
    """Ratings with the ids of both sides as columns."""

    ids: tuple[Any, ...] = ()


@dataclass(frozen=True)
class PairEncoding(Encoding):
    """Ids, levels and scales of a factorization of ratings.

    Parameters
    ----------
    ids : dict
        By side, of shape (n_users,) and (n_items,).
    likelihood : Likelihood
        Where the fit begins.
    names : ndarray of shape (L,) or None
        Ordered levels.
    offset, unit : float
        Constant part of f, and its natural scale.
    features : dict
        Standardised features by side, or None.
    """

    LAYOUT = "ids dict; likelihood Likelihood; names? labels; offset number; unit number >0; features dict"

    ids: dict[str, Array]
    likelihood: Likelihood
    names: Array | None = None
    offset: float = 0.0
    unit: float = 1.0
    features: dict[str, Features | None] = field(default_factory=dict)

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> RatingRows:
        """Columns of ids, values (positions among the levels of an ordinal y) and weights."""
        columns = id_columns(estimator, given.X, fixed is None)
        y, names, declared = cls.values(estimator, columns, given.y, fixed, part)
        weight = check_row_values(given.sample_weight, len(y), "sample_weight", weights=True)
        if not part.remote:
            check_has_ids(columns)
            if part.whole and fixed is None and not estimator.zero_weight:
                check_varied(y, len(y), names)
        return RatingRows(np.empty((len(y), 0)), y, weight, names=names, declared=declared, ids=columns)

    @classmethod
    def values(
        cls, estimator: Any, columns: Any, y: Any, fixed: PairEncoding | None, part: Part
    ) -> tuple[Array, Array | None, bool]:
        """y as numbers in the likelihood's support or positions among levels; the levels, and if they are declared."""
        base = ValueTarget.base(estimator, fixed)  # type: ignore[arg-type]  # likelihood and names of an encoding
        if base.traits.paired or base.n_latents > 1:
            raise ValueError(
                f"likelihood={estimator.likelihood!r} needs more than one number per pair: choose a scalar one."
            )
        if not base.traits.ordered and y is not None:
            check_numeric_target(y)
        target = ValueTarget.given(estimator, y, fixed, part)  # type: ignore[arg-type]
        found = column_or_1d(check_numbers(target.y, "y"))
        check_same_rows(columns[0], found)
        target.check(found)
        names = target.names
        if fixed is None and names is not None and not part.remote:
            names, found = levels_in_use(names, found.astype(int), base, target.declared)
            found = found.astype(float)
        return found, names, target.declared

    @classmethod
    def summary(cls, estimator: Any, rows: RatingRows, fixed: Self | None, part: Part) -> DataSummary:
        """Ids with their numbers of ratings, and targets."""
        counts = {part.number: (len(rows), rows.total_weight)}
        features = {name: getattr(estimator, name) for name in FEATURES if hasattr(estimator, name)}
        of_targets = ValueTarget.summarized(rows, part)
        sides = {side: Counted.of(column, part) for side, column in zip(SIDES, rows.ids, strict=True)}
        own = {**of_targets.pop("own"), **sides}
        return DataSummary(counts, features, np.float64, n_columns=2, own=own, **of_targets)

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """Ids and features, levels, and scales by all targets."""
        few, names = summary.few, None
        assert few is not None
        base = ValueTarget.base(estimator, None)
        if base.traits.ordered:
            found = summary.own["names"]
            names = found.values
            if summary.targets is not None:
                names, _ = levels_in_use(names, positions(names, few.y), base, found.declared)
        new = cls({}, base, names)
        targets = new.few_targets(summary)
        if summary.targets is not None:
            check_varied(targets.y, targets.n_rows, names)
        return new._with_ids(estimator, summary, None).in_scales(estimator, targets.y, targets.weight)

    def few_targets(self, summary: DataSummary) -> Table:
        """Targets in few rows, ordinal ones as positions among the levels."""
        few, names = summary.few, self.names
        assert few is not None
        if summary.targets is None or names is None:
            return few
        return few.mapped(lambda y: positions(names, y).astype(float))

    def in_scales(self, estimator: Any, y: Array, weight: Array | None) -> Self:
        """The encoding with first parameters of the likelihood, constant and natural scale of f, from y alone."""
        few = starting(Table(np.empty((len(y), 0)), y, weight), by_moments=False)
        if estimator.zero_weight:
            few = self._with_zeros(few, few.total_weight / (len(y) if weight is None else weight.sum()), estimator)
        base = ValueTarget.base(estimator, None)
        likelihood = base.start(few.y, few.weight).scales.with_less_dispersion(LEFT)
        y, weight, flat = few.y, few.weight, likelihood.traits.ordered
        centre = np.zeros(len(y)) if flat else likelihood.cdf_centre(y)  # the f that y speaks for
        middle = weighted_median(centre, weight)
        # Counts have a few that are huge: the middle of y says what most of f is like.
        gap = np.abs(centre - middle)
        spread = TYPICAL * weighted_median(gap, weight) or float(np.sqrt(np.average(np.square(gap), weights=weight)))
        has_spread = ROUNDING * np.max(np.abs(centre), initial=0.0) < spread < np.inf
        unit = spread if has_spread else WIDTHS * likelihood.width
        # Cut points carry the constant of an ordinal f.
        offset = 0.0 if flat or not estimator.biases else float(middle)
        return replace(self, likelihood=likelihood, offset=offset, unit=unit if 0 < unit < np.inf else 1.0)

    def _with_zeros(self, few: Table, share: float, estimator: Any) -> Table:
        """A share of the values with its share of the zeros of all pairs, as one row."""
        zeros = share * estimator.zero_weight * len(self.ids["users"]) * len(self.ids["items"])
        weight = np.ones(len(few)) if few.weight is None else few.weight
        return Table(np.empty((len(few) + 1, 0)), np.append(few.y, 0.0), np.append(weight, zeros))

    def updated(self, estimator: Any, summary: DataSummary, share: float) -> Self:
        """The encoding with new ids; levels and scales stay."""
        return replace(self, likelihood=estimator.likelihood_)._with_ids(estimator, summary, self)

    def _with_ids(self, estimator: Any, summary: DataSummary, old: Self | None) -> Self:
        """The encoding with ids of these ratings after those of earlier ones, and features of all."""
        columns = {side: summary.own[side].as_column for side in SIDES}
        if summary.targets is not None:
            check_has_ids([column if len(column) else column.reindex([0]) for column in columns.values()])
        ids = {}
        for side, column in columns.items():
            ids[side] = grown_ids(estimator.on_unseen, side, column, None if old is None else old.ids[side])
        features = features_by_side(estimator, ids, None if old is None else old.features)
        return replace(self, ids=ids, features=features)

    def n_coefficients(self, side: str, constant: Any = False) -> int:
        """Rows of the coefficients of a side's mean: one per feature, and a constant, which those without may lack."""
        features = self.features.get(side)
        return bool(constant) if features is None else features.values.shape[1] + 1

    @property
    def exposed(self) -> dict[str, Any]:
        """Ids of both sides, likelihood and levels."""
        names = np.array([0, 1]) if self.likelihood.traits.classifies else self.names
        levels = {} if names is None else {"levels_": names}
        return {"users_": self.ids["users"], "items_": self.ids["items"], "likelihood_": self.likelihood, **levels}

    def encode(self, estimator: Any, rows: RatingRows, part: Part) -> Ratings:
        """Ratings by positions of their ids; one without an id has a user, or an item, of its own."""
        ids = [self.ids[side] for side in SIDES]
        users, items = (plates_of(own, column) for own, column in zip(ids, rows.ids, strict=True))
        n_users, n_items = (len(own) + int(column.isna().sum()) for own, column in zip(ids, rows.ids, strict=True))
        zeros, threads = estimator.zero_weight is not None, parallel.n_threads(estimator.n_jobs)
        return Ratings(users, items, rows.y, rows.weight, n_users, n_items, zeros, threads)

    def stored(self, data: Ratings) -> Table:
        """Positions of users and items, -1 where an id is missing, and values."""
        entries, sizes = data.sides["users"], [len(self.ids[side]) for side in SIDES]
        users = np.repeat(np.arange(len(entries.starts) - 1), entries.counts)
        pairs = np.column_stack([users, entries.other])
        return Table(np.where(pairs < sizes, pairs, -1.0), entries.y, entries.weight)

    def restored(self, estimator: Any, rows: Table) -> Ratings:
        """Ratings as `encode` has them, with the weight of the population where steps are scaled to it."""

        def plates(side: str, column: Array) -> tuple[Array, int]:
            nameless, n = np.flatnonzero(column < 0), len(self.ids[side])
            plate = column.astype(np.int64)
            plate[nameless] = n + np.arange(len(nameless))
            return plate, n + len(nameless)

        (users, n_users), (items, n_items) = (plates(*each) for each in zip(SIDES, rows.X.T, strict=True))
        weight, blown_up = rows.weight, estimator._blown_up(rows.total_weight)
        weight = blown_up * (np.ones(len(rows)) if weight is None else weight) if blown_up != 1.0 else weight
        return Ratings(users, items, rows.y, weight, n_users, n_items)

    def by_stored(self, estimator: Any, rows: Table) -> Self:
        """The encoding with scales and features by all ratings so far."""
        return replace(
            self.in_scales(estimator, rows.y, rows.weight), features=features_by_side(estimator, self.ids, None)
        )

    def entries(
        self, estimator: Any, given: Iterator[tuple[int, GivenRows]], summary: DataSummary, part: Part
    ) -> Iterator[tuple[Array, ...]]:
        """(user, item, value, weight) of every rating, a partition at a time."""
        before = dict.fromkeys(SIDES, 0)
        for number, rows in given:
            read = self.read(estimator, rows, self, part._replace(number=number))
            where = []
            for side, column in zip(SIDES, read.ids, strict=True):
                plates = plates_of(self.ids[side], column)
                plates[plates >= len(self.ids[side])] += before[side]
                before[side] += summary.own[side].missing[number]
                where.append(plates)
            yield (*where, read.y) if read.weight is None else (*where, read.y, read.weight)


def check_varied(y: Array, n: int, names: Array | None) -> None:
    """Raise where all of n targets are one number."""
    if names is None and np.all(y == y[0]):
        raise ValueError(
            f"y needs at least two different values to be factorized; all {n} are {y[0]:g}. Where a pair says "
            "that something happened, add pairs with 0 for what did not."
        )
