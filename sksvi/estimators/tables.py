"""Tables with columns of any type, as users bring them: lists, arrays, sparse matrices, frames of any library."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi.estimators.sparse import checked_sparse, merged

Array = np.ndarray


def framed(X: Any) -> Any:
    """A frame of another library (polars, pyarrow) as a pandas one; anything else as it is."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None or hasattr(X, "iloc"):
        return X
    import pandas as pd

    return pd.DataFrame({name: _column(X[name]) for name in names})


def _column(values: Any) -> Any:
    """A column of another library, with the levels that its type declares (polars' Enum)."""
    dtype: Any = getattr(values, "dtype", None)
    if type(dtype).__name__ == "Enum":
        import pandas as pd

        return pd.Categorical(np.asarray(values), categories=list(dtype.categories), ordered=True)
    return np.asarray(values)


def as_table(X: Any, wanted: str = "a table, one row per sample") -> Any:
    """X as a DataFrame, a CSR matrix or an array, of two dimensions.

    Raises
    ------
    ValueError
        Naming X and what was found.
    """
    if X is None or isinstance(X, str | bytes):
        raise ValueError(f"X is {X!r} and must be {wanted}{'' if X is None else ': read the file first'}.")
    if sp.issparse(X):
        return merged(checked_sparse(X).tocsr())
    X = framed(X)
    if not hasattr(X, "iloc"):
        # Through objects, so that values of several types in a list stay what they are.
        plain = hasattr(X, "__array__")
        try:
            X = np.asarray(X) if plain else np.array(list(X), dtype=object)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X must be {wanted}; found {type(X).__name__}: {error}.") from error
    if X.ndim != 2:
        raise ValueError(f"X: Expected 2D array, got {X.ndim}D array instead: it must be {wanted}.")
    return X


def hashed(column: Any) -> Any:
    """A Series of ids or levels in a type that pandas can look up: half precision and foreign byte orders it cannot.

    Raises
    ------
    TypeError
        For complex numbers, which have no order.
    """
    dtype = column.dtype
    if not isinstance(dtype, np.dtype):
        return column
    if dtype.kind == "c":
        raise TypeError(f"column {column.name!r} of X holds complex numbers: ids and levels are text or real numbers.")
    if dtype.kind == "f" and dtype not in (np.float32, np.float64):
        return column.astype(np.float32 if dtype.itemsize < 4 else np.float64)
    if dtype.kind == "S":  # bytes of no fixed width
        return column.astype(object)
    return column if dtype.isnative else column.astype(dtype.newbyteorder("="))
