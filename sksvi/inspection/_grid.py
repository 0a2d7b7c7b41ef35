"""Rows over which contrasts and means are averaged: those given, or every combination of levels at means of numbers."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pandas as pd

from sksvi.estimators.checks import check_choice
from sksvi.inspection._changed_rows import (
    MOST_VALUES,
    ChangedRowMeans,
    category_columns,
    frame_of,
    group_columns,
    levelled_columns,
)

#: Rows that a balanced grid has at most.
MOST_ROWS = 20_000
GRIDS = ("observed", "balanced")
#: Attributes by which transformers have the middle of their columns.
MIDDLES = ("mean_", "center_", "statistics_")


def rows_to_average(
    answers: ChangedRowMeans, X: Any, grid: str, columns: list[Any] | None = None
) -> tuple[pd.DataFrame, bool]:
    """A table of rows, and whether its columns have names.

    Parameters
    ----------
    answers : ChangedRowMeans
    X : rows, or None
        None: a balanced grid of what the fit itself, or the encoders and scalers of its pipeline, have of the columns.
    grid : {"observed", "balanced"}
        The rows, or one for every combination of levels, with numbers at their means; groups have no level there.
    columns : list, optional
        Those whose levels are combined where X is None; others have their first one, as they change nothing.

    Raises
    ------
    ValueError
        A grid that is neither, or of more than 20,000 rows; X that is needed and not given.
    """
    check_choice(grid, "grid", GRIDS)
    if X is not None:
        table, named = frame_of(X)
        if grid == "observed":
            return table, named
        values = {name: _values(answers, table[name], name) for name in table.columns}
        # Not of means of whole numbers, nor of what has no level.
        types = {name: table[name].dtype for name, own in values.items() if not (len(own) == 1 and _moved(own[0]))}
        return _balanced(values).astype(types), named
    if not hasattr(answers.inner, "_linear_effects"):
        raise ValueError(
            f"X is needed: {type(answers.inner).__name__} does not have the levels of its columns; give rows, such as "
            "those of the fit."
        )
    if answers.steps:
        values = _values_of_steps(answers.steps)
        return _balanced(values), True
    names, values = answers.inner._linear_effects.typical_values(columns is None)
    some = {name: values[name] if columns is None or name in columns else values[name][:1] for name in names}
    return _balanced(some), hasattr(answers.inner, "feature_names_in_")


def _values_of_steps(steps: list[Any]) -> dict[Any, list[Any]]:
    """Levels and means of the columns of a pipeline, of those of its fitted transformers that have them.

    Raises
    ------
    ValueError
        Where a column is not that of an encoder of levels, nor of what has its mean or median.
    """
    names = list(getattr(steps[0], "feature_names_in_", []))
    found: dict[Any, list[Any]] = {}
    for part in _transformers(steps[0]):
        own = list(getattr(part, "feature_names_in_", []))
        for name, levels in zip(own, getattr(part, "categories_", [])):
            found.setdefault(name, list(levels))
        for attribute in MIDDLES:
            for name, middle in zip(own, np.ravel(getattr(part, attribute, []))):
                if isinstance(middle, float):
                    found.setdefault(name, [float(middle)])
    unknown = [name for name in names if name not in found]
    if unknown or not names:
        raise ValueError(
            f"X is needed: a pipeline that does not have levels or means of columns {unknown[:5] or 'without names'}; "
            "give rows, such as those of the fit."
        )
    return {name: found[name] for name in names}


def _transformers(step: Any) -> list[Any]:
    """The fitted transformers that see columns of X."""
    if hasattr(step, "transformers_"):
        inside = [part for _, part, _ in step.transformers_ if not isinstance(part, str)]
    elif hasattr(step, "steps"):
        inside = [part for _, part in step.steps]
    else:
        return [step]
    return [found for part in inside for found in _transformers(part)]


def _values(answers: ChangedRowMeans, column: Any, name: Any) -> list[Any]:
    """Levels of names and of numbers of two values, the mean of others, none of groups."""
    if name in group_columns(answers.inner):
        return [None]
    return levels_of(column) if has_levels(answers, column, name) else [float(column.mean())]


def has_levels(answers: ChangedRowMeans, column: Any, name: Any) -> bool:
    """Whether the values of a column are levels: names, what the model makes levels of, at most two numbers."""
    named = name in levelled_columns(answers.inner) or not pd.api.types.is_numeric_dtype(column)
    return bool(named or len(levels_of(column)) <= 2)


def levels_of(column: Any) -> list[Any]:
    """Categories, or the values there are, in order."""
    return list(column.cat.categories) if hasattr(column, "cat") else np.sort(column.dropna().unique()).tolist()


def _moved(value: Any) -> bool:
    return value is None or isinstance(value, float)


def _balanced(values: dict[Any, list[Any]]) -> pd.DataFrame:
    n_rows = prod(len(own) for own in values.values())
    if n_rows > MOST_ROWS:
        sizes = {name: len(own) for name, own in values.items() if len(own) > 1}
        raise ValueError(
            f"the balanced grid has {n_rows:,} rows, a row for every combination of levels of {sizes}; {MOST_ROWS:,} "
            "are the most: give rows as X, and grid='observed'."
        )
    return pd.DataFrame(list(product(*values.values())), columns=list(values))


def compared_levels(answers: ChangedRowMeans, table: Any, feature: Any) -> list[Any]:
    """Levels of a column that are compared, None for missing ones that the model has as a level.

    Raises
    ------
    ValueError
        No such column, one with missing values, of one value, or of more than 40 numbers.
    """
    if feature not in list(table.columns):
        raise ValueError(f"feature={feature!r} is no column: {list(table.columns)[:20]}.")
    column = table[feature]
    missing = column.isna().any()
    if missing and feature not in category_columns(answers.inner):
        raise ValueError(f"column {feature!r} has missing values: fill them in, or leave these rows out.")
    levels = levels_of(column) + [None] * bool(missing)
    if len(levels) < 2:
        raise ValueError(
            f"column {feature!r} has one value only: there is nothing to compare. Of a column of numbers a fit keeps "
            "no values, and the balanced grid the mean alone: give rows as X, and grid='observed'."
        )
    if pd.api.types.is_float_dtype(column) and len(levels) > MOST_VALUES:
        raise ValueError(f"column {feature!r} has {len(levels)} values: of numbers {MOST_VALUES} are compared at most.")
    return levels
