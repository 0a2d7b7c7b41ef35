"""Names of the columns that an estimator was fitted on, and of what is no column."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


def feature_names(estimator: BaseEstimator, before: BaseEstimator | None = None) -> np.ndarray:
    """Return the names of the columns that an estimator was fitted on, those of grouping columns left out.

    Parameters
    ----------
    estimator : fitted estimator
        Its ``feature_names_in_`` are used where it has them, else x0, x1, …

    before : Pipeline or None, default=None
        Transformers before it, asked where the estimator itself saw no names; a step may have none to give.

    Returns
    -------
    names : ndarray of shape (n_features,) of str
        The names.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from sksvi.displays import feature_names
    >>> feature_names(SimpleNamespace(n_features_in_=2)).tolist()
    ['x0', 'x1']
    """
    return np.delete(all_names(estimator, before), getattr(estimator, "_factors", None) or [])


def all_names(estimator: Any, before: Any) -> np.ndarray:
    """The same, grouping columns included."""
    if hasattr(estimator, "feature_names_in_"):
        return np.asarray(estimator.feature_names_in_, dtype=object)
    if before is not None:
        try:
            return np.asarray(before.get_feature_names_out(), dtype=object)
        except AttributeError:  # a step that gives no names
            pass
    return np.array([f"x{i}" for i in range(estimator.n_features_in_)], dtype=object)


def own_name(name: str, columns: Container[Any]) -> str:
    """What a table calls a row of its own, which no column has: in brackets where a column has the name.

    Examples
    --------
    >>> from sksvi._names import own_name
    >>> own_name("intercept", ["age"]), own_name("intercept", ["age", "intercept"])
    ('intercept', '(intercept)')
    """
    while name in columns:
        name = f"({name})"
    return name
