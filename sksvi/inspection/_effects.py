"""Average slopes and contrasts of the mean of y, with intervals over draws of the posterior."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import ArrayLike, DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.base import drawn_seed
from sksvi.estimators.checks import check_choice, check_count, check_row_values
from sksvi.inspection._answers import table_of_draws
from sksvi.inspection._changed_rows import (
    MOST_VALUES,
    STEP,
    ChangedRowMeans,
    category_columns,
    columns_of,
    constant,
    group_columns,
    groups_of,
    levelled_columns,
    with_column,
)
from sksvi.inspection._grid import rows_to_average
from sksvi.inspection._means import MeansByLevel
from sksvi.predictive.plain import tail_of

Array = np.ndarray

#: Draws without which there is no spread.
LEAST_DRAWS = 2


def marginal_effects(
    model: BaseEstimator,
    X: MatrixLike | None,
    features: Sequence[str | int] | None = None,
    by: str | int | ArrayLike | None = None,
    *,
    kind: str = "effects",
    grid: str = "observed",
    scale: str = "response",
    coverage: float = 0.9,
    sample_weight: PerRow | None = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    n_draws: int = 400,
    random_state: RandomState = 0,
) -> DataFrame:
    """Average slopes of columns of numbers and contrasts between values of others, or marginal means of these.

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
    X : {DataFrame, array-like} of shape (n, D), or None
        Rows over which is averaged, as the model's `predict` takes them. None: a balanced grid of the levels and means
        that the fit, or a pipeline's encoders and scalers, have of the columns.
    features : list of str or int, default=None
        Columns, by name, or by number in an array. None: all but those that name groups, or have missing values.
    by : str, int or array-like of shape (n,), default=None
        A column of X, or a value per row: averages within the rows of each of its values, of which there may be 40 at
        most where they are numbers with fractions.
    kind : {"effects", "means"}, default="effects"
        "means": in the place of differences E[y | x] itself, or f, with the column at each of its levels in turn, under
        the joint posterior: estimated marginal means. With ``features=[]`` rows stay as they are: with `by` and counts
        of a population as `sample_weight` that is poststratification.
    grid : {"observed", "balanced"}, default="observed"
        Average over the rows of X, or over every combination of the levels that they have (of up to 20,000), numbers at
        their means and groups without a level: the reference grid of emmeans.
    scale : {"response", "link"}, default="response"
        Of means: E[y], averaged over the rows; or f, whose average is exact, as those of y are where y = f + noise.
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
        column. Of means a row per level, without direction.

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
    tail_of(coverage)
    n_draws = check_count(n_draws, "n_draws", least=LEAST_DRAWS, bytes_each=16.0)
    check_choice(kind, "kind", ("effects", "means"))
    if check_choice(scale, "scale", ("response", "link")) == "link" and kind == "effects":
        raise ValueError("scale='link' is for kind='means': differences of f are those of contrasts() and summary().")
    answers = ChangedRowMeans(model, n_draws, drawn_seed(random_state), offset, exposure)
    table, named = rows_to_average(answers, X, grid)
    weight = check_row_values(sample_weight, len(table), "sample_weight", weights=True)
    groups, names = groups_of(by, table)
    by_name = None if by is None else by if isinstance(by, str | int) else "by"
    chosen = _features(features, table, by, answers.inner)
    if kind == "means":
        question = MeansByLevel(answers, table, named, (groups, names, by_name), weight, scale == "link")
        return question.table(chosen if features is not None else question.with_levels(chosen), coverage)
    found = {}
    for feature in chosen:
        for contrast, low, high, unit in differences(answers, table, feature, named):
            low, high = (with_column(table, feature, values, named) for values in (low, high))
            effect = answers.effect_of(low, high)
            draws = np.subtract(*(answers.averages(rows, groups, len(names), weight, effect) for rows in (high, low)))
            for g, name in enumerate(names):
                for label, own in zip(answers.names, np.asarray(draws)[g].T / unit, strict=True):
                    found[feature, contrast, name, label] = own
    return _table(found, coverage, by_name, answers.names)


def _features(features: Any, table: Any, by: Any, inner: Any) -> list[Any]:
    if features is None:
        selected = [name for name in table.columns if name not in group_columns(inner)]
        missing = [name for name in selected if name not in category_columns(inner) and table[name].isna().any()]
        if missing:
            warn_user(
                f"columns {missing} of X have missing values and are left out: fill them in, to say where effects are "
                "taken, or leave rows out."
            )
        return [name for name in selected if name not in missing]
    return columns_of(features, table)


def differences(answers: ChangedRowMeans, table: Any, name: Any, named: bool) -> Iterator[tuple[str, Any, Any, float]]:
    """Slope or differences of a column: the name of each, its values at either end, and their distance."""
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


def _table(found: dict[Any, Array], coverage: float, by: Any, labels: Sequence[Any]) -> Any:
    """Mean, spread and interval of every average."""
    if not found:
        raise ValueError("features names no column: name one, or set kind='means' for averages over rows as they are.")
    levels = [0, 1] + ([2] if by is not None else []) + ([3] if labels[0] is not None else [])
    names = ["feature", "contrast", by, "class"]
    index = pd.MultiIndex.from_tuples(
        [tuple(key[i] for i in levels) for key in found], names=[names[i] for i in levels]
    )
    return table_of_draws(np.stack(list(found.values())).T, coverage).set_axis(index, axis=0)
