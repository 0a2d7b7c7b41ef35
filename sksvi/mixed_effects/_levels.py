"""Grouping columns of a table: which they are, which columns have slopes, the code of each row's level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sksvi.estimators.tables import codes_of, column_of, listed, position
from sksvi.estimators.unseen import check_predicted_ids

Array = np.ndarray


def factor_names(estimator: Any) -> list[int]:
    """Positions of the grouping columns."""
    found = [position(estimator, name, "groups") for name in listed(estimator.groups)]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"groups={estimator.groups!r} must name at least one column, each once.")
    return found


def slope_columns(estimator: Any, factors: list[int]) -> list[tuple[list[str], list[int]]]:
    """For each grouping column the names of its random slopes, and their positions among the other columns."""
    spec = estimator.random_slopes
    others = [j for j in range(estimator.n_features_in_) if j not in factors]
    names = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(estimator.n_features_in_)])
    keyed = isinstance(spec, Mapping)
    wanted: dict[int, list[Any]] = dict.fromkeys(factors, [] if spec is None or keyed else listed(spec))
    for group, columns in spec.items() if keyed else ():
        of = position(estimator, group, "random_slopes")
        if of not in factors:
            raise ValueError(f"random_slopes has slopes for {group!r}, which is not among groups={estimator.groups!r}.")
        wanted[of] = listed(columns)
    out = []
    for factor in factors:
        at = [position(estimator, name, "random_slopes") for name in wanted[factor]]
        if any(j in factors for j in at):
            raise ValueError(f"random_slopes={spec!r} names a grouping column: slopes are those of numeric columns.")
        out.append(([str(names[j]) for j in at], [others.index(j) for j in at]))
    return out


def slopes_among(slopes: list[tuple[list[str], list[int]]], categories: Any) -> list[tuple[list[str], list[int]]]:
    """The slopes of each grouping column, with positions among the coefficients instead of the columns.

    Raises
    ------
    ValueError
        A slope of a categorical column.
    """
    if categories is None:
        return slopes
    for names, at in slopes:
        for name, j in zip(names, at, strict=True):
            if j in categories.columns:
                raise ValueError(f"random_slopes names the categorical column {name!r}: slopes are those of numbers.")
    return [(names, [categories.at(j) for j in at]) for names, at in slopes]


def coded(X: Any, factors: list[int], level_values: list[Array], alone: list[int] | None, fit: bool) -> Array:
    """Codes (n, F) of the level of each row in each grouping column.

    In a fit a row without a level is a level of its own, which nothing else shares; `alone` is the number of the first
    one of each factor, None: there may be none. In predictions a row without a known level has -1.

    Raises
    ------
    ValueError
        A row of a fit with a level that the first data did not have.
    """
    codes = []
    for f, j in enumerate(factors):
        column = column_of(X, j)
        code, missing = codes_of(column, level_values[f])
        code[missing] = -1 if alone is None else alone[f] + np.arange(int(missing.sum()))
        if fit and np.any(code < 0):
            row, name = int(np.argmax(code < 0)), j if column.name is None else repr(column.name)
            raise ValueError(
                f"row {row} has level {column.iloc[row]!r} in grouping column {name}, which the first data did not "
                "have: declare all levels there with a categorical dtype, or fit anew."
            )
        codes.append(code)
    return np.column_stack(codes).astype(np.int32)


def check_levels(policy: str, X: Any, factors: list[int], level_values: list[Array], codes: Array) -> None:
    """Warn, raise or accept, by `policy`, where rows to be predicted have levels that the fit did not."""
    for j, levels, code in zip(factors, level_values, codes.T, strict=True):
        column = column_of(X, j)
        name = j if column.name is None else repr(column.name)
        check_predicted_ids(policy, f"levels of grouping column {name} of X", column, code >= 0, levels)
