"""Partial effects: the mean of y with one value of a column, or of two, in all rows, averaged over the rows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.checks import check_count
from sksvi.inspection._answers import table_of_draws
from sksvi.inspection._changed_rows import ChangedRowMeans, columns_of, frame_of, label_of, levelled_columns
from sksvi.inspection._effects import LEAST_DRAWS
from sksvi.predictive.plain import tail_of

Array = np.ndarray

#: Share of the data beyond the ends of the values of a column of numbers, on either side.
OUTSIDE = 0.01
#: Rows that go through the model at once.
ROWS = 10_000


def partial_effect(
    model: BaseEstimator,
    X: MatrixLike,
    features: str | int | tuple[str | int, str | int],
    *,
    coverage: float = 0.9,
    grid_resolution: int = 40,
    max_rows: int | None = 500,
    n_draws: int = 400,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    random_state: RandomState = 0,
) -> DataFrame:
    """Mean of y with one value of a column, or of two columns, in all rows, averaged over the rows, with intervals.

    Every draw from the posterior gives such an average at each value; the table has their mean and spread. Of
    classifiers the mean of y is the probability of the second label, of more than two, and of ordered names, that of
    each. :class:`sksvi.PartialEffectDisplay` draws such tables.

    Parameters
    ----------
    model : fitted estimator
        A linear model, one with mixed effects or a sparse Gaussian process; or a Pipeline, formula or search around
        one, whose transformers see the changed rows.
    X : {DataFrame, array-like} of shape (n, D)
        Rows to average over, as the model's `predict` takes them.
    features : str, int or tuple of two
        A column, or a pair of them, by name, or by number in an array.
    coverage : float, default=0.9
        Posterior probability of the equal-tailed interval (lower, upper), in (0, 1).
    grid_resolution : int, default=40
        Values of a column of numbers, evenly between its 1st and 99th percentile, and half as many of either of two
        such columns; one of fewer values has those, and whole numbers are always those of the data. Of more categories
        so many, evenly spaced in their order.
    max_rows : int or None, default=500
        The most rows to average over, drawn at random; None: all.
    n_draws : int, default=400
        Draws from the posterior, at least 2.
    offset, exposure : float, default=None
        The same for all rows; None: an offset of 0, an exposure of 1.
    random_state : int, RandomState or None, default=0
        Of rows and draws.

    Returns
    -------
    DataFrame
        A row per value, or per pair of values, on an index named by the columns, in an array x0, x1, ... (and
        ``class``, where y has several labels); values that are no numbers on a line are categorical. Columns mean, std,
        lower and upper, in units of y or as probabilities.

    Raises
    ------
    TypeError
        If there is no estimator inside that has draws of its latents.
    ValueError
        For a column that X does not have, more than two of them, or one twice.

    See Also
    --------
    sksvi.inspection.marginal_effects : Slopes and contrasts, averaged over rows.

    Notes
    -----
    Partial dependence (Friedman 2001, section 8.2) with the posterior's uncertainty of the average. Rows far from all
    data count as others do: of columns that go together the picture shows where the data lie.

    References
    ----------
    J. H. Friedman. Greedy function approximation: a gradient boosting machine. Annals of Statistics 29, 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sksvi import BayesianGLMClassifier
    >>> from sksvi.inspection import partial_effect
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X[["mean radius", "mean texture"]]
    >>> model = BayesianGLMClassifier().fit(X, y)
    >>> table = partial_effect(model, X, ("mean radius", "mean texture"), grid_resolution=6)
    >>> table.shape, table.index.names, bool(table["mean"].iloc[0] > 0.9)
    ((9, 4), FrozenList(['mean radius', 'mean texture']), True)
    """
    tail_of(coverage)
    rng, n_draws = check_random_state(random_state), check_count(n_draws, "n_draws", least=LEAST_DRAWS, bytes_each=16.0)
    answers = ChangedRowMeans(model, n_draws, int(rng.randint(2**31 - 1)), offset, exposure)
    table, named = frame_of(X)
    chosen = columns_of(list(features) if isinstance(features, tuple) else features, table)
    if len(chosen) not in (1, 2) or len(set(chosen)) < len(chosen):
        raise ValueError(f"features must be a column or a pair of two; found {features!r}.")
    grid = check_count(grid_resolution, "grid_resolution", least=2)
    levels = {name: _values(table[name], grid, name in levelled_columns(answers.inner)) for name in chosen}
    if len(chosen) == 2 and not any(isinstance(values, pd.CategoricalIndex) for values in levels.values()):
        levels = {name: _values(table[name], max(2, grid // 2), False) for name in chosen}
    if max_rows is not None and len(table) > check_count(max_rows, "max_rows"):
        table = table.iloc[np.sort(rng.choice(len(table), max_rows, replace=False))]
    draws = np.moveaxis(_averages(answers, table, levels, named), 1, 0).reshape(n_draws, -1)
    index: list[Any] = [values.rename(label_of(name, named)) for name, values in levels.items()]
    if answers.names[0] is not None:
        index.append(pd.CategoricalIndex(answers.names, categories=answers.names, name="class"))
    keys = index[0] if len(index) == 1 else pd.MultiIndex.from_product(index, names=[own.name for own in index])
    return table_of_draws(draws, coverage).drop(columns="direction").set_axis(keys, axis=0)


def _values(column: Any, resolution: int, levels: bool) -> pd.Index:
    """Values to show: numbers on a line, or categories; whole numbers, which may be names, are those of the data.

    levels: its values are names.
    """
    whole = pd.api.types.is_integer_dtype(column)
    numbers = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column) and not levels
    found = list(column.cat.categories) if hasattr(column, "cat") else sorted(column.dropna().unique().tolist())
    if len(found) > resolution and (not numbers or whole):
        found = [found[int(i)] for i in np.linspace(0, len(found) - 1, resolution)]
    elif numbers and len(found) > min(resolution, 10) and not whole:
        low, high = np.nanquantile(column.to_numpy(float), [OUTSIDE, 1.0 - OUTSIDE])
        found = np.linspace(low, high, resolution).tolist()
    return pd.Index(found) if numbers and len(found) > 2 else pd.CategoricalIndex(found, categories=found)


def _averages(answers: ChangedRowMeans, table: Any, levels: dict[Any, pd.Index], named: bool) -> Array:
    """Draws of the average at every point of the grid, (G, S, labels), the last column changing first."""
    points, n = list(product(*levels.values())), len(table)
    types = {
        name: table[name].dtype if isinstance(values, pd.CategoricalIndex) else float for name, values in levels.items()
    }
    size, parts = max(1, ROWS // n), []
    for start in range(0, len(points), size):
        some = points[start : start + size]
        rows = table.iloc[np.tile(np.arange(n), len(some))].reset_index(drop=True)
        for name, values in zip(levels, zip(*some, strict=True), strict=True):
            rows[name] = pd.Series([value for value in values for _ in range(n)], dtype=types[name])
        groups = np.repeat(np.arange(len(some)), n)
        parts.append(answers.averages(rows if named else rows.to_numpy(), groups, len(some), None))
    return np.concatenate(parts)
