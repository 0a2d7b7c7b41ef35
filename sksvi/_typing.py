"""Names for what public signatures take and return, as a user's editor shows them; nothing here is imported at runtime.

The aliases are quoted, so that ``import sksvi`` needs neither pandas nor Dask nor matplotlib for them: annotations are
never evaluated. `tests/contracts/test_typing.py` holds every public signature to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    import scipy.sparse as sp
    from matplotlib.axes import Axes as _Axes

    from sksvi.algorithms import Algorithm
    from sksvi.expectations import Expectation
    from sksvi.likelihoods import Likelihood
    from sksvi.models.network.factors import Link


class Lazy(Protocol):
    """A Dask array, frame or series."""

    def compute(self, **kwargs: Any) -> Any: ...

    def __dask_graph__(self) -> Any: ...


class Schedule(Protocol):
    """Rates of steps, as those of `sksvi.schedules`."""

    def rate(self, t: int) -> float: ...


class Estimator(Protocol):
    """Methods that every estimator of a file has. Those of some only (`predict`, `transform`) pass unchecked."""

    lower_bound_: float
    lower_bounds_: np.ndarray
    converged_: bool
    n_iter_: int
    n_steps_: int
    n_samples_seen_: float
    n_features_in_: int

    @property
    def history_(self) -> DataFrame: ...

    def fit(self, X: MatrixLike, *rest: Any, **named: Any) -> Self: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...

    def set_params(self, **params: Any) -> Self: ...

    def summary(self, coverage: float = 0.9, **more: Any) -> DataFrame: ...

    def summary_text(self, coverage: float = 0.9, **more: Any) -> str: ...

    def save(self, path: PathLike, training_rows: bool = True) -> None: ...

    def to_arviz(self, n_samples: int = 1000, random_state: RandomState = None) -> Any: ...

    def __getattr__(self, name: str) -> Any: ...


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
AlgorithmLike: TypeAlias = "str | Algorithm"
ExpectationLike: TypeAlias = "str | Expectation"
LikelihoodLike: TypeAlias = "str | Likelihood"
#: A parameter of a node of a network: numbers, the name of another node, or a link to it.
Given: TypeAlias = "npt.ArrayLike | str | Link"
#: ``"balanced"`` or a weight for each class.
ClassWeight: TypeAlias = "str | Mapping[Any, float] | None"
