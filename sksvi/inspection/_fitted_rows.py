"""A fit with its rows: what `check_posterior`, `loo`, `diagnose` and others begin with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sksvi._runtime.user import warn_user
from sksvi.estimators.offsets import with_exposure
from sksvi.estimators.posterior import ROUNDING
from sksvi.partitions.collections import is_collection
from sksvi.predictive.wrappers import through_steps, unwrapped


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
        #: Of X as given, or of y; None where neither has one.
        self.index = next((table.index for table in (X, y) if isinstance(table, pd.DataFrame | pd.Series)), None)
        X, offset = through_steps(steps, X, offset)
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

    @property
    def full_offset(self) -> Any:
        """Offset with the logarithm of exposures."""
        return with_exposure(self.estimator, self.beside["offset"], self.beside["exposure"], self.X, y=self.y)

    def call(self, method: str) -> Any:
        """What a method of the estimator makes of the rows."""
        return getattr(self.estimator, method)(self.X, self.y, self.beside["sample_weight"], self.full_offset)

    def check_number(self) -> None:
        """ValueError where the rows weigh more or less than those of the fit."""
        fitted, weight = getattr(self.estimator, "n_samples_seen_", None), self.beside["sample_weight"]
        if fitted is None or not hasattr(self.X, "shape"):
            return
        found = self.X.shape[0] if weight is None else float(np.sum(weight))
        if abs(found - fitted) > ROUNDING * fitted:
            raise ValueError(
                f"X has rows of a total weight of {found:g}, and the fit had {fitted:g}: give the rows, and the "
                "sample_weight, of the fit (of a stream all of its chunks together)."
            )

    def check_score(self) -> None:
        """Warn where the score of the rows is not the one that the fit ended with; streams store none."""
        stored, weight = self.estimator._record.score, self.beside["sample_weight"]
        if stored is None:
            return
        found = self.estimator._training_score(self.X, self.y, sample_weight=weight, offset=self.full_offset)
        if found is None or not np.isclose(found[0], stored[0], rtol=ROUNDING, atol=ROUNDING, equal_nan=True):
            score = self.estimator._score_name
            warn_user(
                f"the {score} of the fit is {'none' if found is None else f'{found[0]:.6g}'} at these rows and was "
                f"{stored[0]:.6g} where the fit ended: X and y are not those of the fit, or not as it had them (in a "
                "pipeline give the pipeline). What follows is about the fit and these rows."
            )


def check_in_memory(**rows: Any) -> None:
    """An error that names a collection."""
    for name, values in rows.items():
        if is_collection(values):
            raise TypeError(f"{name} is a Dask collection, and rows are looked at in memory: give {name}.compute().")
