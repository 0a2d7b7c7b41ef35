"""Words of columns: counts are aligned with a vocabulary by name, in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _get_feature_names

from sksvi._runtime.user import warn_user
from sksvi.estimators.validation import check_table
from sksvi.partitions.collections import is_collection, partitions

Array = np.ndarray

#: Words that a warning names.
EXAMPLES = 5


class WordCounts(sp.csr_matrix):
    """Counts whose columns are words; plain counts once they are validated."""

    words: Array


def named(X: Any, feature_names: Any) -> Any:
    """X with the words of its columns, where they are given.

    Raises
    ------
    ValueError
        For names that are no strings or not one per column, or where X has other names of its own.
    """
    if feature_names is None:
        return X
    if is_collection(X):
        return NamedCollection(X, feature_names)
    own, words = _get_feature_names(X), np.array(feature_names, dtype=object)
    counts = WordCounts(check_table(X, accept_sparse="csr", dtype=[np.float64, np.float32]))
    if words.shape != (counts.shape[1],):
        raise ValueError(f"feature_names has shape {words.shape}, expected {(counts.shape[1],)}: a word per column.")
    strange = [word for word in words if not isinstance(word, str)]
    if strange:
        raise ValueError(f"feature_names must be strings; found {strange[0]!r}.")
    if own is not None and not np.array_equal(own, words):
        raise ValueError("feature_names are not the names of X's columns: leave them out, or rename the columns.")
    counts.words = words
    return counts


class NamedCollection:
    """A Dask collection whose partitions have words for columns.

    Parameters
    ----------
    X : collection
    feature_names : array-like of shape (V,)
    """

    def __init__(self, X: Any, feature_names: Any) -> None:
        self.X, self.feature_names, self.npartitions = X, feature_names, X.npartitions

    def __dask_graph__(self) -> Any:
        return self.X.__dask_graph__()

    def simplify(self) -> NamedCollection:
        """The collection itself: the graph of X is simplified when its partitions are requested."""
        return self

    def to_delayed(self, optimize_graph: bool = True) -> list[Any]:
        """The partitions with their words."""
        from dask import delayed

        return [delayed(named, pure=False)(part, self.feature_names) for part in partitions(self.X, "X")]


def words_of(X: Any) -> Array | None:
    """The words of X's columns, or None.

    Raises
    ------
    ValueError
        For a word that two columns have.
    """
    words = X.words if isinstance(X, WordCounts) else _get_feature_names(X)
    if words is not None and len(set(words)) < len(words):
        found, count = np.unique(words.astype(str), return_counts=True)
        raise ValueError(f"Columns must be different words; found {str(found[count > 1][0])!r} more than once.")
    return words


def places(words: Array, vocabulary: Array) -> Array:
    """Index of each word in the vocabulary; -1 for a new one."""
    import pandas as pd

    return pd.Index(vocabulary).get_indexer(pd.Index(words))


def moved(counts: Any, place: Array, width: int) -> Any:
    """The counts with each column at its place, those at -1 left out."""
    cells = counts.tocoo()
    in_vocabulary = place[cells.col] >= 0
    return sp.csr_matrix(
        (cells.data[in_vocabulary], (cells.row[in_vocabulary], place[cells.col[in_vocabulary]])),
        shape=(counts.shape[0], width),
    )


def warn_of_unknown(words: Array, counts: Any, estimator: str) -> None:
    """Say which words are ignored, and how many of the counts they hold."""
    examples = ", ".join(repr(str(word)) for word in words[:EXAMPLES]) + (", ..." if len(words) > EXAMPLES else "")
    warn_user(
        f"{len(words)} of X's words are unknown to this {estimator} and are ignored, with {counts.sum():g} counts: "
        f"{examples}. partial_fit learns new words."
    )
