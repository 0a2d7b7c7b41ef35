"""Values that may stand in the place of a valid argument, by name: functions of the valid one and of a generator.

`TABLES` are for X, `ROW_VALUES` for y, weights and offsets, `SCALARS` for parameters. Names and their order decide what
`support.random_calls` draws.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

Array = np.ndarray
Make = Callable[[Any, np.random.Generator], Any]

#: Numbers that a cell may have.
NUMBERS = [np.nan, np.inf, -np.inf, 1e-310, 1e-150, 1e38, 1e60, 1e120, 1e154, 1e200, 1e300, -1e300, 2.0**53, 2.0**64]
#: Powers of ten that columns are multiplied by.
EXPONENTS = [-310, -160, -150, -20, -5, 5, 10, 20, 37, 50, 99, 101, 150, 200, 300]
#: Values of a parameter that is one number or one word.
SCALARS = [
    None,
    "x",
    "",
    b"x",
    np.nan,
    np.inf,
    -np.inf,
    -1,
    0,
    1,
    2,
    0.5,
    1e-300,
    1 - 1e-16,
    1e300,
    True,
    3j,
    [],
    [0.5],
]
SCALARS += [
    (1, 2),
    {},
    {"a": 1},
    object,
    np.array(0.5),
    np.array([0.5, 0.6]),
    np.float16(0.5),
    np.int8(3),
    "auto",
    "warn",
]
SCALARS += [10**30, -(10**30), np.datetime64("2020-01-01"), pd.NA, lambda: 1]


def table_of(X: Any) -> Array:
    """Values of a table of any kind, as an array."""
    return np.asarray(X.toarray() if sp.issparse(X) else X)


def numbers_of(X: Any) -> Array:
    """Values of a table as floating-point numbers."""
    return table_of(X).astype(float)


def with_cell(X: Any, rng: np.random.Generator, value: Any) -> Array:
    """Copy of a table in which one cell has another value."""
    X = np.array(table_of(X), dtype=object if isinstance(value, str | bytes) else float)
    X[tuple(rng.integers(0, n) for n in X.shape)] = value
    return X


def contradictory_csr(X: Any, rng: np.random.Generator, what: str) -> Any:
    """CSR matrix whose arrays contradict each other, in one of four ways."""
    X = sp.csr_matrix(numbers_of(X))
    at = int(rng.integers(0, max(len(X.indices), 1)))
    if what == "beyond":
        X.indices[at] = 10**6
    elif what == "negative":
        X.indices[at] = -5
    elif what == "rows back":
        X.indptr[1:-1] = X.indptr[1:-1][::-1].copy()
    else:
        X.indptr[-1] += 100
    return X


def csr_with_duplicates(X: Any) -> Any:
    """CSR matrix that stores each entry twice, by halves."""
    X = sp.csr_matrix(numbers_of(X))
    parts = np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr
    return sp.csr_matrix(parts, shape=X.shape)


def csr_with_spare_capacity(X: Any, index: int = 10**6) -> Any:
    """Make a CSR array whose buffers have room for seven further entries.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix
        Table of numbers.
    index : int, default=10**6
        Column index that the unused part of the buffer has.

    Returns
    -------
    X : csr_array
        The same table.
    """
    X = sp.csr_array(numbers_of(X))
    X.data, X.indices = (
        np.r_[part, np.full(7, value, part.dtype)] for part, value in ((X.data, 3.0), (X.indices, index))
    )
    X.check_format(full_check=True)
    return X


def _first_times(X: Any, factor: float) -> Array:
    """Table whose first column is multiplied by a factor."""
    X = numbers_of(X).copy()
    X[:, 0] *= factor
    return X


def _frame(X: Any) -> pd.DataFrame:
    """Table as a frame."""
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(numbers_of(X))


def _with_na(X: Any, rng: np.random.Generator) -> pd.DataFrame:
    """Frame of objects in which a tenth of the cells are missing."""
    frame = pd.DataFrame(table_of(X)).astype(object)
    return frame.mask(rng.random(frame.shape) < 0.1, pd.NA)


def _masked(X: Any) -> Any:
    """Masked array whose fill value exists already: NumPy would add, and pickle, it on first use."""
    masked = np.ma.masked_array(numbers_of(X), numbers_of(X) > 0.5)
    masked.fill_value = 0.0
    repr(masked)
    return masked


def _read_only(X: Any) -> Array:
    """Array that cannot be written to."""
    X = numbers_of(X).copy()
    X.flags.writeable = False
    return X


def in_chunks(X: Any) -> Any:
    """Dask array of three chunks, one of them without rows."""
    import dask.array as da

    values, chunks = numbers_of(X), (0, 10, max(len(table_of(X)) - 10, 0))
    chunks = chunks if sum(chunks) == len(values) else (len(values),)
    return da.from_array(values, chunks=(chunks, *values.shape[1:]))


def in_chunks_of_unknown_size(X: Any) -> Any:
    """Dask array of three chunks whose numbers of rows are unknown."""
    import dask.array as da

    found = in_chunks(X)
    sizes = (np.nan,) * len(found.chunks[0]), *found.chunks[1:]
    return da.Array(found.dask, found.name, sizes, meta=found._meta)


def in_partitions(X: Any) -> Any:
    """Dask frame of three partitions; a series where there is one column."""
    import dask.dataframe as dd

    table = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.atleast_1d(numbers_of(X)))
    table = table[0] if np.ndim(X) == 1 else table
    return dd.from_pandas(table.reset_index(drop=True), npartitions=3, sort=False)


#: Partitioned tables; targets and weights need the same partitions.
PARTITIONED: dict[str, Make] = {
    "a Dask array": lambda X, r: in_chunks(X),
    "a Dask array of unknown chunks": lambda X, r: in_chunks_of_unknown_size(X),
    "a Dask frame": lambda X, r: in_partitions(X),
} if find_spec("dask") else {}  # fmt: skip

#: Values of a table or of numbers per row.
ANY: dict[str, Make] = {
    **PARTITIONED,
    "None": lambda X, r: None,
    "a word": lambda X, r: "data.csv",
    "bytes": lambda X, r: b"data",
    "an integer": lambda X, r: 3,
    "a number": lambda X, r: 3.5,
    "an object": lambda X, r: object(),
    "an empty list": lambda X, r: [],
    "a dict": lambda X, r: {"a": [1.0, 2.0]},
    "a set": lambda X, r: {1.0, 2.0},
    "a function": lambda X, r: len,
    "an iterator": lambda X, r: iter(numbers_of(X).tolist()),
    "lists of several lengths": lambda X, r: [[1.0, 2.0], [1.0]],
    "words": lambda X, r: table_of(X).astype(str),
    "wide characters": lambda X, r: np.full(np.shape(table_of(X)), "ü☃"),
    "fixed bytes": lambda X, r: np.full(np.shape(table_of(X)), b"ab"),
    "dates": lambda X, r: np.full(np.shape(table_of(X)), np.datetime64("2020-01-01")),
    "durations": lambda X, r: np.full(np.shape(table_of(X)), np.timedelta64(3, "s")),
    "complex": lambda X, r: numbers_of(X) * (1 + 1j),
    "booleans": lambda X, r: numbers_of(X) > 0,
    "half precision": lambda X, r: numbers_of(X).astype(np.float16),
    "single precision": lambda X, r: numbers_of(X).astype(np.float32),
    "long precision": lambda X, r: numbers_of(X).astype(np.longdouble),
    "the other byte order": lambda X, r: numbers_of(X).astype(">f8"),
    "integers of the other byte order": lambda X, r: numbers_of(X).astype(">i4"),
    "small integers": lambda X, r: numbers_of(X).astype(np.int8),
    "unsigned integers": lambda X, r: np.abs(numbers_of(X)).astype(np.uint64) + np.uint64(2**63),
    "objects": lambda X, r: table_of(X).astype(object),
    "nested lists": lambda X, r: table_of(X).tolist(),
    "tuples": lambda X, r: tuple(map(tuple, np.atleast_2d(table_of(X)).tolist())),
    "a masked array": lambda X, r: _masked(X),
    "a record array": lambda X, r: np.zeros(len(table_of(X)), dtype=[("a", float), ("b", int)]),
    "read only": lambda X, r: _read_only(X),
    "strided": lambda X, r: np.repeat(numbers_of(X), 2, axis=0)[::2],
    "column-major": lambda X, r: np.asfortranarray(numbers_of(X)),
    "reversed": lambda X, r: numbers_of(X)[::-1],
    "no rows": lambda X, r: table_of(X)[:0],
    "one row": lambda X, r: table_of(X)[:1],
    "a row less": lambda X, r: table_of(X)[:-1],
    "a row more": lambda X, r: np.concatenate([table_of(X), table_of(X)[:1]]),
    "a dimension more": lambda X, r: table_of(X)[None],
    "two columns": lambda X, r: np.column_stack([table_of(X)] * 2),
    "zeros": lambda X, r: np.zeros_like(numbers_of(X)),
    "a constant": lambda X, r: np.full_like(numbers_of(X), 3.0),
    "negated": lambda X, r: -numbers_of(X),
    "a sparse matrix": lambda X, r: sp.csr_matrix(numbers_of(X)),
    "a frame": lambda X, r: pd.DataFrame(table_of(X)),
    "a word in a cell": lambda X, r: with_cell(X, r, "none"),
    "bytes in a cell": lambda X, r: with_cell(X, r, b"none"),
    "categories": lambda X, r: pd.DataFrame(table_of(X)).astype("category"),
    "nullable numbers": lambda X, r: pd.DataFrame(numbers_of(X)).convert_dtypes(),
    "Arrow numbers": lambda X, r: pd.DataFrame(numbers_of(X)).convert_dtypes(dtype_backend="pyarrow"),
    "missing by pandas": lambda X, r: _with_na(X, r),
    **{f"a cell of {value:g}": lambda X, r, v=value: with_cell(X, r, v) for value in NUMBERS},
    **{f"times 1e{k}": lambda X, r, k=k: numbers_of(X) * 10.0**k for k in EXPONENTS},
}  # fmt: skip

#: Values of X.
TABLES: dict[str, Make] = {
    **ANY,
    "a column": lambda X, r: table_of(X)[:, 0],
    "transposed": lambda X, r: table_of(X).T,
    "no columns": lambda X, r: table_of(X)[:, :0],
    "a column less": lambda X, r: table_of(X)[:, :-1],
    "a column more": lambda X, r: np.column_stack([table_of(X), np.ones(len(table_of(X)))]),
    **{f"{form} of scipy": lambda X, r, f=form: sp.csr_matrix(numbers_of(X)).asformat(f) for form in
       ("csc", "coo", "bsr", "dia", "lil", "dok")},
    "a sparse array": lambda X, r: sp.csr_array(numbers_of(X)),
    "a sparse array of single precision": lambda X, r: sp.csr_array(numbers_of(X).astype(np.float32)),
    "entries in halves": lambda X, r: csr_with_duplicates(X),
    "a sparse array with spare room": lambda X, r: csr_with_spare_capacity(X),
    **{f"a column times 1e{k}": lambda X, r, k=k: _first_times(X, 10.0**k) for k in EXPONENTS},
    "a sparse column times 1e-160": lambda X, r: sp.csr_array(_first_times(X, 1e-160)),
    "a sparse cell of 1e200": lambda X, r: sp.csr_matrix(with_cell(X, r, 1e200)),
    "a sparse cell of NaN": lambda X, r: sp.csr_matrix(with_cell(X, r, np.nan)),
    **{f"malformed: {what}": lambda X, r, w=what: contradictory_csr(X, r, w) for what in
       ("beyond", "negative", "rows back", "too long")},
    "columns in another order": lambda X, r: _frame(X)[_frame(X).columns[::-1]],
    "columns of one name": lambda X, r: _frame(X).set_axis(["a"] * _frame(X).shape[1], axis=1),
    "rows of one name": lambda X, r: _frame(X).set_axis([0] * len(_frame(X)), axis=0),
    "single precision near its end": lambda X, r: (numbers_of(X) * 1e37).astype(np.float32),
}  # fmt: skip

#: Values of an argument that has one number per row.
ROW_VALUES: dict[str, Make] = {**ANY, "no positive one": lambda y, r: -np.abs(numbers_of(y))}
ROW_VALUES |= {
    "a series with another index": lambda y, r: pd.Series(np.ravel(table_of(y))[: len(y)]).rename(lambda i: i + 100),
    "an ordered categorical": lambda y, r: pd.Categorical(np.ravel(table_of(y))[: len(y)], ordered=True),
    "all different": lambda y, r: np.arange(len(y)) + 0.5,
    "words and numbers": lambda y, r: np.array([1, "a"] * len(y), dtype=object)[: len(y)],
    "other labels": lambda y, r: pd.Series(["low", "high"] * len(y))[: len(y)],
    "one positive": lambda y, r: np.eye(1, len(y))[0],
}  # fmt: skip
