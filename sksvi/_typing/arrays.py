"""Types of arrays, tables and other plain values: they mention nothing of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

import scipy.sparse as sp

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    from matplotlib.axes import Axes as _Axes


class Lazy(Protocol):
    """A Dask array, frame or series."""

    def compute(self, **kwargs: Any) -> Any: ...

    def __dask_graph__(self) -> Any: ...


class Schedule(Protocol):
    """Rates of steps, as those of `sksvi.schedules`."""

    def rate(self, t: int) -> float: ...


#: Numbers, labels or texts that become an array: lists, arrays, Series.
ArrayLike: TypeAlias = "npt.ArrayLike | Sequence[object] | pd.Series | pd.Index"
#: Rows and columns.
MatrixLike: TypeAlias = "ArrayLike | pd.DataFrame | sp.sparray | sp.spmatrix | Lazy"
#: One value per row.
PerRow: TypeAlias = "ArrayLike | pd.DataFrame | Lazy"
#: Names of columns, words or classes.
Names: TypeAlias = "Sequence[str] | np.ndarray | pd.Index"
#: One column or several, by name or number.
Columns: TypeAlias = "str | int | Sequence[str | int]"

DataFrame: TypeAlias = "pd.DataFrame"
Series: TypeAlias = "pd.Series"
Axes: TypeAlias = "_Axes"
#: Several pictures: as ``plt.subplots`` returns them.
ManyAxes: TypeAlias = "Sequence[_Axes] | np.ndarray"
PathLike: TypeAlias = "str | os.PathLike[str]"

Index: TypeAlias = "pd.Index"
RandomState: TypeAlias = "int | np.random.RandomState | None"
#: ``"balanced"`` or a weight for each class.
ClassWeight: TypeAlias = "str | Mapping[Any, float] | None"


# ---- what an array turns out to be: sparse, or of a kind of dtype, ``dtype.kind in NUMBERS``, as NumPy and pandas have
Compressed: TypeAlias = "sp.csr_array | sp.csr_matrix"
#: Formats that users have; those that are rarer have the same methods.
Sparse: TypeAlias = "Compressed | sp.csc_array | sp.csc_matrix | sp.coo_array | sp.coo_matrix"

#: Whole numbers; numbers; numbers and truth values.
WHOLE, REAL, NUMBERS = "iu", "iuf", "biuf"
#: What arrays in a file are of: no objects, no records.
FILED = NUMBERS + "cUSMm"


def is_sparse(X: object) -> TypeGuard[Sparse]:
    """Whether X is a sparse matrix of any format, as users have them."""
    return bool(sp.issparse(X))


def is_compressed(X: object) -> TypeGuard[Compressed]:
    """Whether X is a sparse matrix, behind the door where each becomes one of compressed rows."""
    return bool(sp.issparse(X))
