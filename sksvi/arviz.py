"""Posterior draws in the containers of other packages."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._names import feature_names, own_name


def to_arviz(estimator: Any, n_samples: int = 1000, random_state: Any = None) -> Any:
    """Independent draws from the posterior blocks of a fitted estimator, for ArviZ.

    Parameters
    ----------
    estimator : fitted estimator
        Has ``posterior_``.

    n_samples : int, default=1000
        Number of draws, at least 1; they form one chain.

    random_state : int, RandomState instance or None, default=None
        Seed of the draws; an int makes them the same each time.

    Returns
    -------
    data : arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
        Group ``posterior`` with one variable per block, of shape (1, n_samples, ...). The last axis of coefficients is
        named by the columns, the intercept last; the axis before it, where there are several classes, by the classes;
        that of ``groups`` by group, level and effect.

    Raises
    ------
    ImportError
        If ArviZ is not installed.

    NotFittedError
        If the estimator is not fitted.

    Notes
    -----
    Draws from a variational posterior are independent and come from an approximation: diagnostics of chains (R-hat,
    effective sample size) say nothing about how good it is.
    """
    if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(f"n_samples must be an integer of at least 1; found {n_samples!r}.")
    check_is_fitted(estimator, "posterior_")
    try:
        import arviz
    except ImportError as error:
        raise ImportError("to_arviz needs ArviZ. Install it with: pip install 'sksvi[arviz]'") from error
    from sklearn.utils import check_random_state

    rng = check_random_state(random_state)
    draws, dims, coords = {}, {}, {}
    for name in estimator.posterior_:
        values = np.asarray(estimator.posterior_[name].sample(int(n_samples), random_state=rng))
        draws[name] = values[None]
        if name == "weights" and hasattr(estimator, "coef_"):  # those of a mixture are of its components
            axes = _weight_axes(estimator, values.shape[1:])
            dims[name] = list(axes)
            coords.update(axes)
        elif name == "groups":
            labels = [f"{group}[{level}] {effect}" for group, level, effect in estimator._effect_index()]
            dims[name], coords["group_effect"] = ["group_effect"], labels
    major = int(arviz.__version__.split(".")[0])
    if major >= 1:
        return arviz.from_dict({"posterior": draws}, coords=coords, dims=dims)
    return arviz.from_dict(posterior=draws, coords=coords, dims=dims)


def _weight_axes(estimator: Any, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Name and labels of each axis of the weights: (classes,) columns with the intercept last."""
    columns = feature_names(estimator)
    if shape[-1] == len(columns) + 1:
        columns = np.append(columns, own_name("intercept", list(columns)))
    axes = {"column": columns}
    return axes if len(shape) == 1 else {"class": np.asarray(estimator.classes_)} | axes
