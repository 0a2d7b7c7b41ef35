"""Checks of numbers that users give, and limits on their magnitudes; tables of intervals.

Beyond the limits squares and their sums are no numbers, and a fit would be lost.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length

from sksvi._runtime import memory
from sksvi._runtime.user import check_seed as check_seed
from sksvi._typing.arrays import is_compressed
from sksvi.likelihoods.traits import LARGEST, LARGEST_COUNT, SMALLEST_COUNT
from sksvi.predictive.plain import tail_of

Array = np.ndarray


def check_numbers(values: Any, name: str) -> Array:
    """An array of finite numbers, of any shape.

    Raises
    ------
    ValueError
        Naming the parameter and what was found.
    """
    if values is None:
        raise ValueError(f"{name} is None and must be numbers.")
    check_numeric_target(values, name)
    try:
        values = values if hasattr(values, "tocsr") else np.asarray(values)
        return np.asarray(
            check_array(values, ensure_2d=False, allow_nd=True, ensure_min_samples=0, dtype=np.float64, input_name=name)
        )
    except (TypeError, ValueError) as error:
        if name in str(error):
            raise
        raise ValueError(f"{name} must be numbers: {error}") from error


def check_count(value: Any, name: str, least: int = 1, bytes_each: float = 0.0) -> int:
    """A whole number of draws, words and the like; `bytes_each`: what one of them takes.

    Raises
    ------
    ValueError
        Naming the parameter: no whole number, one below `least`, or so many that memory does not hold them.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}; found {value!r}.")
    memory.need(float(value) * bytes_each, f"{name}={value}", f"lower {name}")
    return int(value)


def check_levels(q: Any) -> Array:
    """Probabilities of quantiles, (m,).

    Raises
    ------
    ValueError
        None at all, or one outside (0, 1).
    """
    given, q = q, np.atleast_1d(check_numbers(q, "q"))
    if q.ndim > 1 or not len(q) or not np.all((q > 0) & (q < 1)):
        raise ValueError(f"q must hold numbers in (0, 1), at least one; found {given!r}.")
    return np.asarray(q)


def n_rows(X: Any) -> int:
    """Rows of what may be a table."""
    try:
        return int(X.shape[0]) if hasattr(X, "shape") else len(X)
    except (IndexError, TypeError):
        return 1


def check_flag(value: Any, name: str) -> bool:
    """A yes or no.

    Raises
    ------
    TypeError
        Naming the parameter.
    """
    if not isinstance(value, bool | np.bool_ | Integral):
        raise TypeError(f"{name} must be True or False; found {value!r}.")
    return bool(value)


def check_same_rows(X: Any, y: Any) -> None:
    """An error where X and y differ in their number of rows."""
    try:
        check_consistent_length(X, y)
    except (TypeError, ValueError) as error:
        differ = "X and y differ in length." if isinstance(error, ValueError) else "X and y must be tables."
        raise ValueError(f"{differ} {error}") from error


def check_row_values(values: Any, n: int, name: str, weights: bool = False, each: str = "row") -> Array | None:
    """A vector with one finite number per row or column (weights: none negative, not all zero), or None.

    Raises
    ------
    ValueError
        Naming the parameter and what was found.
    """
    if values is None:
        return None
    values = np.full(n, values) if isinstance(values, Real) else values
    values = check_numbers(values, name)
    if values.shape != (n,):
        raise ValueError(f"{name}.shape == {values.shape}, expected {(n,)}: one number per {each} of X.")
    if weights and np.any(values < 0):
        row = int(np.argmin(values))
        raise ValueError(f"Negative values in data passed to `{name}`: found {values[row]:g} in row {row}.")
    if weights and not np.any(values > 0):
        raise ValueError(f"{name} is zero in every row: at least one row needs a positive weight.")
    check_magnitudes(values, name)
    if weights:
        check_weights(values, name)
    return values


def interval_table(mean: Array, std: Array, coverage: float, index: Any) -> Any:
    """DataFrame of mean, std and the equal-tailed interval (lower, upper) of Gaussian marginals.

    Raises
    ------
    ValueError
        If coverage is not strictly between 0 and 1.
    """
    import pandas as pd
    from scipy.special import ndtri

    half = ndtri(1.0 - tail_of(coverage)) * std
    columns = {"mean": mean, "std": std, "lower": mean - half, "upper": mean + half}
    return pd.DataFrame({name: np.ravel(values) for name, values in columns.items()}, index=index)


def check_choice(value: Any, name: str, choices: tuple[Any, ...]) -> Any:
    """The value, where it is one of the choices.

    Raises
    ------
    ValueError
        Naming them.
    """
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; found {value!r}.")
    return value


def check_counts(X: Any, name: str, estimator: str, columns: Any = None) -> None:
    """An error that names the column and row of the first negative number, or of NaN in a sparse matrix.

    Raises
    ------
    ValueError
    """
    numbers = X.data if is_compressed(X) else X
    wrong = numbers < 0
    if is_compressed(X):
        wrong = wrong | np.isnan(numbers)
    if not np.any(wrong):
        return
    if is_compressed(X):
        entries = X.tocoo()
        at = int(np.argmax(wrong))
        row, column, value = int(entries.row[at]), int(entries.col[at]), entries.data[at]
    else:
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        value = X[row, column]
    label = column if columns is None else columns[column]
    if np.isnan(value):
        raise ValueError(
            f"column {label!r} of {name}, row {row}: {name} contains NaN, and a sparse matrix has no missing cells: "
            "give a dense one."
        )
    raise ValueError(
        f"Negative values in data passed to {estimator}: column {label!r} of {name} has {value:g} in row {row}, "
        "and counts are 0 or more."
    )


# ---- magnitudes
#: Of what is divided by its own unit first, whose square is shown.
LARGEST_UNIT = 1e150
#: A column that spreads over less is taken as constant: variances of its coefficient would be no numbers.
LEAST_SPREAD = 1e-152
#: Of single precision.
LARGEST_SINGLE = 1e18
#: Latents behind a link, whose ends are long reached there.
LARGEST_LATENT = 1e6


def check_magnitudes(values: Any, name: str, columns: Any = None, unit: str = "", largest: float = LARGEST) -> None:
    """An error that names the column and row of the first number beyond `largest`; NaN passes.

    Parameters
    ----------
    values : ndarray or CSR matrix, one or two dimensions
    name : str
        What users call it.
    columns : sequence, optional
        Names of the columns.
    unit : str, optional
        What the numbers are in.
    largest : float, optional
        Of double precision.

    Raises
    ------
    ValueError
    """
    numbers = values.data if hasattr(values, "tocsr") else values
    if numbers.dtype.kind != "f" or numbers.dtype.itemsize < 4 or not np.size(numbers):  # others are all within
        return
    if numbers.dtype.itemsize == 4:
        largest = min(largest, LARGEST_SINGLE)
    if not max(np.fmax.reduce(numbers, axis=None), -np.fmin.reduce(numbers, axis=None)) > largest:
        return
    if hasattr(values, "tocsr"):
        values = values.tocoo()
        at = int(np.argmax(np.abs(values.data) > largest))
        place: tuple[Any, ...] = (values.row[at], values.col[at])
        value = values.data[at]
    else:
        place = np.unravel_index(int(np.argmax(np.abs(values) > largest)), values.shape)
        value = values[place]
    where = name
    if len(place) == 2:
        where = f"column {int(place[1]) if columns is None else columns[place[1]]!r} of {name}"
    raise ValueError(
        f"{where}, row {place[0]}: {value:g}{unit} is beyond ±{largest:g}, where squares are hardly numbers: give "
        f"{name} in another unit, or leave the row out."
    )


def check_weights(weights: Array, name: str) -> None:
    """An error for positive weights of which a sum has no digits left of the others.

    Raises
    ------
    ValueError
    """
    beyond = (weights > LARGEST_COUNT) | ((weights > 0) & (weights < SMALLEST_COUNT))
    if np.any(beyond):
        row = int(np.argmax(beyond))
        raise ValueError(
            f"{name} must be 0 or lie between {SMALLEST_COUNT:g} and {LARGEST_COUNT:g}; found {weights[row]:g} in row "
            f"{row}: divide {name} by its mean."
        )


# ---- words in the place of numbers
def check_numeric_target(y: Any, name: str = "y") -> None:
    """An error about a target that is text, a date or no column says where it stands."""
    try:
        values = np.atleast_1d(np.asarray(y))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error
    if values.dtype.kind not in "OUSMV":
        return
    if values.dtype.kind == "V":
        raise ValueError(f"{name} has records of type {values.dtype}: give one of its columns.")
    width = max(1, values.size // max(1, len(values)))
    for k, value in enumerate(values.ravel()):
        if is_word(value):
            where = f"{str(value)!r} in row {k // width}"
            if name == "y":
                raise ValueError(f"y has {where}, which is no number: labels are for classifiers.")
            raise ValueError(f"{name} must be numbers; found {where}.")
        if is_na(value):
            raise ValueError(f"{name} contains NaN: {value!r} in row {k // width}.")


def is_na(value: Any) -> bool:
    """pandas' own sign of a missing value, which is not equal to anything, or unequal."""
    return type(value).__name__ == "NAType"


def is_word(value: Any) -> bool:
    """A string that is no number, or a point in time."""
    if hasattr(value, "isoformat") or isinstance(value, np.datetime64):
        return bool(value == value)  # a missing date is a missing number
    if not isinstance(value, str | bytes):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False
