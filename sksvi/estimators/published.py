"""Fits beside predictions: a fit is built apart and published by one assignment, and an answer reads one fit.

A thread that predicts while another one fits, or takes a chunk, would else read the mean of one fit and the deviations
of the next. Parameters are checked at every answer as they are at a fit, since they may have been set in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, wraps
from inspect import signature
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

from sksvi._runtime import parallel
from sksvi.likelihoods.traits import LARGEST
from sksvi.partitions.collections import is_collection

#: Public methods that leave another fit behind.
FITS = ("fit", "partial_fit", "fit_transform", "fit_predict", "smooth")
#: Public methods that set or describe parameters, or that hand out the estimator itself.
OTHERS = ("online",)
OTHER_KINDS = ("get_", "set_", "_")


#: Public methods that read no parameter: what a user set is kept as it is.
UNCHECKED = ("save",)


@contextmanager
def building(estimator: Any) -> Iterator[Any]:
    """A copy of an estimator to be fitted; what it has at the end is the estimator's from one moment to the next.

    A fit that fails undoes itself (`BaseSVI._all_or_nothing`); one that stands is published although a warning of it
    is an error.
    """
    work = of_attributes(type(estimator), dict(vars(estimator)))
    try:
        yield work
    finally:
        estimator.__dict__ = vars(work)


def of_attributes(cls: type, attributes: dict[str, Any]) -> Any:
    """An estimator of these very attributes."""
    made: Any = object.__new__(cls)
    made.__dict__ = attributes
    return made


def one_fit(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A public method that builds its fit apart, or that answers from the one fit that stands when it is called."""
    if name in OTHERS or name.startswith(OTHER_KINDS) or hasattr(method, "of_one_fit"):
        return method

    if name in FITS:

        @wraps(method)
        def fits(self: Any, *args: Any, **kwargs: Any) -> Any:
            _check_arguments(self, name, method, kwargs)
            with building(self) as work:
                answer = method(work, *args, **kwargs)
            return self if answer is work else answer

        fits.of_one_fit = True  # type: ignore[attr-defined]
        return fits

    checks = name not in UNCHECKED

    @wraps(method)
    def answers(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A fit that is published meanwhile brings other attributes, not these.
        view = of_attributes(type(self), vars(self))
        if checks and hasattr(view, "state_"):
            check_parameters(view)  # which may have been set, or loaded, since the fit
        answer = method(view, *args, **kwargs)
        return self if answer is view else answer

    answers.of_one_fit = True  # type: ignore[attr-defined]
    return answers


def _check_arguments(estimator: Any, name: str, method: Callable[..., Any], given: dict[str, Any]) -> None:
    """Raise for a parameter of the estimator that is given to a method, where other libraries take it."""
    own = estimator.get_params(deep=False)
    for key in given:
        if key in own and key not in signature(method).parameters:
            cls = type(estimator).__name__
            raise TypeError(
                f"{name} of {cls} takes no {key!r}: it is a parameter of the estimator, {cls}({key}=...). What has a "
                f"value per row is a column of X, which {key}= may name."
            )


# ---- what a chunk leaves to be shown: found when somebody first asks, never where the next chunk comes first
@dataclass(eq=False)
class Postponed:
    """Names of attributes, the model and the state that a chunk ended with, and the estimator as it was then."""

    names: frozenset[str]
    model: Any
    state: Any
    estimator: Any

    def found(self) -> dict[str, Any]:
        """The attributes; whoever asks at the same time finds the same bits."""
        shown = of_attributes(type(self.estimator), dict(vars(self.estimator)))
        with parallel.working(), shown._columns_named():
            shown._expose(self.model, self.state)
        return {name: value for name, value in vars(shown).items() if name in self.names}


@contextmanager
def postponing(estimator: Any, carried: str) -> Iterator[None]:
    """Context of a chunk: it begins without what the one before left waiting but the attribute `carried`."""
    waiting = vars(estimator).pop("_postponed", None)
    if waiting is not None:
        setattr(estimator, carried, getattr(waiting.estimator, carried))
    try:
        yield
        waiting = vars(estimator).pop("_postponed", None)
        if waiting is not None:
            waiting.estimator = of_attributes(type(estimator), dict(vars(estimator)))
    finally:  # of a chunk that failed the attributes are those that it began with
        if waiting is not None:
            rest = {name: value for name, value in vars(estimator).items() if name not in waiting.names}
            estimator.__dict__ = {**rest, "_postponed": waiting}


def with_postponed(estimator: Any) -> dict[str, Any]:
    """The attributes of the fit that stands, those that wait found, whatever is published meanwhile."""
    own = vars(estimator)
    waiting = own.get("_postponed")
    if waiting is not None:
        own.update(waiting.found())
        own.pop("_postponed", None)
    return own


# ---- parameters: scikit-learn's rules, and a limit on the magnitude of numbers
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
