"""Outcomes of calls with one unusual argument: refused by name, answered by finite numbers, or mishandled."""

from __future__ import annotations

import copy
import pickle
import re
import time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError

from sksvi.partitions.collections import is_collection
from support.estimator_cases import (
    fitted_estimator,
    new_estimator,
    only_numeric_warnings,
    state_hash,
    valid_data,
)
from support.random_calls import Call, prepare_call

Array = np.ndarray

#: CPU seconds that no call on so few rows may take (the first compiles).
MAX_SECONDS = 5.0
#: Words by which a message may name an argument.
WORDS = {
    "X": r"\bX\b|[Ff]eature|column|row|id\b|ids\b|words?\b|level|block",
    "y": r"\by\b|label|level|class|likelihood|block|counts?\b",
    "held_out": r"held_out|\bX\b",
    "feature_names": r"feature_names|words?\b|names",
}


class Outcome(NamedTuple):
    """Result of a call.

    Parameters
    ----------
    kind : {"answered", "refused", "vague", "mishandled", "unmade"}
        Finite numbers; an error that names the argument; one that does not; anything else; a value that cannot be made
        of these data.
    why : str
        The error, or what is wrong.
    seconds : float
        CPU time.
    """

    kind: str
    why: str
    seconds: float


def evaluate_call(call: Call) -> Outcome:
    """Make a call on a copy of its estimator, and classify what comes of it.

    Parameters
    ----------
    call : Call
        The call.

    Returns
    -------
    outcome : Outcome
        An error that leaves the estimator changed, an answer that is not finite, a question that changes the estimator,
        a changed argument and a call of more than `MAX_SECONDS` are mishandled.
    """
    case = call.name, call.options
    model = copy.deepcopy(fitted_estimator(*case)) if call.fitted else new_estimator(*case)
    try:
        model, arguments, value = prepare_call(call, model)
    except Exception as error:  # the value cannot be made of these data
        return Outcome("unmade", repr(error), 0.0)
    before, bytes_before = _hash_or_nothing(model), _content(value)
    started = time.process_time()
    try:
        with only_numeric_warnings():
            found = _computed(getattr(model, call.method)(**arguments))
    except Exception as error:
        seconds = time.process_time() - started
        return Outcome(*_classify_error(call, error, before == _hash_or_nothing(model)), seconds)
    seconds = time.process_time() - started
    why = _fault_of_answer(call, model, found, before, seconds)
    if not why and _content(value) != bytes_before:
        why = f"{call.argument} was changed"
    return Outcome("mishandled" if why else "answered", why, seconds)


def _computed(found: Any) -> Any:
    """Answer with its Dask collections computed."""
    if isinstance(found, tuple | list) and any(map(is_collection, found)):
        return type(found)(map(_computed, found))
    return found.compute(scheduler="synchronous") if is_collection(found) else found


def _hash_or_nothing(model: Any) -> str:
    """Hash of an estimator; "" where an attribute cannot be pickled."""
    try:
        return state_hash(model)
    except (pickle.PicklingError, AttributeError, TypeError):
        return ""


def _content(value: Any) -> bytes:
    """Bytes of an array or a sparse matrix; none of anything else."""
    parts = [getattr(value, name) for name in ("data", "indices", "indptr") if hasattr(value, "indptr")]
    try:
        return b"".join(part.tobytes() for part in parts) or (value.tobytes() if isinstance(value, Array) else b"")
    except AttributeError:
        return b""


def _classify_error(call: Call, error: Exception, same: bool) -> tuple[str, str]:
    """Kind and text of an error, by its type, whether it names the argument, and whether anything changed."""
    text = f"{type(error).__name__}: {error}"
    if not isinstance(error, ValueError | TypeError | NotFittedError):
        return "mishandled", text
    if not same:
        return "mishandled", f"the estimator changed, then {text}"
    key = call.argument.removeprefix("set ")
    if re.search(WORDS.get(key, rf"\b{re.escape(key)}\b"), str(error)):
        return "refused", text
    return "vague", text


def _fault_of_answer(call: Call, model: Any, found: Any, before: str, seconds: float) -> str:
    """Fault of an answer, or ""."""
    if seconds > MAX_SECONDS:
        return f"took {seconds:.1f} s"
    if call.method in ("fit", "partial_fit"):
        return _fault_after_fit(call, model)
    if before != _hash_or_nothing(model):
        return "a question changed the estimator"
    return _fault_of_numbers(found, call.method)


def _fault_after_fit(call: Call, model: Any) -> str:
    """Fault of an estimator after a fit, or "": its predictions and its summary must be finite."""
    if call.argument == "X" or call.argument == "feature_names":
        return "" if _all_finite(getattr(model, "lower_bound_", 0.0)) else "lower_bound_ is not finite"
    method = "predict" if hasattr(model, "predict") else "transform"
    try:
        with only_numeric_warnings():
            found = getattr(model, method)(valid_data(call.name, call.options)[0])
            if hasattr(model, "summary"):
                found = [found, _without_blanks(model.summary())]
    except Exception as error:
        return f"after {call.method} {method} fails: {type(error).__name__}: {error}"
    return "" if _all_finite(found) else f"after {call.method} {method} is not finite"


def _without_blanks(summary: Any) -> Any:
    """Summary with numbers where it is blank by design, as are intervals of point estimates and signs of some rows."""
    points = summary["std"].isna()
    if "direction" in summary:
        summary = summary.copy()
        ratios = [name for name in summary if str(name).startswith("exp(")]
        summary.loc[summary["direction"].isna(), ratios] = summary.loc[summary["direction"].isna(), ratios].fillna(1.0)
    blank = [name for name in ("std", "lower", "upper") if name in summary]
    summary = summary.mask(np.asarray(points)[:, None] & summary.columns.isin(blank), 0.0)
    return summary.fillna({"direction": 0.5}) if "direction" in summary else summary


def _fault_of_numbers(found: Any, method: str) -> str:
    """Fault of the numbers that a method returns, or ""."""
    if method == "summary" and "std" in found:
        found = _without_blanks(found)
    if method in ("log_predictive_density", "predict_log_proba", "decision_function", "score"):  # -inf is valid
        values = np.asarray(found, float)
        return "" if not np.any(np.isnan(values)) else f"{method} is NaN"
    return "" if _all_finite(found) else f"{method} is not finite"


def _all_finite(found: Any) -> bool:
    """Whether every number of an answer is finite; text counts as finite."""
    if isinstance(found, tuple | list):
        return all(map(_all_finite, found))
    if isinstance(found, pd.DataFrame | pd.Series):
        return _all_finite([np.asarray(column) for _, column in pd.DataFrame(found).items()])
    values = np.asarray(found)
    return values.dtype.kind != "f" or bool(np.all(np.isfinite(values)))
