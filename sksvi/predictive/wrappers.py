"""Predictions of an estimator through scikit-learn's pipelines, searches and transformed targets."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.base import BaseEstimator

from sksvi._names import all_names
from sksvi._typing.arrays import ArrayLike, Columns, DataFrame, MatrixLike, PathLike, PerRow, RandomState
from sksvi.predictive.plain import tail_of

Array = np.ndarray

#: Step of the slope of a target's transformer, in units of the target: the error of a difference is its square.
STEP = 6e-6


def unwrapped(model: BaseEstimator) -> tuple[BaseEstimator, list[BaseEstimator], list[BaseEstimator]]:
    """The innermost estimator, the transformers of its rows in turn, and those of its target, innermost first.

    Parameters
    ----------
    model : estimator
        Itself, or in any nesting of Pipeline, search and TransformedTargetRegressor.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.predictive import unwrapped
    >>> unwrapped(make_pipeline(StandardScaler(), BayesianGLMRegressor()))
    (BayesianGLMRegressor(), [Pipeline(steps=[('standardscaler', StandardScaler())])], [])
    """
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    steps: list[Any] = []
    inverses: list[Any] = []
    while True:
        if isinstance(model, Pipeline):
            steps += [model[:-1]] if len(model.steps) > 1 else []
            model = model.steps[-1][1]
        elif isinstance(model, TransformedTargetRegressor):
            check_is_fitted(model)
            inverses.insert(0, model.transformer_)
            model = model.regressor_
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "param_distributions") or hasattr(model, "param_grid"):
            check_is_fitted(model)
            raise TypeError(f"{type(model).__name__} has no best_estimator_: set refit=True.")
        else:
            return model, steps, inverses


def predict_interval(
    model: BaseEstimator,
    X: MatrixLike,
    coverage: float = 0.9,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    trials: PerRow | None = None,
    include_groups: Columns | None = None,
) -> Array:
    """Equal-tailed predictive interval of y, shape (n, 2), through Pipeline, search and TransformedTargetRegressor.

    Parameters
    ----------
    model : estimator
        A fitted regressor with ``predict_interval``, or one of scikit-learn's wrappers around it.
    X : array-like
        What the wrapper's own ``predict`` takes.
    coverage : float, default=0.9
        Probability of the interval.
    offset, exposure : array-like of shape (n,), default=None
        Of the rows of X, for the regressor inside.
    trials : int or array-like of shape (n,), default=None
        Of binomial y: how many trials each row has, whose successes are counted.
    include_groups : str, int or list, default=None
        Of mixed effects: the groups whose effects are in f, as in `GMERegressor.predict`.

    Raises
    ------
    TypeError
        If there is no regressor with ``predict_interval`` inside, or it does not take what is given beside X.
    """
    tail = tail_of(coverage)
    if unwrapped(model)[2]:
        return predict_quantiles(model, X, [tail, 1.0 - tail], offset, exposure, trials, include_groups)
    inner, rows, _, offset = unwrapped_with_data(model, X, offset)
    beside = _beside(offset=offset, exposure=exposure, trials=trials, include_groups=include_groups)
    return _method(inner, "predict_interval")(rows, coverage=coverage, **beside)


def predict_quantiles(
    model: BaseEstimator,
    X: MatrixLike,
    q: ArrayLike,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    trials: PerRow | None = None,
    include_groups: Columns | None = None,
) -> Array:
    """Quantiles of the predictive distribution of y, shape (n, len(q)), through the wrappers of `predict_interval`.

    Through a TransformedTargetRegressor they are the inverse's values at the quantiles of the transformed target; a
    decreasing inverse takes those of 1 - q.

    Parameters
    ----------
    model : estimator
        A fitted regressor with ``predict_quantiles``, or one of scikit-learn's wrappers around it.
    X : array-like
        What the wrapper's own ``predict`` takes.
    q : array-like of shape (m,)
        In (0, 1).
    offset, exposure : array-like of shape (n,), default=None
        Of the rows of X, for the regressor inside.
    trials : int or array-like of shape (n,), default=None
        Of binomial y: how many trials each row has, whose successes are counted.
    include_groups : str, int or list, default=None
        Of mixed effects: the groups whose effects are in f, as in `GMERegressor.predict`.

    Raises
    ------
    TypeError
        If there is no regressor with ``predict_quantiles`` inside, or it does not take what is given beside X.
    """
    inner, rows, inverses, offset = unwrapped_with_data(model, X, offset)
    ask = _method(inner, "predict_quantiles")
    beside = _beside(offset=offset, exposure=exposure, trials=trials, include_groups=include_groups)
    found = ask(rows, q, **beside)
    if not inverses:
        return found
    ends = through(inverses, ask(rows, [0.25, 0.75], **beside))
    falls = np.any(ends[:, 1] < ends[:, 0])
    return through(inverses, ask(rows, 1.0 - np.atleast_1d(np.asarray(q, float)), **beside) if falls else found)


def predict_std(
    model: BaseEstimator,
    X: MatrixLike,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    include_groups: Columns | None = None,
) -> Array:
    """Predictive standard deviation of y, noise included, shape (n,), through the same wrappers as `predict_interval`.

    Through a TransformedTargetRegressor it is that of the transformed predictive distribution, from its quantiles.

    Parameters
    ----------
    model : estimator
        A fitted regressor with ``predict(X, return_std=True)``, or one of scikit-learn's wrappers around it.
    X : array-like
        What the wrapper's own ``predict`` takes.
    offset, exposure : array-like of shape (n,), default=None
        Of the rows of X, for the regressor inside.
    include_groups : str, int or list, default=None
        Of mixed effects: the groups whose effects are in f, as in `GMERegressor.predict`.

    Raises
    ------
    TypeError
        If there is no regressor with ``predict_quantiles`` inside, or it does not take what is given beside X.
    """
    inner, rows, inverses, offset = unwrapped_with_data(model, X, offset)
    beside = _beside(offset=offset, exposure=exposure, include_groups=include_groups)
    if not inverses:
        return _method(inner, "predict")(rows, return_std=True, **beside)[1]
    # E h(y) = E h(Q(Phi(z))) under z ~ N(0, 1), by the trapezoidal rule
    z = np.linspace(-7.0, 7.0, 29)
    weights = np.exp(-0.5 * z**2)
    weights /= weights.sum()
    y = through(inverses, _method(inner, "predict_quantiles")(rows, ndtr(z), **beside))
    mean = y @ weights
    return np.sqrt((y - mean[:, None]) ** 2 @ weights)


def sample_y(
    model: BaseEstimator,
    X: MatrixLike,
    n_samples: int = 1,
    random_state: RandomState = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    trials: PerRow | None = None,
    include_groups: Columns | None = None,
) -> Array:
    """Draws of y from the predictive distribution, shape (n, n_samples), through the same wrappers.

    Parameters
    ----------
    model : estimator
        A fitted regressor with ``sample_y``, or one of scikit-learn's wrappers around it.
    X : array-like
        What the wrapper's own ``predict`` takes.
    n_samples : int, default=1
    random_state : int, RandomState or None, default=None
    offset, exposure : array-like of shape (n,), default=None
        Of the rows of X, for the regressor inside.
    trials : int or array-like of shape (n,), default=None
        Of binomial y: how many trials each row has, whose successes are counted.
    include_groups : str, int or list, default=None
        Of mixed effects: the groups whose effects are in f, as in `GMERegressor.predict`.

    Raises
    ------
    TypeError
        If there is no regressor with ``sample_y`` inside, or it does not take what is given beside X.
    """
    inner, rows, inverses, offset = unwrapped_with_data(model, X, offset)
    beside = _beside(offset=offset, exposure=exposure, trials=trials, include_groups=include_groups)
    draws = _method(inner, "sample_y")(rows, n_samples, random_state, **beside)
    return through(inverses, draws) if inverses else draws


def log_predictive_density(
    model: BaseEstimator,
    X: MatrixLike,
    y: PerRow,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    include_groups: Columns | None = None,
) -> Array:
    """log p(y) of each row under the predictive distribution, nats, shape (n,), through the same wrappers.

    Through a TransformedTargetRegressor it is the density of y itself: that of the transformed target times the slope
    of the transformation, which is taken by differences.

    Parameters
    ----------
    model : estimator
        A fitted estimator with ``log_predictive_density``, or one of scikit-learn's wrappers around it.
    X : array-like
        What the wrapper's own ``predict`` takes.
    y : array-like of shape (n,)
        In the user's units.
    offset, exposure : array-like of shape (n,), default=None
        Of the rows of X, for the estimator inside.
    include_groups : str, int or list, default=None
        Of mixed effects: the groups whose effects are in f, as in `GMERegressor.predict`.

    Raises
    ------
    TypeError
        If there is no estimator with ``log_predictive_density`` inside, or it does not take what is given beside X.
    ValueError
        A transformation without a slope at a y.
    """
    inner, rows, inverses, offset = unwrapped_with_data(model, X, offset)
    ask = _method(inner, "log_predictive_density")
    stretched = 0.0
    for transformer in reversed(inverses):
        y = np.asarray(y, dtype=float)
        spread = float(np.std(y)) or 1.0
        step = STEP * np.where(y == 0, spread, np.abs(y))
        ends = (_there(transformer, y + sign * step) for sign in (1.0, -1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.log(np.abs(np.subtract(*ends)) / (2.0 * step))
        if not np.all(np.isfinite(slope)):
            row = int(np.argmin(np.isfinite(slope)))
            raise ValueError(f"the target's transformer has no slope at y = {y[row]:g} in row {row}: no density there.")
        stretched, y = stretched + slope, _there(transformer, y)
    return ask(rows, y, **_beside(offset=offset, exposure=exposure, include_groups=include_groups)) + stretched


def summary(model: BaseEstimator, **options: Any) -> DataFrame:
    """The table of the estimator inside, rows named by the columns that it was fitted on.

    Parameters
    ----------
    model : estimator
        A fitted estimator with ``summary``, or one of scikit-learn's wrappers around it. Coefficients are those of the
        transformed columns, and of a transformed target.
    **options : dict
        Of its ``summary``, such as ``coverage=0.9``.

    Returns
    -------
    DataFrame

    Raises
    ------
    TypeError
        If there is no estimator with ``summary`` inside.
    """
    return _method(with_names(model), "summary")(**options)


def summary_text(model: BaseEstimator, **options: Any) -> str:
    """The fit of the estimator inside as text, rows named by the columns that it was fitted on.

    Parameters
    ----------
    model : estimator
        A fitted estimator with ``summary_text``, or one of scikit-learn's wrappers around it.
    **options : dict
        Of its ``summary_text``, such as ``coverage=0.9``; X and y, for a score, as the estimator inside takes them.

    Returns
    -------
    str

    Raises
    ------
    TypeError
        If there is no estimator with ``summary_text`` inside.
    """
    text: str = _method(with_names(model), "summary_text")(**options)
    return text


def save(model: BaseEstimator, path: PathLike, training_rows: bool = True) -> None:
    """Save the estimator inside a wrapper, with the names of the columns that it was fitted on.

    The file holds the estimator alone, in the format that runs no code: transformers of rows and targets are not in
    it, and a warning says so. Of a model from a formula it holds all.

    Parameters
    ----------
    model : estimator
        A fitted estimator with ``save``, or one of scikit-learn's wrappers around it.
    path : str or path-like
        Where to; ``sksvi.load`` reads it.
    training_rows : bool, default=True
        Whether the file has what belongs to single training rows; predictions of new rows do not need it.

    Raises
    ------
    TypeError
        If there is no estimator with ``save`` inside.

    Warns
    -----
    UserWarning
        If there are transformers, which are not saved.
    """
    inner, steps, inverses = unwrapped(model)
    whole = getattr(model, "best_estimator_", model)
    if hasattr(whole, "save"):
        whole.save(path, training_rows)
        return
    _method(with_names(model), "save")(path, training_rows)
    if steps or inverses:
        left = [*(name for step in steps for name in step.named_steps), *(type(one).__name__ for one in inverses)]
        warnings.warn(
            f"{path} holds the {type(inner).__name__} alone: keep {', '.join(left)} by other means (pickle, skops), "
            "and give what they make of X to the estimator that sksvi.load returns.",
            UserWarning,
            stacklevel=2,
        )


def with_names(model: BaseEstimator) -> Any:
    """A copy of the estimator inside, its columns named as the steps before it do."""
    inner, steps, _ = unwrapped(model)
    named = copy.copy(inner)
    if steps and hasattr(inner, "n_features_in_") and not hasattr(inner, "feature_names_in_"):
        named.feature_names_in_ = np.asarray([str(name) for name in all_names(inner, steps[-1])], dtype=object)
    return named


def through_steps(steps: list[Any], X: Any, offset: Any = None) -> tuple[Any, Any]:
    """Rows as transformers make them in turn, and their offset with what these add to it, as formulas do."""
    for step in steps:
        own = step.offset_of(X) if hasattr(step, "offset_of") else None
        offset = own if offset is None else offset if own is None else own + np.asarray(offset, float)
        X = step.transform(X)
    return X, offset


def unwrapped_with_data(model: Any, X: Any, offset: Any = None) -> tuple[Any, Any, list[Any], Any]:
    """The innermost estimator, its X, the transformers of the target, innermost first, and the offset."""
    inner, steps, inverses = unwrapped(model)
    X, offset = through_steps(steps, X, offset)
    return inner, X, inverses, offset


def through(inverses: list[Any], y: Array) -> Array:
    """Quantiles or draws (n, k) in the units of the target before its transformers."""
    y = np.asarray(y)
    for transformer in inverses:
        y = np.asarray(transformer.inverse_transform(y.reshape(-1, 1))).reshape(y.shape)
    return y


def _there(transformer: Any, y: Array) -> Array:
    """Targets as the transformer has them."""
    return np.asarray(transformer.transform(np.reshape(y, (-1, 1))), dtype=float).reshape(np.shape(y))


def _beside(**beside: Any) -> dict[str, Any]:
    """What goes to the method inside, where it is given."""
    return {name: value for name, value in beside.items() if value is not None}


def _method(model: Any, name: str) -> Callable[..., Any]:
    method = getattr(model, name, None)
    if method is None:
        ours = type(model).__module__.startswith(__package__.partition(".")[0])
        remedy = "it is not for this kind of target" if ours else "fit one of sksvi's estimators inside the wrapper"
        raise TypeError(f"{type(model).__name__} has no {name}: {remedy}.")
    return method
