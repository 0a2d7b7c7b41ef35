"""What every display needs: matplotlib when it is there, the estimator inside wrappers, its fitted attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib. Install it with: pip install 'sksvi[plot]'") from error
    return plt


def unwrapped(estimator: Any) -> tuple[Any, Any]:
    """Return the estimator inside searches and pipelines, and the pipeline of transformers before it, or None."""
    from sklearn.pipeline import Pipeline

    before = None
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif isinstance(estimator, Pipeline):
            before = estimator[:-1] if len(estimator) > 1 else None
            estimator = estimator[-1]
        elif hasattr(estimator, "regressor_"):
            estimator = estimator.regressor_
        else:
            return estimator, before


def fitted(estimator: Any, attribute: str) -> Any:
    """A fitted attribute, or an error that says whether fit is missing or the attribute."""
    value = getattr(estimator, attribute, None)
    if value is not None:
        return value
    name = type(estimator).__name__
    if hasattr(estimator, "n_features_in_"):
        raise TypeError(f"estimator must have {attribute!r} after fit; {name} has not.")
    raise NotFittedError(f"This {name} is not fitted yet; call fit before plotting it.")


def feature_names(estimator: Any, before: Any = None) -> np.ndarray:
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
    return np.delete(_all_names(estimator, before), getattr(estimator, "_factors", None) or [])


def _all_names(estimator: Any, before: Any) -> np.ndarray:
    if hasattr(estimator, "feature_names_in_"):
        return np.asarray(estimator.feature_names_in_, dtype=object)
    if before is not None:
        try:
            return np.asarray(before.get_feature_names_out(), dtype=object)
        except AttributeError:  # a step that gives no names
            pass
    return np.array([f"x{i}" for i in range(estimator.n_features_in_)], dtype=object)
