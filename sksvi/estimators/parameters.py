"""Checks of constructor parameters: scikit-learn's rules, and a limit on the magnitude of numbers."""

from __future__ import annotations

from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

from sksvi.likelihoods.traits import LARGEST
from sksvi.partitions.collections import is_collection

#: The least magnitude of a parameter that is not 0, and those that no arithmetic is done with.
SMALLEST, UNBOUNDED = 1.0 / LARGEST, {"tol", "random_state"}
#: Types of parameters that nobody can change in place.
PLAIN = {str, int, float, bool, type(None)}


def check_parameters(estimator: Any) -> None:
    """Raise where a parameter breaks its constraint, or is a number whose square or reciprocal is none.

    Raises
    ------
    InvalidParameterError
        Naming the parameter.
    """
    for name, value in estimator.get_params(deep=False).items():
        # Plain values that were found valid once are: the rules take longer than a chunk of a few rows does.
        check: Any = _check_plain if type(value) in PLAIN else _check_parameter
        check(type(estimator), name, type(value), value)


def _check_parameter(cls: Any, name: str, kind: type, value: Any) -> None:
    """Raise where a parameter breaks its constraint. kind: type of the value, since 1 is no truth value."""
    if is_collection(value):
        raise InvalidParameterError(
            f"The {name!r} parameter of {cls.__name__} is a Dask collection: give {name}.compute()."
        )
    if isinstance(value, np.floating):  # half precision has no number for the limits that it is compared with
        value = float(value)
    validate_parameter_constraints(cls._parameter_constraints, {name: value}, caller_name=cls.__name__)
    number = isinstance(value, Real) and not isinstance(value, bool | np.bool_) and name not in UNBOUNDED
    if number and value != 0 and not SMALLEST <= abs(float(value)) <= LARGEST:
        raise InvalidParameterError(
            f"The {name!r} parameter of {cls.__name__} must lie between {SMALLEST:g} and {LARGEST:g}, "
            f"where squares and reciprocals are numbers. Got {value!r} instead."
        )


_check_plain = lru_cache(maxsize=4096)(_check_parameter)
