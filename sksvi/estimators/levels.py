"""Ordered levels, numbers in their own order or names in the order that their type gives; and labels of classes."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import NUMBERS
from sksvi.estimators.checks import check_magnitudes

Array = np.ndarray

#: Distinct values up to which numbers that are no integers are taken for levels.
MOST_LEVELS = 50
#: How levels that the first rows lack are made known.
FIRST_ROWS = (
    " The first rows fitted, of a stream its first chunk, fix the levels: begin with rows of every one, or declare "
    "them up front by an ordered pandas.Categorical and likelihood=Ordinal(cut_points=[...]), with numbers."
)


def given_order(y: Any) -> Array | None:
    """Every level that the type of y declares, lowest first: an ordered Categorical or a polars Enum; else None."""
    dtype: Any = getattr(y, "dtype", None)
    ordered = getattr(dtype, "ordered", type(dtype).__name__ == "Enum")
    return np.asarray(dtype.categories) if ordered else None


def are_numbers(levels: Array) -> bool:
    """Whether levels are increasing numbers, so that a mean of them means something."""
    return levels.dtype.kind in NUMBERS and bool(np.all(levels[:-1] < levels[1:]))


def first_levels(y: Any, likelihood: Any) -> tuple[Array, Array]:
    """Levels that y may have, in order, and the position of each of its values among them.

    Raises
    ------
    ValueError
        Values without an order, too many of them, or a missing one.
    """
    y = _column(y)
    order = given_order(y)
    if order is not None:
        return order, positions(order, y, "its own type")
    values = np.asarray(y)
    _check_order(values, likelihood)
    dtype = np.float64 if values.dtype.kind == "O" else None
    values = column_or_1d(check_array(y, ensure_2d=False, dtype=dtype, input_name="y"), warn=True)
    check_magnitudes(values, "y")
    levels, codes = np.unique(values, return_inverse=True)
    if len(levels) > MOST_LEVELS and np.any(levels % 1):
        raise ValueError(
            f"likelihood={likelihood!r} takes every distinct value of y for a level; y has {len(levels)} of them that "
            "are no integers: for a measured y choose 'gaussian' or 'student-t'. If they are levels, give y as an "
            "ordered pandas.Categorical."
        )
    return levels, codes


def positions(levels: Array, y: Any, where: str = "levels_") -> Array:
    """Position of each value of y among known levels, whatever its type.

    Raises
    ------
    ValueError
        Naming the row: a missing value, or one that is no level; or levels in another order than the known ones.
    """
    y = _column(y)
    if y is None or not np.asarray(y).ndim:
        raise ValueError(f"y must be a column of levels; found {y!r}.")
    at = {level: k for k, level in enumerate(levels.tolist())}
    order = given_order(y)
    common = [at[level] for level in ([] if order is None else order.tolist()) if level in at]
    if common != sorted(common):
        raise ValueError(f"y orders its levels {order.tolist()}; the fit had {levels.tolist()}.")  # type: ignore[union-attr]
    values = np.asarray(y, dtype=object if order is not None else None)
    if values.dtype.kind in NUMBERS:
        values = check_array(values, ensure_2d=False, dtype=None, input_name="y")
    values = column_or_1d(values)
    codes = np.array([at.get(value, -1) for value in values.tolist()], dtype=np.intp)
    if np.any(codes < 0):
        row = int(np.argmax(codes < 0))
        value = values[row : row + 1].tolist()[0]
        if _is_missing(value):
            raise ValueError(f"y contains NaN: row {row} has no level.")
        raise ValueError(
            f"y has a level that is not in {where}: {value!r} in row {row}; known: {levels.tolist()}."
            + (FIRST_ROWS if where == "levels_" else "")
        )
    return codes


def levels_in_use(levels: Array, codes: Array, base: Any, declared: bool, keep: bool = False) -> tuple[Array, Array]:
    """The levels of a fit, and the codes among them: those of some row, or all `declared` ones that have cut points.

    `keep`: cut points of levels that no row has can be learned too.

    Raises
    ------
    ValueError
        Fewer than two, or another number than a likelihood whose levels are known has.
    """
    used = np.unique(codes)
    if declared and base.levels is not None and len(base.levels) == len(levels):
        return levels, codes
    if len(used) < 2:
        raise ValueError(
            f"an ordinal y needs at least two levels; it contains only {levels[used].tolist()[0]!r} "
            f"(n_samples={len(codes)})." + FIRST_ROWS
        )
    if keep and base.levels is None:
        return levels, codes
    if base.levels is not None and len(base.levels) != len(used):
        raise ValueError(
            f"likelihood={base!r} has {len(base.levels)} levels; y has {len(used)}: {levels[used].tolist()}."
        )
    if declared and len(used) < len(levels):
        unused = np.delete(levels, used).tolist()
        warn_user(
            f"y declares the levels {unused}, which no row has: no cut point can be learned for them and levels_ "
            "leaves them out. Cut points given as numbers keep them."
        )
    return levels[used], np.searchsorted(used, codes)


def _column(y: Any) -> Any:
    """A table of one column as that column, whose type says the order."""
    return y.iloc[:, 0] if getattr(y, "ndim", 1) == 2 and hasattr(y, "iloc") and y.shape[1] == 1 else y


def _check_order(values: Array, likelihood: Any) -> None:
    """An error for values that are no numbers: strings have an alphabet, which is no order of levels."""
    if values.dtype.kind in NUMBERS:
        return
    odd = [
        value
        for value in values.ravel()
        if isinstance(value, np.timedelta64) or not (isinstance(value, Number | np.bool_) or _is_missing(value))
    ]
    if odd:
        raise ValueError(
            f"likelihood={likelihood!r} needs levels in their order; y has values such as {str(odd[0])!r}, "
            "which say none: give pandas.Categorical(y, categories=[lowest, ..., highest], ordered=True), "
            "a polars Enum, or numbers."
        )


def _is_missing(value: Any) -> bool:
    """Whether a value stands for none, by pandas' rules."""
    import pandas as pd

    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


# ---- labels of classes
def check_labels(y: Any, name: str = "y") -> Array:
    """A column of labels in a type of which each has its place.

    Raises
    ------
    ValueError
        Naming the parameter: no column, a missing label, words among numbers, measurements.
    """
    if y is None:
        raise ValueError(f"{name} is None and must be labels.")
    try:
        labels = column_or_1d(y, warn=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} should be a 1d array of labels: {error}") from error
    if not len(labels) and name != "y":  # rows are counted with those of X
        raise ValueError(f"{name} is empty (0 sample(s)): it must hold labels.")
    if labels.dtype.kind in "cmMV":
        raise ValueError(f"{name} has type {labels.dtype}: labels are words or whole numbers.")
    labels = _plain(labels, name) if labels.dtype.kind == "O" else labels
    if labels.dtype.kind == "f":
        finite = np.isfinite(labels)
        if not np.all(finite):
            raise ValueError(f"{name} contains NaN or infinity: row {int(np.argmin(finite))} has no label.")
        check_magnitudes(labels, name, largest=2.0**53)
    try:
        check_classification_targets(labels)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be labels: {error}") from error
    return labels


def is_text(labels: Array) -> bool:
    """Whether labels are words."""
    return labels.dtype.kind in "OUS"


def _plain(labels: Array, name: str) -> Array:
    """Objects that are all numbers as numbers; words stay."""
    import pandas as pd

    missing = pd.isna(labels)
    if np.any(missing):
        raise ValueError(f"{name} contains NaN: row {int(np.argmax(missing))} has no label.")
    kinds = sorted({"a word" if isinstance(value, str | bytes) else "a number" for value in labels})
    if len(kinds) > 1:
        raise ValueError(f"{name} mixes words and numbers: make its labels all of one kind.")
    if kinds == ["a number"]:
        try:
            return np.array(labels.tolist())
        except ValueError as error:
            raise ValueError(f"{name} must be labels: {error}") from error
    return labels
