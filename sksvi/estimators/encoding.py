"""What the data of a fit fix, and the rows of later calls encoded by it.

Rows in memory are one partition: the same summaries fix the same things whether a table is here or in parts elsewhere.

    read  →  summary  →  merged over partitions  →  fit, or updated  →  encode, partition by partition
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from sksvi.models.data import Table
from sksvi.partitions.collections import in_memory
from sksvi.partitions.summary import DataSummary

#: What scikit-learn's validation leaves on an estimator.
FEATURES = ("n_features_in_", "feature_names_in_")


class GivenRows(NamedTuple):
    """Rows as a user gives them."""

    X: Any
    y: Any = None
    sample_weight: Any = None
    offset: Any = None


def check_in_memory(estimator: Any, given: GivenRows) -> None:
    """Raise where X is in memory and another argument is a Dask collection.

    Raises
    ------
    TypeError
        Naming the parameter.
    """
    _, y, sample_weight, offset = given
    in_memory(type(estimator).__name__, given.X, y=y, sample_weight=sample_weight, offset=offset)


class Part(NamedTuple):
    """Which rows of all that are encoded a table has.

    number, n_before : number of the partition, and of the rows before it.
    whole : whether these are all rows of a fit; else a chunk of a stream, or a partition.
    remote : whether it is a partition of a Dask collection.
    """

    number: int = 0
    n_before: int = 0
    whole: bool = True
    remote: bool = False


#: All rows of a fit, a chunk of a stream, and a partition of a Dask collection, whose number is to be filled in.
WHOLE, CHUNK, PARTITION = Part(), Part(whole=False), Part(whole=False, remote=True)


@dataclass(frozen=True)
class Encoding(ABC):
    """What the rows of a fit, or the first ones of a stream, have fixed; a fit saves it as one object.

    Subclasses are frozen dataclasses. Their methods get the estimator for its parameters and for scikit-learn's
    validation of columns, whose names and number `read` sets where nothing is fixed yet; they write nothing else to it
    and read none of its private attributes, but those of its class.
    """

    #: Whether the bound of a fit is a sum over rows, which may then lie in partitions.
    sums_over_rows: ClassVar[bool] = True

    @staticmethod
    def given(*rows: Any) -> GivenRows:
        """Rows of a partition as a user gives them."""
        return GivenRows(*rows)

    @classmethod
    @abstractmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> Any:
        """Checked rows in the units of the user, a table with ``X``, ``y``, ``weight`` and ``offset``.

        Parameters
        ----------
        estimator : estimator
        given : GivenRows
        fixed : Encoding or None
            What earlier rows have fixed; None: these rows are the first, or among the first.
        part : Part

        Raises
        ------
        ValueError
            Naming the column or argument.
        """

    @classmethod
    @abstractmethod
    def summary(cls, estimator: Any, rows: Any, fixed: Self | None, part: Part) -> DataSummary:
        """What `fit` and `updated` have to know of the rows of a part; summaries of parts are merged."""

    @classmethod
    @abstractmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """The encoding that rows with this summary fix."""

    def updated(self, estimator: Any, summary: DataSummary, share: float) -> Self:
        """The encoding after more rows; `share`: what is left of what earlier rows said, 0 where a fit has them all."""
        return self

    def check_pass(self, estimator: Any, model: Any, state: Any) -> None:  # noqa: B027
        """Raise where a pass shows that passes would not end."""

    @staticmethod
    def as_given(rows: Any) -> Any:
        """Rows that `read` gave, with their targets in the user's words."""
        return rows

    @classmethod
    def by_moments(cls, estimator: Any, fixed: Self | None) -> bool:
        """Whether a fit needs no more of its targets than mean and variance."""
        return False

    @property
    def exposed(self) -> dict[str, Any]:
        """Public attributes of the estimator that the data fix, such as classes or levels, by name."""
        return {}

    def targets(self, estimator: Any, summary: DataSummary) -> Any:
        """The targets of partitioned rows in few rows, as encoded; None: there are none."""
        return None

    @abstractmethod
    def encode(self, estimator: Any, rows: Any, part: Part) -> Any:
        """The rows that `read` gave, in the coordinates of the fit."""

    def width(self, summary: DataSummary) -> int:
        """Number of columns of encoded rows."""
        return summary.n_columns

    # ---- first rows of a stream, which are stored and fitted together (`FirstRows`)
    def stored(self, data: Any) -> Table:
        """Encoded rows as a table that those of later chunks can be appended to."""
        table: Table = data
        return table

    def restored(self, estimator: Any, rows: Table) -> Any:
        """The data of a fit to stored rows."""
        return rows

    def by_stored(self, estimator: Any, rows: Table) -> Self:
        """The encoding that all stored rows fix, in the place of the first chunk alone."""
        return self


@dataclass(frozen=True)
class TypedTable(Table):
    """Rows that were checked, with the type of the numbers in which they were given."""

    dtype: Any = None


@dataclass(frozen=True)
class RowEncoding(Encoding):
    """Encoding of rows without a target, which are encoded once they are read."""

    @classmethod
    def summary(cls, estimator: Any, rows: Any, fixed: Self | None, part: Part) -> DataSummary:
        """Number, weight and columns of the rows, and what `own_summary` has of them."""
        counts = {part.number: (len(rows), rows.total_weight)}
        features = {name: getattr(estimator, name) for name in FEATURES if hasattr(estimator, name)}
        own, dtype = cls.own_summary(estimator, rows), rows.dtype if isinstance(rows, TypedTable) else None
        return DataSummary(counts, features, dtype, None, rows.X.shape[1], rows.bytes_per_row, False, own)

    @classmethod
    def own_summary(cls, estimator: Any, rows: Any) -> dict[str, Any]:
        """What else has to be known of the rows, by name; each has ``merged``."""
        return {}

    def encode(self, estimator: Any, rows: Any, part: Part) -> Any:
        """The rows themselves."""
        return rows


def check_variational(estimator: Any) -> None:
    """Raise where a sampler is to draw for every row of a Dask collection in turn.

    Raises
    ------
    ValueError
    """
    if estimator._algorithm().spec.sampler:
        raise ValueError(
            f"algorithm={estimator.algorithm!r} draws for every row in turn and needs all of them at hand, and X is a "
            "Dask collection: choose a variational algorithm, or give it X.compute()."
        )
