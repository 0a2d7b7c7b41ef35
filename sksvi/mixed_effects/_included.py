"""Which group effects predictions have: the parameter `include_groups` of methods that predict."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from numbers import Integral
from typing import Any

from sklearn.utils.validation import check_is_fitted

from sksvi._typing.arrays import Columns
from sksvi.estimators.tables import listed
from sksvi.models.mixed.levels import LEFT_OUT, UNSEEN

#: Words that stand for the codes of all rows in every grouping column.
CODES = {"none": LEFT_OUT, "marginal": UNSEEN}

DESCRIPTION = """\
include_groups : {"all", "none", "marginal"}, str, int or list of them, default="all"
    Groups whose effects are in f. "none": none, every level is at zero; names or indices of groups: those alone,
    and a name of no group is a ValueError.
    "marginal": the average over a new level of each group, whose variance enters the mean and the spread of y.
"""


def including(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that predicts, with the parameter `include_groups` beside its own."""
    signature = inspect.signature(method)
    own = inspect.Parameter("include_groups", inspect.Parameter.KEYWORD_ONLY, default="all", annotation=Columns)

    @wraps(method)
    def predicted(self: Any, *args: Any, include_groups: Any = "all", **kwargs: Any) -> Any:
        return method(with_groups(self, include_groups), *args, **kwargs)

    predicted.__signature__ = signature.replace(parameters=[*signature.parameters.values(), own])  # type: ignore[attr-defined]
    assert method.__doc__ is not None
    before, returns, after = method.__doc__.partition("\n        Returns\n")
    text = "".join(f"        {line}\n" for line in DESCRIPTION.splitlines())
    predicted.__doc__ = f"{before.rstrip()}\n{text}{returns}{after}"
    return predicted


def with_groups(estimator: Any, include_groups: Any) -> Any:
    """The estimator itself, or a copy whose predictions have the effects of some groups.

    Raises
    ------
    ValueError
        A name of no group of the fit.
    """
    check_is_fitted(estimator)
    if isinstance(include_groups, str) and include_groups == "all":
        return estimator
    fitted = copy.copy(estimator)
    fitted._encoding = replace(estimator._encoding, codes_in_place=codes_in_place(estimator, include_groups))
    return fitted


def codes_in_place(estimator: Any, include_groups: Any) -> tuple[int | None, ...]:
    """The code of all rows to predict in each grouping column; None: that of the level of each."""
    names, sources = estimator._group_names(), estimator._encoding.sources
    positions = [source[0] if len(source) == 1 else None for source in sources]
    if isinstance(include_groups, str) and include_groups in CODES and include_groups not in names:
        return (CODES[include_groups],) * len(names)
    try:
        wanted = listed(include_groups)
    except TypeError:
        wanted = [include_groups]
    for name in wanted:
        by_position = isinstance(name, Integral) and not isinstance(name, bool) and name in positions
        if not (by_position or (isinstance(name, str) and name in names)):
            raise ValueError(
                f"include_groups={include_groups!r} has {name!r}, which is no group of this fit: give 'all', 'none', "
                f"'marginal', or some of its groups, {names}."
            )
    included = [name in wanted or j in wanted for name, j in zip(names, positions, strict=True)]
    return tuple(None if one else LEFT_OUT for one in included)
