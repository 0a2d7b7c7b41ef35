"""Scores of intervals, draws, probabilities and recommendations, and scorers for cross-validation and searches.

All functions take what was observed first, as :mod:`sklearn.metrics` does. Scorers are called with a fitted estimator,
rows and targets, and more is better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from sksvi._ranking import average_precision_score, catalogue_coverage, ndcg_score, precision_score, recall_score
from sksvi._typing.arrays import ArrayLike, MatrixLike, PerRow
from sksvi.estimators.checks import check_numbers, check_row_values
from sksvi.predictive import log_predictive_density, predict_interval, predict_quantiles
from sksvi.predictive.plain import tail_of

Array = np.ndarray

__all__ = [
    "average_precision_score",
    "catalogue_coverage",
    "coverage_error",
    "crps",
    "crps_scorer",
    "expected_calibration_error",
    "interval_score",
    "interval_scorer",
    "log_density_scorer",
    "ndcg_score",
    "precision_score",
    "recall_score",
]

#: Coverage of the intervals of `interval_scorer`, and the quantiles of `crps_scorer`.
COVERAGE, LEVELS = 0.9, (np.arange(100) + 0.5) / 100


def crps(y_true: ArrayLike, draws: ArrayLike, *, sample_weight: PerRow | None = None) -> float:
    """Continuous ranked probability score of draws from a predictive distribution, in the units of y; less is better.

    E|Y - y| - E|Y - Y'| / 2 for independent draws Y, Y' of the prediction, without bias for any number of draws
    (Ferro 2014, "Fair scores for ensemble forecasts"). Of a single value it would be the absolute error.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    draws : array-like of shape (n, S)
        At least 2 of each row, as `sample_y` gives.
    sample_weight : array-like of shape (n,), default=None

    Returns
    -------
    float
        Mean over rows.

    Raises
    ------
    ValueError
        For shapes that do not agree, or fewer than 2 draws.

    References
    ----------
    Gneiting and Raftery (2007), "Strictly proper scoring rules, prediction, and estimation".

    Examples
    --------
    >>> from sksvi.metrics import crps
    >>> crps([0.0, 1.0], [[-1.0, 1.0], [0.0, 1.0]])
    0.0
    """
    y, x = _numbers(y_true), check_array(draws, dtype=float, ensure_min_features=2)
    check_consistent_length(y, x)
    x, n = np.sort(x, axis=1), x.shape[1]
    # Of sorted draws the sum of all |x_i - x_j| is a weighted sum of these.
    spread = x @ (2.0 * np.arange(n) - (n - 1)) / (n * (n - 1))
    return _mean(np.abs(x - y[:, None]).mean(1) - spread, sample_weight)


def interval_score(
    y_true: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, coverage: float = 0.9, sample_weight: PerRow | None = None
) -> float:
    """Width of intervals plus what they miss by, times 2 / (1 - coverage), in the units of y; less is better.

    Parameters
    ----------
    y_true, lower, upper : array-like of shape (n,)
    coverage : float, default=0.9
        That the intervals claim, equal tails, in (0, 1).
    sample_weight : array-like of shape (n,), default=None

    Returns
    -------
    float
        Mean over rows.

    Raises
    ------
    ValueError
        For an interval whose ends are exchanged, naming its row, or shapes that do not agree.

    References
    ----------
    Gneiting and Raftery (2007), eq. 43.

    Examples
    --------
    >>> from sksvi.metrics import interval_score
    >>> interval_score([0.0, 3.0], [-1.0, -1.0], [1.0, 1.0], coverage=0.75)
    10.0
    """
    tail = tail_of(coverage)
    y, low, high = _ends(y_true, lower, upper)
    missed = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return _mean(high - low + missed / tail, sample_weight)


def coverage_error(
    y_true: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, coverage: float = 0.9, sample_weight: PerRow | None = None
) -> float:
    """Share of y in their intervals, less what these claim: below 0 they are too narrow.

    Parameters
    ----------
    y_true, lower, upper : array-like of shape (n,)
        Both ends belong to an interval.
    coverage : float, default=0.9
        In (0, 1).
    sample_weight : array-like of shape (n,), default=None

    Returns
    -------
    float
        In (-1, 1). Its standard error is about (coverage (1 - coverage) / n)^½ for independent rows.

    Raises
    ------
    ValueError
        For an interval whose ends are exchanged, naming its row, or shapes that do not agree.

    Examples
    --------
    >>> from sksvi.metrics import coverage_error
    >>> coverage_error([0.0, 3.0], [-1.0, -1.0], [1.0, 1.0], coverage=0.75)
    -0.25
    """
    tail_of(coverage)
    y, low, high = _ends(y_true, lower, upper)
    return _mean(((low <= y) & (y <= high)).astype(float), sample_weight) - coverage


def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    n_bins: int = 15,
    sample_weight: PerRow | None = None,
) -> float:
    """Mean distance between the probability of the likeliest class and how often it comes, in bins of that probability.

    Bins have equal width. It is 0 of perfect probabilities only for very many rows: noise in a bin adds to it.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    y_proba : array-like of shape (n, K) or (n,)
        As `predict_proba` gives, or of two classes the probability of the second.
    labels : array-like of shape (K,), default=None
        Label of each column, such as ``classes_``; None: the sorted labels of `y_true`.
    n_bins : int, default=15
    sample_weight : array-like of shape (n,), default=None

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        For labels that are not as many as columns, or a y_true that is none of them.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), "On calibration of modern neural networks".

    Examples
    --------
    >>> from sksvi.metrics import expected_calibration_error
    >>> expected_calibration_error([0, 1, 1, 1], [[0.25, 0.75]] * 4)
    0.0
    """
    y, p = column_or_1d(y_true), check_array(y_proba, dtype=float, ensure_2d=False)
    p = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
    check_consistent_length(y, p)
    classes = np.unique(y) if labels is None else column_or_1d(labels)
    if len(classes) != p.shape[1]:
        raise ValueError(
            f"y_proba has {p.shape[1]} columns for {len(classes)} labels: give the label of each, labels=classes_."
        )
    if not np.isin(y, classes).all():
        other = y[~np.isin(y, classes)].tolist()[0]
        raise ValueError(f"y_true has the label {other!r}, and labels are {classes.tolist()[:20]}.")
    if isinstance(n_bins, bool) or int(n_bins) != n_bins or n_bins < 1:
        raise ValueError(f"n_bins must be a whole number of at least 1; found {n_bins!r}.")
    top = p.argmax(1)
    confidence, hit = p[np.arange(len(p)), top], classes[top] == y
    weight = _weights(sample_weight, len(y))
    bins = np.minimum((confidence * n_bins).astype(int), int(n_bins) - 1)
    return float(np.abs(np.bincount(bins, weight * (hit - confidence))).sum() / weight.sum())


# ---- scorers
def log_density_scorer(
    estimator: BaseEstimator, X: MatrixLike, y: PerRow, sample_weight: PerRow | None = None
) -> float:
    """Mean log p(y) under the predictive distribution, nats a row: a scorer, ``scoring=log_density_scorer``.

    Of a classifier of another library it is minus the log loss, so that both may stand in one search.

    Parameters
    ----------
    estimator : fitted estimator
        With ``log_predictive_density``, itself or in scikit-learn's wrappers, or with ``predict_log_proba``.
    X : array-like of shape (n, D)
    y : array-like of shape (n,)
    sample_weight : array-like of shape (n,), default=None

    Returns
    -------
    float
        More is better.

    Raises
    ------
    TypeError
        For an estimator with neither.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import cross_val_score
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.metrics import log_density_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> scores = cross_val_score(BayesianGLMRegressor(), X, y, scoring=log_density_scorer)
    >>> bool(scores.mean() > -5.6)
    True
    """
    try:
        density = log_predictive_density(estimator, X, y)
    except TypeError:
        if not hasattr(estimator, "predict_log_proba"):
            raise
        labels, classes = column_or_1d(y), estimator.classes_
        at = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        log_p = np.asarray(estimator.predict_log_proba(X))[np.arange(len(at)), at]
        density = np.where(classes[at] == labels, log_p, -np.inf)
    return _mean(density, sample_weight)


def crps_scorer(estimator: BaseEstimator, X: MatrixLike, y: PerRow, sample_weight: PerRow | None = None) -> float:
    """Minus the continuous ranked probability score of predictions, in the units of y: a scorer.

    Twice the mean loss of 100 predictive quantiles, which needs no random draws.

    Parameters
    ----------
    estimator : fitted estimator
        With ``predict_quantiles``, itself or in scikit-learn's wrappers.
    X : array-like of shape (n, D)
    y : array-like of shape (n,)
        Numbers.
    sample_weight : array-like of shape (n,), default=None

    Returns
    -------
    float
        More is better.

    Raises
    ------
    TypeError
        For an estimator without quantiles.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.metrics import crps_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bool(crps_scorer(BayesianGLMRegressor().fit(X, y), X, y) > -32)
    True
    """
    y = _numbers(y, "y")
    above = y[:, None] - _numeric(predict_quantiles(estimator, X, LEVELS))
    return -_mean(2.0 * np.where(above > 0, LEVELS * above, (LEVELS - 1.0) * above).mean(1), sample_weight)


def interval_scorer(estimator: BaseEstimator, X: MatrixLike, y: PerRow, sample_weight: PerRow | None = None) -> float:
    """Minus the interval score of 90 % predictive intervals, in the units of y: a scorer.

    Parameters
    ----------
    estimator : fitted estimator
        With ``predict_interval``, itself or in scikit-learn's wrappers.
    X : array-like of shape (n, D)
    y : array-like of shape (n,)
        Numbers.
    sample_weight : array-like of shape (n,), default=None

    Returns
    -------
    float
        More is better.

    Raises
    ------
    TypeError
        For an estimator without intervals.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.metrics import interval_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bool(interval_scorer(BayesianGLMRegressor().fit(X, y), X, y) > -250)
    True
    """
    lower, upper = _numeric(predict_interval(estimator, X, COVERAGE)).T
    return -interval_score(_numbers(y, "y"), lower, upper, coverage=COVERAGE, sample_weight=sample_weight)


# ---- checks
def _numbers(y: Any, name: str = "y_true") -> Array:
    """A column of numbers; an error says where others stand."""
    return column_or_1d(check_numbers(y, name))


def _numeric(predicted: Array) -> Array:
    if predicted.dtype.kind not in "fiu":
        raise TypeError(f"predictions are levels such as {predicted.flat[0]!r}, and this score needs numbers.")
    return np.asarray(predicted, float)


def _ends(y_true: Any, lower: Any, upper: Any) -> tuple[Array, Array, Array]:
    y, low, high = _numbers(y_true), _numbers(lower, "lower"), _numbers(upper, "upper")
    check_consistent_length(y, low, high)
    if np.any(low > high):
        row = int(np.argmax(low > high))
        raise ValueError(f"lower is above upper in row {row}: {low[row]:g} and {high[row]:g}.")
    return y, low, high


def _weights(sample_weight: Any, n: int) -> Array:
    weight = check_row_values(sample_weight, n, "sample_weight", weights=True)
    return np.ones(n) if weight is None else weight


def _mean(values: Array, sample_weight: Any) -> float:
    """Weighted mean over rows."""
    return float(np.average(values, weights=_weights(sample_weight, len(values))))
