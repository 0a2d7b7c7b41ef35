"""Ids and levels that a fit did not see: a few are ordinary, a whole column of them or another type is a mistake."""

from __future__ import annotations

import datetime
from numbers import Integral, Number, Real
from typing import Any

import numpy as np

from sksvi._runtime.user import warn_user

Array = np.ndarray

#: Values of the parameter `on_unseen`; ids of each side that a message shows.
ON_UNSEEN, SHOWN = ("warn", "ignore", "error"), 3
#: Share of a fit's ids that a table of features may lack without a word.
LACKING = 0.5


def check_predicted_ids(policy: str, what: str, column: Any, matched: Array, fitted: Array) -> None:
    """Warn or raise, as `policy` says, about ids to be predicted that the fit has not seen.

    Parameters
    ----------
    policy : {"warn", "ignore", "error"}
    what : str
        Whose ids they are, in the plural.
    column : Series of shape (n,)
        A missing id is no stranger.
    matched : ndarray of bool, shape (n,)
        Which rows have an id of the fit.
    fitted : ndarray
        Ids of the fit.

    Raises
    ------
    ValueError
        With "error", for any id that the fit has not seen.
    """
    new = ~matched & column.notna().to_numpy()
    if policy == "ignore" or not new.any():
        return
    unseen = _distinct(column[new])
    if policy == "error":
        raise ValueError(
            f"{what} that the fit has not seen, the first in row {int(np.argmax(new))}: {_both(unseen, fitted)} "
            "Leave such rows out, or set on_unseen='warn' to predict them as unknown ones."
        )
    fault = f"none of the {len(unseen)} {what} was seen in the fit"
    if len(unseen) == 1 or matched.any():
        fault = f"some of the {what} are of another type than those of the fit"
        unseen, fitted = _mistyped(unseen, fitted, not matched.any())
    if len(unseen):
        warn_user(f"{fault}; they are predicted as unknown ones. {_both(unseen, fitted)} {_remedy(unseen, fitted)}")


def check_added_ids(policy: str, what: str, column: Any, matched: Array, fitted: Array) -> None:
    """Warn or raise about new ids of a continued fit whose type is another than that of its ids.

    Parameters are those of `check_predicted_ids`.

    Raises
    ------
    ValueError
        With "error".
    """
    new = ~matched & column.notna().to_numpy()
    if policy == "ignore" or not new.any():
        return
    unseen, fitted = _mistyped(_distinct(column[new]), fitted, not matched.any())
    if len(unseen):
        fault = f"some of the {what} are of another type than those of the fit so far, and are added as new ones"
        _tell(policy, f"{fault}. {_both(unseen, fitted)} {_remedy(unseen, fitted)}")


def check_table(policy: str, name: str, what: str, index: Array, fitted: Array, found: Array) -> None:
    """Warn or raise about a table of features that has no row for most ids of a fit.

    Parameters
    ----------
    policy : {"warn", "ignore", "error"}
    name, what : str
        The parameter, and whose ids they are, in the plural.
    index, fitted : ndarray
        Ids of the table and of the fit.
    found : ndarray of bool, shape of `fitted`

    Raises
    ------
    ValueError
        With "error".
    """
    if policy == "ignore" or np.mean(found) >= 1.0 - LACKING:
        return
    lacking = f"{name} has a row for {int(np.sum(found))} of {len(fitted)} {what} alone; the others count as the mean"
    _tell(policy, f"{lacking}. {_both(fitted[~found], index, 'X has', 'its index')} {_remedy(fitted, index)}")


def shown(ids: Array, most: int) -> str:
    """The first ids as a user would write them."""
    words = [
        str(value)
        if isinstance(value, np.datetime64)
        else repr(value.item() if isinstance(value, np.generic) else value)
        for value in ids[:most]
    ]
    return ", ".join(words) + (", …" if len(ids) > most else "")


def _distinct(column: Any) -> Array:
    """Each id once, as it came; ids that are tuples stay ids."""
    import pandas as pd

    ids = pd.unique(column.astype(object))
    out = np.empty(len(ids), dtype=object)
    out[:] = list(ids)
    return out


def _kind(value: Any) -> str:
    """What users call the type of an id; those of one kind may equal each other."""
    value = value.item() if isinstance(value, np.generic) and value.dtype.kind != "M" else value
    if isinstance(value, str):
        return "text"
    if isinstance(value, Number):
        return "numbers"
    return "times" if isinstance(value, datetime.date | np.datetime64) else type(value).__name__


def _kinds(ids: Array) -> list[str]:
    if ids.dtype != object:
        ids = ids[:1]
    return sorted({_kind(value) for value in {type(value): value for value in ids}.values()})


def _text(value: Any) -> str:
    """An id as it is written: 501, 501.0 and "501" alike."""
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    return str(int(value)) if whole else str(value)


def _mistyped(unseen: Array, fitted: Array, alone: bool) -> tuple[Array, Array]:
    """Unseen ids of a type that no id of the fit has, and ids of the fit to compare them with.

    Those written as an id of the fit is; where no id is known (`alone`) and nothing is written so, all of them.
    """
    kinds = set(_kinds(fitted))
    others = unseen[[bool(kinds) and _kind(value) not in kinds for value in unseen]]
    if not len(others):
        return others, fitted
    written = {_text(value): at for at, value in enumerate(fitted)}
    at = np.array([written.get(_text(value), -1) for value in others])
    if np.any(at >= 0):
        return others[at >= 0], fitted[at[at >= 0]]
    return (others if alone else others[:0]), fitted


def _both(unseen: Array, fitted: Array, here: str = "X has", there: str = "the fit had") -> str:
    """Examples from both sides, and of which kind they are."""
    parts = []
    for side, ids in ((here, unseen), (there, fitted)):
        if not len(ids):
            parts.append(f"{side} none")
            continue
        parts.append(f"{side} {shown(ids, SHOWN)} ({' and '.join(_kinds(ids))})")
    return ", ".join(parts) + "."


def _remedy(unseen: Array, fitted: Array) -> str:
    convert = "Give both one type" if _kinds(unseen) != _kinds(fitted) else "Look what they mean"
    return f"{convert}, or set on_unseen='ignore' where new ones are meant."


def _tell(policy: str, text: str) -> None:
    if policy == "error":
        raise ValueError(text)
    warn_user(text)
