"""What counts of pairs fix, ids of users and items, and the counts that a stream has so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import column_or_1d

from sksvi.decomposition._ids import Features, features_by_side, grown_ids, id_columns, positions
from sksvi.estimators.checks import check_magnitudes, check_numbers, check_row_values, check_same_rows
from sksvi.estimators.encoding import FEATURES, Encoding, GivenRows, Part
from sksvi.models.data import Table
from sksvi.models.nmf.cells import CountMatrix, cells, table
from sksvi.partitions.summary import DataSummary, Total

Array = np.ndarray


def checked_counts(y: Any, n: int) -> Array:
    """Counts of n pairs, numbers that are not negative; None: every pair counts once.

    Raises
    ------
    ValueError
        Naming the row.
    """
    if y is None:
        return np.ones(n)
    y = column_or_1d(check_numbers(y, "y"))
    check_same_rows(np.empty(n), y)
    if np.any(y < 0):
        row = int(np.argmax(y < 0))
        raise ValueError(f"y must be counts, y >= 0; found {y[row]:g} in row {row}.")
    check_magnitudes(y, "y")
    return np.asarray(y)


@dataclass(frozen=True)
class EventRows(Table):
    """Counts of pairs, with the ids of both sides as columns; those without weight are left out.

    whole : whether they are all rows of a fit.
    """

    ids: tuple[Any, ...] = ()
    whole: bool = True

    @classmethod
    def of(cls, columns: tuple[Any, ...], y: Any, sample_weight: Any, whole: bool = False) -> EventRows:
        """Rows of two columns of ids, once counts and weights are checked."""
        counts = checked_counts(y, len(columns[0]))
        weight = check_row_values(sample_weight, len(counts), "sample_weight", weights=True)
        if weight is not None:
            there = weight > 0
            columns, counts, weight = tuple(column[there] for column in columns), counts[there], weight[there]
        return cls(np.empty((len(counts), 0)), counts, weight, ids=columns, whole=whole)

    def cells(self, users: Array, items: Array) -> CountMatrix:
        """Counts by user and item, those of one pair added, as often as weights say; items without a column go."""
        counts = self.y if self.weight is None else self.weight * self.y
        by_user, by_item = (positions(ids, column) for ids, column in zip((users, items), self.ids, strict=True))
        there = by_item >= 0
        entries = counts[there], (by_user[there], by_item[there])
        return cells(sp.csr_matrix(entries, shape=(len(users), len(items))))


@dataclass(frozen=True)
class CountedPairs(Table):
    """Counts by user and item; counted_weight: that of the rows which were counted."""

    counted_weight: float = 0.0

    @property
    def total_weight(self) -> float:
        """Weight of the rows that were counted."""
        return self.counted_weight


@dataclass(frozen=True)
class CountRecord:
    """The counts of a fit or of a stream, and when a stream is fitted to all of them again.

    Parameters
    ----------
    n_rows : float
        Weight of the rows of X; those that inference sees are users.
    counts : ndarray of shape (e,)
        Count of every pair, in the order of `seen_`.
    waiting : int
        Pairs that came since all were fitted together.
    began_with : int
        Pairs that the components began with.
    prior_shapes : ndarray of shape (2,)
        Shapes of the priors of components and users that the counts of the fit are in q beside.
    chunk : CountMatrix or None
        Cells that the call under way of a stream fits users to; None: no such call is under way.
    """

    LAYOUT = (
        "n_rows number >=0; counts (_) f >0; waiting count; began_with count; prior_shapes (2) f >0; chunk? CountMatrix"
    )

    n_rows: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(0))
    waiting: int = 0
    began_with: int = 0
    prior_shapes: Array = field(default_factory=lambda: np.ones(2))
    chunk: CountMatrix | None = None


@dataclass(frozen=True)
class PairCountEncoding(Encoding):
    """Ids of a factorization of counts.

    Parameters
    ----------
    ids : dict
        By side, of shape (n_users,) and (n_items,).
    mean : float
        Of the cells that the components began with.
    dtype : str
        Of answers.
    features : dict
        Standardised features by side, or None.
    """

    LAYOUT = "ids dict; mean number >0; dtype text where it in ('float32', 'float64'); features? dict"

    ids: dict[str, Array]
    mean: float = 1.0
    dtype: str = "float64"
    features: dict[str, Features | None] | None = None

    sums_over_rows: ClassVar[bool] = False

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> EventRows:
        """Columns of ids, none of them missing, and counts of the rows that have weight."""
        columns = id_columns(estimator, given.X, fixed is None)
        for side, column in zip(("user", "item"), columns, strict=True):
            missing = column.isna().to_numpy()
            if missing.any():
                raise ValueError(
                    f"the {side} id in row {int(np.argmax(missing))} of X is missing: a count belongs to a user and an "
                    "item, and all other pairs are zeros. Leave the row out."
                )
        return EventRows.of(columns, given.y, given.sample_weight, part.whole)

    @classmethod
    def summary(cls, estimator: Any, rows: EventRows, fixed: Self | None, part: Part) -> DataSummary:
        """The rows themselves: all pairs of users and items are data, in one process."""
        features = {name: getattr(estimator, name) for name in FEATURES if hasattr(estimator, name)}
        return DataSummary({part.number: (len(rows), rows.total_weight)}, features, None, own={"rows": Total(rows)})

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """Ids of users and items."""
        return cls({}).with_ids(estimator, summary.own["rows"].value, None)

    def updated(self, estimator: Any, summary: DataSummary, share: float) -> Self:
        """The encoding with new items, and of a stream new users; a warm fit has users of its own."""
        rows = summary.own["rows"].value
        return self.with_ids(estimator, rows, None if rows.whole else self.ids["users"], self.ids["items"])

    def with_ids(self, estimator: Any, rows: EventRows, users: Array | None, items: Array | None = None) -> Self:
        """The encoding with the ids of these rows after some users and items."""
        policy, (of_user, of_item) = estimator.on_unseen, rows.ids
        ids = {"users": grown_ids(policy, "users", of_user, users), "items": grown_ids(policy, "items", of_item, items)}
        return replace(self, ids=ids, features=features_by_side(estimator, ids, self.features))

    @property
    def exposed(self) -> dict[str, Any]:
        """Ids of both sides."""
        return {"users_": self.ids["users"], "items_": self.ids["items"]}

    def encode(self, estimator: Any, rows: EventRows, part: Part) -> CountedPairs:
        """Counts by user and item."""
        data = table(rows.cells(self.ids["users"], self.ids["items"]))
        return CountedPairs(data.X, data.y, counted_weight=rows.total_weight)


def items_of(found: CountMatrix) -> tuple[Array, Array]:
    """Where each user's items begin, and which they are."""
    return found.counts.indptr.astype(np.int64), found.counts.indices.astype(np.int32)
