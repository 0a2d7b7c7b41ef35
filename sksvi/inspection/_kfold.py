"""Expected log density of new rows by fits without some of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.pipeline import Pipeline

from sksvi._typing.arrays import Columns, MatrixLike, PerRow, RandomState
from sksvi.estimators.checks import n_rows
from sksvi.estimators.tables import framed
from sksvi.inspection._fitted_rows import check_in_memory
from sksvi.inspection._loo import ElpdResult, group_labels, indexed_by_rows, summed
from sksvi.predictive.wrappers import log_predictive_density

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator

Array = np.ndarray


def kfold(
    model: BaseEstimator,
    X: MatrixLike,
    y: PerRow,
    *,
    cv: int | BaseCrossValidator | Iterable[tuple[np.ndarray, np.ndarray]] = 10,
    sample_weight: PerRow | None = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    groups: Columns | PerRow | None = None,
    random_state: RandomState = 0,
) -> ElpdResult:
    """Expected log density of new rows by fits of clones without them: slower than `loo`, and trusts no message.

    Parameters
    ----------
    model : estimator
        With ``log_predictive_density``, fitted or not; or a Pipeline, search or TransformedTargetRegressor around one.
    X : {DataFrame, array-like, sparse matrix} of shape (n, D)
    y : array-like of shape (n,), binomial (n, 2)
    cv : int, splitter or iterable, default=10
        Number of folds, as many as rows (or groups) at most, which leaves each out alone; a splitter of scikit-learn,
        or pairs of rows to fit and to leave out. Folds of labels have each label's share.
    sample_weight, offset, exposure : array-like of shape (n,), default=None
        Of the rows. A left-out row is left out with all of its weight.
    groups : str, int or array-like of shape (n,), default=None
        Column of X, or labels of rows, whose rows are left out together.
    random_state : int, RandomState or None, default=0
        Of the folds.

    Returns
    -------
    ElpdResult
        As of `loo`, without ``k_hat``; p_loo is from a fit to all rows.

    Raises
    ------
    TypeError
        If there is no estimator with ``log_predictive_density`` inside; for Dask collections.
    ValueError
        Where folds do not leave out every row once, or there are more of them than rows or groups.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.inspection import kfold
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> found = kfold(BayesianGLMRegressor(), X, y, cv=5)
    >>> print(f"{found.elpd_loo:.0f} ± {found.se:.0f}")
    -2395 ± 14
    """
    check_in_memory(X=X, y=y, sample_weight=sample_weight, offset=offset, exposure=exposure)
    n, table, target = n_rows(X), framed(X), y if hasattr(y, "iloc") else np.asarray(y)
    labels = None if groups is None else group_labels(X, groups, n)
    pairs = (("offset", offset), ("exposure", exposure))
    beside = {name: np.asarray(values, float) for name, values in pairs if values is not None}
    weight = None if sample_weight is None else np.asarray(sample_weight, float)
    folds = _splits(model, table, target, labels, cv, random_state)
    elpd = np.empty(n)
    for rows, left in folds:
        elpd[left] = _densities(model, table, target, weight, beside, rows, left)
    every = np.arange(n)
    inside = _densities(model, table, target, weight, beside, every, every)
    frame = indexed_by_rows(pd.DataFrame({"elpd": elpd, "p_loo": inside - elpd}), X, weight, labels)
    return summed(frame, f"{len(folds)}-fold cross-validation")


def _splits(model: Any, X: Any, y: Any, labels: Array | None, cv: Any, random_state: Any) -> list[tuple[Array, Array]]:
    """Rows to fit and to leave out, of each fold."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, check_cv

    n = n_rows(X)
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        units = n if labels is None else len(pd.unique(labels))
        if not 2 <= cv <= units:
            raise ValueError(f"cv={cv} must lie between 2 and the {units} {'rows' if labels is None else 'groups'}.")
        counts = np.unique(np.asarray(y), return_counts=True)[1] if is_classifier(model) else np.zeros(1)
        if labels is not None:
            cv = GroupKFold(int(cv))
        else:
            cv = (StratifiedKFold if counts.min() >= cv else KFold)(int(cv), shuffle=True, random_state=random_state)
    folds = [(np.asarray(a), np.asarray(b)) for a, b in check_cv(cv).split(X, y, labels)]
    left = np.sort(np.concatenate([part for _, part in folds]))
    if not np.array_equal(left, np.arange(n)):
        raise ValueError(f"cv={cv!r} does not leave out each of the {n} rows once: take KFold, or a number of folds.")
    return folds


def _densities(
    model: Any, X: Any, y: Any, weight: Array | None, beside: dict[str, Array], rows: Array, left: Array
) -> Array:
    """log p(y) of the rows `left`, from a clone that was fitted to `rows`."""
    from sklearn.utils import _safe_indexing

    given = beside if weight is None else {**beside, "sample_weight": weight}
    prefix = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
    options = {prefix + name: values[rows] for name, values in given.items()}
    fitted = clone(model).fit(_safe_indexing(X, rows), _safe_indexing(y, rows), **options)
    there = {name: values[left] for name, values in beside.items()}
    return np.asarray(log_predictive_density(fitted, _safe_indexing(X, left), _safe_indexing(y, left), **there))
