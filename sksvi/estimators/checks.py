"""Checks of row values, and tables of intervals."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length, check_random_state

from sksvi.predictive.coverage import tail_of

Array = np.ndarray


def check_numbers(values: Any, name: str) -> Array:
    """An array of finite numbers, of any shape.

    Raises
    ------
    ValueError
        Naming the parameter and what was found.
    """
    if values is None:
        raise ValueError(f"{name} is None and must be numbers.")
    try:
        return np.asarray(
            check_array(values, ensure_2d=False, allow_nd=True, ensure_min_samples=0, dtype=np.float64, input_name=name)
        )
    except (TypeError, ValueError) as error:
        if name in str(error):
            raise
        raise ValueError(f"{name} must be numbers: {error}") from error


def check_seed(random_state: Any) -> np.random.RandomState:
    """The generator that a user's `random_state` stands for; an error that names the parameter."""
    try:
        return check_random_state(random_state)
    except ValueError as error:
        found = f"found {random_state!r}"
        raise ValueError(f"random_state must be an integer, a RandomState or None; {found}.") from error


def check_same_rows(X: Any, y: Any) -> None:
    """An error where X and y differ in their number of rows."""
    try:
        check_consistent_length(X, y)
    except ValueError as error:
        raise ValueError(f"X and y differ in length. {error}") from error


def check_row_values(values: Any, n: int, name: str, weights: bool = False, each: str = "row") -> Array | None:
    """A vector with one finite number per row or column (weights: none negative, not all zero), or None.

    Raises
    ------
    ValueError
        Naming the parameter and what was found.
    """
    if values is None:
        return None
    if isinstance(values, Real):
        values = np.full(n, values)
    values = check_numbers(values, name)
    if values.shape != (n,):
        raise ValueError(f"{name}.shape == {values.shape}, expected {(n,)}: one number per {each} of X.")
    if weights and np.any(values < 0):
        row = int(np.argmin(values))
        raise ValueError(f"Negative values in data passed to `{name}`: found {values[row]:g} in row {row}.")
    if weights and not np.any(values > 0):
        raise ValueError(f"{name} is zero in every row: at least one row needs a positive weight.")
    return values


def interval_table(mean: Array, std: Array, coverage: float, index: Any) -> Any:
    """DataFrame of mean, std and the equal-tailed interval (lower, upper) of Gaussian marginals.

    Raises
    ------
    ValueError
        If coverage is not strictly between 0 and 1.
    """
    import pandas as pd
    from scipy.special import ndtri

    half = ndtri(1.0 - tail_of(coverage)) * std
    columns = {"mean": mean, "std": std, "lower": mean - half, "upper": mean + half}
    return pd.DataFrame({name: np.ravel(values) for name, values in columns.items()}, index=index)
