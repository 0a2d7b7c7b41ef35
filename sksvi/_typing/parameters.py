"""Types of estimators and of the parameters that take an object of this package or its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    from sksvi._typing.arrays import DataFrame, MatrixLike, PathLike, PerRow
    from sksvi.algorithms import Algorithm
    from sksvi.expectations import Expectation
    from sksvi.likelihoods import Likelihood


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

    def to_arviz(self, X: MatrixLike | None = None, y: PerRow | None = None, **more: Any) -> Any: ...

    def __getattr__(self, name: str) -> Any: ...


AlgorithmLike: TypeAlias = "str | Algorithm"
ExpectationLike: TypeAlias = "str | Expectation"
LikelihoodLike: TypeAlias = "str | Likelihood"
