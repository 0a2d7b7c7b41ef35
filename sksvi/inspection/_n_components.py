"""How many classes or topics: what speaks for each number of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone

from sksvi._typing.arrays import DataFrame, MatrixLike, RandomState
from sksvi.estimators.checks import check_count, n_rows
from sksvi.inspection._fitted_rows import check_in_memory
from sksvi.predictive.wrappers import unwrapped

Array = np.ndarray


def n_components_curve(
    estimator: BaseEstimator, X: MatrixLike, n_components: Iterable[int], *, cv: int = 5, random_state: RandomState = 0
) -> DataFrame:
    """What speaks for each number of classes of a mixture, or of topics.

    Mixtures are fitted to all rows. ``bound`` is the bound on the log evidence, in which weights and probabilities are
    integrated out, plus the logarithm of the number of ways to name the components that are used: each is a mode of
    the posterior as high as the fitted one (Bishop, Pattern Recognition and Machine Learning, 10.2.4). ``bic`` is the
    log likelihood at the highest maximum that expectation maximisation finds from ten starts, less half of log n for
    each free parameter (Schwarz 1978, times -1/2, so that both are nats, and larger is better).

    Topic models are fitted without the documents of each fold, and score these, and say how coherent topics are in
    them. Covariates of documents are not used.

    Parameters
    ----------
    estimator : estimator
        A mixture or a topic model, fitted or not; or a Pipeline around one, whose steps before it are fitted once.
    X : {array-like, sparse matrix, DataFrame} of shape (n, D)
        Rows, or documents.
    n_components : iterable of int
        Numbers to compare.
    cv : int, default=5
        Folds of documents, of topic models.
    random_state : int, RandomState or None, default=0
        Of the folds.

    Returns
    -------
    DataFrame
        A row per number, in increasing order. Of mixtures ``bound``, ``bic`` and ``n_used``, the components that have
        rows; of topic models ``score`` (held-out log likelihood per word, mean over folds), ``score_se``, the standard
        error of its difference from the best one, fold by fold, and ``coherence`` (NPMI, mean over topics and folds).

    Raises
    ------
    TypeError
        For an estimator of another kind, and for Dask collections.
    ValueError
        Without numbers, for one that is no whole number of at least 1, and for more folds than documents.

    See Also
    --------
    sksvi.NComponentsDisplay : A picture of it.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sksvi import CategoricalMixture
    >>> from sksvi.inspection import n_components_curve
    >>> rng = np.random.default_rng(0)
    >>> often = np.where(rng.random((200, 1)) < 0.4, 0.9, 0.2)
    >>> X = pd.DataFrame(np.where(rng.random((200, 6)) < often, "yes", "no"), columns=list("abcdef"))
    >>> table = n_components_curve(CategoricalMixture(random_state=0), X, [1, 2, 3])
    >>> int(table["bound"].idxmax()), int(table["bic"].idxmax())
    (2, 2)
    """
    check_in_memory(X=X)
    inner, steps, _ = unwrapped(estimator)
    if not hasattr(inner, "_size_criteria"):
        raise TypeError(f"{type(inner).__name__} has no number of components to choose here: give a mixture or topics.")
    for step in steps:
        X = clone(step).fit_transform(X)
    numbers = sorted({check_count(k, "n_components") for k in n_components})
    if not numbers:
        raise ValueError("n_components has no number: give those to compare, such as range(1, 7).")
    folds = _folds(n_rows(X), cv, random_state)
    found = {k: clone(inner).set_params(n_components=k)._size_criteria(X, folds) for k in numbers}
    table = pd.DataFrame.from_dict(found, orient="index").rename_axis("n_components")
    return _with_errors(table) if "score" in table else table


def _folds(n: int, cv: int, random_state: Any) -> list[tuple[Array, Array]]:
    """Rows to fit and to leave out, of each fold."""
    from sklearn.model_selection import KFold

    if not 2 <= check_count(cv, "cv") <= n:
        raise ValueError(f"cv={cv} must lie between 2 and the {n} rows.")
    return list(KFold(cv, shuffle=True, random_state=random_state).split(np.empty(n)))


def _with_errors(table: DataFrame) -> DataFrame:
    """Means of scores of folds, and the standard errors of their differences from the best."""
    scores = np.stack(list(table["score"]))
    off = scores - scores[scores.mean(1).argmax()]
    table["score"] = scores.mean(1)
    table.insert(1, "score_se", off.std(1, ddof=1) / np.sqrt(off.shape[1]))
    return table
