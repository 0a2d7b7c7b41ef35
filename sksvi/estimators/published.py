"""Fits beside predictions: a fit is built apart and published by one assignment, and an answer reads one fit.

A thread that predicts while another one fits, or takes a chunk, would else read the mean of one fit and the deviations
of the next. Parameters are checked at every answer as they are at a fit, since they may have been set in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from sksvi.estimators.parameters import check_parameters

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
    work = _with(type(estimator), dict(vars(estimator)))
    try:
        yield work
    finally:
        estimator.__dict__ = vars(work)


def _with(cls: type, attributes: dict[str, Any]) -> Any:
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
            with building(self) as work:
                answer = method(work, *args, **kwargs)
            return self if answer is work else answer

        fits.of_one_fit = True  # type: ignore[attr-defined]
        return fits

    checks = name not in UNCHECKED

    @wraps(method)
    def answers(self: Any, *args: Any, **kwargs: Any) -> Any:
        view = _with(type(self), vars(self))  # a fit that is published meanwhile brings other attributes, not these
        if checks and hasattr(view, "state_"):
            check_parameters(view)  # which may have been set, or loaded, since the fit
        answer = method(view, *args, **kwargs)
        return self if answer is view else answer

    answers.of_one_fit = True  # type: ignore[attr-defined]
    return answers
