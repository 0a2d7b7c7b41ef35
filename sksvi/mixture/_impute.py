"""Missing cells of rows, from the others of their row."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.estimators.tables import as_table
from sksvi.mixture._encoding import WANTED, column_name

Array = np.ndarray


def gaps(X: Any) -> tuple[Any, Array]:
    """X as a frame, and which of its cells are missing (n, D).

    Raises
    ------
    TypeError
        For a sparse matrix, whose empty cells are zeros and not missing.
    """
    import pandas as pd

    table = as_table(X, WANTED)
    if hasattr(table, "tocsr"):
        raise TypeError("impute fills cells of a dense table: give X.toarray().")
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    return frame, frame.isna().to_numpy()


def filled(X: Any, frame: Any, found: dict[int, tuple[Array, Array, Array]]) -> Any:
    """X with the most probable value in every missing cell, as the kind of table that it is."""
    frame = frame.copy()
    for d, (rows, values, probabilities) in found.items():
        column = frame.iloc[:, d].copy()
        column.iloc[rows] = values[probabilities.argmax(1)]
        # Numbers that stood beside gaps were floats, and a column of gaps alone has the type of what fills it.
        frame.isetitem(d, column.infer_objects())
    return frame if hasattr(X, "iloc") else frame.to_numpy(dtype=getattr(X, "dtype", None))


def as_series(estimator: Any, frame: Any, found: dict[int, tuple[Array, Array, Array]]) -> Any:
    """Probabilities by row, column and value."""
    import pandas as pd

    index, column_names, each = [], [], []
    for d, (rows, values, probabilities) in found.items():
        column_names.append(column_name(estimator, d))
        index += [(frame.index[i], column_names[-1], value) for i in rows for value in values]
        each.append(probabilities.ravel())
    names = pd.MultiIndex.from_tuples(index, names=["row", "column", "value"]) if index else None
    if names is None:
        names = pd.MultiIndex.from_arrays([[], [], []], names=["row", "column", "value"])
    return pd.Series(np.concatenate([*each, np.empty(0)]), index=names, name="probability")
