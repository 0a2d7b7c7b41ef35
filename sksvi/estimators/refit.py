"""Parameters that may change before a fit is continued: by a warm `fit`, `partial_fit`, or after loading a file.

Every parameter of an estimator has an entry in its ``_changes``. What a fit holds beside q says itself whose it is
(`Problem.moves`, `Problem.local_rule`), so that parts which another value would misread begin anew.
`FitRecord` is how the last fit came about.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sksvi.likelihoods import Likelihood

#: Words of instances by their types and parameters, and how many are remembered.
_WORDS: dict[tuple[Any, ...], str] = {}
MOST_WORDS = 256
#: What begins among rows is begun anew where there are so many times as many: components that started among few are
#: alike, or those of few rows, and more rows do not part them or make new ones.
ANEW = 2.0
#: What of a parameter must stay, given the estimator and the parameter's name.
Extract = Callable[[Any, str], Any]


def value(estimator: Any, name: str) -> Any:
    """The value of a parameter itself, all of which must stay."""
    return getattr(estimator, name)


def truth(estimator: Any, name: str) -> bool:
    """The value of a parameter as a bool, whatever type of truth value it has."""
    return bool(getattr(estimator, name))


def text(estimator: Any, name: str) -> str:
    """The value of a parameter as text: of an instance its class and parameters."""
    given = getattr(estimator, name)
    if not hasattr(given, "get_params"):
        return str(given)
    # scikit-learn takes ten times as long to lay these words out as to find the parameters.
    key = type(given), *map(repr, given.get_params(deep=False).items())
    if key not in _WORDS:
        if len(_WORDS) >= MOST_WORDS:
            _WORDS.clear()
        _WORDS[key] = str(given)
    return _WORDS[key]


def auto_or_number(estimator: Any, name: str) -> str:
    """The string "auto" where a parameter is learned, else "fixed": one number may replace another."""
    return "auto" if isinstance(getattr(estimator, name), str) else "fixed"


def string_or_array(estimator: Any, name: str) -> str:
    """The value of a parameter that is a string, or a checksum of one that is an array."""
    given = getattr(estimator, name)
    if isinstance(given, str):
        return given
    array = np.ascontiguousarray(given, dtype=float)
    return f"an array of shape {array.shape} with checksum {zlib.crc32(array.tobytes())}"


def given_or_not(estimator: Any, name: str) -> bool:
    """Whether a parameter is not None."""
    return getattr(estimator, name) is not None


@dataclass(frozen=True)
class ParameterChange:
    """How a continued fit treats a changed value of one parameter.

    why : reason that a fit which goes on refuses another value; empty where it takes it.
    must_match : what of the value must stay, where it refuses.
    """

    why: str = ""
    must_match: Extract = value


#: Another value serves from here on.
UNCHECKED = ParameterChange()
#: Read where a fit begins: a fit that goes on keeps the random numbers that it has.
AT_START = ParameterChange()


def stays(why: str, must_match: Extract = value) -> ParameterChange:
    """Entry of a parameter that a continued fit cannot change; `why`: the reason that an error gives."""
    return ParameterChange(why, must_match)


#: Parameters that every estimator has.
SHARED = {
    "algorithm": UNCHECKED,
    "expectation": UNCHECKED,
    "batch_size": UNCHECKED,
    "max_iter": UNCHECKED,
    "tol": UNCHECKED,
    "total_samples": UNCHECKED,
    "n_jobs": UNCHECKED,
    "warm_start": UNCHECKED,
    "random_state": AT_START,
    "verbose": UNCHECKED,
}
#: And where chunks are taken.
STREAMED = {**SHARED, "forgetting": UNCHECKED, "half_life": UNCHECKED}
#: Reasons that several estimators have.
LIKELIHOOD = stays("scales that were learned, and what data have said, belong to it", text)
COVARIANCE = stays("q has the shape that it says")
COMPONENTS = stays("q has that many components")


def check_changes(estimator: Any, fitted: dict[str, Any]) -> None:
    """Raise where a parameter differs from that of the fit and a continued fit cannot change it."""
    now = fixed_choices(estimator)
    for name, was in fitted.items():
        if name not in now or now[name] == was:
            continue
        was, is_now = ("a number" if choice == "fixed" else repr(choice) for choice in (was, now[name]))
        raise ValueError(
            f"{name} was {was} when this model was fitted and is {is_now} now: a fit that goes on (warm_start, "
            f"partial_fit) cannot change it, as {estimator._changes[name].why}. Set it back, or fit a clone."
        )


def fixed_choices(estimator: Any) -> dict[str, Any]:
    """By name, the part of each parameter that a continued fit may not change."""
    return {name: change.must_match(estimator, name) for name, change in estimator._changes.items() if change.why}


@dataclass(frozen=True)
class FitRecord:
    """How the last fit, or a stream, came about; a fit replaces it as a whole.

    choices : values of parameters that a continued fit may not change (`sksvi.estimators.refit`).
    began_among : weight of the rows that the last start was made among; 0: not known.
    one_sided : whether every target lay at one end of what it may be: it says nothing of columns, nor of their scales.
    had_offset, had_exposure : whether rows had an offset, and whether it was given as an exposure.
    streams : whether the call under way, or the last one, is one of a stream.
    score : `score` of rows of the last fit, and how many these were.
    working : the likelihood of a quantile at the scale that pilot fits found (`sksvi.estimators.working`).
    """

    LAYOUT = (
        "choices dict; began_among number >=0; one_sided flag; had_offset flag; had_exposure flag; working? Likelihood"
    )

    choices: dict[str, Any] = field(default_factory=dict)
    began_among: float = 0.0
    one_sided: bool = False
    had_offset: bool = False
    had_exposure: bool = False
    streams: bool = False
    score: tuple[float, int] | None = None
    working: Likelihood | None = None


#: The record of an estimator before any fit.
NO_FIT = FitRecord()
