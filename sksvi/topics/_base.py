"""What topic models share: counts in, proportions out, completion scores, tables of words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_non_negative

from sksvi.estimators.base import BaseSVI
from sksvi.estimators.completion import halved
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.start import PORTION, Start
from sksvi.estimators.validation import validate_data
from sksvi.models.base import Table
from sksvi.predictive.coverage import tail_of

Array = np.ndarray


class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseSVI):
    """Counts of words by document; a subclass gives a document's proportions and the topics."""

    posterior_: Posterior
    components_: Array

    def _proportions(self, X: Any) -> tuple[Array, Array]:
        """Mean and standard deviation (n, K) of each document's proportions."""
        raise AttributeError(f"{type(self).__name__} has no proportions")

    # ---- rows
    def _encode(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Start) -> Table:
        if start is PORTION:
            self._grow(X)
        X = self._counts(X, reset=start.fresh)
        empty = int(np.sum(np.diff(X.indptr) == 0))
        if empty:
            warnings.warn(f"{empty} of {X.shape[0]} documents have no words: they get the prior.", UserWarning, 4)
        return Table(X, np.zeros(X.shape[0]))

    def _counts(self, X: Any, reset: bool) -> Any:
        """X as a CSR matrix of counts without stored zeros."""
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float64)
        check_non_negative(X, f"{type(self).__name__} (counts)")
        X = sp.csr_matrix(X, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        return X

    def _grow(self, X: Any) -> None:
        """A wider chunk brings new words after the known ones: they join the vocabulary."""
        from sklearn.utils.validation import _get_feature_names, _num_features

        names, known = _get_feature_names(X), getattr(self, "feature_names_in_", None)
        width, before = _num_features(X), self.n_features_in_
        if width <= before:
            return
        if known is not None and (names is None or not np.array_equal(names[:before], known)):
            raise ValueError(
                f"X has {width} columns and the first {before} are not the known words in their order: new words come "
                "after the known ones, under the same names."
            )
        self.n_features_in_ = width
        if known is not None:
            self.feature_names_in_ = names

    # ---- results
    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Posterior mean of each document's topic proportions.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts.
        return_std : bool, default=False
            Whether to return posterior standard deviations too.

        Returns
        -------
        proportions : ndarray of shape (n, K)
            Rows sum to 1.
        std : ndarray of shape (n, K)
            Only if ``return_std``.
        """
        check_is_fitted(self)
        mean, std = self._proportions(self._counts(X, reset=False))
        return (mean, std) if return_std else mean

    def log_predictive_density(self, X: Any, held_out: Any) -> Array:
        """Log probability of held-out words given the other words of each document.

        Σ_w c_w log Σ_k E[θ_k] E[β_kw] with the proportions' posterior given X: words are scored one by one, each
        integrated over both posteriors.

        Parameters
        ----------
        X, held_out : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts that are known, and counts to score.

        Returns
        -------
        density : ndarray of shape (n,)
            In nats; 0 where nothing is held out.
        """
        check_is_fitted(self)
        X, held = self._counts(X, reset=False), self._counts(held_out, reset=False)
        if X.shape[0] != held.shape[0]:
            raise ValueError(f"X has {X.shape[0]} documents and held_out {held.shape[0]}: they must be the same ones.")
        return self._word_scores(X, held)

    def _word_scores(self, X: Any, held: Any) -> Array:
        theta = self._proportions(X)[0]
        row = np.repeat(np.arange(held.shape[0]), np.diff(held.indptr))
        logs = np.empty(held.nnz)
        for part in (slice(a, a + 2**14) for a in range(0, held.nnz, 2**14)):
            logs[part] = np.log(np.einsum("ik,ki->i", theta[row[part]], self.components_[:, held.indices[part]]))
        return np.bincount(row, held.data * logs, held.shape[0])

    def score(self, X: Any, y: Any = None) -> float:
        """Held-out log likelihood per word by document completion.

        A fixed half of each document's distinct words gives the posterior of its proportions; the score is the mean log
        probability of the words of the other half.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)
            Counts.
        y : ignored

        Returns
        -------
        score : float
            Nats per word; higher is better.
        """
        check_is_fitted(self)
        observed, held = halved(self._counts(X, reset=False))
        if held.nnz == 0:
            raise ValueError("X has no words to score: every document is empty.")
        return float(self._word_scores(observed, held).sum() / held.sum())

    def perplexity(self, X: Any) -> float:
        """exp(-score): the number of equally likely words that held-out words are as hard to guess as.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, V)

        Returns
        -------
        perplexity : float
        """
        return float(np.exp(-self.score(X)))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _words(self, feature_names: Any = None) -> Array:
        if feature_names is None:
            feature_names = getattr(self, "feature_names_in_", None)
        if feature_names is None:
            return np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)
        names = np.asarray(feature_names, dtype=object)
        if names.shape != (self.n_features_in_,):
            raise ValueError(f"feature_names has shape {names.shape}, expected {(self.n_features_in_,)}.")
        return names

    def top_words(self, feature_names: Any = None, n: int = 10) -> Any:
        """The most probable words of each topic.

        Parameters
        ----------
        feature_names : array-like of shape (V,), default=None
            Words, for example ``vectorizer.get_feature_names_out()``; None: the names of X's columns.
        n : int, default=10

        Returns
        -------
        words : DataFrame
            A row per topic, the most probable word first.
        """
        import pandas as pd

        check_is_fitted(self)
        names = self._words(feature_names)
        order = np.argsort(-self.components_, axis=1, kind="stable")[:, :n]
        return pd.DataFrame(names[order], index=pd.Index(self.get_feature_names_out(), name="topic"))

    def summary(self, coverage: float = 0.9, n: int = 10) -> Any:
        """Posterior of the probabilities of each topic's most probable words.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        n : int, default=10
            Words per topic.

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, by topic and word.
        """
        import pandas as pd
        from scipy.stats import beta

        check_is_fitted(self)
        block, tail = self.posterior_["topics"], tail_of(coverage)
        order = np.argsort(-self.components_, axis=1, kind="stable")[:, :n]
        mean, std = (np.take_along_axis(part, order, 1).ravel() for part in (self.components_, block.std))
        table = {"mean": mean, "std": std, "lower": mean, "upper": mean}
        if np.any(std > 0):  # points have no spread
            own = np.take_along_axis(block.concentration, order, 1)
            law = beta(own.ravel(), np.maximum(block.total - own, np.finfo(float).tiny).ravel())
            table |= {"lower": law.ppf(tail), "upper": law.ppf(1 - tail)}
        words = self._words()[order]
        pairs = [(topic, word) for topic, row in zip(self.get_feature_names_out(), words, strict=True) for word in row]
        return pd.DataFrame(table, index=pd.MultiIndex.from_tuples(pairs, names=["topic", "word"]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
