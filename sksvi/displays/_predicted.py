"""The predictive distribution of the model inside pipelines, searches and transformed targets, for displays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi.displays._common import refuse_several
from sksvi.estimators.offsets import with_exposure
from sksvi.predictive.wrappers import through, unwrapped_with_data

Array = np.ndarray


class Unwrapped(NamedTuple):
    """The estimator inside its wrappers, the rows as it takes them, and the target's transformers, innermost first."""

    model: Any
    X: Any
    inverses: list[Any]

    @property
    def likelihood(self) -> Any:
        """The fitted likelihood."""
        return self.model.likelihood_

    @property
    def classes(self) -> Array:
        """Labels or levels in the order of their probabilities; of a regressor of 0 and 1 these."""
        for name in ("classes_", "levels_"):
            if getattr(self.model, name, None) is not None:
                return np.asarray(getattr(self.model, name))
        return np.asarray(self.likelihood.levels, dtype=int)

    def predictive(self, offset: Any = None) -> Any:
        """Distribution of y, in the units that the model inside was fitted in."""
        return self.model._predictive(self.X, offset)

    def shifted(self, offset: Any, exposure: Any) -> Any:
        """The offset of rows with these exposures."""
        return with_exposure(self.model, offset, exposure, self.X)

    def target(self, y: Any) -> Array:
        """y in those units, as the likelihood takes it: ordinal as positions among the levels."""
        for transformer in reversed(self.inverses):
            y = np.asarray(transformer.transform(np.asarray(y, dtype=float).reshape(-1, 1)), dtype=float).ravel()
        return self.model._check_y(self.X, y)

    def outside(self, values: Array) -> Array:
        """Values in the units of y as it was given."""
        return through(self.inverses, values) if self.inverses else values

    @property
    def falls(self) -> bool:
        """Whether y falls where the model's own target grows."""
        if not self.inverses:
            return False
        ends = self.model._predictive(self.X[:1], None).quantile(np.array([0.25, 0.75]))
        low, high = through(self.inverses, ends)[0]
        return bool(high < low)


def unwrap_predictor(estimator: Any, X: Any) -> Unwrapped:
    """The fitted sksvi estimator inside wrappers, and the rows X as it takes them; TypeError if it predicts no y."""
    model, X, inverses = unwrapped_with_data(estimator, X)
    check_is_fitted(model)
    refuse_several(model)
    if not hasattr(model, "_predictive") or not hasattr(model, "likelihood_"):
        raise TypeError(
            f"{type(model).__name__} has no predictive distribution of y: give one of sksvi's regressors, classifiers "
            "or time series, or use from_predictions."
        )
    return Unwrapped(model, X, inverses)


def steps(estimator: Any, X: Any, y: Any, offset: Any = None, exposure: Any = None) -> tuple[Array, Array]:
    """P(Y < y) and P(Y <= y) of each row: of a time series without X and y those one step ahead in the fit."""
    given = unwrap_predictor(estimator, X)
    if given.likelihood.traits.classifies:
        raise ValueError(
            f"{type(given.model).__name__} predicts labels, which have no order and no intervals: use "
            "PosteriorPredictiveDisplay."
        )
    if X is None and y is None and hasattr(given.model, "_steps_ahead"):
        return given.model._steps_ahead()
    if y is None:
        raise ValueError("y is needed: the values that the predictions are compared with.")
    below, at_most = given.predictive(given.shifted(offset, exposure)).cdf_steps(given.target(y))
    return (1.0 - at_most, 1.0 - below) if given.falls else (below, at_most)


def values(y: Any, name: str = "y") -> Array:
    """y as finite numbers, (n,)."""
    found = np.asarray(y, dtype=float)
    if found.ndim != 1 or not len(found):
        raise ValueError(f"{name} must be numbers of shape (n,), at least one; found shape {found.shape}.")
    if not np.all(np.isfinite(found)):
        row = int(np.argmin(np.isfinite(found)))
        raise ValueError(f"{name} must be finite; found {found[row]} in row {row}.")
    return found


def table(rows: Any, n: int, name: str) -> Array:
    """Finite numbers of shape (n, m), a row for each of y."""
    found = np.asarray(rows, dtype=float)
    if found.ndim != 2 or found.shape[0] != n or not found.shape[1]:
        raise ValueError(f"{name} must have a row for each of the {n} of y, shape ({n}, m); found {found.shape}.")
    if not np.all(np.isfinite(found)):
        row = int(np.argmin(np.isfinite(found).all(axis=1)))
        raise ValueError(f"{name} must be finite; row {row} is not.")
    return found


def name_of(y: Any, otherwise: str = "y") -> str:
    """Name of a pandas column, else another one."""
    name = getattr(y, "name", None)
    return otherwise if name is None else str(name)
