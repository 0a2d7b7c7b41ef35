"""Means of y, and designs, of rows in which a column has been changed; which rows, and groups of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from sksvi._names import categorical_columns, grouping_columns
from sksvi.estimators.offsets import with_exposure
from sksvi.estimators.tables import as_table, framed
from sksvi.predictive.wrappers import through_steps, unwrapped

Array = np.ndarray

#: Step of a slope, in standard deviations of its column: the error of a difference to both sides is its square.
STEP = 1e-4
#: Values of a column of numbers without a slope, or with fractions in groups, up to which they are compared.
MOST_VALUES = 40


@dataclass
class ChangedRowMeans:
    """Means of y of changed rows, draw by draw.

    Parameters
    ----------
    model : fitted estimator, or a wrapper around it
    n_draws, seed : int
    offset, exposure : array-like or None
    """

    model: Any
    n_draws: int
    seed: int
    offset: Any = None
    exposure: Any = None

    def __post_init__(self) -> None:
        self.inner, self.steps, inverses = unwrapped(self.model)
        if not hasattr(self.inner, "_mean_draws"):
            raise TypeError(
                f"{type(self.inner).__name__} has no draws of its latents: marginal effects are there of linear "
                "models, mixed effects and sparse Gaussian processes."
            )
        if inverses:
            raise TypeError(
                "marginal effects on the scale of a transformed target are not there: give the regressor_ inside, for "
                "those on the scale that it was fitted on."
            )
        self.names = self.inner._response_names()

    def of(self, X: Any, effect: Any = None) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows and their means, (n, S, labels); `effect`: of `effect_of`."""
        X, offset = through_steps(self.steps, X, self.offset)
        offset = with_exposure(self.inner, offset, self.exposure, X)
        options = {} if effect is None else {"effect": effect}
        yield from self.inner._mean_draws(X, self.n_draws, self.seed, offset, **options)

    def transformed(self, X: Any) -> Any:
        """Rows as the estimator inside takes them."""
        return through_steps(self.steps, X)[0]

    def effect_of(self, low: Any, high: Any) -> Any:
        """What of a linear model is under a weak prior of its own where these rows are compared; None: nothing."""
        if not hasattr(self.inner, "_effect_of"):
            return None
        return self.inner._effect_of(self.transformed(low), self.transformed(high))

    def effect_of_all(self, ends: Sequence[tuple[Any, Any]], effects: str | None) -> Array | None:
        """Effect that is under weak priors of its own where several pairs of rows are compared; None: nothing.

        Raises
        ------
        ValueError
            "own" effects of a model that has none.
        """
        moved = [] if effects == "joint" else [self.effect_of(low, high) for low, high in ends]
        found = [part for part in moved if part is not None]
        if effects == "own" and not found:
            raise ValueError(
                "effects='own' needs a linear model with a learned prior and no fewer rows than columns: leave it out."
            )
        return np.unique(np.concatenate(found)) if found else None

    def smooth(self, table: Any, feature: Any, named: bool, x: Any, step: float) -> bool:
        """Whether a small step of a column in all rows, either way, changes the mean of y by as much and by little.

        Behind an encoder of categories any step leads to none of them, behind bins some rows jump: neither has a slope.
        """
        try:
            below, here, above, one_std_above = (
                self.row_means(with_column(table, feature, x + by, named)) for by in (-step, 0.0, step, step / STEP)
            )
        except ValueError:  # an encoder that refuses what it does not know
            self.row_means(with_column(table, feature, table[feature], named))
            return False
        up, down = above - here, here - below
        size = np.abs(up).sum() + np.abs(down).sum()
        if size == 0.0:
            return bool(np.all(one_std_above == here))
        return bool(np.abs(up - down).sum() < 0.1 * size)

    def row_means(self, X: Any) -> Array:
        """Means of y of each row at the mean of a few draws, (n, labels)."""
        few = replace(self, n_draws=2)
        return np.concatenate([means.mean(axis=1) for _, means in few.of(X)])

    def averages(self, X: Any, groups: Array, n_groups: int, weight: Array | None, effect: Any = None) -> Array:
        """Weighted means over the rows of each group, (groups, S, labels); `effect`: of `effect_of`."""
        weight = np.ones(len(groups)) if weight is None else weight
        total = np.zeros((n_groups, self.n_draws, len(self.names)))
        for rows, means in self.of(X, effect):
            for g in np.unique(groups[rows]):
                own = groups[rows] == g
                total[g] += np.tensordot(weight[rows][own], means[own].astype(float), 1)
        return total / np.bincount(groups, weight, n_groups)[:, None, None]


def levelled_columns(inner: Any) -> list[Any]:
    """Columns whose values are names, though they may be numbers: those of groups, and categorical ones."""
    return group_columns(inner) + category_columns(inner)


def category_columns(inner: Any) -> list[Any]:
    """Columns of which the model itself makes indicators."""
    own = categorical_columns(inner)
    if own is None:
        return []
    encoded = np.delete(np.arange(inner.n_features_in_), grouping_columns(inner)).tolist()
    at = [encoded[j] for j in own.columns]
    names = getattr(inner, "feature_names_in_", None)
    return at if names is None else [names[j] for j in at]


def group_columns(inner: Any) -> list[Any]:
    """Columns that name groups, as the parameter `groups` of the model has them."""
    groups = getattr(inner, "groups", None)
    groups = [groups] if isinstance(groups, str | int) else list(groups or [])
    return [part for name in groups for part in str(name).split(":")] + groups


def frame_of(X: Any) -> tuple[Any, bool]:
    """X as a DataFrame, whose columns may be changed one by one, and whether it has names of its own."""
    named = framed(X)
    if hasattr(named, "iloc"):
        return named, True
    X = as_table(X)
    return pd.DataFrame(X.toarray() if hasattr(X, "toarray") else X), False


def label_of(name: Any, named: bool) -> str:
    """What tables and axes call a column: its name, or x0, x1, ... in an array."""
    return str(name) if named else f"x{name}"


def columns_of(features: Any, table: Any) -> list[Any]:
    """The columns that a user names, one or several.

    Raises
    ------
    ValueError
        Naming one that is not there.
    """
    features = [features] if isinstance(features, str | int) else list(features)
    for name in features:
        if name not in list(table.columns):
            raise ValueError(f"features has {name!r}, which is no column of X: {list(table.columns)[:20]}.")
    return features


def with_column(table: Any, feature: Any, values: Any, named: bool) -> Any:
    """The rows with another column in the place of one, in the type that was given."""
    changed = table.copy(deep=False)
    changed[feature] = values
    return changed if named else changed.to_numpy()


def groups_of(by: Any, table: Any) -> tuple[Array, list[Any]]:
    """Number of each row's group, and what the groups are called."""
    if by is None:
        return np.zeros(len(table), int), [None]
    if isinstance(by, str | int) and by not in list(table.columns):
        raise ValueError(f"by={by!r} is no column of X: {list(table.columns)[:20]}.")
    values = pd.Series(table[by].to_numpy() if isinstance(by, str | int) else np.asarray(by))
    if len(values) != len(table):
        raise ValueError(f"by has {len(values)} values and X has {len(table)} rows: one value per row.")
    if pd.api.types.is_float_dtype(values) and values.nunique() > MOST_VALUES and np.any(values % 1 != 0):
        what = f"by={by!r}" if isinstance(by, str | int) else "by"
        raise ValueError(
            f"{what} has {values.nunique()} values with fractions, and averages are within the rows of each: give "
            f"groups, at most {MOST_VALUES} of such numbers, as by=pandas.qcut(values, 4) makes them."
        )
    codes, names = pd.factorize(values, sort=True)
    if np.any(codes < 0):
        raise ValueError(f"by is missing in row {int(np.argmax(codes < 0))}.")
    return codes, list(names)


def constant(column: Any, value: Any, number: bool = False) -> Any:
    """The column with one value in all rows, in its own type, or as a number."""
    return pd.Series([value] * len(column), index=column.index, dtype=float if number else column.dtype)
