"""Columns on a scale of their own: centred and divided by their spread for the fit, so that units do not matter.

A prior is meant per spread of its column. A column of two values spreads by their distance, so that a coefficient is
the difference between them; any other by `SPREAD` standard deviations. Sparse columns are scaled, never centred.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi._typing.arrays import is_compressed
from sksvi.estimators.checks import LEAST_SPREAD
from sksvi.likelihoods.scales import weighted_quantiles
from sksvi.models.linear.rows import Rescaled

Array = np.ndarray

#: Spread of a column of many values, in standard deviations.
SPREAD = 2.0
#: Width of the middle half of a normal variable, in standard deviations.
MIDDLE_HALF = 1.349
#: Most that tails make of the deviation that a prior is for, in deviations of a normal variable with this middle half.
TAILS = 2.0
#: Rows by which the middle half is found, and the step from one to the next as a share of all: its multiples fill them.
SAMPLE, GOLDEN = 1024, 0.5 * (5.0**0.5 - 1.0)
#: Largest centre of a column, in its scale, that is taken out of sums: their squares lose four digits of sixteen.
MOST_SHIFT = 100.0
#: Rows that are not worth halving, in which most columns of many values show three, and fewer of which have no tails.
FEW = 32
#: A standard deviation of fewer roundings of a column's largest value is that of a constant.
ROUNDINGS = 8.0


@dataclass(frozen=True)
class ColumnScaling:
    """Centre and scale of every column, (D,) each, and whether it has varied; one that has not has scale 1.

    In these coordinates a column is zero until it varies, so that a stream may find its scale then. Coordinates stay;
    what the columns spread over is known better with every portion (`stats`), and the prior follows it.
    """

    LAYOUT = "scale (d) f >0; centre (d) f; varies (d) b; scaled flag; stats.low? (d) x"

    centre: Array
    scale: Array
    varies: Array
    scaled: bool
    stats: ColumnStats | None = None

    @classmethod
    def from_stats(cls, stats: ColumnStats, centre: Array, scaled: bool, in_units: bool = False) -> ColumnScaling:
        """The scaling about a centre, found from statistics of the rows of a fit, or of the first ones of a stream.

        `in_units`: columns keep their units, and statistics are of what they spread over there.
        """
        d = len(centre)
        columns = cls(centre, np.ones(d), np.full(d, in_units), scaled)
        return columns.updated(stats, 0.0) if scaled else columns

    def updated(self, new_stats: ColumnStats, share: float) -> ColumnScaling:
        """The scaling after more rows with these statistics: columns that vary for the first time find their scale.

        Of what earlier rows said of the spreads a share is left; a fit has all its rows at hand, and leaves none.
        """
        new_stats = new_stats.about(self.centre)
        stats = new_stats if self.stats is None or share == 0.0 else self.stats.faded(share).merged(new_stats)
        first_varying = ~self.varies & (stats.spread > 0)
        scale = np.where(first_varying, stats.spread, self.scale)
        return replace(self, scale=scale, varies=self.varies | first_varying, stats=stats)

    def with_scale(self, which: Array, otherwise: Array) -> ColumnScaling:
        """The scaling in which these columns have one for good: that of their spread, `otherwise` (D,) without any."""
        scale = np.where(which & ~self.varies, otherwise, self.scale)
        return replace(self, scale=scale, varies=self.varies | which)

    @property
    def common_scale(self) -> Array:
        """Deviations, over a common one, of weights in these coordinates that are alike in the units of the rows, (D,).

        The columns together give f as much variance as weights that are alike on the spreads of their columns.
        """
        assert self.stats is not None
        return self.scale / self.stats.common_spread(np.zeros(len(self.scale), int), 1)

    @cached_property
    def own(self) -> bool:
        """Whether these are the coordinates of the rows."""
        return not self.centre.any() and (not self.scaled or bool(np.all(self.scale == 1.0)))

    def applied(self, X: Any) -> Any:
        """Rows in these coordinates; CSR stays sparse where columns that are centred store every entry."""
        if self.own:
            return X
        if is_compressed(X) and self._keep_zeros(X):
            scaled = X.copy()
            scaled.data = ((X.data - self.centre[X.indices]) * (1.0 / self.scale)[X.indices]).astype(X.dtype)
            return scaled
        out = np.empty(X.shape, X.dtype)
        for rows in parallel.slices(X.shape[0], parallel.chunk_rows(X.shape[1], False)):
            Rescaled(X[rows].toarray() if is_compressed(X) else X[rows], self.centre, self.scale).filled(out[rows])
        return out

    def by_block(self, X: Array) -> Rescaled:
        """The rows of an array in these coordinates, made block by block when they are needed, if they are at all.

        Where they are made and X is not stored row by row, they are made once, with the ones of the intercept.
        """
        # Of sums of X itself centre and scale are taken out, but of a column far from zero they would lose digits, and
        # those of a constant one are zero to the last.
        raw = bool(X.dtype == np.float64 and np.all(self.varies & (np.abs(self.centre) <= MOST_SHIFT * self.scale)))
        if raw or X.flags.c_contiguous:
            return Rescaled(np.ascontiguousarray(X), self.centre, self.scale, raw)
        n, d = X.shape
        made = np.ones((n, d + 1), X.dtype)
        for rows in _blocks(X):
            Rescaled(X[rows], self.centre, self.scale).filled(made[rows, :d])
        return Rescaled(made[:, :d], np.zeros(d), np.ones(d), stored=made)

    def _keep_zeros(self, X: Any) -> bool:
        """Whether a zero that a sparse matrix does not store stays zero."""
        moved = np.flatnonzero(self.centre)
        return not len(moved) or bool(np.all(np.bincount(X.indices, minlength=X.shape[1])[moved] == X.shape[0]))


@dataclass(frozen=True)
class ColumnStats:
    """Statistics of columns over rows: weight, extremes, whether there are but two values, and moments.

    The centre counts as a value: what an uncentred constant differs from. eps: relative rounding of the values. mean,
    square (D,): of x - centre. inner (2, D): the same with heavy tails drawn in; None where no column has any.
    """

    LAYOUT = """
        low (d) x; high (d) x; centre (d) x; mean (d) x; square (d) x >=0; two (d) b; weight number >=0
        eps number >=0; inner? (2, d) x
    """

    weight: float
    eps: float
    centre: Array
    low: Array
    high: Array
    two: Array
    mean: Array
    square: Array
    inner: Array | None = None

    @classmethod
    def about_means(cls, X: Any, weight: Array | None, centred: Any, threads: int = 1) -> ColumnStats:
        """Statistics of some rows about the means of the columns that are `centred`, of others about 0."""
        return cls.of(X, weight, np.zeros(X.shape[1]), threads, centred)

    @classmethod
    def of(cls, X: Any, weight: Array | None, centre: Array, threads: int = 1, centred: Any = False) -> ColumnStats:
        """Statistics of some rows about a centre, or about the means of the columns that are `centred`."""
        n, d = X.shape
        if not n or not d:
            return cls(0.0, 0.0, centre, centre, centre, np.ones(d, bool), np.zeros(d), np.zeros(d))
        weight = np.ones(n) if weight is None else weight
        total, eps = float(weight.sum()), float(np.finfo(X.dtype).eps)
        sums = _of_stored if is_compressed(X) else _of_array

        def about(origin: Array) -> ColumnStats:
            low, high, two, mean, square = sums(X, weight, origin, threads)
            return cls(total, eps, origin, low, high, two, mean / total, square / total)

        found = about(_first_means(X))
        # The mean of a constant column is that constant, whatever the sum rounds to.
        mean, off = np.where(found.low == found.high, found.low, found.centre + found.mean), np.square(found.mean)
        centre = np.where(centred, mean, centre)
        # Far from what the first rows have squares cancel.
        return about(centre) if np.any(off > MOST_SHIFT * (found.square - off)) else found.about(centre)

    def about(self, centre: Array) -> ColumnStats:
        """The statistics with moments about another centre."""
        if np.array_equal(centre, self.centre):
            return self
        by = self.centre - centre
        mean, square = self._moments
        return self._with(np.array([mean + by, square + by * (2.0 * mean + by)]), centre=centre)

    def merged(self, other: ColumnStats) -> ColumnStats:
        """The statistics of these rows and the other's together."""
        other = other.about(self.centre)
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        two = self._two_of(low, high) & other._two_of(low, high)
        total = self.weight + other.weight
        share = other.weight / total if total > 0 else 0.0
        moments, eps = (1 - share) * self._moments + share * other._moments, max(self.eps, other.eps)
        return self._with(moments, weight=total, eps=eps, low=low, high=high, two=two)

    def take(self, which: Array) -> ColumnStats:
        """The statistics of some of the columns."""
        names = ("centre", "low", "high", "two")
        return self._with(self._moments[..., which], **{name: getattr(self, name)[which] for name in names})

    def faded(self, share: float) -> ColumnStats:
        """The statistics of rows that count less: their weight times `share`."""
        return replace(self, weight=share * self.weight)

    @property
    def without_extremes(self) -> ColumnStats:
        """The statistics without the extremes of columns of many values, which belong to single rows; spreads stay."""
        deviation = np.sqrt(self.variance)
        middle, keep = self.centre + self.mean, self.two | (deviation == 0.0)
        low, high = np.where(keep, self.low, middle - deviation), np.where(keep, self.high, middle + deviation)
        inner = None if self.inner is None else np.array([self.mean, np.square(self.mean) + self._inner_variance])
        return replace(self, low=low, high=high, inner=inner)

    def with_tails_drawn_in(self, X: Any, weight: Array | None) -> ColumnStats:
        """The statistics of these rows with `inner`: columns wider than `TAILS` times what their middle half says.

        Of many rows a sample over all of them shows the middle half, few rows do not.
        """
        n, where = X.shape[0], np.arange(X.shape[1])
        if self.weight < FEW:
            return self
        if n > SAMPLE:
            few = np.sort((n * (GOLDEN * np.arange(SAMPLE) % 1.0)).astype(int))
            X, weight = X[few], None if weight is None else weight[few]
        if is_compressed(X):  # the middle half of a column that is mostly zeros is zero
            where = np.flatnonzero(4 * np.bincount(X.indices, minlength=len(where)) >= X.shape[0])
            X = X[:, where].toarray()
        low, high = weighted_quantiles(X, weight, (0.25, 0.75))
        width, largest = TAILS / MIDDLE_HALF * (high - low), np.maximum(np.abs(self.low), np.abs(self.high))[where]
        heavy = (width > ROUNDINGS * self.eps * largest) & (np.square(width) < self.variance[where])
        if not heavy.any():
            return self
        moments, middle = self._moments, (0.5 * (low + high) - self.centre[where])[heavy]
        moments[:, 1, where[heavy]] = middle, np.square(middle) + np.square(width[heavy])
        return self._with(moments)

    @property
    def _moments(self) -> Array:
        """Means and squares of x - centre, as they are and with tails drawn in, (2, 2, D)."""
        own = np.array([self.mean, self.square])
        return np.stack([own, own if self.inner is None else self.inner], axis=1)

    def _with(self, moments: Array, **changes: Any) -> ColumnStats:
        own, inner = moments[:, 0], moments[:, 1]
        alike = np.array_equal(own, inner)
        return replace(self, mean=own[0], square=own[1], inner=None if alike else inner, **changes)

    @cached_property
    def variance(self) -> Array:
        """Variance of each column."""
        return np.maximum(self.square - np.square(self.mean), 0.0)

    @property
    def _inner_variance(self) -> Array:
        mean, square = self._moments[:, 1]
        return np.clip(square - np.square(mean), 0.0, self.variance)

    @cached_property
    def prior_spread(self) -> Array:
        """What the prior of each column is for: its spread, with heavy tails drawn in."""
        inner = self._inner_variance
        return np.where(inner < self.variance, SPREAD * np.sqrt(inner), self.spread)

    @cached_property
    def spread(self) -> Array:
        """Distance of the values of a column that has two, `SPREAD` deviations of another, 0 of a constant one."""
        low, high = np.minimum(self.low, self.centre), np.maximum(self.high, self.centre)
        apart, rounding = high - low, ROUNDINGS * self.eps * np.maximum(np.abs(low), np.abs(high))
        varies = apart > np.maximum(rounding, LEAST_SPREAD)
        return np.where(varies, np.where(self._two_of(low, high), apart, SPREAD * np.sqrt(self.variance)), 0.0)

    def common_spread(self, kinds: Array, n_kinds: int) -> Array:
        """One spread for the columns of each kind, (K,): on it they vary as much as on spreads of their own."""
        spread = self.spread
        variance = np.where(spread > 0, self.variance, 0.0)
        on_spreads = variance / np.square(np.where(spread > 0, spread, 1.0))
        total, scaled = (np.bincount(kinds, part, n_kinds) for part in (variance, on_spreads))
        return np.sqrt(np.where(scaled > 0, total, 1.0) / np.where(scaled > 0, scaled, 1.0))

    def _two_of(self, low: Array, high: Array) -> Array:
        """Whether every value is one of these."""
        ends = [(value == low) | (value == high) for value in (self.low, self.high)]
        return self.two & ends[0] & ends[1]


@dataclass(frozen=True)
class ColumnSummary:
    """What some rows say of the columns of their design.

    Parameters
    ----------
    stats : ColumnStats
    at_mean : ndarray of bool, shape (D,)
        Columns whose statistics are about their own mean.
    stored : ndarray of bool, shape (D,)
        Columns that may be centred and stay as sparse.
    sparse : bool
        Whether the table is sparse.
    categories : CategoricalColumns or None
    partial : bool
        Whether the design has indicators of missing values that all rows together may not need.
    """

    stats: ColumnStats
    at_mean: Array
    stored: Array
    sparse: bool
    categories: Any = None
    partial: bool = False

    def merged(self, other: ColumnSummary) -> ColumnSummary:
        """The summary of these rows and the other's together."""
        categories = self.categories if self.categories is None else self.categories.merged(other.categories)
        stored, sparse = self.stored & other.stored, self.sparse or other.sparse
        stats, at_mean = self.stats.merged(other.stats), np.zeros(len(self.at_mean), bool)
        return ColumnSummary(stats, at_mean, stored, sparse, categories, self.partial)

    def settled(self, reference: bool) -> ColumnSummary:
        """The summary of the columns that a fit to all rows has; `reference`: first levels have no indicator."""
        if not self.partial or self.categories is None:
            return self
        categories, stays = self.categories.settled(self.stats.high, reference), self.stays(reference)
        parts = self.stats.take(stays), self.at_mean[stays], self.stored[stays]
        return ColumnSummary(*parts, self.sparse, categories)

    def stays(self, reference: bool) -> Array:
        """Which columns a fit to all rows has."""
        if not self.partial or self.categories is None:
            return np.ones(len(self.at_mean), bool)
        return self.categories.retained(self.stats.high, reference)

    @property
    def mean(self) -> Array:
        """Mean of each column; that of a constant one is the constant."""
        stats = self.stats
        mean = np.where(self.at_mean, stats.centre, stats.centre + stats.mean)
        return np.where(stats.low == stats.high, stats.low, mean)

    def centre(self, centred: bool) -> Array:
        """Mean of each column that is centred where columns are, else 0: of a sparse design those that stay sparse."""
        sparse = self.sparse or (self.categories is not None and self.categories.sparse)
        return np.where(centred & (self.stored | (not sparse)), self.mean, 0.0)


def _blocks(X: Any) -> list[slice]:
    return parallel.slices(X.shape[0], parallel.chunk_rows(X.shape[1], False))


def _first_means(X: Any) -> Array:
    """Means of the first rows, near those of all rows; of a sparse matrix 0."""
    if is_compressed(X):
        return np.zeros(X.shape[1])
    rows = np.asarray(X[_blocks(X)[0]], float, order="C")
    return np.where((rows == rows[0]).all(axis=0), rows[0], rows.mean(axis=0))


def _of_array(X: Array, weight: Array, centre: Array, threads: int) -> list[Array]:
    """Least and greatest value of each column, whether it has no others, sums of x - centre and of its square."""

    def of_block(rows: slice) -> tuple[Array, ...]:
        part = np.asarray(X[rows])
        low, high = _folded(np.minimum, part), _folded(np.maximum, part)
        off = np.subtract(part, centre, order="C")  # the same sums for every layout of X
        two, sums = _two(part, low, high), np.dot(weight[rows], off)
        return low, high, two, sums, np.dot(weight[rows], np.square(off, out=off))  # a new array would take longer

    blocks = zip(*parallel.in_order(of_block, _blocks(X), threads), strict=True)
    lows, highs, two, sums, squares = (np.array(own) for own in blocks)
    low, high = lows.min(axis=0), highs.max(axis=0)
    of_ends = [(value == low) | (value == high) for value in (lows, highs)]
    two = np.all(two & of_ends[0] & of_ends[1], axis=0)
    return [low.astype(float), high.astype(float), two, sums.sum(axis=0), squares.sum(axis=0)]


def _folded(function: np.ufunc, X: Array) -> Array:
    """`function.reduce(X, axis=0)` of finite numbers, which goes row by row: here half of the rows by the other."""
    while len(X) > FEW and X.flags.c_contiguous:
        half = len(X) // 2
        folded = function(X[:half], X[half : 2 * half])
        folded[0] = function(folded[0], X[-1])  # the one that is left over, or one again
        X = folded
    return np.asarray(function.reduce(X, axis=0))


def _two(X: Array, low: Array, high: Array) -> Array:
    """Whether every value of a column is its least or its greatest: those of many values show it soon."""
    two = ((X[:FEW] == low) | (X[:FEW] == high)).all(axis=0)
    at = np.flatnonzero(two)
    if len(at):
        values = X[:, at] if len(at) < len(two) else X
        two[at] = ((values == low[at]) | (values == high[at])).all(axis=0)
    return two


def _of_stored(X: Any, weight: Array, centre: Array, threads: int) -> list[Array]:
    """What `_of_array` says, of a sparse matrix."""
    from sksvi.models.linear.sparse_loops import add_to_columns

    zeros, out = np.bincount(X.indices, minlength=X.shape[1]) < X.shape[0], np.zeros((6, X.shape[1]))
    out[0, ~zeros], out[1, ~zeros] = np.inf, -np.inf
    add_to_columns(X.indptr, X.indices, X.data.astype(float, copy=False), weight, centre, out)
    low, high, stored, sums, squares, between = out
    missing = weight.sum() - stored
    two = (between == 0) & ~(zeros & (low < 0) & (high > 0))
    return [low, high, two, sums - missing * centre, squares + missing * np.square(centre)]
