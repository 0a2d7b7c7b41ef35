"""Scores of recommended items against the pairs of users and items that turned out to be true."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from sksvi._typing.arrays import ArrayLike, MatrixLike
from sksvi.estimators.checks import check_count

Array = np.ndarray


def precision_score(y_true: MatrixLike, recommended: MatrixLike, *, k: int = 10) -> float:
    """Share of the first k recommended items of a user that are among the user's true ones, a mean over users.

    Parameters
    ----------
    y_true : {DataFrame, array-like} of shape (n, 2)
        True pairs, such as those held out: user and item. Pairs that occur twice count once.
    recommended : {DataFrame, array-like} of shape (m, 2) or more columns
        User and item in the first two columns, as `recommend` gives: a column ``rank`` has the order of each user's
        items, else it is that of the rows. Users without true pairs are left out.
    k : int, default=10
        Recommended items of a user that count; a user with fewer is short of hits, not of k.

    Returns
    -------
    float
        In [0, 1]. Users of `y_true` who are recommended nothing have 0.

    Raises
    ------
    ValueError
        Other numbers or names of columns, missing ids, an item recommended twice to a user, no user in both tables
        (ids may be of different types), or a k below 1.

    References
    ----------
    Manning, Raghavan and Schütze (2008), "Introduction to information retrieval", section 8.4.

    Examples
    --------
    >>> from sksvi.metrics import precision_score
    >>> precision_score([("a", 1), ("b", 2)], [("a", 1), ("a", 3), ("b", 3), ("b", 1)], k=2)
    0.25
    """
    hits, _ = _hits(y_true, recommended, k)
    return float(hits.mean())


def recall_score(y_true: MatrixLike, recommended: MatrixLike, *, k: int = 10) -> float:
    """Share of a user's true items that are among the first k recommended ones, a mean over users.

    With one true item for each user, as where the last one is left out, it is the hit rate.

    Parameters
    ----------
    y_true : {DataFrame, array-like} of shape (n, 2)
        True pairs: user and item. See `precision_score`.
    recommended : {DataFrame, array-like} of shape (m, 2) or more columns
        User and item, and perhaps ``rank``, as `recommend` gives.
    k : int, default=10
        Recommended items of a user that count. A user with more than k true ones cannot reach 1.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        As `precision_score`.

    References
    ----------
    Manning, Raghavan and Schütze (2008), "Introduction to information retrieval", section 8.4.

    Examples
    --------
    >>> from sksvi.metrics import recall_score
    >>> recall_score([("a", 1), ("b", 2)], [("a", 1), ("a", 3), ("b", 3), ("b", 1)], k=2)
    0.5
    """
    hits, n_true = _hits(y_true, recommended, k)
    return float((hits.sum(1) / n_true).mean())


def ndcg_score(y_true: MatrixLike, recommended: MatrixLike, *, k: int = 10) -> float:
    """Discounted gain of the first k recommended items over that of the best order, a mean over users.

    A true item at rank j gains 1 / log2(j + 1), others nothing; the best order has the user's true items first.

    Parameters
    ----------
    y_true : {DataFrame, array-like} of shape (n, 2)
        True pairs: user and item. See `precision_score`.
    recommended : {DataFrame, array-like} of shape (m, 2) or more columns
        User and item, and perhaps ``rank``, as `recommend` gives.
    k : int, default=10
        Recommended items of a user that count.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        As `precision_score`.

    References
    ----------
    Järvelin and Kekäläinen (2002), "Cumulated gain-based evaluation of IR techniques".

    Examples
    --------
    >>> from sksvi.metrics import ndcg_score
    >>> round(ndcg_score([("a", 1), ("b", 2)], [("a", 3), ("a", 1), ("b", 2), ("b", 1)], k=2), 3)
    0.815
    """
    hits, n_true = _hits(y_true, recommended, k)
    discount = 1.0 / np.log2(np.arange(hits.shape[1]) + 2.0)
    return float((hits @ discount / np.cumsum(discount)[np.minimum(n_true, k) - 1]).mean())


def average_precision_score(y_true: MatrixLike, recommended: MatrixLike, *, k: int = 10) -> float:
    """Precision at the rank of each hit among the first k, summed over min(k, true items): its mean over users.

    Known as MAP@k.

    Parameters
    ----------
    y_true : {DataFrame, array-like} of shape (n, 2)
        True pairs: user and item. See `precision_score`.
    recommended : {DataFrame, array-like} of shape (m, 2) or more columns
        User and item, and perhaps ``rank``, as `recommend` gives.
    k : int, default=10
        Recommended items of a user that count.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        As `precision_score`.

    References
    ----------
    Manning, Raghavan and Schütze (2008), "Introduction to information retrieval", section 8.4.

    Examples
    --------
    >>> from sksvi.metrics import average_precision_score
    >>> average_precision_score([("a", 1), ("b", 2)], [("a", 3), ("a", 1), ("b", 2), ("b", 1)], k=2)
    0.75
    """
    hits, n_true = _hits(y_true, recommended, k)
    precision = np.cumsum(hits, 1) / np.arange(1, k + 1)
    return float(((precision * hits).sum(1) / np.minimum(n_true, k)).mean())


def catalogue_coverage(items: ArrayLike, recommended: MatrixLike, *, k: int = 10) -> float:
    """Share of a catalogue's items that are among the first k of at least one user.

    Parameters
    ----------
    items : array-like of shape (c,)
        Ids of the catalogue, such as ``items_`` of a fit.
    recommended : {DataFrame, array-like} of shape (m, 2) or more columns
        User and item, and perhaps ``rank``, as `recommend` gives.
    k : int, default=10
        Recommended items of a user that count.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        An empty catalogue, an item recommended that is not in it, or as `precision_score`.

    References
    ----------
    Ge, Delgado-Battenfeld and Jannach (2010), "Beyond accuracy: evaluating recommender systems by coverage and
    serendipity".

    Examples
    --------
    >>> from sksvi.metrics import catalogue_coverage
    >>> catalogue_coverage([1, 2, 3, 4], [("a", 1), ("a", 3), ("b", 3), ("b", 1)], k=2)
    0.5
    """
    import pandas as pd

    k, table, ids = check_count(k, "k"), _ranks(recommended), cast(Any, items)
    catalogue = pd.Series(list(ids), dtype=object).unique()
    if not len(catalogue):
        raise ValueError("items is empty: name the items of the catalogue.")
    unknown = ~table["item"].isin(catalogue)
    if unknown.any():
        raise ValueError(f"recommended has the item {table.loc[unknown, 'item'].iloc[0]!r}, which is none of `items`.")
    return table.loc[table["rank"] < k, "item"].nunique() / len(catalogue)


# ---- tables
def _hits(y_true: Any, recommended: Any, k: int) -> tuple[Array, Array]:
    """Whether the item at each rank is true (n_users, k), for users with true pairs, and how many pairs each has."""
    k, true, table = check_count(k, "k"), _pairs(y_true, "y_true"), _ranks(recommended)
    names = [list(part.columns[:2]) for part in (y_true, recommended) if hasattr(part, "iloc")]
    if len(names) == 2 and names[0] != names[1]:
        raise ValueError(
            f"y_true begins with the columns {names[0]}, recommended with {names[1]}: both take user, then item, named "
            "alike."
        )
    counts = true.drop_duplicates().groupby("user", sort=False).size()
    if not table["user"].isin(counts.index).any():
        raise ValueError(
            f"no user of y_true ({counts.index[0]!r}, ...) is among those of recommended ({table['user'].iloc[0]!r}, "
            "...): are their ids of one type?"
        )
    found = table[table["rank"] < k].merge(true.drop_duplicates(), on=["user", "item"])
    hits = np.zeros((len(counts), k))
    hits[counts.index.get_indexer(found["user"]), found["rank"]] = 1.0
    return hits, counts.to_numpy()


def _pairs(X: Any, name: str) -> Any:
    """Frame of users and items: the first two columns of a table."""
    import pandas as pd

    table = X if hasattr(X, "iloc") else pd.DataFrame(X if isinstance(X, np.ndarray) else list(X))
    if table.ndim != 2 or table.shape[1] < 2 or not len(table):
        raise ValueError(f"{name} has shape {table.shape}; it takes a table of pairs: user and item in each row.")
    found = pd.DataFrame({"user": list(table.iloc[:, 0]), "item": list(table.iloc[:, 1])}, dtype=object)
    for side in found:
        if found[side].isna().any():
            raise ValueError(f"{name} has no {side} in row {int(found[side].isna().to_numpy().argmax())}.")
    return found


def _ranks(recommended: Any) -> Any:
    """Frame of users, items and ranks from 0: by a column ``rank``, or in the order of the rows."""
    table = _pairs(recommended, "recommended")
    twice = table.duplicated()
    if twice.any():
        user, item = table[twice].iloc[0]
        raise ValueError(f"recommended has the item {item!r} twice for the user {user!r}: one rank each.")
    if "rank" in getattr(recommended, "columns", ()):
        table = table.iloc[np.argsort(np.asarray(recommended["rank"]), kind="stable")]
    return table.assign(rank=table.groupby("user", sort=False).cumcount().to_numpy())
