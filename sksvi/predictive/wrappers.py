"""Intervals and standard deviations through pipelines, searches and transformed targets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from sksvi.predictive.coverage import tail_of

Array = Any


def predict_interval(model: Any, X: Any, coverage: float = 0.9, offset: Any = None) -> Array:
    """Equal-tailed predictive interval of y, shape (n, 2), through Pipeline, search and TransformedTargetRegressor.

    Parameters
    ----------
    model : estimator
        A fitted regressor with ``predict_interval``, or one of scikit-learn's wrappers around it.
    X : array-like
        What the wrapper's own ``predict`` takes.
    coverage : float, default=0.9
        Probability of the interval.
    offset : array-like of shape (n,), default=None
        Of the rows of X, for the regressor inside.

    Raises
    ------
    TypeError
        If there is no regressor with ``predict_interval`` inside, or it takes no offset.
    """
    tail = tail_of(coverage)
    model, X, inverses = _unwrap(model, X)
    if not inverses:
        return _method(model, "predict_interval", offset)(X, coverage=coverage)
    # a decreasing inverse swaps the ends
    return np.sort(_through(inverses, _method(model, "predict_quantiles", offset)(X, [tail, 1.0 - tail])), axis=1)


def predict_std(model: Any, X: Any, offset: Any = None) -> Array:
    """Predictive standard deviation of y, noise included, shape (n,), through the same wrappers as `predict_interval`.

    Through a TransformedTargetRegressor it is that of the transformed predictive distribution, from its quantiles.

    Parameters
    ----------
    model : estimator
        A fitted regressor with ``predict(X, return_std=True)``, or one of scikit-learn's wrappers around it.
    X : array-like
        What the wrapper's own ``predict`` takes.
    offset : array-like of shape (n,), default=None
        Of the rows of X, for the regressor inside.

    Raises
    ------
    TypeError
        If there is no regressor with ``predict_quantiles`` inside, or it takes no offset.
    """
    model, X, inverses = _unwrap(model, X)
    if not inverses:
        return _method(model, "predict", offset)(X, return_std=True)[1]
    # E h(y) = E h(Q(Phi(z))) under z ~ N(0, 1), by the trapezoidal rule
    z = np.linspace(-7.0, 7.0, 29)
    weights = np.exp(-0.5 * z**2)
    weights /= weights.sum()
    y = _through(inverses, _method(model, "predict_quantiles", offset)(X, ndtr(z)))
    mean = y @ weights
    return np.sqrt((y - mean[:, None]) ** 2 @ weights)


def _unwrap(model: Any, X: Any) -> tuple[Any, Any, list[Any]]:
    """The innermost regressor, its X, and the transformers of the target, innermost first."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    inverses: list[Any] = []
    while True:
        if isinstance(model, Pipeline):
            X = model[:-1].transform(X) if len(model.steps) > 1 else X
            model = model.steps[-1][1]
        elif isinstance(model, TransformedTargetRegressor):
            check_is_fitted(model)
            inverses.insert(0, model.transformer_)
            model = model.regressor_
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return model, X, inverses


def _through(inverses: list[Any], y: Array) -> Array:
    """Quantiles (n, k) in the units of the target before its transformers."""
    y = np.asarray(y)
    for transformer in inverses:
        y = np.asarray(transformer.inverse_transform(y.reshape(-1, 1))).reshape(y.shape)
    return y


def _method(model: Any, name: str, offset: Any) -> Callable[..., Any]:
    """The method, with the offset where there is one."""
    method = getattr(model, name, None)
    if method is None:
        raise TypeError(f"{type(model).__name__} has no {name}: fit one of sksvi's regressors inside the wrapper.")
    return method if offset is None else partial(method, offset=offset)
