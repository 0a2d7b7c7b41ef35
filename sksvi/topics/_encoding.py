"""What documents fix: the vocabulary, to which the columns of later ones are aligned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _get_feature_names

from sksvi._runtime.user import warn_user
from sksvi.estimators.checks import check_counts, n_rows
from sksvi.estimators.encoding import GivenRows, Part, RowEncoding, TypedTable
from sksvi.estimators.validation import check_table, validate_data
from sksvi.models.data import Table
from sksvi.partitions.collections import is_collection, partitions
from sksvi.partitions.summary import DataSummary, Total

Array = np.ndarray

#: Words that a warning names.
EXAMPLES = 5


@dataclass(frozen=True)
class Vocabulary(RowEncoding):
    """Words of the columns of documents; new ones join it in a stream.

    Parameters
    ----------
    n_words : int
    words : ndarray of shape (n_words,) or None
        None: columns have no names.
    """

    LAYOUT = "n_words count v; words? labels v"

    #: Those that proportions depend on.
    covariates = cast(Any, None)

    n_words: int
    words: Array | None = None

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> Table:
        """Counts of documents, a column per word; those of a chunk may bring new words."""
        X = cls.counts(estimator, given.X, fixed, grows=fixed is not None and not (part.whole or part.remote))
        return Table(X, np.zeros(X.shape[0]))

    @classmethod
    def counts(cls, estimator: Any, X: Any, fixed: Vocabulary | None, grows: bool = False) -> Any:
        """X as a CSR matrix of counts without stored zeros, a column per word.

        Names and number of columns that are new go to the estimator, as scikit-learn's validation leaves them.
        """
        words, vocabulary = words_of(X), None if fixed is None else fixed.words
        if words is None or vocabulary is None:
            if grows and (sp.issparse(X) or n_rows(X)):  # scikit-learn names what has no rows
                shaped = (np.ndim(X) == 2 and hasattr(X, "shape")) or sp.issparse(X)
                widen(estimator, (X if shaped else check_table(X, dtype=np.float64)).shape[1], vocabulary)
            X = validate_data(estimator, X, reset=fixed is None, accept_sparse="csr", dtype=np.float64)
            if fixed is None and words is not None:
                estimator.feature_names_in_ = words
        else:
            X = check_table(X, accept_sparse="csr", dtype=np.float64, estimator=estimator)
        check_counts(X, "X", type(estimator).__name__, words)
        X = sp.csr_matrix(X, copy=True)
        if words is not None and vocabulary is not None:
            X = aligned(estimator, X, words, vocabulary, grows)
        X.eliminate_zeros()
        return with_short_indices(X)

    @classmethod
    def own_summary(cls, estimator: Any, rows: Table) -> dict[str, Any]:
        """Number of documents without words."""
        return {"empty": Total(int(np.sum(np.diff(rows.X.indptr) == 0)))}

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """The words of the documents."""
        cls.warn_of(estimator, summary)
        return cls(summary.n_columns, summary.features.get("feature_names_in_"))

    @classmethod
    def warn_of(cls, estimator: Any, summary: DataSummary) -> None:
        """Warnings about documents."""
        empty = summary.own["empty"].value
        if empty:
            warn_user(f"{empty} of {summary.n} documents have no words: they get the prior.")

    def updated(self, estimator: Any, summary: DataSummary, share: float) -> Self:
        """The vocabulary with new words."""
        self.warn_of(estimator, summary)
        return replace(self, n_words=summary.n_columns, words=summary.features.get("feature_names_in_"))

    def stored(self, data: Table) -> Table:
        """A copy of the counts, whose numbers may be the user's."""
        return replace(data, X=data.X.copy())


@dataclass(frozen=True)
class TypedVocabulary(Vocabulary):
    """Words of documents whose counts may be in single precision.

    Parameters
    ----------
    n_words, words
        As of `Vocabulary`.
    dtype : str
    """

    LAYOUT = Vocabulary.LAYOUT + "; dtype text where it in ('float32', 'float64')"

    dtype: str = "float64"

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> Table:
        """Counts of documents, with the type that they came in."""
        rows = super().read(estimator, given, fixed, part)
        dtype = "float32" if getattr(given.X, "dtype", None) == np.float32 else "float64"
        return TypedTable(rows.X, rows.y, dtype=dtype)

    @classmethod
    def own_summary(cls, estimator: Any, rows: Table) -> dict[str, Any]:
        """Number of documents without words, and of counts that are no whole numbers."""
        return {**super().own_summary(estimator, rows), "fractions": Total(n_fractions(rows.X))}

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """The words of the documents, and the type of their counts."""
        return replace(super().fit(estimator, summary), dtype=np.dtype(summary.dtype).name)

    @classmethod
    def warn_of(cls, estimator: Any, summary: DataSummary) -> None:
        """Warnings about documents, and about fractions that a sampler rounds."""
        super().warn_of(estimator, summary)
        if estimator.local_step == "gibbs":
            warn_of_fractions(summary.own["fractions"].value, 'local_step="gibbs"')

    def encode(self, estimator: Any, rows: Table, part: Part) -> Table:
        """The counts alone."""
        return Table(rows.X, rows.y)


def n_fractions(X: Any) -> int:
    """Number of counts that are no whole numbers."""
    return int(np.count_nonzero(X.data != np.floor(X.data)))


def warn_of_fractions(n: int, what: str) -> None:
    """Warn of counts that are no whole numbers; what: who rounds them."""
    if n:
        warn_user(
            f"X has counts that are no whole numbers: {what} rounds each up with the probability of its fraction; "
            'local_step="cvb0" and "mean-field", and means of proportions, take fractions as they are.'
        )


def aligned(estimator: Any, X: Any, words: Array, vocabulary: Array, grows: bool) -> Any:
    """The columns in the order of the vocabulary; new words join it, or are left out."""
    if np.array_equal(words, vocabulary):
        return X
    place = places(words, vocabulary)
    new = np.flatnonzero(place < 0)
    if grows and len(new):
        place[new] = np.arange(len(vocabulary), len(vocabulary) + len(new))
        estimator.feature_names_in_ = np.concatenate([vocabulary, words[new]])
        estimator.n_features_in_ = len(estimator.feature_names_in_)
    elif len(new):
        warn_of_unknown(words[new], X[:, new], type(estimator).__name__)
    return moved(X, place, estimator.n_features_in_)


def widen(estimator: Any, width: int, vocabulary: Array | None) -> None:
    """Without names, a wider chunk brings new words after the known ones: they join the vocabulary."""
    if width <= estimator.n_features_in_:
        return
    if vocabulary is not None:
        raise ValueError(
            f"X has {width} columns without names and the {estimator.n_features_in_} known words have names: name "
            "X's columns, or give feature_names."
        )
    estimator.n_features_in_ = width


def with_short_indices(X: Any) -> Any:
    """CSR with indices of 32 bits where they are enough, for which loops are compiled once."""
    if max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:
        X.indices, X.indptr = (part.astype(np.int32, copy=False) for part in (X.indices, X.indptr))
    return X


# ---- words of columns
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
