"""Ids of any hashable type, and tables of features indexed by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.estimators.checks import check_magnitudes
from sksvi.estimators.tables import framed, hashed
from sksvi.estimators.unseen import check_added_ids, check_table
from sksvi.estimators.validation import validate_data

Array = np.ndarray

#: Parameters with the features of each side.
FEATURES_OF = {"users": "user_features", "items": "item_features"}


def id_columns(estimator: Any, X: Any, reset: bool) -> tuple[Any, ...]:
    """The two columns of a table of pairs as pandas Series; a fit remembers the columns' names.

    Raises
    ------
    ValueError
        For another number of columns, or no rows.
    TypeError
        For a sparse matrix, or ids that are not hashable.
    """
    import pandas as pd
    from scipy.sparse import issparse

    name = type(estimator).__name__
    if X is None or isinstance(X, str | bytes):
        raise ValueError(f"X is {X!r}; {name} takes a table of pairs: user id and item id in each row.")
    if issparse(X):
        raise TypeError(f"X is a sparse matrix; {name} takes a table of pairs: user id and item id in each row.")
    X = framed(X)
    if not hasattr(X, "iloc"):
        # Through a table, so that ids of several types in a list stay what they are.
        try:
            table = pd.DataFrame(X if isinstance(X, np.ndarray) else list(X))
        except (TypeError, ValueError) as error:
            raise ValueError(f"X must be a table of pairs, user id and item id in each row: {error}.") from error
        if reset or isinstance(X, np.ndarray):  # a list of pairs is no table that has lost its names
            validate_data(estimator, np.empty((len(table), table.shape[1])), skip_check_array=True, reset=reset)
    else:
        table = X
        if table.ndim != 2:
            raise ValueError(f"X has {table.ndim} dimension(s); {name} takes two columns: user id and item id.")
        validate_data(estimator, X, skip_check_array=True, reset=reset)
    if table.shape[1] != 2:
        raise ValueError(f"X has {table.shape[1]} columns; {name} takes two: user id and item id.")
    if not len(table):
        raise ValueError(f"X has no rows (n_samples=0); {name} needs at least one pair.")
    columns = hashed(table.iloc[:, 0]), hashed(table.iloc[:, 1])
    # As in Python, True is 1; pandas finds neither among the other.
    columns = tuple(column.astype(np.int64) if column.dtype == bool else column for column in columns)
    for side, column in zip(("user", "item"), columns, strict=True):
        kinds = set(map(type, column)) if column.dtype == object else set()
        for kind in kinds:
            if kind.__hash__ is None:
                raise TypeError(f"the {side} ids of X contain a {kind.__name__}, which is not hashable: use a tuple.")
    return columns


def check_has_ids(columns: Any) -> None:
    """Raise an error where every id of the users, or of the items, is missing."""
    for side, column in zip(("user", "item"), columns, strict=True):
        if column.isna().all():
            raise ValueError(f"every {side} id of X is missing: nothing can be learned of {side}s.")


def plates_of(ids: Array, column: Any) -> Array:
    """The plate of each row of a fit: its id's, or after those of all ids one of its own where the id is missing."""
    where, missing = positions(ids, column), column.isna().to_numpy()
    where[missing] = len(ids) + np.arange(int(missing.sum()))
    return where


def unique_ids(column: Any, existing: Array | None = None) -> Array:
    """Unique ids of a column, sorted where they have an order, after `existing` ones; missing ids are left out."""
    import pandas as pd

    ids = pd.unique(column.dropna())
    ids = np.asarray(ids) if not isinstance(ids, np.ndarray) else ids
    try:
        ids = np.sort(ids)
    except TypeError:  # ids of several types have no order: they stay as they came
        pass
    if existing is None:
        return ids
    new = ids[positions(existing, ids) < 0]
    if not len(new):
        return existing
    both = np.concatenate([existing.astype(object), new.astype(object)])
    mixed = existing.dtype.kind == "O" or new.dtype.kind != existing.dtype.kind
    return both if mixed else np.concatenate([existing, new])


def grown_ids(policy: str, side: str, column: Any, existing: Array | None) -> Array:
    """Ids of one side: `existing` ones of a fit that goes on, then new ones, which `policy` may object to."""
    if existing is not None:
        what = f"{side} in column {column.name!r} of X"
        check_added_ids(policy, what, column, positions(existing, column) >= 0, existing)
    return unique_ids(column, existing)


def positions(ids: Array, column: Any) -> Array:
    """Where each id of a column is among `ids`; -1: unknown or missing."""
    import pandas as pd

    # Ids that are tuples stay ids: no levels are made of them.
    known_ids, requested = (pd.Index(values, tupleize_cols=False) for values in (ids, column))
    return known_ids.get_indexer(requested)


class Features:
    """A table of features by id, standardised over the ids of a fit.

    Parameters
    ----------
    ids : ndarray of shape (r,)
    values : ndarray of shape (r, p)
        Standardised; 0 (the mean) where one is missing.
    columns, mean, scale : ndarray of shape (p,)
        Names, and what was taken off and divided by.
    """

    LAYOUT = "values (n,p) f; scale (p) f >0; mean (p) f; ids labels n; columns (p)"

    def __init__(self, ids: Array, values: Array, columns: Array, mean: Array, scale: Array) -> None:
        self.ids, self.values, self.columns, self.mean, self.scale = ids, values, columns, mean, scale

    @classmethod
    def read(cls, table: Any, name: str, fitted: Array, like: Features | None = None) -> Features:
        """From the user's DataFrame, its index the ids; standardised over those fitted, or as `like` was.

        Raises
        ------
        TypeError, ValueError
            Naming the parameter and the column: no DataFrame, ids twice, or values that are no finite numbers.
        """
        import pandas as pd

        if not isinstance(table, pd.DataFrame):
            kind = f"{type(table).__module__.partition('.')[0]}.{type(table).__name__}"
            raise TypeError(f"{name} must be a DataFrame indexed by id, of pandas; found {kind}.")
        if not len(table):
            raise ValueError(f"{name} has no rows: give every id its features, or leave {name} out.")
        if not table.index.is_unique:
            twice = table.index[table.index.duplicated()][0]
            raise ValueError(f"{name} has id {twice!r} in more than one row of its index: keep one.")
        for column in table.columns:
            if getattr(table[column].dtype, "kind", "O") not in "biuf":
                raise ValueError(
                    f"{name} has column {column!r} of type {table[column].dtype}: encode it as numbers, for example "
                    "with pandas.get_dummies."
                )
        values = table.to_numpy(dtype=float)
        if np.any(np.isinf(values)):
            column = table.columns[int(np.argmax(np.isinf(values).any(axis=0)))]
            raise ValueError(f"{name} has an infinite value in column {column!r}.")
        check_magnitudes(values, name, table.columns)
        columns = np.asarray(table.columns)
        if like is not None and list(columns) != list(like.columns):
            raise ValueError(f"{name} has columns {list(columns)}; the fit had {list(like.columns)}.")
        rows = positions(np.asarray(table.index), fitted)
        used = values[rows[rows >= 0]] if np.any(rows >= 0) else values
        mean, scale = (like.mean, like.scale) if like is not None else _moments(used)
        standard = (values - mean) / scale
        return cls(np.asarray(table.index), np.where(np.isnan(standard), 0.0, standard), columns, mean, scale)

    def of(self, column: Any) -> Array:
        """Features of some ids, (n, p): the mean, 0, where an id has no row."""
        rows = positions(self.ids, column)
        return np.where((rows >= 0)[:, None], self.values[rows], 0.0)


def features_by_side(
    estimator: Any, ids: dict[str, Array], old: dict[str, Features | None] | None
) -> dict[str, Features | None]:
    """Tables of features of both sides, standardised by the ids of the first fit; None where there is none."""
    found: dict[str, Features | None] = {}
    for side, name in FEATURES_OF.items():
        table, like = getattr(estimator, name), None if old is None else old[side]
        found[side] = read = None if table is None else Features.read(table, name, ids[side], like)
        if read is not None:
            check_table(estimator.on_unseen, name, side, read.ids, ids[side], positions(read.ids, ids[side]) >= 0)
    return found


def _moments(values: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of each column, missing values left out; a constant column has deviation 1."""
    there = ~np.isnan(values)
    count = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, values, 0.0).sum(axis=0) / count
    spread = np.sqrt(np.where(there, np.square(values - mean), 0.0).sum(axis=0) / count)
    return mean, np.where(spread > 0, spread, 1.0)


def design_of(features: Features | None, ids: Any, constant: bool) -> Array | None:
    """A column of ones and the features of each id; None where there is neither."""
    parts = [np.ones((len(ids), 1))] if constant or features is not None else []
    parts += [features.of(ids)] if features is not None else []
    return np.concatenate(parts, axis=1) if parts else None
