"""A fit with its rows: what `check_posterior`, `loo`, `diagnose` and others begin with."""

from __future__ import annotations

from typing import Any

from sksvi.estimators.offsets import with_exposure
from sksvi.partitions.collections import is_collection
from sksvi.predictive.wrappers import unwrapped


class FittedRows:
    """An estimator without its wrappers, and the rows of its fit as it takes them.

    Parameters
    ----------
    model : fitted estimator
        Or a Pipeline or search around one.
    X, y, sample_weight, offset, exposure : array-like or None
        As the fit had them.

    Raises
    ------
    TypeError
        For Dask collections.
    """

    def __init__(
        self, model: Any, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None, exposure: Any = None
    ) -> None:
        check_in_memory(X=X, y=y, sample_weight=sample_weight, offset=offset, exposure=exposure)
        self.estimator, steps, self.inverses = unwrapped(model)
        for step in steps:
            X = step.transform(X)
        self.X, self.y = X, y
        #: What there may be beside a row and its target.
        self.beside = {"sample_weight": sample_weight, "offset": offset, "exposure": exposure}

    @property
    def name(self) -> str:
        """Name of the estimator's class."""
        return type(self.estimator).__name__

    def require(self, method: str, fault: str, supported: str) -> None:
        """TypeError where the estimator has no such method, or a transformer of its target around it."""
        if not hasattr(self.estimator, method):
            raise TypeError(f"{self.name} {fault}: {supported}.")
        if self.inverses:
            raise TypeError(
                "a transformed target has another density: give the regressor_ inside, with y as the transformer has "
                "it."
            )

    def call(self, method: str) -> Any:
        """What a method of the estimator makes of the rows, the logarithm of exposures a part of their offset."""
        offset = with_exposure(self.estimator, self.beside["offset"], self.beside["exposure"], self.X, y=self.y)
        return getattr(self.estimator, method)(self.X, self.y, self.beside["sample_weight"], offset)


def check_in_memory(**rows: Any) -> None:
    """An error that names a collection."""
    for name, values in rows.items():
        if is_collection(values):
            raise TypeError(f"{name} is a Dask collection, and rows are looked at in memory: give {name}.compute().")
