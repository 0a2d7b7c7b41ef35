"""Names of the columns that an estimator was fitted on."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


def feature_names(estimator: BaseEstimator, before: BaseEstimator | None = None) -> np.ndarray:
    """Return the names of the columns that an estimator was fitted on, those of grouping columns left out.

    In the place of a categorical column of a linear model stand its levels, as ``column_level``.

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
    names = np.delete(all_names(estimator, before), getattr(estimator, "_factors", None) or [])
    categories = getattr(estimator, "_categories", None)
    return names if categories is None else np.array(categories.names(names), dtype=object)


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
