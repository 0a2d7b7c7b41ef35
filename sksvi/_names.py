"""Names of the columns that an estimator was fitted on, of what is no column, and as they are shown."""

from __future__ import annotations

from collections.abc import Container
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

#: Letters of a name that are drawn.
LONGEST = 32
#: Letters back to the start of a word, at most.
WORD = 8


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
    names = np.delete(all_names(estimator, before), grouping_columns(estimator))
    categories = categorical_columns(estimator)
    return names if categories is None else np.array(categories.names(names), dtype=object)


def grouping_columns(estimator: Any) -> list[int]:
    """Positions of the columns that name groups, which have no coefficient."""
    return list(getattr(getattr(estimator, "_encoding", None), "grouping", ()))


def categorical_columns(estimator: Any) -> Any:
    """The columns in whose place a fitted linear model has indicators of levels, or None."""
    return getattr(getattr(estimator, "_encoding", None), "categorical", None)


def all_names(estimator: Any, before: Any) -> np.ndarray:
    """Names of all columns that an estimator was fitted on, as `feature_names` has them, grouping columns included."""
    if hasattr(estimator, "feature_names_in_"):
        return np.asarray(estimator.feature_names_in_, dtype=object)
    if before is not None:
        try:
            return np.asarray(before.get_feature_names_out(), dtype=object)
        except AttributeError:  # a step that gives no names
            pass
    return np.array([f"x{i}" for i in range(estimator.n_features_in_)], dtype=object)


def own_name(name: str, columns: Container[Any]) -> str:
    """Name of a row that a table adds to those of columns: in brackets where a column has the name.

    Examples
    --------
    >>> from sksvi._names import own_name
    >>> own_name("intercept", ["age"]), own_name("intercept", ["age", "intercept"])
    ('intercept', '(intercept)')
    """
    while name in columns:
        name = f"({name})"
    return name


def shortened(name: Any, longest: int = LONGEST) -> str:
    """A name as it is drawn: its middle left out where it is too long for an axis."""
    name = str(name)
    if len(name) <= longest:
        return name
    head = (longest - 1) * 2 // 3
    return f"{name[:head]}…{name[head + 1 - longest :]}"


def apart(names: Any, longest: int = LONGEST, whole: bool = False) -> list[str]:
    """Names side by side as they are drawn: of those that are too long, what tells them apart stays.

    Where one is too long, all lose the name of their transformer ("onehot__") if they still differ (but `whole` ones).
    What is then too long loses the end of the beginning that it shares with another.

    Examples
    --------
    >>> from sksvi._names import apart
    >>> apart(["remainder__age", "onehot__occupation_Exec-managerial"])
    ['age', 'occupation_Exec-managerial']
    >>> apart(["region_of_the_north_east", "region_of_the_north_west"], 16)
    ['region_of_t…east', 'region_of_t…west']
    """
    names = [str(name) for name in names]
    if all(len(name) <= longest for name in names):
        return names
    bare = [name.rpartition("__")[2] for name in names]
    if not whole and len(set(bare)) == len(set(names)) and all(bare):
        names = bare
    shared = _shared_beginnings(names)
    return [_cut(name, shared[name], longest) for name in names]


def _shared_beginnings(names: list[str]) -> dict[str, int]:
    """How many letters of each name its nearest neighbour begins with too, from the start of a word on."""
    order, shared = sorted(set(names)), dict.fromkeys(names, 0)
    for one, other in pairwise(order):
        differs = (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
        common = next(differs, min(len(one), len(other)))
        for name in (one, other):
            shared[name] = max(shared[name], common)
    for name, n in shared.items():
        words = [n - k for k in range(min(n, WORD)) if name[n - k - 1] in " _-.=:"]
        shared[name] = words[0] if words else n
    return shared


def _cut(name: str, shared: int, longest: int) -> str:
    """Shorten a name whose first `shared` letters another has too."""
    own = name[shared:]
    if len(name) <= longest or not shared:
        return shortened(name, longest)
    room = longest - 1 - len(own)
    return f"{name[:room]}…{own}" if room >= 0 else f"…{own[: longest - 2]}…"
