"""What every display needs: matplotlib when it is there, the estimator inside wrappers, its fitted attributes."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import NotFittedError

from sksvi.predictive.wrappers import feature_names as feature_names


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
