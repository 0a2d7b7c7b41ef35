"""scikit-learn's validation in users' words: columns named, options in one order, the class that was called, sparse
matrices checked once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CellType, FunctionType
from typing import Any

import numpy as np
from sklearn.utils import _param_validation, validation
from sklearn.utils.metaestimators import available_if

from sksvi._typing.arrays import is_compressed, is_sparse
from sksvi.estimators.checks import LARGEST_UNIT, check_magnitudes, check_numeric_target, is_na, is_word
from sksvi.estimators.published import one_fit
from sksvi.likelihoods.traits import LARGEST
from sksvi.partitions.lazy import BY_ROW, at_hand, over_partitions

ENCODE = "encode it as numbers, for example with sklearn.preprocessing.OneHotEncoder"
FILL = (
    "Leave out the column, or the rows that lack it (X.dropna()), or fill it in by sklearn.impute.SimpleImputer in a "
    "Pipeline."
)


class StrOptions(_param_validation.StrOptions):
    """Strings that a parameter may be; an error lists them in alphabetical order, whatever their hashes are."""

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, sorted(self.options)))}}}"


# ---- columns
def validate_data(estimator: Any, X: Any, *args: Any, any_unit: bool = False, **options: Any) -> Any:
    """scikit-learn's `validate_data`, whose errors name a column that holds no numbers and what to do about it.

    `any_unit`: the estimator has a unit of its own, in which it checks magnitudes.

    Raises
    ------
    ValueError
        As scikit-learn's, and for a column of text or dates.
    """
    if options.get("skip_check_array"):  # ids and levels may be anything
        return validation.validate_data(estimator, X, *args, **options)
    with columns_named(X, getattr(estimator, "_for_text", ENCODE)):
        if options.get("y_numeric"):
            check_numeric_target(*args)
        X = checked_sparse(X)
        found = validation.validate_data(estimator, X, *args, **options)
    if isinstance(found, tuple):
        return _admitted(found[0], X, any_unit=any_unit), *found[1:]
    return _admitted(found, X, any_unit=any_unit)


def check_table(X: Any, remedy: str = ENCODE, name: str = "X", any_unit: bool = False, **options: Any) -> Any:
    """`validate_data` of a table that stands for itself: nothing is asked of or kept on an estimator.

    Raises
    ------
    ValueError
        As `validate_data`.
    """
    with columns_named(X, remedy, name):
        X = checked_sparse(X, name)
        found = validation.check_array(X, input_name=name, **options)
    return _admitted(found, X, name, any_unit)


def _admitted(X: Any, given: Any, name: str = "X", any_unit: bool = False) -> Any:
    """A validated table: entries of a sparse one stand once, and numbers are such that their squares are numbers."""
    X = merged(X)
    check_magnitudes(X, name, getattr(given, "columns", None), largest=LARGEST_UNIT if any_unit else LARGEST)
    return X


@contextmanager
def columns_named(X: Any, remedy: str = ENCODE, name: str = "X") -> Iterator[None]:
    """An error about a value of X that is no number says in which column it stands, and what helps; any other names X.

    Raises
    ------
    ValueError
        Besides those of the block: X is no table, or a column of it holds dates, whose nanoseconds NumPy would take.
    """
    if X is None or isinstance(X, str | bytes):
        first = "" if X is None else ": read the file first"
        raise ValueError(f"{name} is {X!r} and must be a table of numbers, one row per sample{first}.")
    if hasattr(X, "columns") and hasattr(X, "shape") and X.shape[1] == 0:
        shape = f"(shape={X.shape})"
        raise ValueError(f"{name} has 0 feature(s) {shape} while a minimum of 1 is required: it has no columns.")
    found = _no_number(X, remedy, name) if _has_dates(X) else None
    if found is not None:
        raise ValueError(found)
    try:
        yield
    except (TypeError, ValueError) as error:
        found = _no_number(X, remedy, name) or _in_words(X, str(error), name)
        if found is None:
            raise
        raise ValueError(found) from error


def _in_words(X: Any, text: str, name: str) -> str | None:
    """scikit-learn's text with what it is about, where it does not say so."""
    if "inconsistent numbers of samples" in text:
        return f"{name} and y differ in length. {text}"
    if f"{name} contains NaN" in text:  # the rest of what scikit-learn says is about its own estimators
        return f"{_not_finite(X, False, name)}{text.partition(chr(10))[0]} {FILL}"
    if f"{name} contains" in text:
        return f"{_not_finite(X, True, name)}{text}"
    about_x = not _is_table(X) or text.startswith("Found array with")
    return f"{name}: {text}" if about_x and name not in text else None


def _not_finite(X: Any, infinite: bool, name: str) -> str:
    """Column and row of the first number of a dense table that is infinite, or not finite."""
    if hasattr(X, "tocsr"):
        return ""
    values = validation.check_array(X, dtype=np.float64, ensure_all_finite=False)
    missing = np.isinf(values) if infinite else np.isnan(values)
    for row, column in np.argwhere(missing):
        label = X.columns[column] if hasattr(X, "columns") else int(column)
        where = "every row" if len(X) > 1 and missing[:, column].all() else f"row {row}"
        return f"column {label!r} of {name}, {where}: "
    return ""  # too large for single precision


def _is_table(X: Any) -> bool:
    """Whether X has rows and columns, whatever they hold."""
    try:
        validation.check_array(
            X, accept_sparse=True, dtype=None, ensure_all_finite=False, ensure_min_samples=0, ensure_min_features=0
        )
    except (TypeError, ValueError):
        return False
    return True


def _has_dates(X: Any) -> bool:
    """Whether X, or a column of it, has a type of dates."""
    dtypes = X.dtypes if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2 else [getattr(X, "dtype", None)]
    return any(getattr(dtype, "kind", "") == "M" for dtype in dtypes)


def _no_number(X: Any, remedy: str, table: str) -> str | None:
    """Error message about the first value of X that is no number, or None where all are numbers."""
    found = _first_text(X)
    if found is None:
        return None
    name, row, value = found
    if is_na(value):
        return f"column {name!r} of {table}, row {row}: {table} contains NaN ({value!r}); numpy.nan is its number."
    what = repr(value) if isinstance(value, str | bytes) else f"the date {value}"
    remedy = remedy if isinstance(value, str | bytes) else "take the numbers that matter from it, such as days or hours"
    return f"column {name!r} of {table} has {what} in row {row}, which is no number: {remedy}."


def _first_text(X: Any) -> tuple[Any, int, Any] | None:
    """Column, row and value of the first string or date of a table, or None."""
    if getattr(getattr(X, "dtype", None), "kind", "O") in "biufc":
        return None
    if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:
        numeric = [getattr(dtype, "kind", "O") in "biufc" for dtype in X.dtypes]
        columns = [(X.columns[j], np.asarray(X.iloc[:, j], dtype=object)) for j in np.flatnonzero(np.invert(numeric))]
    else:
        try:
            table = np.asarray(X, dtype=object)
        except ValueError:  # rows of several lengths
            return None
        columns = list(zip(getattr(X, "columns", range(table.shape[-1])), table.T)) if table.ndim == 2 else []
    for name, column in columns:
        for row, value in enumerate(column):
            if is_word(value) or is_na(value):
                return name, row, value.item() if isinstance(value, np.generic) else value
    return None


# ---- names in TypeErrors
def with_own_methods(cls: Any) -> Any:
    """Class decorator: inherited public methods become the class's own, by name; those of rows answer collections.

    Methods that ``_at_hand`` names take no Dask collection; ("*",) names all of them. A fit is published whole, and
    each answer is of one fit (`sksvi.estimators.published`).

    Python's TypeErrors name the class that wrote a method; users know the one that they called.
    """
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), cls)
        public = not name.startswith("_") or name == "__init__"
        if not public or not owner.__module__.startswith(__package__.partition(".")[0]):
            continue
        method = vars(owner)[name]
        if owner is cls and getattr(method, "__qualname__", f"{cls.__qualname__}.").startswith(f"{cls.__qualname__}."):
            continue  # what it makes of an inherited one still has the other's name
        if isinstance(method, FunctionType):
            setattr(cls, name, _renamed(method, f"{cls.__qualname__}.{name}"))
        elif hasattr(method, "fn") and hasattr(method, "check"):  # of available_if
            setattr(cls, name, available_if(method.check)(_renamed(method.fn, f"{cls.__qualname__}.{name}")))
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType):
            setattr(cls, name, _of_one_fit(cls, name, method))
        elif hasattr(method, "fn") and hasattr(method, "check"):
            setattr(cls, name, available_if(method.check)(_of_one_fit(cls, name, method.fn)))
    return cls


def _of_one_fit(cls: Any, name: str, method: Any) -> Any:
    if not name.startswith("_") and {name, "*"} & set(getattr(cls, "_at_hand", ())):
        return one_fit(name, at_hand(method))
    return one_fit(name, over_partitions(method) if name in BY_ROW else method)


def _renamed(function: FunctionType, qualname: str) -> Callable[..., Any]:
    """A copy of a function under another qualified name, down to the function that a decorator wraps."""
    inner, closure = vars(function).get("__wrapped__"), function.__closure__
    if inner is not None:
        cells = closure or ()
        wrapped = _renamed(inner, qualname)
        closure = tuple(CellType(wrapped) if cell.cell_contents is inner else cell for cell in cells)
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__, copy.__doc__, copy.__module__ = function.__kwdefaults__, function.__doc__, function.__module__
    copy.__annotations__, copy.__qualname__ = function.__annotations__, qualname
    vars(copy).update(vars(function))
    if inner is not None:
        vars(copy)["__wrapped__"] = wrapped
    return copy


# ---- sparse matrices: what compiled loops read from them is checked once, and entries stand once
COMPRESSED = ("csr", "csc", "bsr")


def checked_sparse(X: Any, name: str = "X") -> Any:
    """X without spare room in its buffers, each entry stored once in the order of its columns.

    Every estimator's sparse input comes through here. What is no sparse matrix, and what is in order, is returned as it
    is; nothing of the user's is changed.

    Raises
    ------
    ValueError
        Naming the matrix and what is wrong with it, where its arrays contradict each other: conversions and loops would
        read past them.
    """
    if not is_sparse(X):
        return X
    try:
        canonical = _canonical(X)
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is a sparse matrix whose arrays contradict each other: {error}.") from error
    return X if X.format not in COMPRESSED else _in_order(X, canonical)


def _canonical(X: Any) -> bool:
    """Whether a compressed matrix has each entry once, in order; made anew, it raises where its arrays disagree."""
    if X.format in COMPRESSED:
        # Views of a new matrix: neither flags that a user set nor arrays that the check may cut are the user's.
        arrays = tuple(np.asarray(part)[:] for part in (X.data, X.indices, X.indptr))
        plain = type(X)(arrays, shape=X.shape)
        plain.check_format(full_check=True)
        return bool(X.format == "bsr" or plain.has_canonical_format)
    if X.format == "coo":
        type(X)((X.data, X.coords if hasattr(X, "coords") else (X.row, X.col)), shape=X.shape)
    return False


def _in_order(X: Any, canonical: bool) -> Any:
    """A compressed matrix with buffers as long as it has entries, and none twice."""
    n = int(X.indptr[-1])
    if canonical and len(X.data) == len(X.indices) == n:
        return X
    X = copy.copy(X)  # of the same class, with the words that it may have for its columns
    X.data, X.indices = X.data[:n], X.indices[:n]
    return X if canonical else merged(X, trusted=False)


def merged(X: Any, trusted: bool = True) -> Any:
    """X with each of its entries stored once, in the order of its columns; a copy where that changes anything.

    `trusted`: whether its own flag says so; a user may have set that.
    """
    if not is_compressed(X) or (trusted and X.has_canonical_format):
        return X
    X = X.copy()
    X.has_sorted_indices = X.has_canonical_format = False
    X.sum_duplicates()
    return X
