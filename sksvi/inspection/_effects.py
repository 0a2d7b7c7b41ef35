"""Average slopes and contrasts of the mean of y, with intervals over draws of the posterior."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from sksvi._names import categorical_columns, grouping_columns
from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import ArrayLike, DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.base import drawn_seed
from sksvi.estimators.checks import check_count, check_row_values
from sksvi.estimators.offsets import with_exposure
from sksvi.estimators.tables import as_table, framed
from sksvi.predictive.plain import tail_of
from sksvi.predictive.wrappers import unwrapped

Array = np.ndarray

#: Step of a slope, in standard deviations of its column: the error of a difference to both sides is its square.
STEP = 1e-4
#: Draws without which there is no spread.
LEAST_DRAWS = 2
#: Values of a column of numbers without a slope, or with fractions in groups, up to which they are compared.
MOST_VALUES = 40


def marginal_effects(
    model: BaseEstimator,
    X: MatrixLike,
    features: Sequence[str | int] | None = None,
    by: str | int | ArrayLike | None = None,
    *,
    coverage: float = 0.9,
    sample_weight: PerRow | None = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    n_draws: int = 400,
    random_state: RandomState = 0,
) -> DataFrame:
    """Average slopes of columns of numbers and contrasts between values of others, on the scale of the mean of y.

    For a column of numbers: the derivative of E[y | x] in it, averaged over the rows of X. For words, categories, truth
    values, numbers of two values and numbers that the pipeline makes categories or bins of: the difference of E[y | x]
    between a value and the first one, all rows set to either, averaged. Every draw from the posterior gives such an
    average; the table has their mean and spread. Of classifiers E[y | x] is the probability of the second label, of
    more than two, and of ordered names, that of each.

    Parameters
    ----------
    model : fitted estimator
        A linear model, one with mixed effects or a sparse Gaussian process; or a Pipeline or search around one, whose
        transformers see the changed rows, so that columns are those that the user has.
    X : {DataFrame, array-like} of shape (n, D)
        Rows over which is averaged, as the model's `predict` takes them.
    features : list of str or int, default=None
        Columns, by name, or by number in an array. None: all but those that name groups, or have missing values.
    by : str, int or array-like of shape (n,), default=None
        A column of X, or a value per row: averages within the rows of each of its values, of which there may be 40 at
        most where they are numbers with fractions.
    coverage : float, default=0.9
        Of the equal-tailed interval (lower, upper).
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows in averages.
    offset, exposure : array-like of shape (n,), default=None
        As in `fit`; None: averages are for an offset of 0, an exposure of 1, with a warning if the fit had one.
    n_draws : int, default=400
        Draws from the posterior, at least 2.
    random_state : int, RandomState or None, default=0

    Returns
    -------
    DataFrame
        A row per column and contrast (and value of `by`, and label), with the columns mean, std, lower, upper and
        direction, the probability of the mean's sign. Slopes are in units of y, or in probability, per unit of the
        column.

    Raises
    ------
    TypeError
        If there is no estimator inside that has draws of its latents.
    ValueError
        Naming a feature that is no column, has missing values or one value only, or of which bins are made and that has
        more than 40 values; `by` of more than 40 numbers with fractions, which make no groups; fewer than 2 draws.

    Warns
    -----
    UserWarning
        For columns with missing values that are left out.

    Notes
    -----
    The "average marginal effect" of econometrics (Long and Freese 2014, ch. 4): posterior draws in the place of the
    delta method. Of a linear model whose prior was learned the effect of the column has a weak prior of its own, as in
    `summary`, and the other coefficients follow it as they do in the posterior; not where columns are more than rows.
    Of a Gaussian process, what the inducing values leave open counts as each row's own and
    averages out.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sksvi import BayesianGLMClassifier
    >>> from sksvi.inspection import marginal_effects
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X[["mean radius", "mean texture"]]
    >>> marginal_effects(BayesianGLMClassifier().fit(X, y), X)["mean"].round(2).tolist()
    [-0.08, -0.02]
    """
    tail, n_draws = tail_of(coverage), check_count(n_draws, "n_draws", least=LEAST_DRAWS, bytes_each=16.0)
    seed = drawn_seed(random_state)
    answers = ChangedRowMeans(model, n_draws, seed, offset, exposure)
    table, named = frame_of(X)
    weight = check_row_values(sample_weight, len(table), "sample_weight", weights=True)
    groups, names = _groups(by, table)
    found = {}
    for feature in _features(features, table, by, answers.inner):
        for contrast, low, high, unit in _contrasts(answers, table, feature, named):
            low, high = (with_column(table, feature, values, named) for values in (low, high))
            effect = answers.effect_of(low, high)
            ends = (answers.averages(changed, groups, len(names), weight, effect) for changed in (high, low))
            draws = np.subtract(*ends)
            for g, name in enumerate(names):
                for label, own in zip(answers.names, np.asarray(draws)[g].T / unit, strict=True):
                    found[feature, contrast, name, label] = own
    return _table(found, tail, None if by is None else by if isinstance(by, str | int) else "by", answers.names)


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
        X = self.transformed(X)
        offset = with_exposure(self.inner, self.offset, self.exposure, X)
        options = {} if effect is None else {"effect": effect}
        yield from self.inner._mean_draws(X, self.n_draws, self.seed, offset, **options)

    def transformed(self, X: Any) -> Any:
        """Rows as the estimator inside takes them."""
        for step in self.steps:
            X = step.transform(X)
        return X

    def effect_of(self, low: Any, high: Any) -> Any:
        """What of a linear model is under a weak prior of its own where these rows are compared; None: nothing."""
        if not hasattr(self.inner, "_effect_of"):
            return None
        return self.inner._effect_of(self.transformed(low), self.transformed(high))

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
                own = np.where(groups[rows] == g, weight[rows], 0.0)
                total[g] += np.tensordot(own, means.astype(float), 1)
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


def with_column(table: Any, feature: Any, values: Any, named: bool) -> Any:
    """The rows with another column in the place of one, in the type that was given."""
    changed = table.copy(deep=False)
    changed[feature] = values
    return changed if named else changed.to_numpy()


def _features(features: Any, table: Any, by: Any, inner: Any) -> list[Any]:
    columns = list(table.columns)
    if features is None:
        selected = [name for name in columns if name not in group_columns(inner)]
        missing = [name for name in selected if name not in category_columns(inner) and table[name].isna().any()]
        if missing:
            warn_user(
                f"columns {missing} of X have missing values and are left out: fill them in, to say where effects are "
                "taken, or leave rows out."
            )
        return [name for name in selected if name not in missing]
    features = [features] if isinstance(features, str | int) else list(features)
    for name in features:
        if name not in columns:
            raise ValueError(f"features has {name!r}, which is no column of X: {columns[:20]}.")
    return features


def _groups(by: Any, table: Any) -> tuple[Array, list[Any]]:
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


def _contrasts(answers: ChangedRowMeans, table: Any, name: Any, named: bool) -> Iterator[tuple[str, Any, Any, float]]:
    """Contrasts of a column: the name of each, the column's values at either end, and their distance."""
    column = table[name]
    if column.isna().any() and name not in category_columns(answers.inner):
        raise ValueError(f"column {name!r} of X has missing values: fill them in, to say where effects are taken.")
    numbers = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    values = column.cat.categories if hasattr(column, "cat") else np.sort(column.dropna().unique())
    if len(values) < 2:
        raise ValueError(f"column {name!r} of X has one value only, {list(values)}: there is nothing to compare.")
    if numbers and len(values) > 2 and name not in levelled_columns(answers.inner):
        x, step = column.astype(float), STEP * float(column.std())
        if answers.smooth(table, name, named, x, step):
            yield "slope", x - step, x + step, 2.0 * step
            return
        if len(values) > MOST_VALUES:
            raise ValueError(
                f"the mean of y jumps along column {name!r} of X, which has {len(values)} values: something makes bins "
                "or categories of it, so that it has no slope. Leave it out of features, or give X with fewer values."
            )
    for value in values[1:]:
        low, high = (constant(column, end) for end in (values[0], value))
        yield f"{value} - {values[0]}", low, high, 1.0


def constant(column: Any, value: Any, number: bool = False) -> Any:
    """The column with one value in all rows, in its own type, or as a number."""
    return pd.Series([value] * len(column), index=column.index, dtype=float if number else column.dtype)


def _table(found: dict[Any, Array], tail: float, by: Any, labels: Sequence[Any]) -> Any:
    """Mean, spread and interval of every average."""
    draws = np.stack(list(found.values()))
    mean = draws.mean(axis=1)
    lower, upper = np.quantile(draws, [tail, 1.0 - tail], axis=1)
    share = np.mean(np.sign(draws) == np.sign(mean)[:, None], axis=1)
    columns = {"mean": mean, "std": draws.std(axis=1), "lower": lower, "upper": upper, "direction": share}
    levels = [0, 1] + ([2] if by is not None else []) + ([3] if labels[0] is not None else [])
    names = ["feature", "contrast", by, "class"]
    index = pd.MultiIndex.from_tuples(
        [tuple(key[i] for i in levels) for key in found], names=[names[i] for i in levels]
    )
    return pd.DataFrame(columns, index=index)
